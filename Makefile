# Everything starts here: `make help`.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.PHONY: help install lock lint generate verify test test-unit sim test-e2e \
        cluster-build cluster-up cluster-down kind-up kind-down demo demo-down bench drills model clean

help: ## Show what there is to make
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 16

install: $(INSTALLED) ## Make the virtual environment from the lock file

$(INSTALLED): requirements.lock pyproject.toml
	@command -v $(PYTHON) >/dev/null || \
	  { echo "fencepost needs Python 3.11 or newer, and there is no $(PYTHON): install it, or set PYTHON=…" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "fencepost needs Python 3.11 or newer, $(PYTHON) is older; set PYTHON=…" >&2; exit 1; }
	@echo "installing into $(VENV)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

lock: ## Resolve the dependencies anew into requirements.lock (needs uv)
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
	  --extra dev pyproject.toml --output-file requirements.lock

lint: install ## Style, types, and which way imports point
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy operator/fencepost tests
	$(BIN)/lint-imports

generate: install ## Write crds/ and the chart's copies anew from the models
	$(BIN)/python -m fencepost.api.generate

verify: install ## Fail if what is generated differs from what is committed
	$(BIN)/python -m fencepost.api.generate --check

test: lint verify test-unit test-e2e ## Everything: style, types, unit tests, and the real control plane

test-unit: install ## Unit tests; the core must be covered in every branch
	$(BIN)/coverage run -m pytest tests/unit/core
	$(BIN)/coverage report --fail-under=100
	$(BIN)/python -m pytest tests/unit --ignore=tests/unit/core

sim: install ## Break it if you can: whole clusters under faults from seeds. SEEDS=100 FIRST=0, or SEED=7 [STEPS=3,17]; SIZE=small,middle,large,long; or MUTATIONS=1
	@$(BIN)/python -m tests.unit.sim $(if $(SEEDS),--seeds=$(SEEDS)) $(if $(FIRST),--first=$(FIRST)) \
	  $(if $(SEED),--seed=$(SEED)) $(if $(STEPS),--steps=$(STEPS)) $(if $(SIZE),--size=$(SIZE)) \
	  $(if $(MUTATIONS),--mutations)

test-e2e: cluster-build ## Tests against a real kube-apiserver, started and ended by the tests
	$(BIN)/python -m pytest tests/e2e --timeout=300

cluster-build: install ## Build etcd, kube-apiserver and kube-controller-manager (once; needs Go)
	@$(BIN)/python -m tests.e2e.controlplane build >/dev/null

cluster-up: cluster-build ## Start a control plane that stays, and print how to use it
	@$(BIN)/python -m tests.e2e.controlplane up

cluster-down: install ## Stop it
	@$(BIN)/python -m tests.e2e.controlplane down

kind-up: install ## Make a cluster with kind instead (needs Docker and kind)
	@$(BIN)/python -m tests.e2e.controlplane kind-up

kind-down: install ## Delete that cluster
	@$(BIN)/python -m tests.e2e.controlplane kind-down

demo: install ## See it work: a control plane, operators, workers, DAGs, and two kills; then kubectl is yours
	@$(BIN)/python -m tests.e2e.demo

demo-down: install ## End what the demo has left running
	@$(BIN)/python -m tests.e2e.demo down

bench: cluster-build ## What a job costs: SHAPE=single,scheduled,chain,fan,idle,cold,herd RATE=60 DURATION=30 JOBS=inprocess REPLICAS=1 DAGS=10000
	@$(BIN)/python -m tests.e2e.bench $(if $(SHAPE),--shape=$(SHAPE)) $(if $(RATE),--rate=$(RATE)) \
	  $(if $(DURATION),--duration=$(DURATION)) $(if $(JOBS),--jobs=$(JOBS)) $(if $(REPLICAS),--replicas=$(REPLICAS)) \
	  $(if $(DAGS),--dags=$(DAGS)) $(if $(PROFILE),--profile=$(PROFILE))

drills: cluster-build ## Faults on a real control plane: lines cut, workers lost, etcd stopped, everybody restarted
	$(BIN)/python -m pytest tests/e2e/drills --timeout=300

model: ## Check the formal model of leases, fences and takeovers (needs a C compiler)
	@operator/model/check

clean: ## End what runs here (demo, cluster), and remove what was installed and built
	@if test -f $(INSTALLED); then $(BIN)/python -m tests.e2e.demo down; $(BIN)/python -m tests.e2e.controlplane down; fi
	rm -rf $(VENV) .cache
