"""Lesson 08: what is only in this lesson: the steps whose memory is watched, and what the headline says of them."""

import numpy as np
import pytest
import torch

from gapless.course.evidence import Case
from gapless.course.exercise import Note, Notes
from gapless.lessons import full_size
from gapless.lessons.memory import look
from gapless.lessons.memory.accumulate import slow
from gapless.lessons.memory.budget.right import right_budget
from gapless.lessons.memory.budget.stage import CLASSES, make_network, make_optimizer
from gapless.lessons.memory.largest_batch_that_fits.judged import BOUNDARY, verified
from gapless.lessons.memory.largest_batch_that_fits.look import reserved_and_allocated
from gapless.lessons.memory.largest_batch_that_fits.right import right_largest_batch
from gapless.lessons.memory.largest_batch_that_fits.stage import FOUND, Steps
from gapless.lessons.memory.stage import TokenNetwork
from gapless.lessons.memory.tied_to_the_batch import right as tied_to_the_batch_right
from gapless.lessons.memory.tied_to_the_batch import stage
from gapless.lessons.memory.tied_to_the_batch.cases import tied_cases
from gapless.lessons.memory.train_epoch.judged import FAILED, FLAT, LEFT, LOOKED, PLAIN, UNSEEN, memory_of, seen
from gapless.lessons.memory.workload import BATCH, WANTED, training
from gapless.measure.device import device as choose_device

from .answers import memory_basics, memory_savings
from .test_exercises import grade, outcomes

pytestmark = pytest.mark.slow  # what is particular to this lesson; its solution and stubs are graded in every run

KIB = 1024


@pytest.fixture
def device():
    return choose_device("vgpu:t4")


@pytest.mark.parametrize("card", ["t4", "a10g", "v100"])
def test_a_budget_without_workspaces_is_right_in_the_worst_shape(card):
    """Of all that the cases draw, on these cards: a convolution's workspace is at most 9 % of the peak."""
    device = choose_device(f"vgpu:{card}")
    options = {"network": "images", "width": 32, "depth": 4, "side": 104, "batch": 64, "optimizer": "sgd",
               "settings": {"momentum": 0.9}}
    with full_size(device):
        model, batch = make_network(options, device)
        asked = model, batch, make_optimizer(options, model), None
        right, found = right_budget(*asked), memory_basics.by_saved_tensors(*asked)
    assert 0.91 < found["peak"] / right["peak"] < 1


def test_parts_of_a_budget_by_hand(device):
    options = {"network": "table", "width": 1024, "depth": 2, "batch": 8, "optimizer": "adamw", "autocast": None}
    with full_size(device):
        model, batch = make_network(options, device)
        found = right_budget(model, batch, make_optimizer(options, model), None)
    weights = 4 * (2 * (1024 * 1024 + 1024) + 1024 * CLASSES + CLASSES)
    assert (found["parameters"], found["buffers"], found["gradients"], found["optimizer state"]) == (weights, 0, weights, 2 * weights)
    # Each layer saves what comes in (the first the batch, which is there) and the ReLU what goes out, which comes in next.
    assert found["activations"] == pytest.approx(2 * 8 * 1024 * 4, abs=16 * KIB)
    assert found["peak"] == pytest.approx(5 * weights + sum(each.nbytes for each in batch), rel=0.01)  # in Adam's step


@pytest.mark.parametrize("trained, share", [("all", 1.0), ("head", 0.0), ("last half", 0.5)])
def test_frozen_layers_have_neither_gradient_nor_state(device, trained, share):
    options = {"network": "table", "width": 512, "depth": 4, "batch": 8, "optimizer": "adam", "autocast": None, "trained": trained}
    with full_size(device):
        model, batch = make_network(options, device)
        found = right_budget(model, batch, make_optimizer(options, model), None)
    body = 4 * 4 * (512 * 512 + 512)
    assert found["gradients"] == share * body + 4 * (512 * CLASSES + CLASSES)
    assert found["optimizer state"] == 2 * found["gradients"]


def held(kinds, growth):
    """Notes of an epoch whose memory grows by so many bytes with each kind of step."""
    notes, now = [Note("begun", {}, 1000)], 1000
    for kind in kinds:
        notes.append(Note("step", {}, now))
        now += growth.get(kind, 0)
    return [*notes, Note("end", {}, now)]


