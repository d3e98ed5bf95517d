"""Records: measured or simulated, with everything the figures depend on."""

import importlib.util
import json

import pytest

from gapless.commands.cli import main

from .. import ROOT

SOLUTIONS = ROOT / "solutions"


@pytest.fixture(scope="module")
def record(tmp_path_factory):
    return make(tmp_path_factory.mktemp("record") / "new" / "a10g.json", "02_masked_loss")


def make(path, *lessons):
    chosen = [word for lesson in lessons for word in ("--lesson", lesson)]
    assert main(["record", "--device", "vgpu:a10g", *chosen, "--out", str(path), "--solutions", str(SOLUTIONS)]) == 0
    return json.loads(path.read_text())


def test_says_what_was_done_on_what(record):
    assert record["simulated"] is True and record["gpu"] == "NVIDIA A10G"
    assert record["versions"]["torch"] and record["date"] and "gapless record" in record["command"]


def test_syncs_fall_as_in_the_article_and_only_the_last_fix_saves_much_time(record):
    slow, where, unique, fixed = record["lessons"]["02_masked_loss"]
    assert slow["syncs"] > where["syncs"] > unique["syncs"] > fixed["syncs"] == 0
    assert slow["true_step_ms"] == pytest.approx(where["true_step_ms"], rel=0.05)
    assert unique["true_step_ms"] / fixed["true_step_ms"] > 1.3
    # The correction: unblocked, the profile shows the host's time, and the step takes far longer.
    assert fixed["host_step_ms"] < 10 < 100 < fixed["true_step_ms"]


def test_a_record_is_the_same_twice(record, tmp_path):
    again = make(tmp_path / "r.json", "02_masked_loss")["lessons"]
    assert again == {"02_masked_loss": record["lessons"]["02_masked_loss"]}


def test_raises_when_the_solution_is_not_there(tmp_path, capsys):
    assert main(["record", "--device", "vgpu", "--out", "-", "--solutions", str(tmp_path / "no")]) == 2
    assert "name the folder of the reference solutions with --solutions" in capsys.readouterr().err


def headlines():
    spec = importlib.util.spec_from_file_location("headlines", ROOT / "docs" / "headlines.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_of_headlines_shows_the_records():
    made = headlines()
    text = made.PAGE.read_text(encoding="utf-8")
    assert made.page(text) == text, "run make records"


def test_kept_records_are_what_is_simulated_today(record):
    """Another version of PyTorch may launch a kernel more or less."""
    kept = json.loads((ROOT / "records" / "simulated_a10g.json").read_text())["lessons"]
    for lesson, rows in record["lessons"].items():
        for was, now in zip(kept[lesson], rows, strict=True):
            assert (was["name"], was["syncs"]) == (now["name"], now["syncs"])
            assert now["true_step_ms"] == pytest.approx(was["true_step_ms"], rel=0.02)
