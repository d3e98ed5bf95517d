"""Lesson 07: what is handed out against what PyTorch has, the slow program, and what the notebook measures."""

import math

import pytest
import torch
import torch.nn.functional as F

from gapless.evidence.report import StepReport
from gapless.lessons import full_size
from gapless.lessons.kernel_fusion import look
from gapless.lessons.kernel_fusion.attention import slow as attention_slow
from gapless.lessons.kernel_fusion.gelu import slow as gelu_slow
from gapless.lessons.kernel_fusion.head_loss import slow as head_loss_slow
from gapless.lessons.kernel_fusion.predicted_gain.right import right_predicted_gain
from gapless.lessons.kernel_fusion.swish import slow as swish_slow
from gapless.lessons.kernel_fusion.workload import Fixes, training_step
from gapless.lessons.kernel_fusion.worth_compiling.right import right_worth_compiling
from gapless.measure.device import device as choose_device
from gapless.measure.profile import profile

from .test_exercises import grade

pytestmark = pytest.mark.slow  # what is particular to this lesson; its solution and stubs are graded in every run


def numbers(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=torch.float64)


def head_by_hand(x, residual, gate, weight, projection, target):
    """Row by row, without PyTorch."""
    losses = []
    for place, wanted in enumerate(target.tolist()):
        if wanted == -100:
            continue
        h = [r + 0.5 * g * a for r, g, a in zip(*(each[place].tolist() for each in (residual, gate, x)))]
        root = math.sqrt(math.fsum(number**2 for number in h) / len(h) + 1e-6)
        h = [number / root * w for number, w in zip(h, weight.tolist())]
        logits = [math.fsum(a * b for a, b in zip(h, word)) for word in projection.tolist()]
        losses.append(math.log(math.fsum(map(math.exp, logits))) - logits[wanted])
    return math.fsum(losses) / len(losses)


def test_the_formulas_handed_out_are_those_of_pytorchs_operators():
    x = 3 * numbers(5, 7)
    torch.testing.assert_close(gelu_slow.gelu(x), F.gelu(x))
    torch.testing.assert_close(swish_slow.swish(x), F.silu(x))
    q, k, v = numbers(2, 3, 6, 4), numbers(2, 3, 6, 4).flip(2), numbers(2, 3, 6, 4).flip(3)
    mask = torch.ones(6, 6, dtype=torch.bool).tril().expand(2, 1, 6, 6)
    torch.testing.assert_close(attention_slow.attention(q, k, v, mask), F.scaled_dot_product_attention(q, k, v, mask))


def test_the_heads_loss_is_that_of_plain_python():
    given = numbers(4, 3), numbers(4, 3).flip(0), numbers(4, 3).flip(1), numbers(3), numbers(5, 3)
    target = torch.tensor([2, -100, 0, 4])
    assert head_loss_slow.head_loss(*given, target).item() == pytest.approx(head_by_hand(*given, target), rel=1e-9)


def test_gelus_kernels_are_those_that_run():
    """Handed to the exercise as what is read and written: as many kernels, and their bytes over the memory's rate about the
    time that they take where the cache does not hold them."""
    device = choose_device("vgpu:t4")
    x = torch.ones(look.ELEMENTS, device=device)
    kernels = [event for event in profile(lambda: gelu_slow.gelu(x), steps=1, device=device).events
               if event.get("cat") == "kernel"]
    assert len(kernels) == len(look.GELU_KERNELS)
    slow, fused = (look.call_us(function, device)[0] for function in (gelu_slow.gelu, torch.compile(gelu_slow.gelu)))
    assert slow / fused == pytest.approx(right_predicted_gain(look.GELU_KERNELS, ["y"]), rel=0.05)


def test_a_first_call_compiles_and_the_others_pay_for_it():
    device = choose_device("vgpu:a100")
    eager = look.calls_ms(gelu_slow.gelu, device)
    torch._dynamo.reset()
    compiled = look.calls_ms(torch.compile(gelu_slow.gelu), device)
    assert compiled[0] > 100 > 1000 * compiled[1] and compiled[1:] == pytest.approx(compiled[1:2] * 4)
    pays, after = right_worth_compiling(eager, [(ms, not place) for place, ms in enumerate(compiled)], 10**6)
    assert pays and after == math.ceil((compiled[0] - compiled[1]) / (eager[0] - compiled[1]))


def test_a_price_is_paid_back_by_gains():
    assert right_worth_compiling([30.0, 10.0, 10.0], [(104.0, True), (4.0, False), (4.0, False)], 17) == (True, 17)
    assert right_worth_compiling([10.0], [(104.0, True), (4.0, False)], 16) == (False, 17)
    assert right_worth_compiling([10.0], [(104.0, True)], 10**9) == (False, None)


def test_each_layers_memory_is_in_the_picture():
    device = choose_device("vgpu:a100")
    slow, fused = (StepReport.from_trace(look.swish_memory(function, device)).peak_memory_bytes
                   for function in (swish_slow.swish, F.silu))
    assert slow - fused >= 2 * 6 * 4 * 4 * look.ELEMENTS  # two of the three that six layers keep


def test_the_program_is_held_up_by_its_formulas():
    device = choose_device("vgpu:a100")

    def busy(fixes):
        with full_size(device):
            events = profile(training_step(device, fixes), steps=1, warmup=1, device=device).events
        return sum(event["dur"] for event in events if event.get("cat") == "kernel")

    fixed = Fixes(gelu=F.gelu, swish=F.silu, attention=F.scaled_dot_product_attention)
    assert busy(fixed) < 0.75 * busy(Fixes())


def test_a_residual_that_is_written_out_is_no_operator():
    def head_loss(x, residual, gate, weight, projection, target):
        h = F.rms_norm(residual + gate * x * 0.5, x.shape[-1:], weight, 1e-6)
        return F.cross_entropy(h @ projection.T, target)

    verdict = grade("07_kernel_fusion", "head_loss", head_loss)["kernels"]
    assert verdict.outcome == "fail" and "pointwise_kernel(add)" in verdict.message


def test_work_that_is_moved_to_the_host_earns_nothing():
    def on_the_host(q, k, v, mask):
        return F.scaled_dot_product_attention(*(each.cpu() for each in (q, k, v, mask))).to(q.device) * 1.0

    verdicts = grade("07_kernel_fusion", "attention", on_the_host)
    assert {verdict.outcome for verdict in verdicts.values()} == {"fail"}
    assert all("copied from the device to the host" in verdicts[check].message for check in ("peak_bytes", "step_time"))
