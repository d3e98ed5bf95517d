"""The runner of ``make programs``; the programs themselves run there."""

import json
import subprocess
import sys

import pytest
import torch

from .. import ROOT
from . import Program, one
from .__main__ import BEGIN, END, PAGE, RECORD
from .table import PROGRAMS, table


def one_program(name):
    done = subprocess.run([sys.executable, "-m", "tests.programs.one", name], cwd=ROOT, capture_output=True, text=True, timeout=200)
    return json.loads(done.stdout)


def test_a_program_is_the_same_on_both():
    found = one_program("loops as in pytorch/examples/regression")
    assert found["outcome"] == "same" and found["kernels"] and found["waits"] and found["of_tolerance"] <= 1


@pytest.mark.parametrize("ours, same", [
    (torch.ones(3), True), (torch.ones(3) * (1 + 5e-5), True), (torch.ones(3) * 1.001, False), (torch.ones(3, dtype=torch.float64), False),
    (torch.ones(4), False), (torch.tensor([1.0, 1.0, float("nan")]), False), (1.0, False)])
def test_what_counts_as_the_same(ours, same):
    assert (one.difference(ours, torch.ones(3)) <= 1) == same


def test_whole_numbers_are_equal_or_not():
    assert one.difference(torch.arange(3), torch.arange(3)) == 0
    assert one.difference(torch.arange(3), torch.tensor([0, 1, 3])) == float("inf")


@pytest.mark.parametrize("result, outcome", [
    ({"x": torch.ones(2)}, "same"), (None, "differs"), (RuntimeError("no"), "error")])
def test_outcomes(result, outcome, monkeypatch):
    def run(device):
        if device.type == "vgpu" and isinstance(result, Exception):
            raise result
        return {"x": torch.ones(2, device=device) * (2 if result is None and device.type == "vgpu" else 1)}

    monkeypatch.setitem(PROGRAMS, "made up", Program("made up", "made up", run))
    assert one.run("made up")["outcome"] == outcome


def test_a_library_that_is_missing_is_said():
    assert Program("group", "name", None, ("torch", "no_such_library")).missing == ["no_such_library"]


def test_the_page_has_the_records_table():
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    page = PAGE.read_text(encoding="utf-8")
    assert page[page.index(BEGIN) + len(BEGIN):page.index(END)].strip() == table(record)
    assert set(record["programs"]) == set(PROGRAMS)
