"""The pictures of several ranks: what they show, in words too, and nothing by colour alone."""

import sys

import numpy as np
import pytest

from gapless import views
from gapless.evidence.pictures.figure import _figure_type

from ..rank_events import real_ranks
from ..rank_runs import COMPUTE, rank_run


@pytest.fixture(scope="module")
def traces():
    return rank_run(np.random.default_rng(1), COMPUTE, world=3, waits=True, grid=1, distracted=False, skew=np.array([0, 9e4, -4e5])).traces


def shown(panel):
    """(left, width, hatch) of each bar, row by row from above."""
    found = [(each.get_y(), each.get_x(), each.get_width(), each.get_hatch()) for each in [*panel.patches, *panel.artists]
             if hasattr(each, "get_width") and each.get_width() > 0]
    return sorted(found)


def test_a_ranks_bars_add_up_to_its_step(traces):
    view = views.distributed_view(traces)
    figure = views.distributed_picture(view)
    steps, communication = figure.axes
    for row in view.times:
        widths = [width for top, _, width, _ in shown(steps) if round(top + 0.33) == row.rank]
        assert sum(widths) == pytest.approx(row.total_us / 1e3)
    for row in view.waiting:
        widths = [width for top, _, width, _ in shown(communication) if round(top + 0.33) == row.rank]
        assert sum(widths) == pytest.approx((row.transfer_us + row.waiting_us) / 1e3)
    assert [label.get_text() for label in steps.get_yticklabels()] == ["rank 0", "rank 1", "rank 2"]
    assert steps.get_title(loc="left") == "a step – simulated made-up GPU"


def test_kinds_differ_by_their_hatches(traces):
    for figure in (views.distributed_picture(traces), views.ranks_picture(traces)):
        patches = figure.legends[0].get_patches()
        looks = [(patch.get_hatch(), patch.get_facecolor()[3]) for patch in patches]  # grey printers show opacity too
        assert len(set(looks)) == len(looks) == len(figure.legends[0].get_texts())


def test_the_words_say_who_waits(traces):
    found = views.straggler(traces)
    alt = views.ranks_picture(traces).alt
    assert alt.startswith("Step 1 of 3 ranks on one time scale, simulated made-up GPU: rank 0 computes for ")
    assert f"rank {found.rank} computes for {found.ranks[found.rank].computing_us / 1e3:.1f}" in alt
    assert f"rank {found.rank}" in views.distributed_picture(traces).alt


def test_clocks_that_disagree_are_put_right(traces):
    ax, = views.ranks_picture(traces, step=2).axes
    data = {}
    for top, left, width, hatch in shown(ax):
        if hatch == "xxxx":
            data.setdefault(int(top), []).append((left, width))
    assert len(data) == 3
    np.testing.assert_allclose(data[1], data[0], atol=2e-3)
    np.testing.assert_allclose(data[2], data[0], atol=2e-3)
    assert ax.get_xlim()[1] < 1000  # and not as wide as the clocks are apart


def test_a_step_that_is_not_there_is_said(traces):
    with pytest.raises(ValueError, match="no step 77 is on every rank; there are 0, 1, 2"):
        views.ranks_picture(traces, step=77)


def test_ranks_without_waiting_have_one_panel():
    panel, = views.distributed_picture(real_ranks(), partial=True).axes
    assert len(panel.get_yticklabels()) == 2


def test_without_matplotlib_the_tables_are_printed(traces, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    _figure_type.cache_clear()
    assert views.distributed_picture(traces) is None and views.ranks_picture(traces) is None
    printed = capsys.readouterr().out
    assert "nccl:all_reduce" in printed and "Step 1 of 3 ranks" in printed
    _figure_type.cache_clear()
