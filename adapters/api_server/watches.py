"""What open watches have still to be sent: queues between the steps, which never wait, and the clients, who may.

A line is encoded once, whoever reads it. A queue is bounded by the bytes that its client leaves unread: what one step sends
is always taken, but when more comes while too much waits, the watch is cut off, as kube-apiserver does, and its client lists
again. Events that a fault makes late wait in a heap of all watches, and are thrown away with a watch that is cut.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Callable, Iterable
from typing import TypeAlias

import msgspec

from podtide.domain.api_faults.faulty_server import TimedEvent, WatchCut
from podtide.domain.api_server.messages import WatchOver
from podtide.domain.api_server.server import event_json
from podtide.domain.api_server.state import ApiState
from podtide.domain.base.units import Millis

_Late: TypeAlias = tuple[Millis, int, int, bytes | WatchOver | WatchCut]
"""When, which of all, of which watch, and what."""


def _nobody() -> None:
    """No client listens yet."""


class WatchQueue:
    """The lines of one watch that are not sent yet. ``on_cut`` hangs up at once, even in the middle of a write."""

    def __init__(self) -> None:
        self.on_cut: Callable[[], None] = _nobody
        self.over = False
        self.late_bytes = 0
        self._lines: deque[bytes] = deque()
        self._bytes = 0
        self._news = asyncio.Event()

    @property
    def unread(self) -> int:
        """Bytes that wait, for the client or for their time."""
        return self._bytes + self.late_bytes

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
        self._late: list[_Late] = []
        self._serial = 0
        self._timer: asyncio.TimerHandle | None = None

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
        """Let every watch send what waits for the client and end."""
        if self._timer is not None:
            self._timer.cancel()
        self._late.clear()
        for queue in self._queues.values():
            queue.end()

    def deliver(self, events: Iterable[TimedEvent], state: ApiState, now: Millis) -> None:
        """Queue what a step sends: at once, or at its time."""
        self._send_late(now)
        encoded: dict[tuple[int, str, bool], bytes] = {}
        fed = set[int]()
        for moment, event in events:
            queue = self._queues.get(event.watch)
            if queue is None or queue.over:  # the client hung up, or was cut off
                continue
            if isinstance(event, WatchOver | WatchCut):
                self._put(queue, event.watch, event, moment, now)
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
            self._put(queue, event.watch, line, moment, now)

    def _put(
        self, queue: WatchQueue, watch: int, what: bytes | WatchOver | WatchCut, moment: Millis, now: Millis
    ) -> None:
        if moment <= now:
            _take(queue, what)
            return
        if isinstance(what, bytes):
            queue.late_bytes += len(what)
        self._serial += 1
        heapq.heappush(self._late, (moment, self._serial, watch, what))
        if self._late[0][1] == self._serial:
            self._set_timer(now)

    def _set_timer(self, now: Millis) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        if self._late:
            moment = self._late[0][0]
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later((moment - now) / 1000, self._on_timer, moment)

    def _on_timer(self, moment: Millis) -> None:
        self._send_late(moment)

    def _send_late(self, now: Millis) -> None:
        """Queue what was late and is due."""
        late = self._late
        if not late or late[0][0] > now:
            return
        while late and late[0][0] <= now:
            _, _, watch, what = heapq.heappop(late)
            queue = self._queues.get(watch)
            if queue is None:
                continue
            if isinstance(what, bytes):
                queue.late_bytes -= len(what)
            if not queue.over:
                _take(queue, what)
        self._set_timer(now)


def _take(queue: WatchQueue, what: bytes | WatchOver | WatchCut) -> None:
    if isinstance(what, bytes):
        queue.put(what)
    elif isinstance(what, WatchOver):
        queue.end()
    else:
        queue.cut()
