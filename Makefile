# Everything a newcomer, a learner and an instructor needs. Needs Python 3.11 or newer and make; nothing else.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export PATH := $(CURDIR)/$(BIN):$(PATH)

.PHONY: demo test lab notebooks records cards conformance programs lint clean

demo: $(VENV)/.installed  ## measure lesson 02 and grade it, on the best device there is
	gapless demo

test: $(VENV)/.installed  ## the tests
	pytest -n auto --dist worksteal

lab: $(VENV)/.installed  ## open the lessons in JupyterLab, at their index
	jupyter lab --notebook-dir=notebooks --LabApp.default_url=/lab/tree/index.ipynb

notebooks: $(VENV)/.installed  ## regenerate notebooks/ from solutions/, and colab/ and autograde/; write the repository's address
	python -m gapless.grading.release

records: $(VENV)/.installed  ## simulate the lessons' headlines anew, predict what others measured, and write the tables
	python docs/headlines.py
	python docs/validation.py

cards: $(VENV)/.installed  ## fit the kernel models to the measured times again (some fifteen minutes)
	gapless fit

conformance: $(VENV)/.installed  ## PyTorch's whole operator database against the virtual GPU, in every mode (some six minutes)
	python -m tests.conformance

programs: $(VENV)/.installed  ## programs as others write them, on the virtual GPU against the CPU (some ten minutes; needs '.[programs]')
	python -m tests.programs --write

lint: $(VENV)/.installed
	ruff check src tests benchmarks docs

$(VENV)/.installed: pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(0 if v >= (3, 11) else "Python 3.11 or newer is needed, this is %d.%d: say make PYTHON=python3.11" % v[:2])'
	$(PYTHON) -m venv $(VENV)
	@echo "Installing: a few GB with PyTorch's CUDA libraries, some minutes on a fast line …"
	python -m pip install --upgrade pip
	python -m pip install --editable '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) demo-output
