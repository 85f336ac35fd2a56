"""What a trainer needs of a rollout: one record for each text, made in one place for all trainers.

`mars_env.trainers.sample_files` writes and reads files of them (docs/other-trainers.md). No torch in here.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from pydantic import Field, Strict, StrictBool, StrictInt

from mars_env.checks import MAX_TOKEN_ID, SLACK
from mars_env.errors import ConfigError
from mars_env.trainers.advantages import TurnKey, turn_key
from mars_env.trainers.config import Credit, estimator_of
from mars_env.trainers.scorable import scorable_groups, unscorable
from mars_env.types import UNKNOWN_LOGPROB, Action, Completion, Group, Sampling, Turn

TokenId = Annotated[StrictInt, Field(ge=0, lt=MAX_TOKEN_ID)]
Mark = Annotated[StrictInt, Field(ge=0, le=1)]
Count = Annotated[StrictInt, Field(ge=0)]
Number = Annotated[float, Strict(), Field(allow_inf_nan=False)]
LogProbability = Annotated[float, Strict(), Field(gt=UNKNOWN_LOGPROB, le=SLACK)]


@dataclass(frozen=True, slots=True)
class TurnSample:
    """One text to train on: P prompt tokens, and T more of which some or all were sampled.

    It is one completion, or a chain of them whose prompts continue each other: what stands between them, such
    as the results of tools, is read and not trained. The types hold for rows of files; here nothing is
    checked.

    Attributes:
        turn_id: A turn of several chains has several samples.
        group_id: The group that its turn was compared in.
        agent: Who acted, e.g. ``"verifier_0"``; its `role` is without the number.
        policy: Name of the weights that acted.
        prompt_ids: [P] token ids of the prompt to train on: what the model read, unless `read_prompt_ids` is
            given.
        completion_ids: [T] token ids from the first sampled one to the last, stop tokens included; never
            tokenised again.
        logprobs: [T] natural logarithms under the distribution that was sampled from, after the temperature;
            0 for tokens that were not sampled.
        temperature: Of that distribution; a trainer divides its logits by it.
        versions: Policy versions that sampled: ``((version, number of tokens), ...)``, empty if unknown.
        truncated: Whether the last completion was cut off by its length limit.
        reward: The turn's own, as recorded: before credit along the tree and penalties.
        advantage: The turn's, the same for each sampled token.
        score: What the grader gave the turn, in [0, 1]; None where it was not graded.
        read_prompt_ids: Token ids of the prompt that the model read, where that is another one; `logprobs`
            are of the tokens after it.
        completion_mask: [T] 1 for each sampled token, 0 for the others; by default all were sampled.
    """

    tree_id: str
    turn_id: str
    group_id: str
    agent: str
    role: str
    policy: str
    prompt_ids: Annotated[tuple[TokenId, ...], Field(min_length=1)]
    completion_ids: Annotated[tuple[TokenId, ...], Field(min_length=1)]
    logprobs: tuple[LogProbability, ...]
    temperature: Annotated[Number, Field(gt=0)]
    versions: tuple[tuple[Count, Count], ...]
    truncated: StrictBool
    reward: Number
    advantage: Number
    score: Annotated[Number, Field(ge=0, le=1)] | None = None
    read_prompt_ids: tuple[TokenId, ...] = ()
    completion_mask: tuple[Mark, ...] = ()

    def __post_init__(self) -> None:
        if not self.completion_mask:
            object.__setattr__(self, "completion_mask", (1,) * len(self.completion_ids))

    @property
    def ids(self) -> tuple[int, ...]:
        """[P + T] token ids of prompt and completion."""
        return (*self.prompt_ids, *self.completion_ids)


def turn_samples(
    groups: Sequence[Group],
    config: Credit,
    advantages: Mapping[TurnKey, float] | None = None,
    policies: Collection[str] | None = None,
    frozen: Collection[str] = (),
) -> list[TurnSample]:
    """The samples of some groups, in the order of the turns' keys: what every trainer trains on.

    Turns without an advantage and roles that are not trained are left out; turns that cannot be scored leave
    their groups (`mars_env.trainers.scorable`). A turn is one sample where the prompts of its completions
    continue each other, else several, which share its advantage.

    Args:
        groups: Whole groups; with `Credit.tree_credit` whole trees.
        config: Its advantages, tree credit, penalties and trained roles are used, and nothing else.
        advantages: By `turn_key`, in place of those of the configuration's estimator.
        policies: Those that there are; None means any. Another one is a ConfigError.
        frozen: Policies that are not trained. Their turns count in their groups.

    Example:
        >>> from mars_env.trainers.advantages import _example_group
        >>> [(s.turn_id, s.group_id, s.role, s.reward, s.advantage)
        ...  for s in turn_samples([_example_group([1.0, None, 0.0])], Credit(advantage="mean_centred"))]
        [('0', 't', 'solver', 1.0, 0.5), ('2', 't', 'solver', 0.0, -0.5)]
    """
    if advantages is None:
        groups, _ = scorable_groups(groups, config, frozen)
        advantages = estimator_of(config)(groups)
    turns = {turn_key(turn): turn for group in groups for turn in group.turns}
    samples: list[TurnSample] = []
    for key in sorted(advantages.keys() & turns.keys()):
        turn = turns[key]
        if turn.policy in frozen or not config.trains(turn.role):
            continue
        _validate(turn, policies)
        samples += [_sample(turn, chain, advantages[key]) for chain in turn.action.chains]
    return samples


def preference_pairs(
    groups: Sequence[Group],
    config: Credit,
    policies: Collection[str] | None = None,
    frozen: Collection[str] = (),
) -> list[TurnSample]:
    """Pairs of samples, flat: chosen, rejected, chosen, rejected ...

    In each group the turns with the highest known reward are chosen, those with the lowest rejected; each
    turn is in one pair at most, in the order of the keys (our choice: PromptCoT 2.0, arXiv 2509.19894, does
    not say). Log-probabilities are compared at temperature 1. A `ConfigError` if the turns of a group differ
    in policy or prompt, or if a turn has several samples.
    """
    pairs: list[TurnSample] = []
    for group in sorted(groups, key=lambda group: group.id):
        rewards = {turn_key(turn): turn.reward for turn in group.turns if turn.reward is not None}
        if len(set(rewards.values())) < 2:
            continue
        top, least = max(rewards.values()), min(rewards.values())
        ends = {key: 0.0 for key, reward in rewards.items() if reward in (top, least)}
        samples = turn_samples([group], config, advantages=ends, policies=policies, frozen=frozen)
        if len({(sample.tree_id, sample.turn_id) for sample in samples}) < len(samples):
            raise ConfigError(f"group {group.id!r}: a turn of several samples has no preference")
        chosen = [sample for sample in samples if sample.reward == top]
        rejected = [sample for sample in samples if sample.reward == least]
        for pair in zip(chosen, rejected, strict=False):
            if pair[0].prompt_ids != pair[1].prompt_ids or pair[0].policy != pair[1].policy:
                raise ConfigError(f"group {group.id!r}: preferences are of one policy and prompt")
            pairs += (replace(sample, temperature=1.0) for sample in pair)
    return pairs


def given_sample(completion: Completion, policy: str, number: int = 0) -> TurnSample:
    """A sample of a given completion, to imitate it; a `ConfigError` if it has no token ids."""
    prompt = completion.train_prompt_ids or completion.prompt_ids
    if not prompt or not completion.token_ids:
        raise ConfigError(f"text {number} for {policy!r} has no token ids: make it with HFModel.written")
    written = replace(completion, logprobs=(0.0,) * len(completion.token_ids), temperature=1.0, versions=())
    turn = Turn("given", str(number), None, "given", policy, policy, "given", Action(""), reward=0.0)
    return replace(_sample(turn, (written,), 0.0), prompt_ids=prompt, truncated=False, read_prompt_ids=())


def _validate(turn: Turn, policies: Collection[str] | None) -> None:
    where = f"turn {turn.id} of tree {turn.tree_id} ({turn.agent})"
    if policies is not None and turn.policy not in policies:
        names = ", ".join(sorted(policies))
        raise ConfigError(f"{where} acted with {turn.policy!r}, not {names}: add it, or set train_roles")
    if reason := unscorable(turn):
        raise ConfigError(f"{where} cannot be scored ({reason}), but has an advantage: leave its role out")


def _sample(turn: Turn, chain: Sequence[Completion], advantage: float) -> TurnSample:
    if turn.reward is None:  # an estimator of the user's own may be at fault
        raise ConfigError(f"turn {turn.id} of tree {turn.tree_id} has an advantage, but no known reward")
    ids, logprobs, mask = list[int](), list[float](), list[int]()
    first, last = chain[0], chain[-1]
    for completion in chain:
        read = completion.prompt_ids[len(first.prompt_ids) + len(ids) :]
        ids += (*read, *completion.token_ids)
        logprobs += (*(0.0 for _ in read), *completion.logprobs)
        mask += (*(0 for _ in read), *(1 for _ in completion.token_ids))
    return TurnSample(
        tree_id=turn.tree_id,
        turn_id=turn.id,
        group_id=turn.group_id,
        agent=turn.agent,
        role=turn.role,
        policy=turn.policy,
        prompt_ids=first.train_prompt_ids or first.prompt_ids,
        completion_ids=tuple(ids),
        logprobs=tuple(logprobs),
        temperature=first.temperature,
        versions=tuple(pair for completion in chain for pair in completion.versions),
        truncated=last.finish_reason == "length",
        reward=turn.reward,
        score=None if turn.grade is None else turn.grade.score,
        advantage=advantage,
        read_prompt_ids=first.prompt_ids if first.train_prompt_ids else (),
        completion_mask=tuple(mask),
    )


def require_trainable(sampling: Sampling) -> Sampling:
    """The same sampling, if it can be trained on: from all tokens, at a temperature above 0."""
    if sampling.top_p < 1 or sampling.top_k != 0 or sampling.temperature <= 0:
        values = f"top_p={sampling.top_p}, top_k={sampling.top_k}, temperature={sampling.temperature}"
        raise ConfigError(f"training needs top_p 1, top_k 0 and a temperature above 0, got {values}")
    return sampling
