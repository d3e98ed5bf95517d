"""What comes from a program is read as from an enemy. (What an honest one gets: test_link.)"""

import json
import socket
import struct
import threading

import pytest
import torch

from gapless import vgpu
from gapless.vgpu.boundary.served import Gone, Served
from gapless.vgpu.boundary.wire import Channel


@pytest.fixture
def ends():
    vgpu.enable("a10g")
    own, theirs = socket.socketpair()
    channel = Channel(own)
    with theirs:
        yield Served(channel), theirs
    channel.close()


def frame(message, blob=b""):
    text = message if isinstance(message, bytes) else json.dumps(message).encode()
    return struct.pack("<II", len(text), len(blob)) + text + blob


def request(ends, *frames):
    """What a request comes to, where the program sends ``frames`` in reply."""
    served, theirs = ends
    replies = []

    def read():
        file = theirs.makefile("rb")
        while header := file.read(8):
            lengths = struct.unpack("<II", header)
            replies.append(json.loads(file.read(lengths[0])))
            file.read(lengths[1])

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    for each in frames:
        theirs.sendall(each)
    theirs.shutdown(socket.SHUT_WR)
    answer = served.request({"do": "it"})
    served.close()
    reader.join(10)
    return answer, replies


DONE = frame({"return": 1})


@pytest.mark.parametrize("message", [
    b"no json", b"[" * 100_000, 3, [], {}, {"op": 1, "ask": 2}, {"op": None},
    {"op": "aten::no_such.thing", "args": []}, {"op": "aten::add.Tensor", "args": 3},
    {"op": "aten::add.Tensor", "args": [{"tensor": 99}, 1], "kwargs": {}}, {"op": "aten::add.Tensor", "args": [{"tensor": "x"}]},
    {"op": "aten::neg", "args": [{"host": [[-1], [1], "float32", False, 0]}]}, {"op": "aten::neg", "args": [{"held": 1}]},
    {"op": "aten::neg", "args": [{"host": [[2], [1], "no_dtype", False, 0]}]}, {"op": "aten::neg", "args": [{"evil": 1}]},
    {"op": "aten::neg", "args": [{"dtype": "__class__"}]}, {"op": "aten::neg", "args": [], "kwargs": [1]},
    {"ask": "no such question"}, {"ask": "query", "args": [1]}, {"ask": "backward", "args": [1, [], False]},
    {"ask": "use_stream", "args": [5]}, {"free": 3}, {"settings": ["evil"] * 4}, {"settings": [1]},
    {"settings": ["none", "tf32", "none", True, 10, 1, False, False, False, "float32"]},
    {"settings": ["none", "tf32", "none", True, -1, True, False, False, False, "float32"]},
    {"fused": "aten::add.Tensor"},
])
def test_nonsense_ends_the_conversation_and_nothing_else(ends, message):
    with pytest.raises(Gone):
        request(ends, frame(message), DONE)


@pytest.mark.parametrize("raw", [b"", b"\x01", struct.pack("<II", 2**32 - 1, 0), struct.pack("<II", 5, 0) + b"12"])
def test_a_broken_frame_ends_it(ends, raw):
    with pytest.raises(Gone):
        request(ends, raw)


def test_an_operators_error_goes_back_to_the_program(ends):
    (said, _), replies = request(ends, frame({"op": "aten::zeros", "args": [[2, -3]], "kwargs": {"device": {"device": "vgpu"}}}), DONE)
    assert said == {"return": 1} and replies[1]["error"][0] == "RuntimeError"


def test_a_program_may_free_what_is_not_its_own_or_not_there(ends):
    (said, _), _ = request(ends, frame({"ask": "host_ns", "args": [], "free": [1, -5, "x", 10**20]}), DONE)
    assert said == {"return": 1}


def test_a_line_that_is_no_line_is_not_shown(ends):
    served, _ = ends
    with vgpu.races([]):
        request(ends, frame({"ask": "host_ns", "args": [], "line": "\x1b[31mevil" * 100}), DONE)
    assert served._line is None


def test_tensors_are_told_with_their_form(ends):
    served, _ = ends
    tensor = vgpu.tensor_of(torch.arange(6.0).reshape(2, 3).t())
    number, *told = served.tell(tensor)["tensor"]
    assert told == [[3, 2], [1, 3], 0, "float32", False, False, False]
    assert served.decoder()({"tensor": number}) is tensor


@pytest.mark.parametrize("name", ["aten::from_file", "os::system", "torchvision::nms", "c10d::allreduce_", "aten::set_.source_Storage"])
def test_an_operator_that_is_not_for_programs_is_an_error_at_its_line(ends, name):
    (said, _), replies = request(ends, frame({"op": name, "args": ["/etc/passwd"]}), DONE)
    assert said == {"return": 1} and replies[1]["error"][0] == "NotImplementedError" and name in replies[1]["error"][1]
