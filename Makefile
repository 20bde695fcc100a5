# Every target does its own set-up: the first run builds .venv and fetches the jars, later runs need no network.
#
# PYTHON=/path/to/python3.12 chooses the interpreter; without it the first that is new enough is taken.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# If it is set, each process compiles the package anew, and a test run starts some hundred.
unexport PYTHONDONTWRITEBYTECODE

BIN := .venv/bin
LOCKS := requirements-build.lock requirements.lock
OLD_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
# Tried by running them: a name on PATH may be a version manager's placeholder.
PYTHON ?= $(shell for name in python3 python3.13 python3.12 python3.11; do \
	$$name -c '$(OLD_ENOUGH)' 2>/dev/null && echo $$name && break; done)

.PHONY: help install install-s3 demo demo-rocketmq docs pictures test test-deploy test-plain test-kafka test-spark test-quick test-full test-alerts lint lint-workflows wheel bench bench-guard bench-gateway bench-heartbeats bench-scale bench-watch bench-history league soak soak-hostile chaos mutants outdated lock clean java

help:
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{printf "make %-17s %s\n", $$1, $$2}' Makefile

# The demo starts without the archive, which takes a minute to make; whoever starts the job or runs tests has it.
READY := .venv/.installed jars/.retrieved
install: $(READY) jars/job.jsa ## the environment in .venv, the jars, and an archive of Spark's classes

install-s3: java install ## the jars with which Spark reads tables on S3
	@echo 'Fetching hadoop-aws and the modules of the AWS SDK that it needs (once, 12 MB) ...'
	@$(BIN)/python -m namesrv_stream.tools.local.jars s3

demo: java $(READY) ## a cluster of simulated brokers, the registry and its tables, on this machine
	@$(BIN)/namesrv-stream demo

demo-rocketmq: java $(READY) ## a real RocketMQ broker and client with the registry as their name server
	@$(BIN)/namesrv-stream demo-rocketmq

# Three runs at once (tests/parts.py). ARGS, such as a file, choose in one process.
test test-plain test-kafka test-spark: java install jars/.rocketmq
test: ## everything that is quick enough for every change; ARGS='tests/rules -k overdue' chooses
ifeq ($(ARGS),)
	@$(BIN)/python -m tests.parts
else
	$(BIN)/python -m pytest -m 'not full and not deploy' $(ARGS)
endif

test-plain: ## of make test those without Kafka and Spark
	@$(BIN)/python -m tests.parts plain
test-kafka: ## of make test those with Kafka
	@$(BIN)/python -m tests.parts kafka
test-spark: ## of make test those with Spark
	@$(BIN)/python -m tests.parts spark

# No Java, Kafka or Spark, and of the gateway what needs no socket. With a tenth of the random examples (tests/conftest.py).
QUICK := tests/rules tests/wire tests/access tests/config tests/test_records.py \
	tests/tables/test_reader.py tests/tables/test_route_index.py tests/tables/test_topic_queues.py \
	$(addprefix tests/gateway/test_, answers.py broker_cases.py fair_shares.py handshake.py heartbeats.py notices.py \
	known_brokers.py thinning.py writes.py)
