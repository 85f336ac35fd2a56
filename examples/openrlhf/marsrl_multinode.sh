#!/usr/bin/env bash
# MarsRL with the paper's settings on several nodes: Qwen3-30B-A3B-Thinking-2507 plays all three agents. 128 problems
# and groups of 8, 1024 samples an update, temperature 0.85, AdamW 1e-6, outputs of up to 64k tokens in segments of 16k,
# the agentic pipeline (arXiv 2511.11373, training). Not public, and so our choice: the weight of the KL term, the bound
# of staleness, the training problems.
#
# Hardware   8 nodes of 8 GPUs of 80 GB: 4 nodes train (sequences split over the 8 GPUs of a node by ring attention, which
#            needs `pip install ring_flash_attn`), 4 nodes hold 8 engines of 4 GPUs. --dry-run prints the estimate: about
#            45 GiB while training, 74 GiB while rolling out.
# Start      On the first node:     ray start --head --num-gpus 8
#            On each other node:    ray start --address FIRST:6379 --num-gpus 8
#            On the first node:     RAY_ADDRESS=auto examples/openrlhf/marsrl_multinode.sh
#            mars_env must be installed on all nodes, and --ckpt.path must be on a file system that they share.
# To change  --actor.num_nodes and --vllm.num_engines for other numbers of nodes; --mars.staleness 0 without
#            --mars.groups_per_update and --train.async_enable is synchronous training.
#
# Before and after (the paper: avg@32 on AIME 2025 and BeyondAIME, up to 10 rounds of correction):
#   vllm serve Qwen/Qwen3-30B-A3B-Thinking-2507 --tensor-parallel-size 4 --max-model-len 98304 --port 8000
#   mars-env evaluate aime25-solve-verify-correct --n 32 --baselines --out runs/before --agents \
#       "http://127.0.0.1:8000/v1#Qwen/Qwen3-30B-A3B-Thinking-2507?temperature=0.6&top_p=0.95&max_tokens=65536&thinking=opened"
#   mars-env compare runs/before runs/after
set -euo pipefail
exec "${PYTHON:-python}" -m mars_env.trainers.openrlhf \
    --mars.env dapo-math-17k-solve-verify-correct \
    --mars.options '{"schedule": "training"}' \
    --mars.thinking opened \
    --mars.group 8 --mars.branches 2 --mars.sampling adaptive \
    --mars.staleness 2 --mars.groups_per_update 128 --mars.segment_tokens 16384 \
    --mars.eval_set aime25 --mars.eval_problems 30 \
    --actor.model_name_or_path Qwen/Qwen3-30B-A3B-Thinking-2507 \
    --actor.num_nodes 4 --actor.num_gpus_per_node 8 \
    --ref.num_nodes 4 --ref.num_gpus_per_node 8 --train.colocate_actor_ref \
    --vllm.num_engines 8 --vllm.tensor_parallel_size 4 \
    --vllm.gpu_memory_utilization 0.9 --vllm.sync_backend nccl \
    --train.async_enable --train.partial_rollout_enable \
    --ds.zero_stage 3 --ds.ring_attn_size 8 --ds.ring_attn_head_stride 4 --ds.packing_samples \
    --actor.gradient_checkpointing_enable \
    --mars.overflow unknown --data.max_len 98304 --rollout.max_new_tokens 65536 --rollout.temperature 0.85 \
    --rollout.batch_size 128 --rollout.micro_batch_size 1 \
    --train.batch_size 1024 --train.micro_batch_size 1 \
    --actor.adam.lr 1e-6 --actor.lr_scheduler constant \
    --algo.kl.init_coef 1e-3 --algo.kl.use_loss --algo.kl.estimator k3 \
    --eval.steps 20 --eval.temperature 0.6 \
    --ckpt.output_dir runs/30b/model --ckpt.path runs/30b/checkpoints --ckpt.save_steps 10 \
    --logger.tensorboard_dir runs/30b/tensorboard \
    "$@"
