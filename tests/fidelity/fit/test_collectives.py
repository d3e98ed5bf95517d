"""The fit of collectives, and its errors on the measured rows."""

import collections
import json
import statistics

import pytest

from gapless.fidelity import measured, predict
from gapless.fidelity.fit import collectives as fit
from gapless.vgpu.hardware.cards.fitted import FOLDER


@pytest.fixture(scope="module")
def rows():
    return measured.read(measured.FOLDER / "vidur_allreduce.csv.gz")


def test_errors_by_machine_and_number_of_cards(rows):
    errors = collections.defaultdict(list)
    for row, predicted_ms in zip(rows, predict.all_reduce_ms(rows)):
        if predicted_ms is None:
            assert row.gpus > row.on_each
        else:
            errors[row.machine, row.gpus].append((row.nbytes, abs(predicted_ms / row.ms - 1)))
    assert len(errors) == 10
    for found in errors.values():
        assert statistics.fmean(error for nbytes, error in found if nbytes >= 2**20) < 0.1
        assert statistics.fmean(error for nbytes, error in found if 2**11 <= nbytes <= 2**26) < 0.15


def test_the_shipped_constants_are_the_fit(rows):
    file = json.loads((FOLDER / "collectives.json").read_text(encoding="utf-8"))
    found = fit.fit(rows[::5])
    assert file["command"] == "gapless fit collectives" and set(file["shared"]) == set(found["shared"])
    for name, value in found["shared"].items():
        assert value == pytest.approx(file["shared"][name], rel=0.2 if name.endswith("_us") else 0.05)


def test_pairs_left_out_are_predicted_by_the_others(rows, monkeypatch):
    left_out = [row for row in rows if row.machine == "pairs_a100"][::5]
    known = fit.fit(rows, leave_out="a100_80gb_pcie")["shared"]
    monkeypatch.setattr("gapless.vgpu.hardware.times.interconnect.constants", lambda model: known)
    assert statistics.fmean(abs(ms / row.ms - 1) for row, ms in zip(left_out, predict.all_reduce_ms(left_out))) < 0.12
