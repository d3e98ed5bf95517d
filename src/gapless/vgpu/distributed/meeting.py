"""Where the processes of a group tell each other what they are about to do together: a round trip over loopback sockets.

The group's first process keeps a socket to each of the others, whose address they find in the group's store. In a meeting
each sends one message, and gets those of all, in the order of their ranks: so each computes the same from the same. A
meeting takes real time and no virtual one.

Who waits looks again and again whether the others can still come (:mod:`.standstill`).
"""

from __future__ import annotations

import json
import secrets
import socket
import struct
import time
from collections.abc import Callable

_HOST = "127.0.0.1"  # several machines are modelled; the processes are on one
_LENGTH = struct.Struct("!I")
_LOOKS_S = 0.2  # real seconds between two looks


class Gone(ConnectionError):
    """A process of the group has ended, or left the group: ``rank``, by the group's numbers; None: the process that keeps
    the group's store, which may be of another group."""

    def __init__(self, rank: int | None):
        super().__init__("the store has gone" if rank is None else f"rank {rank} has left")
        self.rank = rank


class Meeting:
    """The meetings of one group. ``store``: the group's, any of PyTorch's; ``rank``, ``size``: by the group's numbers.

    ``look``: called where others are late with the real seconds since, and the ranks that are missed; it may raise.
    """

    def __init__(self, store, rank: int, size: int, look: Callable[[float, list[int]], None]):
        self.rank, self.size, self.look = rank, size, look
        self._peers: dict[int, _Line] = {}
        if rank == 0:
            self._gather(store)
        else:
            self._join(store)

    def meet(self, message: dict) -> list[dict]:
        """The messages of all, of which ``message`` (what JSON can hold) is this process's. Raises Gone."""
        if self.rank:
            leader = self._peers[0]
            self._told(0, leader.send, message)
            self._wait([0])
            return leader.take()
        self._wait(list(self._peers))
        every = [message, *(self._peers[rank].take() for rank in range(1, self.size))]
        for rank, peer in self._peers.items():
            self._told(rank, peer.send, every)
        return every

    def close(self) -> None:
        """Leave: who waits for this process sees that it has."""
        for peer in self._peers.values():
            peer.close()

    def _wait(self, ranks: list[int]) -> None:
        """Until each of ``ranks`` has sent a message."""
        since = time.monotonic()
        missing = ranks
        while True:
            missing = [rank for rank in missing if not self._told(rank, self._peers[rank].arrives, _LOOKS_S)]
            if not missing:
                return
            self.look(time.monotonic() - since, missing)

    @staticmethod
    def _told(rank: int, function, *args):
        try:
            return function(*args)
        except OSError:
            raise Gone(rank) from None

    def _gather(self, store) -> None:
        word = secrets.token_hex(16)  # so that nobody else's process is taken for one of the group
        with socket.create_server((_HOST, 0), backlog=self.size) as server:
            store.set("gapless meeting", f"{server.getsockname()[1]} {word}")
            server.settimeout(_LOOKS_S)
            since = time.monotonic()
            while len(self._peers) < self.size - 1:
                try:
                    line = _Line(server.accept()[0])
                except TimeoutError:
                    self.look(time.monotonic() - since, [rank for rank in range(1, self.size) if rank not in self._peers])
                    continue
                try:
                    line.socket.settimeout(10)
                    known, rank = line.receive()
                except (OSError, ValueError, TypeError):
                    known, rank = None, 0
                if known == word and rank not in self._peers:
                    line.socket.settimeout(None)
                    self._peers[rank] = line
                else:
                    line.close()

    def _join(self, store) -> None:
        until_set(store, {"gapless meeting": 0}, self.look)
        port, word = store.get("gapless meeting").decode().split()
        try:
            self._peers[0] = _Line(socket.create_connection((_HOST, int(port))))
        except OSError:
            raise Gone(0) from None
        self._told(0, self._peers[0].send, [word, self.rank])


def until_set(store, keys: dict[str, int], look: Callable[[float, list[int]], None]) -> None:
    """Wait until ``store`` has all ``keys``, each with the rank that sets it; ``look`` is called as by :class:`Meeting`.
    Raises Gone where the process that keeps the store has ended."""
    since, pause_s, looked_s = time.monotonic(), 0.001, 0.0
    while True:
        try:
            keys = {key: rank for key, rank in keys.items() if not store.check([key])}
        except RuntimeError:  # PyTorch's DistError
            raise Gone(None) from None
        if not keys:
            return
        waited_s = time.monotonic() - since
        if waited_s - looked_s >= _LOOKS_S:
            looked_s = waited_s
            look(waited_s, list(keys.values()))
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, 0.05)


class _Line:
    """A socket that messages go over, each as its length and its JSON."""

    def __init__(self, connected: socket.socket):
        self.socket = connected
        self._held = b""
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, message) -> None:
        text = json.dumps(message, separators=(",", ":")).encode()
        self.socket.sendall(_LENGTH.pack(len(text)) + text)

    def arrives(self, seconds: float) -> bool:
        """Whether a whole message is there, within ``seconds`` of the last of its bytes. Raises OSError at the end."""
        self.socket.settimeout(seconds)
        try:
            while not self._is_whole():
                more = self.socket.recv(1 << 16)
                if not more:
                    raise ConnectionResetError("the other end was closed")
                self._held += more
            return True
        except TimeoutError:
            return False
        finally:
            self.socket.settimeout(None)

    def _is_whole(self) -> bool:
        return len(self._held) >= 4 and len(self._held) >= 4 + _LENGTH.unpack_from(self._held)[0]

    def take(self):
        """The message that :meth:`arrives` has seen."""
        end = 4 + _LENGTH.unpack_from(self._held)[0]
        text, self._held = self._held[4:end], self._held[end:]
        return json.loads(text)

    def receive(self):
        """The next message, waited for as long as the socket's own timeout says."""
        while not self._is_whole():
            more = self.socket.recv(1 << 16)
            if not more:
                raise ConnectionResetError("the other end was closed")
            self._held += more
        return self.take()

    def close(self) -> None:
        self.socket.close()
