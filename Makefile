# `make demo` and `make test` set everything up by themselves, in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Every pip call, build environments included, keeps to these versions.
export PIP_CONSTRAINT := $(CURDIR)/constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: demo test test-long test-oldest lint docs clean

demo: $(VENV)/.ready
	$(BIN)/madod demo --out demo

test: lint
	OMP_NUM_THREADS=1 $(BIN)/pytest -n auto

test-long: lint
	$(BIN)/pytest -m "long or not long"

# With the oldest versions that pyproject.toml lets in; torch 2.6 brings gigabytes of CUDA along.
test-oldest: PIP_CONSTRAINT := $(CURDIR)/constraints-oldest.txt
test-oldest:
	$(PYTHON) -m venv $(VENV)-oldest
	$(VENV)-oldest/bin/python -m pip install --quiet --editable '.[dev]'
	OMP_NUM_THREADS=1 $(VENV)-oldest/bin/pytest -n auto

docs: $(VENV)/.ready
	$(BIN)/python -m mkdocs build --strict --quiet
	@echo "Open build/site/index.html"

lint: $(VENV)/.ready
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

$(VENV)/.ready: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "madod needs Python 3.11 or later, and $(PYTHON) is older: name another one, as in make $(MAKECMDGOALS) PYTHON=python3.12" >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)
	@echo "Installing madod and what it needs into $(VENV) (once; a minute or two)"
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@

clean:
	rm -rf $(VENV) $(VENV)-oldest demo build .pytest_cache .mypy_cache .ruff_cache .hypothesis
