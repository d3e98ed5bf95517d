"""Does `gapless audit` name what slows a program down, and by how much? Programs with one planted cause each.

    python benchmarks/audit_verdicts.py [--only sleep lock] [--card a10g]

A cause of the host's or the input's is a function of the program's own. What it takes by itself, measured without any
device, is the truth for what the audit says: the milliseconds of its lines, or of the input. Where the step itself is the
cause, only the verdict is compared. Times are this machine's: run it on an idle one.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

HEAD = """
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

{setup}

if __name__ == "__main__":
    torch.manual_seed(0)
"""
STEP = """
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
IN_THE_LOOP = HEAD + """
    model = nn.Sequential(nn.Linear(200, 200), nn.ReLU(), nn.Linear(200, 10)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x = torch.ones(64, 200).cuda()
    for _ in range(100):
        loss = model(x).square().mean()""" + STEP + """
        cause()
"""
FROM_A_LOADER = HEAD + """
    model = nn.Linear(items[0].numel(), 10).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for x in DataLoader(items, batch_size=16, num_workers={workers}):
        loss = model(x.cuda().flatten(1)).square().mean()""" + STEP
WHOLE = HEAD + """
    model = {model}.cuda()
    optimizer = {optimizer}
    x = torch.ones({shape}).cuda()
    for _ in range(100):
        loss = {loss}""" + STEP
ITEMS = """
class Items(Dataset):
    def __len__(self):
        return 4000

    def __getitem__(self, index):
        {item}

items = Items()

def cause():
    return [items[index] for index in range(16)]
"""
TRUTH = """
import importlib, statistics, sys, time
sys.path.insert(0, sys.argv[1])
cause = importlib.import_module(sys.argv[2]).cause
times = []
for _ in range(12):
    start = time.perf_counter()
    cause()
    times.append(time.perf_counter() - start)
print(statistics.median(times[2:]) * 1e3)
"""


@dataclass(frozen=True)
class Program:
    """``bound``: the right verdict. ``workers`` share what the cause takes; None: it is in the loop, in one of ``every``
    steps."""

    bound: str
    text: str
    workers: int | None = None
    has_truth: bool = True
    every: int = 1


def in_the_loop(setup: str, every: int = 1) -> Program:
    """The loop calls ``cause()``, in one of so many steps."""
    text = IN_THE_LOOP.format(setup=setup)
    if every == 1:
        return Program("host", text)
    text = text.replace("for _ in range(100)", "for step in range(10_000)")
    text = text.replace("        cause()", f"        if step % {every} == 0:\n            cause()")
    return Program("seldom", text, every=every)


def from_a_loader(item: str, workers: int, before: str = "") -> Program:
    """A loader's dataset runs ``item``."""
    setup = before + ITEMS.format(item=item.replace("\n", "\n        "))
    return Program("input", FROM_A_LOADER.format(setup=setup, workers=workers), workers)


def whole(bound: str, model: str, optimizer: str, shape: str, loss: str = "model(x).square().mean()", setup: str = ""
          ) -> Program:
    """The cause is the step itself."""
    text = WHOLE.format(model=model, optimizer=optimizer, shape=shape, loss=loss, setup=setup)
    return Program(bound, text, has_truth=False)


NOISE = """rng = np.random.default_rng(index)
return torch.from_numpy(sum(rng.normal(0, 1, 20_000) for _ in range(5)).astype(np.float32))"""
JPEG = """
import io
import numpy as np
from PIL import Image
pixels = np.random.default_rng(0).integers(0, 255, (256, 256, 3), dtype=np.uint8)
packed = io.BytesIO()
Image.fromarray(pixels).save(packed, "JPEG")
"""
DECODE = """image = Image.open(io.BytesIO(packed.getvalue())).resize((64, 64))
return torch.from_numpy(np.asarray(image, dtype=np.float32))"""
CHECKPOINT = """
import os
import tempfile
state = {name: torch.ones(500, 500) for name in "abcdefgh"}

def cause():
    with tempfile.TemporaryFile() as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
"""
SGD, ADAM = "torch.optim.SGD(model.parameters(), lr=0.01)", "torch.optim.Adam(model.parameters(), foreach=False)"

