"""Each wait of the table of idioms gets advice that fits its cause; each lesson named exists."""

import pytest

import gapless
from gapless.audit.advice import LESSONS, advice
from gapless.fidelity.idioms import IDIOMS, Bag

from .. import ROOT


@pytest.fixture(scope="module")
def bag():
    return Bag(gapless.vgpu.enable("a10g"))


def lesson_of(use, bag, line=None):
    report = gapless.StepReport.from_trace(gapless.profile(lambda: use(bag), steps=1, warmup=0, device="vgpu:0"))
    sync = report.syncs_in_steps[0]
    return advice(sync.kind, sync.op, sync.name, sync.location, line).lesson


@pytest.mark.parametrize("idiom, lesson", [
    ("item", "00"), ("if", "00"), ("cpu", "00"), ("nonzero", "02"), ("unique", "02"), ("x[mask]", "02"), ("bincount", "02"),
    ("masked_select", "02"), ("equal", "03"), ("allclose", "03"), ("masked_fill with a device number", "03"), ("x[list]", "04"),
])
def test_idioms(bag, idiom, lesson):
    (found,) = [each for each in IDIOMS.values() if each.name == idiom]
    assert lesson_of(found.use, bag) == lesson


def test_lines_tell_more_than_operators():
    assert advice("read-back", "aten::item", "cudaStreamSynchronize", "a.py:3", "scaler.step(optimizer)").lesson == "05"
    assert advice("read-back", "aten::item", "", "cuda.py:7", "self._scaler.step(optimizer)").lesson == "05"
    for kind in ("copy", "stream", "read-back"):
        assert "sparse" in advice(kind, "aten::mm", "cudaMemcpyAsync", "a.py:3", "out = torch.spmm(adjacency, x)").why
    assert advice("read-back", "aten::item", "", "torchmetrics/metric.py:3", None).lesson == "03"
    assert advice("device", None, "cudaDeviceSynchronize", "a.py:3", "torch.cuda.synchronize()").lesson == "00"
    assert advice("device", None, "cudaFree", "a.py:3", "torch.cuda.empty_cache()").lesson == "08"
    assert advice("launch", "aten::mm", "cudaLaunchKernel", None, None).lesson == "06"
    assert advice("launch", "aten::relu", "cudaLaunchKernel", None, None).lesson == "06"


def test_lessons_exist():
    there = {path.name for path in (ROOT / "solutions").iterdir()}
    for number, name in LESSONS.items():
        assert name.startswith(f"{number}_") and (name in there or number == "09")


def test_an_optimizer_s_closure():
    for line, found in (("optimizer.step(closure)", True), ("loss = opt.step(closure=closure).item()", True),
                        ("optimizer.step()", False), ("scheduler.step(epoch)", False)):
        assert ("closure" in advice("read-back", "aten::item", "", "a.py:3", line).why) == found
