# The two commands: `make atlas` builds the page, `make test` checks everything that is quick.
# Each sets up .venv by itself; a later call reuses it while pyproject.toml and constraints.txt are unchanged.

PYTHON ?= $(shell for candidate in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$candidate -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$candidate && break; done)
BIN := .venv/bin
STATE := $(shell cat pyproject.toml constraints.txt | sha256sum | cut -c1-16)
# Two test processes with one thread each beat one process with two.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2

.PHONY: atlas test test-all lint bench docs clean

atlas: .venv/ready-run-$(STATE)
	$(BIN)/separatrix atlas

test: .venv/ready-dev-$(STATE) lint
	$(PYTEST) -m "not slow and not browser and not extra"

test-all: .venv/ready-all-$(STATE)
	$(PYTEST) -m "slow or browser or extra"

lint: .venv/ready-dev-$(STATE)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: .venv/ready-dev-$(STATE)
	$(BIN)/python -m benchmarks.task_sampling

docs: .venv/ready-dev-$(STATE)
	$(BIN)/python -m docs.generate

.venv/ready-run-$(STATE): EXTRAS :=
.venv/ready-dev-$(STATE): EXTRAS := [dev]
.venv/ready-all-$(STATE): EXTRAS := [dev,hf,onnx,cluster]

.venv/ready-%-$(STATE): | .venv/bin/pip
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.$(EXTRAS)'
	@touch $@

.venv/bin/pip:
	@test -n "$(PYTHON)" || { echo "Separatrix needs Python 3.11 or newer; none was found on the PATH." >&2; exit 2; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
		{ echo "Python's venv module is missing; on Debian: apt-get install python3-venv" >&2; exit 2; }
	$(PYTHON) -m venv .venv

clean:
	rm -rf .venv out build dist
