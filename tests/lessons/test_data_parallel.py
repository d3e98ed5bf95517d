"""Lesson 09: batches against definitions written out, and its pictures."""

import random

import numpy as np
import pytest
import torch

from gapless.course.answers import answer
from gapless.course.evidence import Case
from gapless.course.stage import LocalStage
from gapless.evidence.traces.trace import Trace
from gapless.lessons import find_lesson
from gapless.lessons.data_parallel import judged as shared_judged
from gapless.lessons.data_parallel import look as shared_look
from gapless.lessons.data_parallel import workload
from gapless.lessons.data_parallel.find_straggler import cases as find_straggler_cases
from gapless.lessons.data_parallel.find_straggler import mistakes
from gapless.lessons.data_parallel.find_straggler.look import made_up_run
from gapless.lessons.data_parallel.find_straggler.right import right_find_straggler
from gapless.lessons.data_parallel.log_epoch import judged as log_epoch_judged
from gapless.lessons.data_parallel.log_epoch import slow as log_epoch_slow
from gapless.lessons.data_parallel.log_epoch.look import epoch_on_four_ranks
from gapless.lessons.data_parallel.log_epoch.right import right_log_epoch
from gapless.lessons.data_parallel.main import cases
from gapless.lessons.data_parallel.main import judged as main_judged
from gapless.lessons.data_parallel.make_batches import judged as make_batches_judged
from gapless.lessons.data_parallel.make_batches import look as make_batches_look
from gapless.lessons.data_parallel.make_batches.right import right_make_batches
from gapless.lessons.data_parallel.make_batches.slow import make_batches
from gapless.lessons.data_parallel.make_batches.stage import BATCHES
from gapless.lessons.data_parallel.stage import make_network
from gapless.lessons.data_parallel.train_epoch import judged, look
from gapless.lessons.data_parallel.train_epoch.right import right_train_epoch
from gapless.lessons.data_parallel.train_epoch.slow import train_epoch
from gapless.measure.device import device as choose_device
from gapless.vgpu import find_card
from gapless.vgpu.hardware.times.interconnect import course

pytestmark = pytest.mark.slow  # what is particular to this lesson; its solution and stubs are graded in every run


