"""What PyTorch traces on the device is a function of its inputs, with no input's value left in it."""

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

import gapless

pytestmark = pytest.mark.filterwarnings("ignore:Attempted to insert a get_attr Node")


@pytest.fixture
def x():
    return torch.arange(1.0, 4.0, device=gapless.device("vgpu"))


def test_linearize_is_the_derivative_for_every_tangent(x):
    def function(x):
        return x.sin() * x + (x**2).sum()

    value, derivative = torch.func.linearize(function, x)
    assert torch.equal(value, function(x))
    for tangent in (torch.ones_like(x), torch.tensor([0.0, 2.0, -1.0], device=x.device)):
        torch.testing.assert_close(derivative(tangent), torch.func.jvp(function, (x,), (tangent,))[1])


def test_linearize_of_a_layer_by_its_weights(x):
    layer = torch.nn.Linear(3, 2).to(x.device)
    weights = dict(layer.named_parameters())

    def function(weights):
        return torch.func.functional_call(layer, weights, (x,)).tanh()

    tangents = {name: torch.randn_like(weight) for name, weight in weights.items()}
    _, derivative = torch.func.linearize(function, weights)
    torch.testing.assert_close(derivative(tangents), torch.func.jvp(function, (weights,), (tangents,))[1])


def test_a_traced_function_uses_what_it_is_given(x):
    """Tensors that the function only captures stand in the graph; operators on them and on an input are recorded."""
    weight = torch.nn.Parameter(torch.full((3,), 2.0, device=x.device))
    traced = make_fx(lambda x: (x * weight + torch.ones(3, device=x.device)).cumsum(0))(x)
    for given in (x, 10 * x):
        torch.testing.assert_close(traced(given), (given * weight + 1).cumsum(0))


def test_a_value_that_decides_is_refused(x):
    with pytest.raises(RuntimeError, match="tracing tensor"):
        make_fx(lambda x: x * x.sum().item())(x)


def test_in_a_profile_a_traced_function_uses_what_it_is_given_too(x):
    """What counts the host's operators stands above PyTorch's tracer, which has to see the device's operators."""
    def function(x):
        return x.sin().cumsum(0)

    with gapless.profiler.profile(device=x.device):
        traced = [make_fx(function, tracing_mode=mode)(x) for mode in ("real", "fake", "symbolic")]
        _, derivative = torch.func.linearize(function, x)
    for each in traced:
        torch.testing.assert_close(each(10 * x), function(10 * x))
    torch.testing.assert_close(derivative(-x), torch.func.jvp(function, (x,), (-x,))[1])
