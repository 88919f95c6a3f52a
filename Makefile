# Start with `make demo` or `make test`: they install everything they need into $(SWERL_HOME).
SHELL := /bin/bash
.DEFAULT_GOAL := help
export SWERL_HOME ?= $(HOME)/.cache/swerl
export PYTHONPATH := $(CURDIR)/crds:$(CURDIR)/operator:$(CURDIR)/agent:$(CURDIR)/trainer:$(CURDIR)
export PATH := $(SWERL_HOME)/bin:$(PATH)
unexport PYTHONDONTWRITEBYTECODE # with it, every process compiles all its imports, which takes seconds
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
# Slowest folders and files first: xdist itself would start with the files that hold most tests.
BY_FILE := --dist loadfile --no-loadscope-reorder
SLOW := $(patsubst %,tests/%,control_plane/jobs chaos control_plane/grading control_plane/cluster control_plane/sandboxes control_plane/exec)
OTHERS := $(filter-out $(SLOW) %/gvisor %/__pycache__,$(patsubst %/,%,$(wildcard tests/control_plane/*/)))
E2E_SLOW := $(patsubst %,tests/e2e/test_%.py,readme training pods samples bundled_tasks evaluations)
SOAKED := $(patsubst %,tests/e2e/test_%.py,repairs drains many_ranks) # part of the soak
E2E := $(E2E_SLOW) $(filter-out $(E2E_SLOW) $(SOAKED),$(wildcard tests/e2e/test_*.py))

BENCHES := surface setup context exec grading claims sandbox trajectory agent trainer adapter scale demo bare

# Suites that run beside each other install what they miss one after the other.
INSTALL = flock /tmp/swerl-apt.lock sh -c 'apt-get -qq update && apt-get -qq -y install --no-install-recommends $(1) >/dev/null'

-include cluster/cluster.mk
-include tiny_model/tiny_model.mk

.PHONY: help venv images crds kuberay demo demo-console demo-down test test-unit test-trainer test-control-plane test-outages test-gvisor test-kueue test-ipv6 test-docker test-browser test-e2e soak nightly gpu-check docs release lint bench bench-surface bench-bare bench-setup bench-context bench-exec bench-sandbox bench-trajectory bench-grading bench-demo bench-scale bench-claims bench-agent bench-trainer bench-adapter bench-async

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | sort | column -t -s "$$(printf '\t')"

venv: ## create the Python environment of operator, agent and tests; recreated only when its pins change
	@python3 -m demo.environment $(VENV) requirements/dev.txt

images: venv cluster ## build changed images and push them to the registry
	@$(PYTHON) -m images

crds: venv ## generate the CRDs from the models
	@$(PYTHON) -m swerl_api

kuberay: venv ## write CRDs and rights of the pinned KubeRay into the chart
	@$(PYTHON) -m cluster.kuberay

demo: ## set everything up, train the tiny agent on a real Kubernetes, show its reward curve
	@python3 -m demo

demo-console: ## open the console over the demo's output, also while it trains
	@python3 -m demo console

demo-down: ## remove the demo's job and namespace; keep the cluster
	@python3 -m demo down

test: fresh-records lint built ## run lint and every suite against the real components; ends with one line of totals
	@$(MAKE) --no-print-directory test-in-parallel; status=$$?; $(PYTHON) -m tests.summary $(RECORDS) && exit $$status

.PHONY: fresh-records built test-in-parallel test-on-cluster
built: venv # what `cluster` and `images` do; on a bare machine at once
	@$(PYTHON) -m demo.setup

fresh-records:
	@rm -rf $(RECORDS)

test-in-parallel: # each of these suites is idle for a part of its time
	@echo "unit tests, then the browser's; the trainer's tests; outages, the control plane, then whole jobs: three at a time, each prints when it ends"
	@$(MAKE) --no-print-directory --jobs 3 --output-sync=target test-unit test-trainer test-on-cluster test-browser

test-on-cluster: # no other test may run on the cluster during an outage
	@$(MAKE) --no-print-directory test-outages
	@$(MAKE) --no-print-directory test-control-plane
	@$(MAKE) --no-print-directory test-e2e

# Debian's package, unpacked: the tests start the programs themselves.
$(SWERL_HOME)/bin/promtool:
	@folder=$$(mktemp -d) && cd $$folder && flock /tmp/swerl-apt.lock apt-get -qq update && \
	apt-get -qq -o APT::Sandbox::User=root download prometheus && dpkg-deb -x prometheus_*.deb . && \
	mkdir -p $(@D) && mv usr/bin/prometheus $(@D) && mv usr/bin/promtool $(@D) && rm -rf $$folder

test-unit: venv $(SWERL_HOME)/bin/promtool ## test modules without a cluster
	@command -v busybox >/dev/null || $(call INSTALL,busybox)
	@[ "$$SWERL_IMAGE_ENGINE" = docker ] || command -v buildah >/dev/null || $(call INSTALL,buildah mmdebstrap netavark)
	@$(PYTHON) -m cluster build buildx helm krew
	$(PYTEST) $(RERUN) -n 2 tests/unit

test-trainer: venv ## test the trainer with Megatron, SGLang and Ray, inside its image
	@$(PYTHON) -m images trainer -- sh -c 'python -m mypy --cache-dir /cache/mypy --disable-error-code import-untyped trainer/swerl_trainer tiny_model && python -m pytest -q $(RECORDED) $(RERUN) $(IN_A_WORKER) tests/trainer'

test-control-plane: venv cluster images ## test operator, exec, grading and faults on the real API server
	@command -v less >/dev/null || $(call INSTALL,less)
	$(PYTEST) $(RERUN) -n 4 $(BY_FILE) -m "not alone" $(SLOW) $(OTHERS)

test-outages: venv cluster images ## stop and kill components of the real cluster, lose nodes
	$(PYTEST) $(RERUN) -m alone $(SLOW) $(OTHERS)

test-gvisor: venv images ## build gVisor and test a group of sandboxes in it
	@$(PYTHON) -m cluster build gvisor && $(PYTHON) -m cluster up
	$(PYTEST) tests/control_plane/gvisor

test-kueue: venv cluster images ## build and install Kueue, test groups of sandboxes in its queues, remove it
	@$(PYTHON) -m cluster build kueue
	$(PYTEST) tests/kueue

# A cluster of its own, which no other suite uses, beside the default one; it is removed also when a test fails.
test-ipv6: venv ## start a second cluster, dual stack and then without IPv4, test sandboxes, policies and a job over IPv6
	@for families in IPv4,IPv6 IPv6; do $(MAKE) --no-print-directory test-families FAMILIES=$$families || exit 1; done

.PHONY: test-families
IPV6_CLUSTER = SWERL_CLUSTER_NAME=test-ipv6 SWERL_IP_FAMILIES=$(FAMILIES) KUBECONFIG=
test-families:
	@trap '$(IPV6_CLUSTER) $(PYTHON) -m cluster down --purge' EXIT && export $(IPV6_CLUSTER) && \
	$(PYTHON) -m cluster up && $(PYTHON) -m images && $(PYTEST) --record $(RECORDS)/$@-$(FAMILIES).json tests/ipv6

test-docker: venv ## build and push the images with a docker, and those of a release with a BuildKit, started for it
	$(PYTEST) tests/docker

test-browser: venv ## test the console's pages in headless Chromium, their accessibility too
	@command -v chromium >/dev/null || $(call INSTALL,chromium)
	@$(PYTHON) -m demo.environment $(SWERL_HOME)/browser-venv requirements/browser.txt
	PYTHONPATH=$(PYTHONPATH):$$($(SWERL_HOME)/browser-venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))') $(PYTEST) $(RERUN) tests/browser

soak: venv cluster images ## five faults of one job, drains of another, eight ranks over Pods, 10,000 malformed objects, SOAK_MINUTES (30) of random load with a leak check
	$(PYTEST) -s $(SOAKED)
	SWERL_MALFORMED=10000 $(PYTEST) --record $(RECORDS)/$@-malformed.json -s -o timeout=7200 tests/chaos/test_malformed.py
	$(PYTEST) --record $(RECORDS)/$@-random.json -s -o timeout=0 tests/chaos/soak.py

NIGHTLY := test-ipv6 test-docker test-gvisor test-kueue soak
NIGHTLY_RECORDS := .nightly-records
nightly: venv ## run the suites that `make test` leaves out, also after one failed; their outcomes stay in .nightly-records/
	@rm -rf $(NIGHTLY_RECORDS); status=0; for suite in $(NIGHTLY); do \
	$(MAKE) --no-print-directory RECORDS=$(NIGHTLY_RECORDS) $$suite || { status=1; echo "FAILED make $$suite"; }; done; \
	$(PYTHON) -m tests.summary $(NIGHTLY_RECORDS) && exit $$status

test-e2e: venv cluster images $(SWERL_HOME)/bin/promtool ## run SweRLJobs and SweEvals from start to end, with faults
	$(PYTEST) $(RERUN) -n 2 $(BY_FILE) -m "not alone" $(E2E)
	$(PYTEST) --record $(RECORDS)/$@-alone.json $(RERUN) -m alone tests/e2e

gpu-check: ## test trainer and engines on this machine's GPU, then measure them
	@python3 -m tests.gpu.check

release: venv ## build images, chart, wheel and kubectl plugin into build/release/; PUSH=registry/path pushes images and chart
	@$(PYTHON) -m release $(if $(PUSH),--push $(PUSH)) $(if $(URL),--url $(URL)) $(if $(IMAGES),--images $(IMAGES)) $(if $(PLATFORMS),--platforms $(PLATFORMS)) $(if $(MIRROR),--mirror $(MIRROR))

docs: venv ## build the documentation's site in build/docs/
	@$(PYTHON) -m website build/docs

lint: venv ## run ruff and mypy
	@$(VENV)/bin/ruff check . && $(VENV)/bin/ruff format --check .
	@$(VENV)/bin/mypy --cache-dir $(SWERL_HOME)/mypy crds operator agent images demo cluster tasks tests website release

bench: ## run every benchmark, which takes hours; QUICK=1 shortens each
	@for each in $(BENCHES); do $(MAKE) --no-print-directory bench-$$each || failed="$$failed bench-$$each"; done; \
	[ -z "$$failed" ] || { echo "make bench: below its target or failed:$$failed"; exit 1; }

bench-setup: venv cluster images ## time a restart of the cluster and a rebuild of changed images
	@$(PYTHON) -m tests.bench.setup_bench

bench-surface: venv ## measure what people wait for: console, search, start of swerl, live view
	@$(PYTHON) -m tests.bench.surface_bench

bench-bare: venv ## time the first training step and the tests on a machine with nothing built
	@$(PYTHON) -m tests.bench.bare_bench

bench-context: venv ## time the upkeep of the context per step
	@$(PYTHON) -m tests.bench.context_bench

bench-exec: venv cluster images ## compare exec sessions with one-shot exec
	@$(PYTHON) -m tests.bench.exec_bench

bench-sandbox: venv cluster images ## compare every client that runs commands in a Pod
	@$(PYTHON) -m tests.bench.sandbox_bench

bench-trajectory: venv cluster images ## compare whole trajectories with bare Pods, agent-sandbox, SWE-ReX and Ray's own sandboxes
	@$(PYTHON) -m cluster build gvisor
	@$(PYTHON) -m tests.bench.trajectory_bench

bench-grading: venv cluster images ## time grading Jobs beyond the tests' own time
	@$(PYTHON) -m tests.bench.grading_bench

bench-demo: venv ## run the demo with three seeds, measure grading and exec; table in docs/
	@$(PYTHON) -m tests.bench.demo_bench

bench-agent: venv ## measure the agent's share of a turn, many episodes, grading, context, agreement with swebench
	@$(PYTHON) -m tests.bench.agent_bench

bench-trainer: venv ## measure packing, driver, checkpoints, weight updates and the plan, on CPU
	@$(PYTHON) -m images trainer -- env QUICK=$(QUICK) python -m tests.bench.trainer_bench

bench-async: venv ## measure steps per hour, synchronous, one step ahead and asynchronous; a part of bench-trainer
	@$(PYTHON) -m images trainer -- env QUICK=$(QUICK) python -m tests.bench.trainer_bench asynchrony

bench-adapter: venv ## measure adapters beside training all weights, on CPU: memory, updates, checkpoints
	@$(PYTHON) -m images trainer -- python -m tests.bench.adapter_bench

bench-scale: venv cluster ## measure the operator with ten thousand sandboxes on KWOK nodes
	@$(PYTHON) -m tests.bench.scale_bench

bench-claims: venv cluster images ## compare a big group with bare Pods, and prefetched claims with a warm pool
	@$(PYTHON) -m tests.bench.claims_bench
