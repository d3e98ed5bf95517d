"""An error in any pass reaches the program as itself: the process does not end, no SystemError appears."""

import gc
import threading

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from gapless import vgpu
from gapless.vgpu.ordering import backward_errors

TEXT = "shapes cannot be multiplied"


class BadBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad @ grad


class BadForward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x @ x

    @staticmethod
    def backward(ctx, grad):
        return grad


@pytest.fixture
def x(device):
    return torch.ones(2, 3, device=device, requires_grad=True)


def hooked(x):
    y = x * 2
    if y.requires_grad:  # a checkpoint's first pass has no gradients
        y.register_hook(lambda grad: grad @ grad)
    return y


def second_derivative(x):
    gradient, = torch.autograd.grad((x**3).sum(), x, create_graph=True)
    gradient.register_hook(lambda grad: grad @ grad)
    return gradient


WAYS = {
    "a function's backward": lambda x: BadBackward.apply(x).sum().backward(),
    "a function's forward": lambda x: BadForward.apply(x),
    "a hook": lambda x: hooked(x).sum().backward(),
    "autograd.grad": lambda x: torch.autograd.grad(hooked(x).sum(), x),
    "the second backward": lambda x: second_derivative(x).sum().backward(),
    "autograd.grad of a gradient": lambda x: torch.autograd.grad(second_derivative(x).sum(), x),
    "a checkpoint": lambda x: checkpoint(hooked, x, use_reentrant=False).sum().backward(),
    "a reentrant checkpoint": lambda x: checkpoint(hooked, x, use_reentrant=True).sum().backward(),
    "a composite operator": lambda x: torch.nn.functional.scaled_dot_product_attention(x, x[:, :2], x),
    "the jacobian": lambda x: torch.autograd.functional.jacobian(lambda x: hooked(x).sum(), x),
    "func.grad": lambda x: torch.func.grad(lambda x: (x @ x).sum())(x.detach()),
    "vmap": lambda x: torch.vmap(lambda row: row @ torch.ones(7, 7, device=x.device))(x.detach()),
}


@pytest.mark.parametrize("way", WAYS)
def test_an_error_reaches_the_program(way, x):
    with pytest.raises(RuntimeError, match=TEXT):
        WAYS[way](x)
    assert not backward_errors._taken


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError, SystemExit])
def test_so_does_one_of_the_programs_own(error, x):
    def stop(grad):
        raise error("mine")

    y = x * 2
    y.register_hook(stop)
    with pytest.raises(error, match="mine"):
        y.sum().backward()


def test_in_another_thread(x):
    found = []

    def work():
        try:
            hooked(x).sum().backward()
        except RuntimeError as error:
            found.append(str(error))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert TEXT in found[0]


def test_an_error_that_a_hook_handles_is_forgotten(x):
    def careful(grad):
        try:
            return grad @ grad
        except RuntimeError:
            return grad

    y = x * 2
    y.register_hook(careful)
    y.sum().backward()
    assert x.grad[0, 0] == 2
    assert not backward_errors._taken


def test_backward_works_afterwards(x):
    for _ in range(3):
        with pytest.raises(RuntimeError, match=TEXT):
            hooked(x).sum().backward()
        x.grad = None
        (x * 3).sum().backward()
        assert x.grad[0, 0] == 3


def test_an_error_keeps_no_tensors(device):
    import weakref

    def run():
        big = torch.ones(2, 3, device=device, requires_grad=True)
        with pytest.raises(RuntimeError):
            hooked(big).sum().backward()
        return weakref.ref(big)

    gone = run()
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_an_error_that_is_let_go_holds_no_tensors(x, way):
    def attempt():
        large = torch.ones(300_000, device=x.device)
        try:
            WAYS[way](x)
        except RuntimeError:
            return large.nbytes
        raise AssertionError("it did not fail")

    attempt()
    gc.collect()
    gc.disable()
    try:
        before = torch.vgpu.memory_allocated()
        attempt()
        assert torch.vgpu.memory_allocated() == before
    finally:
        gc.enable()


def test_an_error_survives_whenever_garbage_is_collected(device):
    """Python 3.12 collects where a function begins, also the device guard's, and IPython's kernel has a callback in C's way."""
    def locks(phase, info):
        threading.enumerate()

    def runs_out_of_memory():
        x = torch.randn(2**30, device=device, requires_grad=True)
        loss = x.sin().sin().sin().sin().sum()  # keeps 16 of 22 GiB
        with pytest.raises(torch.OutOfMemoryError):
            loss.backward()

    before = gc.get_threshold()
    gc.callbacks.append(locks)
    try:
        with vgpu.shape_only():
            for threshold in range(1, 25):
                gc.set_threshold(threshold)
                runs_out_of_memory()
    finally:
        gc.set_threshold(*before)
        gc.callbacks.remove(locks)


class OnTheHost(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, name, scale):
        return x * scale

    @staticmethod
    def backward(ctx, grad):
        return grad, None, torch.full(grad.shape, 2.0)  # without device=


@pytest.mark.parametrize("given", [lambda x: x, lambda x: x * 3, lambda x: x.t().t()])
def test_a_gradient_that_a_function_forgot_on_the_host_is_refused(x, given):
    with pytest.raises(RuntimeError, match="OnTheHostBackward returned an invalid gradient at index 2 - expected device vgpu:0"):
        OnTheHost.apply(torch.ones_like(x), "scaled", given(x)).sum().backward()
    assert x.grad is None


def test_one_that_the_host_wants_or_nobody_is_none_of_it(x):
    OnTheHost.apply(x, None, torch.ones(2, 3, device=x.device)).sum().backward()
    host = torch.ones(2, 3, requires_grad=True)
    OnTheHost.apply(torch.ones(2, 3), None, host).sum().backward()
    assert x.grad.tolist() == [[1.0] * 3] * 2 and host.grad.tolist() == [[2.0] * 3] * 2


def test_a_gradient_to_begin_with_is_on_the_output_s_device(x):
    for output, grad in ((x.view(6), torch.ones(6)), (torch.ones(6, requires_grad=True) * 1, torch.ones(6, device=x.device))):
        with pytest.raises(RuntimeError, match="invalid gradient at index 0 - expected device"):
            output.backward(grad)
        with pytest.raises(RuntimeError, match="invalid gradient at index 0 - expected device"):
            torch.autograd.grad(output, x, grad)
    (x * 2).sum().backward(torch.tensor(3.0))  # a number is moved
    assert x.grad.tolist() == [[6.0] * 3] * 2
