#!/usr/bin/env bash
# MarsRL on one node: Solver, Verifier and Corrector share Qwen3-4B-Thinking-2507, trained on DAPO-Math-17k.
# Groups of 8, 2 outputs of each agent carried on, adaptive sampling: at most 9 groups, 72 samples a problem (arXiv
# 2511.11373, training).
#
# Hardware   8 GPUs of 80 GB on one node, 256 GB of host memory. Engines and trainer share the GPUs in turn: engines
#            sleep while the policy is trained, optimiser and gradients go to the host while they sample. --dry-run
#            prints the estimate: about 52 GiB while rolling out, 62 GiB while training.
# To change  --train.micro_batch_size stays 1 at this length: --data.max_len decides the memory of training. With GPUs
#            to spare, 4 for training and 4 for engines overlap (see marsrl_multinode.sh).
#
# Before and after (AIME 2025, 32 samples; the Solver alone at the same number of tokens beside it):
#   vllm serve Qwen/Qwen3-4B-Thinking-2507 --data-parallel-size 8 --port 8000      # after: vllm serve runs/8gpus/model
#   mars-env evaluate aime25-solve-verify-correct --n 32 --baselines --out runs/before --agents \
#       "http://127.0.0.1:8000/v1#Qwen/Qwen3-4B-Thinking-2507?temperature=0.6&top_p=0.95&max_tokens=16384&thinking=opened"
#   mars-env compare runs/before runs/after
set -euo pipefail
exec "${PYTHON:-python}" -m mars_env.trainers.openrlhf \
    --mars.env dapo-math-17k-solve-verify-correct \
    --mars.options '{"schedule": "training"}' \
    --mars.thinking opened \
    --mars.eval_set aime25 --mars.eval_problems 30 --eval.n_samples_per_prompt 4 \
    --mars.eval_options '{"rounds": 2}' --mars.eval_max_tokens 16384 \
    --actor.model_name_or_path Qwen/Qwen3-4B-Thinking-2507 \
    --actor.num_nodes 1 --actor.num_gpus_per_node 8 \
    --ref.num_nodes 1 --ref.num_gpus_per_node 8 \
    --vllm.num_engines 8 --vllm.tensor_parallel_size 1 \
    --vllm.gpu_memory_utilization 0.6 --vllm.enable_sleep --vllm.sync_backend nccl \
    --train.colocate_all --ds.enable_sleep --ds.zero_stage 3 \
    --actor.gradient_checkpointing_enable \
    --mars.max_num_seqs 256 --mars.max_num_batched_tokens 8192 \
    --mars.overflow unknown --data.max_len 24576 --rollout.max_new_tokens 16384 --rollout.temperature 0.85 \
    --rollout.batch_size 64 --rollout.micro_batch_size 1 \
    --train.batch_size 1024 --train.micro_batch_size 1 \
    --actor.adam.lr 1e-6 --actor.lr_scheduler constant \
    --algo.kl.init_coef 1e-3 --algo.kl.use_loss --algo.kl.estimator k3 \
    --eval.steps 10 --eval.temperature 0.6 \
    --ckpt.output_dir runs/8gpus/model --ckpt.path runs/8gpus/checkpoints --ckpt.save_steps 10 --ckpt.save_hf \
    --logger.tensorboard_dir runs/8gpus/tensorboard \
    "$@"
