import pytest
import torch

from gapless.vgpu.hardware.cards import fitted
from gapless.vgpu.hardware.cards.specs import CARDS
from gapless.vgpu.hardware.kernels import costs
from gapless.vgpu.hardware.kernels.feature_maps import Traffic

CARD = CARDS["rtx3090"]


def maps(format=torch.contiguous_format):
    return torch.empty(32, 64, 56, 56, dtype=torch.float16, device="meta").contiguous(memory_format=format)


def kinds(name, *args, out):
    return [kernel.problem.kind for kernel in costs.kernels(name, args, {}, out)]


def test_bytes_over_a_share_of_the_bandwidth():
    known = fitted.constants("tensor_cores", "rtx3090")
    start, busy = Traffic("layout", 936_000_000).start_and_busy_s(CARD, "float16")
    assert start == known["start_s"]
    assert busy == pytest.approx(1e-3 / (known["layout"] * known["bandwidth"]))


def test_batch_norm_by_mode_and_format():
    statistics, one = torch.empty(64, device="meta"), torch.empty(0, device="meta")
    for training, kept, what in ((True, statistics, "batch_norm"), (False, one, "batch_norm_evaluation")):
        for format, suffix in ((torch.contiguous_format, "_nchw"), (torch.channels_last, "_nhwc")):
            x = maps(format)
            assert kinds("native_batch_norm", x, None, None, None, None, training, 0.1, 1e-5,
                         out=(x, kept, kept)) == [what + suffix]


def test_evaluation_reads_once_and_training_twice():
    x, kept = maps(), torch.empty(64, device="meta")
    sizes = [costs.kernels("native_batch_norm", (x, None, None, None, None, training, 0.1, 1e-5), {}, (x, kept, kept))[0].bytes
             for training in (False, True)]
    assert sizes == [2 * 2 * x.numel(), 3 * 2 * x.numel()]


def test_group_norm_works_in_contiguous_order():
    kept = torch.empty(32, 8, device="meta")
    for format, expected in ((torch.contiguous_format, ["group_norm"]), (torch.channels_last, ["layout", "group_norm"])):
        assert kinds("native_group_norm", maps(format), None, None, 32, 64, 56 * 56, 8, 1e-5,
                     out=(maps(), kept, kept)) == expected


def test_every_kind_that_a_rule_names_has_a_constant_that_is_a_share():
    known = fitted.constants("tensor_cores")
    for kind in ("batch_norm", "batch_norm_evaluation", "batch_norm_backward", "pooling", "pooling_backward"):
        for suffix in ("_nchw", "_nhwc"):
            assert 0 < known[kind + suffix] <= 0.95
    assert all(0 < known[kind] <= 0.95 for kind in ("group_norm", "group_norm_backward", "resizing", "layout"))
