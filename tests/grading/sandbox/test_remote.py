"""The device's side asks a learner's function over a socket; here the other side is a thread, honest or not."""

import socket
import threading

import pytest
import torch

import gapless
from gapless import vgpu
from gapless.course.notebooks.cells import CellError, CellRaised
from gapless.course.plain import Unusable
from gapless.course.stage import Given
from gapless.grading.sandbox.remote import RemoteStage, StageGone
from gapless.vgpu.boundary.wire import Channel

VGPU = gapless.device("vgpu:a10g")


@pytest.fixture
def played():
    """``played(script)``: a stage whose other side is ``script(channel)``, in a thread."""
    threads = []

    def play(script):
        ours, theirs = socket.socketpair()
        channel = Channel(theirs)

        def run():
            try:
                script(channel)
            finally:
                channel.close()

        threads.append(threading.Thread(target=run))
        threads[-1].start()
        return RemoteStage(Channel(ours))

    yield play
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()


def answers(*replies, heard=None):
    """A side that gives these replies, one a request."""
    def script(channel):
        for reply in replies:
            message, blob = channel.receive()
            if heard is not None:
                heard.append(message)
                assert blob == b"", "values went over"
            channel.send(reply)

    return script


def given(**options):
    return Given({"x": vgpu.tensor_of(torch.arange(3.0)), "many": [vgpu.tensor_of(torch.ones(2))]}, options, ("x",))


def test_a_call_in_three_parts(played):
    heard = []
    stage = played(answers({"return": None}, {"return": 0}, {"return": None}, {"return": {"dict": {"a": [1, 2.5, None]}}}, heard=heard))
    stage.load("source", "name")
    call = stage.begin(given(k=3))
    call.run()
    assert call.finish() == {"a": [1, 2.5, None]}
    load, begin, run, finish = heard
    assert (load["do"], load["source"], load["name"]) == ("load", "source", "name")
    assert (begin["do"], begin["options"], begin["needs_grad"]) == ("begin", {"k": 3}, ["x"])
    inputs = begin["inputs"]["dict"]
    assert list(inputs) == ["x", "many"] and inputs["x"]["tensor"][1] == [3]
    assert [(m["do"], m["call"]) for m in (run, finish)] == [("run", 0), ("finish", 0)] and begin["over"] is None
    assert not begin["valueless"]


def test_inputs_of_the_host_go_over_with_their_values_and_without_where_there_are_none(played):
    heard = []

    def script(channel):
        for number in range(2):
            heard.append(channel.receive())
            channel.send({"return": number})

    stage = played(script)
    host = Given({"x": torch.arange(3.0).pin_memory(), "y": torch.ones(2)})
    stage.begin(host)
    with vgpu.shape_only():
        stage.begin(host)
    (with_values, values), (without, nothing) = heard
    assert with_values["inputs"]["dict"] == {"x": {"host": [[3], [1], "float32", True, 0]}, "y": {"host": [[2], [1], "float32", False, 12]}}
    assert values == torch.tensor([0.0, 1, 2, 1, 1]).numpy().tobytes()
    assert without["inputs"]["dict"]["x"] == {"host": [[3], [1], "float32", True, None]} and nothing == b""


def test_operators_are_done_here_and_no_values_go_over(played):
    def script(channel):
        message, _ = channel.receive()
        number = message["inputs"]["dict"]["x"]["tensor"][0]
        channel.send({"op": "aten::mul.Tensor", "args": [{"tensor": number}, 2.0], "kwargs": {}})
        reply, blob = channel.receive()
        assert blob == b"" and reply["out"]["tensor"][1] == [3]
        channel.send({"return": 0})
        channel.receive()
        channel.send({"return": {"dict": {"result": {"tensor": reply["out"]["tensor"][0]}}}})

    call = played(script).begin(given())
    assert call.finish()["result"].within.tolist() == [0, 2, 4]


def test_notes_come_while_it_is_asked(played):
    notes = []
    asked = Given({}, {}, (), notes.append)

    def script(channel):
        for reply in ({"return": 0}, {"return": None}):
            channel.receive()
            channel.send({"note": "one"})
            channel.send({"note": ["no", "text"]})
            channel.send({"note": "x" * 10**5})
            channel.send(reply)

    call = played(script).begin(asked)
    assert notes[:2] == ["one", "no text"] and notes[2].startswith("x" * 3000) and len(notes[2]) < 5000
    call.run()
    assert len(notes) == 6


@pytest.mark.parametrize("reply, kind, says", [
    ({"raise": "the cell has a fault", "kind": "cell"}, CellError, "a fault"),
    ({"raise": "a set", "kind": "unusable"}, Unusable, "a set"),
    ({"raise": "KeyError: 3 (line 2: f())"}, CellRaised, r"KeyError: 3 \(line 2"),
    ({"raise": "x", "kind": "StageGone"}, CellRaised, "x"),
    ({"raise": {"no": "text"}, "kind": ["cell"]}, CellRaised, "no text"),
])
def test_what_was_raised_there_is_raised_here(played, reply, kind, says):
    with pytest.raises(kind, match=says):
        played(answers(reply)).load("source", "name")


@pytest.mark.parametrize("script", [
    lambda channel: channel.receive(),
    lambda channel: (channel.receive(), channel._socket.sendall(b"\xff" * 8)),
    lambda channel: (channel.receive(), channel._socket.sendall(b"\x03\0\0\0\0\0\0\0{{{")),
    lambda channel: (channel.receive(), channel.send([1, 2])),
    lambda channel: (channel.receive(), channel.send({"unknown": 1})),
    lambda channel: (channel.receive(), channel.send({"op": "aten::mul.Tensor", "ask": "host_ns"})),
    lambda channel: (channel.receive(), channel.send({"ask": "reset", "args": []})),
    lambda channel: (channel.receive(), channel.send({"op": "aten::from_file", "args": ["/etc/passwd"]})),
    lambda channel: (channel.receive(), channel.send({"op": "aten::neg", "args": [{"tensor": 99}]})),
], ids=range(9))
def test_what_is_not_of_the_agreed_form_is_the_end(played, script):
    with pytest.raises(StageGone):
        played(script).load("source", "name")
    assert not issubclass(StageGone, Exception), "it must not be taken for what the function raised"


@pytest.mark.parametrize("answer", [{"tensor": 7}, {"strange": 1}, {"host": [[2], [1], "float32", False, 100]}, {"dtype": "nn"}])
def test_an_answer_that_cannot_be_read_is_unusable(played, answer):
    call = played(answers({"return": 0}, {"return": answer})).begin(given())
    with pytest.raises(Unusable, match="cannot be read"):
        call.finish()
