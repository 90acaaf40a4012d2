# `make demo` trains a model, `make test` runs the tests; both install what they need into .venv first.

EXTRAS := tasks
TORCH ?= auto
BENCH ?= engine
VENV := .venv
RUN := $(VENV)/bin/python -m
CHECK_PYTHON := import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))

# A launcher on the PATH may exist and still not start, so each candidate is run.
ifndef PYTHON
PYTHON := $(shell for p in python3.11 python3.12 python3.13 python3; do \
	"$$p" -c "$(CHECK_PYTHON)" >/dev/null 2>&1 && { echo "$$p"; break; }; done)
endif

.PHONY: help demo test test-all check bench lock clean install install-dev python

help:
	@echo "make demo    install, fetch the model, train it for some minutes, show what it gained"
	@echo "make test    install and run the tests (make test-all: the slow ones too)"
	@echo "make check   formatting, lint, strict types, import floors, style"
	@echo "make bench   measure beside peers (BENCH=engine)"
	@echo "make lock    resolve requirements.lock anew"
	@echo "make clean   remove .venv and caches; runs stay"
	@echo "Settings: PYTHON=python3.12, TORCH=auto|cpu|default"

demo: install
	$(RUN) posttrain.cli model fetch
	$(RUN) posttrain.cli demo

test: install-dev
	$(RUN) pytest -m "not slow" $(ARGS)

test-all: install-dev
	$(RUN) pytest $(ARGS)

check: install-dev
	$(RUN) ruff format --check src tests scripts examples benchmarks
	$(RUN) ruff check src tests scripts examples benchmarks
	$(RUN) mypy
	$(RUN) pytest -q tests/test_floors.py tests/test_style.py

bench: install
	$(RUN) posttrain.cli bench $(BENCH) $(ARGS)

install: python
	@"$(PYTHON)" scripts/install.py --torch $(TORCH) --extras $(EXTRAS)

install-dev: python
	@"$(PYTHON)" scripts/install.py --torch $(TORCH) --extras $(EXTRAS),dev

python:
	@"$(PYTHON)" -c "$(CHECK_PYTHON)" >/dev/null 2>&1 || { \
	echo "make: Python 3.11, 3.12 or 3.13 with venv is needed (found: '$(PYTHON)')." \
	"Install one (Debian: apt-get install python3 python3-venv python3-dev) or name it: make PYTHON=/path/to/python3.11" >&2; exit 1; }

lock: install-dev
	$(RUN) pip install --quiet uv==0.13.9
	$(RUN) uv pip compile --universal --quiet --no-emit-index-url --python-version 3.11 \
		--custom-compile-command "make lock" --all-extras pyproject.toml --output-file requirements.lock

clean:
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache
	find src tests scripts -name __pycache__ -prune -exec rm -rf {} +
