"""The device's process: a server that forks one for each exercise; the learner's function is on the other end of a socket."""

import contextlib
import json
import os
import select
import socket
import subprocess
import sys

import pytest

from gapless import vgpu
from gapless.course.evidence import Evidence, save_plan
from gapless.grading.sandbox.device_process import DONE, EVIDENCE, FAILED, GONE
from gapless.grading.sandbox.worker import FINISHED, READY
from gapless.lessons import LESSONS
from gapless.vgpu.boundary.wire import Channel
from gapless.vgpu.hardware.cards.cardfile import card_to_json

EXERCISE = LESSONS["01_profiler_tour"].exercises["choose_batch_size"]


class Server:
    def __init__(self):
        self.mouth, ears = socket.socketpair()
        script = f"from gapless.grading.sandbox.device_process import main; main({str(ears.fileno())!r}, 'gapless.lessons', '02_masked_loss')"
        self.process = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        pass_fds=[ears.fileno()])
        ears.close()
        print("token", file=self.process.stdin, flush=True)
        self.ready = json.loads(self.process.stdout.readline())

    def give(self, folder, **changes):
        """A job: (the channel to it, the pipe on which its last word comes)."""
        folder.mkdir(exist_ok=True)
        save_plan(EXERCISE.plan(5), folder / "plan.npz")
        job = {"lesson": "01_profiler_tour", "program": "", "exercise": EXERCISE.name, "source": "the source", "order": 3, "core": None, "seconds": 30, "memory_bytes": 2**30,
               "card": card_to_json(vgpu.CARDS["t4"]), **changes}
        (folder / "job.json").write_text(json.dumps(job))
        ours, theirs = socket.socketpair()
        said, say = os.pipe()
        job = {"begin": str(folder), "path": str(folder / "job.json")}
        socket.send_fds(self.mouth, [json.dumps(job).encode() + b"\n"], [theirs.fileno(), say])
        theirs.close()
        os.close(say)
        return Channel(ours), said


def last_word(said):
    text = b""
    with contextlib.closing(os.fdopen(said, "rb", buffering=0)) as pipe:
        while select.select([pipe], [], [], 60)[0]:
            block = pipe.read(65536)
            if not block:
                return text
            text += block
    raise TimeoutError("it says nothing")


@pytest.fixture(scope="module")
def server():
    server = Server()
    yield server
    server.mouth.close()
    said, _ = server.process.communicate(timeout=60)
    assert json.loads(said) == ["token", FINISHED, ""] and server.process.returncode == 0


def serve(channel, answer):
    """Be the learner's process until the other side ends: how many calls were made, and the source."""
    calls, source = 0, None
    with contextlib.suppress(EOFError, OSError):
        while True:
            message, _ = channel.receive()
            if message["do"] == "load":
                source, reply = message["source"], None
            elif message["do"] == "begin":
                options, reply, calls = message["options"], calls, calls + 1
            else:
                reply = answer(options) if message["do"] == "finish" else None
            channel.send({"return": reply})
    return calls, source


def test_it_asks_and_leaves_evidence(server, tmp_path):
    channel, said = server.give(tmp_path)
    assert server.ready == ["token", READY, ""]
    calls, source = serve(channel, lambda options: options["candidates"][0])
    assert last_word(said) == DONE and source == "the source"
    found = Evidence.load(tmp_path / EVIDENCE)
    cases = EXERCISE.plan(5).cases
    assert calls == len(cases) and (found.exercise, found.device_name, found.error) == (EXERCISE.name, vgpu.CARDS["t4"].name, None)
    assert [answer.plain for answer in found.answers] == [case.options["candidates"][0] for case in cases]


def test_two_at_once_and_the_order_is_told_by_its_number(server, tmp_path):
    firsts = []
    jobs = [server.give(tmp_path / str(place), order=order) for place, order in enumerate((1, 2, 1))]
    for channel, _ in jobs:
        seen = []
        serve(channel, lambda options: seen.append(options["candidates"]) or 4)
        firsts.append(seen)
    assert [last_word(said) for _, said in jobs] == [DONE] * 3
    assert firsts[0] == firsts[2] != firsts[1] and sorted(firsts[0]) == sorted(firsts[1])


def test_where_the_learners_process_is_gone_the_evidence_says_so(server, tmp_path):
    channel, said = server.give(tmp_path)
    channel.receive()
    channel.close()
    assert last_word(said) == GONE
    assert "ended before the checks were done" in Evidence.load(tmp_path / EVIDENCE).error


def test_a_cell_that_cannot_be_run_is_in_the_evidence(server, tmp_path):
    channel, said = server.give(tmp_path)
    channel.receive()
    channel.send({"raise": "the cell has a fault", "kind": "cell"})
    assert last_word(said) == DONE and Evidence.load(tmp_path / EVIDENCE).error == "the cell has a fault"


def test_a_fault_of_ours_is_said_with_its_reason_and_stops_no_other(server, tmp_path):
    channel, said = server.give(tmp_path / "bad", exercise="no_such_exercise")
    assert last_word(said).startswith(FAILED) and not (tmp_path / "bad" / EVIDENCE).exists()
    channel, said = server.give(tmp_path / "good")
    serve(channel, lambda options: 4)
    assert last_word(said) == DONE


def test_it_ends_where_its_time_is_used_up(server, tmp_path):
    """Of the processor: an operator may not keep it at work for ever."""
    channel, said = server.give(tmp_path, seconds=-9)
    channel.receive()
    with contextlib.suppress(OSError, EOFError):
        while True:
            channel.send({"op": "aten::randn", "args": [[2000, 2000]], "kwargs": {}})
            channel.receive()
    assert last_word(said) == b""


def test_an_operator_that_takes_too_much_memory_is_an_error_of_its_own(server, tmp_path):
    channel, said = server.give(tmp_path)
    channel.receive()
    channel.send({"op": "aten::ones", "args": [[2**29]], "kwargs": {}})
    reply, _ = channel.receive()
    assert reply["error"][0] == "RuntimeError" and "memory" in reply["error"][1]
    channel.send({"raise": "so be it", "kind": "cell"})
    assert last_word(said) == DONE
