"""A patched library makes checks void."""

import json

import pytest

from .. import forked

BEFORE = """
import torch, time, torch.nn.functional as F
import gapless
from gapless.learner.patches import void
lesson = gapless.Notebook("02_masked_loss", device="vgpu:a10g")
fast = "# exercise: ignore_background\\ndef ignore_background(target):\\n    return torch.where(target == BACKGROUND, IGNORE, target)\\n"
assert lesson.check_source("ignore_background", fast).passed
"""


PATCHES = [
    ("torch.Tensor.item = lambda self: 0", "del torch.Tensor.item", "torch.Tensor.item"),
    ("kept = F.cross_entropy; F.cross_entropy = lambda *args: 0", "F.cross_entropy = kept", "torch.nn.functional.cross_entropy"),
    ("kept = torch.where; torch.where = torch.add", "torch.where = kept", "torch.where"),
    ("torch.set_default_dtype(torch.float64)", "torch.set_default_dtype(torch.float32)", "torch.set_default_dtype"),
    ("torch.set_grad_enabled(False)", "torch.set_grad_enabled(True)", "torch.set_grad_enabled"),
    ("kept = time.perf_counter; time.perf_counter = lambda: 0", "time.perf_counter = kept", "time.perf_counter"),
    ("kept = gapless.vgpu.Timeline.synchronize_device; gapless.vgpu.Timeline.synchronize_device = lambda self: None",
     "gapless.vgpu.Timeline.synchronize_device = kept", "Timeline.synchronize_device"),
    ("from torch.overrides import TorchFunctionMode as M; m = M(); m.__enter__()", "m.__exit__(None, None, None)",
     "a TorchFunctionMode"),
    ("kept = torch.nn.Linear.forward; torch.nn.Linear.forward = lambda self, x: x", "torch.nn.Linear.forward = kept",
     "torch.nn.modules.linear.Linear.forward"),
]


@pytest.mark.slow
def test_what_is_replaced_is_named_and_nothing_counts():
    code = BEFORE + "import json\nshown = []\n"
    for patch, undo, _ in PATCHES:
        code += f"{patch}\nresult = lesson.check_source('ignore_background', fast)\n{undo}\nshown.append([result.earned, str(result)])\n"
    code += "assert lesson.check_source('ignore_background', fast).passed\nprint(json.dumps(shown))\n"
    done = forked.run("-c", code)
    assert done.returncode == 0, done.stderr
    for (earned, text), (patch, _, named) in zip(json.loads(done.stdout), PATCHES, strict=True):
        assert earned == 0 and "Void: a cell has replaced or switched" in text and named in text, (patch, text)
        assert "restart the kernel" in text


@pytest.mark.slow
def test_a_cell_that_patches_in_its_function_is_void_too_and_stays_so():
    source = "def ignore_background(target):\n    torch.Tensor.item = lambda self: 0\n    return target\n"
    code = BEFORE + f"print(lesson.check_source('ignore_background', {source!r}).earned)\n" \
        "print('Void' in str(lesson.check_source('ignore_background', fast)))\n"
    done = forked.run("-c", code)
    assert done.stdout.split() == ["0.0", "True"], done.stderr


@pytest.mark.slow
def test_what_libraries_do_to_themselves_is_nobodys_fault():
    code = BEFORE + """
import torchmetrics, torch._dynamo, torch.distributed
model = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model(torch.ones(1, 2)).sum().backward(); optimizer.step()
for lesson_id in gapless.lessons.LESSONS:
    other = gapless.Notebook(lesson_id, device="vgpu:t4")
    for name, exercise in other.lesson.exercises.items():
        other.check_source(name, "def " + name + "(*args, **options):\\n    return None\\n")
print(void())
"""
    done = forked.run("-c", code)
    assert done.stdout.split("\n")[-2] == "None", done.stdout + done.stderr


def test_what_compiling_does_to_modules_is_nobodys_fault_and_a_cell_that_does_it_is():
    """Dynamo wraps ``nn.Module.__init__`` (torch/_dynamo/mutation_guard.py)."""
    code = BEFORE + """
before = torch.nn.Module.__init__
from torch._dynamo.mutation_guard import install_generation_tagging_init
install_generation_tagging_init()
print(torch.nn.Module.__init__ is not before, void())
torch.nn.Module.__init__ = lambda self: before(self)
print("torch.nn.modules.module.Module.__init__" in void())
"""
    done = forked.run("-c", code)
    assert done.stdout.split("\n")[-3:-1] == ["True None", "True"], done.stdout + done.stderr


LATE = """
import torch
from gapless import vgpu
from gapless.learner.patches import remember, void
remember()
{before}
vgpu.enable("h100")
{after}
print(void() or "fine")
"""


@pytest.mark.parametrize("before, after, says", [
    ("", "", "fine"),
    ("kept = torch.where; torch.where = torch.add", "", "void: a cell has replaced"),
    ("", "torch.where = torch.add", "torch.where"),
])
def test_the_virtual_gpu_may_be_enabled_late_as_on_a_real_one(before, after, says):
    """For what a lesson on a real GPU simulates all the same."""
    done = forked.run("-c", LATE.format(before=before, after=after), imports=forked.PYTORCH)
    assert done.returncode == 0 and says in done.stdout, done.stdout + done.stderr
