# Everything a newcomer, a learner and an instructor needs. Needs Python 3.11 or newer and make; nothing else.
# Two sets of packages: what demo and lab need, and on top of it what tests and authors need (.installed-dev).

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export PATH := $(CURDIR)/$(BIN):$(PATH)
# pip compiles nothing here, which would take as long as the rest: Python does, what it imports, and keeps it.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo lab dev test test-all notebooks site records cards conformance programs lint clean

demo: $(VENV)/.installed  ## measure lesson 02 and grade it, on the best device there is
	gapless demo

lab: $(VENV)/.installed  ## open the lessons in JupyterLab, at their index
	gapless lab

dev: $(VENV)/.installed-dev  ## install what tests and authors need

PYTEST := pytest -n logical --dist loadgroup --no-loadscope-reorder

test: $(VENV)/.installed-dev  ## the tests, but for the slow ones
	$(PYTEST) -m "not slow"

test-all: test  ## all tests
	$(PYTEST) -m slow

notebooks: $(VENV)/.installed  ## regenerate notebooks/ from solutions/, and colab/ and autograde/; write the repository's address
	python -m gapless.grading.notebooks.release

site: $(VENV)/.installed-dev  ## build the site into build/site, and run the lessons' demonstrations for it (some five minutes)
	sphinx-build -E -W --keep-going -j auto -c docs -d build/doctrees . build/site

records: $(VENV)/.installed-dev  ## simulate the lessons' headlines anew, predict what others measured, and write the tables
	python docs/headlines.py
	python docs/validation.py

cards: $(VENV)/.installed-dev  ## fit the kernel models to the measured times again (some twenty minutes)
	gapless fit

conformance: $(VENV)/.installed-dev  ## PyTorch's whole operator database against the virtual GPU, in every mode (some six minutes)
	python -m tests.conformance

programs: $(VENV)/.installed-dev  ## programs as others write them, on the virtual GPU against the CPU (some ten minutes; needs '.[programs]')
	python -m tests.programs --write

lint: $(VENV)/.installed-dev  ## the linter and the type checker
	ruff check src tests benchmarks docs
	mypy

$(VENV)/.installed: pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(0 if v >= (3, 11) else "Python 3.11 or newer is needed, this is %d.%d: say make PYTHON=python3.11" % v[:2])'
	$(PYTHON) -m venv $(VENV)
	@echo "Installing: a few GB with PyTorch's CUDA libraries, some minutes on a fast line …"
	python -m pip install --upgrade pip
	python -m pip install --no-compile --editable '.[lab,grading]'
	touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	python -m pip install --no-compile --editable '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) demo-output
