# Every target does its own set-up. `make` alone prints this list.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
TESTS_READY := $(VENV)/.ready-tests
# Half of a quick test is waiting: two at a time for each core; slow ones wait less. Without bytecode each compiles all tests.
CORES := $(shell getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)
PYTEST_HERE = env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m pytest -n
PURE := agenteval/trial/*,agenteval/shell/*,agenteval/policy/*,agenteval/prompt/*,agenteval/replies/*,agenteval/classes/*,agenteval/stats/*
ENGINES := agenteval/dialects/*/engine.py,agenteval/dialects/claude_code/verdict.py,agenteval/dialects/claude_code/rules.py,agenteval/dialects/claude_code/free.py,agenteval/dialects/claude_code/reading.py

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-slow container lowest newest wheel servers servers-all parsers dialects coverage fuzz mutants validate harnesses inspect ray bench bench-sandbox bench-classify bench-reading bench-view bench-client bench-ingest bench-hook arms chaos scale check prose house docs docs-refresh format lock clean

help: ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY) ## make .venv from requirements.lock

$(READY): requirements.lock pyproject.toml .ci/setup
	@PYTHON=$(PYTHON) VENV=$(VENV) sh .ci/setup requirements.lock
	@touch $(READY)

# The oracles of tests, such as scipy and a browser's driver, are as large as all the rest.
$(TESTS_READY): requirements-tests.lock $(READY)
	@PYTHON=$(PYTHON) VENV=$(VENV) sh .ci/setup requirements-tests.lock
	@touch $(TESTS_READY)

demo: $(READY) ## three simulated models through three scenarios, and the table
	@$(BIN)/agenteval run --model sim/qwen3.6-35b --model sim/qwen3.5-27b --model sim/qwen3.5-122b ralf/handshake media/rendered-plot data/pantry-audit

test: $(TESTS_READY) ## all tests but the slow ones (minutes); COVER=1 for `make coverage`
	@$(PYTEST_HERE) $(or $(WORKERS),$(shell echo $$((2 * $(CORES))))) -m "not slow" $(if $(COVER),--cov --cov-report=) $(PYTEST)

test-slow: $(TESTS_READY) ## the others: campaigns in short form, every page and scenario, real servers, kills
	@$(PYTEST_HERE) $(or $(WORKERS),$(shell echo $$(($(CORES) + 1)))) --dist loadgroup -m slow $(PYTEST)

container: ## build the Containerfile on what Debian has, and play a run in it (as root, on Debian)
	@sh .ci/container

lowest: $(READY) ## tests with the lowest version of each dependency that pyproject.toml allows
	@sh .ci/lowest $(PYTEST)

newest: ## the demo and the quick tests on the newest Python that Debian has (as root, on Debian)
	@sh .ci/newest

wheel: $(READY) ## build dist/, and play every scenario once from the wheel alone, in an empty folder
	@sh .ci/wheel

servers: $(TESTS_READY) ## get the real servers that tests/servers asks, into a cache of their own
	@$(BIN)/python tests/servers/llama.py
	@$(BIN)/python tests/servers/proxy.py
	@$(BIN)/python tests/servers/mlx_place.py

servers-all: servers ## also vLLM for the CPU and transformers' server (3.5 GB), and play all of tests/servers (half an hour)
	@$(BIN)/python tests/servers/torch_place.py
	@AGENTEVAL_ALL_SERVERS=1 $(PYTEST_HERE) 1 tests/servers $(PYTEST)

parsers: $(TESTS_READY) ## run vLLM's and SGLang's own parsers on replies again, and renew their table (600 MB)
	@$(BIN)/python tests/servers/parsers.py

harnesses: $(TESTS_READY) ## get the real harnesses that tests/harness plays with, into a cache of their own (870 MB)
	@$(BIN)/python tests/harness/real.py $(HARNESSES)

inspect: $(TESTS_READY) ## get Inspect AI for tests/hook, into an environment of its own (400 MB)
	@$(BIN)/python tests/hook/inspect_place.py

ray: $(TESTS_READY) ## get Ray for the tests of --executor ray, into an environment of its own (500 MB)
	@$(BIN)/python tests/ray_place.py

dialects: $(TESTS_READY) ## ask the real harnesses again: DIALECTS="codex@0.170.0", ALL=1 for all calls (minutes)
	@$(BIN)/python tests/ask_dialects.py $(DIALECTS) $(if $(ALL),--all) $(if $(WRITE),--write)

coverage: $(TESTS_READY) ## what `make test COVER=1` covered; fails below 90 %, or 100 % of the pure parts
	@$(BIN)/coverage report --fail-under=90
	@$(BIN)/coverage report --fail-under=100 --include='$(PURE)'
	@$(BIN)/coverage report --fail-under=99 --include='$(ENGINES)'

fuzz: $(READY) ## a million commands, and two minutes led by coverage, against bash; 100,000 broken replies
	@$(BIN)/python tests/fuzz_replies.py --replies 100000 --asked 3000
	@$(BIN)/python tests/fuzz_shell.py --commands 1000000
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --group fuzz
	@$(BIN)/python tests/fuzz_guided.py -max_total_time=120

