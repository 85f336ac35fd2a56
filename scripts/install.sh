#!/usr/bin/env bash
# Installs the library: scripts/install.sh PYTHON VENV TORCH EXTRAS
# With the extra "dev" also what tests need besides: system packages, and a note of the sandboxes.
set -euo pipefail
python=$1 venv=$2 torch=$3 extras=$4
cd "$(dirname "$0")/.."

install_packages() {
    if command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
        apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$@" >/dev/null
    elif command -v apt-get >/dev/null && sudo -n true 2>/dev/null; then
        sudo apt-get update -qq && sudo DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$@" >/dev/null
    else
        return 1
    fi
}

# System packages: bubblewrap isolates programs that models write, and tests open pages in Chromium.
if [ "$extras" = dev ]; then
    if ! command -v bwrap >/dev/null && ! install_packages bubblewrap; then
        echo "Please install bubblewrap with your system's package manager; without it, programs run under Landlock or not at all." >&2
    fi
    if ! command -v chromium >/dev/null && ! install_packages chromium 2>/dev/null; then
        echo "There is no Chromium, so the tests of pages are skipped." >&2
    fi
fi

[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
# Python compiles what it imports, which is a small part of these packages.
pip="$venv/bin/python -m pip install --quiet --disable-pip-version-check --no-compile"
$pip --upgrade "pip>=25" "setuptools>=77" wheel

# torch first: the CPU build if there is no GPU (the default build brings gigabytes of GPU libraries).
if ! "$venv/bin/python" -c "import torch" 2>/dev/null; then
    if command -v nvidia-smi >/dev/null && nvidia-smi >/dev/null 2>&1; then
        $pip "$torch"
    else
        $pip "$torch+cpu" 2>/dev/null ||
            { $pip uv && "$venv/bin/uv" pip install --quiet --python "$venv/bin/python" --torch-backend=cpu "$torch"; } 2>/dev/null ||
            $pip "$torch"
    fi
fi
$pip --constraint constraints.txt --editable ".[$extras]"
[ "$extras" = dev ] || exit 0

# The sandboxes for which this machine has all parts: their tests may not be skipped.
{
    if bwrap --unshare-all --ro-bind / / --proc /proc true 2>/dev/null; then echo bubblewrap; fi
    if "$venv/bin/python" -c "import sys; from mars_env.sandbox.backends import landlock_abi as abi; sys.exit(abi() < 3)"; then
        echo landlock
    fi
} >"$venv/sandboxes"
