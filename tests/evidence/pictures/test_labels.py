from gapless.evidence.pictures.labels import place_labels
from gapless.evidence.pictures.scene import Wait


def test_labels_stay_apart():
    waits = [Wait(i, 0.3 + i / 1_000, f"cudaStreamSynchronize  {0.3 + i / 1_000:.2g} ms") for i in range(1, 80)]
    labels = place_labels(waits, 1, 100.0)
    assert labels
    for label in labels:
        for other in labels:
            if label is not other and label.level == other.level:
                assert label.right_ms < other.left_ms or other.right_ms < label.left_ms
    assert any("0.38 ms" in label.text for label in labels)  # the longest keeps its label


def test_a_label_with_room_lies_in_its_bar():
    (label,) = place_labels([Wait(10.0, 80.0, "aten::item  80 ms")], 1, 100.0)
    assert label.level == -1 and label.middle_ms == 50.0


def test_a_wait_that_nobody_can_see_has_no_label():
    assert not place_labels([Wait(10.0, 0.1, "aten::item  0.1 ms")], 1, 100.0)
