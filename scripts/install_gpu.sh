#!/usr/bin/env bash
# Installs OpenRLHF and the library on a CUDA machine, in the order that works: scripts/install_gpu.sh PYTHON VENV
# Versions are those of requirements-gpu.txt, all others those of constraints-gpu.txt. It takes Python 3.12, CUDA 13.0's
# compiler (nvcc) for flash-attn, and NVIDIA's driver 580 or newer.
#
#   MAX_JOBS=4                     how many files flash-attn compiles at once: each takes some GB of memory
#   FLASH_ATTN_CUDA_ARCHS=90       only for Hopper, in a quarter of the time (80: Ampere; 100 and 120: Blackwell)
set -euo pipefail
python=$1 venv=$2
cd "$(dirname "$0")/.."

"$python" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 12))' || {
    echo "constraints-gpu.txt is resolved for Python 3.12: give one, as scripts/install_gpu.sh python3.12 VENV" >&2
    exit 1
}
[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
pip="$venv/bin/python -m pip install --disable-pip-version-check --constraint constraints-gpu.txt"

# 1. vLLM, which installs the one torch that its kernels are compiled for. A torch installed first would be another one.
$pip torch vllm
# 2. What OpenRLHF trains with, and what flash-attn is built with.
$pip transformers deepspeed "ray[default]" setuptools wheel packaging ninja psutil
# 3. flash-attn, compiled against that torch.
$pip --no-build-isolation flash-attn
# 4. OpenRLHF, and the library.
$pip "openrlhf[vllm]"
$pip .
# Report now what one of the steps changed or broke.
"$venv/bin/python" -m pip check
"$venv/bin/python" -c "import torch, flash_attn, vllm; print('torch', torch.__version__, 'CUDA', torch.version.cuda)"
