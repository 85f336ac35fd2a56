#!/usr/bin/env bash
# Checks that every extra of pyproject.toml can be resolved, each on its own: scripts/resolve_extras.sh BIN
set -euo pipefail
cd "$(dirname "$0")/.."
bin=$1
for extra in $("$bin/python" -c "
import tomllib
print(*tomllib.load(open('pyproject.toml', 'rb'))['project']['optional-dependencies'])"); do
    "$bin/uv" pip compile pyproject.toml --extra "$extra" --quiet --python "$bin/python" --output-file /dev/null >/dev/null
    echo "extra $extra: resolved"
done
scripts/resolve_gpu.sh "$bin"
