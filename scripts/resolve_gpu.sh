#!/usr/bin/env bash
# Resolves requirements-gpu.txt with the library, for Linux, CUDA and Python 3.12: scripts/resolve_gpu.sh BIN [--write]
# Only metadata is read. Compares with constraints-gpu.txt, whose versions stay as long as they fit; --write renews it.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=$1
fresh=$(mktemp)
trap 'rm -f "$fresh"' EXIT
[ "${2:-}" = --write ] || cp constraints-gpu.txt "$fresh" # uv keeps what it finds there
"$bin/uv" pip compile requirements-gpu.txt pyproject.toml --quiet --no-header --no-annotate \
    --python-version 3.12 --python-platform x86_64-manylinux_2_28 --output-file "$fresh" >/dev/null
if [ "${2:-}" = --write ]; then
    {
        echo "# All that a CUDA machine gets, as resolved for Python 3.12: written by scripts/resolve_gpu.sh, not by hand."
        cat "$fresh"
    } >constraints-gpu.txt
fi
diff <(grep -v '^#' constraints-gpu.txt) <(grep -v '^#' "$fresh") || {
    echo "constraints-gpu.txt does not fit requirements-gpu.txt: scripts/resolve_gpu.sh $bin --write" >&2
    exit 1
}
echo "GPU stack: resolved, $(grep -c == "$fresh") packages"
