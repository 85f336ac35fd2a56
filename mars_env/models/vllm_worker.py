"""What each of vLLM's workers imports when it starts."""

import torch

from mars_env.models.vllm_weights import WorkerExtension as WorkerExtension

# Linux ends a process that computes in AMX tiles before it has asked for them (the kernel's documentation of
# x86, "xstate"). The attention of vLLM 0.32 for CPUs uses them for bfloat16, and does not ask.
torch.cpu._init_amx()
