"""Lesson 10: what is only in this lesson: programs of several files, their tables of causes, and what the findings say."""

import ast

import pytest

from gapless.course.gather import gather
from gapless.course.judge import Truth, judge
from gapless.course.stage import LocalStage
from gapless.lessons.capstone.cause import KINDS, without
from gapless.lessons.capstone.lesson import EXERCISES
from gapless.lessons.capstone.programs.photos.program import PHOTOS
from gapless.measure.device import device as choose_device

PROGRAMS = (PHOTOS,)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_a_program_is_some_files_of_about_300_lines_with_causes_of_many_lessons(program):
    lines = [line for text in program.slow_files.values() for line in text.splitlines() if line.strip()]
    assert 4 <= len(program.files) and 180 <= len(lines) <= 400
    assert len(program.causes) >= 10 and len({cause.lesson for cause in program.causes}) >= 6
    for text in program.slow_files.values():
        ast.parse(text)
        assert "lesson" not in text and "slow" not in text, "nothing is marked"


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_each_cause_is_shown_by_lines_that_are_there_once_and_can_be_removed(program):
    for cause in program.causes:
        assert cause.kinds and set(cause.kinds) <= set(KINDS) and cause.lines
        for file, part in cause.lines:
            assert sum(part in line for line in program.slow_files[file].splitlines()) == 1, (cause.name, part)
    for count in range(1, len(program.causes) + 1):
        for text in without(program.slow_files, program.causes[:count]).values():
            ast.parse(text)


def test_the_model_solution_passes_and_the_slow_program_scores_nothing():
    exercise, device = EXERCISES[0], choose_device("vgpu:a10g")
    plan, truth = exercise.plan(3), Truth(exercise, "vgpu:a10g")
    for function, outcome in ((PHOTOS.solved, "pass"), (PHOTOS.slow, "fail")):
        seen = gather(exercise, LocalStage(function, device, exercise.ask), plan, device, name="vgpu:a10g")
        assert {verdict.outcome for verdict in judge(exercise, plan, seen, truth)} == {outcome}
