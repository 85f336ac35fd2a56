#!/usr/bin/env bash
# Checks that every extra of pyproject.toml can be resolved, each alone, and with the versions of constraints.txt too (vllm and
# openrlhf have others), and that the extras go together which docs/dependencies.md says do: scripts/resolve_extras.sh BIN
set -euo pipefail
cd "$(dirname "$0")/.."
bin=$1
resolve() { # "EXTRA ..." [OPTION...]
    # shellcheck disable=SC2046,SC2086 # a list of words
    "$bin/uv" pip compile pyproject.toml $(printf -- '--extra %s ' $1) "${@:2}" --quiet --python "$bin/python" \
        --output-file /dev/null >/dev/null
}
for extra in $("$bin/python" -c "
import tomllib
print(*tomllib.load(open('pyproject.toml', 'rb'))['project']['optional-dependencies'])"); do
    resolve "$extra"
    case $extra in
        vllm | openrlhf) echo "extra $extra: resolved" ;;
        *)
            resolve "$extra" --constraint constraints.txt
            echo "extra $extra: resolved, with constraints.txt too"
            ;;
    esac
done
for together in "all vllm" "hf trl verifiers ray openrlhf"; do
    resolve "$together"
    echo "extras $together: resolved together"
done
scripts/resolve_gpu.sh "$bin"
