"""Lesson 05: how ``without_bias`` is asked, and what it is given.

Runs beside the learner's code: import nothing that knows an answer.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn

from ....course.plain import Unusable, hooks_on

CHANNELS, WIDTH = 3, 6  # of the images; of what comes out of a convolution
WIDE_PAIRS = 3
BUFFERS, HOOKS = "buffers", "hooks left in the model"


class ByItsOwnForward(nn.Module):
    """Parts by name, and a function that says what becomes of the images."""

    def __init__(self, forward: Callable, **parts: nn.Module):
        super().__init__()
        for name, part in parts.items():
            setattr(self, name, part)
        self._way = forward

    def forward(self, images):
        return self._way(self, images)


class HalfAndHalf(nn.Module):
    """Every second column of pixels is set to zero: what dropout does, without chance."""

    def forward(self, x):
        return x * (torch.ones_like(x).cumsum(-1) % 2)


def _conv(before: int = WIDTH, *, bias: bool = True) -> nn.Conv2d:
    return nn.Conv2d(before, WIDTH, 3, padding=1, bias=bias)


def _first() -> nn.Conv2d:
    return _conv(CHANNELS)


def _norm(**options) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(WIDTH, **options)


def _pair(dimensions: int, *, transposed: bool = False, affine: bool = True) -> nn.Sequential:
    """Two convolutions with a norm each. A transposed one has all the options there are; the second norm of one or three
    dimensions is an InstanceNorm."""
    convolution = getattr(nn, f"Conv{'Transpose' * transposed}{dimensions}d")
    norm, instance_norm = (getattr(nn, f"{kind}Norm{dimensions}d") for kind in ("Batch", "Instance"))
    options = {"stride": 2, "padding": 1, "output_padding": 1, "dilation": 2, "groups": 3} if transposed else {}
    return nn.Sequential(convolution(CHANNELS, WIDTH, 3, **options), norm(WIDTH, affine=affine), nn.ReLU(),
                         convolution(WIDTH, WIDTH, 2), (norm if dimensions == 2 else instance_norm)(WIDTH))


def _between(layer: nn.Module) -> nn.Sequential:
    """Something between a convolution and its norm, and another pair with nothing."""
    return nn.Sequential(_first(), layer, _norm(), _conv(), _norm(), nn.ReLU())


def _followed_by(norm: nn.Module) -> nn.Sequential:
    return nn.Sequential(_first(), norm, nn.ReLU(), _conv())


def _attributes() -> nn.Module:
    """Defined in another order than used."""
    return ByItsOwnForward(lambda m, x: m.b(F.relu(m.d(F.relu(m.c(m.a(x)))))), b=_norm(), a=_first(), d=_conv(), c=_norm())


def _residual() -> nn.Module:
    def forward(m, x):
        y = m.stem(x)
        return m.second_norm(m.second(F.relu(m.norm(y)))) + y

    return ByItsOwnForward(forward, stem=_first(), norm=_norm(), second=_conv(), second_norm=_norm())


def _overwritten() -> nn.Module:
    """The convolution's output is changed in place before the norm has it: the same tensor, another value."""
    def forward(m, x):
        y = m.conv(x)
        y.tanh_()
        return m.second_norm(m.second(m.norm(y)))

    return ByItsOwnForward(forward, conv=_first(), norm=_norm(), second=_conv(), second_norm=_norm())


def _also_returned() -> nn.Module:
    def forward(m, x):
        y = m.conv(x)
        return m.norm(y), y

    return ByItsOwnForward(forward, conv=_first(), norm=_norm())


def _convolution_used_twice(second: str) -> nn.Module:
    """The same convolution before one norm, and once more, before ``second``."""
    def forward(m, x):
        y = F.relu(m.norm(m.conv(m.stem(x))))
        z = m.conv(y)
        return m.other(z) if second == "another norm" else F.relu(z)

    return ByItsOwnForward(forward, stem=_first(), conv=_conv(), norm=_norm(), other=_norm())


def _norm_used_twice(between: str, *, bias: bool = True, **options) -> nn.Module:
    """The same norm behind two convolutions, or behind one and an activation."""
    def forward(m, x):
        y = F.relu(m.norm(m.conv(x)))
        return m.norm(m.second(y)) if between == "convolution" else m.norm(m.second(y).tanh())

    return ByItsOwnForward(forward, conv=_first(), second=_conv(bias=bias), norm=_norm(**options))