@pytest.mark.parametrize("growth, said", [
    ({}, {}),
    ({"p": 20 * KIB}, {PLAIN: "20 KiB more a time", LEFT: "more than before"}),
    ({"p": 20 * KIB, "f": 70 * KIB}, {PLAIN: "20 KiB more a time", FAILED: "70 KiB more a time", LEFT: "more than before"}),
    ({"l": 300 * KIB}, {LOOKED: "300 KiB more a time", LEFT: "more than before"}),
    ({"p": 3 * KIB}, {}),
])
def test_growth_is_told_by_kind_of_step(growth, said):
    kinds = list("pppppfppplppppfpppplpppf")
    options = {"failing": [place for place, kind in enumerate(kinds) if kind == "f"], "every": 10}
    case = Case("", {"rows": [np.zeros(1)] * len(kinds)}, options)
    kinds = ["f" if place in options["failing"] else "l" if (place + 1) % 10 == 0 else "p" for place in range(len(kinds))]
    assert memory_of(case, held(kinds, growth)) == dict.fromkeys((PLAIN, LOOKED, FAILED, LEFT), FLAT) | said


def test_what_a_report_says_of_its_memory_is_not_believed():
    case = Case("", {"rows": [np.zeros(1)] * 9}, {"failing": [], "every": 100})
    answer = seen(case, {PLAIN: FLAT, "loss": 1.0}, held("p" * 9, {"p": 20 * KIB}))
    assert answer[PLAIN] == "20 KiB more a time" and answer["loss"] == 1.0


@pytest.mark.parametrize("ahead, said", [(0, FLAT), (1, FLAT), (2, FLAT), (5, UNSEEN)])
def test_batches_that_are_taken_long_before_their_steps_hide_them(ahead, said):
    case = Case("", {"rows": [np.zeros(1)] * 9}, {"failing": [], "every": 100})
    notes = [Note("begun", {}), *(Note("step", {"rows": max(0, taken - ahead)}) for taken in range(9)), Note("end", {})]
    assert memory_of(case, notes)[PLAIN] == said


@pytest.mark.parametrize("off, said", [(0, BOUNDARY), (-1, "fits too"), (1, "which does not fit")])
def test_a_batch_that_was_found_is_tried_again_on_the_judges_side(device, off, said):
    options = {"kind": "inference", "fits": 12, "most": 64, "row_mib": 100, "extra_mib": 60}
    with full_size(device):
        right = right_largest_batch(Steps(options, device).step, 64)
        answer = verified(Case("", {}, options), {FOUND: right + off}, Notes(), device)
    assert said in answer[FOUND]
    assert verified(Case("", {}, options), {FOUND: "raised ValueError"}, Notes(), device) == {FOUND: "raised ValueError"}


def test_each_call_of_a_search_tells_what_was_reserved_before_it(device):
    calls = reserved_and_allocated(right_largest_batch, device)
    largest = max(batch for batch, *_ in calls if [fits for other, fits, *_ in calls if other == batch][-1])
    assert [fits for batch, fits, *_ in calls if batch == largest] == [True, True]
    first, second = [reserved for batch, _, reserved, _ in calls if batch == largest]
    assert first < 0.1 < second  # GiB: emptied before the first, what that has left before the second


def test_a_step_takes_memory_by_the_row_and_gives_it_back(device):
    with full_size(device):
        steps = Steps({"kind": "training", "fits": 10, "most": 64, "row_mib": 50, "extra_mib": 60}, device)
        before = torch.vgpu.memory_allocated()
        steps.step(2)
        state = torch.vgpu.memory_allocated() - before  # gradients and momenta
        steps.step(4)
        assert torch.vgpu.memory_allocated() - before == state
        with pytest.raises(torch.OutOfMemoryError):
            steps.step(40)
        with pytest.raises(TypeError, match="whole number"):
            steps.step(2.0)


def test_what_is_left_for_steps_does_not_depend_on_what_is_reserved_for_tensors_that_are_gone(device):
    options, found = {"kind": "training", "fits": 10, "most": 64, "row_mib": 100, "extra_mib": 60}, []
    with full_size(device):
        for reserved in (0, 14 * KIB**3):
            torch.empty(reserved, dtype=torch.uint8, device=device)
            found.append(Steps(options, device).ballast.nbytes)
    assert found[0] == found[1] > 14 * KIB**3


