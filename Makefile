# Two commands for a stranger: `make demo` and `make test`. Everything they need is installed by them, into $(SWERL_HOME).
SHELL := /bin/bash
.DEFAULT_GOAL := help
export SWERL_HOME ?= $(HOME)/.cache/swerl
export PYTHONPATH := $(CURDIR)/crds:$(CURDIR)/operator:$(CURDIR)/agent:$(CURDIR)/trainer:$(CURDIR)
export PATH := $(SWERL_HOME)/bin:$(PATH)
unexport PYTHONDONTWRITEBYTECODE # where it is set, every process compiles what it imports, for seconds
VENV := $(SWERL_HOME)/venv
PYTHON := $(VENV)/bin/python
# Outcomes and durations of every run of pytest, for the closing line of `make test`; the trainer's image sees them too.
RECORDS := .test-records
RECORDED = --record $(RECORDS)/$@.json
PYTEST = $(PYTHON) -m pytest -q --durations=10 $(RECORDED)
# Real processes on a busy machine are sometimes late: a failed test is rerun once and named RERUN in the report.
RERUN := --reruns 1 --reruns-delay 2 -r fER
# A test that hangs in a library's own threads, where no signal reaches it, ends with its worker process and is rerun.
IN_A_WORKER := -n 1 --timeout-method thread
# The folders and files with the slowest first: xdist would take the files with most tests.
BY_FILE := --dist loadfile --no-loadscope-reorder
SLOW := $(patsubst %,tests/%,control_plane/jobs chaos control_plane/grading control_plane/cluster control_plane/sandboxes control_plane/exec)
OTHERS := $(filter-out $(SLOW) %/gvisor %/__pycache__,$(patsubst %/,%,$(wildcard tests/control_plane/*/)))
E2E_SLOW := $(patsubst %,tests/e2e/test_%.py,readme training samples bundled_tasks evaluations)
E2E := $(E2E_SLOW) $(filter-out $(E2E_SLOW),$(wildcard tests/e2e/test_*.py))

BENCHES := setup context exec grading claims sandbox agent scale demo bare

-include cluster/cluster.mk
-include tiny_model/tiny_model.mk

.PHONY: help venv images crds demo demo-down test test-unit test-trainer test-control-plane test-outages test-gvisor test-kueue test-docker test-e2e soak gpu-check lint bench bench-bare bench-setup bench-context bench-exec bench-sandbox bench-grading bench-demo bench-scale bench-claims bench-agent

help: ## what can be made here
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | sort | column -t -s "$$(printf '\t')"

venv: ## the light Python environment (operator, agent, tests); made again only when its pins change
	@python3 -m demo.environment $(VENV) requirements/dev.txt

images: venv cluster ## build what changed and push it to the registry
	@$(PYTHON) -m images

crds: venv ## write the CRDs from the models
	@$(PYTHON) -m swerl_api

demo: ## set everything up, train the tiny agent on a real Kubernetes, show the reward climb
	@python3 -m demo

demo-down: ## remove the demo's job and namespace, keep the cluster
	@python3 -m demo down

test: fresh-records lint cluster images test-in-parallel test-e2e ## everything, against the real parts
	@$(PYTHON) -m tests.summary $(RECORDS)

.PHONY: fresh-records test-in-parallel test-on-cluster
fresh-records:
	@rm -rf $(RECORDS)

test-in-parallel: # each of them waits most of the time
	@echo "unit tests, the trainer's tests, and outages followed by the control plane run in parallel; each prints when it ends"
	@$(MAKE) --no-print-directory --jobs 3 --output-sync=target test-unit test-trainer test-on-cluster

test-on-cluster: # no other test may run on the cluster during an outage
	@$(MAKE) --no-print-directory test-outages
	@$(MAKE) --no-print-directory test-control-plane

test-unit: venv ## seconds, no cluster
	@command -v busybox >/dev/null || { apt-get -qq update && apt-get -qq -y install busybox >/dev/null; }
	$(PYTEST) $(RERUN) -n 2 tests/unit

test-trainer: venv ## Megatron, SGLang and Ray, inside the trainer image
	@$(PYTHON) -m images trainer -- sh -c 'python -m mypy --cache-dir /cache/mypy --disable-error-code import-untyped trainer/swerl_trainer tiny_model && python -m pytest -q $(RECORDED) $(RERUN) $(IN_A_WORKER) tests/trainer'

test-control-plane: venv cluster images ## real API server, operator, exec, grading, faults
	@command -v less >/dev/null || { apt-get -qq update && apt-get -qq -y install less >/dev/null; }
	$(PYTEST) $(RERUN) -n 5 $(BY_FILE) -m "not alone" $(SLOW) $(OTHERS)

test-outages: venv cluster images ## parts of the real cluster stopped and killed, nodes lost
	$(PYTEST) $(RERUN) -m alone $(SLOW) $(OTHERS)

test-gvisor: venv images ## a group of sandboxes in gVisor, which is built for it
	@$(PYTHON) -m cluster build gvisor && $(PYTHON) -m cluster up
	$(PYTEST) tests/control_plane/gvisor

test-kueue: venv cluster images ## groups of sandboxes in queues of the real Kueue, which is built, installed and removed for it
	@$(PYTHON) -m cluster build kueue
	$(PYTEST) tests/kueue

test-docker: venv ## the images, built and pushed by a docker that is started for it
	$(PYTEST) tests/docker

soak: venv cluster images ## random churn for SOAK_MINUTES (30) with a leak check; 10,000 malformed objects
	SWERL_MALFORMED=10000 $(PYTEST) -s -o timeout=7200 tests/chaos/test_malformed.py
	$(PYTEST) -s -o timeout=0 tests/chaos/soak.py

test-e2e: venv cluster images ## SweRLJobs and their faults, from start to end
	$(PYTEST) $(RERUN) -n 2 $(BY_FILE) -m "not alone" $(E2E)
	$(PYTEST) --record $(RECORDS)/$@-alone.json $(RERUN) -m alone tests/e2e

gpu-check: ## trainer and engines on this machine's GPU: tests, then speed
	@python3 -m tests.gpu.check

lint: venv ## ruff and mypy
	@$(VENV)/bin/ruff check . && $(VENV)/bin/ruff format --check .
	@$(VENV)/bin/mypy --cache-dir $(SWERL_HOME)/mypy crds operator agent images demo cluster tasks tests/bench

bench: ## every benchmark, one after another: hours; QUICK=1 makes each short
	@for each in $(BENCHES); do $(MAKE) --no-print-directory bench-$$each || failed="$$failed bench-$$each"; done; \
	[ -z "$$failed" ] || { echo "make bench: short or failed:$$failed"; exit 1; }

bench-setup: venv cluster images ## seconds until the cluster runs again, and images of changed code are built
	@$(PYTHON) -m tests.bench.setup_bench

bench-bare: venv ## minutes to the first training step, and of the tests, with nothing built
	@$(PYTHON) -m tests.bench.bare_bench

bench-context: venv ## what keeping the context costs a step
	@$(PYTHON) -m tests.bench.context_bench

bench-exec: venv cluster images ## exec session against one-shot exec
	@$(PYTHON) -m tests.bench.exec_bench

bench-sandbox: venv cluster images ## commands in sandboxes: every way into a Pod, compared
	@$(PYTHON) -m tests.bench.sandbox_bench

bench-grading: venv cluster images ## grading Jobs: seconds over the tests' own
	@$(PYTHON) -m tests.bench.grading_bench

bench-demo: venv ## the demo over three seeds, grading and exec; table in docs/
	@$(PYTHON) -m tests.bench.demo_bench

bench-agent: venv ## the agent's share of a turn, many episodes, grading, context, verdicts beside swebench's
	@$(PYTHON) -m tests.bench.agent_bench

bench-scale: venv cluster ## ten thousand sandboxes on KWOK nodes: the operator's figures
	@$(PYTHON) -m tests.bench.scale_bench

bench-claims: venv cluster images ## a big group against bare Pods, claims ahead against a warm pool
	@$(PYTHON) -m tests.bench.claims_bench
