#!/usr/bin/env bash
# MARS2's second stage on code: one model in several roles. Three agents with prompts of their own (roles.py) grow one
# search tree of 8 programs for each problem; the search learns which of them to ask, and the one set of weights is
# trained on all nodes (homogeneous multi-agent, arXiv 2602.07848). The loss is that of mars2_one_model.sh.
#
# Hardware   As mars2_one_model.sh: 8 GPUs of 80 GB, since all agents share one model.
# Start      All processes import roles.py: where Ray is running before, start it with this folder on PYTHONPATH.
# To change  --mars.overlong must name the same limit as --rollout.max_new_tokens. --mars.tree_credit
#            '{"sibling_weight": 0.5, "strength": 0.5}' turns tree-shaped credit on. Other roles: roles.py.
#
# Before and after (LiveCodeBench v6): Pass@1 of the agent, and its search with 60 nodes.
#   vllm serve Qwen/Qwen3-8B --data-parallel-size 8 --port 8000                     # after: vllm serve runs/mars2_roles/model
#   export SERVER=http://127.0.0.1:8000/v1 MODEL=Qwen/Qwen3-8B PYTHONPATH=examples/openrlhf
#   AGENT="http://127.0.0.1:8000/v1#Qwen/Qwen3-8B?temperature=0.6&top_p=0.95&max_tokens=16384"
#   mars-env evaluate livecodebench-solve --n 8 --agents "$AGENT" --out runs/before
#   mars-env evaluate livecodebench-tree-search --out runs/before-search \
#       --agents roles:simplest,roles:careful,roles:comparing
set -euo pipefail
HERE="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
export PYTHONPATH="$HERE${PYTHONPATH:+:$PYTHONPATH}"  # roles.py is imported by all processes of the run
exec "${PYTHON:-python}" -m mars_env.trainers.openrlhf \
    --mars.env deepcoder-tree-search \
    --mars.options '{"schedule": "training", "agents": 3}' \
    --mars.agents roles:team \
    --mars.grow own \
    --mars.overlong '{"limit": 16384, "buffer": 2048}' \
    --actor.model_name_or_path Qwen/Qwen3-8B \
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
    --ckpt.output_dir runs/mars2_roles/model --ckpt.path runs/mars2_roles/checkpoints --ckpt.save_steps 10 \
    --logger.tensorboard_dir runs/mars2_roles/tensorboard \
    "$@"
