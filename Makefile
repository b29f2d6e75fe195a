# Run `make` to see what there is to run.

PYTHON ?= python3
ARGS ?=
SECS ?= 600
SEED ?=

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.setup-done
PEERS := .bench-venv
STORM := .bench-storm
# This script finds Java, or installs it.
WITH_JAVA = JAVA_HOME=$$($(BIN)/python .ci/ensure_java.py) && export JAVA_HOME &&

# Without it Spark starts its Python workers with the first `python3` on PATH.
export PYSPARK_PYTHON := $(abspath $(BIN)/python)

PYTEST = $(BIN)/python -m pytest
OR_NONE = || [ $$? = 5 ]  # ARGS may choose tests of one kind only

.DEFAULT_GOAL := help
.PHONY: help setup test test-pure test-no-core test-sanitized test-debug demo check format format-check lint types layers bench bench-peers profile torture clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo
	@echo 'Options:'
	@echo '  PYTHON=python3.12  the Python of .venv'
	@echo '  ARGS="-k acker -x"  arguments for test, test-pure, test-no-core, test-sanitized, test-debug, demo,'
	@echo '                      bench, bench-peers, profile and torture'
	@echo '  SECS=3600 SEED=7   duration and seed of torture'

setup: $(STAMP) ## make .venv with everything needed, Java included where it is missing
	@$(WITH_JAVA) echo "ready: $$($(BIN)/python --version) in $(VENV), Java in $$JAVA_HOME"

$(STAMP): setup.cfg setup.py Makefile pystorm_spark/_core.c
	@if [ ! -x $(BIN)/python ]; then \
	    command -v $(PYTHON) >/dev/null || { echo 'no $(PYTHON) found: install Python 3.10 or newer, or name one: make setup PYTHON=python3.12' >&2; exit 1; }; \
	    $(PYTHON) -c 'import sys; sys.version_info >= (3, 10) or sys.exit("pystorm-spark needs Python 3.10 or newer, but $(PYTHON) is %d.%d; name another: make setup PYTHON=python3.12" % sys.version_info[:2])' || exit 1; \
	    echo 'making a virtual environment in $(VENV)'; \
	    $(PYTHON) -m venv --clear $(VENV) || { rm -rf $(VENV); exit 1; }; \
	fi
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(BIN)/python -m ensurepip >/dev/null
	@echo 'installing dependencies into $(VENV) (the first time takes a minute)'
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-input --use-pep517 --editable '.[dev]'
	@touch $@
	@$(BIN)/python -c 'from pystorm_spark.core import CORE; print("the %s core runs%s" % (CORE, "" if CORE == "compiled" else ": with a C compiler and the Python headers it would be faster"))'

test: $(STAMP) ## run all tests
	@$(PYTEST) -n auto -m 'not spark' $(ARGS) $(OR_NONE)
	@$(WITH_JAVA) $(PYTEST) -n 2 --dist loadfile --no-loadscope-reorder -m spark $(ARGS) $(OR_NONE)

test-pure: $(STAMP) ## run the tests that need no Spark: seconds
	@$(PYTEST) -n auto -m 'not spark and not slow' $(ARGS)

test-no-core: $(STAMP) ## run the tests of the runtime without its compiled core: seconds
	@PYSTORM_SPARK_PURE=1 $(PYTEST) -n auto -m 'not spark' tests/runtime tests/behaviour tests/interleaving $(ARGS)

test-sanitized: $(STAMP) ## run the tests of the runtime and of states on a core with AddressSanitizer and UBSan
	@$(BIN)/python .ci/sanitized.py -n auto -m 'not spark and (not slow or core)' tests/runtime tests/state tests/behaviour tests/interleaving $(ARGS)

test-debug: $(STAMP) ## run the tests of the runtime and of states on a debug build of Python, where there is one
	@$(BIN)/python .ci/debug_python.py -n auto -m 'not spark and not slow' tests/runtime tests/state $(ARGS)

