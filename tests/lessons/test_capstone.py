"""Lesson 10: what is only in this lesson: programs of several files, their tables of causes, and what the findings say."""

import ast
import json
import random
import re
from collections import Counter

import pytest
import torch

import gapless
from gapless import vgpu
from gapless.course.exercise import full_size
from gapless.course.gather import gather
from gapless.course.judge import judge
from gapless.course.notebooks.cells import load_function
from gapless.course.stage import LocalStage
from gapless.lessons.capstone.cause import KINDS, without
from gapless.lessons.capstone.findings.judged import (
    Facts,
    all_findings,
    borne_out,
    judge_findings,
    lines_with,
    places_of,
    traced,
)
from gapless.lessons.capstone.host import DECODE_MS, decode, measured_on
from gapless.lessons.capstone.lesson import LESSON, PROGRAMS, SHOWN
from gapless.lessons.capstone.look import look
from gapless.lessons.capstone.notebook_cells import solved_cells
from gapless.lessons.capstone.programs.nuclei.program import NUCLEI
from gapless.lessons.capstone.programs.photos.program import PHOTOS
from gapless.lessons.capstone.train.cases import full_of
from gapless.marker import exercise_name, file_name
from gapless.measure.device import device as choose_device
from gapless.measure.profile import timed_profile

from .. import ROOT
from ..parts import changed as with_parts
from .answers.capstone import changed, program
from .reference import inputs

pytestmark = pytest.mark.slow  # what is particular to this lesson; its solution and stubs are graded in every run


@pytest.mark.parametrize("each", PROGRAMS.values(), ids=PROGRAMS)
def test_a_program_is_some_files_of_about_300_lines_with_causes_of_many_lessons(each):
    lines = [line for text in each.slow_files.values() for line in text.splitlines() if line.strip()]
    assert 4 <= len(each.files) and 180 <= len(lines) <= 400
    assert len(each.causes) >= 10 and len({cause.lesson for cause in each.causes}) >= 6
    for text in each.slow_files.values():
        ast.parse(text)
        assert "lesson" not in text and "slow" not in text, "nothing is marked"


@pytest.mark.parametrize("each", PROGRAMS.values(), ids=PROGRAMS)
def test_each_cause_is_shown_by_lines_that_are_there_once_and_can_be_removed(each):
    for cause in each.causes:
        assert cause.kinds and set(cause.kinds) <= set(KINDS) and cause.lines
        for file, part in cause.lines:
            assert sum(part in line for line in each.slow_files[file].splitlines()) == 1, (cause.name, part)
    for count in range(1, len(each.causes) + 1):
        for text in without(each.slow_files, each.causes[:count]).values():
            ast.parse(text)


def graded(function, lesson=LESSON, device_name="vgpu:a10g", **changes):
    """The verdicts on ``train``, where no run is at full size: that takes long."""
    exercise, device = with_parts(lesson.exercises["train"], **{"measurement__full": None, **changes}), choose_device(device_name)
    plan, truth = inputs(LESSON.id, "train") if lesson is LESSON else (exercise.plan(3), None)
    seen = gather(exercise, LocalStage(function, device, exercise.asked.ask), plan, device, name=device_name)
    return {verdict.id.partition(".")[2]: verdict for verdict in judge(exercise, plan, seen, truth)}


def test_training_on_the_host_scores_nothing():
    on_host = program(("train.py", "    config = Config(**settings)\n", "    config, device = Config(**settings), torch.device('cpu')\n"))
    found = graded(on_host)
    assert {verdict.outcome for verdict in found.values()} == {"fail"}
    assert "launches nothing" in found["speed_up_25"].message


def test_what_is_remembered_from_an_earlier_run_is_no_answer():
    reports = {}

    def remembering(photos, masks, device, **settings):
        if photos.shape not in reports:
            reports[photos.shape] = PHOTOS.solved(photos, masks, device, **settings)
        return reports[photos.shape]

    assert graded(remembering)["values"].outcome == "fail"


def test_doing_less_at_full_size_is_found_out():
    lazy = program(("train.py", "    for _ in range(config.epochs):", "    for _ in range(1 if len(loader) > 6 else config.epochs):"))
    found = graded(lazy, measurement__full=LESSON.exercises["train"].measurement.full)
    assert {verdict.outcome for verdict in found.values()} == {"fail"}
    assert "MB go over the bus in a run, of the" in found["speed_up_25"].message


def test_workers_are_worth_their_start_where_values_are_checked_too():
    stages = dict(PHOTOS.stages)
    first, more = (graded(PHOTOS.load(without(PHOTOS.slow_files, PHOTOS.causes[:stages[name]])))
                   for name in ("without anomaly mode", "batches in time"))
    earned = [sum(verdict.earned for verdict in found.values()) for found in (first, more)]
    assert 0 < earned[0] < earned[1] and more["speed_up_25"].outcome == "pass"