test-quick: .venv/.installed ## rules, protocol, tables, settings and rights, without Java; branch coverage of rules/ and wire/
	$(BIN)/python -m pytest -n 2 --hypothesis-profile=quick -m 'not full and not long and not spark and not system' $(QUICK) \
	  --cov=namesrv_stream.rules --cov=namesrv_stream.wire --cov-branch --cov-report= $(ARGS)
	@for package in rules wire; do echo "branch coverage of $$package/: $$($(BIN)/coverage report \
	  --include="namesrv_stream/$$package/*" --format=total --fail-under=95)%" || exit 1; done

# A real S3 server, for the tests that moto alone would not do. It comes as a Go module at a pinned version.
VERSITYGW := .cache/s3/versitygw
$(VERSITYGW):
	@echo 'Building versitygw, an S3 server (once, some minutes) ...'
	@GOBIN=$(CURDIR)/$(dir $@) go install github.com/versity/versitygw/cmd/versitygw@v1.8.0

# In parts (tests/full.py); PART=s3 runs that one alone. s3 alone needs more jars and a server that Go builds.
test-full: java install jars/.rocketmq $(if $(filter-out s3,$(or $(PART),s3)),,install-s3 test-full-s3-server) ## the long tests, in parts (PART=s3, page, clients, tables, job, system), each naming what the machine lacks
	@$(BIN)/python -m tests.full $(PART)

test-full-s3-server:
	@command -v go >/dev/null || [ -x $(VERSITYGW) ] || exit 0; $(MAKE) --no-print-directory $(VERSITYGW)

# Helm and Compose's schema come as Go modules at a pinned version, into a folder that later runs find.
HELM := .cache/deploy/helm
COMPOSE_SCHEMA := .cache/deploy/compose-spec.json
$(HELM):
	@echo 'Building helm (once, some minutes) ...'
	@GOBIN=$(CURDIR)/$(dir $@) go install helm.sh/helm/v3/cmd/helm@v3.22.0

$(COMPOSE_SCHEMA):
	@mkdir -p $(dir $@)
	@cp "$$(go mod download -json github.com/compose-spec/compose-go/v2@v2.16.2 \
	  | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')/schema/compose-spec.json" $@

test-deploy: .venv/.installed $(HELM) $(COMPOSE_SCHEMA) ## the Helm chart and the Compose file against their schemas (needs Go), and the image (buildah, debootstrap, root)
	$(BIN)/python -m pytest tests/deploy $(ARGS)

docs: .venv/.installed ## the documentation as a site, in site/; fails on a broken link
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo 'site/index.html'

pictures: .venv/.installed ## the pictures of the console in README and docs, from running samples in Chromium
	@$(BIN)/python -m tests.console.pictures

test-alerts: .venv/.installed ## the alert rules by promtool, which Debian's package prometheus has
	@command -v promtool >/dev/null || { echo \
	  'promtool is missing: install the package prometheus of Debian or Ubuntu, or put promtool on the PATH' >&2; exit 1; }
	$(BIN)/python -m pytest tests/test_alerts.py $(ARGS)

lint: .venv/.installed ## ruff, biome, mypy and the words of texts for users; the hook of pre-commit runs the same script
	@.ci/lint

# The linter of the forge's workflows; it comes as a Go module at a pinned version.
ACTIONLINT := .cache/lint/actionlint
$(ACTIONLINT):
	@echo 'Building actionlint (once, a minute) ...'
	@GOBIN=$(CURDIR)/$(dir $@) go install github.com/rhysd/actionlint/cmd/actionlint@v1.7.12

lint-workflows: $(ACTIONLINT) ## the workflows in .github/ (needs Go)
	$(ACTIONLINT) -color .github/workflows/*.yml

# What CI keeps is the file that the tests have installed (tests/packaging/test_wheel.py).
wheel: java install jars/.rocketmq ## the package as a wheel in dist/, which the tests of the packaging install and run
	rm -rf dist
	$(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation --no-index --wheel-dir dist .
	WHEEL=$$(ls $(CURDIR)/dist/*.whl) $(BIN)/python -m pytest tests/packaging $(ARGS)

bench: java install ## the figures of the docs, measured here
	$(BIN)/python -m benchmarks.publication

bench-guard: java install jars/.rocketmq ## ten ratios against their bounds; BASE=COMMIT: beside that commit too: before closing what touches gateway, job or tables
	@$(BIN)/python -m benchmarks.guard $(if $(BASE),--base $(BASE)) $(ARGS)

bench-gateway: java install ## the gateway beside RocketMQ's own NameServer, under the same load
	$(BIN)/python -m benchmarks.gateway

bench-heartbeats: java install ## 5,000 brokers with leases of 10 s and a heartbeat every second; ARGS='--minutes 10'
	$(BIN)/python -m benchmarks.heartbeats $(ARGS)

bench-scale: java install ## the whole stack beside RocketMQ's NameServer, with registries of 1,000,000 and 3,000,000 rows
	$(BIN)/python -m benchmarks.stack $(ARGS)
	$(BIN)/python -m benchmarks.scale $(ARGS)
	$(BIN)/python -m benchmarks.driver $(ARGS)

bench-watch: install ## from a snapshot to 1,000 watchers of the console
	$(BIN)/python -m benchmarks.watch $(ARGS)

bench-history: java install ## the cookbook's questions on a year of history, 10 million lines
	$(BIN)/python -m benchmarks.history $(ARGS)

league: java install ## users' reports of the NameServer, played against RocketMQ and the gateway; writes docs/league.md
	$(BIN)/python -m league $(ARGS)

soak: java install ## the whole stack for 15 minutes, and whether anything grows; ARGS='--minutes 30'
	$(BIN)/python -m benchmarks.soak $(ARGS)

soak-hostile: java install ## ten kinds of hostile peers beside good brokers and clients, for ten minutes
	$(BIN)/python -m benchmarks.hostile $(ARGS)

chaos: java install ## 20 minutes of killed jobs, outages and full disks under churn; ARGS='--minutes 2 --seed 7'
	$(BIN)/python -m chaos $(ARGS)

mutants: java install ## small changes of rules/, wire/, job/ and two modules, and how many of them the tests notice
	$(BIN)/python -m benchmarks.mutants $(ARGS)

jars/job.jsa: jars/.retrieved
	@echo 'Making an archive of the classes that the job loads (once, a minute) ...'
	@$(BIN)/namesrv-stream archive || echo 'Without it each start of Spark takes 5 s of CPU more.'

java: .venv/.installed
	@$(BIN)/python -m namesrv_stream.tools.local.jars

# Of pip's lines those that name what it fetches, with the size, and what it builds.
DOWNLOADS := sed -un -E '/^ *(Downloading|Building wheel|Installing collected)/{s/^ +//;s/(collected packages:).*/\1 .../;p;}'

