"""Lesson 05: what is said to be right is so by values."""

import pytest
import torch

from gapless.course.gather import gather
from gapless.course.judge import judge
from gapless.course.stage import LocalStage
from gapless.lessons import find_lesson
from gapless.lessons.convolutions.lars_step.cases import resnet18_shapes
from gapless.lessons.convolutions.stage import CONVOLUTIONS
from gapless.lessons.convolutions.without_bias.right import without_bias
from gapless.lessons.convolutions.without_bias.stage import CHANNELS, NETWORKS, make_network
from gapless.measure.device import device as choose_device

from .answers.convolution_batches import lars

pytestmark = pytest.mark.slow  # what is particular to this lesson; its solution and stubs are graded in every run

CPU = torch.device("cpu")


def outputs(model, images):
    with torch.no_grad():
        found = model(images)
    return torch.cat([each.flatten() for each in (found if isinstance(found, tuple) else (found,))])


def images_for(name):
    sides = {"one dimension": (11,), "three dimensions": (5, 6, 4)}
    own = next((size for words, size in sides.items() if name.endswith(words)), (8, 8))
    return torch.randn(4, CHANNELS, *own, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("name", [name for name in NETWORKS if "never called" not in name])
def test_a_bias_goes_exactly_where_another_one_changes_nothing(name):
    """Each bias is doubled. Where it may go nothing changes, in training, nor in evaluation once the running means have come to
    what the batches have. Where it has to stay something does."""
    kept = {parameter for parameter, _ in without_bias(make_network(name, 1, CPU), None).named_parameters()}
    images = images_for(name)
    model = make_network(name, 1, CPU)
    for part, module in model.named_modules():
        if not isinstance(module, CONVOLUTIONS) or module.bias is None:
            continue
        plain, shifted = make_network(name, 1, CPU), make_network(name, 1, CPU)
        conv = shifted.get_submodule(part)
        conv.bias = torch.nn.Parameter(2 * conv.bias.detach())
        same = [outputs(plain, images), outputs(shifted, images)]
        for each in (plain, shifted):
            for _ in range(300):
                outputs(each, images)
            each.eval()
        same = torch.allclose(*same, atol=1e-4) and torch.allclose(outputs(plain, images), outputs(shifted, images), atol=1e-3)
        assert same == (f"{part}.bias" not in kept), part


def test_lars_in_a_loop_waits_for_nothing_and_is_still_too_slow():
    exercise, device = find_lesson("05_convolutions").exercises["lars_step"], choose_device("vgpu:a10g")
    plan = exercise.plan(3)
    seen = gather(exercise, LocalStage(lars(), device, exercise.asked.ask), plan, device, name="vgpu:a10g")
    outcomes = {verdict.id: verdict.outcome for verdict in judge(exercise, plan, seen)}
    assert outcomes == {"lars_step.values": "pass", "lars_step.syncs": "pass", "lars_step.step_time": "fail"}


def test_parameters_of_resnet18_are_torchvisions():
    models = pytest.importorskip("torchvision.models")
    with torch.device("meta"):
        model = models.resnet18()
    assert resnet18_shapes() == [tuple(parameter.shape) for parameter in model.parameters()]