def _one_bias_for_two() -> nn.Module:
    model = ByItsOwnForward(lambda m, x: F.relu(m.second(m.norm(m.conv(x)))), conv=_first(), norm=_norm(), second=_conv())
    model.second.bias = model.conv.bias
    return model


def _block_called_twice() -> nn.Module:
    block = nn.Sequential(_conv(), _norm(), nn.ReLU())
    return nn.Sequential(_first(), nn.ReLU(), block, block)


def _frozen(*norms: nn.Module) -> nn.Module:
    """Its norms are in evaluation mode, as in a network that was trained before."""
    return nn.Sequential(_first(), *(layer for norm in norms for layer in (norm.eval(), nn.ReLU(), _conv())))


def _untrained(*names: str) -> nn.Module:
    """The parameters of these names get no gradient."""
    model = _followed_by(_norm())
    for name in names:
        model.get_parameter(name).requires_grad_(False)
    return model


def _read_by_two_norms() -> nn.Module:
    def forward(m, x):
        y = m.conv(x)
        return m.second(F.relu(m.norm(y) + m.other(y)))

    return ByItsOwnForward(forward, conv=_first(), norm=_norm(), other=_norm(), second=_conv())


def _never_called() -> nn.Module:
    return ByItsOwnForward(lambda m, x: m.second(F.relu(m.norm(m.conv(x)))), conv=_first(), norm=_norm(), second=_conv(),
                           spare=_conv())


def _linear() -> nn.Module:
    return ByItsOwnForward(lambda m, x: m.norm(m.linear(F.relu(m.conv(x)).mean((2, 3)))), conv=_first(),
                           linear=nn.Linear(WIDTH, WIDTH), norm=nn.BatchNorm1d(WIDTH))


def wide(count: int) -> nn.Sequential:
    """So many convolutions with a norm each, whose feature maps are wide for their channels."""
    layers: list[nn.Module] = []
    for number in range(count):
        layers += [nn.Conv2d(CHANNELS if number == 0 else 8, 8, 1), nn.BatchNorm2d(8), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(2), nn.Conv2d(8, WIDTH, 1))


# Name → what makes it. Images are 4×3 and so many dimensions more.
NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "convolution, norm, activation, in a Sequential": lambda: _pair(2),
    "one dimension": lambda: _pair(1),
    "three dimensions": lambda: _pair(3),
    "transposed, one dimension": lambda: _pair(1, transposed=True),
    "transposed, two dimensions": lambda: _pair(2, transposed=True),
    "transposed, three dimensions": lambda: _pair(3, transposed=True),
    "parts defined in another order than used": _attributes,
    "an activation between convolution and norm": lambda: _between(nn.ReLU()),
    "an activation in place between them": lambda: _between(nn.LeakyReLU(inplace=True)),
    "a function in place between them": _overwritten,
    "a mask between them, as of dropout": lambda: _between(HalfAndHalf()),
    "zeros padded between them": lambda: _between(nn.ZeroPad2d(1)),
    "a residual connection around the norm": _residual,
    "the convolution's output returned as well": _also_returned,
    "a convolution before two norms": lambda: _convolution_used_twice("another norm"),
    "a convolution before a norm, and before an activation": lambda: _convolution_used_twice("activation"),
    "a norm behind two convolutions": lambda: _norm_used_twice("convolution"),
    "a norm without running statistics behind two convolutions":
        lambda: _norm_used_twice("convolution", track_running_stats=False),
    "a norm behind a convolution, and behind an activation": lambda: _norm_used_twice("activation"),
    "a block called twice": _block_called_twice,
    "one bias for two convolutions": _one_bias_for_two,
    "a norm without weight and bias": lambda: _pair(2, affine=False),
    "a norm without running statistics": lambda: _followed_by(_norm(track_running_stats=False)),
    "a norm whose running statistics are plain averages": lambda: _followed_by(_norm(momentum=None)),
    "a norm with a momentum and an eps of its own": lambda: _followed_by(_norm(momentum=0.3, eps=0.01)),
    "a frozen norm": lambda: _frozen(_norm()),
    "frozen norms without running statistics": lambda: _frozen(
        _norm(track_running_stats=False), nn.InstanceNorm2d(WIDTH), nn.GroupNorm(WIDTH, WIDTH)),
    "a frozen InstanceNorm with running statistics": lambda: _frozen(nn.InstanceNorm2d(WIDTH, track_running_stats=True)),
    "a norm's weight and a bias that are not trained": lambda: _untrained("1.weight", "0.bias"),
    "a convolution's weight that is not trained": lambda: _untrained("0.weight"),
    "two norms that read one output": _read_by_two_norms,
    "a convolution that is never called": _never_called,
    "a norm behind a convolution with a bias and one without": lambda: _norm_used_twice("convolution", bias=False),
    "a convolution with strides, groups, dilation and circular padding": lambda: nn.Sequential(
        nn.Conv2d(CHANNELS, WIDTH, 3, stride=2, padding=2, dilation=2, groups=3, padding_mode="circular"), _norm(),
        nn.ReLU(), _conv()),
    "InstanceNorm": lambda: _followed_by(nn.InstanceNorm2d(WIDTH)),
    "InstanceNorm with weight, bias and running statistics":
        lambda: _followed_by(nn.InstanceNorm2d(WIDTH, affine=True, track_running_stats=True)),
    "GroupNorm of two groups": lambda: _followed_by(nn.GroupNorm(2, WIDTH)),
    "GroupNorm of one channel a group": lambda: _followed_by(nn.GroupNorm(WIDTH, WIDTH)),
    "LayerNorm of all channels": lambda: _followed_by(nn.LayerNorm([WIDTH, 8, 8])),
    "a linear layer before a norm": _linear,
    "a convolution without a bias": lambda: nn.Sequential(_conv(CHANNELS, bias=False), _norm(), nn.ReLU(), _conv(), _norm()),
    "no norm at all": lambda: nn.Sequential(_first(), nn.ReLU(), _conv()),
    "no convolution": lambda: nn.Sequential(nn.BatchNorm2d(CHANNELS), nn.ReLU()),
    "wide": lambda: wide(WIDE_PAIRS),
}