# The locks name each package, so pip is told to look for no other: pip 23.2, which Python 3.11 brings, takes the newest
# release of a package that another one names with an extra (coverage[toml]) and then refuses it as not in the lock.
.venv/.installed: $(LOCKS) pyproject.toml
	@[ -n '$(PYTHON)' ] && $(PYTHON) -c '$(OLD_ENOUGH)' || { echo \
	  'namesrv-stream needs Python 3.11 or newer: install one and say make PYTHON=/path/to/python3.11'; exit 1; } >&2
	@echo 'Installing into .venv (once; pyspark alone is some 400 MB) ...'
	@[ -x $(BIN)/python ] || $(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --no-deps --require-hashes -r requirements-build.lock | $(DOWNLOADS)
	@$(BIN)/python -m pip install --no-deps --require-hashes --no-build-isolation \
	  -r requirements.lock | $(DOWNLOADS)
	@$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --no-index --editable .
	@! { $(BIN)/python -m pip check || true; } | grep -v -e '^No broken' -e '^delta-spark 4.4.0 has requirement pyspark' || \
	  { echo 'pyproject.toml asks for more than the locks have: make lock' >&2; exit 1; }
	@touch $@

jars/.retrieved: conf/ivy.xml .venv/.installed
	@echo 'Fetching the jars of Spark and Kafka (once, 45 MB) ...'
	@$(BIN)/python -m namesrv_stream.tools.local.jars spark kafka
	@touch $@

jars/.rocketmq: conf/ivy.xml .venv/.installed
	@$(BIN)/python -m namesrv_stream.tools.local.jars rocketmq
	@touch $@

# The locks name no registry: pip asks the one that it is set up for.
LOCK := $(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --custom-compile-command 'make lock'
$(BIN)/uv: .venv/.installed
	@$(BIN)/python -m pip install --quiet uv

# Those of pyproject.toml; what they need in turn follows by `make lock`. The jars are in conf/ivy.xml.
outdated: $(BIN)/uv ## direct dependencies of which there is a newer release than the installed one
	@$(BIN)/uv pip tree --python $(BIN)/python --outdated --depth 1 --package namesrv-stream --package delta-spark \
	  | { grep latest || echo 'All direct dependencies are the newest releases.'; }

lock: $(BIN)/uv ## pin newer versions of the dependencies
	@$(LOCK) --group build -o requirements-build.lock
	@$(LOCK) pyproject.toml --group dev --group delta -o requirements.lock
	@$(LOCK) pyproject.toml --group delta --constraint requirements.lock -o requirements-image.lock

clean: ## remove what the targets above made
	rm -rf .venv jars data dist .mypy_cache .ruff_cache .pytest_cache .hypothesis spark-warehouse metastore_db derby.log
