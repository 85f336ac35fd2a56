"""The grower of a tree search: a policy of `mars_env.search` decides which node gets a child, and whose."""

from collections import Counter
from collections.abc import Sequence

from mars_env.envs.growers import Expansion, TreeNode, child_ids
from mars_env.envs.rules import Rules
from mars_env.envs.tree_search import TreeSearchSettings
from mars_env.envs.visibility import search_result
from mars_env.errors import ConfigError
from mars_env.search import Search
from mars_env.seeds import derive_seed
from mars_env.types import Problem


class SearchGrower:
    """Grows one tree as its search decides; sees search scores, feedback and costs, never a grade.

    All turns of a tree are one group (MARS2 compares them with each other). The search is a function of its
    seed and of the results that it gets, so a tree is resumed by giving it the stored turns again. An
    expansion whose search score is unknown counts as lost. One that could not be made at all ends the search,
    and a resumed run plays the tree again.
    """

    def __init__(self, rules: Rules, problem: Problem, tree: str, seed: int) -> None:
        settings = rules.settings
        if not isinstance(settings, TreeSearchSettings):
            raise ConfigError(
                f"a search needs a game whose settings are TreeSearchSettings: {rules.name} is none"
            )
        self._settings, self._tree = settings, tree
        self._search = Search(settings.search(), rules.possible_agents, derive_seed(seed, tree, "search"))
        self._nodes: dict[int | None, TreeNode] = {None: TreeNode(None, rules.start(problem))}
        self._children: Counter[int | None] = Counter()
        self._under_way: dict[str, int] = {}
        self._broken = False

    def ask(self, k: int) -> list[Expansion]:
        """At most k expansions; with `as_completed`, enough to keep one wave of them running."""
        if self._settings.as_completed:
            k = min(k, self._settings.wave - len(self._under_way))
        if k < 1 or self._broken:
            return []
        orders = []
        for ask in self._search.ask(k):
            parent = self._nodes[ask.parent]
            ids = child_ids(parent, self._children[ask.parent], 1)
            self._children[ask.parent] += 1
            self._under_way[ids[0]] = ask.id
            orders.append(Expansion(parent, ask.agent, ids, self._tree, {"call": ask.id}))
        return orders

    def tell(self, expansion: Expansion, nodes: Sequence[TreeNode] | None) -> None:
        """Tell the search the new node's score and cost; without a node, the search ends."""
        ask = self._under_way.pop(expansion.id)
        if nodes is None:
            self._broken = True
            return
        (node,) = nodes
        turn = node.turn
        if turn is None:
            raise ConfigError(f"the expansion {expansion.id} was returned without its turn")
        self._nodes[ask] = node
        self._search.tell(ask, *search_result(turn))

    def final(self) -> str | None:
        """The node with the highest search score, the first of equals, once all results have arrived."""
        best = None if self._under_way else self._search.best()
        return None if best is None else self._nodes[best].id
