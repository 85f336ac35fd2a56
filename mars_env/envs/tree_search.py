"""Tree search: several agents grow one tree of solutions (MARTI-MARS2, arXiv 2602.07848)."""

from collections import Counter
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any, Final

from pydantic import Field, JsonValue, PositiveInt, model_validator

from mars_env.envs.game_function import game
from mars_env.envs.growers import Expansion, TreeNode, child_ids
from mars_env.envs.rules import Play, Rules, ask
from mars_env.envs.visibility import VisibilitySettings, search_result
from mars_env.errors import ConfigError
from mars_env.search import Search, SearchSettings
from mars_env.seeds import derive_seed
from mars_env.types import Problem, Turn


class TreeSearchSettings(VisibilitySettings):
    """How a tree is searched, what the search may see, and how it chooses its answer."""

    kind: str = "math"
    """Of the problems: agents are coders for ``"code"``, else solvers."""
    agents: PositiveInt = 1
    nodes: PositiveInt = 60
    """Expansions in all (the paper: 60 in evaluation, 8 in training)."""
    tokens: PositiveInt | None = None
    """No new wave once this many tokens were sampled, a verifier's included."""
    algorithm: str = "ab-mcts-a"
    """A search of `mars_env.search`: ``best-of-n``, ``refinement``, ``uct``, ``treequest:ABMCTSM`` ..."""
    options: Mapping[str, JsonValue] = Field(default_factory=dict)
    wave: PositiveInt = 4
    """Expansions of one tree that are decided together and run in parallel."""
    as_completed: bool = False
    """Decide each expansion as soon as there is room for it; the tree then depends on timing."""
    early_stop: bool = True
    """Stop once a node has the search score 1."""
    feedback: bool = True
    """Whether an agent that refines a solution reads feedback on it (MARS2-T+)."""
    depth_decay: float | None = None
    """Depth-guided exploration (MARS2-T+ takes 0.98); an option of AB-MCTS-A."""

    def search(self) -> SearchSettings:
        """The settings of the search itself."""
        options = dict(self.options)
        if self.depth_decay is not None:
            options["depth_decay"] = self.depth_decay
        return SearchSettings(
            algorithm=self.algorithm,
            options=options,
            calls=self.nodes,
            tokens=self.tokens,
            stop_at=1.0 if self.early_stop else None,
            wave=None if self.as_completed else self.wave,
            as_completed=self.as_completed,
        )

    @model_validator(mode="after")
    def _searchable(self) -> "TreeSearchSettings":
        """An unknown algorithm or option fails here, not in play."""
        Search(self.search(), [*searchers(self)], seed=0)
        return self


class SearchGrower:
    """Grows one tree as its search decides; sees search scores, feedback and costs, never a grade.

    All turns of a tree are one group (MARS2 compares them with each other). The search is a function of its
    seed and results, so a tree is resumed by giving it the stored turns again. An expansion whose search
    score is unknown counts as lost; one that could not be made at all ends the search.
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
        for call in self._search.ask(k):
            parent = self._nodes[call.parent]
            ids = child_ids(parent, self._children[call.parent], 1)
            self._children[call.parent] += 1
            self._under_way[ids[0]] = call.id
            orders.append(Expansion(parent, call.agent, ids, self._tree, {"call": call.id}))
        return orders

    def tell(self, expansion: Expansion, nodes: Sequence[TreeNode] | None) -> None:
        """Tell the search the new node's score and cost; without a node, the search ends."""
        call = self._under_way.pop(expansion.id)
        if nodes is None:
            self._broken = True
            return
        (node,) = nodes
        assert node.turn is not None
        self._nodes[call] = node
        self._search.tell(call, *search_result(node.turn))

    def final(self) -> str | None:
        """The node with the highest search score, the first of equals, once all results have arrived."""
        best = None if self._under_way else self._search.best()
        return None if best is None else self._nodes[best].id


PRESETS: Final[Mapping[str, Mapping[str, Any]]] = {
    "evaluation": {},
    "training": {"nodes": 8, "wave": 1, "early_stop": False, "sees": "grade"},
    "t-plus": {"depth_decay": 0.98, "early_stop": False, "final": "reward-model"},
}
"""The paper's search at test time; in training, of 8 nodes, scored by all tests; and MARS2-T+, which needs a
reward model: in the end it chooses among all candidates of the whole budget."""

FIELDS: Final = ["problem", "kind", "mode", "solution", "truncated", "feedback"]


def searched(turn: Turn, path: Sequence[Turn], problem: Problem) -> float | None:
    """The step reward of a node: its search score, which in training is that of all tests."""
    return turn.search_score


def searcher(settings: TreeSearchSettings) -> str:
    """The role of all agents."""
    return "coder" if settings.kind == "code" else "solver"


def searchers(settings: TreeSearchSettings) -> dict[str, str]:
    """The agents, with their classes."""
    role = searcher(settings)
    return {f"{role}_{i}": f"mars_env.agents:{role.title()}" for i in range(settings.agents)}


@game(
    max_turns=attrgetter("nodes"),
    roles=searchers,
    fields={"coder": FIELDS, "solver": FIELDS},
    rewards={"coder": searched, "solver": searched},
    grower=SearchGrower,
    visibility=TreeSearchSettings.visibility,
    presets=PRESETS,
    parts={
        "verifier": "mars_env.agents.registry:make_verifier",
        "reward_model": "mars_env.agents.reward_model:make_reward_model",
        "search_grader": "mars_env.envs.game:as_grader",
    },
    team_size="agents",
    recipe="MARS2",
)
def tree_search(problem: Problem, settings: TreeSearchSettings) -> Play:
    """A path of the tree: an agent generates a solution, and agents refine it.

    A search chooses which node grows, and by whom (`SearchGrower`); without one, agents take turns.
    """
    anyone = searcher(settings)
    fields: dict[str, Any] = {"problem": problem.statement, "kind": problem.kind}
    node = yield ask(anyone, **fields, mode="generate", info={"mode": "generate", "depth": 1})
    for depth in range(2, settings.nodes + 1):
        fields |= {"solution": node.text, "feedback": node.feedback if settings.feedback else ""}
        info = {"mode": "refine", "depth": depth}
        node = yield ask(anyone, **fields, mode="refine", truncated=node.truncated, info=info)
    return node
