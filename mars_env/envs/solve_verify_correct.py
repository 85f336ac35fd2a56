"""Solve, verify, correct: the rules of MarsRL (arXiv 2511.11373)."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import takewhile
from types import MappingProxyType
from typing import Any, ClassVar, Literal

from gymnasium import Space
from gymnasium.spaces import Discrete
from pydantic import BaseModel, NonNegativeInt, PositiveInt

from mars_env.envs.search_graders import public_grader
from mars_env.envs.spaces import UnicodeText
from mars_env.envs.specs import preset_settings
from mars_env.envs.verdicts import bug_report, read_judgement
from mars_env.envs.visibility import Visibility
from mars_env.errors import ConfigError
from mars_env.text import shown
from mars_env.types import Action, Grade, Observation, Problem

SOLVER, VERIFIER, CORRECTOR = "solver_0", "verifier_0", "corrector_0"


class Schedule(BaseModel, frozen=True, extra="forbid", strict=True):
    """Who acts how often. The two presets carry the paper's numbers."""

    rounds: NonNegativeInt = 10
    """At most this many rounds of (correct if judged wrong; verify again) after the first verification;
    with ``ends_with="corrector"``, of (verify; correct)."""
    accept_after: PositiveInt = 4
    """A solution is accepted after this many passes in a row."""
    give_up_after: PositiveInt = 10
    """The episode ends after this many failures in a row."""
    ends_with: Literal["verifier", "corrector"] = "verifier"
    """Whether the last correction is verified (inference) or ends the chain (training: S, V, C, V, C)."""

    @property
    def verifications(self) -> int:
        """The most verifications an episode can have."""
        return self.rounds + (self.ends_with == "verifier")


INFERENCE = Schedule()
"""The paper's inference loop: at most 11 verifications."""

TRAINING = Schedule(rounds=2, accept_after=1, ends_with="corrector")
"""The paper's training chain S, V, C, V, C, stopped early when the Verifier accepts."""


@dataclass(frozen=True, slots=True)
class ChainState:
    """A position in the episode."""

    problem: Problem
    solutions: tuple[tuple[str, bool], ...] = ()  # each with whether it was cut off
    judgements: tuple[tuple[int, bool], ...] = ()  # (index of the solution judged, passed)
    report: str = ""  # the last Verifier's, as the Corrector reads it
    feedback: str = ""  # results of the current solution's public tests, where they are run

    @property
    def judged(self) -> bool:
        """Whether the current solution has been judged at least once."""
        return bool(self.judgements) and self.judgements[-1][0] == len(self.solutions) - 1

    @property
    def passes(self) -> int:
        """Passes of the current solution, in a row up to now."""
        passing = (len(self.solutions) - 1, True)
        return len([*takewhile(passing.__eq__, reversed(self.judgements))])

    @property
    def failures(self) -> int:
        """Failures in a row up to now, over all solutions."""
        return len([*takewhile(lambda judgement: not judgement[1], reversed(self.judgements))])


