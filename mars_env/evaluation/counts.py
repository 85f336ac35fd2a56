"""What a run's metrics rest on, and what was left out of them."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mars_env.envs.rewards import REWARD_FAULT
from mars_env.envs.visibility import SEARCH_UNKNOWN
from mars_env.evaluation.trees import judgements, judging_tokens, prompt_tokens, sampled_tokens
from mars_env.types import Tree, Verdict


@dataclass(frozen=True, slots=True)
class Counts:
    """What a run's metrics rest on, and what was left out of them; turns are counted by role.

    Attributes:
        faults: Trees that could not be finished, by reason.
        lost: Their ids.
        truncated: Turns cut off by their own length limit.
        interrupted: Turns ended by context, filter or a fault; their grade is UNKNOWN.
        unknown: Turns with an UNKNOWN grade, by reason.
        reward_faults: Turns whose reward function failed, by role and reason.
        false_accepts: Wrong solutions that a Verifier called Correct.
    """

    problems: int = 0
    episodes: int = 0
    faults: Mapping[str, int] = field(default_factory=dict)
    lost: tuple[str, ...] = ()
    turns: Mapping[str, int] = field(default_factory=dict)
    truncated: Mapping[str, int] = field(default_factory=dict)
    interrupted: Mapping[str, int] = field(default_factory=dict)
    unknown: Mapping[str, int] = field(default_factory=dict)
    reward_faults: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    verdicts: int = 0
    malformed: int = 0
    false_accepts: int = 0
    false_rejects: int = 0
    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    tool_calls: int = 0
    tool_seconds: float = 0.0


def count_trees(trees: Sequence[Tree]) -> Counts:
    """The counts of a run.

    Example:
        >>> count_trees([]).episodes
        0
    """
    unknown = Counter[str]()
    rewardless: defaultdict[str, Counter[str]] = defaultdict(Counter)
    everything = [turn for tree in trees for turn in tree.turns]
    tool_calls = [call for turn in everything for call in turn.action.calls]
    for turn in everything:
        if turn.grade is not None and turn.grade.verdict is Verdict.UNKNOWN:
            unknown[turn.grade.reason or "no reason was given"] += 1
        if why := turn.info.get(SEARCH_UNKNOWN):
            unknown[f"search score: {why}"] += 1
        if why := turn.info.get(REWARD_FAULT):
            rewardless[turn.role][str(why)] += 1
    judged = [judgement for tree in trees for judgement in judgements(tree)]
    return Counts(
        problems=len({tree.problem.id for tree in trees}),
        episodes=len(trees),
        faults=dict(Counter(tree.fault for tree in trees if tree.fault)),
        lost=tuple(tree.id for tree in trees if tree.fault),
        turns=Counter(turn.role for turn in everything),
        truncated=Counter(t.role for t in everything if t.action.truncated and not t.action.interrupted),
        interrupted=Counter(t.role for t in everything if t.action.interrupted),
        unknown=dict(unknown),
        reward_faults={role: dict(reasons) for role, reasons in rewardless.items()},
        verdicts=len(judged),
        malformed=sum(bool(turn.info.get("malformed")) for turn, _, _ in judged),
        false_accepts=sum(accepts and right is False for _, accepts, right in judged),
        false_rejects=sum(not accepts and right is True for _, accepts, right in judged),
        calls=sum(len(t.action.completions) for t in everything),
        prompt_tokens=sum(map(prompt_tokens, everything)),
        completion_tokens=sum(map(sampled_tokens, everything)) + sum(map(judging_tokens, trees)),
        tool_calls=len(tool_calls),
        tool_seconds=sum(call.seconds for call in tool_calls),
    )
