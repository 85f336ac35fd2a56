#!/usr/bin/env bash
# Tests what strangers install, each in a virtual environment of its own: scripts/check_distributions.sh BIN
#   1. a clone without symbolic links, installed in place;
#   2. a wheel, built from the sdist of the repository: its files, then with its core dependencies alone, then its tests.
# BIN is the folder of programs that `make test` installs. What is committed is tested, not the working tree.
# The whole suite is not repeated: the lists of tests below say what each copy can lack.
set -euo pipefail
bin=$(cd "$1" && pwd)
cd "$(dirname "$0")/.."
repository=$PWD
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
unset PYTHONPATH PYTHONHOME # what is installed is imported, and nothing else
say() { echo "== $*"; }
die() { echo "check_distributions: $*" >&2; exit 1; }
uv() { "$bin/uv" --quiet "$@"; }

# A new environment that also finds the packages of BIN, behind its own; the editable install there stays out.
share_packages() { "$bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))' >"$("$1/bin/python" -c \
    'import sysconfig; print(sysconfig.get_path("purelib"))')/packages-of-the-tests.pth"; }

# Fails unless a folder's mars_env is the one that an environment imports.
must_import_from() {
    local found
    found=$("$1/bin/python" -P -c 'import mars_env; print(mars_env.__path__[0])')
    [ "$(realpath "$found")" = "$(realpath "$2/mars_env")" ] || die "$found is imported, not $2/mars_env"
}

say "A clone without symbolic links"
git -c core.symlinks=false clone --quiet . "$place/clone"
for link in agents trainers; do
    if [ -L "$place/clone/$link" ] || [ ! -f "$place/clone/$link" ]; then die "$link is no plain file in the clone"; fi
done
uv venv --python "$bin/python" "$place/in-clone"
share_packages "$place/in-clone"
uv pip install --python "$place/in-clone/bin/python" --no-deps --no-build-isolation --editable "$place/clone"
cd "$place/clone"
must_import_from "$place/in-clone" "$place/clone"
# Links can matter to what walks over folders or names them: which modules are found (every test module and every
# doctest is imported), which layers they form, what the pages link to, and what is packed.
clone_tests=(tests/docs/test_pages.py::test_links_between_pages_lead_somewhere
    tests/house/test_package.py tests/house/test_lazy_names.py)
"$place/in-clone/bin/python" -m pytest --collect-only -qq >"$place/collected" || { tail -40 "$place/collected"; exit 1; }
"$place/in-clone/bin/python" -m pytest -n auto -q "${clone_tests[@]}"
uv build --no-build-isolation --python "$place/in-clone/bin/python" --out-dir "$place/of-clone" "$place/clone"

say "An sdist, and the wheel that is built from it"
git clone --quiet "$repository" "$place/tree" # a build leaves files behind
uv build --no-build-isolation --python "$place/in-clone/bin/python" --out-dir "$place/built" "$place/tree"
cd "$place"
sdist=$(ls "$place"/built/*.tar.gz)
wheel=$(ls "$place"/built/*.whl)
# All files of the packages, and no others: no tests, no data, no caches, no links.
packed() { git -C "$place/tree" ls-files mars_env mars_env_verifiers; }
sorted() { LC_ALL=C sort "$@"; }
in_wheel() { "$bin/python" -m zipfile --list "$1" | awk 'NR > 1 {print $1}' | grep -v '\.dist-info/' | sorted; }
in_sdist() { tar tzf "$1" | sed 's,^[^/]*/,,' | grep -v -e '/$' -e '^$' -e '\.egg-info/' -e '^PKG-INFO$' -e '^setup.cfg$' | sorted; }
diff <(packed | sorted) <(in_wheel "$wheel") || die "the wheel lacks files (<) or holds others (>)"
diff <({ packed; printf '%s\n' LICENSE README.md pyproject.toml; } | sorted) <(in_sdist "$sdist") ||
    die "the sdist lacks files (<) or holds others (>)"
diff <(in_wheel "$wheel") <(in_wheel "$place"/of-clone/*.whl) || die "a clone without links gives another wheel"

say "The wheel with its core dependencies alone"
uv venv --python "$bin/python" "$place/installed"
uv pip install --python "$place/installed/bin/python" --constraint "$repository/constraints.txt" "$wheel"
mkdir "$place/away"
cd "$place/away"
site=$("$place/installed/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
must_import_from "$place/installed" "$site"
"$place/installed/bin/python" -P "$repository/scripts/check_installed.py" "$place/installed/bin/mars-env"

say "The wheel's tests"
share_packages "$place/installed"
must_import_from "$place/installed" "$site"
# Its files are enough for the dry run of the how-to page.
uv pip install --python "$place/installed/bin/python" --no-deps openrlhf==0.11.2
# An installed package can lack modules (all doctests), data (templates, checkpoint) and entry points; it can find
# things beside itself that only a repository has. The tests are read where they are; the package is the wheel's.
# The examples of pages run in `make test`; here the commands of README and the how-to pages do.
wheel_tests=("$site/mars_env" "$repository/tests/docs/test_journeys.py" "$repository/tests/house/test_package.py"
    "$repository/tests/house/test_lazy_names.py" "$repository/tests/house/test_own_package.py"
    "$repository/tests/viewer/test_viewer.py" "$repository/tests/miniature/test_miniature_checkpoint.py")
# Training is left out: it takes long, and needs nothing of the package that the others do not load.
wheel_tests+=(--deselect tests/miniature/test_miniature_checkpoint.py::test_a_few_steps_of_the_warm_start_lower_the_loss)
# Doctests are left out where conftest.py leaves them out in the repository.
for module in $(cd "$repository" && "$bin/python" -c 'import conftest; print(*conftest.collect_ignore)'); do
    wheel_tests+=(--ignore "$site/$module")
done
"$place/installed/bin/python" -m pytest -c "$repository/pyproject.toml" --rootdir "$repository" \
    -n auto -q "${wheel_tests[@]}"
