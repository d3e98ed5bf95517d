"""Each wait of the table of idioms gets advice that fits its cause; each lesson named exists."""

import pytest

import gapless
from gapless.audit.advice import LESSONS, advice, host_advice, launch_advice
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


@pytest.mark.parametrize("line, place, what", [
    ("if mask.any():", "a.py", "torch.where"), ("while not done.all():", "a.py", "torch.where"),
    ("action = Categorical(logits=logits).sample()", "a.py", "set_default_validate_args"),
    ("progress.set_postfix(loss=loss.item())", "a.py", "Show it"), ("print(loss)", "a.py", "Show it"),
    ("obs, reward, done = env.step(action.item())", "a.py", "Many environments"),
    ("tr_loss_step.isnan()", "/p/site-packages/transformers/trainer.py", "logging_nan_inf_filter"),
    ("value = value.item()", "/p/site-packages/lightning/pytorch/loops/x.py", "log_every_n_steps"),
    ("total += loss.item()", "a.py", "Add up on the GPU"),
    ("total += torch.log(x).item()", "a.py", "Add up on the GPU"),
])
def test_what_stands_at_a_line_that_reads(line, place, what):
    assert what in advice("read-back", "aten::item", "", place, line).what


def test_a_copy_of_what_is_made_on_the_host():
    assert "torch.full" in advice("copy", "aten::to", "", "a.py", "x = torch.tensor(numbers).cuda()").what
    assert "pin_memory" in advice("copy", "aten::to", "", "a.py", "x = x.cuda()").what


@pytest.mark.parametrize("line, what", [
    ("time.sleep(1)", "It sleeps"), ("print(step)", "It writes"), ("torch.save(state, path)", "It writes a file"),
    ("ids = tokenizer(texts)", "Tokenize once"), ("image = Image.open(path)", "Decode"), ("x = np.roll(x, 3)", "on the CPU"),
    ("obs = env.step(action)", "environment"), ("lock.acquire()", "It waits for another"), ("total = total + 1", None),
    ("y = math.log(x)", None), ("z = vae.encode(x)", None)])
def test_what_stands_at_a_line_that_takes_the_host_s_time(line, what):
    found = host_advice(line, "a.py")
    assert found is None if what is None else what in found


def test_lessons_exist():
    there = {path.name for path in (ROOT / "solutions").iterdir()}
    for number, name in LESSONS.items():
        assert name.startswith(f"{number}_") and (name in there or number == "09")


def test_an_optimizer_s_closure():
    for line, found in (("optimizer.step(closure)", True), ("loss = opt.step(closure=closure).item()", True),
                        ("optimizer.step()", False), ("scheduler.step(epoch)", False)):
        assert ("closure" in advice("read-back", "aten::item", "", "a.py:3", line).why) == found


def test_many_launches_of_a_line():
    assert launch_advice("h = cell(x[t], h)", "train.py:9", 29) is None
    assert launch_advice("h = cell(x[t], h)", "train.py:9", 300).startswith("300 launches a step. If a loop comes here")
    assert "`fused=True`" in launch_advice("optimizer.step()", "train.py:12", 84)
    for place, line in (("train.py:9 (in its backward pass)", "h = cell(x[t], h)"), ("train.py:11", "loss.backward()")):
        assert "in the forward pass make fewer here" in launch_advice(line, place, 500)
