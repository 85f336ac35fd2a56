"""Tree-search policies with an ask/tell interface: seeded, in place, and independent of language models."""

from typing import TYPE_CHECKING

from mars_env.lazy import lazy_names

if TYPE_CHECKING:
    from mars_env.search.ab_mcts import ABMCTSA as ABMCTSA
    from mars_env.search.ab_mcts import ABMCTSASettings as ABMCTSASettings
    from mars_env.search.algorithm import Algorithm as Algorithm
    from mars_env.search.algorithm import Ask as Ask
    from mars_env.search.baselines import BestOfN as BestOfN
    from mars_env.search.baselines import BestOfNSettings as BestOfNSettings
    from mars_env.search.baselines import Refinement as Refinement
    from mars_env.search.baselines import RefinementSettings as RefinementSettings
    from mars_env.search.posteriors import BetaPrior as BetaPrior
    from mars_env.search.posteriors import GaussianPrior as GaussianPrior
    from mars_env.search.registry import ALGORITHMS as ALGORITHMS
    from mars_env.search.registry import make_algorithm as make_algorithm
    from mars_env.search.registry import register_algorithm as register_algorithm
    from mars_env.search.search import Search as Search
    from mars_env.search.search import SearchSettings as SearchSettings
    from mars_env.search.tree_of_thoughts import TreeOfThoughts as TreeOfThoughts
    from mars_env.search.tree_of_thoughts import TreeOfThoughtsSettings as TreeOfThoughtsSettings
    from mars_env.search.treequest import TreeQuest as TreeQuest
    from mars_env.search.uct import UCT as UCT
    from mars_env.search.uct import UCTSettings as UCTSettings

__getattr__, __dir__, __all__ = lazy_names(__name__)
