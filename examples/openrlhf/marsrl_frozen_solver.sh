#!/usr/bin/env bash
# The paper's ablation: Verifier and Corrector are trained, the Solver is not. It is served elsewhere and may be
# another model (the paper: trained Verifiers and Correctors lift other Solvers too). Its turns need no token ids.
#
# Hardware   8 GPUs of 80 GB for Verifier and Corrector (as in marsrl_8gpus.sh), and a server for the Solver:
#                vllm serve Qwen/Qwen3-4B-Thinking-2507 --data-parallel-size 4 --port 8000
#            SOLVER names it; several replicas are joined by + (http://a:8000/v1+http://b:8000/v1#MODEL).
# To change  The other half of the ablation, the Solver alone, is marsrl_8gpus.sh --mars.train_roles solver: all three
#            play with the trained policy, and only the Solver's turns are trained.
#
# Before and after: the same Solver with the untrained and with the trained Verifier and Corrector.
#   vllm serve runs/frozen_solver/model --port 8001
#   AFTER="http://127.0.0.1:8001/v1#runs/frozen_solver/model?temperature=0.6&top_p=0.95&max_tokens=16384&thinking=opened"
#   mars-env evaluate aime25-solve-verify-correct --n 32 --out runs/after \
#       --agents "solver=$SOLVER?temperature=0.6&top_p=0.95&max_tokens=16384&thinking=opened,verifier=$AFTER,corrector=$AFTER"
set -euo pipefail
SOLVER="${SOLVER:-http://127.0.0.1:8000/v1#Qwen/Qwen3-4B-Thinking-2507}"
exec "${PYTHON:-python}" -m mars_env.trainers.openrlhf \
    --mars.env dapo-math-17k-solve-verify-correct \
    --mars.options '{"schedule": "training"}' \
    --mars.others "{\"solver\": \"$SOLVER?temperature=0.85&max_tokens=16384&thinking=opened\"}" \
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
    --ckpt.output_dir runs/frozen_solver/model --ckpt.path runs/frozen_solver/checkpoints --ckpt.save_steps 10 \
    --logger.tensorboard_dir runs/frozen_solver/tensorboard \
    "$@"
