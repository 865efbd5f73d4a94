# The verbs of this repository. Each does what is missing and no more; the second time is quick.

PYTHON ?= python3
BIN := .venv/bin
SOURCES := $(shell find penstock router shard acceptor -name '*_cy.py' -o -name '*.pxd' -o -name '*.pyx')

.PHONY: help setup serve test test-slow shake search simulate conformance lint check demo first-hour bench docs man deb clean
.DELETE_ON_ERROR:

setup: .venv/.dev                                  ## everything for users and developers, in .venv

help:                                              ## these verbs
	@sed -n 's/^\([a-z-]*\):[^#]*## /\1\t/p' Makefile | expand -t 12

serve: .venv/.runtime                              ## a broker on 127.0.0.1:5672; ARGS='--port 0 ...' for more
	@exec $(BIN)/penstock serve $(ARGS)

test: setup .venv/.clients                         ## all tests but the slow ones
	$(BIN)/pytest -n auto --dist loadgroup $(ARGS)

test-slow: setup .venv/.clients .venv/.slow .venv/.docs  ## the slow ones
	$(BIN)/pytest -n auto --dist loadgroup -m "slow and not alone" $(ARGS)
	$(BIN)/pytest -m "slow and alone" $(ARGS) || test $$? = 5  # 5: none chosen

shake: setup .venv/.clients                        ## tests that this branch changes, and TESTS=, 30 times on busy cores
	$(BIN)/python -m tests.shake $(if $(BASE),--base $(BASE)) $(if $(TIMES),--times $(TIMES)) $(TESTS)

search: setup                                      ## property tests with other cases than the last time
	$(BIN)/pytest -q -n auto --dist loadgroup -m 'not broker and not slow and not spark' --hypothesis-profile=search $(ARGS)

simulate: setup                                    ## a node under virtual time and faults; SEED= for one, SECONDS=
	$(BIN)/python -m tests.simulator $(if $(SEED),--seed $(SEED)) $(if $(SECONDS),--seconds $(SECONDS)) $(ARGS)

conformance: setup .venv/.clients                  ## other people's integration suites, fetched when they are run
	$(BIN)/pytest -m slow tests/conformance $(ARGS)

lint: setup                                        ## style, format and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

check: lint                                        ## lint, and the quick tests: about a minute
	$(BIN)/pytest -q -n auto --dist loadgroup -m 'not broker and not long and not slow and not spark' --hypothesis-profile=quick $(ARGS)

demo: setup                                        ## flow control to look at, in the terminal and as a plot
	$(BIN)/python -m load.demo $(ARGS)

first-hour: setup                                  ## from a clone to a producer held, in the console, timed; PICTURE=
	$(BIN)/python -m tests.first_hour $(PICTURE)

bench: setup                                       ## the benchmark of load/
	$(BIN)/python -m load.bench $(ARGS)

docs: setup .venv/.docs                            ## the pages made from code, and the site of all, in build/site
	$(BIN)/python -m ops.reference
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

man: setup                                         ## the manual pages, in build/man
	$(BIN)/python -m ops.manual build/man

deb:                                               ## a Debian package, in build; on Debian, with packages/debian/control's tools
	rm -rf build/deb
	packages/debian/source.sh build/deb/penstock
	cd build/deb/penstock && dpkg-buildpackage --build=binary --no-sign
	mv build/deb/penstock_*.deb build/

clean:                                             ## what was built, not .venv
	rm -rf build .venv/.compiled
	find penstock router shard acceptor \( -name '*.so' -o -name '*.c' \) -delete

.venv/.python:
	sh ops/setup/python.sh $(PYTHON)
	@touch $@

.venv/.compiled: $(SOURCES) setup.py | .venv/.python
	$(BIN)/python setup.py --quiet build_ext --inplace
	@touch $@

# After it is compiled: pip would do it without a word. It finds all built, and only installs.
.venv/.runtime: pyproject.toml setup.py | .venv/.compiled
	@echo "penstock: installing the packages it needs, less than a minute"
	@$(BIN)/python -m pip install --quiet --no-build-isolation --editable .
	@touch $@

.venv/.dev: .venv/.runtime
	$(BIN)/python ops/setup/extra.py load pipeline dev | $(BIN)/python -m pip install --quiet --requirement /dev/stdin
	@touch $@

.venv/.docs: pyproject.toml | .venv/.dev
	$(BIN)/python ops/setup/extra.py docs | $(BIN)/python -m pip install --quiet --requirement /dev/stdin
	@touch $@

.venv/.clients: ops/setup/clients.sh | .venv/.python
	sh ops/setup/clients.sh
	@touch $@

.venv/.slow: ops/setup/clients.sh | .venv/.python
	sh ops/setup/clients.sh slow
	@touch $@
