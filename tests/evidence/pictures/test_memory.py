import sys

import pytest

from gapless import memory_picture

from ..traces.test_memory import one_step


def test_one_recording_says_in_words_what_it_shows():
    figure = memory_picture(one_step())
    assert figure.alt == ("Memory over time, simulated a card. The peak is 16.5 KiB, 0.04 ms after the step's start: "
                          "activations 8 KiB, from before 4 KiB, workspaces 3 KiB, parameters 1 KiB, inputs 512 bytes.")
    panel, = figure.axes
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names[0] == "parameters" and "temporary" in names
    hatches = [patch.get_hatch() for patch in figure.legends[0].get_patches()]
    assert len(set(hatches)) == len(hatches)  # nothing by colour alone
    assert panel.get_ylabel() == "KiB"


def test_two_recordings_share_their_scale():
    figure = memory_picture(one_step(), one_step())
    before, after = figure.axes
    assert before.get_ylim() == after.get_ylim()
    assert figure.alt.startswith("Before: ") and " After: " in figure.alt
    assert before.get_title(loc="left") == "before – simulated a card"


def test_without_matplotlib_the_tables_are_printed(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    from gapless.evidence.pictures.figure import _figure_type

    _figure_type.cache_clear()
    assert memory_picture(one_step(), one_step()) is None
    assert capsys.readouterr().out.count("peak 0.02 MiB") == 2
    _figure_type.cache_clear()


def test_what_is_no_such_trace_is_an_error():
    trace = one_step()
    trace.metadata.clear()
    with pytest.raises(ValueError, match="gapless.memory_profile"):
        memory_picture(trace)
