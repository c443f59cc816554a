# Everything starts from Python 3.11, Java 17 and make. A stamp marks each finished step of the set-up, so a step that
# was interrupted is done again and a finished one costs nothing.

PYTHON ?=
# Of the law, that `make fuzz` adds to those of its ledger.
CASES ?= 3000
SPARK_CASES ?= 300
FAMILIES := tops once asof mutual rows_before fills
FAMILY_CASES ?= 125
FAMILY_SPARK ?= 8
FULL ?=
WORKERS ?= 3
EXTRAS := spark sql quality airflow s3 metrics serve editor all
VENV := .venv
BIN := $(VENV)/bin

# pip fetches the first uv, and uv everything else: one variable names the mirror for both.
ifdef PIP_INDEX_URL
export UV_DEFAULT_INDEX ?= $(PIP_INDEX_URL)
else ifdef UV_DEFAULT_INDEX
export PIP_INDEX_URL := $(UV_DEFAULT_INDEX)
endif

.DELETE_ON_ERROR:
.PHONY: cases test-chart test-image store-check help setup docs demo up down test test-all simulate month days reds test-fast test-packages test-airflow-docs lint types fuzz goldens bench bench-high bench-ingest bench-files bench-end experiments endurance wheel lock bill licences audit test-chart release-check digests clean cluster endurance-cluster

help:
	@echo 'setup      create .venv, install the lock, fetch the Delta jars, compile the reader'
	@echo 'docs       the documentation site under var/website, which works without a network; prints its first page'
	@echo 'demo       three hours of three links through Airflow and Spark into var/lake; stops what it started'
	@echo 'up         Airflow over the lake of the demo, kept running; prints its address and login'
	@echo 'down       stop it'
	@echo 'test       the tests of each push, those with Spark, Airflow and real captures included'
	@echo 'test-all   these and those of each night: further databases, clusters, images and runners'
	@echo 'test-fast  the tests without a JVM, real captures or other processes; few random examples; under a minute'
	@echo 'cases      cases of files, coverage and states (tests/model/cases.txt, or FILES=...): a line for each that fails'
	@echo 'test-packages  the wheel in environments of their own: every extra, every Python of the machine (.ci/matrix)'
	@echo 'test-chart docker/chart by Helm and the schemas of Kubernetes, and by Helm'"'"'s program, which it builds with go'
	@echo 'test-image each instruction of docker/Dockerfile in a root of its own, without an engine, and trials of what it made'
	@echo 'store-check  lowwater doctor, the tests of object stores and 20 seeds of faults on another S3 server (versitygw), which it builds with go'
	@echo 'lint       ruff: rules and format'
	@echo 'types      mypy, strict'
	@echo 'fuzz       more cases of the law, behind those of var/fuzz/ledger.jsonl; the randomised tests with many examples'
	@echo 'simulate   SCHEDULES=100000 schedules of processes on a simulated store, from SEED=0 on: pauses, kills, lost and late requests'
	@echo 'month      DAYS=30 HOURS=6 days of a lake that takes care of itself, from SEED=0: late files, outages, kills, a full disk, changes; beside a quiet backfill'
	@echo 'days       DAYS=2 HOURS=6 a part of such a month in a real Airflow whose tasks have a driven clock: late files, the machine goes down, changes'
	@echo 'reds       HOURS=24 STEP=5 SEED=1: a day of intervals of five minutes in a real Airflow: each red task says what is so, and clearing it after the remedy makes it green'
	@echo 'goldens    rewrite plans, rows, errors and the examples of the documents that tests compare with'
	@echo 'bench      packets/s, rows/s and fixed costs of every stage'
	@echo 'bench-high   rows/s and peak state of the high level beside PySpark and DuckDB'
	@echo 'bench-ingest  packets/s of ingest beside nfpcapd and tshark, memory, bytes a packet'
	@echo 'bench-end    captures to audited tables beside nfdump, DuckDB, PySpark and tshark; FULL=--full adds 100 M packets'
	@echo 'experiments  the papers'"'"' figures, and docs/experiments.md: under 15 minutes; FULL=1 at the papers'"'"' rates, some 15 hours; goes on where it was stopped, and ends with the verdicts'
	@echo 'endurance  30 days through one backfill and two days through Airflow, with kills, beside a sequential run; 50 publishes to a store that fails, while others read; 200 seeds of faults, STORE=HOST:PORT on another server; 20 of commands that are stopped and killed side by side: hours'
	@echo 'cluster    the demo on an S3 server, a Spark master and three workers that share nothing else; one is killed; compared with one process'
	@echo 'endurance-cluster  200 intervals there, with a kill in each, beside a quiet run, 200 drawn cases of the law, and a driver that is killed: hours; goes on where it was stopped'
	@echo 'wheel      wheel and source distribution into dist/'
	@echo 'lock       requirements.txt from requirements.in, also of docker/ and website/, and a lock for each extra into requirements/'
	@echo 'bill       the bill of materials of all extras, var/bill.json (CycloneDX)'
	@echo 'licences   docs/licences.md from the locks'
	@echo 'audit      known vulnerabilities of the locked packages; needs a way to pypi.org'
	@echo 'release-check  what must hold before a release, check by check; RUN=1 also runs every test'
	@echo 'digests    the images of docker/ by their digests, into docker/.env'
	@echo 'clean      remove var/, the environment of the site and all caches; .venv stays'
	@echo 'PYTHON=... names the Python 3.11 to use; UV_DEFAULT_INDEX, PIP_INDEX_URL, DEFAULT_ARTIFACT_REPOSITORY and'
	@echo 'HTTPS_PROXY name mirrors and a proxy (docs/installation.md)'