def test_activations_do_not_depend_on_the_blocks_that_are_free(device):
    options = {"network": "table", "width": 2048, "depth": 6, "batch": 240, "optimizer": "sgd", "autocast": None}
    found = []
    with full_size(device):
        for odd in (0, 1):
            left = [torch.empty(2_700_000, dtype=torch.uint8, device=device) for _ in range(40 * odd)]
            del left[::2]
            model, batch = make_network(options, device)
            found.append(right_budget(model, batch, make_optimizer(options, model), None)["activations"])
    assert found[0] == found[1]


def test_the_program_runs_out_of_memory_at_the_batch_it_wants(device):
    with full_size(device):
        step = training(device)
        step(BATCH)
        with pytest.raises(torch.OutOfMemoryError):
            step(WANTED)


@pytest.mark.parametrize("name, answer, expected", [
    ("checkpointed", memory_savings.with_convolutions, {"values": "pass", "peak_bytes": "pass", "step_time": "fail"}),
    ("accumulate", memory_savings.one_backward, {"values": "pass", "peak_bytes": "fail", "syncs": "pass"}),
    ("accumulate", memory_savings.waiting, {"values": "pass", "peak_bytes": "pass", "syncs": "fail"}),
    ("train_epoch", memory_basics.epoch(seen=lambda output: output.detach().abs().mean().item()),
     {"values": "pass", "peak_bytes": "pass", "syncs": "fail"}),
    ("train_epoch", memory_basics.epoch(loss_of=torch.Tensor.item), {"values": "pass", "peak_bytes": "pass", "syncs": "fail"}),
    ("optimizer_in_backward", memory_savings.half_of_the_layers, {"values": "pass", "peak_bytes": "fail"}),
])
def test_what_is_right_and_not_good_enough_gets_the_points_for_its_values(name, answer, expected):
    assert outcomes(grade("08_memory", name, answer)) == expected


def shift(case, half):
    """How far the outputs of the first half of a batch move when the second half changes, with the same random numbers."""
    network = stage.make_network(case.options, torch.device("cpu"))
    rows = torch.randn(2 * half, *case.inputs["rows"].shape[1:], generator=torch.Generator().manual_seed(0))
    other = torch.cat([rows[:half], 5 - rows[half:]])
    seen = []
    for each in (rows, other):
        torch.manual_seed(0)
        seen.append(network(each)[:half])
    return (seen[0] - seen[1]).abs().max().item()


@pytest.mark.parametrize("case", tied_cases(3), ids=lambda case: case.name)
def test_a_network_is_tied_to_its_batch_where_one_of_its_modules_is(case):
    tied = tied_to_the_batch_right.tied_to_the_batch(stage.make_network(case.options, torch.device("cpu")), None)
    assert (shift(case, 4) > 1e-4) == bool(tied)


@pytest.mark.parametrize("parts", [2, 3, 7])
def test_gradients_in_parts_are_those_of_the_batch(parts):
    rng = torch.Generator().manual_seed(1)
    tokens, labels = (torch.randint(0, 9, (7, 4), generator=rng) for _ in range(2))
    labels[2:5, 1:] = -100
    found = []
    for function in (slow.accumulate, memory_savings.scaled_at_the_end):
        torch.manual_seed(0)
        model = TokenNetwork(9, 5, 1).double()
        loss = function(model, torch.optim.SGD(model.parameters(), lr=0.0), tokens, labels, parts)
        found.append([loss.item(), *(parameter.grad.norm().item() for parameter in model.parameters()
                                     if parameter.grad is not None)])
    assert found[0] == pytest.approx(found[1])


def test_the_first_blocks_cheap_layers_keep_what_the_table_says():
    """Of 64×3×64×64 images with 256 channels: the convolution's output, the norm's, a mask, dropout's output."""
    table = look.layer_costs(choose_device("vgpu:a10g"))
    kept = {line.split()[0]: line.split()[1] for line in table.splitlines()[2:]}
    large = 64 * 256 * 64 * 64 * 4 // 2**20
    assert kept == {"conv": "3", "norm": str(large), "GELU": str(large), "drop": str(large // 4), "resize": str(large)}


def test_batch_norm_alone_makes_parts_another_computation():
    off = {line[:32].strip(): float(line[32:].split()[0]) for line in look.norm_in_parts(torch.device("cpu")).splitlines()[1:]}
    assert off.pop("BatchNorm1d") > 1 and set(off.values()) == {0.0}
