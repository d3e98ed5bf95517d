"""Several loaders of one program, apart."""

import pytest
import torch
from torch.utils.data import DataLoader

from gapless.audit.loaders import Loader, loaders, watched_loaders
from gapless.audit.remarks import _input
from gapless.evidence.traces.trace import Trace
from gapless.evidence.what_if import LOADER, WhatIf

from .test_audit import run

TWO = """
import time
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

class Items(Dataset):
    def __init__(self, seconds):
        self.seconds = seconds

    def __len__(self):
        return 4000

    def __getitem__(self, index):
        time.sleep(self.seconds)
        return torch.ones(8)

model = nn.Linear(8, 4).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
quick = DataLoader(Items(0.0), 4)
slow = DataLoader(Items(0.005), 4, num_workers=2)
with torch.no_grad():
    for x in DataLoader(Items(0.0), 1000):
        model(x.cuda())
for x, y in zip(quick, slow):
    model(x.cuda() + y.cuda()).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def test_found_once_for_each_line():
    found = []
    data = torch.ones(8, 2)
    with watched_loaders(found):
        for _ in range(2):  # a program may make its loader anew for each epoch
            list(DataLoader(data, 2))
        with torch.no_grad():
            iterator = iter(DataLoader(data, 4, pin_memory=False))
    assert [each["batch_size"] for each in found] == [2, 4] and [each["trains"] for each in found] == [True, False]
    assert all(each["at"].endswith(": test_found_once_for_each_line") and each["ahead"] == 0 for each in found)
    assert iterator._profile_name == f"{LOADER}_SingleProcessDataLoaderIter.__next__ (loader 1)"
    assert not iter(DataLoader(data))._profile_name.endswith(")")


@pytest.mark.slow
def test_the_slow_one_of_two_is_told_by_its_line(tmp_path):
    found = run(tmp_path, TWO, memory=False, counted=False)
    slow, quick = found.loaders
    assert slow.location.endswith("train.py:21") and quick.location.endswith("train.py:20")
    assert slow.line == "slow = DataLoader(Items(0.005), 4, num_workers=2)" and slow.num_workers == 2 and slow.wait_ms >= 20 and slow.batches == 1 and slow.trains
    assert quick.wait_ms == 0 and quick.fetch_ms == quick.work_ms and not quick.num_workers
    assert slow.costs_ms == pytest.approx(found.parts_ms["input"], rel=0.2) and found.bound == "input"
    assert "train.py:21: 2 workers cannot keep up" in found.remarks[0].title and found.remarks[0].costs_ms == slow.costs_ms


def step(number, *batches_us, rest_us=1000):
    """The events of a step that fetches batches, each (loader, microseconds)."""
    start = ts = number * 100_000
    events = []
    for loader, us in batches_us:
        name = f"{LOADER}_SingleProcessDataLoaderIter.__next__ (loader {loader})"
        events.append({"ph": "X", "cat": "user_annotation", "name": name, "ts": ts, "dur": us, "pid": 1, "tid": 1})
        ts += us
    events.append({"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{number}", "ts": start,
                   "dur": ts - start + rest_us, "pid": 1, "tid": 1})
    return events


def about(**changed):
    return {"at": "train.py(3): main", "num_workers": 0, "ahead": 0, "pin_memory": False, "batch_size": 4, "trains": True,
            "work_ms": [], "wait_ms": []} | changed


def test_what_each_costs_and_needs():
    trace = Trace(step(0, (0, 3000), (1, 500), (1, 500)))
    played = WhatIf(trace)
    workers = about(at="train.py(9): main", num_workers=1, work_ms=[1.0, 9.0, 2.0], wait_ms=[0.0, 0.0, 1.0], trains=False)

    def saved_ms(**left_out):
        return played.played_ms - played.ms(**left_out)

    def found(cores):
        facts = {"loaders": [about(), workers, about(at="train.py(12): unused")], "cores": cores}
        return loaders(trace, played, facts, saved_ms, 5.0)

    assert found(8) == [Loader("train.py:3", None, 0, False, True, 1.0, 3.0, 3.0, 0.0, 3.0, 2),
                        Loader("train.py:9", None, 1, False, False, 2.0, 0.5, 2.0, 0.0, 1.0, 1)]
    assert [each.needs for each in found(2)] == [None, 1]
    assert saved_ms(without={"input"}) == pytest.approx(4.0)


def test_words():
    first = Loader("a.py:3", None, 0, False, True, 1.0, 3.0, 3.0, 0.0, 3.0, 2)
    assert "the program makes batches itself, 3 ms each" in _input(first).title and "`num_workers=2`" in _input(first).what
    second = _input(Loader("a.py:3", None, 1, False, False, 1.0, 8.0, 3.0, 7.0, 3.0, None))
    assert second.title == ("a.py:3: 1 worker cannot keep up: evaluation's batches take 10 ms each, most of it waiting for a "
                            "disk, a network or a lock") and "too few cores" in second.what
    third = _input(Loader(None, None, 4, False, True, 1.0, 2.0, 3.0, 0.0, 2.0, 2))
    assert third.title == "batches are ready, but taking each over from its worker takes 2 ms"
