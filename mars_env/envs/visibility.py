"""What agents and searches may see of a judgement. To look for leaks, read this module from top to bottom.

**The rule.** Nothing that acts, searches or chooses gets a grade, a reward, a reference or a private test.
The one exception is a search that may see the grade: to train, which an evaluation rejects, or as an oracle,
which its report names. (MarsRL's `Grouped` rollouts, whose trees have no answer, choose by rewards too.
SPELL's Verifier reads the answer that its Questioner made, not the reference of a problem set.)

A submission is judged twice. Its *grade* is the truth: the reference, all tests. Its *search grade* is what
may be seen: from a second grader, which gets a `visible_problem`, or, under the exception, the grade itself.
What goes on from there passes `search_record`, `search_result`, `visible_turns` or `next_state`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, PositiveInt

from mars_env.envs.rewards import REWARD_FAULT
from mars_env.envs.rules import Rules, State
from mars_env.envs.search_graders import AnswerGrader, RewardModelGrader, VerifierGrader, public_grader
from mars_env.envs.selection import VOTED, First, Highest, Selection, Vote
from mars_env.errors import ConfigError
from mars_env.text import brief, counted
from mars_env.types import Agent, Grade, Grader, Problem, RewardModel, Turn, Verdict

T = TypeVar("T")

SEARCH_UNKNOWN = "search_unknown"
"""Key of a turn's info: why its search score is UNKNOWN."""

Sees = Literal["grade", "public", "grader", "verifier", "reward-model", "answers"]

_NAMES: Mapping[Sees, str] = {
    "grade": "the grade itself",
    "public": "the public tests",
    "grader": "a grader of its own",
    "verifier": "a verifier's verdicts",
    "reward-model": "a reward model's ratings",
    "answers": "whether an answer can be read",
}

_HOW_TO_RUN = {
    *("form", "time_limit", "memory_limit", "exact", "tolerance", "comparison", "checker", "prelude"),
    *("fn_name", "method", "integer_keys", "entry_point", "imports", "prompt"),
}
"""Fields of a code problem's reference that say how its tests are run; all others are secret."""

EXAMPLES = "examples"
"""Key of a problem's metadata: tests, all public, of a question without a reference, in the form of one."""


@dataclass(frozen=True, slots=True)
class Visibility:
    """What is visible in a game beside the agents' own texts.

    Attributes:
        sees: Where search scores and feedback come from.
        grader: Gives the search grade; None where that is the grade itself.
        selection: Makes the final choice; None where nothing is searched, and only feedback is visible.
        oracle: Whether an evaluation may see the grade.
    """

    sees: Sees
    grader: Grader | None = None
    selection: Selection | None = field(default_factory=First)
    oracle: bool = False

    @property
    def searched(self) -> bool:
        """Whether a search sees it."""
        return self.selection is not None

    @property
    def named(self) -> str:
        """What is seen, in words."""
        return _NAMES[self.sees]

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of a report must know."""
        if self.sees == "grade":
            return ("ORACLE: the search saw the grades of its nodes; this is not a result at test time",)
        if not self.searched:
            return (f"The agents read the results of {self.named}; grades only score it",)
        final = type(self.selection).__name__.lower()
        return (f"The search saw {self.named}; final choice: {final}; grades only score it",)

    def validate_problems(self, problems: Iterable[Problem]) -> None:
        """Reject an evaluation in which agents would see the truth, or have nothing to see."""
        oracle = "or set oracle=True, which the report then says"
        if self.sees == "grade" and not self.oracle:
            why = f"a search that sees grades is for training: leave out schedule='training', {oracle}"
        elif self.sees == "answers" and isinstance(self.selection, First):
            how = "set final='vote', verifier=, reward_model= or search_grader="
            why = f"nothing tells this search how good an answer is: {how}, {oracle}"
        elif self.sees == "grade" and any(p.reference is None for p in problems):
            why = "this search sees grades, and a problem without a reference has none: leave out oracle=True"
        elif self.sees == "public" and (
            bare := [problem.id for problem in problems if not public_tests(problem)]
        ):
            other = f"set sees='verifier' or 'reward-model', {oracle}"
            advice = other if self.searched else "leave out public_feedback"
            none = f"{counted(len(bare), 'problem')} without any, such as {brief(bare[0])}"
            why = f"public tests are all that may be seen here, and there is {none}: {advice}"
        else:
            return
        raise ConfigError(why)


def visible_problem(problem: Problem, truncated: bool = False) -> Problem:
    """The problem as a search may know it: of its reference the public tests alone.

    Its metadata only say whether the submission was `truncated`, cut off at its length limit.

    Example:
        >>> visible_problem(Problem("p", "2 + 2?", "4", metadata={"solution": "4"})).reference is None
        True
    """
    tests = public_tests(problem)
    reference = None
    if tests:
        how = {name: value for name, value in _tested(problem).items() if name in _HOW_TO_RUN}
        reference = {**how, "tests": tests, "solutions": []}
    metadata = {"truncated": True} if truncated else {}
    return Problem(problem.id, problem.statement, reference, problem.kind, metadata)


def public_tests(problem: Problem) -> list[Mapping[str, object]]:
    """The public tests of a code problem."""
    tests = _tested(problem).get("tests")
    if not isinstance(tests, list | tuple):
        return []
    return [test for test in tests if isinstance(test, Mapping) and test.get("public") is True]


def _tested(problem: Problem) -> Mapping[str, Any]:
    """The reference of a code problem, or the examples of one without; empty where there is neither."""
    reference = problem.metadata.get(EXAMPLES) if problem.reference is None else problem.reference
    return reference if problem.kind == "code" and isinstance(reference, Mapping) else {}


def search_record(
    visibility: Visibility | None, search_grade: Grade | None
) -> tuple[float | None, dict[str, Any]]:
    """What a turn records of its search grade: the score, and in its info feedback, cost, and why UNKNOWN."""
    if visibility is None or search_grade is None:
        return None, {}
    unknown = search_grade.reason if search_grade.verdict is Verdict.UNKNOWN else ""
    feedback, tokens = search_grade.feedback, search_grade.tokens
    info = {"feedback": feedback, "search_tokens": tokens, SEARCH_UNKNOWN: unknown}
    score = search_grade.score if visibility.searched else None
    return score, {name: value for name, value in info.items() if value}


def search_result(turn: Turn) -> tuple[float | None, int]:
    """What a search learns of a turn: its search score (None if unknown), and all tokens that it took."""
    sampled = sum(c.sampled_tokens for c in turn.action.completions)
    return turn.search_score, sampled + int(turn.info.get("search_tokens", 0))


def visible_turns(turns: Sequence[Turn]) -> list[Turn]:
    """The turns as a final choice may know them: no grade, no reward, nor why a reward failed."""
    return [replace(turn, grade=None, reward=None, info=visible_info(turn)) for turn in turns]


def visible_info(turn: Turn) -> dict[str, Any]:
    """A turn's info without messages of code that knows the reference: why a reward or score is missing."""
    return {key: value for key, value in turn.info.items() if key not in (REWARD_FAULT, SEARCH_UNKNOWN)}


