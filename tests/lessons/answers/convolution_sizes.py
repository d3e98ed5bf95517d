"""Lesson 05, sizes for tensor cores: right answers by other routes, and wrong ones."""

import copy

import torch
from torch import nn


def eights(size):
    return (size + 7) // 8 * 8


def grown(layer, keep_inputs=False, up=eights, fill=nn.init.zeros_):
    """A new layer of the padded sizes that holds the old one's numbers in its corner."""
    if isinstance(layer, (nn.BatchNorm1d, nn.BatchNorm2d)):
        new = type(layer)(up(layer.num_features), layer.eps, layer.momentum, layer.affine, layer.track_running_stats)
    elif isinstance(layer, nn.Conv2d):
        inputs = layer.in_channels if keep_inputs else up(layer.in_channels)
        new = nn.Conv2d(inputs, up(layer.out_channels), layer.kernel_size, layer.stride, layer.padding, layer.dilation,
                        bias=layer.bias is not None, padding_mode=layer.padding_mode)
    elif isinstance(layer, nn.Linear):
        new = nn.Linear(up(layer.in_features), up(layer.out_features), bias=layer.bias is not None)
    else:
        return layer
    new = new.train(layer.training).to(next(iter(layer.state_dict().values()), torch.empty(0)))
    with torch.no_grad():
        for name, tensor in new.state_dict().items():
            old = layer.state_dict()[name]
            if tensor.dim():
                fill(tensor)
            tensor[tuple(slice(0, size) for size in old.shape)] = old
    for name, parameter in layer.named_parameters():
        new.get_parameter(name).requires_grad_(parameter.requires_grad)
    return new


class Cut(nn.Module):
    def __init__(self, network, classes):
        super().__init__()
        self.network, self.classes = network, classes

    def forward(self, images):
        return self.network(images).narrow(1, 0, self.classes)


def as_before(padded, model):
    """In the model's mode, and each layer in its own."""
    padded.training = model.training
    return padded


def new_layers(model, **changed):
    layers = [grown(layer, number == 0, **changed) for number, layer in enumerate(model)]
    return as_before(Cut(nn.Sequential(*layers), model[-1].out_features), model)


def by_state_dict(model):
    padded = copy.deepcopy(model)
    kept = model[0].in_channels
    for name, tensor in model.state_dict(keep_vars=True).items():
        if tensor.dim():
            shape = [eights(size) if place == 0 or (place == 1 and name != "0.weight") else size
                     for place, size in enumerate(tensor.shape)]
            made = tensor.new_zeros(shape)
            made[tuple(map(slice, tensor.shape))] = tensor.detach()
            number, _, kind = name.partition(".")
            layer = padded[int(number)]
            setattr(layer, kind, nn.Parameter(made, tensor.requires_grad) if kind in dict(layer.named_parameters()) else made)
    assert padded[0].weight.shape[1] == kept
    return as_before(Cut(padded, model[-1].out_features), model)


class WithColumns(nn.Linear):
    columns = None

    def forward(self, x):
        return super().forward(x)[..., :self.columns]


def last_layer_cuts(model):
    padded = new_layers(model).network
    last = padded[-1]
    last.__class__, last.columns = WithColumns, model[-1].out_features
    return as_before(padded, model)


def masks_with_zeros(model):
    padded, classes = new_layers(model).network, model[-1].out_features

    class Masked(nn.Module):
        def __init__(self):
            super().__init__()
            self.network = padded

        def forward(self, images):
            outputs = self.network(images)
            return outputs * (torch.arange(outputs.shape[1], device=images.device) < classes)

    return as_before(Masked(), model)


def fresh_layers(model):
    """New layers with their own random numbers around the old ones."""
    return new_layers(model, fill=lambda tensor: tensor)


def trains_all(model):
    return new_layers(model).requires_grad_(True)


def leaves_the_norms(model):
    return Cut(nn.Sequential(*[layer if isinstance(layer, nn.BatchNorm2d) else grown(layer, number == 0)
                               for number, layer in enumerate(model)]), model[-1].out_features)


def with_changed(model, **options):
    """The options of each layer that has them."""
    made = by_state_dict(model)
    for layer in made.modules():
        for name, value in options.items():
            if hasattr(layer, name):
                setattr(layer, name, value)
    return made


def classes_only(model):
    last = grown(model[-1], up=lambda size: eights(size) if size == model[-1].out_features else size)
    return as_before(Cut(nn.Sequential(*model[:-1], last), model[-1].out_features), model)


SIZE_ROUTES = {
    "tensor_core_sizes": [new_layers, by_state_dict, last_layer_cuts],
}

SIZE_WRONG = [
    ("tensor_core_sizes", lambda model: new_layers(model).cpu(), "unless it gets `device=`"),
    ("tensor_core_sizes", lambda model: new_layers(model).network, "The padded classes are still there"),
    ("tensor_core_sizes", masks_with_zeros, "The padded classes are still there"),
    ("tensor_core_sizes", fresh_layers, "Append zeros"),
    ("tensor_core_sizes", trains_all, "the `requires_grad` of its old one"),
    ("tensor_core_sizes", lambda model: new_layers(model).train(model.training), "A norm came back in the other mode"),
    ("tensor_core_sizes", lambda model: new_layers(model).float(), "Keep the dtype of the old parameters"),
    ("tensor_core_sizes", lambda model: with_changed(model, momentum=0.1), "another eps or momentum"),
    ("tensor_core_sizes", lambda model: with_changed(model, padding_mode="zeros"), "a dilation and circular padding"),
    ("tensor_core_sizes", leaves_the_norms, "raised"),
    ("tensor_core_sizes", lambda model: new_layers(model, fill=lambda tensor: tensor.fill_(1e-3)), "Append only zeros"),
    ("tensor_core_sizes", classes_only, "You padded only the classes"),
    ("tensor_core_sizes", lambda model: new_layers(model, up=lambda size: -(-size // 64) * 64), "multiples of 64"),
    ("tensor_core_sizes", lambda model: new_layers(model, up=lambda size: -(-size // 16) * 16), "multiples of 16"),
    ("tensor_core_sizes", lambda model: new_layers(model, up=lambda size: size + 8 - size % 8), "got 8 more"),
    ("tensor_core_sizes", lambda model: new_layers(model, up=lambda size: size + size % 2), "next multiple of 8"),
    ("tensor_core_sizes", lambda model: new_layers(model, fill=nn.init.ones_), "Append only zeros"),
    ("tensor_core_sizes", lambda model: new_layers(model).eval(), "leave the mode as it was"),
    ("tensor_core_sizes", lambda model: None, "not a network"),
    ("tensor_core_sizes", lambda model: [16, 24], "not a network"),
]
