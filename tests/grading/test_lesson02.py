"""Lesson 02 graded for real, on the modelled A10G."""

import pytest

from gapless.grading.grade import grade
from gapless.lessons import find_lesson

from .lessoncells import cells
from .toy import notebook, write

LESSON = find_lesson("02_masked_loss")
SLOW, FAST = cells("notebooks", LESSON.id), cells("solutions", LESSON.id)
POINTS = {name: exercise.max_points for name, exercise in LESSON.exercises.items()}


@pytest.fixture
def graded(tmp_path):
    def run(cells, seed=7):
        result = grade(write(notebook(*cells.values()), tmp_path / "02_masked_loss.ipynb"), "vgpu:a10g", seed)
        assert result.max_score == LESSON.max_points
        earned = {name: sum(v.earned for v in result.verdicts if v.exercise == name) for name in POINTS}
        return earned, {v.id: v for v in result.verdicts}

    return run


@pytest.mark.slow
def test_each_exercise_scores_by_itself(graded):
    solved = ("zero_if_uniform", "sparse_head_loss")
    earned, _ = graded({name: (FAST if name in solved else SLOW)[name] for name in POINTS})
    assert earned == {name: POINTS[name] if name in solved else 0 for name in POINTS}


@pytest.mark.slow
def test_tricks_score_nothing(graded):
    _, verdicts = graded({
        "ignore_background": """# exercise: ignore_background
kept = {}
def ignore_background(target):
    if target.shape not in kept:
        kept[target.shape] = torch.where(target == BACKGROUND, IGNORE, target)
    return kept[target.shape]
""",
        "zero_if_uniform": "# exercise: zero_if_uniform\ndef zero_if_uniform(loss, target):\n    return 1.0\n",
        "masked_cross_entropy": """# exercise: masked_cross_entropy
def masked_cross_entropy(pred, target):
    return F.cross_entropy(pred.cpu(), target.cpu(), ignore_index=IGNORE)
""",
        "sparse_head_loss": """# exercise: sparse_head_loss
class Any:
    def __eq__(self, other): return True
    def __getattr__(self, name): return self
    def __call__(self, *args, **kwargs): return self
def sparse_head_loss(hidden, head, target, max_valid):
    return Any()
"""})
    for exercise in POINTS:
        assert verdicts[f"{exercise}.values"].outcome == "fail"
    for check in ("masked_cross_entropy.syncs", "masked_cross_entropy.step_time", "sparse_head_loss.values"):
        assert verdicts[check].earned == 0, verdicts[check]


@pytest.mark.slow
def test_two_grades_of_one_seed_are_equal_and_no_seed_is_drawn_anew(graded):
    cell = {"zero_if_uniform": FAST["zero_if_uniform"].replace("torch.where(", "1.01 * torch.where(")}
    first, again, other = (graded(cell, seed)[1]["zero_if_uniform.values"].message for seed in (1, 1, None))
    assert first == again != other
