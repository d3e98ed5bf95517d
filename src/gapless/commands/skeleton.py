"""The files of a new lesson, with one small exercise that works: text to be replaced by the author's."""

from __future__ import annotations

import json

EXERCISE = "scale_down"
# The last cell of every lesson's notebook.
SUBMIT = ("# To hand in: save the notebook (Ctrl-S), then run this cell. With your name on the file: "
          'lesson.submit(name="ada")\nlesson.submit()')
POINTS = 5
# As in every lesson; make notebooks puts the repository's own address here.
COLAB = "https://colab.research.google.com/github/OWNER/NAME/blob/BRANCH/colab/"

_CODE = f'''\
def {EXERCISE}(x, limit):
    norm = x.norm()
    if norm > limit:
        x = x * (limit / norm)
    return x
'''
_SOLUTION = f'''\
def {EXERCISE}(x, limit):
    return x * (limit / x.norm()).clamp(max=1.0)
'''
_SIGNATURE = _CODE.partition("\n")[0]

_SLOW = f'''\
"""Lesson {{number}}: ``{EXERCISE}`` as handed out. Right, and slow."""

from __future__ import annotations


{_SIGNATURE}
    """``x`` (any shape, float32), scaled so that its norm is at most ``limit``."""
{_CODE.partition(chr(10))[2]}'''

_STAGE = '''\
"""Lesson {number}: what an exercise's cell finds defined.

Runs beside the learner's code: import nothing that knows an answer.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn


def names() -> dict:
    """Name → what it stands for."""
    return {{"torch": torch, "nn": nn, "F": F}}
'''

_WORKLOAD = '''\
"""Lesson {number}: the slow program."""

from __future__ import annotations

from collections.abc import Callable

import torch

ELEMENTS = 2**24  # of an update
LIMIT = 1.0


def training_step(scale_down: Callable, device: torch.device) -> Callable[[], None]:
    """A step that makes an update and applies it, scaled by ``scale_down(x, limit)``. On the virtual GPU call it inside
    ``full_size``."""
    weights, gradient = torch.zeros(ELEMENTS, device=device), torch.randn(ELEMENTS, device=device)

    def step():
        weights.sub_(scale_down(0.1 * gradient, LIMIT))

    return step
'''

_CASES = '''\
"""Lesson {number}: the inputs of ``scale_down``, small and middling, and those at full size."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from ....course.evidence import Case
from ....course.exercise import Trial
from ....course.stage import Given
from ....course.variants import CONTIGUOUS, DTYPES, covering, varied
from ..workload import ELEMENTS, LIMIT

SHAPES = ((67,), (5, 7), (1,), (4, 3), (2, 3, 5))
SCALES = {{"above the limit": 1.0, "below the limit": 0.001, "far above the limit": 100.0, "zeros": 0.0}}
LAYOUTS = (CONTIGUOUS, "transposed", "strided")


def _case(rng: np.random.Generator, name: str, shape: tuple[int, ...], limit: float, scale: float = 1.0) -> Case:
    return Case(name, {{"x": (scale * rng.normal(size=shape)).astype(np.float32)}}, {{"limit": limit}})


def scaling_cases(seed: int) -> list[Case]:
    """Every shape, scale, layout and dtype at least once."""
    rng = np.random.default_rng(seed)
    return [varied(_case(rng, pick["scale"], pick["shape"], 1.0, SCALES[pick["scale"]]), pick["dtype"], pick["layout"])
            for pick in covering(rng, scale=list(SCALES), shape=SHAPES, layout=LAYOUTS, dtype=DTYPES)]


_TRIAL_ELEMENTS = 50_000  # about


def _trial(rng: np.random.Generator, count: int) -> list[Case]:
    shape = int(rng.integers(180, 220)), int(rng.integers(225, 275))
    return [_case(rng, "an update", shape, LIMIT) for _ in range(count)]


# More than the ratio of the sizes: what is small stays in the L2 cache.
SCALING_TRIAL = Trial(_trial, slowdown=1.7 * ELEMENTS / _TRIAL_ELEMENTS)


def full_scaling(device: torch.device) -> Callable[[], Given]:
    x = torch.randn(ELEMENTS, device=device)
    return lambda: Given({{"x": x.clone()}}, {{"limit": LIMIT}})
'''

