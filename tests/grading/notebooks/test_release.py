"""What learners get is what the sources generate, and holds no solution."""

import json
from pathlib import Path

import pytest

from gapless.course.notebooks.cells import load_function
from gapless.grading.notebooks.release import ReleaseError, generate, generate_test_notebooks, run_nbgrader
from gapless.lessons import LESSONS
from gapless.marker import exercise_name

from ... import ROOT, forked


def cells(notebook: Path) -> dict[str, str]:
    found = {}
    for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "code" and exercise_name(source):
            found[exercise_name(source)] = source
    return found


def released(lesson_id: str, root: Path = ROOT / "notebooks") -> Path:
    return root / lesson_id / f"{lesson_id}.ipynb"


@pytest.fixture(scope="module")
def generated(tmp_path_factory):
    """nbgrader runs in forks; run_nbgrader itself is tried below."""
    into = tmp_path_factory.mktemp("notebooks")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gapless.grading.notebooks.release.run_nbgrader", lambda course, *arguments: forked.run(
            "-m", "nbgrader", *arguments, imports=forked.NBGRADER, cwd=course).check_returncode())
        return into, generate(ROOT, into)


def test_notebooks_are_those_that_the_solutions_generate(generated):
    into, paths = generated
    assert {path.parent.name for path in paths} == set(LESSONS)
    for path in paths:
        kept = ROOT / "notebooks" / path.relative_to(into)
        assert kept.read_text(encoding="utf-8") == path.read_text(encoding="utf-8"), \
            f"{kept.relative_to(ROOT)} is not what solutions/ generates: run make notebooks"


def test_test_notebooks_are_those_that_the_lessons_generate(tmp_path):
    for path in generate_test_notebooks(tmp_path):
        kept = ROOT / "autograde" / path.name
        assert kept.read_text(encoding="utf-8") == path.read_text(encoding="utf-8"), \
            f"{kept.relative_to(ROOT)} is not what its lesson generates: run make notebooks"
    assert {path.stem for path in (ROOT / "autograde").glob("*.ipynb")} == set(LESSONS)


@pytest.mark.parametrize("lesson_id", LESSONS)
def test_stub_only_lacks_lines_that_the_solution_has(lesson_id):
    """The teaching contract: a learner's cell is the solution's without the solution."""
    stubs, solutions = cells(released(lesson_id)), cells(released(lesson_id, ROOT / "solutions"))
    assert set(stubs) == set(solutions) == set(LESSONS[lesson_id].exercises)
    for name, stub in stubs.items():
        code = [line for line in stub.splitlines() if line.strip() and not line.startswith("#")]
        assert set(code) <= set(solutions[name].splitlines())
        assert "BEGIN SOLUTION" not in stub and stub != solutions[name]


@pytest.mark.parametrize("lesson_id, name", [(lesson.id, name) for lesson in LESSONS.values() for name in lesson.exercises])
def test_stub_defines_its_function(lesson_id, name):
    """What that function earns, nothing: tests/lessons/test_exercises.py, since the cell is the slow function's source."""
    assert callable(load_function(cells(released(lesson_id))[name], name, LESSONS[lesson_id].names()))


@pytest.mark.parametrize("folder", ["notebooks", "solutions"])
@pytest.mark.parametrize("lesson_id", LESSONS)
def test_notebooks_are_kept_without_outputs(lesson_id, folder):
    for cell in json.loads(released(lesson_id, ROOT / folder).read_text(encoding="utf-8"))["cells"]:
        assert not cell.get("outputs") and not cell.get("execution_count")


@pytest.mark.slow
def test_raises_when_nbgrader_fails(tmp_path):
    with pytest.raises(ReleaseError, match="generate_assignment nothing failed"):
        run_nbgrader(tmp_path, "generate_assignment", "nothing")
