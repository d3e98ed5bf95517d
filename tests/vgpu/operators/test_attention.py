"""Fused attention: the CPU's values, CUDA's kernels, no matrix of scores in memory."""

import gc
import json
from collections import Counter
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import checkpoint

import gapless
from gapless import vgpu
from gapless.vgpu.hardware.kernels.attention import kernels
from gapless.vgpu.operators import attention


def operands(device=None, dtype=torch.float32, batch=2, heads=4, length=16, width=8):
    torch.manual_seed(0)
    made = (torch.randn(batch, heads, length, width).to(dtype) for _ in range(3))
    return [t.to(device or "cpu").requires_grad_() for t in made]


def kernel_names(step):
    trace = gapless.profile(step, steps=1, warmup=0, device=vgpu.enable())
    return [span.name for span in trace.spans if span.category == "kernel"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"scale": 0.3}, {"attn_mask": True}])
def test_values_and_gradients_are_the_cpus(device, dtype, options):
    mask = torch.ones(16, 16, dtype=torch.bool).tril()
    results = []
    for where in ("cpu", device):
        parts = operands(where, dtype)
        chosen = {**options, "attn_mask": mask.to(where)} if "attn_mask" in options else options
        out = F.scaled_dot_product_attention(*parts, **chosen)
        out.float().square().sum().backward()
        results.append([t.detach().cpu() for t in (out, *(part.grad for part in parts))])
    for expected, found in zip(*results):
        torch.testing.assert_close(found, expected)


def test_one_kernel_forward_and_two_backward(device):
    parts = operands(device, torch.bfloat16)

    def step():
        out = F.scaled_dot_product_attention(*parts)
        torch.autograd.grad(out, parts, out.detach())

    names = kernel_names(step)
    assert names == ["fmha_forward_kernel", "fmha_backward_sums_kernel", "fmha_backward_kernel"]


MEASURED = json.loads((Path(__file__).parents[3] / "records/measured/h100_attention.json").read_text())["rows"]


@pytest.mark.parametrize("row", [row for row in MEASURED if row["dtype"] == "float32"],
                         ids=lambda row: f"{row['shape'][2]} {row['mask']} {row['backward']}")
def test_the_memory_efficient_kernels_have_beside_them_what_an_h100_ran(device, row):
    batch, _, length, _ = row["shape"]
    with vgpu.shape_only():
        parts = [torch.empty(row["shape"], device=device, requires_grad=row["backward"]) for _ in range(3)]
        gradient = torch.empty(row["shape"], device=device)
        mask = None
        if row["mask"]:
            dtype = torch.bool if row["mask"] == "bool" else torch.float32
            mask = torch.empty(batch, 1, length, length, device=device, dtype=dtype)

        def step():
            out = F.scaled_dot_product_attention(*parts, attn_mask=mask)
            if row["backward"]:
                for part in parts:
                    part.grad = None
                out.backward(gradient)

        found = Counter(KINDS.get(name, name) for name in kernel_names(step))
    assert found == {name: count for name, (count, _) in row["kernels"].items()}


KINDS = {"pointwise_kernel(clone)": "copy", "pointwise_kernel(copy_)": "copy", "pointwise_kernel(constant_pad_nd)": "copy",
         "fill_kernel": "fill", "pointwise_kernel(where)": "where", "pointwise_kernel(mul)": "mul", "reduction_kernel(sum)": "sum",
         "fmha_forward_kernel": "fmha_cutlassF", "fmha_backward_kernel": "fmha_cutlassB"}


def test_a_gradient_in_the_outputs_layout_is_not_copied(device):
    copies = []
    for gradient in (torch.ones(2, 4, 16, 8), torch.ones(2, 16, 4, 8).transpose(1, 2)):
        parts, gradient = operands(device), gradient.to(device)
        out = F.scaled_dot_product_attention(*parts)
        names = kernel_names(lambda: torch.autograd.grad(out, parts, gradient))
        copies.append(names.count("pointwise_kernel(clone)"))
    assert copies == [2, 1]  # of the gradient, and of a sum for each row


