"""A process that forks another for each job."""

import json
import os
import select
import signal
import socket
import subprocess
import sys

import pytest

SERVER = """
import os, socket, sys, time
from gapless.grading.sandbox.forks import serve

def begin(message, fds):
    if message.get("sleeps"):
        os.write(fds[0], str(os.getpid()).encode() + b"\\n")
        time.sleep(1000)
    if message.get("fails"):
        raise SystemExit(3)
    os.write(fds[0], f"{message['text']} {len(fds)} {os.getpgid(0) == os.getpid()}".encode())

serve(socket.socket(fileno=int(sys.argv[1])), begin)
print("done")
"""


@pytest.fixture
def server():
    mouth, ears = socket.socketpair()
    process = subprocess.Popen([sys.executable, "-c", SERVER, str(ears.fileno())], pass_fds=[ears.fileno()], stdout=subprocess.PIPE)
    ears.close()
    yield mouth
    mouth.close()
    assert process.communicate(timeout=60)[0] == b"done\n" and process.returncode == 0


def begin(server, number, **job):
    """A job begun: the file that it writes to."""
    said, say = os.pipe()
    socket.send_fds(server, [json.dumps({"begin": number, **job}).encode() + b"\n"], [say])
    os.close(say)
    return os.fdopen(said, "rb", buffering=0)


def end_of(said):
    assert select.select([said], [], [], 60)[0]
    return said.read()


def test_each_job_has_a_process_and_its_descriptors(server):
    jobs = [begin(server, str(number), text=f"job {number}") for number in range(5)]
    assert [end_of(said) for said in jobs] == [f"job {number} 1 True".encode() for number in range(5)]


def test_several_messages_may_come_at_once_and_one_in_parts(server):
    said, say = os.pipe()
    server.sendall(b'{"end": "nothing"}\n{"end": "no')
    server.sendall(b'thing"}\n{"end": "nothing"}\n')
    socket.send_fds(server, [b'{"begin": "1", "text": "x"}\n{"end": "2"}\n'], [say])
    os.close(say)
    assert end_of(os.fdopen(said, "rb", buffering=0)) == b"x 1 True"


@pytest.mark.slow
def test_one_that_is_to_end_ends_with_all_of_its_group_and_no_other(server):
    one, other = (begin(server, number, sleeps=True) for number in "12")
    pids = [int(said.readline()) for said in (one, other)]
    server.sendall(b'{"end": "1"}\n')
    assert end_of(one) == b""
    os.kill(pids[1], 0)
    os.kill(pids[1], signal.SIGKILL)
    assert end_of(other) == b""


@pytest.mark.slow
def test_a_job_that_fails_takes_nothing_along(server):
    assert end_of(begin(server, "1", fails=True)) == b""
    assert end_of(begin(server, "2", text="still there")) == b"still there 1 True"
