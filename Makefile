# Every target makes what it needs by itself. PYTHON: 3.11 or 3.12.
PYTHON ?= python3.11
VENV := .venv
PIP := $(VENV)/bin/python -m pip --disable-pip-version-check --quiet
# Without compiling: Python compiles what is used, when it is used.
PINNED := install --no-compile --no-deps --require-hashes

# Files of tests go to the workers in the order of tests/conftest.py: those that take long come first.
PYTEST := $(VENV)/bin/python -m pytest -n 8 --dist loadfile --no-loadscope-reorder --durations 40 --durations-min 5

# Images that forbid Python to keep what it compiled would have hundreds of the tests' processes compile it again.
unexport PYTHONDONTWRITEBYTECODE
# The demo has the user's own cache, as the command has without make: what was indexed once serves both.
test broad nightly operate check faults bench: export RANKSTREAM_CACHE_DIR ?= $(CURDIR)/.cache/rankstream

# With QDRANT_BINARY, what tests asked the stand-in of a Qdrant server is asked of that server, too.
EXCHANGES := $(CURDIR)/.cache/exchanges
ON_A_SERVER := tests/integration tests/stand_in tests/operators/indexing tests/docs

SBOM := .cache/sbom

.PHONY: demo test broad nightly operate check lint faults bench docs sbom clean

# What it takes to run: the demo needs no more.
$(VENV)/run: requirements/run.txt requirements/build.txt pyproject.toml
	test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
	$(PIP) $(PINNED) -r requirements/build.txt -r requirements/run.txt
	$(PIP) install --no-deps --no-build-isolation --editable .
	touch $@

# What it takes to change it.
$(VENV)/dev: requirements/dev.txt $(VENV)/run
	$(PIP) $(PINNED) -r requirements/dev.txt
	touch $@

# A fresh clone's tests are compiled once: otherwise each worker would compile them.
tests/__pycache__: | $(VENV)/dev
	$(VENV)/bin/python -m pytest --collect-only -qq -n 0 > /dev/null

demo: $(VENV)/run
	$(VENV)/bin/rankstream demo

test: $(VENV)/dev tests/__pycache__
	$(PYTEST) -m "not operate and not nightly and not broad"

# What is left out of `make test` for its time, too.
broad: $(VENV)/dev tests/__pycache__
	$(PYTEST) -m "not operate and not nightly"

# All of it: each promise in its largest form, both Kafka clients, all faults. It takes some hours.
nightly: lint docs tests/__pycache__
	rm -rf $(EXCHANGES)
	env -u QDRANT_BINARY QDRANT_EXCHANGES=$(EXCHANGES) $(PYTEST) --hypothesis-profile nightly --timeout 3600
	$(VENV)/bin/python -m tests.qdrant_server.replay $(EXCHANGES)
	$(if $(QDRANT_BINARY),$(PYTEST) --timeout 3600 -m "not operate and not nightly" $(ON_A_SERVER))
	$(VENV)/bin/python -m tests.faults
	$(VENV)/bin/python -m tests.faults --scenario topics-at-random --seconds 1800
	$(VENV)/bin/python -m tests.planted
	$(VENV)/bin/python -m bench soak

operate: $(VENV)/dev
	$(VENV)/bin/python -m pytest -m operate

lint: $(VENV)/dev
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy

check: lint tests/__pycache__
	$(PYTEST) -m "not broker and not weights and not slow" -q --hypothesis-profile quick

faults: $(VENV)/dev
	$(VENV)/bin/python -m tests.faults

bench: $(VENV)/dev
	$(VENV)/bin/python -m bench micro
	$(VENV)/bin/python -m bench flow

# A broken link or anchor is an error. The site needs no network, neither to be built nor to be read.
docs: $(VENV)/dev
	$(VENV)/bin/python -m docs.site
	$(VENV)/bin/python -m sphinx --quiet --fresh-env --fail-on-warning --keep-going --conf-dir docs/site -d .cache/doctrees . .cache/site
	@echo "The documentation is in .cache/site/index.html"

# What is in the image's environment, with versions, licences and dependencies: a bill of materials in CycloneDX. The
# tool has an environment of its own: what it needs is no part of the image.
sbom:
	$(PYTHON) -m venv --clear $(SBOM)
	$(PYTHON) -m venv --without-pip $(SBOM)/image
	$(SBOM)/bin/python -m pip --disable-pip-version-check --quiet $(PINNED) -r requirements/sbom.txt
	$(SBOM)/bin/python -m pip --disable-pip-version-check --quiet --python $(SBOM)/image/bin/python $(PINNED) -r requirements/run.txt
	$(SBOM)/bin/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible --output-file .cache/sbom.json $(SBOM)/image
	@echo "The bill of materials is in .cache/sbom.json"

clean:
	rm -rf $(VENV) .cache
