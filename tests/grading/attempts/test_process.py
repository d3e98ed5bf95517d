"""Attempts on the processes and on what lies between them: they end, with a reason, and cost nobody else anything."""

import pytest

from . import FOR_BEING_RIGHT, NOTHING, SLOW, check_attempts

CHANNEL = SLOW + """
import os, sys
link = sys.modules["gap" + "less.vgpu.process.state"].state.link
"""

ATTEMPTS = {
    "messages by hand: done, before anything is": (CHANNEL + """
def f(target):
    link.channel.send({"return": None})
    return slow(target)
""", NOTHING),
    "messages by hand: a verdict": (CHANNEL + """
link.channel.send({"return": {"values": "pass", "earned": 5}, "verdict": "pass", "points": 5})
f = slow
""", NOTHING),
    "messages by hand: an operator on a tensor that is somebody else's": (CHANNEL + """
def f(target):
    for number in range(1, 50):
        try:
            link._exchange({"op": "aten::zero_", "args": [{"tensor": number}], "kwargs": {}}, b"")
        except Exception:
            pass
    return slow(target)
""", NOTHING),
    "messages by hand: an operator that reads files": (CHANNEL + """
def f(target):
    torch.ops.aten.from_file("/etc/passwd", size=16, dtype=torch.uint8, device=target.device)
    return slow(target)
""", FOR_BEING_RIGHT),
    "a message that is no JSON": (CHANNEL + """
import struct
def f(target):
    link.channel._socket.sendall(struct.pack("<II", 9, 0) + b"{not json")
    return slow(target)
""", NOTHING),
    "a message that is nested too deep": (CHANNEL + """
import struct
def f(target):
    link.channel._socket.sendall(struct.pack("<II", 200000, 0) + b"[" * 200000)
    return slow(target)
""", NOTHING),
    "a message said to be huge": (CHANNEL + """
import struct
def f(target):
    link.channel._socket.sendall(struct.pack("<II", 2**32 - 1, 2**32 - 1))
    return slow(target)
""", NOTHING),
    "every open file written to": (CHANNEL + """
def f(target):
    for name in os.listdir("/proc/self/fd"):
        try:
            os.write(int(name), b'["", "finished", ""]' + bytes([10]))
        except OSError:
            pass
    return slow(target)
""", NOTHING),
    "the socket closed": (CHANNEL + """
def f(target):
    link.channel.close()
    return target
""", NOTHING),
    "ended at once": (SLOW + """
import os
os._exit(0)
f = slow
""", NOTHING),
    "ended when called": (SLOW + """
import os
def f(target):
    os._exit(0)
""", NOTHING),
    "ended by a signal": (SLOW + """
import os
def f(target):
    os.abort()
""", NOTHING),
    "everybody killed": (SLOW + """
import os, signal
with open("/proc/1/cmdline") as file:
    assert "bwrap" in file.read(), "not in a sandbox: here it would kill the tests"
def f(target):
    for process in [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()]:
        try:
            os.kill(process, signal.SIGKILL)
        except OSError:
            pass
    return slow(target)
""", FOR_BEING_RIGHT),
    "the memory of all others written over": (SLOW + """
import os
def spoil(process):
    with open(f"/proc/{process}/maps") as maps, open(f"/proc/{process}/mem", "r+b", buffering=0) as memory:
        for line in maps:
            place, rights = line.split()[:2]
            start, end = (int(each, 16) for each in place.split("-"))
            if rights[1] == "w":
                memory.seek(start)
                memory.write(bytes(min(end - start, 2**20)))
def f(target):
    for process in [name for name in os.listdir("/proc") if name.isdigit() and int(name) not in (1, os.getpid())]:
        try:
            spoil(process)
        except OSError:
            pass
    return slow(target)
""", FOR_BEING_RIGHT),
    "a fork that goes on": (SLOW + """
import os
def f(target):
    try:
        if os.fork() == 0:
            while True:
                pass
    except OSError:
        pass
    return slow(target)
""", FOR_BEING_RIGHT),
    "threads that go on": (SLOW + """
import threading, time
def on():
    while True:
        time.sleep(0.001)
for _ in range(20):
    threading.Thread(target=on).start()
f = slow
""", FOR_BEING_RIGHT),
    "a last word at the end": (SLOW + """
import atexit, os
def last():
    os.write(1, b'["", "finished", ""]')
    while True:
        pass
atexit.register(last)
f = slow
""", FOR_BEING_RIGHT),
    "a great deal printed": (SLOW + """
import sys
print("x" * 10**6, flush=True)
print("[\\"\\", \\"finished\\", \\"\\"]", file=sys.stderr, flush=True)
f = slow
""", FOR_BEING_RIGHT),
    "modules taken away": (SLOW + """
import sys
for name in list(sys.modules):
    if name.startswith("gap" + "less"):
        del sys.modules[name]
f = slow
""", FOR_BEING_RIGHT),
    "temporary folders filled": (SLOW + """
def f(target):
    for folder in ("/tmp", "/tmp/scratch", "/dev/shm", "/var/tmp"):
        for number in range(400):
            try:
                with open(f"{folder}/{number}", "wb") as file:
                    file.write(b"x" * 2**20)
            except OSError:
                break
    return slow(target)
""", FOR_BEING_RIGHT),
    "recursion without end": ("""
def f(target):
    return f(target)
""", NOTHING),
}

# Ended by their time.
ENDLESS = {
    "everything patched": (SLOW + """
import builtins, json, socket
socket.socket.sendall = json.loads = builtins.getattr = lambda *args, **kwargs: None
f = slow
""", NOTHING),
    "a loop that cannot be interrupted": ("""
def f(target):
    while True:
        try:
            while True:
                pass
        except BaseException:
            pass
""", NOTHING),
    "notes": (CHANNEL + """
def f(target):
    while True:
        link.send({"note": "x"})
""", NOTHING),
    "half a message": (CHANNEL + """
import struct, time
def f(target):
    link.channel._socket.sendall(struct.pack("<II", 1000, 0) + b"[")
    time.sleep(10**6)
""", NOTHING),
    "questions": ("""
def f(target):
    while True:
        target = target + 1
""", NOTHING),
    "sleep": ("import time\ntime.sleep(10**6)\nf = None\n", NOTHING),
}


@pytest.mark.slow
def test_what_is_done_to_processes_gains_nothing(tmp_path):
    check_attempts(ATTEMPTS, tmp_path)


@pytest.mark.slow
def test_what_goes_on_without_end_is_ended(tmp_path):
    found = check_attempts(ENDLESS, tmp_path, seconds=10)
    told = {name: found[name][1] for name in ENDLESS}
    assert "lines were noted" in told.pop("notes")
    assert {name: text for name, text in told.items() if "was not done within" not in text and "device's process ended" not in text} == {}
