"""The processes of one policy: engines, trainer, reference."""

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, NamedTuple

import ray
from openrlhf.trainer.ray import vllm_engine
from openrlhf.trainer.ray.launcher import RayActorGroup, ReferenceModelActor
from openrlhf.utils import get_strategy
from openrlhf.utils.utils import get_tokenizer
from pydantic import BaseModel
from ray.util.placement_group import placement_group

from mars_env.errors import ConfigError
from mars_env.trainers.config import Credit
from mars_env.trainers.openrlhf.planning.placement import gpu_pools
from mars_env.trainers.openrlhf.workers.actors import TeamPolicyActor, TeamRolloutActor
from mars_env.trainers.tables import EngineSettings


class PolicyProcesses(NamedTuple):
    """What OpenRLHF makes for one policy; `reference` is None without a KL term."""

    strategy: Any
    engines: list[Any]
    actors: Any
    reference: Any
    tokenizer: Any


def require_gpus(policies: Iterable[SimpleNamespace]) -> None:
    """Reject a run that needs more GPUs than there are, with ConfigError: Ray would wait for ever."""
    needed = sum(pool.gpus for args in policies for pool in gpu_pools(args))
    available = ray.cluster_resources().get("GPU", 0)
    if needed > available:
        raise ConfigError(
            f"the run needs {needed} GPUs, but Ray has {available:g}: let other nodes join first"
        )


def actor_class(kind: type, settings: BaseModel) -> type:
    """The class with the settings as an attribute: OpenRLHF hands its actors its arguments alone."""
    return type(kind.__name__, (kind,), {"settings": settings, "__module__": __name__})


def install_engines(settings: EngineSettings) -> None:
    """Put the team's engines in the place of OpenRLHF's, in this process; Ray carries the class to others."""
    vllm_engine.RolloutRayActor = ray.remote(actor_class(TeamRolloutActor, settings))


def placed(credit: Credit, args: SimpleNamespace) -> PolicyProcesses:
    """Ask Ray for the processes of one policy, placed as in OpenRLHF's own `train`."""
    strategy = get_strategy(args)
    actor, duplicates = args.actor, args.ds.ring_attn_size * args.ds.tensor_parallel_size
    group = None
    if args.train.colocate_all or args.train.colocate_actor_ref:
        bundles = [{"GPU": 1, "CPU": 1} for _ in range(actor.num_nodes * actor.num_gpus_per_node)]
        group = placement_group(bundles, strategy="PACK")
        ray.get(group.ready())
    engines = vllm_engine.create_vllm_engines(
        args.vllm.num_engines,
        args.vllm.tensor_parallel_size,
        actor.model_name_or_path,
        args.train.seed,
        args.train.full_determinism_enable,
        args.vllm.enable_prefix_caching,
        args.vllm.enforce_eager,
        args.data.max_len,
        group if args.train.colocate_all and not args.train.async_enable else None,
        args.vllm.gpu_memory_utilization,
        args.vllm.enable_sleep,
        None,  # the team's engines always return log-probabilities
        agent_func_path=None,
        remote_rm_url=args.reward.remote_url,
    )
    share: dict[str, Any] = {
        "pg": group, "num_gpus_per_actor": 0.2 if group else 1, "duplicate_actors": duplicates
    }  # fmt: skip
    trainer = ray.remote(num_gpus=1)(actor_class(TeamPolicyActor, credit))
    actors = RayActorGroup(actor.num_nodes, actor.num_gpus_per_node, trainer, **share)
    reference = None
    if args.algo.kl.init_coef > 0:
        nodes, gpus = args.ref.num_nodes, args.ref.num_gpus_per_node
        reference = RayActorGroup(nodes, gpus, ReferenceModelActor, **share)
    tokenizer = get_tokenizer(
        actor.model_name_or_path, None, "left", strategy, use_fast=not args.data.disable_fast_tokenizer
    )
    return PolicyProcesses(strategy, engines, actors, reference, tokenizer)


def load_models(policies: Iterable[PolicyProcesses], steps: int) -> None:
    """Load all weights, of all policies at the same time."""
    refs = []
    for policy in policies:
        checkpoint = policy.strategy.args.actor.model_name_or_path
        refs += policy.actors.async_init_model_from_pretrained(
            policy.strategy, checkpoint, steps, policy.engines
        )
        if policy.reference is not None:
            refs += policy.reference.async_init_model_from_pretrained(policy.strategy, checkpoint)
    ray.get(refs)
