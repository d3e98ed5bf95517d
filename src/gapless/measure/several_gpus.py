"""A function on several virtual GPUs: a process a GPU, whose clocks meet in collectives.

    >>> def train(rank, world):
    ...     dist.init_process_group()
    ...     model = DistributedDataParallel(Network().to("vgpu:0"))
    ...     …
    >>> results = gapless.on_gpus(4, train, device="a100")
    >>> [result.host_ns for result in results]

The processes are forked from this one, so the function may be anything that is defined here, a notebook's cell included, and
sees all that this process has; what it changes stays in its process. Each has a virtual GPU of its own, ``vgpu:0``, and the
environment that PyTorch's launchers give: ``RANK``, ``LOCAL_RANK``, ``WORLD_SIZE``, ``LOCAL_WORLD_SIZE``, ``MASTER_ADDR``,
``MASTER_PORT``.
"""

from __future__ import annotations

import atexit
import io
import multiprocessing
import os
import pickle
import re
import secrets
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from multiprocessing import connection, util
from pathlib import Path

import torch

from .. import vgpu
from ..evidence.traces.trace import Trace
from ..files import temporary_folder
from ..vgpu.distributed import communication, rank_process, standstill
from ..vgpu.hardware.times import interconnect
from ..vgpu.host import host_clock
from .rank_trace import recorded

MOST_GPUS = 64
_GRACE_S = 3.0  # real seconds that the others have to end by themselves once one has failed


class RankError(RuntimeError):
    """A rank has failed: ``rank``; the message has its traceback, and what became of the others."""

    def __init__(self, rank: int, message: str):
        super().__init__(message)
        self.rank = rank


@dataclass(frozen=True)
class RankResult:
    """What one rank of :func:`on_gpus` has left. ``value``: what the function returned, tensors on the CPU; ``host_ns``: its
    host's clock when it returned; ``device_ns``: when all work of its GPU is done; ``trace``: the file of its trace, or
    None."""

    rank: int
    value: object
    host_ns: int
    device_ns: int
    trace: Path | None = None

    def read_trace(self) -> Trace:
        """The trace. Raises ValueError where none was asked for."""
        if self.trace is None:
            raise ValueError("no traces were recorded: call on_gpus(…, traces=FOLDER)")
        return Trace.read(self.trace)


def on_gpus(count: int, function: Callable, *args, device: str | vgpu.Card = "a10g", machines: int = 1,
            machine: str | None = None, traces: str | os.PathLike | None = None, trace_steps: tuple[int, int] | None = None
            ) -> list[RankResult]:
    """Call ``function(rank, count, *args)`` in ``count`` processes, each with a virtual GPU ``device`` (a card, or its name
    as in ``vgpu:NAME``); returns what each has left, by rank.

    ``machines``: over how many machines the GPUs are spread, in the order of ranks. ``machine``: what each is, "dgx_a100",
    "pairs_a100", "pcie" and others, "dgx_a100@6.5" with a network of 6.5 GB/s
    (:func:`gapless.vgpu.hardware.times.interconnect.find_machine`; by default what such cards usually stand in).
    ``traces``: a folder for a trace of each rank, ``rank0.json.gz`` and so on (:mod:`gapless.measure.rank_trace`), of the
    steps ``trace_steps`` (first, last) or of all. What the ranks print comes out here. Clocks begin at zero, count the
    Python of the function too, and are the same in every run.

    Raises RankError where a rank fails, with its traceback, after all processes have ended; ValueError for what cannot be
    asked for, UnknownCard, and RuntimeError where this platform cannot fork.
    """
    card = device if isinstance(device, vgpu.Card) else vgpu.find_card(device.removeprefix("vgpu:"))
    check(count, machines, machine)
    if trace_steps is not None:
        first, last = trace_steps
        if traces is None or not 0 <= first <= last:
            raise ValueError(f"steps {first} to {last} should be traced: name a folder for the traces, and steps from 0 on")
    folder = _folder(traces)
    # One process would say what another has in its buffers.
    sys.stdout.flush()
    sys.stderr.flush()
    hide_real_gpus()
    vgpu.enable()
    import_for_all()
    with temporary_folder() as scratch:
        told = run_ranks(count, machines, scratch,
                         lambda rank: _call(card, function, (rank, count, *args), folder, trace_steps, rank), machine)
    return [RankResult(rank, *pickle.loads(each)) for rank, each in enumerate(told)]


