"""What is measured, planned and made up; and the CPU in the place of a GPU, to measure on."""

import time
from types import SimpleNamespace

import pytest
import torch

from gapless import vgpu
from gapless.fidelity import experiments

from .made_up import exact_measurements


@pytest.fixture(autouse=True)
def an_ordinary_card_afterwards():
    """Predictions are made on cards whose host costs nothing: the next test's is another."""
    yield
    vgpu.enable("a10g")


@pytest.fixture(scope="module")
def planned():
    return experiments.experiments()


@pytest.fixture(scope="module")
def exact():
    return exact_measurements()


class FakeEvent:
    """A CUDA event on a device that is never behind."""

    def __init__(self, enable_timing):
        assert enable_timing

    def record(self):
        self.time_s = time.perf_counter()

    def synchronize(self):
        pass

    def elapsed_time(self, end):
        return (end.time_s - self.time_s) * 1e3


@pytest.fixture
def cpu_for_cuda(monkeypatch):
    """What the measuring calls of ``torch.cuda``, for the CPU: shows that it runs, not what a GPU would take."""
    vgpu.enable()  # pins memory without a driver
    properties = SimpleNamespace(name="No GPU", total_memory=2**34, multi_processor_count=8, major=8, minor=0)
    for name, stand_in in {"Event": FakeEvent, "_sleep": lambda cycles: None, "synchronize": lambda device=None: None,
                           "empty_cache": lambda: None, "get_device_properties": lambda device: properties,
                           "get_device_name": lambda device=None: "No GPU",
                           "current_stream": lambda device: SimpleNamespace(synchronize=lambda: None)}.items():
        monkeypatch.setattr(torch.cuda, name, stand_in)
    return torch.device("cpu")
