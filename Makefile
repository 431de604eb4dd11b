# Everything that a fresh machine needs is set up by the targets themselves: Python 3.11+ with venv, git and make.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# One process for each core; they have to draw the same cases, some of which are sets.
PYTEST := PYTHONHASHSEED=0 $(BIN)/python -m pytest -q -n auto --dist worksteal --benchmark-disable
LIVE := $(BIN)/python -m pytest tests/live -q --benchmark-disable --durations=5
# The real Spark, 400 MB of it, for those tests alone that run beside it; and older releases, which podtide cluster runs too.
SPARK := .venv-spark
SPARK_STAMP := $(SPARK)/.installed
OLDER_SPARKS := $(SPARK)-4.0/.installed $(SPARK)-3.5/.installed
REAL_SERVER := $(or $(PODTIDE_TEST_KUBECONFIG),$(KUBEBUILDER_ASSETS),$(wildcard ../shared/kubernetes/up.sh))
DEMO := $(firstword $(wildcard demo/eventlog_v2_*))
# Images of Python like to switch bytecode off. The tests start the program hundreds of times: each would compile it again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test check lint types contracts schemas reference site mutants search unit domain outside plain-python live-quick live conformance truth-check accuracy intervals soak bench wheel release clean

help:
	@echo "make demo         replay the event log that ships with the project, ask it what if, simulate a cluster with bad weather"
	@echo "make test         every check: lint, types, import contracts, tests, coverage, wheel"
	@echo "make live         against an API server: 1,000 pods, 100 kills, real Spark 4.3, 4.0, 3.5   (Java 17; tests/live/cluster.py)"
	@echo "make conformance  draw fresh random scenarios, ask real Spark, compare   (Java 17; KINDS= N= STEPS= SEED=)"
	@echo "make truth-check  replay real runs and compare with what their drivers decided"
	@echo "make accuracy     predict real runs from other real runs, into benchmarks/ACCURACY.md"
	@echo "make intervals    calibrate the prediction intervals on every forecast of a real run, into benchmarks/INTERVALS.md"
	@echo "make soak         a million steps against clusters that misbehave   (STEPS=, MODE=faithful|fixed, SEED=)"
	@echo "make search       try every property with 1,500 fresh examples instead of 50"
	@echo "make mutants      plant small mistakes in the domain, one at a time, and count those that the tests see   (SHARE=)"
	@echo "make site         build the site of docs/, in out/site"
	@echo "make reference    generate the pages of docs/reference that say what the code says"
	@echo "make schemas      generate the JSON Schemas in docs/schema from the records that they describe"
	@echo "make release      build wheel and source distribution, try both in empty environments of Python 3.11 to 3.14"
	@echo "make bench        benchmarks against real Spark in the same run          (Java 17)"

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install -qq --editable . --group dev
	@touch $(STAMP)

demo: $(STAMP)
	$(BIN)/podtide replay $(DEMO)
	@echo
	$(BIN)/podtide simulate --cluster demo/spot-cluster.yaml --workload demo/workload.yaml \
		--conf spark.executor.cores=4 --conf spark.dynamicAllocation.maxExecutors=40
	@echo
	$(BIN)/podtide whatif $(DEMO) --set spark.dynamicAllocation.maxExecutors=10 --static 3 --price core-hour=0.04,gb-hour=0.005
	@echo
	$(BIN)/podtide run --cluster local --app-id spark-demo --mode act --schedule 0:3,3:8,6:2 --duration 9s --on-exit delete \
		--no-view --conf spark.kubernetes.container.image=spark --conf spark.driver.host=driver --conf spark.driver.port=7078

test: check

# Two things at a time: the live tests wait more than they work, mypy works in one process, the wheel waits for its packages.
check: lint contracts
	$(MAKE) --no-print-directory --jobs=2 --output-sync=target live-quick types unit wheel site

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

contracts: $(STAMP)
	PYTHONPATH=.typing $(BIN)/lint-imports

search: $(STAMP)
	$(PYTEST) --hypothesis-profile=search tests/properties

mutants: $(STAMP)
	PYTHONHASHSEED=0 $(BIN)/python scripts/mutants.py --share $(or $(SHARE),40)

schemas: $(STAMP)
	$(BIN)/python scripts/schemas.py

reference: $(STAMP)
	$(BIN)/python -m scripts.reference

# The site of docs/, in out/site; a link that leads nowhere is an error.
site: $(STAMP)
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

unit: domain outside plain-python

# Coverage is counted where it is promised: of the domain, by its own tests and the answers of real Spark. Properties and
# simulations go over the same lines thousands of times; counting them there would double their time and tell nothing new.
# What is fitted from a recording is tested by what comes of it: a cluster, recorded and fitted.
FITTED := tests/entrypoints/simulate/test_fit_yarn.py

domain: $(STAMP)
	$(PYTEST) tests/domain tests/conformance/test_conform.py $(FITTED) --cov --cov-report=term:skip-covered --cov-fail-under=95

outside: $(STAMP)
	$(PYTEST) tests/adapters tests/entrypoints tests/project tests/oracle tests/support tests/properties tests/simulation tests/conformance/test_beside.py --ignore=$(FITTED) --durations=5

# Newer Pythons have no wheels of pyrsistent's C extension: the answers of real Spark, and that old versions stay as they were.
plain-python: $(STAMP)
	PYRSISTENT_NO_C_EXTENSION=1 $(PYTEST) --hypothesis-profile=quick tests/conformance/test_conform.py tests/domain/base tests/properties/test_purity.py

# Against an API server, in one process: each worker would start a server of its own. It waits more than it works, so it
# goes beside the others. A real server where there is one, else podtide's own, which is said aloud (tests/live/cluster.py).
live-quick: $(STAMP)
	$(LIVE)

live: $(STAMP) $(if $(PODTIDE_SPARK_PYTHON),,$(SPARK_STAMP)) $(OLDER_SPARKS)
	PODTIDE_LIVE=full PODTIDE_SPARK_PYTHON=$(or $(PODTIDE_SPARK_PYTHON),$(abspath $(SPARK))/bin/python) $(LIVE)
	$(if $(REAL_SERVER),PODTIDE_SPARK_PYTHON=$(or $(PODTIDE_SPARK_PYTHON),$(abspath $(SPARK))/bin/python) $(BIN)/python -m benchmarks.bench_live --full)

$(SPARK_STAMP):
	$(PYTHON) -m venv $(SPARK)
	$(SPARK)/bin/python -m pip install --quiet pyspark==4.3.0
	@touch $(SPARK_STAMP)

$(SPARK)-%/.installed:
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet "pyspark==$*.*"
	@touch $@

wheel: $(STAMP)
	$(BIN)/python scripts/release.py --check

# Wheel and source distribution in dist, tried in empty environments of Python 3.11 to 3.14.
release: $(STAMP)
	$(BIN)/python scripts/release.py

conformance: $(STAMP)
	$(BIN)/python scripts/conformance.py

truth-check: $(STAMP)
	$(BIN)/python -m scripts.truth_check

accuracy: $(STAMP)
	$(BIN)/python scripts/accuracy.py --truth tests/truth --public tests/truth --out benchmarks/ACCURACY_UNSEEN.md
	$(if $(wildcard ../shared/data/truth),$(BIN)/python scripts/accuracy.py)

intervals: $(STAMP)
	$(BIN)/python -m scripts.calibrate

soak: $(STAMP)
	$(BIN)/python scripts/soak.py

bench: $(STAMP)
	$(BIN)/python -m pytest benchmarks --benchmark-only

clean:
	rm -rf $(VENV) $(SPARK) $(SPARK)-* build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache out
