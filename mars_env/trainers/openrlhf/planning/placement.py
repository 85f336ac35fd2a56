"""Where OpenRLHF places a run's models, and what each GPU then holds (`mars_env.trainers.memory`).

Over N GPUs, ZeRO's stage 1 divides the optimizer, stage 2 the gradients too, stage 3 the weights too (arXiv
1910.02054, section 5). ``--ds.adam_offload`` keeps optimizer and gradients on the host (ZeRO-Offload, arXiv
2101.06840). Of what vLLM takes by ``--vllm.gpu_memory_utilization``, a tenth is left to its activations.
"""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Final

from mars_env.errors import ConfigError
from mars_env.text import counted
from mars_env.trainers.architecture import Architecture
from mars_env.trainers.memory import GIB, Memory, activations

OVERHEAD: Final = 4 * GIB
"""A GPU's CUDA and NCCL contexts, DeepSpeed's buffers, and fragmentation: a round number."""


@dataclass(frozen=True, slots=True)
class GPUPool:
    """GPUs and what shares them: some of ``"actor"``, ``"reference"``, ``"engines"``."""

    gpus: int
    components: tuple[str, ...]


def gpu_pools(args: SimpleNamespace) -> tuple[GPUPool, ...]:
    """The GPUs that OpenRLHF asks Ray for, by who shares them; a `ConfigError` if it would reject them."""
    parallel = args.vllm.tensor_parallel_size
    actor, reference, engines = _gpus(args.actor), _gpus(args.ref), (args.vllm.num_engines or 0) * parallel
    if not engines:
        raise ConfigError("rollouts need engines: give --vllm.num_engines, at least 1")
    has_reference = args.algo.kl.init_coef > 0
    colocated = args.train.colocate_all and not args.train.async_enable
    shared = args.train.colocate_all or args.train.colocate_actor_ref
    wrong = []
    nodes, per_node = args.actor.num_nodes, args.actor.num_gpus_per_node
    if shared and has_reference and (nodes, per_node) != (args.ref.num_nodes, args.ref.num_gpus_per_node):
        wrong.append(
            f"--ref.num_nodes {args.ref.num_nodes} and --ref.num_gpus_per_node {args.ref.num_gpus_per_node}: "
            f"the reference shares the actor's GPUs: set --ref.num_nodes {nodes} "
            f"--ref.num_gpus_per_node {per_node}"
        )
    if colocated and actor != engines:
        divisor = parallel if actor % parallel == 0 else 1
        wrong.append(
            f"--vllm.num_engines {args.vllm.num_engines} x --vllm.tensor_parallel_size {parallel} are "
            f"{engines} GPUs, but with --train.colocate_all they must be the actor's {actor}: "
            f"set --vllm.num_engines {actor // divisor} --vllm.tensor_parallel_size {divisor}"
        )
    if wrong:
        raise ConfigError("\n".join(wrong))
    with_actor = ("actor",) + (("reference",) if has_reference and shared else ())
    if colocated:
        return (GPUPool(actor, (*with_actor, "engines")),)
    alone = (GPUPool(reference, ("reference",)),) if has_reference and not shared else ()
    return (GPUPool(actor, with_actor), *alone, GPUPool(engines, ("engines",)))


def memory(args: SimpleNamespace, model: Architecture, gpu: float, pool: GPUPool) -> Memory:
    """Estimate the memory of one GPU of a pool of `gpu_pools`; the GPU has `gpu` bytes."""
    overhead = {"overhead": OVERHEAD}
    memories = [Memory(overhead, overhead)]
    if "actor" in pool.components:
        memories.append(_actor(args, model))
    if "reference" in pool.components:
        memories.append(_reference(args, model, alone=pool.components == ("reference",)))
    if "engines" in pool.components:
        memories.append(_engine(args, model, gpu))
    return Memory(
        {part: size for memory in memories for part, size in memory.rollout.items()},
        {part: size for memory in memories for part, size in memory.training.items()},
        sum(memory.host for memory in memories),
        memories[-1].cache_tokens,
    )


def _actor(args: SimpleNamespace, model: Architecture) -> Memory:
    parallel = args.ds.tensor_parallel_size
    part, ranks = model.parameters / parallel, _gpus(args.actor) // parallel
    over = {stage: ranks if args.ds.zero_stage >= stage else 1 for stage in (1, 2, 3)}
    gradient = 4 if args.ds.grad_accum_dtype in ("fp32", "float32") else 2
    weights = {"weights": 2 * part / over[3]}
    states = {"gradients": gradient * part / over[2], "optimizer": 12 * part / over[1]}
    passes = _passes(args, model)
    if args.ds.adam_offload:
        return Memory(weights, weights | passes, sum(states.values()))
    if args.ds.enable_sleep:
        return Memory(weights, weights | states | passes, sum(states.values()))
    return Memory(weights | states, weights | states | passes)


