"""``gapless census``: what it prints and writes."""

import argparse
import json

from gapless.commands import census
from gapless.fidelity.idioms import IDIOMS, Idiom


def command(*arguments: str) -> int:
    parser = argparse.ArgumentParser()
    census.add_parser(parser.add_subparsers())
    parsed = parser.parse_args(["census", *arguments])
    return parsed.run(parsed)


def some(*names: str) -> dict[str, Idiom]:
    return {name: IDIOMS[name] for name in names}


FEW = ("item", "x[mask]", "bincount", "x[mask] = 1.0", "pinned, asked not to block", "pageable, asked not to block")


def test_prints_and_writes_what_it_found(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(census, "IDIOMS", some(*FEW))
    monkeypatch.setattr(census, "count", lambda device: _count(device, some(*FEW).values()))
    out = tmp_path / "new" / "census.json"
    assert command("--device", "vgpu:t4", "--out", str(out)) == 0
    text = capsys.readouterr().out
    assert "6 idioms on Tesla T4 (simulated): 6 as predicted, 0 not" in text
    record = json.loads(out.read_text())
    assert (record["simulated"], record["gpu"], record["idioms"], record["disagreements"]) == (True, "Tesla T4", 6, 0)
    assert [(f["name"], f["found"]) for f in record["findings"]] == list(zip(FEW, (1, 1, 2, 0, 0, 1)))
    assert record["versions"]["torch"]


_count = census.count


def test_a_disagreement_and_an_error_are_exit_1(monkeypatch, capsys):
    wrong = Idiom("g", "claims to wait", 1, lambda bag: bag.x + 1, "no reason", "nowhere")
    fails = Idiom("g", "raises", 0, lambda bag: bag.x @ bag.x, "none", "nowhere")
    monkeypatch.setattr(census, "count", lambda device: _count(device, [wrong, fails]))
    assert command("--device", "vgpu") == 1
    lines = capsys.readouterr().out.splitlines()
    assert any("claims to wait" in line and "differs; nowhere" in line for line in lines)
    assert any("raises" in line and "error" in line and "RuntimeError" in line for line in lines)
    assert lines[-1].endswith("0 as predicted, 2 not")


def test_json_is_nothing_but_json(monkeypatch, capsys):
    monkeypatch.setattr(census, "count", lambda device: _count(device, some("item").values()))
    assert command("--device", "vgpu", "--json") == 0
    assert json.loads(capsys.readouterr().out)["findings"][0]["name"] == "item"
