"""Tree-search policies with an ask/tell interface: seeded, in place, and independent of language models."""

from mars_env.search.ab_mcts import ABMCTSA, ABMCTSASettings
from mars_env.search.algorithm import Algorithm, Ask
from mars_env.search.baselines import BestOfN, BestOfNSettings, Refinement, RefinementSettings
from mars_env.search.posteriors import BetaPrior, GaussianPrior
from mars_env.search.registry import ALGORITHMS, make_algorithm, register_algorithm
from mars_env.search.search import Search, SearchSettings
from mars_env.search.tree_of_thoughts import TreeOfThoughts, TreeOfThoughtsSettings
from mars_env.search.treequest import TreeQuest
from mars_env.search.uct import UCT, UCTSettings

__all__ = [
    "ABMCTSA",
    "ALGORITHMS",
    "UCT",
    "ABMCTSASettings",
    "Algorithm",
    "Ask",
    "BestOfN",
    "BestOfNSettings",
    "BetaPrior",
    "GaussianPrior",
    "Refinement",
    "RefinementSettings",
    "Search",
    "SearchSettings",
    "TreeOfThoughts",
    "TreeOfThoughtsSettings",
    "TreeQuest",
    "UCTSettings",
    "make_algorithm",
    "register_algorithm",
]
