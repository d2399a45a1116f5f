# wardgate: `make` alone lists what can be done.
SHELL := /bin/bash
.DEFAULT_GOAL := help
VENV := .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/.stamp

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sort | awk -F':.*## ' '{printf "  \033[1m%-12s\033[0m %s\n", $$1, $$2}'

.PHONY: setup
setup: $(STAMP) ## create .venv with the locked dependencies

$(STAMP): requirements.lock pyproject.toml
	@python3 -m venv $(VENV) 2>/dev/null || deploy/bootstrap.sh $(VENV)
	$(PY) -m pip install --quiet --disable-pip-version-check -r requirements.lock
	$(PY) -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

.PHONY: run
run: setup ## start the whole demo, print the tour, stay up until Ctrl-C
	@$(PY) -m demo run

.PHONY: tour
tour: setup ## start the demo, run the tour, exit 0 only if every row is as expected
	@$(PY) -m demo tour

.PHONY: test
test: setup ## everything: unit, property, Redis, end to end through real Envoy
	@deploy/test.sh

.PHONY: drills
drills: setup ## the long drills at full length: a noisy neighbour, failures under load, credentials; writes drills.json
	WARDGATE_DRILL=full $(PY) -m pytest -q tests/e2e/test_neighbour.py tests/e2e/test_failure.py tests/e2e/test_store.py \
	  tests/e2e/test_credentials.py

.PHONY: vectors
vectors: setup ## run the third-party vectors that WARDGATE_VECTORS names; writes build/figures/vectors.json
	@$(PY) -m pytest -q tests/vectors
	@cat build/figures/vectors.json

.PHONY: fuzz
fuzz: setup ## spoil a million requests, tokens, certificates and conversations; writes build/figures/fuzz.json
	@$(PY) -m tests.fuzz $(or $(COUNT),1000000)

.PHONY: up
up: ## the same gateway in containers: up, healthy, and the tour through it
	docker compose up -d --build --wait
	docker compose run --rm tour

.PHONY: down
down: ## end the containers and remove what they kept
	docker compose --profile tour --profile metrics down -v

.PHONY: check
check: setup ## lint, format, types, architecture
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy

.PHONY: format
format: setup ## rewrite the sources in the house style
	$(VENV)/bin/ruff format .
	$(VENV)/bin/ruff check --fix .

.PHONY: bench
bench: setup ## measure decision cost and added latency; writes build/figures/bench.json
	@$(PY) -m bench

.PHONY: simulate
simulate: setup ## eight instances under 32,000 requests a second; writes build/figures/simulate.json, docs/simulation.md
	@$(PY) -m tests.simulation

.PHONY: chaos
chaos: setup ## break real Redis under load; writes build/figures/chaos.json
	@$(PY) -m tests.chaos

.PHONY: soak
soak: setup ## ten minutes of churn: memory, latency and descriptors must not grow; writes build/figures/soak.json
	@$(PY) -m bench.soak

.PHONY: proto
proto: setup ## regenerate pb/ from proto/
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH" $(PY) -m grpc_tools.protoc -Ipb=proto --python_out=. --mypy_out=quiet:. $$(ls proto/*.proto | sed 's#^proto/#pb/#')

.PHONY: descriptors
descriptors: setup ## regenerate the demo backends' descriptor set from their .proto files
	cd examples/open-banking/proto && $(CURDIR)/$(PY) -m grpc_tools.protoc -I. \
	  -I$$($(CURDIR)/$(PY) -c 'import google.api as a; print(list(a.__path__)[0].rpartition("/google/")[0])') \
	  --include_imports --descriptor_set_out=../descriptors/open-banking.pb $$(find openbanking -name '*.proto' | sort)

.PHONY: clean
clean: ## remove everything that the targets above created
	rm -rf $(VENV) build run *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