setup: $(VENV)/.package $(VENV)/.jars $(VENV)/.kernels

# No stamp means new or interrupted: a half-installed environment cannot be trusted, so it is made afresh.
# The first uv comes from the lock too, with its hashes. Compiled once here, imports take half the time in every process.
$(VENV)/.packages: requirements.txt
	@[ -e $@ ] || { python=$$(scripts/preflight.sh "$(PYTHON)") && "$$python" -m venv --clear $(VENV); }
	@rm -f $@
	@sed -n '/^uv==/,/[^\\]$$/p' requirements.txt > $(VENV)/uv.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r $(VENV)/uv.txt
	$(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python --require-hashes -r requirements.txt
	@touch $@

$(VENV)/.package: $(VENV)/.packages pyproject.toml
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	$(BIN)/python -m compileall -q lowwater expectations plugins
	@touch $@

# Another lock may mean another Delta, and an interrupted fetch half a jar: begin with an empty folder.
$(VENV)/.jars: $(VENV)/.packages | $(VENV)/.package
	@rm -rf $(VENV)/share/lowwater/jars
	$(BIN)/python -m lowwater.spark.jars
	@touch $@

# The S3 server of the tests has packages of other versions, in a folder of its own; only its process sees them.
$(VENV)/.s3: tests/storage/requirements.txt $(VENV)/.packages
	@rm -rf $(VENV)/s3
	$(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python --require-hashes --target $(VENV)/s3 -r $<
	@touch $@

# Axe's rules for the tests of the review pages, which skip without them. Needs npm.
$(VENV)/.axe: tests/review/scripts.json $(VENV)/.packages
	$(BIN)/python -m website.fetch $(VENV)/axe --pins $<
	@touch $@

# What renders and validates docker/chart, in a folder of its own: Helm's Go packages as a library, and the schemas of Kubernetes.
$(VENV)/.chart: tests/kubernetes/requirements.txt $(VENV)/.packages
	@rm -rf $(VENV)/chart
	$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes --target $(VENV)/chart -r $<
	@touch $@

# The program of Helm 3 is built from its module, in minutes: not part of the set-up. The packages above are those of Helm 4.
HELM_VERSION := v3.16.4
$(VENV)/.helm: $(VENV)/.packages
	@rm -rf $(VENV)/helm
	GOBIN=$(CURDIR)/$(VENV)/helm/bin GOTOOLCHAIN=local go install helm.sh/helm/v3/cmd/helm@$(HELM_VERSION)
	@touch $@

# An S3 server that another project wrote, in Go: not part of the set-up.
VERSITYGW_VERSION := v1.8.0
$(VENV)/.versitygw: $(VENV)/.packages
	@rm -rf $(VENV)/versitygw
	GOBIN=$(CURDIR)/$(VENV)/versitygw/bin GOTOOLCHAIN=local go install github.com/versity/versitygw/cmd/versitygw@$(VERSITYGW_VERSION)
	@touch $@

store-check: $(VENV)/.package $(VENV)/.s3 $(VENV)/.versitygw
	$(BIN)/python -m tests.storage.gateway
	LOWWATER_TEST_STORE=versitygw $(BIN)/python -m pytest tests/storage
	$(BIN)/python -m tests.storage.faults 20 --gateway

# Needs root, debootstrap and the registries of Debian and PyPI.
test-image: $(VENV)/.package
	$(BIN)/python scripts/image.py

test-chart: setup $(VENV)/.chart $(VENV)/.helm
	$(BIN)/python -m pytest tests/kubernetes

# A process that meets a kind of link for the first time compiles for ten seconds and more: a small capture of each is read.
$(VENV)/.kernels: $(wildcard lowwater/capture/*.py lowwater/capture/*/*.py lowwater/capture/*/*/*.py lowwater/quality/*/*.py) | $(VENV)/.package
	$(BIN)/python -m lowwater.replay.kernels
	@touch $@

# The tools of the site have a lock and an environment of their own: the platform needs none of them. Only the two stamps
# need a network, and npm for the scripts; every further build works without.
SITE := var/website
SITE_BIN := .venv-docs/bin

docs: $(VENV)/.package .venv-docs/.packages $(SITE)/scripts/.fetched
	$(BIN)/python -m website.stage $(SITE)
	NO_MKDOCS_2_WARNING=1 $(SITE_BIN)/mkdocs build --quiet --strict --config-file $(SITE)/mkdocs.yml
	$(BIN)/python -m website.versions $(SITE)/site
	$(BIN)/python -m website.check $(SITE)/site
	@echo "file://$(CURDIR)/$(SITE)/site/index.html"

.venv-docs/.packages: website/requirements.txt | $(VENV)/.packages
	$(BIN)/python -m venv --clear .venv-docs
	$(BIN)/uv pip install --quiet --python $(SITE_BIN)/python --require-hashes -r website/requirements.txt
	@touch $@

$(SITE)/scripts/.fetched: website/scripts.json | $(VENV)/.packages
	$(BIN)/python -m website.fetch $(SITE)/scripts
	@touch $@

demo: setup
	@$(BIN)/lowwater doctor
	$(BIN)/python scripts/demo.py

up: setup
	@[ -e var/lake/lowwater.toml ] || $(BIN)/python scripts/demo.py
	$(BIN)/python scripts/home.py up

down:
	@[ ! -x $(BIN)/python ] || $(BIN)/python scripts/home.py down

# Three workers keep two cores busy: tests of Airflow and of whole commands wait for other processes half of their time.
# WORKERS=4 takes four, for more cores.
# What each push sees of the real components, and what each night: docs/adr/0164.
# The order of the files is that of tests/conftest.py; xdist's own would leave the files of few, long tests to the end.
test test-all: setup $(VENV)/.s3 $(VENV)/.chart
	@$(BIN)/lowwater doctor
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest --numprocesses=$(WORKERS) --dist=loadfile --no-loadscope-reorder -m "not bench$(if $(filter test,$@), and not nightly)"

test-fast: $(VENV)/.package $(VENV)/.s3
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest --numprocesses=2 --dist=loadfile --no-loadscope-reorder -m "not spark and not captures and not slow" --hypothesis-profile=quick

test-airflow-docs: setup
	$(BIN)/python -m tests.packaging.own_airflow
	$(BIN)/python -m tests.packaging.own_airflow --database postgres

test-packages: setup
	.ci/matrix

lint: $(VENV)/.packages
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.package
	$(BIN)/mypy

FILES ?=

cases: $(VENV)/.package
	@$(BIN)/python -m tests.model.cases $(FILES)

SEED ?= 0
SCHEDULES ?= 100000

simulate: $(VENV)/.package
	nice -n 19 $(BIN)/python -m tests.simulation $(SEED) $(SCHEDULES)

month: setup
	$(BIN)/python -m tests.replay.month --days $(or $(DAYS),30) --hours $(or $(HOURS),6) --seed $(or $(SEED),0)

reds: setup
	$(BIN)/python -m tests.airflow.reds --hours $(or $(HOURS),24) --step $(or $(STEP),5) --seed $(or $(SEED),1)

days: setup
	$(BIN)/python -m tests.airflow.days --days $(or $(DAYS),2) --hours $(or $(HOURS),6) --seed $(or $(SEED),1)

fuzz: setup
	$(BIN)/python -m tests.law.fuzz --reference $(CASES) --spark $(SPARK_CASES)
	for family in $(FAMILIES); do \
	    $(BIN)/python -m tests.law.fuzz --family $$family --process $(FAMILY_CASES) --spark $(FAMILY_SPARK) || exit 1; done
	$(BIN)/python -m tests.model.compared 10000
	$(BIN)/python -m tests.lake.life 300
	$(BIN)/python -m tests.hostile.fuzz
	LOWWATER_ACCOUNTS=2000 $(BIN)/python -m pytest tests/lake/test_outside.py --timeout=0
	$(BIN)/python -m pytest tests --hypothesis-profile=fuzz --timeout=0 -m hypothesis
	$(BIN)/python -m tests.capture.fuzz_guided frames var/fuzz/frames -runs=10000000 -max_len=400
	$(BIN)/python -m tests.capture.fuzz_guided files var/fuzz/files -runs=100000 -max_len=1500
	for target in dns http hello quic segments packed csv json logs samples lists; do \
	    $(BIN)/python -m tests.capture.fuzz_guided $$target var/fuzz/$$target -max_total_time=600 -max_len=600 -timeout=20 || exit 1; done
	$(BIN)/python -m tests.capture.measure_parsers
	$(BIN)/python -m tests.capture.guarded --first 100000 --count 100000 > var/fuzz/guarded.log
	$(BIN)/python -m tests.capture.fuzz_work --rounds 30000 --seed 1
	$(BIN)/python -m tests.capture.fuzz_tables --lines 1000000 --headers 100000 --files 20000 --bombs --seed 1

# Everything that tests compare with; the reader of the diff decides.
goldens: setup
	for writer in tests.gsql.gsql_cases tests.refusals tests.plan.golden tests.plan.test_revisions tests.replay.golden tests.replay.tuning_cases tests.docs.book tests.docs.coverages tests.docs.test_metrics tests.docs.test_tutorial tests.docs.test_logs tests.editor.extension; do \
	    $(BIN)/python -m $$writer || exit 1; done

bench: setup
	$(BIN)/python -m benchmarks

endurance: setup $(VENV)/.s3
	$(BIN)/python scripts/endurance.py backfill
	$(BIN)/python scripts/endurance.py airflow
	$(BIN)/python -m tests.storage.polling 50
	$(BIN)/python -m tests.storage.faults 200 $(if $(STORE),--server $(STORE))
	$(BIN)/python -m tests.storage.rivals 1 20

cluster: setup $(VENV)/.s3
	$(BIN)/python scripts/cluster_demo.py

endurance-cluster: setup $(VENV)/.s3
	$(BIN)/python scripts/endurance_cluster.py
	$(BIN)/python -m tests.law.spread --cases 200

bench-high: setup
	$(BIN)/python -m benchmarks.bench_high

bench-ingest: setup
	$(BIN)/python benchmarks/bench_ingest.py

bench-files: setup
	$(BIN)/python benchmarks/bench_files.py

bench-end: setup
	$(BIN)/python -m pytest tests/benchmarks
	$(BIN)/python -m benchmarks.bench_end $(FULL)

# The results are committed; `python -m experiments.page` makes the page of them again.
experiments: setup
	$(BIN)/python -m pytest tests/experiments
	$(BIN)/python -m experiments $(if $(FULL),--full)

wheel: $(VENV)/.package
	rm -rf dist build
	$(BIN)/uv build --quiet --offline --no-build-isolation --python $(BIN)/python --out-dir dist
	rm -rf build

# The locks of the extras hold for every platform and Python that pyproject.toml admits, at the versions of the one lock
# that the tests use.
lock: $(VENV)/.packages
	$(BIN)/uv pip compile --quiet --generate-hashes --python-version 3.11 requirements.in -o requirements.txt
	$(BIN)/uv pip compile --quiet --generate-hashes --no-deps --python-version 3.11 docker/requirements.in -o docker/requirements.txt
	$(BIN)/uv pip compile --quiet --generate-hashes --python-version 3.11 website/requirements.in -o website/requirements.txt
	$(BIN)/uv pip compile --quiet --generate-hashes --python-version 3.11 tests/storage/requirements.in -o tests/storage/requirements.txt
	$(BIN)/uv pip compile --quiet --generate-hashes --python-version 3.11 tests/kubernetes/requirements.in -o tests/kubernetes/requirements.txt
	for extra in core $(EXTRAS); do \
	    $(BIN)/uv pip compile --quiet --generate-hashes --universal --python-version 3.11 --no-annotate --no-header \
	        $$([ $$extra = core ] || echo --extra $$extra) pyproject.toml -c requirements.txt -o requirements/$$extra.txt || exit 1; done

bill: $(VENV)/.package
	$(BIN)/python scripts/dependencies.py bill

licences: $(VENV)/.package
	$(BIN)/python scripts/dependencies.py licences

audit: $(VENV)/.package
	$(BIN)/python scripts/dependencies.py audit

release-check: setup
	$(BIN)/python scripts/release.py $(if $(RUN),--run)

# Needs docker and a way to the registries of the images.
digests:
	scripts/digests.sh docker/compose.yaml docker/.env

clean: down
	rm -rf $(VENV)/.kernels .venv-docs var build dist *.egg-info .hypothesis .mypy_cache .pytest_cache .ruff_cache .numba_cache spark-warehouse
	find . -path ./$(VENV) -prune -o -name __pycache__ -type d -exec rm -rf {} +