def _passes(args: SimpleNamespace, model: Architecture) -> dict[str, float]:
    """While one micro-batch is trained, of samples of full length."""
    ring, parallel, longest = args.ds.ring_attn_size, args.ds.tensor_parallel_size, args.data.max_len
    tokens = args.train.micro_batch_size * longest
    if args.train.dynamic_batch_enable:  # a sample that is longer makes a micro-batch of its own
        tokens = max(args.train.max_tokens_per_gpu * ring * parallel, longest)
    tokens /= ring * parallel
    stored = activations(model, tokens, checkpointing=args.actor.gradient_checkpointing_enable)
    return {"activations": stored, "logits": tokens * model.vocabulary * 12.0}


def _reference(args: SimpleNamespace, model: Architecture, *, alone: bool) -> Memory:
    sharers = _gpus(args.ref) if args.ds.zero_stage == 3 else args.ds.tensor_parallel_size
    weights = 2.0 * model.parameters / sharers
    held = {} if args.ref.offload else {"reference": weights}
    tokens = args.rollout.micro_batch_size * args.data.max_len
    tokens /= args.ds.ring_attn_size * args.ds.tensor_parallel_size
    # One forward pass keeps logits in 16 and in 32 bits; beside an actor, the actor's are more.
    logits = {"logits": tokens * model.vocabulary * 6.0} if alone else {}
    return Memory(held, held | logits, weights if args.ref.offload else 0.0)


def _engine(args: SimpleNamespace, model: Architecture, gpu: float) -> Memory:
    parallel, reserved = args.vllm.tensor_parallel_size, args.vllm.gpu_memory_utilization * gpu
    weights = 2.0 * model.parameters / parallel
    held = {"engine: weights": weights, "engine: cache and activations": max(0.0, reserved - weights)}
    tokens = int(0.9 * reserved - weights) // model.kv_bytes(parallel)
    if args.vllm.enable_sleep:  # level 1: the weights go to the host, the cache is freed
        return Memory(held, {}, weights, tokens)
    return Memory(held, held, 0.0, tokens)


def fits(args: SimpleNamespace, model: Architecture, gpu: float) -> bool:
    """Whether every GPU holds its parts, and every cache one sequence: vLLM does not start with less."""
    memories = [memory(args, model, gpu, pool) for pool in gpu_pools(args)]
    return all(held.peak <= gpu and _missing_tokens(args, held) <= 0 for held in memories)


def describe(args: SimpleNamespace, model: Architecture, gpu: float) -> str:
    """Placement and estimate for people to read, each pool with what does not fit, and by how much."""
    pools = gpu_pools(args)
    total = sum(pool.gpus for pool in pools)
    nodes = max(args.actor.num_nodes, -(-total // 8))
    lines = [f"{counted(total, 'GPU')} on at least {counted(nodes, 'node')}"]
    for pool in pools:
        lines += _pool_lines(args, pool, memory(args, model, gpu, pool), gpu)
    return "\n".join(lines)


def _pool_lines(args: SimpleNamespace, pool: GPUPool, held: Memory, gpu: float) -> list[str]:
    parallel = args.vllm.tensor_parallel_size
    engines = counted(args.vllm.num_engines, "engine") + (f" of {parallel} GPUs" if parallel > 1 else "")
    names = ", ".join(engines if name == "engines" else name for name in pool.components)
    lines = [f"  {counted(pool.gpus, 'GPU')}: {names}", *(f"    {line}" for line in held.describe(gpu))]
    if held.cache_tokens is not None:
        tokens, longest, missing = held.cache_tokens, args.data.max_len, _missing_tokens(args, held)
        at_once = f"{max(0, tokens) / longest:.1f} sequences of {longest:,} at once"
        lines.append(f"    cache    {max(0, tokens):,} tokens an engine: {at_once}")
        if missing > 0:
            lines.append(f"    IT DOES NOT FIT: the cache of one sequence lacks {missing:,} tokens")
    return lines


def _missing_tokens(args: SimpleNamespace, held: Memory) -> int:
    """How many tokens an engine's cache lacks for one sequence of full length."""
    return 0 if held.cache_tokens is None else args.data.max_len - held.cache_tokens


def _gpus(group: SimpleNamespace) -> int:
    return int(group.num_nodes * group.num_gpus_per_node)
