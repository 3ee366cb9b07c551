# Needs Python 3.11 or newer with venv, git and make. Everything else is fetched, by hash, into an
# environment: .venv, or .cache/quick-VERSION, which holds no extra, for the quick tests. The console
# is built by hatch_build.py, with the system's Node or one that goes into .cache/node.
#
# A stamp inside an environment says which lock is installed there: a change of the lock or of
# pyproject.toml installs again. An install that was interrupted leaves a file `unfinished`, and the
# next one begins with an empty folder.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
CORE   := $(VENV)/core-installed
TEST   := $(VENV)/test-installed
QUICK   = .cache/quick-$(shell $(PYTHON) -c 'import platform; print(platform.python_version())')
# Most tests wait for other processes, so one worker more than cores keeps the cores busy.
WORKERS ?= $(shell $(PYTHON) -c 'import os; print(min((os.cpu_count() or 1) + 1, 8))')
PIP    := -m pip install -qq --disable-pip-version-check --no-input

# Tests start hundreds of processes, and each would compile all of our modules again.
unexport PYTHONDONTWRITEBYTECODE

.DELETE_ON_ERROR:
.PHONY: help run console install uninstall test quick check check-format check-lint check-types check-imports attack bench lock clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-9s %s\n", $$1, $$2}' Makefile

run: $(CORE) ## Start the server (ARGS="--port 8421" and the like are passed on)
	@$(BIN)/python hatch_build.py || echo "run: the server starts without the console, which could not be built, as said above" >&2
	@$(BIN)/toolstead serve $(ARGS)

console: $(CORE) ## Build the page that the server shows at /, unless it is built
	@$(BIN)/python hatch_build.py

install: ## Put a toolstead command on your PATH (EXTRAS=models,claude adds what agents need; again to upgrade)
	@$(usable_python)
	@EXTRAS="$(EXTRAS)" PYTHON="$(PYTHON)" sh install.sh

uninstall: ## Remove that command; your settings and data stay
	@sh install.sh --remove

test: check console ## Run every check and every test (ARGS="-k name" and the like go to pytest)
	@echo "test: pytest"
	@$(BIN)/python -m pytest -q -n $(WORKERS) --dist loadfile $(ARGS)

quick: ## Run the tests of the parts, without extras (ARGS go to pytest; PYTHON=python3.13 for another Python)
	@$(MAKE) --no-print-directory VENV=$(QUICK) $(QUICK)/quick-installed
	@echo "quick: pytest ($$($(QUICK)/bin/python -V))"
	@$(QUICK)/bin/python -m pytest -q -n $(WORKERS) --dist loadfile tests/architecture tests/unit tests/contracts $(ARGS)

check: check-format check-lint check-types check-imports ## Look at format, lint, types and import rules

check-format: $(TEST)
	@echo "check: format (ruff)"
	@$(BIN)/ruff format --quiet --check .

check-lint: $(TEST)
	@echo "check: lint (ruff)"
	@$(BIN)/ruff check --quiet --output-format concise .

check-types: $(TEST)
	@echo "check: types (basedpyright)"
	@$(BIN)/basedpyright --pythonpath $(BIN)/python > $(VENV)/types.log || { cat $(VENV)/types.log; exit 1; }

check-imports: $(TEST)
	@echo "check: imports (import-linter)"
	@$(BIN)/lint-imports --no-logo > $(VENV)/imports.log || { cat $(VENV)/imports.log; exit 1; }

attack: $(TEST) ## Attack a running server for some minutes (ARGS="shell --count 5000" and the like are passed on)
	@$(BIN)/python -m tests.attack $(ARGS)

bench: $(TEST) ## Measure (ARGS are passed on)
	@$(BIN)/python -m benchmarks $(ARGS)

