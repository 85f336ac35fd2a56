"""Tree search: several agents grow one tree of solutions (MARTI-MARS2, arXiv 2602.07848)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, ClassVar

from gymnasium import Space
from gymnasium.spaces import Discrete
from pydantic import Field, JsonValue, PositiveInt

from mars_env.envs.solve import Written
from mars_env.envs.spaces import UnicodeText
from mars_env.envs.specs import preset_settings
from mars_env.envs.visibility import Visibility, VisibilitySettings
from mars_env.errors import ConfigError
from mars_env.search import Search, SearchSettings
from mars_env.text import shown
from mars_env.types import Action, Grade, Observation, Problem, Reward, Turn


class TreeSearchSettings(VisibilitySettings):
    """How a tree is searched, what the search may see, and how it chooses its answer."""

    nodes: PositiveInt = 60
    """Expansions in all (the paper: 60 in evaluation, 8 in training)."""
    tokens: PositiveInt | None = None
    """No new wave once this many tokens were sampled, a verifier's included."""
    algorithm: str = "ab-mcts-a"
    """A search of `mars_env.search`: ``best-of-n``, ``refinement``, ``uct``, ``treequest:ABMCTSM`` ..."""
    options: Mapping[str, JsonValue] = Field(default_factory=dict)
    """The algorithm's own settings."""
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


EVALUATION = TreeSearchSettings()
"""The paper's search at test time."""

TRAINING = TreeSearchSettings(nodes=8, wave=1, early_stop=False, sees="grade")
"""The paper's search in training: 8 nodes, scored by all tests."""

T_PLUS = TreeSearchSettings(depth_decay=0.98, early_stop=False, final="reward-model")
"""MARS2-T+: feedback, depth-guided exploration, and at the end a reward model (which must be given), which
chooses among all candidates of the whole budget."""

_PRESETS = {"evaluation": EVALUATION, "training": TRAINING, "t-plus": T_PLUS}
_ROLES = {"code": "coder", "math": "solver"}


def searched(turn: Turn, path: Sequence[Turn], problem: Problem) -> float | None:
    """The step reward of a node: its search score, which in training is that of all tests."""
    return turn.search_score


@dataclass(frozen=True, slots=True)
class TreeSearch:
    """The rules of one expansion of a node by one agent: generate at the root, refine elsewhere.

    Which node and which agent is the search's choice (`mars_env.envs.search_grower`); played without one,
    the agents take turns at refining one solution.

    Example:
        >>> rules = TreeSearch.from_settings(agents=2)
        >>> node = rules.apply(rules.start(Problem("p", "2 + 2?", "4")), Action("5"), None)
        >>> seen = rules.observe(rules.with_feedback(node, "No final answer could be read."), "solver_1")
        >>> seen["mode"], seen["solution"], seen["feedback"]
        ('refine', '5', 'No final answer could be read.')
    """

    possible_agents: tuple[str, ...] = ("solver_0",)
    settings: TreeSearchSettings = EVALUATION
    Settings: ClassVar[type[TreeSearchSettings]] = TreeSearchSettings
    rewards: ClassVar[Mapping[str, Reward]] = MappingProxyType({"coder": searched, "solver": searched})
    grower: ClassVar[str] = "mars_env.envs.search_grower:SearchGrower"
    training: ClassVar[Mapping[str, Any]] = MappingProxyType({"schedule": "training"})
    recipe: ClassVar[str] = "MARS2"
    team_size: ClassVar[str] = "agents"
    parts: ClassVar[Mapping[str, str]] = MappingProxyType(
        {
            "verifier": "mars_env.agents.registry:make_verifier",
            "reward_model": "mars_env.agents.reward_model:make_reward_model",
            "search_grader": "mars_env.envs.game:as_grader",
        }
    )

    @classmethod
    def from_settings(
        cls,
        schedule: str | Mapping[str, Any] | TreeSearchSettings = "evaluation",
        *,
        kind: str = "math",
        agents: int = 1,
        **settings: Any,
    ) -> "TreeSearch":
        """The rules of MARTI-MARS2.

        Args:
            schedule: ``"evaluation"``, ``"training"`` or ``"t-plus"``, or settings.
            kind: Of the problems; agents are coders for ``"code"`` and solvers for ``"math"``.
            agents: How many there are.
            **settings: Single settings of `TreeSearchSettings` that replace the schedule's.
        """
        made = preset_settings(_PRESETS, schedule, settings, "tree-search", ("agents",))
        if type(agents) is not int or agents < 1:
            raise ConfigError(f"a tree search needs at least one agent, got agents={shown(agents)}")
        names = tuple(f"{_ROLES.get(kind, 'solver')}_{i}" for i in range(agents))
        Search(made.search(), names, seed=0)  # an unknown algorithm or option fails here, not in play
        return cls(names, made)

    def visibility(self, kind: str) -> Visibility:
        """What the search may see on problems of a kind."""
        return self.settings.visibility(kind)

    @property
    def max_turns(self) -> int:
        """As many as the tree has nodes."""
        return self.settings.nodes

    def fields(self, agent: str) -> Mapping[str, Space[Any]]:
        """The problem and its kind; the mode; the node's solution, whether it was cut off, and feedback."""
        texts = dict.fromkeys(("problem", "kind", "mode", "solution", "feedback"), UnicodeText())
        return {**texts, "truncated": Discrete(2), "depth": Discrete(self.settings.nodes + 1)}

    def start(self, problem: Problem) -> Written:
        """The root: nothing is written yet."""
        return Written(problem)

    def current_agent(self, state: Written) -> str | None:
        """The agents in turn, where no search chooses; None once there are as many turns as nodes."""
        full = state.depth >= self.settings.nodes
        return None if full else self.possible_agents[state.depth % len(self.possible_agents)]

    def observe(self, state: Written, agent: str) -> Observation:
        """The node, the same for every agent."""
        return {
            "problem": state.problem.statement,
            "kind": state.problem.kind,
            "mode": "refine" if state.depth else "generate",
            "solution": state.solution,
            "truncated": int(state.truncated),
            "feedback": state.feedback,
            "depth": state.depth,
        }

    def submission(self, state: Written, action: Action) -> str | None:
        """Every solution is graded."""
        return action.text

    def note(self, state: Written, action: Action) -> Mapping[str, Any]:
        """The mode, the new node's depth, and whether the text was cut off."""
        mode = "refine" if state.depth else "generate"
        return {"mode": mode, "depth": state.depth + 1, "truncated": action.truncated}

    def apply(self, state: Written, action: Action, grade: Grade | None) -> Written:
        """The new node, as yet without feedback; the grade plays no part."""
        return Written(state.problem, action.text, action.truncated, "", state.depth + 1)

    def with_feedback(self, state: Written, feedback: str) -> Written:
        """The node with its feedback, for the agent that refines it; unchanged where feedback is off."""
        return replace(state, feedback=feedback) if feedback and self.settings.feedback else state

    def final(self, state: Written) -> int | None:
        """The last solution, where no search chooses."""
        return state.depth - 1 if state.depth else None
