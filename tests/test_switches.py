"""A call that leaves a switch of the process changed is told so, and nobody after it runs with that switch."""

import pytest
import torch
from torch.overrides import BaseTorchFunctionMode

import gapless
from gapless.course.stage import Call, Given, LeftBehind, ask_for_tensor
from gapless.switches import before_a_call

DEVICE = gapless.device("vgpu:a10g")
CHANGES = {
    "torch.set_default_dtype": lambda: torch.set_default_dtype(torch.float16),
    "torch.set_default_device": lambda: torch.set_default_device("meta"),
    "a TorchFunctionMode": lambda: BaseTorchFunctionMode().__enter__(),
    "torch.autocast": lambda: torch.autocast("vgpu", dtype=torch.float16).__enter__(),
    "autocast": lambda: (torch.autocast("cpu").__enter__(), torch.autocast("vgpu").__enter__()),
    "torch.set_grad_enabled": lambda: torch.set_grad_enabled(False),
    "torch.autograd.set_detect_anomaly": lambda: torch.autograd.set_detect_anomaly(True),
    "torch.use_deterministic_algorithms": lambda: torch.use_deterministic_algorithms(True),
    "torch.manual_seed": lambda: torch.manual_seed(7),
    "a hook on every module": lambda: torch.nn.modules.module.register_module_forward_hook(lambda *args: None),
}


def called(change):
    def function(x):
        change()
        return x.sum()

    call = Call(ask_for_tensor, function, Given({"x": torch.ones(3)}), DEVICE)
    call.run()
    return call


@pytest.mark.parametrize("name", CHANGES)
def test_what_is_left_switched_on_is_told_and_set_back(name):
    before = before_a_call()
    with pytest.raises(LeftBehind, match=name):
        called(CHANGES[name])
    assert before_a_call() == before
    assert torch.get_default_device() == torch.device("cpu")


@pytest.mark.parametrize("name", CHANGES)
def test_it_is_set_back_where_the_call_raises(name):
    def change():
        CHANGES[name]()
        raise KeyError

    before = before_a_call()
    with pytest.raises(KeyError):
        called(change)
    assert before_a_call() == before


def test_a_context_is_fine():
    def change():
        with torch.autocast("vgpu", dtype=torch.float16), torch.no_grad(), torch.device("meta"):
            torch.ones(2)

    assert called(change).finish()["result"] == 3


def test_what_a_program_may_set_is_set_back_without_a_word():
    def change():
        torch.backends.cudnn.benchmark = True
        torch.backends.cuda.enable_flash_sdp(False)
        torch.rand(3)  # drawn, not seeded

    before = before_a_call()
    called(change)
    assert before_a_call() == before
