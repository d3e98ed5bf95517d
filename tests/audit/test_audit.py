"""Runs of scripts in processes of their own, and what they leave."""

import dataclasses
import os
import re
import time

import pytest

from gapless.audit.audit import _otherwise, audit
from gapless.audit.launch import AuditError, _environment
from gapless.audit.options import FACTS, MEMORY, TRACE, Options

from .scripts import HEAD, WAITING


def run(folder, source, **options):
    (folder / "train.py").write_text(source)
    kept = folder / "kept"
    kept.mkdir()
    return audit(str(folder / "train.py"), [], str(kept), device="vgpu:a100", **{"counted": True, **options})


def test_options_go_to_the_process_and_back():
    options = Options("a b.py", ("--x", "ü"), "/folder", steps=7, device="vgpu:t4", on_cpu=True)
    assert Options.from_json(options.to_json()) == options


@pytest.mark.parametrize("device, variable, hidden", [("vgpu:a100", None, True), (None, "vgpu", True), ("cuda", "vgpu", False),
                                                      (None, None, False)])
def test_a_real_gpu_is_out_of_sight_where_the_virtual_one_is_named(monkeypatch, device, variable, hidden):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setenv("GAPLESS_DEVICE", variable or "")
    assert ("CUDA_VISIBLE_DEVICES" in _environment(device)) == hidden


@pytest.mark.slow
def test_the_whole_of_a_run(tmp_path, capfd):
    found = run(tmp_path, WAITING, steps=4, warm_up=2)
    assert re.search(r"about \d+ s for 6 more steps \(", capfd.readouterr().err)
    assert found.report.steps == 4 and found.facts["steps_seen"] == 8 and found.facts["end"] == "done"
    assert found.step_ms == pytest.approx(found.report.host_step_ms, rel=0.1)
    assert {path.name for path in (tmp_path / "kept").iterdir()} == {TRACE, MEMORY, FACTS}
    rows = {row.category: row for row in found.memory.rows}
    parameters = 4 * (8 * 32 + 32 + 32 * 4 + 4)
    assert parameters <= rows["parameters"].at_peak_bytes == rows["gradients"].most_bytes <= parameters + 4 * 512
    assert "optimizer state" not in rows and found.memory.peak_bytes >= 2 * parameters


