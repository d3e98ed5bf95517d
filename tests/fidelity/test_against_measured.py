"""Predictions beside measured times."""

import pytest

from gapless.fidelity.against_measured import Point, alt, kind_of, picture, points, summary, table
from gapless.fidelity.measured import Network, Operator, Step

POINTS = [Point("t4", "elementwise", 1.0, 1.1, 0.1), Point("t4", "elementwise", 0.05, 0.04, 0.2), Point("t4", "elementwise", 2.0, None),
          Point("l4", "convolutions", 2.0, None), Point("l4", "elementwise", 0.01, 0.02)]


@pytest.mark.parametrize("row, kind", [
    (Operator("t4", "", "gelu", (1, 1), 1.0), "elementwise"), (Operator("t4", "", "ln", (1, 1), 1.0), "softmax, layer norm"),
    (Operator("t4", "", "linear", (1, 1, 1, 1), 1.0), "matrix products"),
    (Step("t4", "opt_13", "inf", 1, 1, 1.0), "transformer steps"),
    (Step("t4", "opt_13", "inf", 1, 1, 1.0, True), "transformer steps, compiled"),
    (Network("rtx3090", "resnet18", "train", "channels_last", 1, 1, 1.0), "networks, train, channels_last"),
])
def test_kinds(row, kind):
    assert kind_of(row) == kind


def test_errors_by_kind_and_card():
    found = {(line["kind"], line["card"]): line for line in summary(POINTS)}
    line = found["elementwise", "t4"]
    assert (line["rows"], line["left_out"]) == (3, 1)
    assert line["mean_abs_error"] == pytest.approx(0.15) and line["mean_error"] == pytest.approx(-0.05)
    assert line["mean_abs_error_long"] == pytest.approx(0.1)
    assert found["elementwise", "l4"]["mean_abs_error_long"] is None
    text = table(summary(POINTS))
    assert line["uncertainty"] == pytest.approx(0.15) and line["within"] == 0.5, "1 is within 1.1 ± 10 %, 0.05 not in 0.04 ± 20 %"
    assert "15.0% (-5%), 2, 50% in ± 15%" in text and "none of 1" in text and "–" in text
    assert len({len(line) for line in text.splitlines()}) == 1


def test_a_picture_has_a_panel_a_card_and_words():
    pytest.importorskip("matplotlib")
    figure = picture(POINTS)
    assert [axes.get_title() for axes in figure.axes] == ["l4", "t4"]
    assert "l4, t4" in alt(summary(POINTS)) and "100%" in alt(summary(POINTS))


def test_rows_of_all_sorts_are_predicted_in_their_order(capsys):
    pytest.importorskip("transformers")
    rows = [Operator("t4", "", "add", (1000, 1000), 0.1), Step("t4", "opt_13", "inf", 128, 1, 50.0),
            Step("t4", "opt_13", "train", 2048, 8, 50.0), Operator("l4", "", "add", (1000, 1000), 0.1)]
    found = list(points(rows))
    assert [point.card for point in found] == ["t4", "t4", "t4", "l4"]
    assert found[2].predicted_ms is None, "1.3 billion parameters with gradients and activations in 16 GiB"
    assert all(0 < point.uncertainty < 0.5 for point in found if point.predicted_ms)
    assert found[1].predicted_ms > 2 * 1.3e9 * 128 / 8.1e12 * 1e3
    assert list(points([])) == []