demo: $(STAMP) ## run a word count on Spark and show it live
	@$(WITH_JAVA) $(BIN)/python examples/demo.py $(ARGS)

check: format-check lint types layers test test-no-core test-sanitized test-debug ## run what CI runs: format, lint, types, layers, all tests

format: $(STAMP) ## format the code and sort the imports
	@$(BIN)/ruff check --quiet --select I --fix .
	@$(BIN)/ruff format .

format-check: $(STAMP) ## list the files that `make format` would change
	@$(BIN)/ruff format --check .

lint: $(STAMP) ## look for mistakes with ruff
	@$(BIN)/ruff check .

types: $(STAMP) ## check the types with mypy
	@$(BIN)/mypy

layers: $(STAMP) ## check who imports whom
	@$(BIN)/python -m pytest --quiet tests/test_layers.py

bench: $(STAMP) ## run the benchmarks: a quarter of an hour, alone on the machine
	@$(WITH_JAVA) $(BIN)/python -m benchmarks $(ARGS)
	@$(BIN)/python -m benchmarks.page

# A peer that cannot be installed is reported as missing; the next run tries again.
bench-peers: $(STAMP) ## install the peers, and compare the word count on Spark with them
	@$(MAKE) --no-print-directory --keep-going $(PEERS)/.setup-done $(PEERS)-bytewax/.setup-done $(PEERS)-pyflink/.setup-done $(STORM)/.setup-done || true
	@$(WITH_JAVA) $(BIN)/python -m benchmarks spark_peers $(ARGS)
	@$(BIN)/python -m benchmarks.page

# Packages of their own; the rest is shared with .venv.
$(PEERS)/.setup-done: | $(STAMP)
	@echo 'installing pandas, pyarrow and pystorm into $(@D)'
	@$(BIN)/python -m venv --clear $(@D)
	@$(BIN)/python -c 'import site; print(site.getsitepackages()[0])' > $$($(@D)/bin/python -c 'import site; print(site.getsitepackages()[0])')/venv.pth
	@failed=0; for package in 'pandas<3' pyarrow pystorm; do \
	    $(@D)/bin/python -m pip install --quiet --disable-pip-version-check --no-input "$$package" || { echo "$$package could not be installed" >&2; failed=1; }; \
	done; exit $$failed
	@touch $@

# These need packages of versions that .venv does not have, so nothing is shared.
$(PEERS)-bytewax/.setup-done: PACKAGE := bytewax~=0.21
$(PEERS)-pyflink/.setup-done: PACKAGE := apache-flink~=2.3
$(PEERS)-%/.setup-done: | $(STAMP)
	@echo 'installing $(PACKAGE) into $(@D)'
	@$(BIN)/python -m venv --clear $(@D)
	@$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --no-input '$(PACKAGE)' \
	    || { echo '$(PACKAGE) could not be installed, and is missing from the figures' >&2; exit 1; }
	@touch $@

$(STORM)/.setup-done: $(wildcard benchmarks/peers/storm/pom.xml benchmarks/peers/storm/src/main/java/*.java) | $(STAMP)
	@echo 'building the word count of Storm in Java into $(@D)'
	@rm -rf $(@D)
	@$(WITH_JAVA) mvn --quiet --batch-mode -Dstyle.color=never -f benchmarks/peers/storm/pom.xml compile \
	    || { rm -rf $(@D); echo 'Storm could not be built by Maven, and is missing from the figures' >&2; exit 1; }
	@touch $@

profile: $(STAMP) ## show where the time of the word count on Spark goes
	@$(WITH_JAVA) $(BIN)/python -m benchmarks.profile_slot $(ARGS)

torture: $(STAMP) ## kill, stop and fill things for SECS seconds while two topologies count (SEED= repeats a run)
	@$(WITH_JAVA) $(BIN)/python -m tests.torture --secs $(SECS) $(if $(SEED),--seed $(SEED)) $(ARGS)

clean: ## remove caches and build output; .venv stays
	@rm -rf build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis spark-warehouse metastore_db derby.log
	@find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +
