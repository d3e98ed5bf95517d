"""The probe: it survives whatever an import does."""

import pytest

from gapless.commands.probe import probe

MODULES = {
    "probe_fine": "x = 1",
    "probe_raises": "raise OSError('a library is missing\\nsecond line')",
    "probe_exits": "raise SystemExit(3)",
    "probe_ends": "import os; os._exit(7)",
    "probe_noisy": "print('gapless-probe', end='')",
}


@pytest.fixture
def modules(tmp_path, monkeypatch):
    for name, source in MODULES.items():
        (tmp_path / f"{name}.py").write_text(source)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return tmp_path


def test_each_module_is_tried_whatever_those_before_it_do(modules):
    found = probe(["probe_ends", *MODULES, "probe_nowhere", "probe_fine"])
    assert found["probe_fine"] == {"error": None, "file": str(modules / "probe_fine.py")}
    assert found["probe_raises"]["error"] == "OSError: a library is missing"
    assert found["probe_exits"]["error"].startswith("SystemExit")
    assert found["probe_ends"]["error"] == "importing it ends Python (status 7)"
    assert found["probe_noisy"]["error"] is None
    assert "No module named 'probe_nowhere'" in found["probe_nowhere"]["error"]


def test_pytorch_and_the_course_tell_more(monkeypatch):
    monkeypatch.setenv("GAPLESS_DEVICE", "vgpu:t4")
    found = probe(["torch", "gapless"])
    assert {"cuda_build", "cuda", "why", "gpus"} <= set(found["torch"]) and bool(found["torch"]["gpus"]) == found["torch"]["cuda"]
    assert (found["gapless"]["device"], found["gapless"]["device_name"]) == ("vgpu:0", "Tesla T4")
    assert "02_masked_loss" in found["gapless"]["lessons"]


def test_a_device_that_is_not_there_is_told(monkeypatch):
    monkeypatch.setenv("GAPLESS_DEVICE", "gpu9000")
    found = probe(["gapless"])["gapless"]
    assert found["error"] is None and found["device"] is None and "gpu9000" in found["device_error"]