def hide_real_gpus() -> None:
    """Let this process have no CUDA device, where it has not looked for one yet: for each that it knows, PyTorch's autograd
    starts a thread at the first backward pass, after which no forked process can run one
    (torch/csrc/autograd/engine.cpp, ``track_bad_autograd_forks``), and ranks are forked."""
    if not torch.cuda.is_initialized():
        os.environ["CUDA_VISIBLE_DEVICES"] = ""


def import_for_all() -> None:
    """Import what each rank would, two seconds long: the one where a model is wrapped or an optimizer steps, the other at a
    tensor subclass's first operator."""
    import torch._dynamo
    import torch.distributed.tensor  # noqa: F401


def check(count: int, machines: int, machine: str | None = None) -> None:
    """Raises ValueError for a number of GPUs or machines that cannot be and for an unknown machine, RuntimeError where
    processes cannot be forked."""
    if not isinstance(count, int) or not 1 <= count <= MOST_GPUS:
        raise ValueError(f"{count!r} GPUs: give a whole number from 1 to {MOST_GPUS}")
    if not isinstance(machines, int) or machines < 1 or count % machines:
        raise ValueError(f"{count} GPUs on {machines!r} machines: every machine has as many")
    if machine is not None:
        interconnect.find_machine(machine)
    if not hasattr(os, "fork"):
        raise RuntimeError("several virtual GPUs need a system that forks processes: Linux or macOS; on Windows, WSL")


def _folder(traces) -> Path | None:
    if traces is None:
        return None
    folder = Path(traces)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise ValueError(f"{folder} is a file: name a folder for the traces") from None
    return folder.absolute()


def _call(card: vgpu.Card, function: Callable, args: tuple, folder: Path | None, steps: tuple[int, int] | None, rank: int
          ) -> bytes:
    """In the rank's process: what :class:`RankResult` has of it but the rank, pickled."""
    rank_process.begin_anew(card)
    path = None
    with ExitStack() as stack:
        if folder is not None:
            path = folder / f"rank{rank}.json.gz"
            stack.enter_context(recorded(path, steps))
        else:
            stack.enter_context(host_clock.counting())
        try:
            value = function(*args)
        except SystemExit as end:
            if end.code not in (None, 0):
                raise
            value = None
        vgpu.timeline().catch_up()
        host_ns, device_ns = vgpu.timeline().host_ns, vgpu.timeline().device_ready_ns
    return _pickled((plain(value), host_ns, device_ns, path))


def _pickled(told: tuple) -> bytes:
    buffer = io.BytesIO()
    try:
        pickle.dump(told, buffer)
    except Exception as error:
        raise TypeError(f"the function's result cannot leave its process ({error}): return numbers, texts, tensors, or "
                        "lists and dictionaries of them") from None
    return buffer.getvalue()


def plain(value):
    """``value`` with all tensors in lists, tuples and dictionaries on the CPU, detached."""
    if isinstance(value, torch.Tensor):
        whole = value.full_tensor() if hasattr(value, "full_tensor") else value
        return whole.detach().cpu().clone()
    if type(value) in (list, tuple):
        return type(value)(plain(each) for each in value)
    return {name: plain(each) for name, each in value.items()} if type(value) is dict else value


# -- processes --------------------------------------------------------------------------------------


def rank_environment(rank: int, count: int, machines: int, port: int) -> dict[str, object]:
    """What PyTorch's launchers put into the environment of a rank's process."""
    here = count // machines
    return {"RANK": rank, "LOCAL_RANK": rank % here, "WORLD_SIZE": count, "LOCAL_WORLD_SIZE": here,
            "GROUP_RANK": rank // here, "GROUP_WORLD_SIZE": machines,
            "ROLE_RANK": rank, "ROLE_WORLD_SIZE": count, "ROLE_NAME": "default", "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": port, "OMP_NUM_THREADS": 1, "TORCHELASTIC_RUN_ID": "gapless", "TORCHELASTIC_RESTART_COUNT": 0,
            "TORCHELASTIC_MAX_RESTARTS": 0}


