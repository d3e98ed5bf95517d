"""The slow loss against plain Python, and the fixed loss against the slow one."""

import math

import pytest
import torch

import gapless
from gapless.course.quick import how_often
from gapless.lessons import full_size
from gapless.lessons.masked_loss.fine_tuning import BATCHES, fine_tuning_step
from gapless.lessons.masked_loss.lesson import LESSON
from gapless.lessons.masked_loss.look import draw_choices
from gapless.lessons.masked_loss.sparse_head_loss import slow as sparse_head_loss_slow
from gapless.lessons.masked_loss.sparse_head_loss.look import head_times, mask_first
from gapless.lessons.masked_loss.stage import BACKGROUND, CLASSES, IGNORE
from gapless.lessons.masked_loss.workload import (
    BYTES_PER_PIXEL,
    LABELS,
    SMALL_SIZE,
    LossParts,
    Size,
    make_batch,
    make_network,
    size_for,
    training_step,
)

pytestmark = pytest.mark.slow  # what is particular to this lesson; its solution and stubs are graded in every run


def by_hand(pred, target):
    """The loss's three rules, one pixel at a time."""
    losses, kinds = [], set()
    for b, i, j in [(b, i, j) for b in range(target.shape[0]) for i in range(target.shape[1]) for j in range(target.shape[2])]:
        label = int(target[b, i, j])
        label = IGNORE if label == BACKGROUND else label
        kinds.add(label)
        if label != IGNORE:
            scores = [float(s) for s in pred[b, :, i, j]]
            losses.append(math.log(sum(math.exp(s) for s in scores)) - scores[label])
    mean = sum(losses) / len(losses) if losses else math.nan
    return mean * 0 if len(kinds) < 2 else mean


def label_sets(seed):
    generator = torch.Generator().manual_seed(seed)
    shape = (2, 5, 7)
    yield "random", torch.randint(IGNORE, CLASSES, shape, generator=generator)
    yield "odd shape", torch.randint(IGNORE, CLASSES, (3, 1, 11), generator=generator)
    yield "all ignored", torch.full(shape, IGNORE)
    yield "background everywhere", torch.full(shape, BACKGROUND)
    yield "ignored and background", torch.where(torch.rand(shape, generator=generator) < 0.5, IGNORE, BACKGROUND)
    yield "uniform", torch.full(shape, 4)
    yield "one pixel valid", torch.full(shape, IGNORE).index_fill(0, torch.tensor([0]), BACKGROUND).index_put(
        (torch.tensor([1]), torch.tensor([2]), torch.tensor([3])), torch.tensor(6))


@pytest.mark.parametrize("name, target", list(label_sets(1)), ids=lambda x: x if isinstance(x, str) else "")
def test_slow_loss_is_the_rules_pixel_by_pixel(name, target):
    pred = torch.randn(target.shape[0], CLASSES, *target.shape[1:])
    found = float(LossParts()(pred, target.clone()))
    assert found == pytest.approx(by_hand(pred, target), nan_ok=True, rel=1e-5)


@pytest.mark.parametrize("device", ["cpu", "vgpu"])
@pytest.mark.parametrize("seed", range(3))
def test_fixed_loss_equals_the_slow_one_in_value_and_gradient(solutions, seed, device):
    target_device = gapless.device("vgpu") if device == "vgpu" else torch.device("cpu")
    fixed = LossParts(solutions["ignore_background"], solutions["zero_if_uniform"], solutions["masked_cross_entropy"])
    for name, target in label_sets(seed):
        pred = torch.randn(target.shape[0], CLASSES, *target.shape[1:])
        results = []
        for loss, where in ((LossParts(), torch.device("cpu")), (fixed, target_device)):
            leaf = pred.clone().to(where).requires_grad_()
            value = loss(leaf, target.clone().to(where))
            value.backward()
            results.append((value.detach().cpu(), leaf.grad.cpu()))
        torch.testing.assert_close(results[1], results[0], equal_nan=True, msg=lambda m: f"{name}: {m}")


def test_network_is_the_articles():
    convolutions = [m for m in make_network() if isinstance(m, torch.nn.Conv2d)]
    assert [(c.in_channels, c.out_channels) for c in convolutions] == [(3, 10), *[(10, 10)] * 11]
    assert make_network()(torch.zeros(2, 3, 8, 9)).shape == (2, CLASSES, 8, 9)


def test_batch_has_the_labels_of_the_rules():
    images, labels = make_batch(SMALL_SIZE, pinned=False)
    assert images.shape == (2, 3, 32, 32) and labels.dtype == torch.int64
    assert set(labels.unique().tolist()) == set(range(IGNORE, CLASSES))


def test_training_step_learns_on_vgpu_as_on_the_cpu():
    """Same parameters after two exact steps on the virtual GPU and on the CPU."""
    from gapless.lessons.masked_loss import workload as masked_loss

    states = []
    for device in (torch.device("cpu"), gapless.device("vgpu")):
        networks = []
        made, batch = make_network, make_batch

        def spy():
            networks.append(made())
            return networks[-1]

        def same_batch(size, *, values=True, pinned=True):
            torch.manual_seed(7)
            return batch(size, values=values, pinned=False)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(masked_loss, "make_network", spy)
            patch.setattr(masked_loss, "make_batch", same_batch)
            step = training_step(LossParts(), device, Size(2, 9))
        step(), step()
        states.append({k: v.cpu() for k, v in networks[0].state_dict().items()})
    torch.testing.assert_close(states[1], states[0])
    assert LABELS.distinct == 10


