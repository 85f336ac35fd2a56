"""Gym-style multi-agent environments for mathematics and code reasoning.

    import mars_env
    env = mars_env.make("aime-solve-verify-correct")

Importing the package registers its environments with PettingZoo and Gymnasium, imported before or after it.
Everything else is imported on first use.
"""

from functools import partial
from typing import TYPE_CHECKING

from mars_env.lazy import after_import, import_object, lazy_names

if TYPE_CHECKING:
    from mars_env.api import aevaluate as aevaluate
    from mars_env.api import compare as compare
    from mars_env.api import evaluate as evaluate
    from mars_env.api import load_problems as load_problems
    from mars_env.api import make as make
    from mars_env.envs.aec import MarsEnv as MarsEnv
    from mars_env.envs.game_function import game as game
    from mars_env.envs.gymnasium_view import as_gymnasium as as_gymnasium
    from mars_env.envs.registry import EnvSpec as EnvSpec
    from mars_env.envs.registry import list_envs as list_envs
    from mars_env.envs.registry import register as register
    from mars_env.envs.registry import spec as spec
    from mars_env.envs.rules import Reply as Reply
    from mars_env.envs.rules import ask as ask
    from mars_env.problems.registry import register_problem_set as register_problem_set
    from mars_env.serving.answering import solve as solve
    from mars_env.trainers.front import train as train
    from mars_env.types import Action as Action
    from mars_env.types import Completion as Completion
    from mars_env.types import Grade as Grade
    from mars_env.types import Group as Group
    from mars_env.types import Problem as Problem
    from mars_env.types import Sampling as Sampling
    from mars_env.types import Tree as Tree
    from mars_env.types import Turn as Turn
    from mars_env.types import Verdict as Verdict

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_names(__name__)


def _register(library: str) -> None:
    import_object(f"mars_env.envs.registry:register_with_{library}")()


for _library in ("pettingzoo", "gymnasium"):
    after_import(_library, partial(_register, _library))