def test_decoding_takes_its_time_whichever_device_it_is_told():
    device = choose_device("vgpu:a10g")
    vgpu.timeline().reset()
    with measured_on(device):
        decode(torch.zeros(1), torch.device("cpu"))
    assert vgpu.timeline().host_ns >= 1e6 * DECODE_MS
    vgpu.timeline().reset()
    decode(torch.zeros(1), torch.device("cpu"))
    assert vgpu.timeline().host_ns < 1e6 * DECODE_MS


def test_a_run_on_the_host_with_the_right_copies_beside_it_scores_nothing():
    def beside(photos, masks, device, **settings):
        for _ in range(settings["epochs"]):
            photos.to(device).add(1), masks.to(device)
        try:
            return PHOTOS.solved(photos, masks, torch.device("cpu"), **settings)
        except IndexError:  # at full size there are no values
            return {}

    found = graded(beside, measurement__full=LESSON.exercises["train"].measurement.full)
    assert {verdict.outcome for verdict in found.values()} == {"fail"}
    assert "left out, or done elsewhere" in found["speed_up_25"].message


def test_tf32_gains_nothing():
    tf32 = program(("train.py", "    config = Config(**settings)\n", """    config = Config(**settings)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
"""))
    given, device, times_ms = full_of(PHOTOS)(choose_device("vgpu:a100"))(), choose_device("vgpu:a100"), []
    for function in (PHOTOS.solved, tf32):
        with full_size(device), vgpu.default_precision():
            time, _ = timed_profile(lambda: function(*given.inputs.values(), device, **given.options["settings"]), device=device)
        times_ms.append(time.true_ms)
    assert times_ms[0] == pytest.approx(times_ms[1], rel=0.001)


def test_a_look_says_how_many_lines_it_leaves_out(capsys):
    look(SHOWN.slow, choose_device("vgpu:a10g"), lines=3, records=12, epochs=1)
    waits, kernels = capsys.readouterr().out.split(" kernels  launched at")
    for table in (waits, kernels):
        left_out, all_of_them = map(int, re.search(r"(\d+) lines more: look\(train, device, lines=(\d+)\)", table).groups())
        assert left_out == all_of_them - 3 > 0


def test_the_notebook_holds_the_program():
    cells = json.loads((ROOT / "solutions" / LESSON.id / f"{LESSON.id}.ipynb").read_text(encoding="utf-8"))["cells"]
    found = {name: text for cell in cells if cell["cell_type"] == "code"
             and (name := file_name(text := "".join(cell["source"])) or exercise_name(text))}
    assert found == solved_cells(SHOWN), "run python -m gapless.lessons.capstone.notebook_cells"


def test_what_only_one_program_says_stands_in_the_notebook_once_and_in_a_copy_is_the_others():
    cells = json.loads((ROOT / "solutions" / LESSON.id / f"{LESSON.id}.ipynb").read_text(encoding="utf-8"))["cells"]
    texts = ["".join(cell["source"]) for cell in cells]
    for passage in SHOWN.passages:
        assert sum(text.count(passage) for text in texts) == 1, passage
    assert len({each.passages[:2] for each in PROGRAMS.values()}) == len(PROGRAMS)


@pytest.mark.parametrize("each", PROGRAMS.values(), ids=PROGRAMS)
def test_the_annotated_findings_are_the_programs_own_and_all_right(each):
    text = LESSON.of([each.handed_out]).exercises["findings"].annotated_solution()
    shown, = re.findall(r"```python\n(.*?)```", text, re.S)
    listed = load_function(f"# exercise: findings\n{shown}", "findings", {})()
    assert judge_findings(each, listed, traced(each, choose_device("vgpu:a10g"), epochs=1)).balance == len(each.causes)
    assert 3 <= len(re.findall(r"^- ", text, re.M)) <= 8
    hint = LESSON.of([each.handed_out]).exercises["train"].teaching.hints[2]
    assert not any(cause.name in hint for cause in each.causes)
    assert sum(map(int, re.findall(r"(\d+) from lesson", hint))) == len(each.causes)


def test_many_kernels_at_a_line_that_only_others_make_many_count_neither_way():
    for part in ("both = area(some) + area(others) - shared", "return (boxes[..., 2]"):
        judged = judge_findings(NUCLEI, [(part, "kernels")], traced(NUCLEI, choose_device("vgpu:a10g"), epochs=1))
        assert not judged.wrong and not judged.found and "What calls it so often" in judged.void[0]
    judged = judge_findings(NUCLEI, [("size = anchors[..., 2:]", "kernels")], Facts())
    assert judged.void or "no kernels are launched there" in judged.wrong[0]


