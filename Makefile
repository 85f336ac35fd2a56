# Two commands for everybody: `make demo` and `make test`. Both install what they need into .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ENGINES := .venv-engines
EXACT := .venv-exact
TORCH := torch==2.13.0

# One thread per process: busy threads on shared cores slow each other down many times over.
export OMP_NUM_THREADS ?= 1
export MKL_NUM_THREADS ?= 1
export TOKENIZERS_PARALLELISM ?= false

.PHONY: help demo test test-engines test-engines-exact prove-openrlhf check unit distributions extras results docs soak mutants explore clean

help:
	@echo "make demo     train a miniature team with MarsRL and show the table (minutes)"
	@echo "make test     lint, types, import rules, all light tests"
	@echo "make test-engines  install vLLM for CPUs and test the real engines and servers (minutes)"
	@echo "make test-engines-exact  the same with the versions of a GPU machine, as far as they run on CPUs"
	@echo "make prove-openrlhf  train the miniature locally and through OpenRLHF, and compare (hours)"
	@echo "make check    the same without the tests"
	@echo "make distributions  test the sdist, the wheel built from it, and every command of README and how-to pages (minutes)"
	@echo "make extras   check that every optional extra, and the stack for GPUs, can be resolved"
	@echo "make results  write the studies' pages from their ledgers"
	@echo "make soak     an evaluation under faults, kills and an outage (minutes, alone on the machine)"
	@echo "make mutants  change the core at 300 places, one at a time: do its tests notice? (an hour)"
	@echo "make explore  the light tests with other random examples than those of every run (nightly)"
	@echo "make docs     build the documentation with its reference into site/"

demo: $(VENV)/demo-installed
	$(BIN)/python examples/demo.py

test: check unit

check: $(VENV)/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/python scripts/draw_architecture.py --check
	$(BIN)/mypy
	@! $(BIN)/vulture | grep '^mars_env/' # code that nothing uses, not even tests and examples

# Many tests wait for other processes, so there is one worker more than processors. The commands of README and
# the how-to pages run in `make distributions`, with an installed wheel.
unit: $(VENV)/installed
	$(BIN)/python -m pytest -n $$(($$(getconf _NPROCESSORS_ONLN) + 1)) --dist worksteal -q \
		--ignore tests/docs/test_journeys.py

explore: export HYPOTHESIS_PROFILE = explore
explore: unit

# vLLM pins its own versions. The miniature needs little memory; graphs are not compiled.
test-engines test-engines-exact: export VLLM_CPU_KVCACHE_SPACE ?= 1
test-engines test-engines-exact: export VLLM_CPU_OMP_THREADS_BIND ?= nobind
test-engines test-engines-exact: export VLLM_NO_USAGE_STATS = 1
test-engines test-engines-exact: export VLLM_LOGGING_LEVEL ?= WARNING
test-engines test-engines-exact: export HF_HUB_OFFLINE = 1
test-engines: $(ENGINES)/installed
	$(ENGINES)/bin/python -m pytest tests/engines -q --timeout 900

# The versions of requirements-gpu.txt; FILES="tests/engines/test_vllm_model.py" picks some.
FILES := tests/engines
test-engines-exact: $(EXACT)/installed
	$(EXACT)/bin/python -m pytest $(FILES) -q --timeout 900

prove-openrlhf: $(ENGINES)/installed $(VENV)/installed
	$(ENGINES)/bin/python -m studies.openrlhf
	$(BIN)/python -m studies.openrlhf --table

$(ENGINES)/installed: pyproject.toml constraints-engines.txt scripts/install_engines.sh
	scripts/install_engines.sh "$(PYTHON)" "$(ENGINES)" "$(TORCH)"
	@touch $@

$(EXACT)/installed: pyproject.toml requirements-gpu.txt constraints-gpu.txt constraints-engines.txt \
		scripts/exact_engines.py scripts/install_engines.sh
	mkdir -p "$(EXACT)"
	"$(PYTHON)" scripts/exact_engines.py >"$(EXACT)/requirements.txt"
	scripts/install_engines.sh "$(PYTHON)" "$(EXACT)" "$(TORCH)" "$(EXACT)/requirements.txt"
	@touch $@

distributions: $(VENV)/installed
	scripts/check_distributions.sh $(BIN)

extras: $(VENV)/installed
	scripts/resolve_extras.sh $(BIN)

results: $(VENV)/installed
	$(BIN)/python -m studies.overview --all

# The demo needs none of the packages that only tests need.
$(VENV)/demo-installed: pyproject.toml constraints.txt scripts/install.sh
	scripts/install.sh "$(PYTHON)" "$(VENV)" "$(TORCH)" hf,plots,viewer
	@touch $@

$(VENV)/installed: pyproject.toml constraints.txt scripts/install.sh
	scripts/install.sh "$(PYTHON)" "$(VENV)" "$(TORCH)" dev
	@touch $@ $(VENV)/demo-installed

soak: $(VENV)/installed
	$(BIN)/python benchmarks/soak.py --minutes 3

mutants: $(VENV)/installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt 'cosmic-ray>=8.7,<9'
	$(BIN)/python benchmarks/mutants.py

docs: $(VENV)/installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[docs]"
	$(BIN)/mkdocs build --strict

clean:
	rm -rf $(VENV) $(ENGINES) $(EXACT) build site dist *.egg-info .mypy_cache .ruff_cache .hypothesis .import_linter_cache
