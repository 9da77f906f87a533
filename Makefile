# Two commands for a fresh clone: `make demo` and `make test`. They need Python >= 3.11 with venv, git and make.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
unexport PYTHONDONTWRITEBYTECODE # each worker and each child would compile the tests
READY  := $(VENV)/.ready

.PHONY: demo test lint lint-python lint-web bench explore fuzz soak power sweep model simulate sbom advisories setup app clean

demo: app ## the whole story over real sockets; KEEP=1 leaves it running
	$(BIN)/python -m bridge.demo $(if $(KEEP),--keep)

test: app ## lint is apart: `make lint`
	$(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder --max-worker-restart 0

lint: $(READY) ## Python and web side by side
	$(MAKE) --jobs 2 --output-sync=target lint-python lint-web

lint-python: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy web/build.py
	find tests -name '*.py' | xargs $(BIN)/mypy --explicit-package-bases --namespace-packages
	$(BIN)/lint-imports

lint-web: $(READY)
	$(BIN)/python web/build.py types
	$(BIN)/python web/build.py lint

bench: app
	$(BIN)/python -m tests.benchmarks

explore: app ## the property tests with new examples; SEED=1: those of one run again
	$(BIN)/python -m pytest -n 2 -m hypothesis --hypothesis-profile explore \
		$(if $(SEED),--hypothesis-seed $(SEED))

fuzz: app ## guided by coverage, for so many seconds in all; `make test` does it for half a minute
	$(BIN)/python -m tests.fuzz $(or $(SECONDS),600)

soak: app ## an hour under load and faults; SHORT=1: four minutes; SQLITE=1: without HAProxy
	$(BIN)/python -m tests.soak $(if $(SHORT),--short) $(if $(SQLITE),--sqlite)

power: app ## a thousand power cuts on SQLite, a hundred on PostgreSQL; needs FUSE
	$(BIN)/python -m tests.power

sweep: app ## each call on disk, socket, descriptor and thread fails once; needs FUSE and strace
	$(BIN)/python -m tests.sweep

model: $(READY) ## TLC on the models of the queue and the outbox; needs Java
	$(BIN)/python -m tests.model.run

simulate: $(READY) ## ten thousand schedules of each story under simulated time; SCHEDULES=500: fewer
	$(BIN)/python -m tests.simulation --schedules $(or $(SCHEDULES),10000)

sbom: $(READY) ## what is shipped, as CycloneDX: dist/sbom-python.json and dist/sbom-web.json
	@mkdir -p dist
	$(BIN)/cyclonedx-py requirements --pyproject pyproject.toml --short-PURLs --output-reproducible \
		--output-format JSON --output-file dist/sbom-python.json deploy/serving.lock
	$(BIN)/python web/build.py --sbom > dist/sbom-web.json

advisories: $(READY) ## known vulnerabilities of all that is locked; needs the internet
	$(BIN)/pip-audit --strict --disable-pip --require-hashes --requirement requirements.lock
	$(BIN)/python web/build.py --audit

setup: app

app: $(READY) ## the web apps, built when their sources have changed; and our own byte code
	@$(BIN)/python web/build.py
	@$(BIN)/python -m compileall -q bridge mllp mappings config parsers

$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Report Bridge needs Python 3.11 or newer; set PYTHON=…")'
	@echo "Setting up $(VENV): this takes a minute the first time …"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes --requirement requirements.lock
	@$(BIN)/python web/build.py
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $(READY)

clean:
	rm -rf $(VENV) web/node_modules bridge/engine/app/assets/built
