"""Lesson 10: a program, which is a folder of files, a table of causes, and sizes."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path

import numpy as np

from ...course.notebooks.cells import load_function
from ...course.notebooks.stub import YOUR_VERSION
from ...marker import joined, parts
from .cause import Cause, without
from .stage import names

ENTRY = "train"  # the function, and the file that has it
_HERE = Path(__file__).parent / "programs"
_BLANK_LINES = re.compile(r"\n{4,}")
_RELATIVE = re.compile(r"^from \.+\w* import .*\n", re.MULTILINE)


@dataclass(frozen=True)
class Program:
    """``name``: its folder's in ``programs``. ``files``: their names without ``.py``, in the order in which they are read.
    ``inputs(rng, size)``: argument name → array; ``small``, ``trial`` and ``full`` (rng) give sizes and settings as
    ``(size, settings)``: of the cases, of those that are timed with values, and of the story. ``stages``: of the headline,
    the name of each and how many of the causes are removed. ``about``: what it does, Markdown for the notebook.
    ``slowdown``: of a trial's card. ``max_peak_ratio``: the share of the slow program's memory that is enough. ``question``:
    a surprise while fixing it, with its answer, Markdown for the notebook."""

    name: str
    title: str
    files: tuple[str, ...]
    causes: tuple[Cause, ...]
    inputs: Callable[[np.random.Generator, dict], dict[str, np.ndarray]]
    small: Callable[[np.random.Generator], list[tuple[str, dict, dict]]]
    trial: Callable[[np.random.Generator], tuple[dict, dict]]
    full: tuple[dict, dict]
    stages: tuple[tuple[str, int], ...]
    about: str
    size_in_words: str
    slowdown: float
    max_peak_ratio: float
    question: str

    @property
    def passages(self) -> tuple[str, ...]:
        """What only this program's notebook says, in an order that all programs have in common."""
        return self.about, f"| 2 | a memory peak of at most {self.max_peak_ratio:g} of the slow program's |", self.question

    def text(self, file: str) -> str:
        """What is in a file of its folder, or in one that all programs share."""
        own = _HERE / self.name / file
        return (own if own.is_file() else _HERE / file).read_text(encoding="utf-8")

    @cached_property
    def slow_files(self) -> dict[str, str]:
        """File name → its text as a cell's: without a docstring of its own, and without imports of the others, as cells
        share one namespace."""
        texts = {f"{name}.py": as_cell(name, self.text(f"{name}.py")) for name in self.files}
        last = f"{ENTRY}.py"  # whose cell says which program it is
        return {**texts, last: texts[last].replace("\n", f"\n# program: {self.name}\n", 1)}

    @cached_property
    def solved_files(self) -> dict[str, str]:
        """The same without any of the causes: the model solution."""
        return without(self.slow_files, self.causes)

    def source(self, files: dict[str, str]) -> str:
        """The text of the exercise that is the program ``files``."""
        return joined(f"# exercise: {ENTRY}\n{files[f'{ENTRY}.py']}", files)

    @property
    def handed_out(self) -> str:
        """The text of the exercise as learners get it."""
        return self.source({name: text if text == self.solved_files[name] else f"{text.rstrip()}\n{YOUR_VERSION}"
                            for name, text in self.slow_files.items()})

    @property
    def released_cells(self) -> dict[str, str]:
        """File name → the text of its cell as learners get it."""
        cells = parts(self.handed_out)
        return {name: text.rstrip("\n") for name, text in cells.items()}

    def is_of(self, train: Callable) -> bool:
        """Whether ``train`` takes this program's inputs."""
        size, _ = self.full
        names = list(self.inputs(np.random.default_rng(0), {**size, "count": 1}))
        return list(inspect.signature(train).parameters)[:len(names) + 1] == [*names, "device"]

    def load(self, files: dict[str, str]) -> Callable:
        """The function of the program ``files``."""
        return load_function(self.source(files), ENTRY, names())

    @cached_property
    def slow(self) -> Callable:
        """The slow program's function, as its files in the package define it."""
        return getattr(import_module(f".programs.{self.name}.{ENTRY}", __package__), ENTRY)

    @cached_property
    def solved(self) -> Callable:
        """The model solution's function."""
        return self.load(self.solved_files)


def as_cell(name: str, text: str) -> str:
    """The text of the file ``name`` for a cell, where all files share one namespace: without imports of other files."""
    return f"# file: {name}.py\n{_BLANK_LINES.sub(chr(10) * 3, _RELATIVE.sub('', text))}"
