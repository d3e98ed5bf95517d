"""Each entry of the table of what is not supported fails as it says, with words that help."""

import io
import multiprocessing
import os

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import nn

from gapless import vgpu
from gapless.vgpu.boundary import linked_groups


def forked_use(device):
    x = torch.ones(2, device=device)
    receive, send = multiprocessing.Pipe()
    if os.fork() == 0:
        try:
            x + 1
            send.send("no error")
        except RuntimeError as error:
            send.send(str(error))
        os._exit(0)
    os.wait()
    raise RuntimeError(receive.recv())


def padded_encoder(device):
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 1).to(device).eval()
    with torch.no_grad():
        encoder(torch.ones(2, 5, 8, device=device), src_key_padding_mask=torch.tensor([[False] * 5, [True] * 5], device=device))


def move_what_is_held(device):
    parameter = nn.Parameter(torch.ones(2, device=device))
    held = [parameter * 2, parameter.view(2, 1), parameter.expand(3, 2)]
    parameter.data = parameter.data.cpu()
    return held


def two_across_a_link(device):
    two = dist.ProcessGroup(dist.HashStore(), 0, 2).boxed()
    linked_groups.collective(None, torch.ops.c10d.alltoall_base_.default,
                             (torch.ones(2, device=device), torch.ones(2, device=device), two, [], []), {})


class Dispatching(torch.Tensor):
    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def nested_sum(device):
    mask = torch.tensor([[True] * 3, [True, False, False]], device=device)
    torch._nested_tensor_from_mask(torch.ones(2, 3, 4, device=device), mask).sum(-1)


def without_values(use):
    with vgpu.shape_only():
        use()


def other_card_while_recording(device):
    vgpu.timeline().recording = vgpu.Recording()
    try:
        vgpu.enable("a100")
    finally:
        vgpu.timeline().recording = None


def use_freed(device):
    x = ones(device)
    x.untyped_storage().resize_(0)
    x + 1


def rnn_twice(device):
    x = torch.ones(4, 1, 2, device=device, requires_grad=True)
    gradient, = torch.autograd.grad(nn.GRU(2, 3).to(device)(x)[0].sum(), x, create_graph=True)
    gradient.sum().backward()


def ones(device):
    return torch.ones(2, 2, device=device)


# Entry → ways to meet it, each with what the error says.
WAYS = {
    "sparse tensors of another layout than COO": [
        (lambda d: ones(d).to_sparse_csr(), "use .to_sparse()"), (lambda d: ones(d).to_sparse().to_sparse_csc(), "use .to_sparse()"),
        (lambda d: ones("cpu").to_sparse_csr().to(d) + 1, "SparseCsr"),
        (lambda d: torch.sparse_csr_tensor([0, 1], [0], torch.ones(1, device=d)), "has COO"),
        (lambda d: torch.sparse_csc_tensor([0, 1], [0], [1.0], (1, 1), device=d), "has COO")],
    "operators of sparse tensors that have no rule": [(lambda d: ones(d).to_sparse().clamp(0), "take .to_dense()")],
    "sparse tensors in vgpu.shape_only()": [(lambda d: without_values(lambda: ones("cpu").to_sparse().to(d)), "use a dense one"),
                                            (lambda d: without_values(lambda: ones(d).to_sparse()), "shape_only")],
    "checks of values in vgpu.shape_only()": [
        (lambda d: without_values(lambda: torch.distributions.Normal(ones(d), ones(d), validate_args=True)), "to satisfy the constraint")],
    "nested tensors of the strided layout": [
        (lambda d: torch.nested.nested_tensor([torch.ones(2)], device=d) + 1, "use layout=torch.jagged"),
        (lambda d: torch.nested.nested_tensor([torch.ones(2)]).to(d), "use layout=torch.jagged"),
        (nested_sum, "use layout=torch.jagged")],
    "nested tensors in vgpu.shape_only()": [(lambda d: without_values(lambda: padded_encoder(d)), "enable_nested_tensor=False")],
    "tensor classes with a __torch_dispatch__, made by as_subclass": [(lambda d: ones(d).as_subclass(Dispatching), "let it hold tensors")],
    "DLPack": [(lambda d: torch.from_dlpack(ones(d)), "call .cpu"), (lambda d: torch.to_dlpack(ones(d)), "call .cpu"),
               (lambda d: torch.utils.dlpack.to_dlpack(ones(d)), "call .cpu"), (lambda d: np.from_dlpack(ones(d)), "call .cpu")],
    "NumPy without a copy": [(lambda d: ones(d).numpy(), "Use Tensor.cpu()")],
    "moving the data of a tensor that a graph or other tensors hold": [(move_what_is_held, "CPUOffloadPolicy")],
    "rare collectives where the device is at the other end of a link": [(two_across_a_link, "alltoall_base_ among several ranks")],
    "a second device": [(lambda d: torch.ones(2, device="vgpu:1"), "there is one virtual GPU"),
                        (lambda d: torch.ones(2).vgpu(1), "there is one virtual GPU")],
    "another card while a profile records": [(other_card_while_recording, "before or after")],
    "events of another process": [(lambda d: torch.Event(interprocess=True).ipc_handle(), "cannot go to another process")],
    "the backward pass of cuDNN's RNN in eval mode": [
        (lambda d: nn.GRU(2, 3).to(d).eval()(ones(d))[0].sum().backward(), "in training mode")],
    "second derivatives of cuDNN's RNN": [(rnn_twice, "cudnn.flags(enabled=False)")],
    "a CPU generator for values of the device": [(lambda d: torch.rand(2, device=d, generator=torch.Generator()), "torch.Generator(device=")],
    "memory shared between processes": [(lambda d: ones(d).untyped_storage()._share_fd_cpu_(), "send a tensor"),
                                        (lambda d: ones(d).untyped_storage()._share_cuda_(), "send a tensor")],
    "saving TorchScript modules of the device": [
        (lambda d: torch.jit.save(torch.jit.script(nn.Linear(2, 2).to(d)), io.BytesIO()), "give it .cpu()")],
    "memory that untyped_storage().resize_() has taken away": [(use_freed, "give it its bytes back first")],
    "pinning what is on the device": [(lambda d: torch.ones(2, device=d, pin_memory=True), "only dense CPU tensors")],
}
if hasattr(os, "fork"):
    WAYS["the device in a forked process"] = [(forked_use, "use the 'spawn' start method")]

ELSEWHERE = {"a second PrivateUse1 backend", "sparse tensors on a device in another process", "DistributedDataParallel(mixed_precision=…)"} | (
    {"the device in a forked process"} - set(WAYS))  # tried in processes of their own, and no error


def test_every_entry_is_tried():
    assert set(WAYS) | ELSEWHERE == set(vgpu.UNSUPPORTED)
    assert all(reason for reason in vgpu.UNSUPPORTED.values())


@pytest.mark.parametrize("entry, way", [(entry, i) for entry, ways in WAYS.items() for i in range(len(ways))])
@pytest.mark.filterwarnings("ignore")
def test_each_is_an_error_that_helps(entry, way, device):
    use, text = WAYS[entry][way]
    with pytest.raises((NotImplementedError, RuntimeError, BufferError, TypeError, ValueError)) as error:
        use(device)
    assert text in str(error.value)
    assert not isinstance(error.value, RecursionError)
    assert ones(device).sum().item() == 4  # and the device works on


def test_lazy_modules_move_once_they_know_their_sizes(device):
    layer = nn.LazyLinear(3)
    layer(torch.ones(1, 2))
    assert layer.to(device)(ones(device)).shape == (2, 3)
