# Two commands matter: `make demo` and `make test`. Both set everything up first, once.
VENV    ?= .venv
MADE_BY  = $(shell readlink -e "$(VENV)/bin/python")
PYTHON  ?= $(if $(MADE_BY),"$(MADE_BY)",python3)# what $(VENV) was made with, if there is one
VARIANT ?= auto# cpu, gpu, or auto: what $(VENV) has already, else gpu where nvidia-smi finds one, else cpu
FORCE   ?=# 1: replace the environment by one with the other build even if processes run from it
BIN      = "$(VENV)/bin"
ARGS    ?=
PARALLEL = -n 4 --no-loadscope-reorder

.DEFAULT_GOAL := help
.PHONY: help setup tools demo redis test unit integration acceptance gpu gpu-check check audit clean

help: ## List these targets
	@grep -E '^[a-z -]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 34

setup: ## The environment: pinned packages in .venv (VARIANT=cpu or gpu; else what is there, or what nvidia-smi finds)
	@$(PYTHON) scripts/python_version.py
	@$(PYTHON) scripts/setup.py --venv "$(VENV)" --variant $(VARIANT) $(if $(FORCE),--force)

tools: ## Chromium, Prometheus and ip from Debian's packages, for the tests that look at pages, rules and several hosts
	@$(PYTHON) scripts/tools.py

demo: setup ## The main job, from nothing to results/…/results.csv and report.html (ARGS=--fresh: ask again)
	@$(BIN)/python -m demo.run $(ARGS)

redis: setup ## An embedded Valkey until Ctrl-C, for machines without a Redis; prints its URL
	@$(BIN)/python -m demo.valkey

test: setup ## All tests, in four processes (ARGS: pytest's options)
	@$(BIN)/python -m workers prepare
	@$(BIN)/python -m pytest $(PARALLEL) $(ARGS)

unit integration acceptance: setup ## One level of the tests, as `make test` runs it
	@$(BIN)/python -m workers prepare
	@$(BIN)/python -m pytest tests/$@ $(PARALLEL) $(ARGS)

gpu gpu-check: VARIANT = gpu
gpu: setup ## The tests that need an NVIDIA GPU
	@$(BIN)/python -m workers prepare
	@$(BIN)/python -m pytest tests/gpu --gpu $(ARGS)

gpu-check: setup ## On a machine with an NVIDIA GPU: are answers and speed as promised? Minutes, and one JSON file
	@$(BIN)/python -m workers prepare
	@$(BIN)/python -m benchmarks.gpu_check $(ARGS)

check: setup ## Lint, format, types, generated demo files
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/python demo/generate.py --check

audit: ## Known vulnerabilities of the pinned packages (asks osv.dev: needs a network)
	@$(PYTHON) scripts/audit.py

clean: ## Delete the environment and local state, but not the results
	rm -rf "$(VENV)" .mcqueue .mypy_cache .ruff_cache .pytest_cache *.egg-info
