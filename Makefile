# Everything a contributor or a new user types. `make` alone lists it.
# Nothing is installed outside the checkout: the environment is .venv, the demo's state is .demo.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help setup demo test test-deep test-frameworks test-faults yarn test-yarn kubernetes test-kubernetes bench check fmt docs lock clean

# A Python of 3.11 or newer to build .venv from; empty means: look for one.
PYTHON ?=
BIN := .venv/bin
# Words for pytest: make test ARGS="-k gang -x"
ARGS ?=

# Without bytecode every command pays for compiling what it imports, and that is what we measure.
unexport PYTHONDONTWRITEBYTECODE
unexport PYTHONPATH
unexport PYTHONHOME
unexport VIRTUAL_ENV
unexport CONDA_PREFIX
# Where there is no usable home directory, caches go into the checkout.
ifneq ($(shell test -d "$${HOME:-}" -a -w "$${HOME:-}" && echo usable),usable)
export HOME := $(CURDIR)/.tools/home
$(shell mkdir -p "$(CURDIR)/.tools/home")
endif

help: ## list what can be made
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## the virtual environment in .venv; does nothing when it is up to date
	@PYTHON="$(PYTHON)" scripts/setup

demo: setup ## a real distributed training on this machine
	@scripts/demo

# A test that waits for something can fail where others take the machine. What fails beside others
# is run again, alone, and must pass then; both runs stand in the output.
define alone
{ test $$? = 1 || exit 1; echo "== again, alone, what failed beside others"; \
		$(1) --last-failed --last-failed-no-failures none $(ARGS); }
endef

HERE = $(BIN)/pytest -m "not frameworks and not faults and not cluster"
test: check ## every test this machine can run in a few minutes, after `check`
	@$(HERE) -n 2 $(ARGS) || $(call alone,$(HERE))

test-deep: setup ## the scheduler on 100,000 generated scenarios, and beside a slow one on 25,000
	@DROMON_DEEP=1 DROMON_SCENARIOS=100000 $(BIN)/pytest -n 2 -q tests/unit/sched/test_properties.py \
		tests/unit/sched/test_agreement.py tests/unit/sched/test_outright.py \
		tests/unit/sched/test_later.py $(ARGS)

test-frameworks: setup ## real runs of the big frameworks (downloads them)
	@$(BIN)/pytest -m frameworks $(ARGS)

test-faults: setup ## long fault injection
	@$(BIN)/pytest -m faults $(ARGS)

yarn: setup ## a real HDFS and YARN on this machine, to try Dromon on (needs Java and Maven)
	@$(BIN)/python -m testbeds.yarn up
	@echo
	@echo "$(BIN)/python -m testbeds.yarn status | logs NAME | kill NAME | start NAME | down"

ON_YARN = DROMON_BENCH=yarn $(BIN)/pytest tests/contract tests/cluster/yarn
test-yarn: setup ## tests on a real YARN, brought up for them (downloads Hadoop once)
	@$(ON_YARN) -n 2 --dist loadscope --no-loadscope-reorder $(ARGS) || $(call alone,$(ON_YARN))

kubernetes: setup ## a real Kubernetes with Volcano on this machine (needs root and Go; builds once)
	@$(BIN)/python -m testbeds.kubernetes up
	@echo
	@echo "$(BIN)/python -m testbeds.kubernetes status | logs NAME | kill NAME | start NAME | kubectl … | down"

ON_KUBERNETES = DROMON_BENCH=kubernetes $(BIN)/pytest tests/contract tests/cluster/kubernetes
test-kubernetes: setup ## tests on a real Kubernetes with Volcano, brought up for them (builds it once)
	@$(BIN)/python -m testbeds.kubernetes build
	@$(ON_KUBERNETES) -n 4 --dist loadscope --no-loadscope-reorder $(ARGS) || \
		$(call alone,$(ON_KUBERNETES))

# This machine's, then those of real clusters, each on a bed of its own: make bench BENCHES=benchmarks
BENCHES ?= benchmarks benchmarks.yarnstart benchmarks.yarn benchmarks.yarnlogs benchmarks.kubernetes
bench: setup ## measure against the bars; writes benchmarks/results.json
	@missed=0; for each in $(BENCHES); do echo "== $$each"; $(BIN)/python -m $$each || missed=1; done; \
		exit $$missed

check: setup ## lint, types, room contracts, generated pages
	@scripts/check

fmt: setup ## format, and repair what the linter can
	@$(BIN)/ruff check --fix --quiet . || true
	@$(BIN)/ruff format .

docs: setup ## write the generated reference pages anew
	@$(BIN)/python scripts/reference.py

lock: setup ## resolve the dependencies anew into requirements.lock
	@$(BIN)/uv pip compile pyproject.toml --group dev --generate-hashes --no-header \
		--universal --python-version 3.11 --upgrade --quiet -o requirements.lock
	@echo "requirements.lock written; \`make setup\` installs it"

clean: ## remove everything made here (.venv, .demo, caches)
	@if [ -x $(BIN)/dromon ] && [ -e .demo ]; then \
		DROMON_HOME="$(CURDIR)/.demo" $(BIN)/dromon daemon stop >/dev/null 2>&1 || true; fi
	@rm -rf .venv .tools .demo .mypy_cache .ruff_cache .pytest_cache .hypothesis \
		.import_linter_cache build dist
	@find src tests scripts benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
