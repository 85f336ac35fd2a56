"""Where a run's models are placed and how much memory they take, estimated before anything starts.

Pure functions of OpenRLHF's arguments (`mars_env.trainers.openrlhf.arguments.parse`) and of the model's
sizes. The placement is the one that OpenRLHF's `train` makes; the memory is an estimate from published
formulas, good enough to choose flags, but not to the last gigabyte:

- Mixed precision with AdamW keeps 2 bytes a parameter of weights, 2 of gradients and 12 of optimiser
  (ZeRO, arXiv 1910.02054, section 3.1). Over N GPUs, stage 1 divides the optimiser, stage 2 the gradients
  too, stage 3 the weights too (section 5). ``--ds.adam_offload`` keeps optimiser and gradients on the host
  (ZeRO-Offload, arXiv 2101.06840).
- Activations: each layer's input, and one layer in full, with gradient checkpointing; all layers in full
  without (`Architecture.layer_bytes`). Logits are kept in 16 and in 32 bits, with their gradients. What the
  routers' balancing loss of a mixture of experts takes for a moment is not counted.
- vLLM takes ``--vllm.gpu_memory_utilization`` of a GPU, whether it needs it or not; the part that its weights
  do not use is the cache of keys and values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Final

from mars_env.errors import ConfigError
from mars_env.trainers.openrlhf.planning.sizes import Architecture

GIB: Final = 2**30

CONTEXT: Final = 2 * GIB
"""CUDA's and NCCL's own memory and fragmentation, for each GPU: our round figure."""

REDUCE_BUCKET: Final = 500_000_000
"""Elements that DeepSpeed reduces at once: its default, which OpenRLHF keeps."""

LIVE_PARAMETERS: Final = 1_000_000_000
"""Parameters that ZeRO-3 keeps gathered at most: its default, likewise."""


@dataclass(frozen=True, slots=True)
class Pool:
    """GPUs and what shares them: some of ``"actor"``, ``"reference"``, ``"engines"``."""

    gpus: int
    components: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Phase:
    """What one GPU of a pool holds at a time, in bytes by part.

    Attributes:
        name: ``"rollout"`` or ``"training"``.
        parts: Bytes by what they hold.
    """

    name: str
    parts: Mapping[str, float]

    @property
    def total(self) -> float:
        """Bytes of all parts."""
        return sum(self.parts.values())


@dataclass(frozen=True, slots=True)
class PoolMemory:
    """The memory of a pool.

    Attributes:
        pool: Its GPUs.
        phases: One GPU's memory at each time.
        host: Bytes of the hosts' memory, for all GPUs of the pool together.
        pinned: Bytes of it for each GPU that are locked in memory, so that they are copied faster.
        cache_tokens: Tokens that fit into the cache of one engine, below 0 where its weights do not fit;
            None without engines.
    """

    pool: Pool
    phases: tuple[Phase, ...]
    host: float = 0.0
    pinned: float = 0.0
    cache_tokens: int | None = None

    @property
    def peak(self) -> float:
        """Bytes of the fullest phase."""
        return max(phase.total for phase in self.phases)


def placement(args: SimpleNamespace) -> tuple[Pool, ...]:
    """The GPUs that OpenRLHF asks Ray for, by who shares them.

    Raises:
        ConfigError: OpenRLHF would refuse the numbers only after it has started: a line for each.

    Example:
        >>> from types import SimpleNamespace as S
        >>> eight = S(num_nodes=1, num_gpus_per_node=8)
        >>> args = S(actor=eight, ref=eight, vllm=S(num_engines=4, tensor_parallel_size=2),
        ...          train=S(colocate_all=True, colocate_actor_ref=False, async_enable=False),
        ...          algo=S(kl=S(init_coef=0.001)))
        >>> placement(args)
        (Pool(gpus=8, components=('actor', 'reference', 'engines')),)
    """
    actor, reference = _gpus(args.actor), _gpus(args.ref)
    engines = (args.vllm.num_engines or 0) * args.vllm.tensor_parallel_size
    if not engines:
        raise ConfigError("rollouts need engines: give --vllm.num_engines, at least 1")
    has_reference = args.algo.kl.init_coef > 0
    together = args.train.colocate_all and not args.train.async_enable
    shared = args.train.colocate_all or args.train.colocate_actor_ref
    wrong = []
    if shared and has_reference and _shape(args.actor) != _shape(args.ref):
        wrong.append(
            f"--ref.num_nodes {args.ref.num_nodes} and --ref.num_gpus_per_node {args.ref.num_gpus_per_node}: "
            f"the reference shares the actor's GPUs: set --ref.num_nodes {args.actor.num_nodes} "
            f"--ref.num_gpus_per_node {args.actor.num_gpus_per_node}"
        )
    if together and actor != engines:
        parallel = args.vllm.tensor_parallel_size
        parallel = parallel if actor % parallel == 0 else 1
        wrong.append(
            f"--vllm.num_engines {args.vllm.num_engines} x --vllm.tensor_parallel_size "
            f"{args.vllm.tensor_parallel_size} are {engines} GPUs, but with --train.colocate_all they must "
            f"be the actor's {actor}: set --vllm.num_engines {actor // parallel} "
            f"--vllm.tensor_parallel_size {parallel}"
        )
    if wrong:
        raise ConfigError("\n".join(wrong))
    with_actor = ("actor",) + (("reference",) if has_reference and shared else ())
    if together:
        return (Pool(actor, (*with_actor, "engines")),)
    alone = (Pool(reference, ("reference",)),) if has_reference and not shared else ()
    return (Pool(actor, with_actor), *alone, Pool(engines, ("engines",)))


def memory(args: SimpleNamespace, model: Architecture, gpu: float) -> tuple[PoolMemory, ...]:
    """Estimate the memory of each pool of `placement`.

    Args:
        args: OpenRLHF's.
        model: The sizes of the model that is trained.
        gpu: Bytes of one GPU.
    """
    return tuple(_pool_memory(args, model, gpu, pool) for pool in placement(args))


def actor_states(args: SimpleNamespace, parameters: int) -> tuple[dict[str, float], float]:
    """What one GPU keeps of the actor under ZeRO, by part, and what the host keeps for it: bytes.

    Example:
        >>> from types import SimpleNamespace as S
        >>> ds = S(zero_stage=2, adam_offload=False, tensor_parallel_size=1, grad_accum_dtype=None)
        >>> args = S(actor=S(num_nodes=1, num_gpus_per_node=4), ds=ds, train=S(enable_ema=False))
        >>> parts, host = actor_states(args, 1_000_000_000)
        >>> parts["weights"], parts["gradients"], parts["optimiser"], host
        (2000000000.0, 500000000.0, 3000000000.0, 0.0)
    """
    stage, own = args.ds.zero_stage, parameters / args.ds.tensor_parallel_size
    sharers = _gpus(args.actor) // args.ds.tensor_parallel_size
    shares = [sharers if stage >= least else 1 for least in (3, 2, 1)]
    gradient = 4 if args.ds.grad_accum_dtype in ("fp32", "float32") else 2
    weights, gradients, optimiser = 2 * own / shares[0], gradient * own / shares[1], 12 * own / shares[2]
    buffers = 2.0 * min(own, REDUCE_BUCKET) + (2.0 * min(own, LIVE_PARAMETERS) if stage == 3 else 0.0)
    host = 2 * own if args.train.enable_ema else 0.0
    if args.ds.adam_offload:
        host += gradients + optimiser
        gradients = optimiser = 0.0
    parts = {"weights": weights, "gradients": gradients, "optimiser": optimiser, "buffers": buffers}
    return {name: value for name, value in parts.items() if value}, host


def activations(args: SimpleNamespace, model: Architecture) -> dict[str, float]:
    """Bytes of activations and logits while one micro batch is trained, of samples of full length.

    Example:
        >>> from types import SimpleNamespace as S
        >>> args = S(train=S(dynamic_batch_enable=False, micro_batch_size=2), data=S(max_len=1000),
        ...          ds=S(ring_attn_size=1, tensor_parallel_size=1, attn_implementation="flash_attention_2"),
        ...          actor=S(gradient_checkpointing_enable=True))
        >>> tiny = Architecture(8, 3, 2, 2, 4, 16, vocabulary=10)
        >>> activations(args, tiny)  # 2000 tokens: 3 layers of 16 bytes and one of 304; 10 logits of 12 bytes
        {'activations': 704000.0, 'logits': 240000.0}
    """
    tokens = args.train.micro_batch_size * args.data.max_len
    if args.train.dynamic_batch_enable:  # a sample that is longer makes a micro batch of its own
        shared = args.ds.ring_attn_size * args.ds.tensor_parallel_size  # OpenRLHF multiplies by these
        tokens = max(args.train.max_tokens_per_gpu * shared, args.data.max_len)
    tokens /= args.ds.ring_attn_size
    layer = model.layer_bytes()
    if (
        args.ds.attn_implementation == "eager"
    ):  # scores, softmax and their copies: arXiv 2205.05198, equation 1
        layer += 5 * model.heads * args.data.max_len
    kept = (
        2 * model.hidden * model.layers + layer
        if args.actor.gradient_checkpointing_enable
        else layer * model.layers
    )
    share = args.ds.tensor_parallel_size
    return {"activations": tokens * kept / share, "logits": tokens * model.vocabulary * 12.0 / share}


def engine(args: SimpleNamespace, model: Architecture, gpu: float) -> tuple[dict[str, float], int]:
    """What vLLM takes of one GPU, by part, and the tokens that an engine's cache holds.

    The tokens are fewer than 0 where the weights alone are more than it may take.

    Example:
        >>> from types import SimpleNamespace as S
        >>> tiny = Architecture(8, 3, 2, 2, 4, 16, vocabulary=10)
        >>> args = S(vllm=S(gpu_memory_utilization=0.5, tensor_parallel_size=1))
        >>> parts, tokens = engine(args, tiny, 8 * GIB)
        >>> parts["engine: weights"], round(sum(parts.values()) / GIB, 3), round(tokens / 1e6, 1)
        (4272.0, 4.0, 39.1)
    """
    parallel = args.vllm.tensor_parallel_size
    reserved, weights = args.vllm.gpu_memory_utilization * gpu, 2.0 * model.parameters / parallel
    work = min(CONTEXT, reserved / 8)
    cache = reserved - weights - work
    parts = {"engine: weights": weights, "engine: work space": work, "engine: cache": max(0.0, cache)}
    return parts, int(cache) // model.kv_bytes(parallel)


def excess(args: SimpleNamespace, model: Architecture, gpu: float) -> float:
    """Bytes that are missing on one GPU of each pool, in all phases together; 0 if everything fits.

    An engine's cache must hold one sequence of ``--data.max_len`` tokens: vLLM does not start with less.
    """
    missing = 0.0
    for entry in memory(args, model, gpu):
        missing += sum(max(0.0, phase.total - gpu) for phase in entry.phases)
        if entry.cache_tokens is not None:
            short = args.data.max_len - entry.cache_tokens
            missing += max(0, short) * model.kv_bytes(args.vllm.tensor_parallel_size)
    return missing


def loading(args: SimpleNamespace, model: Architecture) -> float:
    """Bytes of a node's memory while the trainer loads.

    Each rank reads the whole checkpoint before it is divided (transformers 5); in a sparse model the experts
    are stacked into one tensor, which is there beside the parts.
    """
    copies = 2 if model.experts else 1
    return 2.0 * model.parameters * copies * int(args.actor.num_gpus_per_node)


def describe(pools: Sequence[PoolMemory], args: SimpleNamespace, gpu: float, gpus_per_node: int = 8) -> str:
    """Placement and estimate for people to read, each pool with a word on whether it fits."""
    total = sum(entry.pool.gpus for entry in pools)
    nodes = max(args.actor.num_nodes, -(-total // gpus_per_node))
    lines = [f"{_count(total, 'GPU')} on at least {_count(nodes, 'node')}"]
    for entry in pools:
        held = ", ".join(_component(args, component) for component in entry.pool.components)
        verdict = "" if entry.peak <= gpu else ": IT DOES NOT FIT"
        lines.append(
            f"  {_count(entry.pool.gpus, 'GPU')}: {held}; "
            f"at most {entry.peak / GIB:.1f} of {gpu / GIB:.0f} GiB each{verdict}"
        )
        for phase in entry.phases:
            parts = ", ".join(
                f"{name} {size / GIB:.1f}" for name, size in phase.parts.items() if size >= GIB / 20
            )
            lines.append(f"    {phase.name:<8} {phase.total / GIB:6.1f} GiB  {parts}")
        if entry.cache_tokens is not None:
            tokens = max(0, entry.cache_tokens)
            verdict = "" if tokens >= args.data.max_len else ": IT DOES NOT FIT, one is the least"
            lines.append(
                f"    cache    {tokens:,} tokens an engine: {tokens / args.data.max_len:.1f} sequences of "
                f"{args.data.max_len:,} at once{verdict}"
            )
        if entry.host:
            lines.append(f"    host     {entry.host / GIB:6.1f} GiB in all")
        if entry.pinned:
            there = min(gpus_per_node, entry.pool.gpus)
            lines.append(
                f"    pinned   {entry.pinned * there / GIB:6.1f} GiB of it locked on a node (ulimit -l), "
                "up to twice that where torch rounds blocks up to powers of two"
            )
    return "\n".join(lines)


def _pool_memory(args: SimpleNamespace, model: Architecture, gpu: float, pool: Pool) -> PoolMemory:
    training: dict[str, float] = {"context": CONTEXT}
    rollout: dict[str, float] = {"context": CONTEXT}
    host, pinned, tokens = 0.0, 0.0, None
    if "actor" in pool.components:
        states, kept = actor_states(args, model.parameters)
        host += kept * pool.gpus
        average = 2 * model.parameters / args.ds.tensor_parallel_size if args.train.enable_ema else 0.0
        pinned += kept - average
        training |= states | activations(args, model)
        sleeps = args.ds.enable_sleep and not args.ds.adam_offload
        awake = ("weights",) if sleeps else ("weights", "gradients", "optimiser")
        rollout |= {name: size for name, size in states.items() if name in awake}
        if sleeps:
            asleep = sum(states.get(name, 0.0) for name in ("gradients", "optimiser"))
            host += pool.gpus * asleep
            pinned += asleep
    if "reference" in pool.components:
        share = args.ds.tensor_parallel_size * (
            _gpus(args.ref) // args.ds.tensor_parallel_size if args.ds.zero_stage == 3 else 1
        )
        weights = 2.0 * model.parameters / share
        if args.ref.offload:
            host += weights * pool.gpus
            pinned += weights
        else:
            training["reference"] = rollout["reference"] = weights
    if "engines" not in pool.components:
        if pool.components == ("reference",):
            training |= {"logits": _reference_logits(args, model)}
        return PoolMemory(pool, (Phase("training", training),), host, pinned)
    taken, tokens = engine(args, model, gpu)
    rollout |= taken
    if pool.components == ("engines",):
        return PoolMemory(pool, (Phase("rollout", rollout),), host, pinned, tokens)
    if args.vllm.enable_sleep:  # level 1: the weights go to the host, the cache is freed
        host += taken["engine: weights"] * pool.gpus
        pinned += taken["engine: weights"]
    else:
        training |= taken
    return PoolMemory(pool, (Phase("rollout", rollout), Phase("training", training)), host, pinned, tokens)


def _reference_logits(args: SimpleNamespace, model: Architecture) -> float:
    """Logits of one forward pass, in 16 and in 32 bits: nothing is kept for gradients."""
    tokens = args.rollout.micro_batch_size * args.data.max_len / args.ds.ring_attn_size
    return float(tokens * model.vocabulary * 6.0 / args.ds.tensor_parallel_size)


def _component(args: SimpleNamespace, name: str) -> str:
    if name != "engines":
        return name
    parallel = args.vllm.tensor_parallel_size
    return _count(args.vllm.num_engines, "engine") + (f" of {parallel} GPUs" if parallel > 1 else "")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _gpus(group: SimpleNamespace) -> int:
    return int(group.num_nodes * group.num_gpus_per_node)


def _shape(group: SimpleNamespace) -> tuple[int, int]:
    return group.num_nodes, group.num_gpus_per_node
