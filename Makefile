PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin
comma := ,
ROOT := $(shell test "$$(id -u)" = 0 || echo sudo)

PIP := -m pip install --quiet --disable-pip-version-check
# `make check`: the rules, what they are built from and what is promised of them; no browser, no clusters, no sweeps
CORE := src/holdfast/rules src/holdfast/values.py src/holdfast/spec.py $(addprefix tests/test_,$(addsuffix .py,\
  architecture contract coordinate exact fail_closed geometry gradients rates spec twophase updates values vote))
# `make lowest`: what runs without Flower and Ray, whose lowest versions are those of constraints.txt
LOW := cli,plot,train,data,export,search,web

.PHONY: help install browser check test bare lowest dist lint cover fuzz docs notebook demo table tables paper picture screens certify deployment bench clean poc

help:  ## what can be made
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(VENV)/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(RUN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch $@

$(RUN)/holdfast:  # what the main job and the pages need, and no more
	$(PYTHON) -m venv $(VENV)
	$(RUN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[cli,train,web]'

install: $(VENV)/installed  ## a virtual environment with everything, by constraints.txt

browser: install  ## Chromium from Debian's packages, for the tests of the pages; elsewhere name one by CHROMIUM=
	command -v chromium >/dev/null || test -n "$$CHROMIUM" || $(ROOT) sh -c \
	  'apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core >/dev/null'

lint: install  ## ruff, ruff format, mypy strict, docstrings of public names
	$(RUN)/ruff check .
	$(RUN)/ruff format --check .
	$(RUN)/mypy
	$(RUN)/python tools/docstrings.py
	$(RUN)/python tools/prose.py README.md CONTRIBUTING.md SECURITY.md CODE_OF_CONDUCT.md docs examples src

check: lint  ## lint, types, core tests; for every commit
	$(RUN)/pytest -n 2 --dist worksteal $(CORE)

test: lint browser  ## what CI runs: lint, types, all tests, in a real browser too
	$(RUN)/pytest -n 2 --dist worksteal

bare:  ## the tests that need no extra, in an environment that has none
	test -x $(VENV)-bare/bin/python || $(PYTHON) -m venv $(VENV)-bare
	$(VENV)-bare/bin/python $(PIP) --constraint constraints.txt --editable . pytest hypothesis
	$(VENV)-bare/bin/python -m pytest --without-extras

lowest:  ## the tests with the lowest versions that pyproject.toml allows; torch as in constraints.txt
	test -x $(VENV)-lowest/bin/python || $(PYTHON) -m venv $(VENV)-lowest
	$(VENV)-lowest/bin/python tools/lowest.py --keep torch $(subst $(comma), ,$(LOW)) > $(VENV)-lowest/lowest.txt
	$(VENV)-lowest/bin/python $(PIP) --constraint $(VENV)-lowest/lowest.txt --editable '.[$(LOW)]' pytest hypothesis
	$(VENV)-lowest/bin/python -m pytest --without-extras -W ignore::DeprecationWarning  # of old packages about new ones

dist: install  ## sdist and wheel in dist/, and a check of what they hold
	$(RUN)/python $(PIP) build==1.6.1 twine==7.0.0
	rm -rf dist
	$(RUN)/python -m build --outdir dist .
	$(RUN)/python -m twine check --strict dist/*
	$(RUN)/python tools/dist.py dist

FUZZ_MINUTES ?= 10

fuzz: install  ## drawn inputs that no other run has seen: rules, files, replies; FUZZ_MINUTES=10
	$(RUN)/python tests/fuzz.py $(FUZZ_MINUTES) -n 2

cover: install  ## line and branch coverage of the core, at least 95 %
	$(RUN)/pytest -n 2 --dist worksteal --cov --cov-report=term --cov-fail-under=95

docs: install  ## the site of the documentation, in site/; a warning is an error
	NO_MKDOCS_2_WARNING=1 $(RUN)/mkdocs build --strict  # without --quiet, which would hide what strict counts

notebook: install  ## run the students' notebook again and keep what it shows
	$(RUN)/python tests/test_notebook.py

demo: $(RUN)/holdfast  ## the main job: seven rules under seven attacks, a table and a page; about a minute
	$(RUN)/holdfast demo demo

table: install  ## the README's table of accuracies, from the main job
	$(RUN)/holdfast demo demo && cp demo/accuracies.json results/training/demo.json
	$(RUN)/holdfast demo demo/harder --attacks harder && cp demo/harder/accuracies.json results/training/harder.json
	$(RUN)/python benchmarks/report.py

tables: install  ## the tables in README and docs, from results/
	$(RUN)/python benchmarks/report.py

paper: install  ## the paper's tables measured again; days, resumable; DATA=folder with FEMNIST and CIFAR-10
	mkdir -p paper-runs
	test -e paper-runs/archive.jsonl || cp results/paper/runs.jsonl paper-runs/archive.jsonl  # go on from there
	$(RUN)/holdfast paper run all $(if $(DATA),--folder $(DATA))
	$(RUN)/holdfast runs paper-runs --export results/paper/runs.jsonl
	$(RUN)/python benchmarks/report.py

picture: install  ## the pictures of sneak and siege in the README, of docs/left-open.md and of docs/choosing.md
	$(RUN)/holdfast picture docs/sneak-siege.svg
	$(RUN)/python benchmarks/open_pictures.py
	$(RUN)/python benchmarks/profiles.py --picture

screens: browser  ## the pictures of both pages in docs/see.md, in a real browser
	$(RUN)/python benchmarks/screens.py

certify: install  ## try to break every proved constant and certificate: 10,000 rounds and more for each rule and criterion, all honest sets; an hour
	HOLDFAST_CLOUDS=5000 $(RUN)/pytest -q -n 2 --dist worksteal tests/test_guarantees.py -k never_claims_less
	HOLDFAST_CLOUDS=500 $(RUN)/pytest -q -n 2 --dist worksteal tests/test_weights.py -k "copies or constant or Certificates"
	$(RUN)/python benchmarks/certify.py
	$(RUN)/python benchmarks/profiles.py
	$(RUN)/python benchmarks/certify_weights.py
	$(RUN)/python benchmarks/report.py

deployment: install  ## Flower's real servers on loopback, fault by fault; about a quarter of an hour
	$(RUN)/python benchmarks/deployment.py
	$(RUN)/python benchmarks/report.py

poc: install  ## NVFlare's POC mode on loopback, fault by fault; about twenty minutes
	$(RUN)/python benchmarks/nvflare_poc.py
	$(RUN)/python benchmarks/report.py

bench: install  ## speed against peers and the limit, as ratios; memory on a file of 4 GB
	$(RUN)/python -m pip install --quiet --disable-pip-version-check --no-deps byzfl==0.0.11  # the peer
	$(RUN)/python -m pip install --quiet --disable-pip-version-check --no-deps --ignore-requires-python krum==0.9.1 torchjd==0.18.0 byzpy==0.1.4
	$(RUN)/python benchmarks/kernels.py
	$(RUN)/python benchmarks/weighted_cost.py
	$(RUN)/python benchmarks/memmap.py
	$(RUN)/python benchmarks/search.py
	$(RUN)/python benchmarks/training.py
	$(RUN)/python benchmarks/cell.py
	$(RUN)/python benchmarks/flower.py
	$(RUN)/python benchmarks/lying_counts.py
	$(RUN)/python benchmarks/nvflare_cost.py
	$(RUN)/python benchmarks/hostile_cost.py
	$(RUN)/python benchmarks/sharded.py
	$(RUN)/python benchmarks/ddp.py
	$(RUN)/python benchmarks/fsdp.py
	$(RUN)/python benchmarks/bitflips.py
	$(RUN)/python benchmarks/lora.py
	$(RUN)/python benchmarks/coming_from.py
	$(RUN)/python -m pip install --quiet --disable-pip-version-check --no-deps --ignore-requires-python krum==0.9.1  # another
	$(RUN)/python benchmarks/check_peers.py
	$(RUN)/python benchmarks/web.py
	$(RUN)/python benchmarks/certificates.py $(if $(DATA),--data $(DATA))
	$(RUN)/python benchmarks/report.py
	$(RUN)/python benchmarks/history.py

clean:  ## remove what install, demo, dist and runs made
	rm -rf $(VENV) $(VENV)-bare $(VENV)-lowest demo dist runs paper-runs
