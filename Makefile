# The two commands: `make atlas` builds the page, `make test` checks everything that is quick.
# Each sets up .venv by itself; a later call reuses it while pyproject.toml and constraints.txt are unchanged.

PYTHON ?= $(shell for candidate in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$candidate -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$candidate && break; done)
BIN := .venv/bin
comma := ,
STATE := $(shell cat pyproject.toml constraints.txt | sha256sum | cut -c1-16)
# Two test processes with one thread each beat one process with two.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2

.PHONY: atlas test test-all lint bench docs site clean env-run env-dev env-all

atlas: env-run
	$(BIN)/separatrix reproduce all --budget smoke --store out/smoke --out out/reproduce
	$(BIN)/separatrix atlas

test: lint
	$(PYTEST) -m "not slow and not browser and not extra"

test-all: env-all
	$(PYTEST) -m "slow or browser or extra" --durations=40 --durations-min=5

lint: env-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: env-dev
	$(BIN)/python -m benchmarks.task_sampling
	$(BIN)/python -m benchmarks.witnesses
	$(BIN)/python -m benchmarks.certified
	$(BIN)/python -m benchmarks.heads
	$(BIN)/python -m benchmarks.thinking
	$(BIN)/python -m benchmarks.kernels
	$(BIN)/python -m benchmarks.populations cpu

docs: env-dev
	$(BIN)/python -m docs.generate

site: env-all
	$(BIN)/python -m docs.build

# What is installed is named by one marker in .venv; a fuller set-up of the same state serves a smaller need.
# $(call install,NAME,NAMES THAT SERVE,EXTRAS)
define install
@for ready in $(2); do test -e .venv/ready-$$ready-$(STATE) && exit 0; done; \
	echo "Installing into .venv"; rm -f .venv/ready-*; \
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.$(3)' \
	&& touch .venv/ready-$(1)-$(STATE)
endef

env-run: | .venv/bin/pip
	$(call install,run,run dev all,[serve])
env-dev: | .venv/bin/pip
	$(call install,dev,dev all,[dev])
env-all: | .venv/bin/pip
	$(call install,all,all,[dev$(comma)hf$(comma)onnx$(comma)cluster$(comma)search$(comma)bench$(comma)serve$(comma)data$(comma)harness$(comma)docs])

.venv/bin/pip:
	@test -n "$(PYTHON)" || { echo "Separatrix needs Python 3.11 or newer; none was found on the PATH." >&2; exit 2; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
		{ echo "Python's venv module is missing; on Debian: apt-get install python3-venv" >&2; exit 2; }
	$(PYTHON) -m venv .venv

clean:
	rm -rf .venv out build dist