def run_ranks(count: int, machines: int, scratch: Path, work: Callable[[int], bytes], machine: str | None = None
              ) -> list[bytes]:
    """What ``work(rank)`` returns in a forked process of each rank, with the environment that launchers give. ``scratch``: a
    folder for what they tell each other. Raises RankError."""
    context = multiprocessing.get_context("fork")
    board, port = scratch / "board", free_port()
    standstill.Board(str(board), count)
    processes, ends = [], []
    life = os.pipe()  # at its end the processes end too: this one has what it wanted, or was killed
    try:
        for rank in range(count):
            end, theirs = context.Pipe(duplex=False)
            environment = {**rank_environment(rank, count, machines, port), communication.MACHINES: machines,
                           communication.MACHINE: machine or "", standstill.BOARD: board}
            process = context.Process(target=_child, args=(work, rank, environment, theirs, life), name=f"rank {rank}")
            process.start()
            theirs.close()
            processes.append(process)
            ends.append(end)
        return _gather(processes, ends, board)
    finally:
        for descriptor in life:
            os.close(descriptor)
        for process in processes:
            if process.is_alive():
                process.kill()
        for process in processes:
            process.join()
            process.close()
        for end in ends:
            end.close()


def _child(work, rank: int, environment: dict, pipe, life: tuple[int, int]) -> None:
    """One rank's process, from fork to end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends it
    os.close(life[1])
    lives = threading.Thread(target=_end_with, args=life[:1], daemon=True)
    lives.start()
    # What the parent does at its end must not be done here; what the program asks for from now on is.
    atexit._clear()
    atexit.register(util._exit_function)  # type: ignore[attr-defined]  # multiprocessing's own
    os.environ.update({name: str(value) for name, value in environment.items()})
    standstill.join()
    try:
        told = "done", work(rank)
    except BaseException as error:
        told = "failed", (isinstance(error, standstill.Standstill), _text_of(error))
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    standstill.leave()
    pipe.send(told)
    pipe.close()
    if rank == 0 and told[0] == "done":
        lives.join()  # it keeps the store, which the others may need for groups that it is not in
    # Threads of Gloo's may hold what an orderly end would wait for.
    os._exit(0)


def _end_with(life: int) -> None:
    os.read(life, 1)
    os._exit(1)


def _text_of(error: BaseException) -> str:
    """The traceback from the user's function on."""
    frames = traceback.extract_tb(error.__traceback__)
    while frames and frames[0].filename == __file__:
        frames.pop(0)
    lines = traceback.format_list(frames) + traceback.format_exception_only(error)
    return "".join(lines).rstrip() + taken_port(str(error))


def _gather(processes, ends, board: Path) -> list[bytes]:
    told: list = [None] * len(ends)
    failed: list[tuple[int, bool, str]] = []
    until = None
    open_ends = dict(enumerate(ends))
    while open_ends:
        left_s = None if until is None else max(0.0, until - time.monotonic())
        ready = connection.wait(list(open_ends.values()), left_s)
        if not ready:
            break
        for rank in [rank for rank, end in open_ends.items() if end in ready]:
            try:
                kind, what = open_ends.pop(rank).recv()
            except (EOFError, OSError):
                processes[rank].join(5)
                kind, what = "failed", (False, _ended(processes[rank].exitcode))
            if kind == "done":
                told[rank] = what
                continue
            failed.append((rank, *what))
            until = until or time.monotonic() + _GRACE_S
    if not failed:
        return told
    cause = next((each for each in failed if not each[1]), failed[0])  # who only waited for it is not to blame
    rank, _, text = cause
    others = [f"rank {other} had failed too: {what.splitlines()[-1]}" for other, _, what in failed if other != rank]
    others += [f"rank {other} was ended" for other in open_ends]
    raise RankError(rank, f"rank {rank} of {len(ends)} failed, and all were ended:\n{text}"
                    + "".join(f"\n({line})" for line in others))


def _ended(code: int | None) -> str:
    if code is not None and code < 0:
        name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
        why = ": the system may have had no memory left" if name == "SIGKILL" else ""
        return f"its process was ended by {name}{why}"
    return f"its process ended with status {code} before the function returned"


def taken_port(message: str) -> str:
    """What to do about an error with this message where it is a port in use, on a line of its own; else nothing."""
    if "EADDRINUSE" not in message:
        return ""
    found = re.search(r"port: (\d+)", message)
    return (f"\nAnother program on this machine listens on port {found[1] if found else 'MASTER_PORT'}, perhaps another run "
            "of this one: end it, or let the program keep the MASTER_PORT that it finds in its environment, which is free: "
            "os.environ.setdefault(\"MASTER_PORT\", …)")


def free_port() -> int:
    """A port that nothing on this machine listens on now, and that no connection will be given: those are from 32768 on."""
    for _ in range(100):
        port = 20_000 + secrets.randbelow(12_000)
        with socket.socket() as free:
            try:
                free.bind(("", port))
            except OSError:
                continue
            return port
    raise RuntimeError("none of 100 ports between 20000 and 32000 is free on this machine")
