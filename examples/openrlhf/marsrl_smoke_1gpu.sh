#!/usr/bin/env bash
# MarsRL at its smallest on one GPU: Solver, Verifier and Corrector share Qwen3-0.6B, on easy AIME-style problems that
# are generated here. It shows in some minutes whether an installation works; it is too small to learn much.
#
# Hardware   1 GPU of 24 GB or more, 16 GB of host memory. `marsrl_smoke_1gpu.sh --dry-run=24` prints the estimate for
#            24 GB: about 13 GiB while rolling out, 19 GiB while training. Engine and trainer share the GPU; the engine
#            sleeps while the policy is trained.
# To change  With a second GPU, PLACEMENT= (empty) in the environment gives engine and trainer one each.
#            --actor.model_name_or_path for another model; --data.max_len and --rollout.max_new_tokens for longer
#            outputs (logits take 12 bytes x vocabulary a token); --mars.problems for a longer run. Any flag that is
#            given to this script comes last and wins.
#
# Before and after (problems of another seed than those of training):
#   vllm serve Qwen/Qwen3-0.6B --port 8000                       # after training: vllm serve runs/smoke/model
#   mars-env evaluate aime-solve-verify-correct --limit 50 --n 4 --set rounds=2 --out runs/before \
#       --agents "http://127.0.0.1:8000/v1#Qwen/Qwen3-0.6B?temperature=0.6&top_p=0.95&max_tokens=2048"
#   mars-env compare runs/before runs/after
set -euo pipefail
PLACEMENT="${PLACEMENT---train.colocate_all --vllm.enable_sleep --ds.enable_sleep}"
exec "${PYTHON:-python}" -m mars_env.trainers.openrlhf \
    --mars.env aime-solve-verify-correct \
    --mars.options '{"schedule": "training", "rounds": 1}' \
    --mars.problem_options '{"level": [1, 2], "seed": 1}' \
    --mars.problems 64 \
    --mars.group 4 \
    --mars.branches 1 \
    --actor.model_name_or_path Qwen/Qwen3-0.6B \
    --actor.num_nodes 1 --actor.num_gpus_per_node 1 \
    --ref.num_nodes 1 --ref.num_gpus_per_node 1 \
    --vllm.num_engines 1 --vllm.tensor_parallel_size 1 \
    --vllm.gpu_memory_utilization 0.4 --vllm.sync_backend nccl \
    $PLACEMENT --ds.zero_stage 2 \
    --actor.gradient_checkpointing_enable \
    --mars.max_num_seqs 128 --mars.max_num_batched_tokens 4096 \
    --mars.overflow unknown --data.max_len 4096 --rollout.max_new_tokens 2048 --rollout.temperature 0.85 \
    --rollout.batch_size 8 --rollout.micro_batch_size 2 \
    --train.batch_size 32 --train.micro_batch_size 1 \
    --actor.adam.lr 1e-6 --algo.kl.init_coef 0 \
    --ckpt.output_dir runs/smoke/model --ckpt.path runs/smoke/checkpoints --ckpt.save_steps 4 \
    --logger.tensorboard_dir runs/smoke/tensorboard \
    "$@"