@pytest.mark.parametrize("count, world, batch_size", [(33, 4, 8), (32, 4, 8), (4, 4, 8), (7, 1, 3), (100, 3, 16), (9, 8, 2)])
def test_batches_hold_each_sample_once_and_as_many_steps_for_all(count, world, batch_size):
    lengths = [random.Random(count).randrange(1, 99) for _ in range(count)]
    ranks = right_make_batches(lengths, world, batch_size, 5)
    assert sorted(place for batches in ranks for batch in batches for place in batch) == list(range(count))
    assert {len(batches) for batches in ranks} == {-(-count // (world * batch_size))}
    assert all(0 < len(batch) <= batch_size for batches in ranks for batch in batches)
    with pytest.raises(ValueError, match="some rank would have nothing"):
        right_make_batches(lengths[:world - 1], world, batch_size, 5)


def test_the_slowest_rank_of_each_step_sets_the_pace():
    """Lengths 1 to 4, two ranks: rank 0 pads to 2 and then to 4, rank 1 to 1 and then to 3."""
    steps = [[[1], [0]], [[3], [2]]]
    assert make_batches_judged.paced_tokens(steps, [1, 2, 3, 4]) == 2 + 4
    assert make_batches_judged.paced_tokens([[[0, 3], [1, 2]]], [1, 2, 3, 4]) == 2 * 4


@pytest.mark.parametrize("seed", range(5))
def test_no_way_to_deal_out_is_better_than_sorted_by_much(seed):
    """Of a thousand random ways none needs less than 85 % of what answers are held against."""
    rng = np.random.default_rng(seed)
    lengths = [int(length) for length in rng.integers(1, 60, 11)]
    least = make_batches_judged.paced_tokens(make_batches_judged.sorted_steps(lengths, 2, 3), lengths)
    for _ in range(1000):
        order = rng.permutation(11).tolist()
        steps = [[order[:3], order[3:6]], [order[6:9], order[9:]]]
        assert make_batches_judged.paced_tokens(steps, lengths) >= 0.85 * least


@pytest.mark.parametrize("change, name", [
    (lambda ranks: ranks[0].pop(), make_batches_judged.NUMBER),
    (lambda ranks: ranks[0][0].pop(), make_batches_judged.EACH),
    (lambda ranks: ranks[0][0].append(ranks[1][0][0]), make_batches_judged.EACH),
    (lambda ranks: ranks[0][0].append(10_000), make_batches_judged.EACH),
    (lambda ranks: ranks[0][0].append(-1), make_batches_judged.EACH),
    (lambda ranks: ranks[1][0].extend(ranks[0][0]) or ranks[0][0].clear(), make_batches_judged.ROWS),
    (lambda ranks: ranks[0][0].append(ranks[1][0].pop()), make_batches_judged.EVEN),
    (lambda ranks: ranks[1].reverse(), make_batches_judged.WORK),
])
def test_each_fault_is_seen(change, name):
    lengths = make_batches_look.sentences(600)
    options = {"lengths": lengths, "world": 2, "batch_size": 8, "epochs": [0]}
    ranks = right_make_batches(lengths, 2, 8, 0)
    right = make_batches_judged.seen(Case("", {}, options), {BATCHES: [ranks]}, None)
    change(ranks)
    found = make_batches_judged.seen(Case("", {}, options), {BATCHES: [ranks]}, None)
    assert found[name] != right[name]


def test_the_picture_says_what_ranks_wait_for():
    pytest.importorskip("matplotlib")
    lengths = make_batches_look.sentences(600)
    figure = make_batches_look.draw_steps({"slow": make_batches, "fast": right_make_batches}, lengths)
    slow, fast = (float(part.split("%")[0].split()[-1]) for part in figure.alt.split("; "))
    assert slow > 20 > 15 > fast
    assert "batches of each rank: 10, 10, 9, 9" in make_batches_look.epoch_in_words(make_batches, lengths)


@pytest.mark.parametrize("seed", [0, 1])
def test_who_sets_the_pace_is_whom_the_plan_has_slowed(seed):
    reasons = {"slower kernels": "compute", "a slow loader": "input", "a slow network": "network", "one rank's link": "network",
               "the links": "network",
               "a network that is just slow": "network", "kernels slower by a little": "compute"}
    for case in find_straggler_cases.naming_cases(seed):
        traces = [Trace(events) for events in case.options["traces"]]
        wanted = next((why for start, why in reasons.items() if case.name.startswith(start)), None)
        found = right_find_straggler(traces)
        assert found["why"] == wanted, case.name
        assert (found["rank"] is None) == (
            wanted is None or case.name.startswith(("a slow network", "a network that is just slow", "the links"))
            or "link is slower by less" in case.name), case.name
        assert found == mistakes.find_straggler(traces), case.name  # by another way


@pytest.mark.parametrize("rank", range(4))
def test_the_rank_that_was_slowed_is_named(rank):
    for what in ("slower kernels", "a slow loader", "one rank's link is slow"):
        assert right_find_straggler(made_up_run(what, rank))["rank"] == rank


def test_the_programs_pace_is_that_of_the_rank_with_most_to_do():
    slow, fast = workload.slowest_batches(make_batches), workload.slowest_batches(right_make_batches)
    tokens = make_batches_look.tokens_by_step(make_batches, make_batches_look.sentences())
    assert [rows * longest for rows, longest in slow] == tokens.max(1).tolist()
    assert sum(rows * longest for rows, longest in slow) > 2 * sum(rows * longest for rows, longest in fast)


def _main_case(world=2):
    case = cases.main_cases(3)[0]
    assert case.options["world"] == world
    return case


@pytest.mark.parametrize("options, words", [
    ({}, shared_judged.AS_BIG), ({"scale": 2}, shared_judged.TOO_LARGE), ({"scale": 0.5}, shared_judged.TOO_SMALL),
    ({"batches": 2}, shared_judged.LARGER_BATCHES), ({"scale": 1.3}, shared_judged.OTHERS),
])
def test_weights_tell_what_the_gradients_were(options, words):
    case = _main_case()
    count = len(case.inputs["x"])
    samples = [[place for _ in range(2) for place in range(rank, count, 2)] for rank in (0, 1)]
    assert main_judged._which(case, samples, shared_judged.big_batch(case, samples, **options)) == words


@pytest.mark.parametrize("seed", range(3))
def test_an_epochs_loss_tells_how_it_was_averaged(seed):
    """On the first two inputs no two ways to take a mean give the same, so that each gets its own cause."""
    for case in log_epoch_judged.logging_cases(seed)[:2]:
        sizes = case.options["sizes"]
        columns = case.options["columns"]
        network = make_network("plain", case.options["seed"], case.options["width"], columns)
        with torch.no_grad():
            squares = (network(torch.from_numpy(case.inputs["x"])) - torch.from_numpy(case.inputs["y"])).square().mean(1)
        of_ranks = squares.split([sum(of_rank) for of_rank in sizes])
        of_batches = squares.split([size for of_rank in sizes for size in of_rank])
        for loss, words in (
                (squares.mean(), log_epoch_judged.EXACT), (of_ranks[1].mean(), log_epoch_judged.OWN),
                (torch.stack([part.mean() for part in of_ranks]).mean(), log_epoch_judged.OF_RANKS),
                (torch.stack([part.mean() for part in of_batches]).mean(), log_epoch_judged.OF_BATCHES),
                (squares.sum() * columns, log_epoch_judged.SUMMED), (squares.mean() * 1.5, log_epoch_judged.OTHER)):
            assert log_epoch_judged._which(case, 1, loss.item()) == words


@pytest.mark.parametrize("name", ["main", "train_epoch", "wrap", "log_epoch"])
def test_what_is_wanted_is_what_is_found_of_a_right_answer(name):
    """In the same order too: the first that differs is explained."""
    exercise, device = find_lesson("09_data_parallel").exercises[name], choose_device("vgpu:a10g")
    case = exercise.cases(4)[-1]
    found = answer(exercise, LocalStage(exercise.right.function, device, exercise.asked.ask), case, device).plain
    assert list(found.items()) == list(exercise.right.wanted(case).items())


def test_what_an_epochs_log_costs_is_counted():
    assert "rank 0: 41 collectives, 45 waits" in epoch_on_four_ranks(log_epoch_slow.log_epoch)
    assert "the other ranks at most: 1 collectives, 1 waits" in epoch_on_four_ranks(right_log_epoch)


def test_accumulated_means_are_those_of_the_big_batch():
    """Of whole groups: the weights do not depend on how a step's loss is taken, once it is divided by the micro-batches."""
    whole, short = judged.accumulating_cases(2)[:2]
    assert shared_judged.close(judged.trained_alone(whole), judged.trained_alone(whole, "parts", False))
    ways = [judged.trained_alone(short, *way) for way in (("group",), ("parts",), ("nothing",), ("group", False))]
    assert not any(shared_judged.close(one, other) for place, one in enumerate(ways) for other in ways[:place])


def test_dataparallels_step_is_put_together_of_its_parts():
    """Each GPU's forward pass begins when the host has called those before it; the rest once the last is done."""
    card = find_card("a10g")
    parts = shared_look.Parts(forward_host_ms=2.0, forward_ms=3.0, backward_ms=5.0, optimizer_ms=1.0, parameter_bytes=4_000_000)
    alone, three = (shared_look.put_together(parts, count, card) for count in (1, 3))
    assert alone.forwards == ((0.0, 3.0),) and alone.end == 3 + 5 + 1
    sent, summed = (course(kind, 4_000_000, (0, 0, 0), card).ns / 1e6 for kind in ("Broadcast", "Reduce"))
    assert [begin for begin, _ in three.forwards] == pytest.approx([sent, sent + 2, sent + 4])
    assert three.end == pytest.approx(sent + 4 + 3 + 5 + summed + 1)


def test_ddp_scales_where_dataparallel_does_not():
    pytest.importorskip("matplotlib")
    alt = shared_look.draw_scaling((1, 2)).alt
    own, other = (float(part.split("×")[0].split()[-1]) for part in alt.split(". ")[1].split(", "))
    assert 1 < own < 1.4 < 1.5 < other < 2


def test_the_look_counts_what_is_sent():
    slow, fast = (look.two_steps_in_words(function, {}) for function in (train_epoch, right_train_epoch))
    assert int(slow.split()[0]) >= 4 * int(fast.split()[0]) > 0
