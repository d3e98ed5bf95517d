"""The fits of the kernel models, and how well they predict what was measured (NeuSight's data, shipped)."""

import json
import statistics
from collections import defaultdict

import pytest

from gapless.fidelity import hosts, measured, predict
from gapless.fidelity.fit import streaming
from gapless.vgpu.hardware.cards import fitted

MEMORY_BOUND = {"softmax": "softmax", "ln": "layer norm"}


@pytest.fixture(scope="module")
def operators():
    return measured.read(measured.FOLDER / "operators.csv.gz")


@pytest.fixture(scope="module")
def memory_bound(operators):
    return [row for row in operators if row.op not in ("bmm", "linear", "conv")]


# -- streaming ------------------------------------------------------------------------------------------


def test_memory_bound_operators_are_predicted_within_6_percent_on_every_card(memory_bound):
    rows = [row for row in memory_bound if row.part == "test"]
    errors = defaultdict(list)
    for row, predicted in zip(rows, predict.operator_ms(rows)):
        errors[row.card, MEMORY_BOUND.get(row.op, "elementwise")].append(abs(predicted / row.ms - 1))
    assert len(errors) == 5 * 3
    for group, found in errors.items():
        assert statistics.fmean(found) < (0.03 if group[1] == "elementwise" else 0.06), group


def test_large_sizes_of_the_part_that_was_fitted_hold_too(memory_bound):
    rows = [row for row in memory_bound if row.part == "train" and row.ms > 0.1 and row.op not in MEMORY_BOUND][::40]
    errors = defaultdict(list)
    for row, predicted in zip(rows, predict.operator_ms(rows)):
        errors[row.card].append(abs(predicted / row.ms - 1))
    assert set(errors) == {"t4", "v100_pcie", "a100_pcie"} and max(map(statistics.fmean, errors.values())) < 0.04


@pytest.fixture(scope="module")
def few(memory_bound):
    """All of the part ``test``, a fifth of the other."""
    return [row for row in memory_bound if row.part == "test"] + [row for row in memory_bound if row.part == "train"][::5]


def test_the_shipped_constants_are_those_of_the_fit(few):
    shipped = json.loads((fitted.FOLDER / "streaming.json").read_text())
    again = streaming.fit(few)
    assert again["shared"].keys() == shipped["shared"].keys() and again["cards"].keys() == shipped["cards"].keys()
    for card, own in shipped["cards"].items():
        for name in ("pointwise", "normalization"):
            assert again["cards"][card][name] == pytest.approx(own[name], rel=0.03), (card, name)


def test_a_card_left_out_has_no_constants_of_its_own(few):
    found = streaming.fit([row for row in few if row.card in ("t4", "l4", "v100_pcie")], leave_out="t4")
    assert set(found["cards"]) == {"l4", "v100_pcie"}
    assert found["shared"]["gddr"] == found["cards"]["l4"]["pointwise"]
    sheet = 0.7464  # what the T4's own rows say
    assert found["shared"]["gddr"] == pytest.approx(sheet, rel=0.06)


def test_the_hosts_are_kept_beside_the_data(few):
    (path, value), = streaming.beside(few).items()
    assert path == measured.FOLDER / hosts.FILE
    assert value["devices"].keys() == {row.device for row in few}