# uv is the one tool that comes from no lock, because it writes them. A machine's own mirrors and
# folders of wheels are kept out, so that the hashes are those everybody can fetch; no address is written.
COMPILE := env -u UV_DEFAULT_INDEX -u UV_INDEX -u UV_INDEX_URL -u UV_EXTRA_INDEX_URL -u UV_FIND_LINKS \
	.cache/lock/bin/uv pip compile --no-config --quiet --upgrade --universal --python-version 3.11 \
	--generate-hashes --no-header --no-annotate --no-emit-index-url --no-emit-find-links

# What each extra needs beside core.txt, in the versions that are tested.
LOCKED_EXTRAS := claude codex keyring models postgres

lock: ## Choose versions anew and write them, with hashes, into requirements/
	@$(usable_python)
	@echo "lock: requirements/core.txt, quick.txt, test.txt, console.txt, and one for each extra"
	@$(PYTHON) -m venv --clear .cache/lock
	@.cache/lock/bin/python $(PIP) uv==0.13.7
	@$(COMPILE) -o requirements/core.txt pyproject.toml requirements/build.in
	@$(COMPILE) -o requirements/test.txt -c requirements/core.txt pyproject.toml requirements/test.in
	@$(COMPILE) -o requirements/quick.txt -c requirements/test.txt pyproject.toml requirements/quick.in
	@$(COMPILE) -o requirements/console.txt -c requirements/test.txt requirements/console.in
	@for extra in $(LOCKED_EXTRAS); do \
	    $(COMPILE) --extra $$extra -o .cache/lock/$$extra.txt -c requirements/test.txt pyproject.toml; \
	    awk 'NR == FNR { if (/^[a-z0-9]/) core[$$0]; next } /^[a-z0-9]/ { skip = ($$0 in core) } !skip' \
	        requirements/core.txt .cache/lock/$$extra.txt > requirements/extra-$$extra.txt; \
	done

clean: ## Remove what make and the checks have made
	@echo "clean: $(VENV), caches and build results"
	@rm -rf $(VENV) .cache dist build benchmarks/.envs .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	@rm -rf $(addprefix src/toolstead/console/web/,dist node_modules)
	@find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

# test.txt holds all of core.txt, so an environment with the one has the other.
$(TEST): requirements/test.txt pyproject.toml
	@$(call install,test)
	@touch $(CORE) $(TEST)

$(CORE): requirements/core.txt pyproject.toml
	@$(call install,core)
	@touch $(CORE)

$(VENV)/quick-installed: requirements/quick.txt pyproject.toml
	@$(call install,quick)
	@touch $@

# Another Python than that of .venv was asked for: what is installed counts no longer.
ifneq ($(origin PYTHON),file)
ifneq ($(wildcard $(BIN)/python),)
ifneq ($(shell $(PYTHON) -V 2>&1),$(shell $(BIN)/python -V 2>&1))
.PHONY: $(CORE) $(TEST)
endif
endif
endif

# $(call install,LOCK): the lock, then this project itself, editable, with the build backend of the lock.
define install
set -e; $(usable_python); \
if [ -e $(VENV)/unfinished ] || [ "$$($(BIN)/python -V 2>&1)" != "$$($(PYTHON) -V 2>&1)" ]; then \
    echo "install: a new $(VENV) with $$($(PYTHON) -V)"; \
    rm -rf $(VENV); mkdir -p $(VENV); touch $(VENV)/unfinished; \
    $(PYTHON) -m venv $(VENV); \
fi; \
touch $(VENV)/unfinished; \
echo "install: requirements/$(1).txt"; \
$(BIN)/python $(PIP) --require-hashes -r requirements/$(1).txt; \
$(BIN)/python $(PIP) --no-deps --no-build-isolation --no-index --editable .; \
rm $(VENV)/unfinished
endef

# Written for any Python at all, so that one that is too old can still say so.
define usable_python
$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
    echo "Toolstead needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) -V 2>&1). Choose one: make PYTHON=python3.13" >&2; \
    exit 1; }; \
$(PYTHON) -c 'import ensurepip, venv' 2> /dev/null || { \
    echo "'$(PYTHON)' lacks venv; install it (Debian: apt install python3-venv) or choose another: make PYTHON=python3.13" >&2; \
    exit 1; }
endef