_EXERCISE = '''\
"""Lesson {number}: the exercise ``scale_down``."""

from __future__ import annotations

from ....course.checks import HostTime, Values, Waits
from ....course.exercise import Exercise, Measurement, Teaching
from ....course.mistakes import MistakesFile
from ..stage import names
from . import cases, slow

EXERCISE = Exercise(
    name="scale_down",
    slow=slow.scale_down,
    cases=cases.scaling_cases,
    measurement=Measurement(trial=cases.SCALING_TRIAL, full=cases.full_scaling, busy_ms=100.0),
    checks=(Values(2), Waits(2), HostTime(1, at_most=0.25)),
    teaching=Teaching(
        hints=(
            "Which line needs to know on the host what only the device knows? Who else could decide?",
            "A factor of 1 changes nothing. Which factor do the two cases want, and how does one formula give both?",
            "`(limit / norm).clamp(max=1.0)` is the factor, a tensor: multiply by it, always.",
        ),
        mistakes=MistakesFile(__package__, names),
    ),
)
'''

_LESSON = '''\
"""Lesson {number}: its exercises and headline."""

from __future__ import annotations

from collections.abc import Callable

import torch

from ...course.exercise import Lesson, Program
from .quick import QUICK
from .scale_down.exercise import EXERCISE as SCALE_DOWN
from .scale_down.slow import scale_down
from .stage import names
from .workload import ELEMENTS, training_step

EXERCISES = (SCALE_DOWN,)


def programs(fixed: dict[str, Callable]) -> list[Program]:
    """The step with the function as handed out, and with the learner's."""
    return [Program(name, lambda device, scale=scale: training_step(scale, device), "–")
            for name, scale in (("unoptimised", scale_down), ("no `if`", fixed["scale_down"]))]


def size_in_words(device: torch.device) -> str:
    """Such as "an update of 16.8 million numbers"."""
    return f"an update of {{ELEMENTS / 1e6:.1f}} million numbers"


LESSON = Lesson(
    id="{id}",
    title="{title}",
    exercises={{exercise.name: exercise for exercise in EXERCISES}},
    names=names,
    programs=programs,
    size=size_in_words,
    quick=QUICK,
)
'''

_MISTAKES = '''\
# What people do wrong here, the most common first. `why` is what they read; a change to the code in solution.md makes
# the mistake again: the text `replace`, which occurs there once, becomes `by`.

[[mistake]]
why = "It is scaled to the limit even where it lies below. A factor above 1 has to become 1."
replace = ".clamp(max=1.0)"
by = ""

[[mistake]]
why = "Each element is cut off at the limit by itself. The *norm* of all of them must be at most the limit."
replace = "x * (limit / x.norm()).clamp(max=1.0)"
by = "x.clamp(-limit, limit)"

[[mistake]]
why = "That is by the largest element. The norm is the root of the sum of squares."
replace = "x.norm()"
by = "x.abs().max()"

[[mistake]]
why = "The two sides are the wrong way round: scale what is above the limit."
replace = "x * (limit / x.norm()).clamp(max=1.0)"
by = "torch.where(x.norm() > limit, x, x * (limit / x.norm()))"
'''

_QUICK = '''\
"""Lesson {number}: quick questions."""

from __future__ import annotations

import torch

from ...course.quick import WAITS, Quick, QuickQuestions


def _setup(device: torch.device) -> dict:
    return {{"x": torch.ones(1000, device=device)}}


QUICK = QuickQuestions("Does the host wait at this line?", WAITS, _setup, (
    Quick("norm = x.norm()", "The norm stays on the device."),
    Quick("if x.norm() > 1: pass", "Python needs a yes or a no."),
    Quick("y = x * (1 / x.norm()).clamp(max=1.0)", "Nothing asks for a number."),
    Quick("print(x.norm())", "Text needs digits."),
    Quick("x.shape", "The host knows the shape."),
    Quick("x.norm().item()", "A Python number is read from the device."),
    Quick("torch.where(x.norm() > 1, x, 2 * x)", "The device chooses."),
    Quick("float(x.sum())", "A Python number is read from the device."),
    Quick("torch.zeros(10, device=device)", "It is filled on the device."),
    Quick("x[x > 0.5]", "The size of the result depends on the values."),
))
'''

