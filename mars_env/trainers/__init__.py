"""Training: one loop, recipes as data, advantages and losses; imported as `mars_env.trainers`."""

if __name__ == "trainers":
    raise ImportError("import it as mars_env.trainers: under the bare name everything would exist twice")

from typing import TYPE_CHECKING

from mars_env.lazy import lazy_names

if TYPE_CHECKING:
    from mars_env.trainers.config import Overlong as Overlong
    from mars_env.trainers.config import TrainConfig as TrainConfig
    from mars_env.trainers.config import TreeCredit as TreeCredit
    from mars_env.trainers.local import LocalTrainer as LocalTrainer
    from mars_env.trainers.loop import fit as fit
    from mars_env.trainers.loop import train as train
    from mars_env.trainers.policy import Policy as Policy
    from mars_env.trainers.recipes import MARS2 as MARS2
    from mars_env.trainers.recipes import MARSRL as MARSRL
    from mars_env.trainers.recipes import RunSettings as RunSettings
    from mars_env.trainers.run_file import load_run as load_run
    from mars_env.trainers.samplers import Refresher as Refresher
    from mars_env.trainers.team import Team as Team
    from mars_env.trainers.team import make_team as make_team

__getattr__, __dir__, __all__ = lazy_names(__name__)