@pytest.mark.slow
def test_it_is_the_same_every_time(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    once, again = (run(tmp_path / name, WAITING, memory=False) for name in "ab")
    assert once.step_ms == again.step_ms and once.parts_ms == again.parts_ms


@pytest.mark.slow
def test_a_script_that_does_not_let_itself_be_ended(tmp_path):
    source = HEAD + """
while True:
    try:
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    except:
        pass
"""
    assert run(tmp_path, source, memory=False).facts["stopped"]


@pytest.mark.slow
def test_finally_blocks_run_and_workers_end(tmp_path):
    source = HEAD + """
import os
from torch.utils.data import DataLoader, TensorDataset

data = TensorDataset(torch.randn(512, 8), torch.randint(4, (512,)))
try:
    for a, b in DataLoader(data, 16, num_workers=2, pin_memory=True):
        loss = F.cross_entropy(model(a.cuda(non_blocking=True)), b.cuda(non_blocking=True))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
finally:
    open("ended.txt", "w").write(str(os.getpgid(0)))
"""
    before = os.getcwd()
    os.chdir(tmp_path)
    try:
        found = run(tmp_path, source, memory=False)
    finally:
        os.chdir(before)
    (loader,) = found.facts["loaders"]
    assert loader["num_workers"] == 2 and loader["ahead"] == 4 and loader["pin_memory"] and loader["batch_size"] == 16
    assert found.facts["warm_up"] == 3 + 4 and not found.waits
    group = int((tmp_path / "ended.txt").read_text())
    with pytest.raises(ProcessLookupError):
        os.killpg(group, 0)


@pytest.mark.slow
def test_a_script_that_takes_too_long(tmp_path):
    began = time.monotonic()
    with pytest.raises(AuditError, match="within 4 s"):
        run(tmp_path, "import subprocess, sys, time\nsubprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
            "time.sleep(60)", time_limit_s=4)
    assert time.monotonic() - began < 20


@pytest.mark.slow
def test_processes_of_the_script_s_own_have_no_virtual_gpu(tmp_path):
    source = ("import torch.multiprocessing as mp\n\ndef work():\n    pass\n\nif __name__ == '__main__':\n"
              "    process = mp.Process(target=work)\n    process.start()\n    process.join()\n")
    with pytest.raises(AuditError, match="It has started processes of its own"):
        run(tmp_path, source)


@pytest.mark.slow
def test_a_script_for_a_launcher_that_only_evaluates_and_soon_ends(tmp_path, capfd):
    """It is run anew for each of these, until there is something to tell."""
    source = """
import os
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

def work(rank, steps):
    dist.init_process_group("nccl")
    model = torch.nn.Linear(8, 8).cuda(rank)
    with torch.no_grad():
        for _ in range(steps):
            print(model(torch.ones(4, 8, device="cuda")).sum().item())

if __name__ == "__main__":
    assert int(os.environ["LOCAL_RANK"]) == 0
    mp.spawn(work, args=(4,), nprocs=torch.cuda.device_count())
"""
    found = run(tmp_path, source)
    assert found.facts["kind"] == "forward()" and found.report.steps == 3 and found.facts["warm_up"] == 1
    wait, = found.waits
    assert (wait.operator, wait.times) == ("aten::item", 1) and wait.location.endswith("train.py:12")
    said = capfd.readouterr().err
    assert said.count("once more so") == 3 and "torchrun's only process" in said and "forward pass" in said


OTHERWISE = {"state": "no step", "end": "returned", "steps_seen": 0, "launches": 5, "started": 0, "loaders": []}


@pytest.mark.parametrize("told, other", [
    ({"steps_seen": 2}, {"steps": 1, "warm_up": 1, "memory": False}),
    ({"steps_seen": 4}, {"steps": 3, "warm_up": 1, "memory": False}),
    ({"steps_seen": 9}, {"steps": 3, "warm_up": 3, "memory": True}),
    ({"steps_seen": 1}, None), ({"launches": 0}, None), ({"started": 1}, None), ({"state": "recorded"}, None),
    ({"end": "interrupted", "steps_seen": 4}, None),
    ({"end": "failed", "error": {"message": "'LOCAL_RANK'"}}, {"launched": True}),
    ({"end": "failed", "error": {"message": "environment variable RANK expected, but not set"}}, {"launched": True}),
    ({"end": "failed", "error": {"message": "'DATA_ROOT'"}}, None)])
def test_what_else_a_run_is_asked_for(told, other):
    options = Options("train.py", (), "/folder")
    found = _otherwise(options, OTHERWISE | told)
    assert found is other is None or found[0] == dataclasses.replace(options, **other)


def test_what_was_asked_for_is_not_asked_again():
    asked = Options("train.py", (), "/folder", warm_up=1, forward=True, launched=True)
    for told in ({"steps_seen": 2}, {}, {"end": "failed", "error": {"message": "'RANK'"}}):
        assert _otherwise(asked, OTHERWISE | told) is None


@pytest.mark.slow
def test_a_step_that_is_a_graph(tmp_path):
    """Its warm-up steps, outside the graph, are not what is recorded."""
    source = HEAD + """
def step():
    optimizer.zero_grad()
    F.cross_entropy(model(x), y).backward()
    optimizer.step()

side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    for _ in range(5):
        step()
torch.cuda.current_stream().wait_stream(side)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    step()
while True:
    graph.replay()
"""
    found = run(tmp_path, source)
    assert found.facts["kind"] == "CUDAGraph.replay()" and found.report.launches == 1 and found.report.kernels > 10
    assert found.report.steps == 3 and not found.waits and found.memory is None


@pytest.mark.slow
def test_an_optimizer_whose_step_is_compiled(tmp_path):
    source = WAITING.replace("optimizer.step()", "compiled()")
    source = source.replace("for step", "compiled = torch.compile(lambda: optimizer.step())\nfor step")
    found = run(tmp_path, source, memory=False, steps=2, warm_up=2)
    assert found.facts["kind"] == "optimizer.step()" and found.facts["end"] == "done"


def test_an_error_after_the_recorded_steps_is_only_said(tmp_path, capfd):
    source = WAITING.replace("for step in range(50):", "try:\n  for step in range(50):").replace("\n    ", "\n      ")
    source = source.replace('raise SystemExit("never reached")', 'finally:\n  raise OSError("no room for the checkpoint")')
    found = run(tmp_path, source, memory=False)
    assert found.facts["end"] in ("done", "failed") and found.report.steps == 3


@pytest.mark.slow
def test_what_the_program_really_waits_for_is_on_the_clock_at_its_line(tmp_path):
    found = run(tmp_path, HEAD + """
import time
from torch.utils.data import DataLoader

class Slow(torch.utils.data.Dataset):
    def __len__(self):
        return 100

    def __getitem__(self, index):
        time.sleep(0.03)
        return torch.ones(8)

model = torch.nn.Linear(8, 8).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in DataLoader(Slow(), batch_size=2, num_workers=2):
    model(x.cuda()).sum().backward()
    optimizer.step()
    time.sleep(0.2)
""", counted=False, memory=False)
    # Two workers make 4 numbers in 60 ms, a step's sleep hides that.
    assert found.bound == "host" and found.step_ms >= 200 and found.facts["host"] == "measured"
    assert found.host[0].line == "time.sleep(0.2)" and found.host[0].what.startswith("It sleeps")
