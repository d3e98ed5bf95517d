"""Every lesson graded for real, on the modelled A10G: both routes, solved and as handed out."""

import json
from pathlib import Path

import pytest
from lessoncells import cells
from toy import notebook, write

from gapless.grading.grade import grade
from gapless.grading.testnotebook import run_test_notebook
from gapless.lessons import LESSONS

REPOSITORY = Path(__file__).parents[2]


@pytest.mark.parametrize("lesson_id", LESSONS)
def test_both_routes_give_full_marks_and_the_same_result(lesson_id, tmp_path):
    lesson = LESSONS[lesson_id]
    path = write(notebook(*cells("solutions", lesson_id).values()), tmp_path / f"{lesson_id}.ipynb")
    straight = grade(path, "vgpu:a10g", 7)
    assert straight.score == straight.max_score == lesson.max_points, [v for v in straight.verdicts if v.earned < v.points]
    through, executed = run_test_notebook(REPOSITORY / "autograde" / f"{lesson_id}.ipynb", path, "vgpu:a10g", 7)
    assert through == json.loads(json.dumps(straight.to_json()))
    shown = [cell for cell in executed["cells"] if any("image/png" in o.get("data", {}) for o in cell.get("outputs", []))]
    assert len(shown) == sum(exercise.step is not None for exercise in lesson.exercises.values())


@pytest.mark.parametrize("lesson_id", LESSONS)
def test_what_is_handed_out_scores_for_being_right_and_nothing_else(lesson_id, tmp_path):
    path = write(notebook(*cells("notebooks", lesson_id).values()), tmp_path / f"{lesson_id}.ipynb")
    for verdict in grade(path, "vgpu:a10g", 7).verdicts:
        exercise = LESSONS[lesson_id].exercises[verdict.exercise]
        right = verdict.id.endswith(".values") and exercise.right is None
        assert verdict.outcome == ("pass" if right else "fail"), verdict