@pytest.mark.parametrize("checkpointed", [False, True])
def test_the_bias_of_a_boolean_mask_is_kept_for_the_backward_pass_but_not_by_a_checkpoint(device, checkpointed):
    gc.collect()
    with vgpu.shape_only():
        parts = [torch.empty(2, 4, 1024, 64, device=device, requires_grad=True) for _ in range(3)]
        mask = torch.empty(2, 1, 1024, 1024, device=device, dtype=torch.bool)
        before = torch.vgpu.memory_allocated()
        attend = F.scaled_dot_product_attention
        out = checkpoint(attend, *parts, mask, use_reentrant=False) if checkpointed else attend(*parts, attn_mask=mask)
        kept = 0 if checkpointed else 2 * 4 * 1024 * 4 + 4 * mask.nbytes  # a sum for each row, and the bias
        assert torch.vgpu.memory_allocated() - before == out.nbytes + kept
        out.sum().backward()
        del out
        assert torch.vgpu.memory_allocated() - before == sum(part.nbytes for part in parts)


def test_arithmetic_is_halved_by_a_causal_mask():
    part = torch.empty(2, 3, 128, 64, device="meta")
    (forward,), (_, backward) = kernels(part, part, part, None, causal=False)
    assert forward.flops == 4 * 2 * 3 * 128 * 128 * 64
    assert backward.flops == 2.5 * forward.flops
    (causal,), _ = kernels(part, part, part, None, causal=True)
    assert causal.flops == forward.flops / 2


@pytest.mark.parametrize("dtype, sums", [
    (torch.float16, []), (torch.float32, ["pointwise_kernel(mul)", "reduction_kernel(sum)", "pointwise_kernel(clone)"])])
@pytest.mark.parametrize("length, zeros", [(64, []), (128, ["fill_kernel"])])
def test_in_half_precision_the_memory_efficient_kernel_makes_the_sums_itself(device, dtype, sums, length, zeros):
    with vgpu.shape_only(), vgpu.on_card(vgpu.find_card("t4")):
        parts = [torch.empty(1, 2, length, 64, device=device, dtype=dtype, requires_grad=True) for _ in range(3)]
        out = F.scaled_dot_product_attention(*parts)
        gradient = torch.empty(out.shape, device=device, dtype=dtype)
        names = kernel_names(lambda: torch.autograd.grad(out, parts, gradient))
    assert names == ["pointwise_kernel(clone)", *sums, *zeros, "fmha_backward_kernel"]


@pytest.mark.parametrize("card, dtype, options, wanted", [
    ("t4", torch.float16, {}, "efficient"), ("a100", torch.float16, {}, "flash"), ("a100", torch.float16, {"mask": True}, "efficient"),
    ("h100", torch.float16, {"mask": True}, "cudnn"), ("h100", torch.float32, {}, "efficient"), ("a100", torch.float64, {}, ""),
    ("a100", torch.float16, {"width": 320}, "efficient"), ("h100", torch.float16, {"mask": True, "width": 256}, "efficient"),
    ("a100", torch.float16, {"chosen": SDPBackend.EFFICIENT_ATTENTION}, "efficient")])
def test_which_kernels(device, card, dtype, options, wanted):
    with vgpu.on_card(vgpu.find_card(card)):
        parts = operands(device, dtype, width=options.get("width", 8))
        mask = torch.ones(16, 16, dtype=torch.bool, device=device) if "mask" in options else None
        with sdpa_kernel(options["chosen"]) if "chosen" in options else nullcontext():
            assert attention._kernels_of(*parts, mask) == wanted


