"""Solve, verify, correct: the rules of MarsRL (arXiv 2511.11373).

A Solver writes a solution; a Verifier judges it; a Corrector rewrites what was judged wrong.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, ClassVar, Literal

from gymnasium import Space
from gymnasium.spaces import Discrete
from pydantic import BaseModel, ConfigDict, NonNegativeInt, PositiveInt

from mars_env.envs.search_graders import public_grader
from mars_env.envs.spaces import UnicodeText
from mars_env.envs.verdicts import bug_report, read_judgement
from mars_env.envs.visibility import Visibility
from mars_env.errors import ConfigError
from mars_env.text import shown, validation_message
from mars_env.types import Action, Grade, Observation, Problem

SOLVER, VERIFIER, CORRECTOR = "solver_0", "verifier_0", "corrector_0"


class Schedule(BaseModel):
    """Who acts how often. The two presets carry the paper's numbers.

    Example:
        >>> INFERENCE.verifications, TRAINING.verifications
        (11, 2)
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

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
class State:
    """A position in the episode.

    Attributes:
        solutions: All solutions so far, the current one last, each with whether it was cut off.
        judgements: All verifications so far: (index of the solution judged, passed).
        report: The last Verifier's text, as the Corrector reads it.
        feedback: Results of the current solution's public tests, where they are run.
    """

    problem: Problem
    solutions: tuple[tuple[str, bool], ...] = ()
    judgements: tuple[tuple[int, bool], ...] = ()
    report: str = ""
    feedback: str = ""

    @property
    def judged(self) -> bool:
        """Whether the current solution has been judged at least once."""
        return bool(self.judgements) and self.judgements[-1][0] == len(self.solutions) - 1

    @property
    def passes(self) -> int:
        """Passes of the current solution, in a row up to now."""
        current, count = len(self.solutions) - 1, 0
        for index, passed in reversed(self.judgements):
            if not passed or index != current:
                break
            count += 1
        return count

    @property
    def failures(self) -> int:
        """Failures in a row up to now, over all solutions."""
        count = 0
        for _, passed in reversed(self.judgements):
            if passed:
                break
            count += 1
        return count


@dataclass(frozen=True, slots=True)
class SolveVerifyCorrect:
    r"""The rules, under one `Schedule`.

    Attributes:
        schedule: Who acts how often.
        public_feedback: Whether the Verifier reads the results of a program's public tests (`with_feedback`).

    Example:
        >>> rules = SolveVerifyCorrect(TRAINING)
        >>> state = rules.start(Problem("p", "What is 2 + 2?", "4"))
        >>> state = rules.apply(state, Action("5"), None)
        >>> rules.current_agent(state)
        'verifier_0'
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
    ) -> SolveVerifyCorrect:
        """The rules of MarsRL.

        Args:
            schedule: ``"inference"``, ``"training"`` or your own numbers.
            public_feedback: Whether the Verifier reads the results of a program's public tests.
            **numbers: Single numbers of `Schedule` that replace the schedule's.

        Raises:
            ConfigError: A setting is wrong.

        Example:
            >>> SolveVerifyCorrect.from_settings("training", rounds=1).schedule.rounds
            1
        """
        if not isinstance(public_feedback, bool):
            raise ConfigError(f"public_feedback is true or false, got {shown(public_feedback)}")
        presets = {"inference": INFERENCE, "training": TRAINING}
        base = presets.get(schedule) if isinstance(schedule, str) else schedule
        if not isinstance(base, Schedule | Mapping):
            raise ConfigError(
                f"schedule must be 'inference', 'training' or a Schedule, got {shown(schedule)}"
            )
        base = base.model_dump() if isinstance(base, Schedule) else base
        try:
            return cls(Schedule(**{**base, **numbers}), public_feedback)
        except ValueError as error:
            known = ("schedule", "public_feedback", *Schedule.model_fields)
            raise ConfigError(
                f"these settings do not fit solve-verify-correct: {validation_message(error, known)}"
            ) from error

    def visibility(self, kind: str) -> Visibility | None:
        """Feedback by public tests, if it is asked for: from a grader that is given no others.

        Raises:
            ConfigError: The problems are not code.

        Example:
            >>> SolveVerifyCorrect(public_feedback=True).visibility("code").sees
            'public'
        """
        if not self.public_feedback:
            return None
        if kind != "code":
            raise ConfigError(
                f"public_feedback=True runs the public tests of programs, and problems of {kind} have none: "
                "leave it out, or choose a problem set of code"
            )
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

    def start(self, problem: Problem) -> State:
        """Nothing has been written yet."""
        return State(problem)

    def current_agent(self, state: State) -> str | None:
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

    def observe(self, state: State, agent: str) -> Observation:
        """The agent's fields; before there is a solution, feedback or a report they are empty texts."""
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

    def submission(self, state: State, action: Action) -> str | None:
        """Solutions are graded, the first one and every correction; reports are not."""
        return None if self.current_agent(state) == VERIFIER else action.text

    def note(self, state: State, action: Action) -> Mapping[str, Any]:
        """The round; whether the text was cut off; for a Verifier the verdict as it was read."""
        notes: dict[str, Any] = {"round": len(state.judgements), "truncated": action.truncated}
        if self.current_agent(state) == VERIFIER:
            judgement = read_judgement(action.text)
            notes["verdict"] = "Correct" if judgement.passed else "Wrong"
            notes["malformed"] = judgement.malformed
        return notes

    def apply(self, state: State, action: Action, grade: Grade | None) -> State:
        """Add the solution or the judgement; the grade plays no part."""
        if self.current_agent(state) == VERIFIER:
            judged = (len(state.solutions) - 1, read_judgement(action.text).passed)
            judgements = (*state.judgements, judged)
            return replace(state, judgements=judgements, report=bug_report(action.text))
        solutions = (*state.solutions, (action.text, action.truncated))
        return State(state.problem, solutions, state.judgements, state.report)

    def with_feedback(self, state: State, feedback: str) -> State:
        """The state with the feedback of the current solution's public tests."""
        return replace(state, feedback=feedback) if feedback else state

    def final(self, state: State) -> int | None:
        """The accepted solution, else the one most often judged correct, the earliest of equals.

        A correction that ends the chain was never judged: then it is the answer.
        """
        if not state.solutions:
            return None
        if state.passes >= self.schedule.accept_after or not state.judged:
            return len(state.solutions) - 1
        passes = Counter(index for index, passed in state.judgements if passed)
        return max(range(len(state.solutions)), key=lambda index: (passes[index], -index))
