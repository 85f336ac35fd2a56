"""How long an update would take, from what the GPUs are assumed to do. No GPU was measured.

Two published figures of an H100 SXM (NVIDIA's data sheet), and two round shares of our own:

- Training computes at `SHARE` of `PEAK`. A token costs 2 operations for each weight that it meets in a
  forward pass, twice that in a backward pass (arXiv 2001.08361, section 2.1), and what attention adds.
- Engines read at `BANDWIDTH_SHARE` of `BANDWIDTH`: the weights once for each step in which every sequence
  gets a token, and the cache of every sequence. With many sequences the computation takes longer, and counts.

Every completion is taken to be of full length, and every group to be there: the hours fall with the mean
length. Not counted are the start, the transfer of weights, sleeping and waking, and graders.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Final

from mars_env.trainers.openrlhf.planning.costs import LINK, gathers
from mars_env.trainers.openrlhf.planning.sizes import Architecture

PEAK: Final = 989e12
"""Operations a second in bfloat16, dense: H100 SXM."""

SHARE: Final = 0.4
"""Share of the peak that training reaches: our round figure."""

BANDWIDTH: Final = 3.35e12
"""Bytes a second of a GPU's memory: H100 SXM."""

BANDWIDTH_SHARE: Final = 0.6
"""Share of the bandwidth that engines reach: our round figure."""


@dataclass(frozen=True, slots=True)
class Work:
    """What one update samples and trains at most.

    Attributes:
        rows: Rows that are trained, each a completion that is sampled.
        chain: Completions of one problem that have to follow one another; 0 if rollouts never wait for a
            chain, because they continue while the policy is trained.
        sequences: Most sequences of an engine at once; None: as many as its cache holds.
        updates: Of the whole run; None where the number of problems is not known here.
        evaluation: Completions of one evaluation, those that follow one another, and the most tokens of one.
        evaluate_every: Updates between two evaluations.
    """

    rows: int
    chain: int
    sequences: int | None = None
    updates: int | None = None
    evaluation: tuple[int, int, int] | None = None
    evaluate_every: int = 1


@dataclass(frozen=True, slots=True)
class Hours:
    """Seconds of one update, by what takes them; `evaluation` is the share of the evaluations."""

    sampling: float
    training: float
    gathers: float
    evaluation: float
    overlapped: bool

    @property
    def update(self) -> float:
        """Seconds of one update: the longer of sampling and training where they overlap, else their sum."""
        trained = self.training + self.gathers
        both = max(self.sampling, trained) if self.overlapped else self.sampling + trained
        return both + self.evaluation


def hours(args: SimpleNamespace, model: Architecture, cache_tokens: int, work: Work) -> Hours:
    """How long one update takes with completions of full length.

    Args:
        args: OpenRLHF's arguments, parsed.
        model: The sizes of the model that is trained.
        cache_tokens: Tokens that fit into the cache of one engine.
        work: What an update does.
    """
    completion = args.rollout.max_new_tokens or args.data.max_len
    evaluation = 0.0
    if work.evaluation is not None:
        played = sampling_seconds(args, model, cache_tokens, work.sequences, *work.evaluation)
        evaluation = played / work.evaluate_every
    gathered = gathers(args, model, work.rows) / LINK if args.ds.zero_stage == 3 else 0.0
    return Hours(
        sampling=sampling_seconds(
            args, model, cache_tokens, work.sequences, work.rows, work.chain, completion
        ),
        training=training_seconds(args, model, work.rows),
        gathers=gathered,
        evaluation=evaluation,
        overlapped=bool(args.train.async_enable),
    )


def training_seconds(args: SimpleNamespace, model: Architecture, rows: int) -> float:
    """Seconds in which the trainer reads its log-probabilities, the reference's, and trains, on full rows.

    Example:
        >>> from types import SimpleNamespace as S
        >>> from mars_env.trainers.openrlhf.planning.sizes import PRESETS
        >>> args = S(actor=S(num_nodes=1, num_gpus_per_node=8, gradient_checkpointing_enable=True),
        ...          data=S(max_len=4096), algo=S(kl=S(init_coef=0)))
        >>> round(training_seconds(args, PRESETS["Qwen/Qwen3-4B"], 1000))
        60
    """
    length = args.data.max_len
    # Scores and values cost 2 operations each for every token before: a mean of half the length.
    attention = 2 * model.layers * model.heads * model.head_dim * length
    forward = 2 * model.active_parameters + attention
    passes = 3 + bool(args.actor.gradient_checkpointing_enable) + 1 + (args.algo.kl.init_coef > 0)
    gpus = args.actor.num_nodes * args.actor.num_gpus_per_node
    return float(rows * length * forward * passes / (gpus * SHARE * PEAK))


def sampling_seconds(
    args: SimpleNamespace,
    model: Architecture,
    cache_tokens: int,
    sequences: int | None,
    rows: int,
    chain: int,
    longest: int,
) -> float:
    """Seconds in which all engines sample some completions.

    Args:
        args: OpenRLHF's arguments, parsed.
        model: The sizes of the model.
        cache_tokens: Tokens that fit into the cache of one engine.
        sequences: Most sequences of an engine at once; None: as many as its cache holds.
        rows: Completions.
        chain: Completions that have to follow one another.
        longest: Tokens of each.
    """
    engines = args.vllm.num_engines
    held = max(1.0, args.data.max_len - longest / 2)  # tokens of a sequence, as a mean over its completion
    limits = [int(cache_tokens / held), -(-rows // engines), *([sequences] if sequences else [])]
    together = max(1, min(limits))
    sampled = step_seconds(args, model, together, held) * rows * longest / (engines * together)
    prompts = rows * max(0, args.data.max_len - longest) / engines
    read = 2.0 * model.active_parameters * prompts / (args.vllm.tensor_parallel_size * SHARE * PEAK)
    return float(max(sampled + read, chain * longest * step_seconds(args, model, 1, held)))


def step_seconds(args: SimpleNamespace, model: Architecture, sequences: int, held: float) -> float:
    """Seconds in which an engine samples one token of each of some sequences that hold so many tokens.

    A mixture of experts reads the experts of all its sequences: at most all of them.
    """
    parallel = args.vllm.tensor_parallel_size
    weights = min(model.parameters, model.active_parameters * sequences)
    read = 2.0 * weights / parallel + sequences * held * model.kv_bytes(parallel)
    computed = 2.0 * model.active_parameters * sequences / parallel
    return float(max(read / (BANDWIDTH_SHARE * BANDWIDTH), computed / (SHARE * PEAK)))


def describe_hours(told: Hours, work: Work) -> list[str]:
    """The hours, a line each, for people to read."""
    parts = [f"sampling {told.sampling / 3600:.2f}", f"training {told.training / 3600:.2f}"]
    if told.gathers:
        parts.append(f"gathers {told.gathers / 3600:.2f}")
    if told.evaluation:
        parts.append(f"evaluation {told.evaluation / 3600:.2f}")
    joined = f"{', '.join(parts)}{'; sampling and training overlap' if told.overlapped else ''}"
    lines = [f"    hours    {told.update / 3600:6.2f} an update: {joined}"]
    number = work.updates if work.updates is not None else 100
    said = "the run's" if work.updates is not None else "every"
    total = told.update * number / 3600
    lines.append(
        f"             {total:6.1f} for {said} {number:,} updates, if all outputs are of full length and "
        f"H100s reach {SHARE:.0%} of their peak and {BANDWIDTH_SHARE:.0%} of their bandwidth"
    )
    return lines
