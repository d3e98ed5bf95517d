"""A learner's function in another process, asked from the device's side (:mod:`gapless.grading.sandbox.worker` is the other
side)."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ...course.notebooks.cells import CellError, CellRaised
from ...course.plain import Unusable
from ...course.stage import Given
from ...incoming import clean_text
from ...vgpu.boundary.served import Gone, Served
from ...vgpu.boundary.wire import Channel, WireError

_LONGEST_TEXT = 4000  # characters
_MOST_NOTES = 100_000


class StageGone(BaseException):
    """The learner's process has ended, or no longer says what can be understood. Not an ``Exception``: the caller must
    not take it for something that the function raised."""


class RemoteStage:
    """The learner's function at the other end of ``channel``, with the interface of
    :class:`gapless.course.stage.LocalStage`."""

    def __init__(self, channel: Channel, ends: list[int] | None = None):
        """``ends``: numbers of open sockets, for the ranks of the cases that have some, in their order."""
        self._served = Served(channel)
        self._notes, self._ends = 0, ends or []

    def load(self, source: str, name: str) -> None:
        """Run the exercise's cell. Raises CellError."""
        self._request({"do": "load", "source": source, "name": name})

    @contextmanager
    def ranks(self, world: int) -> Iterator[Callable[[int], RemoteStage]]:
        """For processes that are forked inside, one for each of ``world`` ranks: rank → the function there, in a process of
        the learner's own."""
        ends, self._ends = self._ends[:world], self._ends[world:]
        self._request({"do": "ranks", "count": world})
        try:
            yield lambda rank: RemoteStage(Channel(socket.socket(fileno=ends[rank])))
        finally:
            for end in ends:
                os.close(end)

    def settle(self) -> bool:
        """Let go of the calls so far. What the device's memory holds then is the learner's."""
        self._request({"do": "settle"})
        return True

    def begin(self, given: Given, over: RemoteCall | None = None) -> RemoteCall:
        """A call of the function, made ready; ``over``: one whose answer nobody has asked for. Raises CellRaised and
        Unusable, as all of it does."""
        said, _ = self._request({"do": "begin", "options": given.options, "needs_grad": list(given.needs_grad),
                                 "over": None if over is None else over.number}, given, {"inputs": given.inputs})
        return RemoteCall(self, said["return"], given)

    def _request(self, message: dict, given: Given | None = None, values: dict | None = None) -> tuple[dict, bytes]:
        self._served.note = (lambda text: self._note(given, text)) if given is not None else (lambda text: None)
        try:
            said, blob = self._served.request(message, values)
        except Gone as error:
            raise StageGone(str(error)) from None
        if "raise" in said:
            text = _text(said["raise"])
            raise {"cell": CellError, "unusable": Unusable}.get(_text(said.get("kind")), CellRaised)(text)
        return said, blob

    def _note(self, given: Given, text) -> None:
        self._notes += 1
        if self._notes > _MOST_NOTES:
            raise Gone(f"more than {_MOST_NOTES} lines were noted")
        given.note(_text(text))

    def _decode(self, said: dict, blob: bytes):
        try:
            return self._served.decoder(blob)(said["return"])
        except WireError as error:
            raise Unusable(f"the answer cannot be read: {error}.") from None


class RemoteCall:
    """One call, in the three parts of :class:`gapless.course.stage.Call`."""

    def __init__(self, stage: RemoteStage, number, given: Given):
        self._stage, self.number, self._given = stage, number, given

    def run(self) -> None:
        """What is measured."""
        self._stage._request({"do": "run", "call": self.number}, self._given)

    def finish(self):
        """The answer: plain data, and tensors that nobody has read yet."""
        return self._stage._decode(*self._stage._request({"do": "finish", "call": self.number}, self._given))


def _text(value) -> str:
    return clean_text(value, _LONGEST_TEXT) if isinstance(value, str) else "no text"
