# Needs python3 >= 3.11 with its venv module, make and a network. `make help` lists the targets.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Handed on to the command that a target runs: make test ARGS='-k capability -x'
ARGS ?=
# make lock LOCK_ARGS=--upgrade
LOCK_ARGS ?=
FUZZ_SECONDS ?= 60
# make test WORKERS=0 runs them in one process
WORKERS ?= auto

# A stamp says that its step ended well; it lies inside the environment, so it goes away with it.
MADE := $(VENV)/.stamp-made
RUN := $(VENV)/.stamp-run
DEV := $(VENV)/.stamp-dev

PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input --require-virtualenv
INSTALL_LOCKED := $(PIP) install -qq --require-hashes
# The two local packages bring nothing of their own: what they need is locked, hatchling included.
INSTALL_LOCAL := $(PIP) install -qq --no-deps --no-build-isolation -e clients/python -e .

PYPROJECTS := pyproject.toml clients/python/pyproject.toml
LOCK := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-sources \
	--no-header --no-annotate --no-emit-index-url --no-emit-find-links $(LOCK_ARGS)

.DEFAULT_GOAL := help
.PHONY: help setup run test check lint types imports openapi-check schema-check bundle-check bench fuzz format openapi lock clean
.DELETE_ON_ERROR:

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

run: $(RUN) ## serve on this machine with a development key
	$(BIN)/authz serve --dev $(ARGS)

setup: $(DEV) ## make .venv with everything that tests and checks need

# A file's tests stay together: they share servers.
test: $(DEV) ## run the tests, as many files at a time as there are cores (ARGS are handed to pytest)
	$(BIN)/python -m pytest --numprocesses $(WORKERS) --dist loadfile $(ARGS)

check: lint types imports openapi-check schema-check bundle-check ## everything but the tests

lint: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(DEV)
	$(BIN)/mypy

imports: $(DEV)
	$(BIN)/lint-imports --no-logo

openapi-check: $(DEV)
	@$(BIN)/authz openapi > $(VENV)/openapi.json
	@diff -u openapi/openapi.json $(VENV)/openapi.json || \
		{ echo 'openapi/openapi.json is not what the code says: run `make openapi` and commit it' >&2; exit 1; }

schema-check: $(DEV)
	@$(BIN)/authz schema > $(VENV)/schema.cedarschema
	@diff -u policies/schema.cedarschema $(VENV)/schema.cedarschema || \
		{ echo 'policies/schema.cedarschema is not what the registry says: run `authz schema --write`' >&2; exit 1; }

bundle-check: $(DEV)
	$(BIN)/authz check --strict
	@$(BIN)/authz test --fail-under 100 --mutate > $(VENV)/cases.txt || { cat $(VENV)/cases.txt >&2; exit 1; }

bench: $(DEV) ## run the benchmarks
	$(BIN)/python -m tests.bench $(ARGS)

fuzz: $(DEV) ## fuzz each target for a minute, guided by coverage (FUZZ_SECONDS=600 for longer)
	@for target in json yaml rules descriptors bundle canonical shell sql repo; do \
		echo "== $$target"; $(BIN)/python -m tests.fuzz.guided $$target --seconds $(FUZZ_SECONDS) || exit 1; done

format: $(DEV) ## sort imports and format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

openapi: $(DEV) ## write openapi/openapi.json anew
	$(BIN)/authz openapi > $(VENV)/openapi.json
	cp $(VENV)/openapi.json openapi/openapi.json

# Without LOCK_ARGS=--upgrade, pins that still fit are kept. Needs uv only, not an environment that is up to
# date: what pyproject.toml newly asks for cannot be installed before it is locked.
lock: | $(BIN)/uv ## resolve pyproject.toml into .ci/requirements*.txt
	$(LOCK) $(PYPROJECTS) -o .ci/requirements.txt
	$(LOCK) --group dev $(PYPROJECTS) -c .ci/requirements.txt -o .ci/requirements-dev.txt
	$(LOCK) --group build -c .ci/requirements-dev.txt -o .ci/requirements-build.txt

$(BIN)/uv:
	$(MAKE) $(DEV)

clean: ## remove .venv and caches (var/, the data of the development server, stays)
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# ensurepip is asked for too: Debian leaves it out of python3, and then venv fails halfway.
$(MADE):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo '$(PYTHON) is missing or older than 3.11: install Python 3.11 or newer, or name one: make PYTHON=python3.12 …' >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
		echo '$(PYTHON) has no venv module: on Debian, apt-get install python3-venv' >&2; exit 1; }
	$(PYTHON) -m venv --clear $(VENV)
	@touch $@

$(RUN): $(MADE) .ci/requirements.txt .ci/requirements-build.txt $(PYPROJECTS)
	$(INSTALL_LOCKED) -r .ci/requirements.txt -r .ci/requirements-build.txt
	$(INSTALL_LOCAL)
	@touch $@

# pip check holds pyproject.toml and the lock together: a requirement that was never locked fails here.
$(DEV): $(RUN) .ci/requirements-dev.txt
	$(INSTALL_LOCKED) -r .ci/requirements-dev.txt
	$(PIP) check
	@touch $@
