#!/usr/bin/env bash
# A custom environment with agents and rewards of its own, trained without touching the library: calibration.py beside
# this script registers rules (a Solver answers, an Assessor says how likely the answer is right), two rewards (right
# answers; Brier's score) and makes the agents. Take it as a pattern for an environment of your own.
#
# Hardware   1 GPU of 80 GB. --dry-run prints the estimate: about 45 GiB while rolling out, 40 GiB while training.
# Start      All processes import calibration.py: where Ray is running before, start it with this folder on PYTHONPATH.
# To change  With a second GPU, PLACEMENT= (empty) in the environment gives engine and trainer one each.
#            --mars.env MODULE:SET-RULES for rules of your own, --mars.agents for their agents, --mars.rewards '{"solver":
#            "module:function"}' for other rewards. Check rules with mars_env.testing.check_rules first: it finds in
#            a second what a run finds in an hour. Adaptive sampling prefers by role and knows none of yours: take balanced.
#
# Before and after, on the test split:
#   vllm serve Qwen/Qwen3-1.7B --port 8000                                     # after: vllm serve runs/calibration/model
#   export SERVER=http://127.0.0.1:8000/v1 MODEL=Qwen/Qwen3-1.7B PYTHONPATH=examples/openrlhf
#   mars-env evaluate calibration:gsm8k-assessed --limit 200 --n 4 --agents calibration:served --out runs/before
#   mars-env compare runs/before runs/after
set -euo pipefail
HERE="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
export PYTHONPATH="$HERE${PYTHONPATH:+:$PYTHONPATH}"  # calibration.py is imported by all processes of the run
PLACEMENT="${PLACEMENT---train.colocate_all --vllm.enable_sleep --ds.enable_sleep}"
exec "${PYTHON:-python}" -m mars_env.trainers.openrlhf \
    --mars.env calibration:gsm8k-assessed \
    --mars.problem_options '{"split": "train"}' \
    --mars.agents calibration:team \
    --mars.group 8 --mars.branches 2 --mars.sampling balanced \
    --actor.model_name_or_path Qwen/Qwen3-1.7B \
    --actor.num_nodes 1 --actor.num_gpus_per_node 1 \
    --ref.num_nodes 1 --ref.num_gpus_per_node 1 \
    --vllm.num_engines 1 --vllm.tensor_parallel_size 1 \
    --vllm.gpu_memory_utilization 0.5 --vllm.sync_backend nccl \
    $PLACEMENT --ds.zero_stage 2 \
    --actor.gradient_checkpointing_enable \
    --mars.max_num_seqs 256 --mars.max_num_batched_tokens 8192 \
    --mars.overflow unknown --data.max_len 6144 --rollout.max_new_tokens 4096 --rollout.temperature 1.0 \
    --rollout.batch_size 32 --rollout.micro_batch_size 1 \
    --train.batch_size 256 --train.micro_batch_size 1 \
    --actor.adam.lr 1e-6 --algo.kl.init_coef 0 \
    --ckpt.output_dir runs/calibration/model --ckpt.path runs/calibration/checkpoints --ckpt.save_steps 10 \
    --logger.tensorboard_dir runs/calibration/tensorboard \
    "$@"
