# Training with OpenRLHF on GPUs. Versions: requirements-gpu.txt. Order: scripts/install_gpu.sh.
#
#   docker build --tag mars-env-gpu .
#   docker run --gpus all --shm-size 16g --ulimit memlock=-1 -it mars-env-gpu \
#       python -m mars_env.trainers.openrlhf --config examples/openrlhf/marsrl_smoke_1gpu.toml
#
# The host needs NVIDIA's driver 580 or newer (all of CUDA 13) and the NVIDIA Container Toolkit. The image has the
# compiler (devel), since flash-attn is built here: from some minutes to hours, by the number of cores. For one sort of
# GPU: --build-arg FLASH_ATTN_CUDA_ARCHS=90 (80 Ampere, 90 Hopper, 100 and 120 Blackwell).
FROM nvidia/cuda:13.0.2-devel-ubuntu24.04

# bubblewrap isolates programs that models write; vLLM's and Ray's libraries find NUMA nodes by libnuma.
RUN apt-get update \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
        python3 python3-dev python3-venv build-essential bubblewrap git libnuma1 \
    && rm -rf /var/lib/apt/lists/*

ARG MAX_JOBS=8
ARG FLASH_ATTN_CUDA_ARCHS="80;90;100;120"
ENV PIP_NO_CACHE_DIR=1 TOKENIZERS_PARALLELISM=false

WORKDIR /opt/mars-env
COPY pyproject.toml README.md LICENSE requirements-gpu.txt constraints-gpu.txt ./
COPY scripts/install_gpu.sh scripts/
COPY mars_env mars_env
RUN MAX_JOBS=$MAX_JOBS FLASH_ATTN_CUDA_ARCHS="$FLASH_ATTN_CUDA_ARCHS" scripts/install_gpu.sh python3 /opt/venv
COPY examples examples
RUN chown ubuntu: .
ENV PATH=/opt/venv/bin:$PATH
USER ubuntu
