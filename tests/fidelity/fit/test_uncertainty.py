"""The uncertainty of predictions, and whether measured times are within it as often as it says."""

import collections
import json
import statistics

import pytest

from gapless.fidelity import measured
from gapless.fidelity.against_measured import points
from gapless.fidelity.fit import uncertainty as fit
from gapless.fidelity.measured import AllReduce, Network, Operator, Step
from gapless.vgpu.hardware.cards.fitted import FOLDER

SHIPPED = json.loads((FOLDER / "uncertainty.json").read_text(encoding="utf-8"))


def rows_of(*files):
    return [row for file in files for row in measured.read(measured.FOLDER / file)]


@pytest.mark.parametrize("row, name", [
    (Operator("t4", "", "bmm", (1, 1, 1, 1), 1.0), "matmul:float32"), (Operator("t4", "", "conv", (), 1.0), "convolution:float32"),
    (Operator("a40", "", "linear", (1, 1, 1, 1), 1.0, dtype="float16"), "matmul"), (Operator("t4", "", "gelu", (1, 1), 1.0), "pointwise"),
    (AllReduce("h100", "dgx_h100", 8, 8, 1024, 1.0), "collective"), (Step("t4", "opt_13", "inf", 1, 1, 1.0), "step"),
    (Network("rtx3090", "resnet18", "train", "channels_last", 1, 1, 1.0), "step")])
def test_what_a_row_tells(row, name):
    assert fit.name_of(row) == name and name in SHIPPED["shared"]


def test_four_fifths_of_other_measured_times_are_within():
    rows = rows_of("operators.csv.gz", "vidur_linear.csv.gz", "vidur_allreduce.csv.gz")[7::61]
    within = collections.defaultdict(list)
    for row, point in zip(rows, points(rows)):
        if point.predicted_ms is not None:
            within[fit.name_of(row)].append(point.is_within)
    assert len(within) == 7
    for name, found in within.items():
        assert len(found) > 50 and 0.7 < statistics.fmean(found) < 0.9, (name, statistics.fmean(found))


def test_a_fit_finds_each_cards_quantile_and_gives_others_twice_the_mean(monkeypatch):
    # Elementwise times that are known to miss: of ten on each card eight are nearer than 10 % or 30 %.
    made = [Operator(card, "", "add", (1 << 10, 1 << 12), 1.0, host=False) for card in ("t4", "l4", "a40") for _ in range(40)]
    off = {"t4": 0.1, "l4": 0.3, "a40": 0.9}
    ms = {card: next(iter(points([row for row in made if row.card == card][:1]))).predicted_ms for card in off}
    rows = [Operator(row.card, "", "add", row.sizes, ms[row.card] * (1 + off[row.card] * (number % 10 + 1) / 8), host=False)
            for number, row in enumerate(made)]
    found = fit.fit(rows, leave_out="a40")
    assert set(found["cards"]) == {"t4", "l4"} and set(found["shared"]) == {"pointwise"}
    assert found["cards"]["t4"]["pointwise"] == pytest.approx(0.1, rel=0.05)
    assert found["shared"]["pointwise"] == pytest.approx(0.4, rel=0.05)


@pytest.mark.slow
def test_the_shipped_constants_are_the_fit():
    assert SHIPPED["command"] == "gapless fit uncertainty"
    rows = rows_of("operators.csv.gz", "vidur_linear.csv.gz", "vidur_allreduce.csv.gz")[3::41]
    found = fit.fit(rows)
    for name, value in found["shared"].items():
        assert value == pytest.approx(SHIPPED["shared"][name], rel=0.35), name
