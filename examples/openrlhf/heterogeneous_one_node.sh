#!/usr/bin/env bash
# A heterogeneous team on one node: the Solver has weights of its own, Verifier and Corrector share another model's. Each
# policy trains on its own turns, with its own optimiser and checkpoints, on its own half of the node, which its engines
# share: they sleep while it is trained.
#
# Hardware   8 GPUs of 80 GB on one node, 4 for each policy, 256 GB of host memory. --dry-run prints the estimate: about
#            48 GiB while rolling out, 61 GiB while training (the larger model). (LoRA would save most of it, but OpenRLHF 0.11.2 cannot
#            send adapters to vLLM: its issue 1349.)
# To change  --mars.policies and --mars.plays for other divisions, e.g. three models for three roles. The flags of GPUs
#            and engines are those of one policy. --mars.train_roles verifier,corrector leaves the Solver as it is.
#
# Before and after (after: runs/hetero/model/solver and runs/hetero/model/critic):
#   vllm serve Qwen/Qwen3-4B --port 8000; vllm serve Qwen/Qwen3-1.7B --port 8001
#   S="http://127.0.0.1:8000/v1#Qwen/Qwen3-4B?temperature=0.6&top_p=0.95&max_tokens=12288"
#   C="http://127.0.0.1:8001/v1#Qwen/Qwen3-1.7B?temperature=0.6&top_p=0.95&max_tokens=12288"
#   mars-env evaluate aime25-solve-verify-correct --n 32 --baselines --out runs/before \
#       --agents "solver=$S,verifier=$C,corrector=$C"
#   mars-env compare runs/before runs/after
set -euo pipefail
exec "${PYTHON:-python}" -m mars_env.trainers.openrlhf \
    --mars.env dapo-math-17k-solve-verify-correct \
    --mars.options '{"schedule": "training"}' \
    --mars.policies '{"solver": "Qwen/Qwen3-4B", "critic": "Qwen/Qwen3-1.7B"}' \
    --mars.plays '{"solver": "solver", "verifier": "critic", "corrector": "critic"}' \
    --actor.num_nodes 1 --actor.num_gpus_per_node 4 \
    --ref.num_nodes 1 --ref.num_gpus_per_node 4 \
    --vllm.num_engines 4 --vllm.tensor_parallel_size 1 \
    --vllm.gpu_memory_utilization 0.55 --vllm.enable_sleep --vllm.sync_backend nccl \
    --train.colocate_all --ds.enable_sleep --ds.zero_stage 3 \
    --actor.gradient_checkpointing_enable \
    --mars.max_num_seqs 256 --mars.max_num_batched_tokens 8192 \
    --mars.overflow unknown --data.max_len 20480 --rollout.max_new_tokens 12288 --rollout.temperature 0.85 \
    --rollout.batch_size 32 --rollout.micro_batch_size 1 \
    --train.batch_size 1024 --train.micro_batch_size 1 \
    --actor.adam.lr 1e-6 --actor.lr_scheduler constant \
    --algo.kl.init_coef 0 \
    --ckpt.output_dir runs/hetero/model --ckpt.path runs/hetero/checkpoints --ckpt.save_steps 10 \
    --logger.tensorboard_dir runs/hetero/tensorboard \
    "$@"
