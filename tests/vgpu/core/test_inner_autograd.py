import torch
from torch.utils._python_dispatch import TorchDispatchMode

from gapless.vgpu.core.inner_autograd import Graph


def function(x, weights):
    return x @ weights[0], (x * 2).sum(0)


def leaves(device="cpu"):
    torch.manual_seed(0)
    return [torch.randn(3, 4, device=device).requires_grad_(), torch.randn(4, 5, device=device).t().contiguous().t()]


def test_results_and_gradients_are_autograds():
    x, weight = made = leaves()
    graph = Graph(function, (x, [weight]), made)
    grads = tuple(torch.ones_like(out) for out in graph.out)
    wanted, = torch.autograd.grad(function(x, [weight]), [x], grads)
    for keep in (True, False):
        found = graph.gradients(grads, keep)
        assert torch.equal(found[0], wanted)
        assert found[1] is None


def test_a_result_without_a_gradient_plays_no_part():
    x, weight = made = leaves()
    graph = Graph(function, (x, [weight]), made)
    found = graph.gradients((None, torch.ones(4)), False)
    assert torch.equal(found[0], torch.full((3, 4), 2.0))


def test_without_values_the_forms_are_the_same_each_time():
    shapes = []
    for _ in range(2):
        x, weight = made = leaves("meta")
        graph = Graph(function, (x, [weight.requires_grad_()]), made)
        found = graph.gradients(tuple(torch.empty_like(out) for out in graph.out), False)
        shapes.append([(t.shape, t.stride(), t.dtype, t.is_meta) for t in (*graph.out, *found)])
    assert shapes[0] == shapes[1]
    x, weight = made = leaves()
    graph = Graph(function, (x, [weight.requires_grad_()]), made)
    found = graph.gradients(tuple(torch.empty_like(out) for out in graph.out), False)
    assert [(t.shape, t.stride(), t.dtype, True) for t in (*graph.out, *found)] == shapes[0]


def test_no_dispatch_mode_sees_what_it_is_made_of():
    class Mode(TorchDispatchMode):
        seen = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.seen += 1
            return func(*args, **(kwargs or {}))

    x, weight = made = leaves()
    grads = torch.ones(3, 5), torch.ones(4)
    with Mode() as mode:
        Graph(function, (x, [weight]), made).gradients(grads, False)
    assert mode.seen == 0


def test_no_hook_of_the_program_sees_what_autograd_keeps_of_it():
    x, weight = made = leaves()
    seen = []
    with torch.autograd.graph.saved_tensors_hooks(lambda kept: seen.append(kept) or kept, lambda kept: kept):
        Graph(function, (x, [weight.requires_grad_()]), made).gradients((torch.ones(3, 5), torch.ones(4)), False)
        assert not seen
        function(x, [weight])
    assert seen
