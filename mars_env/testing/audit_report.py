"""What an audit has found: what each policy may earn, and a row for each policy and role."""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from math import inf
from statistics import fmean

from mars_env.evaluation.tables import Table
from mars_env.testing.audit_policies import CONTROL, COPY, CORRECT, INTEGER, KNOWS, WRONG, as_answer
from mars_env.text import counted, one_line
from mars_env.types import Problem, Tree, Turn, role_of

_FULL = 0.9  # the share of a role's largest reward that a right text must get
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Played:
    """A turn of the agent that follows a policy, its tree, and the number of its partners' team."""

    policy: str
    team: int
    tree: Tree
    turn: Turn

    @property
    def place(self) -> tuple[str, str, int]:
        """Agent, problem and team: what has the same partners."""
        return self.turn.agent, self.turn.problem_id, self.team

    @property
    def judged(self) -> float | None:
        """The score of the last solution that another agent wrote before the turn; None if there is none."""
        before = (each for each in self.tree.turns if self.turn.id.startswith(f"{each.id}."))
        scores = [score_of(each) for each in before if each.agent != self.turn.agent]
        return next((score for score in reversed(scores) if score is not None), None)

    @property
    def helped(self) -> bool:
        """Whether a partner wrote a right solution."""
        return any(score_of(each) for each in self.tree.turns if each.agent != self.turn.agent)


def score_of(turn: Turn) -> float | None:
    """The score of a turn's grade; None if it has none."""
    return None if turn.grade is None else turn.grade.score


@dataclass(frozen=True, slots=True)
class AuditRow:
    """What a policy earned in a role.

    Attributes:
        reward: The mean over its turns; of the policy that knows the reference, over its best texts.
        chance: What it may earn; of the policy that knows the reference, what it must.
        finding: What is wrong; `problem` and the shortest `text` show it. All three are empty if nothing is.
    """

    role: str
    policy: str
    turns: int
    reward: float
    chance: float
    finding: str = ""
    problem: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True)
class AuditReport:
    """The rows of an audit, those with a finding first, and what could not be audited."""

    environment: str
    problems: int
    rows: tuple[AuditRow, ...]
    not_audited: tuple[str, ...] = ()

    @property
    def findings(self) -> tuple[AuditRow, ...]:
        """The rows with a finding."""
        return tuple(row for row in self.rows if row.finding)

    def json_text(self) -> str:
        """The report as JSON."""
        return json.dumps(asdict(self))

    def summary(self) -> str:
        """A line for each finding, and for what was not audited; then how many there are."""
        lines = [
            f"{row.role}, {row.policy}: {row.finding}, such as {row.problem}: {one_line(row.text, 80)!r}"
            for row in self.findings
        ]
        lines += [f"not audited: {reason}" for reason in self.not_audited]
        findings = counted(len(self.findings), "finding")
        return "\n".join([*lines, f"{self.environment}: {counted(self.problems, 'problem')}, {findings}"])

    def table(self) -> Table:
        """A row for each policy: in each role its mean reward, and what it may earn."""
        cells: defaultdict[str, dict[str, str]] = defaultdict(dict)
        for row in self.rows:
            cells[row.policy][row.role] = f"{row.reward:.3f} of {row.chance:.3f}{'!' if row.finding else ' '}"
        roles = tuple(dict.fromkeys(row.role for row in self.rows))
        rows = ((policy, *(row.get(role, "-") for role in roles)) for policy, row in cells.items())
        return Table(("Policy", *roles), tuple(rows))


def leak_row(agent: str, name: str, problem: Problem) -> AuditRow:
    """The finding that a field of an agent's observation holds the reference."""
    finding = f"it reads the reference in {name!r}"
    return AuditRow(role_of(agent), "observation", 1, 0.0, 0.0, finding, problem.id)


def chance(play: Played) -> float:
    """The most that a turn may earn: nothing, but for copies, verdicts and integers that fit.

    A copy may earn its score, a verdict what the share of solutions that it fits earns, and an integer what
    the share of references that it is earns.
    """
    turn, judged, problem = play.turn, play.judged or 0.0, play.tree.problem
    graded, score = turn.grade is not None, score_of(turn) or 0.0
    if play.policy == COPY:
        return score if graded else judged
    if play.policy == INTEGER:
        numbers = re.findall(r"\d+", str(problem.reference))
        return float(not graded or turn.text in [as_answer(problem, number) for number in numbers])
    if graded or play.judged is None:
        return 0.0
    return {CORRECT: judged, CONTROL: judged, WRONG: 1 - judged}.get(play.policy, 0.0)


def rows_of(role: str, plays: Sequence[Played]) -> Iterator[AuditRow]:
    """A row for each policy in a role, some of whose rewards are known."""
    free = _free(plays)
    by_policy: defaultdict[str, list[Played]] = defaultdict(list)
    for play in plays:
        by_policy[play.policy].append(play)
    by_policy.pop(KNOWS, None)
    for policy, of_policy in by_policy.items():
        chances = [max(chance(play), free.get(play.place, 0.0)) for play in of_policy]
        with_chances = zip(of_policy, chances, strict=True)
        paid = [play for play, most in with_chances if (play.turn.reward or 0) > most + _ROUNDING]
        unknown = [p for p in of_policy if p.turn.grade is not None and p.turn.grade.score is None]
        finding = _finding("it is paid", paid) or _finding("its verdict is UNKNOWN", unknown)
        rewards = [play.turn.reward for play in of_policy if play.turn.reward is not None]
        yield AuditRow(role, policy, len(of_policy), fmean(rewards or [0.0]), fmean(chances), *finding)
    if known_replies := known_plays(plays):
        full = max(play.turn.reward for play in plays if play.turn.reward is not None)
        unpaid = [play for reward, play in known_replies if full <= 0 or reward < _FULL * full]
        mean = fmean(reward for reward, _ in known_replies)
        yield AuditRow(role, KNOWS, len(known_replies), mean, full, *_finding("it is not paid", unpaid))


def known_plays(plays: Iterable[Played]) -> list[tuple[float, Played]]:
    """For each problem the best turn of an agent that knows the reference: an answer, or a verdict."""
    best: dict[str, tuple[float, Played]] = {}
    for play in plays:
        reward, problem = play.turn.reward, play.turn.problem_id
        knows = play.policy == KNOWS or (play.policy, play.judged) in ((CORRECT, 1.0), (WRONG, 0.0))
        if knows and reward is not None and (problem not in best or reward > best[problem][0]):
            best[problem] = reward, play
    return [*best.values()]


def _free(plays: Iterable[Played]) -> dict[tuple[str, str, int], float]:
    """What partners who are right earn for the agent, whichever verdict it writes."""
    free: dict[tuple[str, str, int], float] = {}
    for play in plays:
        if play.policy in (CORRECT, WRONG) and play.turn.reward is not None and play.helped:
            free[play.place] = min(play.turn.reward, free.get(play.place, inf))
    return free


def _finding(what: str, plays: Sequence[Played]) -> tuple[str, ...]:
    """A finding on these turns, a problem and the shortest text that show it."""
    if not plays:
        return ()
    shortest = min((play.turn for play in plays), key=lambda turn: len(turn.text))
    where = counted(len({play.turn.problem_id for play in plays}), "problem")
    return f"{what} on {where}", shortest.problem_id, shortest.text
