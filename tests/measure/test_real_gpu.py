"""A real GPU as checks need it. What CUDA itself does about it was seen on one: ``records/h100_checks.json``."""

import pytest
import torch

from gapless.measure import real_gpu
from gapless.measure.device import device as choose_device
from gapless.measure.real_gpu import like_the_cpu

PLACES = torch.backends.cuda.matmul, torch.backends.cudnn


def allowed():
    return [place.allow_tf32 for place in PLACES]


def test_float32_is_no_tf32_inside_and_what_it_was_afterwards(monkeypatch):
    taken = []
    monkeypatch.setattr(real_gpu, "_take_workspaces", taken.append)
    before = allowed()
    with pytest.raises(KeyError), like_the_cpu(torch.device("cuda:0")):
        assert allowed() == [False, False]
        raise KeyError
    assert allowed() == before and taken == [torch.device("cuda:0")]


def test_what_a_program_has_chosen_by_the_newer_switches_stays(monkeypatch):
    monkeypatch.setattr(real_gpu, "_take_workspaces", lambda device: None)
    before = allowed()
    try:
        torch.backends.cudnn.conv.fp32_precision = "ieee"
        with like_the_cpu(torch.device("cuda")):
            pass
        assert torch.backends.cudnn.conv.fp32_precision == "ieee"
    finally:
        for place, value in zip(PLACES, before):
            place.allow_tf32 = value


@pytest.mark.parametrize("name", ["cpu", "vgpu"])
def test_elsewhere_nothing_changes(name):
    before = allowed()
    with like_the_cpu(torch.device("cpu") if name == "cpu" else choose_device(name)):
        assert allowed() == before
