"""What a learner's process is given: for no lesson more than it needs."""

import importlib
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

from gapless.grading.sandbox.package import closure, write_package
from gapless.lessons import LESSONS

WORKER = "gapless.grading.sandbox.worker"
ALSO_SEEN = {"10_capstone": ("host",)}  # besides what is called so that everybody knows: stage, workload, slow


def modules_of(lesson):
    asks = [exercise.asked.ask for exercise in lesson.exercises.values() if exercise.asked.ask is not None]
    return {WORKER, *(function.__module__ for function in (lesson.names, *asks))}


@pytest.mark.parametrize("lesson_id", LESSONS)
def test_it_holds_nothing_that_tells_an_answer(lesson_id):
    lesson = LESSONS[lesson_id]
    found = closure(frozenset(modules_of(lesson)))
    rooms = {name.rpartition(".")[2] for name in found}
    assert not rooms & {"views", "judge", "gather", "served", "notebook", "grade", "ask"}
    own = lesson.names.__module__.rpartition(".")[0]
    of_lessons = {name for name in found if name.startswith("gapless.lessons.")}
    assert {name.rpartition(".")[2] for name in of_lessons} <= {"stage", "workload", "slow", *ALSO_SEEN.get(lesson_id, ())}
    # What is another lesson's stands beside the learner's code there too.
    shared = {name for other in LESSONS.values() if other is not lesson for name in closure(frozenset(modules_of(other)))}
    assert {name for name in of_lessons if name.startswith(f"{own}.")}
    assert all(name.startswith(f"{own}.") or name in shared for name in of_lessons)


@pytest.mark.slow
@pytest.mark.parametrize("lesson_id", LESSONS)
def test_what_is_written_works_by_itself(lesson_id, tmp_path):
    """In a process that has nothing else: the names are there, what is not given cannot be imported."""
    lesson = LESSONS[lesson_id]
    lesson.require_packages()
    top, = write_package(tmp_path / "package", modules_of(lesson))
    assert top == tmp_path / "package" / "gapless" and (top / "__init__.py").read_bytes() == b""
    script = (f"import sys\nsys.path.insert(0, {str(top.parent)!r})\nimport gapless\nassert gapless.__file__.startswith({str(top)!r})\n"
              f"import {WORKER}\nfrom {lesson.names.__module__} import names\nprint(sorted(names()))\n"
              "for name in ('gapless.lessons.masked_loss.lesson', 'gapless.course.judge', 'gapless.evidence.views'):\n"
              "    try:\n        __import__(name)\n    except ImportError:\n        continue\n    raise SystemExit(name)\n")
    done = subprocess.run([sys.executable, "-P", "-c", script], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(sorted(lesson.names()))


@pytest.fixture
def a_package(tmp_path, monkeypatch):
    """``ours``: a needs b (at its top), c (in a function) and a package; secret is needed by nobody."""
    texts = {"__init__": "from . import secret", "a": "import json\nfrom .b import x\ndef f():\n    from ours import c\n",
             "b": "import torch\nx = 1", "c": "from .inner import deep", "secret": "", "inner/__init__": "y = 1", "inner/deep": "z = 1"}
    for name, text in texts.items():
        path = tmp_path / "ours" / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    yield tmp_path
    for name in [name for name in sys.modules if name.partition(".")[0] == "ours"]:
        del sys.modules[name]


def test_the_closure_follows_imports_of_its_own_packages(a_package, tmp_path):
    assert closure(frozenset({"ours.a"})) == {"ours.a", "ours.b", "ours.c", "ours.inner.deep"}
    top, = write_package(tmp_path / "target", {"ours.a"})
    assert {path.relative_to(top).as_posix() for path in top.rglob("*.py")} == {
        "__init__.py", "a.py", "b.py", "c.py", "inner/__init__.py", "inner/deep.py"}
    assert Path(top / "__init__.py").read_text() == (top / "inner/__init__.py").read_text() == ""


def test_raises_when_a_module_is_not_there():
    with pytest.raises(ModuleNotFoundError, match="no_such"):
        closure(frozenset({"gapless.no_such"}))


def test_attempts_on_the_grader_name_modules_that_there_are():
    """An attempt that names a module in two pieces tries nothing once that module has moved."""
    attempts = (Path(__file__).parents[1] / "attempts").glob("test_*.py")
    named = {name for path in attempts for name in re.findall(r'"less\.([\w.]+\w)"', path.read_text(encoding="utf-8"))}
    assert "vgpu.process.state" in named
    assert not [name for name in named if importlib.util.find_spec(f"gapless.{name}") is None]