def next_state(
    rules: Rules,
    visibility: Visibility | None,
    state: State,
    turn: Turn,
    note: Mapping[str, Any] | None = None,
) -> State:
    """The state after a turn, with its feedback where that is visible; `note` is the rules' own, if at hand.

    A game gets the grade too; its contract (`mars_env.testing.check_game`) forbids that an observation
    depends on it.
    """
    after = rules.apply(state, turn.action, turn.grade, note)
    return after if visibility is None else rules.with_feedback(after, str(turn.info.get("feedback", "")))


class VisibilitySettings(BaseModel):
    """What a search may see, and how it makes its final choice, as a user says it."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, arbitrary_types_allowed=True)

    sees: Literal["auto"] | Sees = "auto"
    """Where search scores come from. ``auto``: a `search_grader` if there is one; else public tests for code;
    for mathematics the `verifier`, else the `reward_model`, else the answers alone."""
    score: Literal["all", "fraction"] = "all"
    """Search score by public tests: 1 if all pass, else 0 (the paper); or the share that passes."""
    search_grader: Grader | None = None
    """Judges what the search may see; gets problems without references, but with public tests."""
    verifier: Agent | None = None
    verdicts: PositiveInt = 1
    """Verdicts of the verifier on each solution; the share that passes is the search score."""
    reward_model: RewardModel | None = None
    final: Literal["auto", "first", "vote", "reward-model"] = "auto"
    """The choice among the nodes with the highest search score. ``auto``: by the reward model if there is
    one (MARS2-T+), else a vote in mathematics and the first one in code."""
    oracle: bool = False
    """Let an evaluation see the grade: an upper bound, and the report says so."""

    def visibility(self, kind: str) -> Visibility:
        """What the search may see on problems of this kind, and how it makes its final choice."""
        sees = self._sees(kind)
        return Visibility(sees, self._grader(sees, kind), self._selection(kind), self.oracle)

    def _sees(self, kind: str) -> Sees:
        if self.oracle:
            return "grade"
        if self.sees != "auto":
            return self.sees
        if self.search_grader is not None:
            return "grader"
        if kind == "code":
            return "public"
        if self.verifier is not None:
            return "verifier"
        return "answers" if self.reward_model is None else "reward-model"

    def _grader(self, sees: Sees, kind: str) -> Grader | None:
        if sees == "public" and kind != "code":
            raise ConfigError(f"sees='public' means public tests, which problems of {kind} do not have")
        if sees == "public":
            return public_grader(self.score)
        if sees == "grader":
            return _require_part(self.search_grader, "sees='grader'", "search_grader")
        if sees == "verifier":
            return VerifierGrader(_require_part(self.verifier, "sees='verifier'", "verifier"), self.verdicts)
        if sees == "reward-model":
            return RewardModelGrader(_require_part(self.reward_model, "sees='reward-model'", "reward_model"))
        return AnswerGrader() if sees == "answers" else None

    def _selection(self, kind: str) -> Selection:
        final = self.final
        if final == "auto":
            final = "reward-model" if self.reward_model else "vote" if kind == "math" else "first"
        if final == "reward-model":
            return Highest(_require_part(self.reward_model, "final='reward-model'", "reward_model"))
        if final == "vote" and kind not in VOTED:
            raise ConfigError(f"final='vote' counts answers, which problems of the kind {brief(kind)} lack")
        return Vote() if final == "vote" else First()


def _require_part(value: T | None, option: str, name: str) -> T:
    if value is None:
        raise ConfigError(f"{option} needs {name}=")
    return value
