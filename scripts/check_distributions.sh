#!/usr/bin/env bash
# Tests what strangers install: a clone without symbolic links, an sdist, and the wheel made of it:
# scripts/check_distributions.sh BIN
set -euo pipefail
bin=$(cd "$1" && pwd)
cd "$(dirname "$0")/.."
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT

# Runs tests in a folder against the package in another, and makes sure that it is that package.
run_tests() {
    local folder=$1 package=$2
    shift 2
    (cd "$folder" && export PYTHONPATH="$package" &&
        "$bin/python" -P -c "import mars_env, sys; sys.exit(not mars_env.__file__.startswith('$package/'))" &&
        "$bin/python" -P -m pytest -n auto -q "$@")
}

echo "A clone without symbolic links"
git clone --quiet --config core.symlinks=false . "$place/clone"
[ ! -L "$place/clone/agents" ] || { echo "this git makes symbolic links all the same" >&2; exit 1; }
run_tests "$place/clone" "$place/clone" tests/house tests/agents tests/envs

echo "An sdist and its wheel"
build() { (cd "$1" && "$bin/python" -c "from setuptools import build_meta; build_meta.build_$2('$3')" >/dev/null 2>&1); }
git clone --quiet . "$place/tree" # a build leaves files behind
build "$place/tree" sdist "$place"
mkdir "$place/sdist" "$place/of-sdist" "$place/site" "$place/away"
tar xzf "$place"/mars_env-*.tar.gz --directory "$place/sdist" --strip-components 1
build "$place/tree" wheel "$place"
build "$place/sdist" wheel "$place/of-sdist"
files() { "$bin/python" -m zipfile --list "$1" | awk 'NR > 1 {print $1}' | sort; }
diff <(files "$place"/mars_env-*.whl) <(files "$place"/of-sdist/mars_env-*.whl)
"$bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --target "$place/site" "$place"/of-sdist/*.whl
cp -r tests conftest.py README.md CHANGELOG.md "$place/away"
cp "$place/sdist/pyproject.toml" "$place/away"
# What a wheel can lack: modules, templates, the embedded checkpoint.
run_tests "$place/away" "$place/site" tests/house tests/evaluation/test_viewer.py tests/trainers/test_miniature_checkpoint.py
