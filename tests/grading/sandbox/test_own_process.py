"""The way on a real GPU: the learner's process asks and measures by itself. Here its device is the virtual one."""

import json

import pytest

from gapless.course.evidence import Evidence, save_plan
from gapless.course.judge import judge
from gapless.grading.sandbox.device_process import EVIDENCE
from gapless.grading.sandbox.worker import BROKEN, FINISHED, READY
from gapless.lessons import LESSONS

from ... import forked
from ..lessoncells import cells

LESSON = LESSONS["02_masked_loss"]
EXERCISE = LESSON.exercises["ignore_background"]


def run(folder, source, **changes):
    """(what it said, its plan)."""
    plan = EXERCISE.plan(3)
    save_plan(plan, folder / "plan.npz")
    (folder / "job.json").write_text(json.dumps({"lessons": "gapless.lessons", "lesson": LESSON.id, "program": LESSON.program,
                                                 "exercise": EXERCISE.name, "source": source, "device": "vgpu:a10g", "order": 1, **changes}))
    done = forked.run("-c", f"from gapless.grading.sandbox.own_process import main; main({str(folder)!r})", input="token\n")
    return [json.loads(line) for line in done.stdout.splitlines()], plan


@pytest.mark.slow
def test_it_leaves_evidence_with_the_slow_function_measured_again(tmp_path):
    said, plan = run(tmp_path, "print('hello')\n" + cells("solutions", LESSON.id)[EXERCISE.name])
    assert said == [["token", READY, ""], ["token", FINISHED, ""]]
    found = Evidence.load(tmp_path / EVIDENCE)
    assert set(found.full.runs) == set(found.trial.runs) == {"before", "learner", "after"}
    assert {verdict.outcome for verdict in judge(EXERCISE, plan, found)} == {"pass"}
    assert "hello" in (tmp_path / "output.txt").read_text()


def test_a_cell_that_cannot_be_run_is_in_the_evidence(tmp_path):
    said, _ = run(tmp_path, "def ignore_background(target:\n")
    assert said[-1] == ["token", FINISHED, ""]
    assert "does not compile" in Evidence.load(tmp_path / EVIDENCE).error


def test_what_is_broken_is_said(tmp_path):
    said, _ = run(tmp_path, "", device="gpu9000")
    (token, word, text), = said
    assert (token, word) == ("token", BROKEN) and "gpu9000" in text