def test_scores_take_no_memory_and_the_sums_are_freed_backwards(device):
    gc.collect()  # what earlier tests left in cycles would go in between
    with vgpu.shape_only():
        parts = [torch.empty(1, 1, 8192, 64, device=device, requires_grad=True) for _ in range(3)]
        before = torch.vgpu.memory_allocated()
        torch.vgpu.reset_peak_memory_stats()
        out = F.scaled_dot_product_attention(*parts)
        assert torch.vgpu.memory_allocated() - before == 8192 * 64 * 4 + 8192 * 4  # the output and a sum for each row
        assert torch.vgpu.max_memory_allocated() == torch.vgpu.memory_allocated()
        out.backward(out.detach())
        assert torch.vgpu.memory_allocated() - before == (1 + 3) * 8192 * 64 * 4
    with pytest.raises(RuntimeError, match="second time"):
        out.backward(out.detach())


def test_a_kept_graph_goes_backwards_twice(device):
    parts = operands(device)
    out = F.scaled_dot_product_attention(*parts).sum()
    out.backward(retain_graph=True)
    once = parts[0].grad.clone()
    out.backward()
    torch.testing.assert_close(parts[0].grad.cpu(), 2 * once.cpu())


@pytest.mark.parametrize("change", ["math only", "float64", "three dimensions", "mask with a gradient"])
def test_what_cuda_takes_apart_is_taken_apart(device, change):
    parts, options = operands(device, torch.float64 if change == "float64" else torch.float32), {}
    if change == "three dimensions":
        parts = [part[0] for part in parts]
    if change == "mask with a gradient":
        options["attn_mask"] = torch.zeros(16, 16, device=device, requires_grad=True)

    def step():
        if change == "math only":
            with sdpa_kernel(SDPBackend.MATH):
                F.scaled_dot_product_attention(*parts, **options)
        else:
            F.scaled_dot_product_attention(*parts, **options)

    names = kernel_names(step)
    assert not any("fmha" in name for name in names)
    assert sum("bmm" in name for name in names) == 2


@pytest.mark.parametrize("early", [True, False])
def test_a_checkpoint_computes_it_again(device, early):
    results = []
    for where in ("cpu", device):
        parts = operands(where)
        out = checkpoint(lambda *given: F.scaled_dot_product_attention(*given).transpose(1, 2).exp(), *parts, use_reentrant=False,
                         early_stop=early)
        out.sum().backward()
        results.append([part.grad.cpu() for part in parts])
    torch.testing.assert_close(results[1], results[0])


@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode])
def test_without_autograd_too(device, context):
    with context():
        parts = [part.detach() for part in operands(device)]
        assert kernel_names(lambda: F.scaled_dot_product_attention(*parts)) == ["fmha_forward_kernel"]


def test_autocast_lowers_its_operands(device):
    with torch.autocast("vgpu", dtype=torch.bfloat16):
        assert F.scaled_dot_product_attention(*operands(device)).dtype == torch.bfloat16


def on_shards(rank, world):
    import torch.distributed as dist
    from torch.distributed.tensor import Shard, distribute_tensor
    from torch.nn.functional import scaled_dot_product_attention

    from gapless.vgpu import as_cuda

    with as_cuda.install(index=rank, count=world):
        dist.init_process_group("nccl")
        mesh = dist.init_device_mesh("cuda", (world,))
        torch.manual_seed(0)
        whole = [torch.randn(2, 4, 6, 8, requires_grad=True) for _ in range(3)]
        sharded = [distribute_tensor(each.detach().cuda(), mesh, [Shard(1)]).requires_grad_() for each in whole]
        outs = [scaled_dot_product_attention(*tensors, is_causal=True) for tensors in (whole, sharded)]
        for out in outs:
            out.square().sum().backward()
        return [outs[0], *(each.grad for each in whole)], [outs[1], *(each.grad for each in sharded)]


def test_each_rank_attends_with_its_own_heads():
    """DTensors, as tensor parallelism makes them, on a mesh of what a program calls cuda."""
    for result in gapless.on_gpus(2, on_shards, device="a100"):
        wanted, found = result.value
        for one, other in zip(wanted, found):
            torch.testing.assert_close(one, other)
