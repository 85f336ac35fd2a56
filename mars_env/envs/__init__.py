"""What writing a game takes, and the library's games. Growers, searches and more are in their own modules."""

from typing import TYPE_CHECKING

from mars_env.lazy import lazy_names

if TYPE_CHECKING:
    from mars_env.envs.aec import MarsEnv as MarsEnv
    from mars_env.envs.game import Game as Game
    from mars_env.envs.game import make_game as make_game
    from mars_env.envs.game_function import GameFunction as GameFunction
    from mars_env.envs.growers import GroupedSettings as GroupedSettings
    from mars_env.envs.growers import chains as chains
    from mars_env.envs.growers import grouped as grouped
    from mars_env.envs.marsrl import solve_verify_correct as solve_verify_correct
    from mars_env.envs.registry import EnvSpec as EnvSpec
    from mars_env.envs.registry import register as register
    from mars_env.envs.registry import spec as spec
    from mars_env.envs.rewards import agreement as agreement
    from mars_env.envs.rewards import outcome as outcome
    from mars_env.envs.rewards import team_outcome as team_outcome
    from mars_env.envs.rules import Play as Play
    from mars_env.envs.rules import Reply as Reply
    from mars_env.envs.rules import ask as ask
    from mars_env.envs.solving import self_refine as self_refine
    from mars_env.envs.solving import solve as solve

__getattr__, __dir__, __all__ = lazy_names(__name__)
