# make demo shows Tenure at work, make test proves it; both set up what they need.

PYTHON ?= python3
VENV ?= .venv

BIN := $(VENV)/bin
DEMO_VENV := .demo/venv
LOCK_VENV := .lock/venv
PIP_INSTALL := -m pip install -qq --disable-pip-version-check

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

# $(call make_venv,directory): a bare Debian has Python without ensurepip; root may add it.
define make_venv
$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	{ echo 'Tenure needs Python 3.11 or newer: name one with make PYTHON=...' >&2; exit 1; }; \
if ! $(PYTHON) -c 'import ensurepip' 2>/dev/null && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	echo 'Installing python3-venv'; \
	apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq python3-venv >/dev/null; \
fi; \
rm -rf $(1); $(PYTHON) -m venv $(1)
endef

.PHONY: help
help: ## List the targets
	@sed -nE 's/^([a-z-]+):.*## (.*)/\1\t\2/p' $(MAKEFILE_LIST) | while IFS=$$'\t' read -r target text; do \
		printf '  make %-16s %s\n' "$$target" "$$text"; done

.PHONY: setup
setup: $(VENV)/.installed ## Install the pinned tools and Tenure, editable, for development

$(VENV)/.locked: requirements/dev.lock
	@echo 'Installing the development tools into $(VENV)'
	@$(call make_venv,$(VENV))
	@$(BIN)/python $(PIP_INSTALL) --require-hashes -r requirements/dev.lock
	@touch $@

$(VENV)/.installed: $(VENV)/.locked pyproject.toml
	@$(BIN)/python $(PIP_INSTALL) --no-deps --no-build-isolation --editable .
	@touch $@

# Tests start thousands of processes. Where PYTHONDONTWRITEBYTECODE is set, as in many container images, each of them
# would compile all of Tenure again, which doubles the CPU time of its start (0.41 s instead of 0.20 s).
.PHONY: compiled
compiled: setup
	@$(BIN)/python -m compileall -q src benchmarks

.PHONY: check
check: compiled ## Format, lint, types, import contracts, the fast unit tests and the speed of the hot path
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy
	@$(BIN)/pyright
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/python -m benchmarks.check
	@$(BIN)/pytest -q tests/unit -m 'not slow' -n 2

.PHONY: servers
servers: ## Fetch the servers and the browser that the tests need and this machine lacks, into .servers
	@$(PYTHON) -m tests.support.servers fetch

.PHONY: test
test: compiled servers ## The whole test suite, on real servers too; three at a time on two cores, since many tests wait
	@$(BIN)/pytest -q -n 3 --dist worksteal

.PHONY: walk
walk: setup ## Compare schedules with a walk through every minute of the tricky days, all zones
	@WALK=all $(BIN)/pytest -q -n 2 tests/unit/cron/test_ticks_minute_by_minute.py

.PHONY: ticks
ticks: setup servers ## Kill ten schedulers at random through a day of simulated minutes
	@TICKS=day $(BIN)/pytest -q tests/integration/cron/test_many_schedulers.py

.PHONY: demo
demo: ## Install Tenure as a user would and watch it work
	@echo 'Installing Tenure into $(DEMO_VENV)'
	@[ -x $(DEMO_VENV)/bin/pip ] || { $(call make_venv,$(DEMO_VENV)); }; \
	$(DEMO_VENV)/bin/python $(PIP_INSTALL) '.[dashboard]'; \
	echo "Installed in $$SECONDS s"
	@PATH="$(CURDIR)/$(DEMO_VENV)/bin:$$PATH" DEMO_PICTURE="$(CURDIR)/.demo/dashboard.png" examples/demo/run.sh

.PHONY: bench
bench: setup ## Run the benchmarks
	@$(BIN)/python -m benchmarks

.PHONY: bench-peers
bench-peers: setup ## Run Tenure beside its peers; ROWS=all, ONLY=celery,rq, ROUNDS=5, OUT=folder, QUICK=1
	@$(BIN)/python -m benchmarks.peers $(if $(ROWS),--rows $(ROWS)) $(if $(ONLY),--only $(ONLY)) \
		$(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(JOBS),--jobs $(JOBS)) $(if $(OUT),--out $(OUT)) $(if $(QUICK),--quick)

.PHONY: bench-dashboard
bench-dashboard: setup ## Time the pages of the dashboard with a million ended and a million waiting jobs; SERVERS=sqlite,redis, JOBS=1000000
	@$(BIN)/python -m benchmarks.dashboard $(if $(SERVERS),--servers $(SERVERS)) $(if $(JOBS),--ended $(JOBS) --waiting $(JOBS))

.PHONY: bench-check
bench-check: setup ## Fail if the hot path has become slower than the committed baseline
	@$(BIN)/python -m benchmarks.check

.PHONY: fuzz
fuzz: setup ## Fuzz the parsers for minutes; with atheris if it is installed
	@$(BIN)/python -m tests.support.fuzz

.PHONY: hostile
hostile: setup ## Put a million signed messages with hostile values through workers; HOSTILE=100000 for fewer
	@HOSTILE=$(or $(HOSTILE),1000000) $(BIN)/pytest -q -n 2 tests/integration/worker/test_hostile_envelopes.py \
		-k 'only_their_own_jobs and not on_every'

.PHONY: format
format: setup ## Format the code and apply the safe fixes
	@$(BIN)/ruff check --fix --quiet . || true
	@$(BIN)/ruff format --quiet .

.PHONY: reference
reference: setup ## Write the tables of settings into the docs, and their JSON schema, as the code has them
	@$(BIN)/python -m tests.support.settings_page
	@$(BIN)/python -m tests.support.settings_schema

.PHONY: screenshots
screenshots: setup ## Write pictures of all pages of the dashboard into docs/images/dashboard; ONLY=jobs,job
	@$(BIN)/python -m tests.support.browser.screenshots $(if $(ONLY),--only $(ONLY))

.PHONY: lock
lock: ## Pin the newest development tools in requirements/dev.lock
	@$(call make_venv,$(LOCK_VENV))
	@$(LOCK_VENV)/bin/python $(PIP_INSTALL) uv
	@$(LOCK_VENV)/bin/uv pip compile --quiet --upgrade --universal --python-version 3.11 \
		--generate-hashes --no-emit-index-url --no-header \
		--output-file requirements/dev.lock pyproject.toml requirements/dev.in >/dev/null

.PHONY: clean
clean: ## Remove everything that the other targets made
	@rm -rf $(VENV) .bench .demo .lock .servers .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache dist
	@find src tests examples benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
