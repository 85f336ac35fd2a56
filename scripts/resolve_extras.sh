#!/usr/bin/env bash
# Checks that every extra of pyproject.toml can be resolved, each on its own, and with the versions of constraints.txt too
# (vllm and openrlhf pin others: each has an environment of its own): scripts/resolve_extras.sh BIN
set -euo pipefail
cd "$(dirname "$0")/.."
bin=$1
for extra in $("$bin/python" -c "
import tomllib
print(*tomllib.load(open('pyproject.toml', 'rb'))['project']['optional-dependencies'])"); do
    resolve=("$bin/uv" pip compile pyproject.toml --extra "$extra" --quiet --python "$bin/python" --output-file /dev/null)
    "${resolve[@]}" >/dev/null
    case $extra in
        vllm | openrlhf) echo "extra $extra: resolved" ;;
        *)
            "${resolve[@]}" --constraint constraints.txt >/dev/null
            echo "extra $extra: resolved, with constraints.txt too"
            ;;
    esac
done
scripts/resolve_gpu.sh "$bin"
