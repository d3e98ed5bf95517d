"""The host's time by line, from made-up traces."""

import pytest

import gapless
from gapless.audit.host_lines import host_lines
from gapless.audit.places import Places
from gapless.evidence.what_if import LOADER, WhatIf


def event(category, name, start_us, duration_us, **args):
    return {"ph": "X", "cat": category, "name": name, "ts": start_us, "dur": duration_us, "pid": 1, "tid": 1, "args": args}


def kernel(correlation, start_us):
    return [event("cuda_runtime", "cudaLaunchKernel", start_us, 1, correlation=correlation),
            {**event("kernel", "k", start_us + 2, 1, correlation=correlation), "tid": 7, "pid": 0}]


def operator(line, start_us, duration_us, correlation):
    return [event("python_function", line, start_us, duration_us), event("cpu_op", "aten::add", start_us, duration_us),
            *kernel(correlation, start_us + 1)]


LIBRARY = "/site-packages/library/part.py({}): run, called at train.py:{}"


def lines(events, end_us, long_gaps_ns=None, begun_us=0.0):
    trace = gapless.Trace([event("user_annotation", "ProfilerStep#0", begun_us, end_us), *events])
    frames = [each["name"] for each in events if each["cat"] == "python_function"]
    found = host_lines(trace, WhatIf(trace), Places([*frames, *(long_gaps_ns or {})]), long_gaps_ns or {})
    return {each.location: (each.own_ms, each.operators_ms, each.launches) for each in found}


def test_a_gap_belongs_to_the_line_of_the_next_operator_and_a_long_one_to_where_the_program_was_seen():
    events = [*operator("train.py(3): main", 100, 20, 1), *operator("train.py(4): main", 320, 10, 2),
              *operator("train.py(5): main", 4330, 30, 3)]
    assert lines(events, 5000) == {"train.py:5": (4.0, 0.03, 1), "train.py:4": (0.2, 0.01, 1), "train.py:3": (0.1, 0.02, 1)}
    seen = {"train.py(9): other": 30, "train.py(8): other": 10}
    assert lines(events, 5000, seen) == {"train.py:9": (3.0, 0, 0), "train.py:8": (1.0, 0, 0), "train.py:4": (0.2, 0.01, 1),
                                         "train.py:3": (0.1, 0.02, 1)}  # 0.03 ms are less than a hundredth of all


@pytest.mark.parametrize("begun_ns", [0, 10**13 + 1])
def test_operators_one_right_after_the_other_are_two_wherever_the_clock_stands(begun_ns):
    events, at_ns = [], begun_ns + 100_001
    for number in range(50):
        events += operator("train.py(3): main", at_ns / 1e3, (7001 + number) / 1e3, number)
        at_ns += 7001 + number
    found = lines(events, 5000, begun_us=begun_ns / 1e3)["train.py:3"]
    assert found == (pytest.approx(0.1, abs=1e-3), pytest.approx((at_ns - begun_ns - 100_001) / 1e6, abs=1e-3), 50)


def test_what_workers_make_is_no_line_s():
    batch = event("user_annotation", f"{LOADER}_MultiProcessingDataLoaderIter.__next__", 50, 3000)
    assert lines([batch, *operator("train.py(3): main", 3100, 20, 1)], 5000) == {"train.py:3": (0.1, 0.02, 1)}


def test_a_library_s_lines_are_the_program_s_but_for_a_trainer_s():
    own = operator("train.py(3): main", 100, 20, 1)
    inside = operator(LIBRARY.format(80, 3), 220, 20, 2)
    assert lines([*own, *inside, *operator("train.py(4): main", 340, 40, 3)], 500) == {
        "train.py:3": (0.2, 0.04, 2), "train.py:4": (0.1, 0.04, 1)}
    trainer = [*operator(LIBRARY.format(80, 9), 100, 20, 1), *operator(LIBRARY.format(81, 9), 220, 20, 2)]
    assert list(lines(trainer, 500)) == ["library/part.py:80", "library/part.py:81"]


def test_a_file_of_that_name_elsewhere_is_not_shown(tmp_path, monkeypatch):
    (tmp_path / "train.py").write_text("import os\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert Places(["train.py(1): main"]).text("train.py:1") is None
    monkeypatch.chdir(tmp_path)
    assert Places(["train.py(1): main"]).text("train.py:1") == "import os"