PROGRAMS = {
    "numpy": in_the_loop("""
import numpy as np
rng = np.random.default_rng(0)
images = rng.normal(0, 1, (64, 3, 32, 32))

def cause():
    found = images
    for _ in range(8):
        found = np.roll(found, rng.integers(5), axis=2) + rng.normal(0, 0.01, images.shape)
    return torch.from_numpy(found.astype(np.float32))
"""),
    "sleep": in_the_loop("""
import time

def cause():
    time.sleep(0.02)
"""),
    "checkpoint": in_the_loop(CHECKPOINT),
    "lock": in_the_loop("""
import threading
import time
turns = threading.Semaphore(0)

def other():
    while True:
        time.sleep(0.03)
        turns.release()

def cause():
    while turns.acquire(blocking=False):
        pass
    turns.acquire()

threading.Thread(target=other, daemon=True).start()
"""),
    "tokenizer": in_the_loop("""
import re
texts = ["The quick brown fox, as they say, jumps over the lazy dog's back. " * 50] * 32
vocabulary: dict[str, int] = {}

def cause():
    for text in texts:
        words = re.findall(r"[a-z]+|[^a-z ]", text.lower())
        [vocabulary.setdefault(word, len(vocabulary)) for word in words]
"""),
    "decompress": in_the_loop("""
import zlib
import numpy as np
packed = zlib.compress(np.random.default_rng(0).integers(0, 8, 2_000_000, dtype=np.uint8).tobytes())

def cause():
    return np.frombuffer(zlib.decompress(packed), dtype=np.uint8)
"""),
    "logging": in_the_loop("""
import json
import tempfile
log = tempfile.TemporaryFile("w")
values = [index / 7 for index in range(20_000)]

def cause():
    log.write(json.dumps({"values": values}))
    log.flush()
"""),
    "environment": in_the_loop("""
import numpy as np
rng = np.random.default_rng(0)
position = np.zeros(8)

def cause():
    global position
    for _ in range(300):
        force = np.tanh(position @ np.ones((8, 8)) * 0.1)
        position = np.clip(position + 0.01 * force + rng.normal(0, 0.1, 8), -1, 1)
"""),
    "garbage": in_the_loop("""
import gc
kept = [[index] for index in range(3_000_000)]

def cause():
    gc.collect()
"""),
    "subprocess": in_the_loop("""
import subprocess
import sys

def cause():
    subprocess.run([sys.executable, "-S", "-c", ""], check=True)
"""),
    "thread": in_the_loop("""
import threading

def work():
    found = 0
    for index in range(300_000):
        found += index * index

def cause():
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
"""),
    "checkpoint_now_and_then": in_the_loop(CHECKPOINT, every=10),
    "metrics_now_and_then": in_the_loop("""
import numpy as np
scores, labels = np.random.default_rng(0).random(300_000), np.arange(300_000) % 2

def cause():
    order = np.argsort(scores)
    return np.trapezoid(np.cumsum(labels[order]), np.cumsum(1 - labels[order]))
""", every=20),
    "operators_on_the_cpu": in_the_loop("""
pool = torch.randn(1000, 1000)

def cause():
    return (pool @ pool).softmax(1).topk(10).indices
"""),
    "hashes": in_the_loop("""
import hashlib
blob = bytes(4_000_000)

def cause():
    return hashlib.sha256(blob).hexdigest()
"""),
    "socket": in_the_loop("""
import socket
import threading
import time
here, there = socket.socketpair()

def answer():
    while there.recv(1):
        time.sleep(0.01)
        there.sendall(b"x" * 10_000)

threading.Thread(target=answer, daemon=True).start()

def cause():
    here.sendall(b"?")
    left = 10_000
    while left:
        left -= len(here.recv(left))
"""),
    "files": from_a_loader("return torch.from_numpy(np.load(path).astype(np.float32).ravel()[:1000])", 0, """
import tempfile
import numpy as np
path = tempfile.mkdtemp() + "/item.npy"
np.save(path, np.random.default_rng(0).integers(0, 255, (400, 400), dtype=np.uint8))
"""),
    "decode": from_a_loader(DECODE, 0, JPEG),
    "slow_workers": from_a_loader(NOISE, 2, "import numpy as np\n"),
    "sleeping_workers": from_a_loader("time.sleep(0.005)\nreturn torch.ones(100)", 2, "import time\n"),
    "loop_in_optimizer": whole("host", "nn.Sequential(*[nn.Linear(64, 64) for _ in range(40)])", ADAM, "8, 64"),
    "small_layers": whole("host", "nn.Sequential(*[nn.Sequential(nn.Linear(64, 64), nn.LayerNorm(64)) for _ in range(40)])",
                          SGD, "8, 64"),
    "elementwise": whole("device", "nn.Linear(64, 64)", SGD, "4000, 2000",
                         "(x * model.weight[0, 0]).sigmoid().tanh().exp().mul(3).add(1).mean()"),
    "recurrent": whole("host", "nn.GRUCell(64, 64)", SGD, "60, 16, 64", "run(model, x)", """
def run(cell, x):
    h = torch.zeros(16, 64).cuda()
    for each in x:
        h = cell(each, h)
    return h.square().mean()
"""),
    "environment_of_actions": whole("host", "nn.Sequential(nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, 4))", SGD, "1, 8",
                                    "episode(model)", """
import numpy as np
rng = np.random.default_rng(0)

def episode(policy):
    state, found = np.zeros(8, dtype=np.float32), []
    for _ in range(20):
        logits = policy(torch.from_numpy(state).cuda())
        action = torch.distributions.Categorical(logits=logits).sample()
        found.append(logits[action])
        for _ in range(30):
            state = np.tanh(state + 0.01 * int(action) + rng.normal(0, 0.1, 8)).astype(np.float32)
    return torch.stack(found).mean()
"""),
    "normalisation": whole("device", "nn.Sequential(*[nn.LayerNorm(4096) for _ in range(6)])", SGD, "2048, 4096"),
    "products": whole("device", "nn.Sequential(*[nn.Linear(2048, 2048) for _ in range(3)])", SGD, "1024, 2048"),
    "reads": whole("waits", "nn.Sequential(*[nn.Linear(2048, 2048) for _ in range(3)])", SGD, "1024, 2048",
                   "read(model(x).square().mean())", """
import time

def read(loss):
    loss.item()
    time.sleep(0.0015)
    return loss
"""),
}


