"""Rules of the games, rewards, growers, the PettingZoo shell and the registry."""

from typing import TYPE_CHECKING

from mars_env.lazy import lazy_names

if TYPE_CHECKING:
    from mars_env.envs.aec import MarsEnv as MarsEnv
    from mars_env.envs.evidence import Evidence as Evidence
    from mars_env.envs.game import Game as Game
    from mars_env.envs.game import make_game as make_game
    from mars_env.envs.growers import Expansion as Expansion
    from mars_env.envs.growers import Grouped as Grouped
    from mars_env.envs.growers import GroupedSettings as GroupedSettings
    from mars_env.envs.growers import Grower as Grower
    from mars_env.envs.growers import Linear as Linear
    from mars_env.envs.growers import Node as Node
    from mars_env.envs.growers import grouped as grouped
    from mars_env.envs.players import FunctionAgent as FunctionAgent
    from mars_env.envs.players import as_agent as as_agent
    from mars_env.envs.players import cast as cast
    from mars_env.envs.registry import list_envs as list_envs
    from mars_env.envs.registry import register as register
    from mars_env.envs.registry import register_rules as register_rules
    from mars_env.envs.registry import spec as spec
    from mars_env.envs.rewards import agreement as agreement
    from mars_env.envs.rewards import outcome as outcome
    from mars_env.envs.rewards import team_outcome as team_outcome
    from mars_env.envs.rules import Rules as Rules
    from mars_env.envs.search_grower import SearchGrower as SearchGrower
    from mars_env.envs.selection import Choice as Choice
    from mars_env.envs.selection import First as First
    from mars_env.envs.selection import Highest as Highest
    from mars_env.envs.selection import Ratings as Ratings
    from mars_env.envs.selection import RewardModel as RewardModel
    from mars_env.envs.selection import Selection as Selection
    from mars_env.envs.selection import Vote as Vote
    from mars_env.envs.solve import Solve as Solve
    from mars_env.envs.solve_verify_correct import INFERENCE as INFERENCE
    from mars_env.envs.solve_verify_correct import TRAINING as TRAINING
    from mars_env.envs.solve_verify_correct import Schedule as Schedule
    from mars_env.envs.solve_verify_correct import SolveVerifyCorrect as SolveVerifyCorrect
    from mars_env.envs.spaces import UnicodeText as UnicodeText
    from mars_env.envs.specs import EnvSpec as EnvSpec
    from mars_env.envs.specs import RulesSpec as RulesSpec
    from mars_env.envs.tree_search import TreeSearch as TreeSearch
    from mars_env.envs.tree_search import TreeSearchSettings as TreeSearchSettings

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "Choice": "mars_env.envs.selection",
        "EnvSpec": "mars_env.envs.specs",
        "Evidence": "mars_env.envs.evidence",
        "Expansion": "mars_env.envs.growers",
        "First": "mars_env.envs.selection",
        "FunctionAgent": "mars_env.envs.players",
        "Game": "mars_env.envs.game",
        "Grouped": "mars_env.envs.growers",
        "GroupedSettings": "mars_env.envs.growers",
        "Grower": "mars_env.envs.growers",
        "Highest": "mars_env.envs.selection",
        "INFERENCE": "mars_env.envs.solve_verify_correct",
        "Linear": "mars_env.envs.growers",
        "MarsEnv": "mars_env.envs.aec",
        "Node": "mars_env.envs.growers",
        "Ratings": "mars_env.envs.selection",
        "RewardModel": "mars_env.envs.selection",
        "Rules": "mars_env.envs.rules",
        "RulesSpec": "mars_env.envs.specs",
        "Schedule": "mars_env.envs.solve_verify_correct",
        "SearchGrower": "mars_env.envs.search_grower",
        "Selection": "mars_env.envs.selection",
        "Solve": "mars_env.envs.solve",
        "SolveVerifyCorrect": "mars_env.envs.solve_verify_correct",
        "TRAINING": "mars_env.envs.solve_verify_correct",
        "TreeSearch": "mars_env.envs.tree_search",
        "TreeSearchSettings": "mars_env.envs.tree_search",
        "UnicodeText": "mars_env.envs.spaces",
        "Vote": "mars_env.envs.selection",
        "agreement": "mars_env.envs.rewards",
        "as_agent": "mars_env.envs.players",
        "cast": "mars_env.envs.players",
        "grouped": "mars_env.envs.growers",
        "list_envs": "mars_env.envs.registry",
        "make_game": "mars_env.envs.game",
        "outcome": "mars_env.envs.rewards",
        "register": "mars_env.envs.registry",
        "register_rules": "mars_env.envs.registry",
        "spec": "mars_env.envs.registry",
        "team_outcome": "mars_env.envs.rewards",
    },
)
