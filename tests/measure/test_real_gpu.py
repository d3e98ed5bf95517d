"""A real GPU as checks need it. What CUDA itself does about it was seen on one: ``records/h100_checks.json``."""

import pytest
import torch

from gapless.measure.device import device as choose_device
from gapless.measure.real_gpu import like_the_cpu, take_workspaces

CUDNN, PRODUCTS = torch.backends.cudnn, torch.backends.cuda.matmul


def older_products():
    PRODUCTS.allow_tf32 = True


def newer_products():
    PRODUCTS.fp32_precision = "ieee"


def newer_convolutions():
    CUDNN.conv.fp32_precision = "ieee"


def switches():
    found = [CUDNN.conv.fp32_precision, CUDNN.rnn.fp32_precision, PRODUCTS.fp32_precision]
    for read in (lambda: CUDNN.allow_tf32, lambda: PRODUCTS.allow_tf32, torch.get_float32_matmul_precision):
        try:
            found.append(read())
        except RuntimeError:  # PyTorch's, where the older switches and the newer ones disagree
            found.append("disagree")
    return found


@pytest.fixture(autouse=True)
def defaults():
    yield
    CUDNN.allow_tf32, PRODUCTS.allow_tf32 = True, False


@pytest.mark.parametrize("setting", [lambda: None, lambda: torch.set_float32_matmul_precision("medium"), older_products,
                                     newer_products, newer_convolutions])
def test_float32_is_no_tf32_inside_and_what_it_was_afterwards(setting):
    setting()
    before = switches()
    with pytest.raises(KeyError), like_the_cpu(torch.device("cuda:0")):
        assert CUDNN.conv.fp32_precision == CUDNN.rnn.fp32_precision == "ieee" and PRODUCTS.fp32_precision in ("ieee", "none")
        raise KeyError
    assert switches() == before


@pytest.mark.parametrize("name", ["cpu", "vgpu"])
def test_elsewhere_nothing_changes(name):
    device, before = torch.device("cpu") if name == "cpu" else choose_device(name), switches()
    take_workspaces(device)
    with like_the_cpu(device):
        assert switches() == before