def make_network(name: str, seed: int, device: torch.device, dtype: torch.dtype = torch.float32) -> nn.Module:
    """One of ``NETWORKS`` in training mode, except for a frozen norm, its weights, biases and running statistics drawn from
    ``seed``. The random numbers of others stay as they are."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = NETWORKS[name]()
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if parameter.dim() == 1:
                    parameter.uniform_(0.5, 1.5)
            for name, buffer in model.named_buffers():
                if buffer.is_floating_point():
                    buffer.uniform_(0.5, 1.5)
    return model.to(device=device, dtype=dtype)


_LEARNING_RATE = 0.1


def ask_without_bias(function, given, device):
    """What the model computes in both modes, before a step and after it; its gradients, and the parameters that it has."""
    images = given.inputs["images"]
    model = make_network(given.options["network"], given.options["seed"], device, images.dtype)
    model = function(model, images)
    if not isinstance(model, nn.Module):
        raise Unusable(f"it returned a {type(model).__name__}, not the model: is there a `return`?")
    modes = {part: part.training for part in model.modules()}
    found = {"parameters": {name: list(parameter.shape) for name, parameter in model.named_parameters()},
             BUFFERS: sorted(name for name, _ in model.named_buffers()),
             HOOKS: hooks_on(model),
             "in training mode": model.training,
             "norms in evaluation mode": [name for name, part in model.named_modules()
                                          if hasattr(part, "track_running_stats") and not part.training]}
    model.eval()
    with torch.no_grad():
        found["outputs in evaluation"] = _joined(model(images))
    for part, training in modes.items():
        part.training = training
    model.zero_grad()
    yield
    outputs = _joined(model(images))
    outputs.square().mean().backward()
    yield
    found["outputs in training"] = outputs.detach()
    found["gradients"] = {name: parameter.grad.detach().clone() for name, parameter in model.named_parameters()
                          if parameter.grad is not None}
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter.sub_(parameter.grad, alpha=_LEARNING_RATE)
        found["outputs in training after a step"] = _joined(model(images))
        model.eval()
        found["outputs in evaluation after a step"] = _joined(model(images))
    return found


def _joined(outputs) -> torch.Tensor:
    """All outputs of a model, in a row."""
    return torch.cat([each.flatten() for each in (outputs if isinstance(outputs, tuple) else (outputs,))])
