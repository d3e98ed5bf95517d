import time

import pytest
import torch

from gapless import vgpu
from gapless.measure.device import UnknownDevice, device, device_name, host_work, synchronize


@pytest.fixture(autouse=True)
def restore(monkeypatch):
    monkeypatch.delenv("GAPLESS_DEVICE", raising=False)
    yield
    vgpu.enable("a10g")


@pytest.fixture
def without_cuda(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


@pytest.fixture
def with_cuda(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)


def test_without_cuda_it_is_the_virtual_gpu(without_cuda):
    assert device() == torch.device("vgpu", 0)


def test_with_cuda_it_is_cuda(with_cuda):
    assert device() == torch.device("cuda", 0)


@pytest.mark.parametrize("name, card", [("vgpu:a100", "a100"), ("VGPU:T4", "t4"), (" vgpu:h200 ", "h200")])
def test_a_card_is_chosen_by_name(name, card):
    assert device(name) == torch.device("vgpu", 0)
    assert vgpu.card().key == card


@pytest.mark.parametrize("name", ["vgpu", "vgpu:0"])
def test_no_card_or_an_index_keeps_the_card_in_use(name):
    device("vgpu:a100")
    device(name)
    assert vgpu.card().key == "a100"


def test_the_variable_decides(monkeypatch, with_cuda):
    monkeypatch.setenv("GAPLESS_DEVICE", "vgpu:a40")
    assert device().type == "vgpu"
    assert vgpu.card().key == "a40"


def test_an_argument_decides_before_the_variable(monkeypatch):
    monkeypatch.setenv("GAPLESS_DEVICE", "nonsense")
    assert device("vgpu").type == "vgpu"


def test_an_empty_variable_is_none(monkeypatch, without_cuda):
    monkeypatch.setenv("GAPLESS_DEVICE", "")
    assert device().type == "vgpu"


@pytest.mark.parametrize("name", ["tpu", "vgpu:tpu", "vgpu:7", "cuda:x", "cpu", "cuda:-1"])
def test_an_unknown_name_is_told_which_are_known(name, with_cuda):
    with pytest.raises(UnknownDevice, match=f"'{name}'.*cuda, vgpu, vgpu:t4.*GAPLESS_DEVICE"):
        device(name)


def test_cuda_where_there_is_none(without_cuda):
    with pytest.raises(UnknownDevice, match="PyTorch sees none here: use vgpu"):
        device("cuda")


def test_a_cuda_device_too_far(with_cuda):
    assert device("cuda:1") == torch.device("cuda", 1)
    with pytest.raises(UnknownDevice, match="PyTorch sees 2"):
        device("cuda:2")


def test_the_name_is_the_modelled_cards():
    assert device_name(device("vgpu:h100")) == "NVIDIA H100 80GB HBM3"


def test_synchronize_waits_on_the_virtual_clock():
    here = device("vgpu:a10g")
    torch.zeros(1_000_000, device=here).exp()
    ready = vgpu.timeline().device_ready_ns
    assert vgpu.timeline().host_ns < ready
    synchronize(here)
    assert vgpu.timeline().host_ns >= ready


def test_the_cpu_has_nothing_to_wait_for():
    synchronize(torch.device("cpu"))


def test_declared_work_takes_exactly_that_on_the_virtual_clock():
    where = vgpu.enable("a10g")
    before = vgpu.timeline().host_ns
    began = time.perf_counter()
    host_work(2500.5, where)
    host_work(0, where)
    assert vgpu.timeline().host_ns - before == 2_500_500_000
    assert time.perf_counter() - began < 1


def test_declared_work_goes_to_the_courses_device(without_cuda):
    before = vgpu.timeline().host_ns
    host_work(1)
    assert vgpu.timeline().host_ns - before == 1_000_000


def test_elsewhere_declared_work_really_takes_its_time():
    began = time.perf_counter()
    host_work(20, torch.device("cpu"))
    assert 0.020 <= time.perf_counter() - began < 2


@pytest.mark.parametrize("ms", [-1, float("nan"), float("inf"), 1e7, "5", None, True])
def test_declared_work_is_a_time(ms):
    with pytest.raises(ValueError, match="host_work takes milliseconds"):
        host_work(ms)
