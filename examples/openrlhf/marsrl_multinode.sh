#!/usr/bin/env bash
# MarsRL on several nodes, as an agentic pipeline: Qwen3-14B plays all three agents while it is trained. From the paper:
# 128 groups of 8 an update, 1024 samples, temperature 0.85, AdamW 1e-6, segments, adaptive sampling (arXiv 2511.11373,
# training). Ours: a dense model in place of Qwen3-30B-A3B (docs/openrlhf.md says what that would take), outputs of 32k
# instead of 64k tokens (the model's context), a token's importance weight in place of DMMPT, the weight of the KL term,
# the bound of staleness, the training problems.
#
# Hardware   4 nodes of 8 GPUs of 80 GB: 2 nodes train (sequences split over the 8 GPUs of a node by ring attention, which
#            needs `pip install ring_flash_attn`), 2 nodes hold 8 engines of 2 GPUs. --dry-run prints the estimate: about
#            58 GiB while training, 74 GiB while rolling out.
# Start      On the first node:     ray start --head --num-gpus 8
#            On each other node:    ray start --address FIRST:6379 --num-gpus 8
#            On the first node:     RAY_ADDRESS=auto examples/openrlhf/marsrl_multinode.sh
#            or all of it with SLURM: sbatch examples/openrlhf/slurm.sbatch examples/openrlhf/marsrl_multinode.sh
#            mars_env must be installed on all nodes, and --ckpt.path must be on a file system that they share.
# To change  --actor.num_nodes and --vllm.num_engines for other numbers of nodes; --mars.staleness 0 without
#            --mars.groups_per_update and --train.async_enable is synchronous training.
#
# Before and after (the paper: avg@32 on AIME 2025 and BeyondAIME, up to 10 rounds of correction):
#   vllm serve Qwen/Qwen3-14B --tensor-parallel-size 2 --max-model-len 40960 --port 8000    # after: runs/14b/model
#   mars-env evaluate aime25-solve-verify-correct --n 32 --baselines --out runs/before --agents \
#       "http://127.0.0.1:8000/v1#Qwen/Qwen3-14B?temperature=0.6&top_p=0.95&max_tokens=32768"
#   mars-env compare runs/before runs/after
set -euo pipefail
exec "${PYTHON:-python}" -m mars_env.trainers.openrlhf \
    --mars.env dapo-math-17k-solve-verify-correct \
    --mars.options '{"schedule": "training"}' \
    --mars.group 8 --mars.branches 2 --mars.sampling adaptive \
    --mars.staleness 2 --mars.groups_per_update 128 --mars.segment_tokens 8192 \
    --mars.eval_set aime25 --mars.eval_problems 30 --eval.n_samples_per_prompt 4 \
    --mars.eval_options '{"rounds": 2}' --mars.eval_max_tokens 16384 \
    --actor.model_name_or_path Qwen/Qwen3-14B \
    --actor.num_nodes 2 --actor.num_gpus_per_node 8 \
    --ref.num_nodes 2 --ref.num_gpus_per_node 8 --train.colocate_actor_ref \
    --vllm.num_engines 8 --vllm.tensor_parallel_size 2 \
    --vllm.gpu_memory_utilization 0.9 --vllm.sync_backend nccl \
    --train.async_enable --train.partial_rollout_enable \
    --ds.zero_stage 3 --ds.ring_attn_size 8 --ds.ring_attn_head_stride 4 --train.dynamic_batch_enable --train.max_tokens_per_gpu 16384 \
    --actor.gradient_checkpointing_enable \
    --mars.max_num_seqs 256 --mars.max_num_batched_tokens 8192 \
    --mars.overflow unknown --data.max_len 40960 --rollout.max_new_tokens 32768 --rollout.temperature 0.85 \
    --rollout.batch_size 128 --rollout.micro_batch_size 1 \
    --train.batch_size 1024 --train.micro_batch_size 1 \
    --actor.adam.lr 1e-6 --actor.lr_scheduler constant \
    --algo.kl.init_coef 1e-3 --algo.kl.use_loss --algo.kl.estimator k3 \
    --eval.steps 20 --eval.temperature 0.6 \
    --ckpt.output_dir runs/14b/model --ckpt.path runs/14b/checkpoints --ckpt.save_steps 10 \
    --logger.tensorboard_dir runs/14b/tensorboard \
    "$@"