mutants: $(TESTS_READY) ## change what decides and see which tests notice (hours); SAMPLE=5 of each module, SEED, MODULES=gate
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --group mutants
	@$(BIN)/python tests/mutants/mutate.py $(if $(SAMPLE),--sample $(SAMPLE)) $(if $(SEED),--seed $(SEED)) $(if $(LEAST),--least $(LEAST)) $(MODULES)

validate: $(TESTS_READY) ## coverage, false alarms, claims and promotions on simulated models (minutes); docs/validation.md
	@nice $(BIN)/python tests/validate_statistics.py --write

arms: $(TESTS_READY) ## one scripted model with habits through every arm, side by side (minutes); docs/arms.md
	@PYTHONPATH=tests $(BIN)/python tests/measure_arms.py --write

chaos: $(TESTS_READY) ## strike 200 runs at random moments: kills, a full disk, a cut network, ...; is anything left or lost? (half an hour)
	@PYTHONPATH=tests $(BIN)/python tests/chaos.py $(or $(ROUNDS),200)

bench: $(TESTS_READY) ## every benchmark, other programs beside it, into docs/benchmarks.md (an hour, 3 GB); FORM="--largest 10000"
	@PYTHONPATH=tests $(BIN)/python tests/bench/bench_all.py $(FORM)

bench-ingest: $(TESTS_READY) ## how long 1,000,000 logged calls take to be taken in (minutes)
	@$(BIN)/python tests/bench/bench_ingest.py
	@$(BIN)/python tests/bench/bench_ingest.py --different 20000000

bench-sandbox: $(TESTS_READY) ## what a sandbox costs, beside a plain subprocess (a minute or two)
	@$(BIN)/python tests/bench/bench_sandbox.py

bench-classify: $(TESTS_READY) ## how fast shell is read; CORPUS=file reads other commands
	@$(BIN)/python tests/bench/bench_classify.py $(CORPUS)

bench-reading: $(TESTS_READY) ## CPU and memory of show, report, compare and gate, of runs of 2,000 to CALLS=1000000 calls (minutes, 2.5 GB)
	@PYTHONPATH=tests $(BIN)/python tests/bench/bench_reading.py $(CALLS)

bench-hook: $(TESTS_READY) ## how long a call of an agent waits for the hook, start of its command included
	@$(BIN)/python tests/bench/bench_hook.py $(CALLS)

bench-view: $(TESTS_READY) ## how long the pages of `agenteval view` take over a million calls (two minutes, 1.2 GB)
	@PYTHONPATH=tests $(BIN)/python tests/bench/bench_view.py $(STORE)

bench-client: $(TESTS_READY) ## what a call costs through `agenteval run`, all work included, beside a bare SDK loop (many minutes)
	@$(BIN)/python tests/bench/bench_client.py

scale: $(TESTS_READY) ## simulate runs of up to 10,000,000 calls over shards, beside a closed form; docs/scale.md (seconds)
	@$(BIN)/python tests/scale_simulation.py

check: $(READY) ## format, lint, types, layers, generated pages
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache
	@$(BIN)/python tests/classes/explained.py --check
	@$(BIN)/python -m agenteval.classes.catalogue --check
	@PYTHONPATH=tests $(BIN)/python -m json_schemas --check
	@$(BIN)/python tests/docs/prose.py --check

docs: $(READY) ## the documentation as a site in docs/_build, every link checked
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --group docs
	@rm -rf docs/_build
	@$(BIN)/sphinx-build --quiet --nitpicky --fail-on-warning --keep-going --conf-dir docs . docs/_build

docs-refresh: $(TESTS_READY) ## renew what README and docs/ show: outputs, options, picture; PAGE=file for one
	@PYTHONPATH=tests $(BIN)/python tests/docs/renew.py $(PAGE)

prose: $(READY) ## every place where a text that users read breaks a rule of tests/docs/prose.toml
	@$(BIN)/python tests/docs/prose.py

house: $(READY) ## how many parts the package has, how deep and how large, beside the bounds that a test keeps
	@$(BIN)/python tests/house/survey.py

format: $(READY) ## format, mend lint, and renew the generated pages
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .
	@$(BIN)/python tests/classes/explained.py
	@$(BIN)/python -m agenteval.classes.catalogue
	@PYTHONPATH=tests $(BIN)/python -m json_schemas

lock: $(READY) ## renew requirements.lock and requirements-tests.lock from pyproject.toml
	@$(BIN)/uv pip compile -q --universal --generate-hashes --no-annotate --no-header \
		--group tests --output-file requirements-tests.lock pyproject.toml
	@$(BIN)/uv pip compile -q --universal --generate-hashes --no-annotate --no-header \
		--constraints requirements-tests.lock --group dev --output-file requirements.lock pyproject.toml

clean: ## remove .venv and all caches; reports/ stays
	@rm -rf $(VENV) .venv-* .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage dist
