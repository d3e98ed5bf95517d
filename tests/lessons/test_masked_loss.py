"""The slow loss against plain Python, and the fixed loss against the slow one."""

import math

import pytest
import torch

from gapless.lessons.masked_loss.functions import BACKGROUND, CLASSES, IGNORE
from gapless.lessons.masked_loss.lesson import LESSON
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
    import gapless

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
    import gapless
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
    import gapless
    from gapless.lessons import full_size

    device = gapless.device(f"vgpu:{card}")
    assert size_for(device) == Size(batch, 256)
    gapless.vgpu.memory().peak_bytes = 0
    with full_size(device, LABELS):
        step = training_step(LossParts(), device)
        step(), step()
    assert gapless.vgpu.memory().peak_bytes < batch * 256**2 * BYTES_PER_PIXEL


def test_points_are_those_the_notebook_states():
    assert LESSON.max_points == 21