_ANNOTATED = f'''\
```python
{_SOLUTION}```

- A factor of 1 changes nothing: `clamp(max=1.0)` turns the two cases into one formula.
- Say what it costs, what else is right, and which mistakes are usual.
'''

_ANSWERS = '''\
"""Lesson {number}: right and fast answers that are not what the reference solution does, and wrong ones."""

import torch


def chosen(x, limit):
    norm = x.norm()
    return torch.where(norm > limit, x * (limit / norm), x)


OTHER_ROUTES = {{
    "scale_down": [chosen, lambda x, limit: x / (x.norm() / limit).clamp(min=1.0)],
}}

WRONG = [
    ("scale_down", lambda x, limit: x, "elements differ"),
    ("scale_down", lambda x, limit: x * (limit / x.norm()), "elements differ"),
    ("scale_down", lambda x, limit: x.mul_((limit / x.norm()).clamp(max=1.0)), "overwritten its input"),
    ("scale_down", lambda x, limit: (x * (limit / x.norm()).clamp(max=1.0)).cpu(), "stay on the device"),
]
'''

_TEST = '''\
"""Lesson {number}: what is handed out against plain Python."""

import math

import pytest
import torch

from gapless.lessons.{package}.scale_down.slow import scale_down


@pytest.mark.parametrize("values, limit", [([3.0, 4.0], 1.0), ([0.3, 0.4], 1.0), ([0.0, 0.0], 1.0)])
def test_slow_function_is_the_definition(values, limit):
    norm = math.hypot(*values)
    wanted = [value * limit / norm if norm > limit else value for value in values]
    assert scale_down(torch.tensor(values), limit).tolist() == pytest.approx(wanted)
'''


def skeleton(lesson_id: str, title: str) -> dict[str, str]:
    """Path in the repository → text, of each file of the lesson. ``lesson_id``: such as ``04_data_loading``."""
    number, package = lesson_id[:2], lesson_id[3:]
    folder = f"src/gapless/lessons/{package}"
    shared = {"__init__": '"""Lesson {number}: {title}."""\n', "stage": _STAGE, "workload": _WORKLOAD, "quick": _QUICK,
              "lesson": _LESSON}
    own = {"__init__": f'"""Lesson {{number}}: the exercise ``{EXERCISE}``."""\n', "exercise": _EXERCISE, "slow": _SLOW,
           "cases": _CASES}
    files = {f"{folder}/{room}.py": text for room, text in shared.items()}
    files |= {f"{folder}/{EXERCISE}/{room}.py": text for room, text in own.items()}
    files[f"{folder}/{EXERCISE}/solution.md"] = _ANNOTATED
    files[f"{folder}/{EXERCISE}/mistakes.toml"] = _MISTAKES
    files |= {f"tests/lessons/answers/{package}.py": _ANSWERS, f"tests/lessons/test_{package}.py": _TEST}
    files = {path: text.format(number=number, package=package, id=lesson_id, title=title) for path, text in files.items()}
    return {**files, f"solutions/{lesson_id}/{lesson_id}.ipynb": _notebook(lesson_id, title)}


# -- the notebook -------------------------------------------------------------------------------------