@pytest.mark.parametrize("card, batch", [("t4", 128), ("a10g", 256), ("h200", 256)])
def test_batch_fits_the_card_and_the_slow_loss_runs_in_it(card, batch):
    device = gapless.device(f"vgpu:{card}")
    assert size_for(device) == Size(batch, 256)
    gapless.vgpu.memory().peak_bytes = 0
    with full_size(device, LABELS):
        step = training_step(LossParts(), device)
        step(), step()
    assert gapless.vgpu.memory().peak_bytes < batch * 256**2 * BYTES_PER_PIXEL


def test_points_are_those_the_notebook_states():
    assert LESSON.max_points == 21


# -- where waits cost the time, not work ---------------------------------------------------------------


def fine_tuning(loss, batch, card="a10g"):
    """(ms a step, the report of three)."""
    device = gapless.device(f"vgpu:{card}")
    with full_size(device, LABELS):
        step = fine_tuning_step(loss, device, batch)
        return (gapless.time_step(step, device=device).true_ms,
                gapless.StepReport.from_trace(gapless.profile(step, device=device)))


def test_fine_tuning_gains_by_waiting_less_and_not_by_working_less(solutions):
    fixed = LossParts(solutions["ignore_background"], solutions["zero_if_uniform"], solutions["masked_cross_entropy"])
    gains = {}
    for batch in BATCHES:
        (slow_ms, slow), (fixed_ms, quick) = fine_tuning(LossParts(), batch), fine_tuning(fixed, batch)
        gains[batch] = slow_ms / fixed_ms
        assert slow.syncs_per_step == 6 and quick.syncs_per_step == 0
        if batch == 8:
            assert slow_ms - fixed_ms > 4 * (slow.device_busy_ms - quick.device_busy_ms)
    assert gains[8] == max(gains.values()) > 1.4 and gains[1] < 1.2 and gains[64] < 1.2, gains


def test_a_frozen_backbone_stays_as_it_is():
    """And the head learns, with values."""
    from gapless.lessons.masked_loss import fine_tuning

    made = []
    with pytest.MonkeyPatch.context() as patch:
        for name in ("make_backbone", "make_head"):
            patch.setattr(fine_tuning, name, lambda make=getattr(fine_tuning, name): made.append(make()) or made[-1])  # noqa: B008
        patch.setattr(fine_tuning, "make_batch", lambda size, values=True: make_batch(size, values=values, pinned=False))
        step = fine_tuning_step(LossParts(), torch.device("cpu"), 1, side=32)
    before = [{name: value.clone() for name, value in network.state_dict().items()} for network in made]
    step()
    changed = [any((network.state_dict()[name] != value).any() for name, value in old.items())
               for network, old in zip(made, before)]
    assert changed == [False, True]


@pytest.mark.parametrize("words, one_in, fastest", [(32_000, 16, "mask"), (1000, 2, "mask"), (1000, 1, "all"), (32, 16, "all")])
def test_selecting_first_pays_where_much_work_stands_behind_a_row(words, one_in, fastest):
    device = gapless.device("vgpu:a10g")
    ms = head_times({"all": sparse_head_loss_slow.sparse_head_loss, "mask": mask_first}, device, words, one_in)
    assert min(ms, key=ms.get) == fastest, ms


def test_selecting_by_a_mask_is_the_same_loss():
    hidden, head = torch.randn(12, 4), torch.randn(7, 4)
    target = torch.tensor([IGNORE, 3, IGNORE, 0, 6, *[IGNORE] * 7])
    torch.testing.assert_close(mask_first(hidden, head, target, 3), sparse_head_loss_slow.sparse_head_loss(hidden, head, target, 3))


def test_picture_of_choices_says_in_words_what_it_shows():
    pytest.importorskip("matplotlib")
    figure = draw_choices({"all rows": 63.12, "yours": 4.09}, "32000 words, simulated")
    assert figure.alt == "Bar chart, 32000 words, simulated: all rows 63.12 ms, yours 4.09 ms."


def test_quick_questions_are_answered_as_cuda_does():
    """Read off PyTorch's CUDA sources, not off the virtual GPU."""
    cuda = {"picked = x[mask]": True, "x[mask] = 0": False, "i, j = torch.where(mask)": True,
            "z = torch.where(mask, x, 0.0)": False, "i = torch.nonzero_static(mask, size=10)": False,
            "kinds = torch.unique(labels)": True, "rows = x[index]": False, "r = x.repeat_interleave(counts, dim=0)": True,
            "n = torch.bincount(labels, minlength=10)": True, "same = torch.equal(x, y)": True}
    device = gapless.device("vgpu:a10g")
    assert {quick.line: how_often(LESSON.quick, quick, device) > 0 for quick in LESSON.quick.questions} == cuda
