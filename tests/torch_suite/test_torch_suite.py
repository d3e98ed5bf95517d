"""The runner, on a small test file of the kind that PyTorch has."""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from . import Expected, Skipped, expected, on_the_device, sampled

FILE = """
import torch
from torch.testing._internal.common_device_type import dtypes, instantiate_device_type_tests, onlyCPU
from torch.testing._internal.common_utils import TestCase, run_tests

class TestSums(TestCase):
    @dtypes(torch.float32, torch.int64)
    def test_right(self, device, dtype):
        self.assertEqual(torch.ones(3, device=device, dtype=dtype).sum().item(), 3)

    def test_on_the_cpu_alone(self, device):
        self.assertEqual(torch.ones(3, device=device).device.type, "cpu")

    def test_nowhere(self, device):
        self.assertEqual(1, 2)

    @onlyCPU
    def test_skipped(self, device):
        pass

instantiate_device_type_tests(TestSums, globals())
"""


@pytest.mark.slow
def test_what_passes_on_the_cpu_is_run_on_the_device(tmp_path):
    (tmp_path / "test_sums.py").write_text(FILE)
    done = subprocess.run([sys.executable, "-m", "tests.torch_suite", str(tmp_path), "test_sums.py", "--jobs", "1", "--out",
                           str(tmp_path / "found.json")], cwd=Path(__file__).parents[2], capture_output=True, text=True)
    assert done.returncode == 1 and "| test_sums.py | 4 | 2 | 0 | 1 | 1 |" in done.stdout, done.stderr
    assert "test_sums.py::TestSumsCPU.test_on_the_cpu_alone_cpu: AssertionError" in done.stdout
    found = json.loads((tmp_path / "found.json").read_text())["tests"]
    assert {name.rpartition(".")[2] for name in found} == {
        "test_right_cpu_float32", "test_right_cpu_int64", "test_on_the_cpu_alone_cpu", "test_skipped_cpu"}


def test_a_folder_without_the_file(tmp_path):
    done = subprocess.run([sys.executable, "-m", "tests.torch_suite", str(tmp_path)], cwd=Path(__file__).parents[2],
                          capture_output=True, text=True)
    assert done.returncode == 2 and "give the folder test of a PyTorch checkout" in done.stderr


def test_each_function_comes_before_a_second_variant():
    tests = [f"TestCPU.test_{name}_cpu_{dtype}" for name in "abc" for dtype in ("float32", "int64", "bool")]
    assert sampled(tests, 3) == [f"TestCPU.test_{name}_cpu_float32" for name in "abc"] and sorted(sampled(tests, 1)) == sorted(tests)


@pytest.mark.parametrize("suffix", ["PRIVATEUSE1", "VGPU"])
def test_names_on_the_device(suffix):
    made = type("Test", (), {"__init__": lambda self, name: setattr(self, "name", name), "test_cpu_and_back_vgpu_float32": None})
    module = SimpleNamespace(**{f"TestSums{suffix}": made})
    assert on_the_device(module, "TestSumsCPU.test_cpu_and_back_cpu_float32")().name == "test_cpu_and_back_vgpu_float32"
    with pytest.raises(Skipped, match="for the CPU alone"):
        on_the_device(module, "TestSumsCPU.test_other_cpu")


def test_an_entry_covers_what_it_names():
    entry = Expected("test_x.py::*.test_a_*", "a reason", says="refuse")
    assert entry.covers("test_x.py::TestCPU.test_a_cpu", "RuntimeError: we refuse") and not entry.covers("test_x.py::TestCPU.test_a_cpu", "")
    assert not entry.covers("test_y.py::TestCPU.test_a_cpu", "we refuse") and all(each.reason for each in expected())
