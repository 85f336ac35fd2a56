#!/usr/bin/env bash
# MARS2's third stage on code: two models grow one search tree of 8 programs for each problem, and each learns from its
# own nodes, compared with those of both (heterogeneous multi-agent, arXiv 2602.07848). Each policy has its own trainer,
# optimiser, engines, checkpoints. A policy that no tree of an update asked is not changed by it. The loss is that of
# mars2_one_model.sh.
#
# Hardware   16 GPUs of 80 GB on two nodes, 8 for each policy (the flags of GPUs and engines are those of one policy), as
#            in the paper. heterogeneous_one_node.sh is for one node. --dry-run prints the estimate of each policy.
# Start      As marsrl_multinode.sh says: ray start on both nodes, then RAY_ADDRESS=auto on the first.
# To change  --mars.policies for other models or more of them (and as many "agents"); their tokenizers may differ.
#            --mars.plays says who plays with which weights, agent by agent or by role.
#
# Before and after (LiveCodeBench v6): each model alone, and both in one search.
#   vllm serve Qwen/Qwen3-8B --port 8000; vllm serve inclusionAI/AReaL-boba-2-8B --port 8001
#   ONE="http://127.0.0.1:8000/v1#Qwen/Qwen3-8B?temperature=0.6&top_p=0.95&max_tokens=16384"
#   TWO="http://127.0.0.1:8001/v1#inclusionAI/AReaL-boba-2-8B?temperature=0.6&top_p=0.95&max_tokens=16384"
#   mars-env evaluate livecodebench-solve --n 8 --agents "$ONE" --out runs/before-one
#   mars-env evaluate livecodebench-solve --n 8 --agents "$TWO" --out runs/before-two
#   mars-env evaluate livecodebench-tree-search --agents "$ONE,$TWO" --out runs/before-search
#   After training: runs/mars2_two/model/one and runs/mars2_two/model/two.
set -euo pipefail
exec "${PYTHON:-python}" -m mars_env.trainers.openrlhf \
    --mars.env deepcoder-tree-search \
    --mars.options '{"schedule": "training", "agents": 2}' \
    --mars.grow own \
    --mars.overlong '{"limit": 16384, "buffer": 2048}' \
    --mars.policies '{"one": "Qwen/Qwen3-8B", "two": "inclusionAI/AReaL-boba-2-8B"}' \
    --mars.plays '{"coder_0": "one", "coder_1": "two"}' \
    --actor.num_nodes 1 --actor.num_gpus_per_node 8 \
    --ref.num_nodes 1 --ref.num_gpus_per_node 8 \
    --vllm.num_engines 8 --vllm.tensor_parallel_size 1 \
    --vllm.gpu_memory_utilization 0.6 --vllm.enable_sleep --vllm.sync_backend nccl \
    --train.colocate_all --ds.enable_sleep --ds.zero_stage 3 \
    --actor.gradient_checkpointing_enable \
    --mars.max_num_seqs 256 --mars.max_num_batched_tokens 8192 \
    --mars.overflow unknown --data.max_len 20480 --rollout.max_new_tokens 16384 --rollout.temperature 1.0 \
    --rollout.batch_size 64 --rollout.micro_batch_size 1 \
    --train.batch_size 512 --train.micro_batch_size 1 \
    --actor.policy_loss_type gspo --actor.loss_agg_mode seq-mean-token-mean --actor.eps_clip_low_high 3e-4 4e-4 \
    --actor.adam.lr 1e-6 --actor.lr_scheduler constant \
    --algo.kl.init_coef 1e-3 --algo.kl.use_loss --algo.kl.estimator k3 \
    --ckpt.output_dir runs/mars2_two/model --ckpt.path runs/mars2_two/checkpoints --ckpt.save_steps 10 \
    --logger.tensorboard_dir runs/mars2_two/tensorboard \
    "$@"
