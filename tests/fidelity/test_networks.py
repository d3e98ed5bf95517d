import statistics

import pytest

from gapless.fidelity import measured, networks
from gapless.fidelity.measured import MeasuredError, Network

pytest.importorskip("timm")


@pytest.fixture(scope="module")
def shipped():
    return {(row.card, row.mode, row.format, row.model, row.image): row
            for row in measured.read(measured.FOLDER / "timm.csv") if not row.compiled}


# Small ones of several kinds: dense, grouped and depthwise convolutions, attention.
MODELS = ("resnet50", "vit_base_patch16_224", "convnext_tiny", "resnext50_32x4d", "densenet121")


@pytest.mark.slow
def test_shipped_rows_are_predicted_within_the_bar_on_average(shipped):
    groups = {key[:3] for key in shipped}
    assert len(groups) == 6
    for group in sorted(groups):
        rows = [row for key, row in shipped.items() if key[:3] == group and row.model in MODELS and row.image == 224]
        assert len(rows) >= 4
        errors = [abs(found.ms / row.ms - 1) for found, row in zip(networks.predicted(rows), rows)]
        assert statistics.fmean(errors) < 0.15, (group, errors)


def test_one_row_and_many_agree(shipped):
    row = shipped["rtx3090", "train", "channels_last", "resnet50", 224]
    alone = networks.predict_ms(row.card, row.model, row.batch, row.image, row.mode, row.format)
    assert [found.ms for found in networks.predicted([row])] == [alone]


def test_rows_come_in_their_order_and_what_is_unknown_has_none():
    rows = [Network("rtx3090", name, "infer", "contiguous", 8, 224, 1.0, compiled)
            for name, compiled in (("resnet18", False), ("no_such_network", False), ("resnet18", True), ("resnet10t", False))]
    found = list(networks.predicted(rows))
    assert found[1] is None
    assert found[0].ms > found[2].ms > 0 and found[0].ms > found[3].ms > 0
    assert all(0.05 < each.uncertainty < 0.4 for each in found if each)


def test_a_larger_batch_takes_longer_and_training_longer_than_inference():
    times = [networks.predict_ms("rtx4090", "resnet18", batch, 224, mode, "channels_last")
             for batch, mode in ((64, "infer"), (128, "infer"), (128, "train"))]
    assert times == sorted(times) and times[1] > 1.5 * times[0]


def test_an_unknown_network_is_named():
    with pytest.raises(MeasuredError, match="no_such_network"):
        networks.predict_ms("rtx3090", "no_such_network", 8, 224, "infer", "contiguous")
