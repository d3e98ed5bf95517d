"""Lesson 08: how ``largest_batch_that_fits`` is asked, and what it is given.

Runs beside the learner's code: import nothing that knows an answer.
"""

from __future__ import annotations

import contextlib
import io
import logging
import math
import warnings
from itertools import groupby

import torch
from torch import nn

FOUND, SAID, CALLS, ASKED = "batch found", "a line where none fits", "calls of step", "batches that were tried"
LEAK_TOLD = "raised ValueError"
RETURNS = "returns its loss"
TWICE = "two calls in a row of each batch that fits"
FEW, AS_WANTED = "few", "whole numbers from 1 to the most"
NOT_OF_MEMORY = "CUDA error: an illegal memory access was encountered"
# Kind of step → what it raises. None of these is torch.OutOfMemoryError.
BROKEN = {"broken": RuntimeError, **{f"broken, {kind.__name__}": kind
                                     for kind in (ValueError, MemoryError, TypeError, KeyError, AssertionError)}}
COLUMNS, WIDTH, LAYERS = 64, 1024, 3
MIB = 2**20
_WORKSPACE_ROWS = 32  # of so many batches in a row, the last third wants a workspace


class Steps:
    """``step(batch)`` of a network, with ``fits`` times what a row takes of the card's memory left.

    ``kind``: "training" (with momentum, whose state is made in the first step); "inference"; "a layer" of it, which takes
    the simulator little time, so that a search of a thousand calls ends soon; "keeps the last", until the next call;
    "returns its loss"; "leaks"; "settles", which keeps something from its second call on; "workspace", which not all
    batches want; those of ``BROKEN``."""

    def __init__(self, options: dict, device: torch.device):
        self.kind, self.most, self.device = options["kind"], options["most"], device
        self.batches: list[int] = []
        self.last, self.history = None, []
        self.row_bytes = options["row_mib"] * MIB
        with torch.device(device):
            others = [layer for _ in range(LAYERS - 1) for layer in (nn.ReLU(), nn.Linear(WIDTH, WIDTH))]
            self.network = nn.Sequential(nn.Linear(COLUMNS, WIDTH), *others)
        self.optimizer = torch.optim.SGD(self.network.parameters(), lr=0.1, momentum=0.9)
        # A row is as many rows of the network as take so much.
        self.rows = max(1, self.row_bytes // (4 * WIDTH * (2 * LAYERS + 1)))
        module = torch.get_device_module(device)
        module.empty_cache()  # what the allocator has cached is not free, and can be had all the same
        free, _ = module.mem_get_info()  # the rest is taken by something else
        left = int(options["fits"] * self.row_bytes) + options["extra_mib"] * MIB
        self.ballast = torch.empty(max(0, free - left), dtype=torch.uint8, device=device)

    def let_go(self) -> None:
        """Of all that it holds by itself: a function of the learner's that refers to itself, and to ``step``, holds it until
        the garbage is collected, and holds no trial's memory."""
        self.optimizer.zero_grad()
        self.optimizer.state.clear()
        self.network = self.optimizer = self.ballast = self.last = None
        self.history.clear()

    def step(self, batch):
        """A step with so many rows. Raises torch.OutOfMemoryError."""
        if type(batch) is not int:
            raise TypeError(f"step takes a whole number of rows, not a {type(batch).__name__}")
        self.batches.append(batch)
        if batch < 1:
            raise ValueError(f"a batch of {batch} rows: at least 1 is needed")
        if self.kind in BROKEN and batch > 2:
            kept = torch.empty(MIB, dtype=torch.uint8, device=self.device)
            raise BROKEN[self.kind](NOT_OF_MEMORY + " " * (kept is None))
        x = torch.empty(batch * self.rows, COLUMNS, device=self.device)
        if self.kind in ("inference", "a layer"):
            with torch.no_grad():
                (self.network if self.kind == "inference" else self.network[0])(x)
            return None
        if self.kind == "workspace" and batch % _WORKSPACE_ROWS > 2 * _WORKSPACE_ROWS // 3:
            torch.empty(8 * self.row_bytes, dtype=torch.uint8, device=self.device)
        self.optimizer.zero_grad()
        output = self.network(x)
        loss = output.sum()
        loss.backward()
        self.optimizer.step()
        if self.kind == "keeps the last":
            self.last = output
        if self.kind == "leaks" or (self.kind == "settles" and len(self.batches) == 2):
            self.history.append(output[:1, :1].clone())  # a block of 512 bytes, which fits into what is in reserve
        return loss.detach() if self.kind == RETURNS else None


@contextlib.contextmanager
def _logged_to(said: io.StringIO):
    """Inside, what is logged is written there too: the handler that prints it may have a stream from before."""
    handler = logging.StreamHandler(said)
    logging.getLogger().addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(handler)


def ask_largest_batch(function, given, device):
    """What ``function`` finds, in how many calls of the step, and what it says."""
    given.note("begun")
    steps = Steps(given.options, device)
    yield
    said = io.StringIO()
    with (contextlib.redirect_stdout(said), contextlib.redirect_stderr(said), _logged_to(said),
          warnings.catch_warnings(record=True) as warned):
        warnings.simplefilter("always")
        try:
            batch, raised = function(steps.step, steps.most), None
        except Exception as error:
            says = isinstance(error, ValueError) and steps.kind in ("leaks", RETURNS)
            if isinstance(error, torch.OutOfMemoryError) or (NOT_OF_MEMORY not in str(error) and not says):
                raise
            raised = f"raised: {NOT_OF_MEMORY}" if NOT_OF_MEMORY in str(error) else f"raised {type(error).__name__}"
            batch = None
    print(said.getvalue(), end="")
    yield
    tried = list(steps.batches)
    in_a_row = [len(list(calls)) for each, calls in groupby(tried) if type(batch) is int and 1 <= each <= batch]
    odd = [each for each in tried if not 1 <= each <= steps.most]
    enough = 2 * (2 * math.ceil(math.log2(steps.most + 1)) + 4)
    number = batch if type(batch) is int else f"a {type(batch).__name__}, not a whole number"
    answer = {FOUND: raised or number,
              ASKED: f"{odd[0]}, where the most is {steps.most}" if odd else AS_WANTED,
              TWICE: all(calls > 1 for calls in in_a_row),
              CALLS: FEW if len(tried) <= enough else f"{len(tried)}, where at most {enough} are needed",
              SAID: bool(said.getvalue().strip() or warned) if batch == 0 else None}
    steps.let_go()
    del steps
    given.note("ended")
    return answer
