"""Under ``torch.use_deterministic_algorithms(True)`` what CUDA refuses is refused here."""

import pytest
import torch
import torch.nn.functional as F

from gapless import vgpu

BACKWARD = {
    "avg_pool3d_backward_cuda": lambda x: F.avg_pool3d(x[None], 2),
    "adaptive_avg_pool2d_backward_cuda": lambda x: F.adaptive_avg_pool2d(x, 3),
    "adaptive_avg_pool3d_backward_cuda": lambda x: F.adaptive_avg_pool3d(x[None], 3),
    "adaptive_max_pool2d_backward_cuda": lambda x: F.adaptive_max_pool2d(x, 3),
    "fractional_max_pool2d_backward_cuda": lambda x: F.fractional_max_pool2d(x, 2, 3),
    "upsample_linear1d_backward_out_cuda": lambda x: F.interpolate(x[0], scale_factor=2, mode="linear"),
    "upsample_bilinear2d_backward_out_cuda": lambda x: torch.ops.aten.upsample_bilinear2d(x, [9, 9], False),
    "upsample_bicubic2d_backward_out_cuda": lambda x: F.interpolate(x, scale_factor=2, mode="bicubic"),
    "upsample_trilinear3d_backward_out_cuda": lambda x: torch.ops.aten.upsample_trilinear3d(x[None], [9, 9, 9], False),
    "upsample_bilinear2d_aa_backward_out_cuda": lambda x: F.interpolate(x, size=4, mode="bilinear", antialias=True),
    "reflection_pad1d_backward_out_cuda": lambda x: F.pad(x[0], (1, 1), mode="reflect"),
    "reflection_pad2d_backward_cuda": lambda x: F.pad(x, (1, 1, 1, 1), mode="reflect"),
    "reflection_pad3d_backward_out_cuda": lambda x: F.pad(x[None], (1,) * 6, mode="reflect"),
    "grid_sampler_2d_backward_cuda": lambda x: F.grid_sample(x, x[:, 0, :, :2, None].tanh().expand(-1, -1, -1, 2), align_corners=False),
    "embedding_bag_backward_cuda_max": lambda x: F.embedding_bag(torch.tensor([[0, 1]], device=x.device), x[0, 0], mode="max"),
}
FORWARD = {
    "max_unpooling2d_forward_out": lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2),
    "nll_loss2d_forward_out_cuda_template": lambda x: F.cross_entropy(x, x[:, 0].long() * 0),
    "put_": lambda x: x.detach().put_(torch.tensor([0], device=x.device), torch.ones(1, device=x.device)),
    "_histc_cuda with floating point input": lambda x: torch.histc(x.detach()),
    "_bincount_cuda": lambda x: torch.bincount(torch.tensor([0, 1], device=x.device), torch.ones(2, device=x.device)),
    "median CUDA with indices output": lambda x: x.median(0).values,
    "scatter_reduce_cuda_prod_": lambda x: x.flatten().scatter_reduce(0, torch.zeros(6, dtype=torch.long, device=x.device), x[0, 0, 0],
                                                                      reduce="prod"),
}
FREE = {
    "index_add": lambda x: x.index_add(0, torch.tensor([0, 0], device=x.device), x), "cumsum": lambda x: x.cumsum(0),
    "max_pool2d": lambda x: F.max_pool2d(x, 2), "median": lambda x: x.median(), "embedding_bag": lambda x: F.embedding_bag(
        torch.tensor([[0, 1]], device=x.device), x[0, 0], mode="sum"),
    "interpolate": lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), "scatter_reduce": lambda x: x.flatten().scatter_reduce(
        0, torch.zeros(6, dtype=torch.long, device=x.device), x[0, 0, 0], reduce="sum"),
    "bincount": lambda x: torch.bincount(torch.tensor([0, 1], device=x.device)) * x.sum(),
}


@pytest.fixture
def x():
    return torch.rand(2, 3, 6, 6, device=vgpu.enable("a10g"), requires_grad=True)


@pytest.fixture
def deterministic():
    yield torch.use_deterministic_algorithms
    torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("kernel", [*BACKWARD, *FORWARD])
def test_what_cuda_refuses(kernel, x, deterministic):
    def run():
        if kernel in FORWARD:
            return FORWARD[kernel](x)
        return torch.autograd.grad(BACKWARD[kernel](x).sum(), x)

    run()
    deterministic(True)
    with pytest.raises(RuntimeError, match=f"^{kernel} does not have a deterministic implementation"):
        run()
    deterministic(True, warn_only=True)
    with pytest.warns(UserWarning, match=f"^{kernel} does not"):
        run()


@pytest.mark.parametrize("name", FREE)
def test_what_it_does_not(name, x, deterministic):
    deterministic(True)
    torch.autograd.grad(FREE[name](x).sum(), x)
