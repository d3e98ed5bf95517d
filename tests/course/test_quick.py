"""Quick questions, answered by a device."""

import pytest
import torch

import gapless
from gapless.course.quick import COLLECTIVES, KERNELS, WAITS, Quick, QuickQuestions, answered, how_often, listed
from gapless.lessons import LESSONS


def setup(device):
    return {"x": torch.ones(8, device=device), "host": torch.ones(8)}


QUESTIONS = QuickQuestions("Does the host wait at this line?", WAITS, setup, (
    Quick("y = x + 1", "It is queued."), Quick("print(x.sum().item() | 1 if False else x.sum().item())", "A number is needed."),
    Quick("x.copy_(host)", "It is pageable.")))


@pytest.fixture
def device():
    return gapless.device("vgpu:a10g")


def test_the_device_answers(device):
    assert [how_often(QUESTIONS, quick, device) > 0 for quick in QUESTIONS.questions] == [False, True, True]


def test_collectives_can_be_counted_and_what_was_set_up_is_put_away(device):
    import torch.distributed as dist

    def group(device):
        dist.init_process_group("vccl", store=dist.HashStore(), rank=0, world_size=1)
        return {**setup(device), "dist": dist}

    questions = QuickQuestions("Does it communicate?", COLLECTIVES, group, (
        Quick("dist.all_reduce(x); dist.broadcast(x, 0)", ""), Quick("x.sum().item()", "")), put_away=dist.destroy_process_group)
    assert [how_often(questions, quick, device) for quick in questions.questions] == [2, 0]
    assert not dist.is_initialized()


def test_kernels_can_be_counted_too(device):
    questions = QuickQuestions("Does this line launch a kernel?", KERNELS, setup, (Quick("x.view(2, 4)", ""), Quick("x + 1 + 1", "")))
    assert [how_often(questions, quick, device) for quick in questions.questions] == [0, 2]


def test_answers_stand_beside_the_devices(device, capsys):
    text = answered(QUESTIONS, "n y n", device)
    assert "You have 2 of 3." in text and text.count("✓") == 2 and text.count("✗") == 1 and "It is queued." in text
    assert "\\|" in text and "yes, 1 wait |" in text and capsys.readouterr().out == ""
    assert "You have 0 of 3." in answered(QUESTIONS, "???", device)


@pytest.mark.parametrize("answers", ["", "yn", "ynyn", "yes", "y n 1"])
def test_answers_that_cannot_be_read_say_what_is_wanted(answers, device):
    with pytest.raises(ValueError, match="3 answers are needed: a y"):
        answered(QUESTIONS, answers, device)


def test_other_counts_are_refused():
    with pytest.raises(ValueError, match="it is one of waits, kernels, KiB"):
        QuickQuestions("?", "copies", setup, ())


def test_listed_says_how_to_answer():
    assert listed(QUESTIONS).count("\n") > 4 and 'lesson.quick("???")' in listed(QUESTIONS)


@pytest.mark.parametrize("lesson_id", [name for name in LESSONS if name != "10_capstone"])  # whose questions are findings
def test_every_lesson_has_ten_with_both_answers_among_them(lesson_id, device):
    quick = LESSONS[lesson_id].quick
    counts = [how_often(quick, each, device) for each in quick.questions]
    assert len(counts) == 10 and 3 <= sum(count != 0 for count in counts) <= 7
    assert all(each.why.endswith(".") for each in quick.questions)
    notebook = gapless.Notebook(lesson_id, device="vgpu:a10g")
    assert "You have" in notebook.quick("y" * 10) and quick.question in notebook.quick()
    with pytest.raises(ValueError, match="10 answers are needed"):
        notebook.quick("y")