@dataclass(frozen=True, slots=True)
class SolveVerifyCorrect:
    r"""A Solver writes a solution; a Verifier judges it; a Corrector rewrites what was judged wrong.

    With `public_feedback`, the Verifier reads the results of a program's public tests.

    Example:
        >>> rules = SolveVerifyCorrect(TRAINING)
        >>> state = rules.start(Problem("p", "What is 2 + 2?", "4"))
        >>> state = rules.apply(state, Action("5"), None)
        >>> state = rules.apply(state, Action("2 + 2 is not 5.\nCorrectness: Wrong"), None)
        >>> rules.current_agent(state), rules.observe(state, "corrector_0")["report"]
        ('corrector_0', '2 + 2 is not 5.\nCorrectness: Wrong')
    """

    schedule: Schedule = INFERENCE
    public_feedback: bool = False
    possible_agents: ClassVar[tuple[str, ...]] = (SOLVER, VERIFIER, CORRECTOR)
    Settings: ClassVar[type[Schedule]] = Schedule
    training: ClassVar[Mapping[str, Any]] = MappingProxyType({"schedule": "training"})

    @classmethod
    def from_settings(
        cls,
        schedule: str | Mapping[str, Any] | Schedule = "inference",
        *,
        public_feedback: bool = False,
        **numbers: Any,
    ) -> "SolveVerifyCorrect":
        """The rules of MarsRL.

        Args:
            schedule: ``"inference"``, ``"training"`` or your own numbers.
            public_feedback: Whether the Verifier reads the results of a program's public tests.
            **numbers: Single numbers of `Schedule` that replace the schedule's.

        """
        if not isinstance(public_feedback, bool):
            raise ConfigError(f"public_feedback is true or false, got {shown(public_feedback)}")
        presets = {"inference": INFERENCE, "training": TRAINING}
        named = preset_settings(presets, schedule, numbers, "solve-verify-correct", ("public_feedback",))
        return cls(named, public_feedback)

    def visibility(self, kind: str) -> Visibility | None:
        """Feedback by public tests, if it is asked for: from a grader that is given no others."""
        if not self.public_feedback:
            return None
        if kind != "code":
            raise ConfigError(f"public_feedback= needs public tests, which problems of {kind} do not have")
        return Visibility("public", public_grader("all"), selection=None)

    @property
    def max_turns(self) -> int:
        """A solution, every verification, and a correction a round."""
        return 1 + self.schedule.verifications + self.schedule.rounds

    def fields(self, agent: str) -> Mapping[str, Space[Any]]:
        """Solver: the problem; Verifier: and the solution, feedback if any; Corrector: and the bug report."""
        fields: dict[str, Space[Any]] = {"problem": UnicodeText()}
        if agent != SOLVER:
            fields |= {"solution": UnicodeText(), "truncated": Discrete(2)}
            fields |= {"round": Discrete(self.schedule.verifications + 1)}
        if agent == VERIFIER and self.public_feedback:
            fields["feedback"] = UnicodeText()
        if agent == CORRECTOR:
            fields["report"] = UnicodeText()
        return fields

    def start(self, problem: Problem) -> ChainState:
        """Nothing has been written yet."""
        return ChainState(problem)

    def current_agent(self, state: ChainState) -> str | None:
        """Solver first; then the Verifier, or the Corrector after a failure; None at the end."""
        schedule = self.schedule
        if not state.solutions:
            return SOLVER
        if state.passes >= schedule.accept_after or state.failures >= schedule.give_up_after:
            return None
        verifications_left = len(state.judgements) < schedule.verifications
        if state.judged and not state.judgements[-1][1]:
            return CORRECTOR if verifications_left or schedule.ends_with == "corrector" else None
        return VERIFIER if verifications_left else None

    def observe(self, state: ChainState, agent: str) -> Observation:
        """The agent's fields; before there is a solution, feedback or a report they are empty."""
        observation: dict[str, str | int] = {"problem": state.problem.statement}
        if agent != SOLVER:
            solution, truncated = state.solutions[-1] if state.solutions else ("", False)
            observation |= {"solution": solution, "truncated": int(truncated)}
            observation["round"] = len(state.judgements)
        if agent == VERIFIER and self.public_feedback:
            observation["feedback"] = state.feedback
        if agent == CORRECTOR:
            observation["report"] = state.report
        return observation

    def submission(self, state: ChainState, action: Action) -> str | None:
        """Solutions are graded, the first one and every correction; reports are not."""
        return None if self.current_agent(state) == VERIFIER else action.text

    def note(self, state: ChainState, action: Action) -> Mapping[str, Any]:
        """The round; whether the text was cut off; for a Verifier the verdict as it was read."""
        notes: dict[str, Any] = {"round": len(state.judgements), "truncated": action.truncated}
        if self.current_agent(state) == VERIFIER:
            judgement = read_judgement(action.text)
            notes["verdict"] = "Correct" if judgement.passed else "Wrong"
            notes["malformed"] = judgement.malformed
        return notes

    def apply(self, state: ChainState, action: Action, grade: Grade | None) -> ChainState:
        """Add the solution or the judgement; the grade plays no part."""
        if self.current_agent(state) == VERIFIER:
            judged = (len(state.solutions) - 1, read_judgement(action.text).passed)
            judgements = (*state.judgements, judged)
            return replace(state, judgements=judgements, report=bug_report(action.text))
        solutions = (*state.solutions, (action.text, action.truncated))
        return ChainState(state.problem, solutions, state.judgements, state.report)

    def with_feedback(self, state: ChainState, feedback: str) -> ChainState:
        """The state with the feedback of the current solution's public tests."""
        return replace(state, feedback=feedback) if feedback else state

    def final(self, state: ChainState) -> int | None:
        """The accepted solution, else the one most often judged correct, the earliest of equals.

        A correction that ends the chain was never judged: then it is the answer.
        """
        if not state.solutions:
            return None
        if state.passes >= self.schedule.accept_after or not state.judged:
            return len(state.solutions) - 1
        passes = Counter(index for index, passed in state.judgements if passed)
        return max(range(len(state.solutions)), key=lambda index: (passes[index], -index))
