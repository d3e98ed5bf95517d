"""Lesson 05, ``without_bias``: right answers by other routes, and wrong ones."""

import contextlib
import copy

import torch
import torch.fx
from torch import nn
from torch.overrides import TorchFunctionMode

from gapless.lessons.convolutions.stage import CONVOLUTIONS


def subtracts_own_mean(norm):
    if isinstance(norm, nn.GroupNorm):
        return norm.num_groups == norm.num_channels
    return isinstance(norm, nn.modules.batchnorm._NormBase) and (norm.training or norm.running_mean is None)


def take_out(conv, norms):
    for norm in norms:
        if getattr(norm, "running_mean", None) is not None:
            norm.running_mean = norm.running_mean - conv.bias.detach()
    conv.bias = None


class Watch(TorchFunctionMode):
    """Each function's tensors: who made them, who takes them."""

    def __init__(self):
        super().__init__()
        self.module, self.kept, self.takers = None, [], {}

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function.__name__ not in ("__get__", "dim", "size"):
            for each in args:
                if isinstance(each, torch.Tensor):
                    self.kept.append(each)  # else another gets its id
                    self.takers.setdefault(id(each), []).append(self.module)
        return function(*args, **(kwargs or {}))


def watched_while_it_runs(model, images):
    was = {module: module.training for module in model.modules()}
    convs, norms = {}, {}
    with Watch() as watch, torch.no_grad(), contextlib.ExitStack() as hooks:
        def before(module, args):
            watch.module = module
            watch.kept += args
            if subtracts_own_mean_of[module]:
                norms.setdefault(module, []).append(id(args[0]))

        def after(module, args, output):
            watch.module = None
            watch.kept.append(output)
            if isinstance(module, CONVOLUTIONS):
                convs.setdefault(module, []).append(id(output))

        subtracts_own_mean_of = {module: subtracts_own_mean(module) for module in was}
        for module in was:
            if not list(module.children()):
                for handle in (module.register_forward_pre_hook(before), module.register_forward_hook(after)):
                    hooks.callback(handle.remove)
        model.eval()
        results = model(images)
        for result in results if isinstance(results, tuple) else (results,):
            watch.takers.setdefault(id(result), []).append(None)
        for module, mode in was.items():
            module.training = mode
    for conv, outputs in convs.items():
        takers = {module for output in outputs for module in watch.takers.get(output, [None])}
        if conv.bias is None or not takers <= set(norms):
            continue
        if any(getattr(norm, "running_mean", None) is not None and not set(norms[norm]) <= set(outputs) for norm in takers):
            continue
        take_out(conv, takers)
    return model


def in_a_copy(model, images):
    """By the traced graph of a deep copy, whose nodes are asked for their only users."""
    model = copy.deepcopy(model)
    traced = torch.fx.symbolic_trace(model)
    modules = dict(traced.named_modules(remove_duplicate=False))
    inputs = {}
    for node in traced.graph.nodes:
        if node.op == "call_module":
            inputs.setdefault(id(modules[node.target]), set()).add(node.args[0])
    by_conv = {}
    for node in traced.graph.nodes:
        if node.op == "call_module" and isinstance(modules[node.target], CONVOLUTIONS):
            by_conv.setdefault(modules[node.target], []).append(node)
    for conv, nodes in by_conv.items():
        users = [user for node in nodes for user in node.users]
        norms = {modules[user.target] for user in users if user.op == "call_module"}
        fine = users and conv.bias is not None and all(user.op == "call_module" for user in users)
        if fine and all(map(subtracts_own_mean, norms)) and all(
                getattr(norm, "running_mean", None) is None or inputs[id(norm)] <= set(nodes) for norm in norms):
            take_out(conv, norms)
    return model


def new_layers(model, images):
    """Puts another convolution in the place of each, made without a bias, with the weight of the old one."""
    biases = {module: module.bias for module in model.modules() if isinstance(module, CONVOLUTIONS)}
    traced(model, images)
    for conv, bias in biases.items():
        if bias is None or conv.bias is not None:
            continue
        parameters = ["in_channels", "out_channels", "kernel_size", "stride", "padding", "dilation", "groups", "padding_mode"]
        parameters += ["output_padding"] if conv.transposed else []
        new = type(conv)(**{name: getattr(conv, name) for name in parameters}, bias=False)
        new.weight = conv.weight
        for parent in list(model.modules()):
            for name, child in list(parent._modules.items()):
                if child is conv:
                    setattr(parent, name, new)
    return model


BIAS_ROUTES = [watched_while_it_runs, in_a_copy, new_layers]