def audited(script: Path, card: str) -> dict:
    """The audit's JSON."""
    command = [sys.executable, "-m", "gapless.commands.cli", "audit", "--device", f"vgpu:{card}", "--no-memory",
               "--out", "-", "--format", "json", script.name]
    done = subprocess.run(command, cwd=script.parent, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def truth_ms(script: Path, shared_by: int) -> float:
    """What the cause takes in a step, without a device, where so many workers, or steps, share it."""
    command = [sys.executable, "-c", TRUTH, str(script.parent), script.stem]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(done.stdout) / shared_by


def said_ms(found: dict, script: Path, program: Program) -> float:
    """What the audit says of it: the input, what only some steps do, or its lines (all but those of the loop)."""
    if program.workers is not None:
        return found["saved_without_ms"]["input"]
    if program.every > 1:
        return found["saved_without_ms"]["seldom"]
    loop = script.read_text(encoding="utf-8").partition('if __name__ == "__main__":')[0].count("\n") + 1
    name = f"{script.name}:"
    return sum(each["own_ms"] for each in found["host"]
               if name not in each["location"] or int(each["location"].partition(name)[2].split()[0]) < loop
               or each["line"] == "cause()")


def main() -> int:
    """Print the table; 1 where a verdict is wrong or a share is off by more than a fifth of the step."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--only", nargs="+", choices=PROGRAMS, default=list(PROGRAMS), metavar="NAME")
    parser.add_argument("--card", default="a10g")
    options = parser.parse_args()
    wrong = 0
    print(f"{'program':<26}{'verdict':<15}{'right':<8}{'step ms':>9}{'cause ms':>10}{'truth ms':>10}   first line")
    with tempfile.TemporaryDirectory() as folder:
        for name in options.only:
            program, script = PROGRAMS[name], Path(folder) / f"{name}_program.py"
            script.write_text(program.text, encoding="utf-8")
            found = audited(script, options.card)
            times, off = f"{'':>10}{'':>10}", False
            if program.has_truth:
                said, true = said_ms(found, script, program), truth_ms(script, max(1, program.workers or 1) * program.every)
                times, off = f"{said:>10.2f}{true:>10.2f}", abs(said - true) > 0.2 * true
            first = f"{found['host'][0]['location']}: {found['host'][0]['line']}" if found["host"] else ""
            is_wrong = found["bound"] != program.bound or off
            wrong += is_wrong
            verdict = f"{name:<26}{'/'.join(found['bounds']):<15}{program.bound:<8}{found['step_ms']:>9.2f}"
            print(f"{verdict}{times}   {first[:60]}" + ("   WRONG" if is_wrong else ""), flush=True)
    print(f"{len(options.only) - wrong} of {len(options.only)} right")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
