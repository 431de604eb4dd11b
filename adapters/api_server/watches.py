"""What open watches have still to be sent: queues between the steps, which never wait, and the clients, who may.

A line is encoded once, whoever reads it. A queue is bounded by the bytes that its client leaves unread: what one step sends
is always taken, but when more comes while too much waits, the watch is cut off, as kube-apiserver does, and its client lists
again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable

import msgspec

from podtide.domain.api_server.messages import WatchEvent, WatchOver
from podtide.domain.api_server.server import event_json
from podtide.domain.api_server.state import ApiState
from podtide.domain.base.units import Millis


def _nobody() -> None:
    """No client listens yet."""


class WatchQueue:
    """The lines of one watch that are not sent yet. ``on_cut`` hangs up at once, even in the middle of a write."""

    def __init__(self) -> None:
        self.on_cut: Callable[[], None] = _nobody
        self.over = False
        self._lines: deque[bytes] = deque()
        self._bytes = 0
        self._news = asyncio.Event()

    @property
    def unread(self) -> int:
        """Bytes that wait."""
        return self._bytes

    def put(self, line: bytes) -> None:
        """One more line."""
        self._lines.append(line)
        self._bytes += len(line)
        self._news.set()

    def end(self) -> None:
        """Nothing more comes."""
        self.over = True
        self._news.set()

    def cut(self) -> None:
        """Nothing more comes, nor is what waits sent."""
        self._lines.clear()
        self.end()
        self.on_cut()

    async def take(self) -> list[bytes]:
        """The lines that wait, at least one; none at the end."""
        while not self._lines and not self.over:
            self._news.clear()
            await self._news.wait()
        lines = list(self._lines)
        self._lines.clear()
        self._bytes = 0
        return lines


class OpenWatches:
    """The queues of all open watches, by the watch's number."""

    def __init__(self, unread_max: int) -> None:
        self._unread_max = unread_max
        self._queues: dict[int, WatchQueue] = {}

    def open(self, watch: int) -> WatchQueue:
        """A queue for a new watch; it stays until ``close``."""
        queue = self._queues[watch] = WatchQueue()
        return queue

    def queue(self, watch: int) -> WatchQueue:
        """An open watch's."""
        return self._queues[watch]

    def close(self, watch: int) -> None:
        """Forget a watch."""
        del self._queues[watch]

    def end_all(self) -> None:
        """Let every watch send what waits and end."""
        for queue in self._queues.values():
            queue.end()

    def deliver(self, events: Iterable[WatchEvent], state: ApiState, now: Millis) -> None:
        """Queue what a step sends."""
        encoded: dict[tuple[int, str, bool], bytes] = {}
        fed = set[int]()
        for event in events:
            queue = self._queues.get(event.watch)
            if queue is None or queue.over:  # the client hung up, or was cut off
                continue
            if isinstance(event, WatchOver):
                queue.end()
                continue
            if event.watch not in fed:
                fed.add(event.watch)
                if queue.unread > self._unread_max:
                    queue.cut()
                    continue
            key = (id(event.item), event.type, event.as_table)
            line = encoded.get(key)
            if line is None:
                line = encoded[key] = msgspec.json.encode(event_json(event, state, now)) + b"\n"
            queue.put(line)