def all_without(model, images):
    for module in model.modules():
        if isinstance(module, CONVOLUTIONS):
            module.bias = None
    return model


def neighbours(model, images):
    parts = list(model.modules())
    for conv, norm in zip(parts, parts[1:]):
        if isinstance(conv, nn.Conv2d) and isinstance(norm, nn.BatchNorm2d):
            conv.bias = None
    return model


def neighbours_mended(model, images):
    parts = list(model.modules())
    for conv, norm in zip(parts, parts[1:]):
        if isinstance(conv, CONVOLUTIONS) and subtracts_own_mean(norm) and conv.bias is not None:
            take_out(conv, [norm])
    return model


def zeros(model, images):
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, CONVOLUTIONS) and module.bias is not None:
                module.bias.zero_()
    return model


def traced(model, images, *, single=False, fold=1.0, norms=subtracts_own_mean, alone=True, every=all, kinds=CONVOLUTIONS,
           values=torch.Tensor.detach):
    """``in_a_copy`` with something left out."""
    modules = dict(model.named_modules(remove_duplicate=False))
    nodes = [node for node in torch.fx.Tracer().trace(model).nodes]
    module_of = {node: modules[node.target] if node.op == "call_module" else None for node in nodes}
    for conv in set(module_of.values()):
        own = [node for node in nodes if module_of[node] is conv]
        own = own[:1] if single else own
        users = [module_of[user] for node in own for user in node.users]
        if not isinstance(conv, kinds) or conv.bias is None or not users or not every(map(norms, users)):
            continue
        behind = [norm for norm in set(users) if getattr(norm, "running_mean", None) is not None]
        if alone and any(module_of[node] in behind and module_of[node.args[0]] is not conv for node in nodes):
            continue
        for norm in behind:
            norm.running_mean -= fold * values(conv.bias)
        conv.bias = None
    return model


def after_running(model, images):
    model(images)
    return traced(model, images)


def watched(model, images):
    for module in model.modules():
        module.register_forward_hook(lambda module, arguments, output: None)
    return traced(model, images)


def forgets_to_return(model, images):
    traced(model, images)


def other_name(model, images):
    for module in model.modules():
        if isinstance(module, CONVOLUTIONS) and module.bias is not None:
            module.offset = module.bias
            module.bias = None
    return model


def statistics_lost(model, images):
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.reset_running_stats()
    return traced(model, images)


BIAS_WRONG = [
    (lambda model, images: model, "every bias is still there, also those"),
    (all_without, "Every bias is gone"),
    (neighbours, "not the order of use"),
    (neighbours_mended, "not the order of use"),
    (zeros, "still there"),
    (lambda model, images: traced(model, images, fold=0.0), "running_mean"),
    (lambda model, images: traced(model, images, fold=-1.0), "the wrong way"),
    (lambda model, images: traced(model, images, single=True), "more than once"),
    (lambda model, images: traced(model, images, alone=False), "one running mean for both"),
    (lambda model, images: traced(model, images, every=any), "somewhere else too"),
    (lambda model, images: traced(model, images, kinds=(nn.Conv2d,)), "one and three dimensions"),
    (lambda model, images: traced(model, images, norms=lambda n: isinstance(n, nn.BatchNorm2d)), "should not be there"),
    (lambda model, images: traced(model, images, norms=lambda n: subtracts_own_mean(n) or isinstance(n, nn.GroupNorm)),
     "channels of a group"),
    (lambda model, images: traced(model, images, norms=lambda n: subtracts_own_mean(n) or isinstance(n, nn.LayerNorm)),
     "whose biases differ"),
    (lambda model, images: traced(model, images, norms=lambda n: subtracts_own_mean(n) or isinstance(n, nn.BatchNorm2d)),
     "stays in evaluation mode"),
    (lambda model, images: traced(model, images, norms=lambda n: subtracts_own_mean(n) and n.training), "in both modes"),
    (lambda model, images: traced(model, images, norms=lambda n: subtracts_own_mean(n) and not isinstance(n, nn.InstanceNorm1d | nn.InstanceNorm3d)),
     "InstanceNorms in one and three dimensions"),
    (lambda model, images: traced(model, images, values=lambda bias: bias), "Subtract the values alone"),
    (watched, "Your hooks are still in the model"),
    (after_running, "changed the running statistics"),
    (lambda model, images: traced(model, images).eval(), "evaluation mode"),
    (lambda model, images: traced(model, images).train(), "even frozen ones"),
    (forgets_to_return, "is there a `return`"),
    (other_name, "should not be there"),
    (statistics_lost, "outputs in evaluation"),
]