def _notebook(lesson_id: str, title: str) -> str:
    number, package = lesson_id[:2], lesson_id[3:]
    cells = [
        _text("title", f"# Lesson {number}: {title}\n\n*The question that a learner comes with.*\n\n"
                       f"[Open in Colab]({COLAB}{lesson_id}.ipynb)\n\n"
                       "After this lesson you will be able to\n\n- say what they can do then, a line each.\n\n"
                       "| | |\n|---|---|\n| time | about 30 minutes |\n"
                       "| you should know | PyTorch tensors, a training loop |\n"
                       "| a GPU | not needed: without one the course simulates a card, and says so wherever a number is "
                       f"simulated |\n| points | {POINTS}, in one exercise |\n\nWhere the story is from, with a link."),
        _text("how", "**How to work.** Run the cells from the top. An exercise's cell begins with the line `# "
                     "exercise: NAME`. Keep that line and the function's name. Change the rest as you like. The check "
                     "runs that cell alone, so put everything it needs inside. `torch`, `nn` and `F` are already "
                     "there."),
        _code("setup", "import inspect\n\nimport gapless\n"
                       f"from gapless.lessons.{package}.{EXERCISE}.slow import {EXERCISE}\n"
                       f"from gapless.lessons.{package}.workload import training_step\n\n"
                       f'lesson = gapless.Notebook("{lesson_id}")  # a real GPU if there is one; or say device="vgpu:a100"\n'
                       "device = lesson.device\nlesson"),
        _code("quick", "lesson.quick()"),
        _text("program", "## 1. The slow program\n\nSay what the program does, and for whom."),
        _code("program_step", f"print(inspect.getsource(training_step))\nprint(inspect.getsource({EXERCISE}))"),
        _text("measure", "## 2. Measure it, see it"),
        _code("measure_slow", f"report = lesson.look(lambda: training_step({EXERCISE}, device))"),
        _code("measure_picture", "report.show()"),
        _text("measure_question", "**Question.** What does the host wait for?\n\n<details><summary>Answer</summary>\n\n"
                                  "For the norm: the `if` needs a bool, and only the device knows it.\n\n</details>"),
        _text("ex1", f"## 3. Exercise 1: the `if` ({POINTS} points)\n\n`{EXERCISE}(x, limit)` returns `x`, scaled so that "
                     "its norm is at most `limit`. Let the device decide."),
        _code(EXERCISE, f"# exercise: {EXERCISE}\n{_CODE}### BEGIN SOLUTION\n\n\n{_SOLUTION}### END SOLUTION",
              _nbgrader(EXERCISE, grade=False)),
        _code(f"check_{EXERCISE}", f"lesson.check({EXERCISE})", _nbgrader(f"check_{EXERCISE}", grade=True)),
        _code(f"hint_{EXERCISE}", f'# lesson.hint("{EXERCISE}")  # take the first # away for a hint; run again for the next '
                                  "(there are three)"),
        _code("ex1_look", f"report = lesson.look(lambda: training_step({EXERCISE}, device))"),
        _text("summary", "## 4. What you found"),
        _code("headline", f'lesson.headline({{"{EXERCISE}": {EXERCISE}}})'),
        _text("summary_text", "Say what the table means.\n\n## 5. When not to follow this lesson\n\n"
                              "- Say when the advice is wrong.\n\n## 6. Recap\n\nThree to five lines.\n\n## Cheat sheet\n\n"
                              "| you see | because | instead |\n|---|---|---|\n"
                              "| a wait at an `if` | Python needs a bool | `torch.where`, `clamp` |\n\n"
                              "## In your own repository\n\nThree to five steps, with commands.\n\n"
                              "## Further reading\n\n- Links.\n\nYour points so far:"),
        _code("score", "print(lesson.score())"),
        _code("submit", SUBMIT),
    ]
    kernel = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
    metadata = {"gapless": {"lesson": lesson_id}, "kernelspec": kernel, "language_info": {"name": "python"}}
    return json.dumps({"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}, indent=1,
                      ensure_ascii=False) + "\n"


def _text(cell_id: str, source: str) -> dict:
    return {"cell_type": "markdown", "id": cell_id, "metadata": {}, "source": source.splitlines(keepends=True)}


def _code(cell_id: str, source: str, metadata: dict | None = None) -> dict:
    return {"cell_type": "code", "execution_count": None, "id": cell_id, "metadata": metadata or {}, "outputs": [],
            "source": source.splitlines(keepends=True)}


def _nbgrader(cell_id: str, *, grade: bool) -> dict:
    """The metadata of a learner's cell, or of the check below it."""
    found = {"grade": grade, "grade_id": cell_id, "locked": grade, "schema_version": 3, "solution": not grade, "task": False}
    return {"nbgrader": {**found, "points": POINTS} if grade else found}