@pytest.mark.parametrize("each", PROGRAMS.values(), ids=PROGRAMS)
def test_the_annotated_solution_is_the_model_solution(each):
    text = LESSON.of([each.handed_out]).exercises["train"].annotated_solution()
    shown, = re.findall(r"```python\n(.*?)```", text, re.S)
    assert shown.strip() == each.solved_files["train.py"].partition("# program")[2].partition("\n")[2].strip()


def test_findings_are_held_against_the_trace():
    facts = Facts(waits=Counter({("train.py", 53): 3}))
    place, = lines_with({"train.py": PHOTOS.slow_files["train.py"]}, "losses.append(loss.item())")
    assert judge_findings(PHOTOS, [("losses.append(loss.item())", "wait")], Facts()).wrong
    assert judge_findings(PHOTOS, [("losses.append(loss.item())", "wait")], Facts(waits=Counter({place: 1}))).balance == 1
    assert facts.waits and not judge_findings(PHOTOS, [("value.copy_(", "kernels")], facts).found


def test_guesses_score_nothing():
    device, rng = choose_device("vgpu:a10g"), random.Random(0)
    facts = traced(PHOTOS, device, epochs=1)
    lines = [line for text in PHOTOS.slow_files.values() for line in text.splitlines() if len(line.strip()) > 8]
    balances = [judge_findings(PHOTOS, [(rng.choice(lines), rng.choice(list(KINDS))) for _ in range(count)], facts).balance
                for count in (1, 5, 20, 100) for _ in range(20)]
    assert sum(balances) <= 4 and max(balances) <= 1  # one guess in thirty is right


@pytest.mark.parametrize("each", PROGRAMS.values(), ids=PROGRAMS)
def test_findings_of_each_cause_are_borne_out_by_the_trace(each):
    facts = traced(each, choose_device("vgpu:a10g"), epochs=1)
    for cause in each.causes:
        for kind in cause.kinds:
            assert any(borne_out(each, cause, kind, place, facts) for place in places_of(each, cause)), (cause.name, kind)
    assert judge_findings(each, all_findings(each), facts).balance == len(each.causes)


@pytest.mark.parametrize("name, change, named", [
    ("letters", ("train.py", "torch.where(ended, PADDING, letters)", "letters"), "made"),
    ("nuclei", ("metrics.py", "near & ~taken", "near"), "validation"),
])
def test_the_other_programs_model_solution_keeps_its_results_and_the_slow_one_scores_nothing(name, change, named):
    each = PROGRAMS[name]
    lesson = LESSON.of([each.handed_out])
    assert lesson.program == name and lesson.max_points == LESSON.max_points
    assert {verdict.outcome for verdict in graded(each.solved, lesson).values()} == {"pass"}
    assert {verdict.outcome for verdict in graded(each.slow, lesson).values()} == {"fail"}
    assert named in graded(each.load(changed(*change, each.solved_files)), lesson)["values"].message


def test_what_is_quoted_of_several_lines_or_none_counts_neither_way():
    judged = judge_findings(PHOTOS, [("masks", "wait"), ("no such line", "wait"), ("x", "wait")], Facts())
    assert len(judged.void) == 3 and not judged.wrong


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_all_lines_of_the_profile_are_no_findings(program):
    facts = traced(program, gapless.device("vgpu:a10g"))
    lines = {name: text.splitlines() for name, text in program.slow_files.items()}

    def at(place):
        file, number = place
        return lines[file][number - 1 - (file == "train.py")]

    shown = [(at(place), "wait") for place in facts.waits] + [(at(place), "kernels") for place, count in facts.kernels.items() if count > 50]
    judged = judge_findings(program, shown, facts)
    assert len(judged.found) > 15 and not judged.wrong and judged.balance < 10
    assert judge_findings(program, all_findings(program), facts).balance == len(program.causes)


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_a_check_is_no_oracle(program):
    """What it says of a single right finding that no profile shows, it says of a wrong one too."""
    exercise = LESSON.of([program.handed_out]).exercises["findings"]
    device, plan = gapless.device("vgpu:a10g"), exercise.plan(3)
    lines = [line for source in program.slow_files.values() for line in source.splitlines() if len(line.split()) > 3]

    def said(finding) -> set[str]:
        evidence = gather(exercise, LocalStage(lambda: [finding], device, exercise.asked.ask), plan, device)
        return {verdict.message for verdict in judge(exercise, plan, evidence)}

    for line, kind in all_findings(program):
        if kind not in ("wait", "kernels"):
            judged = ((other, judge_findings(program, [(other, kind)], Facts())) for other in lines)
            wrong = next(other for other, found in judged if not found.found and not found.void)
            assert said((line, kind)) == said((wrong, kind))
