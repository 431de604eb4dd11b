"""A watch as it arrives: bytes into lines, lines into events, and what may be wrong with either.

``WatchReader`` is fed the chunks of one stream and answers each with a ``WatchReading``: the events in it, in order, up to
the first that ends the watch, and that end, a ``WatchEnd``:

- an ERROR event (410: the place from which it was to go on is no longer in the history; and any other);
- a line that is no event, or longer than a line may be;
- an event that is not newer than the place where the stream began: the server's history is another one than ours.

A line that is cut off by the end of the stream is nothing: what it was to say comes again.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from podtide.adapters.kubernetes.codec import Event, read_event
from podtide.adapters.kubernetes.status import UnreadableBody
from podtide.adapters.kubernetes.watch.lists import number_of

LINE_MAX: Final = 4 * 1024 * 1024
"""Bytes of the longest event: etcd holds no object of more than 1.5 MB, and JSON may take more than that."""


class Lines:
    """Bytes in pieces to lines. Costs O(bytes), holds at most one line."""

    def __init__(self, line_max: int = LINE_MAX) -> None:
        self._line_max = line_max
        self._pieces: list[bytes] = []
        self._held = 0
        self.too_long = False
        """A line was longer than it may be; nothing is read any more."""

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that a chunk completes, without the empty ones."""
        first, *rest = chunk.split(b"\n")
        self._held += len(first)
        if self._held > self._line_max or self.too_long:
            self._pieces, self.too_long = [], True
            return []
        self._pieces.append(first)
        if not rest:
            return []
        lines = [b"".join(self._pieces), *rest[:-1]]
        self._pieces, self._held = [rest[-1]], len(rest[-1])
        return [line for line in lines if line]


class WatchEnd(NamedTuple):
    """Why a watch cannot go on from where it is. ``code``: of an ERROR event, if it has one."""

    why: str
    code: int | None = None


class WatchReading(NamedTuple):
    """What a chunk says."""

    events: tuple[Event, ...]
    end: WatchEnd | None = None


class WatchReader:
    """Reads one stream. ``began_at``: the resource version that it was asked to go on from."""

    def __init__(self, began_at: str, line_max: int = LINE_MAX) -> None:
        self._lines = Lines(line_max)
        self._line_max = line_max
        self._began_at = number_of(began_at)

    def read(self, chunk: bytes) -> WatchReading:
        """Read on. After an ``end`` there is nothing more to be read."""
        events: list[Event] = []
        for line in self._lines.feed(chunk):
            event = read_event(line)
            if isinstance(event, UnreadableBody):
                return WatchReading(tuple(events), WatchEnd(event.why))
            if event.status is not None:
                code = event.status.code
                message = event.status.message or event.status.reason or "no reason"
                return WatchReading(
                    tuple(events), WatchEnd(f"the watch was ended by the API server: {message} ({code})", code)
                )
            number = number_of(event.version)
            # A bookmark may say again where the watch began; nothing may be older than that.
            if self._began_at is not None and number is not None and number < self._began_at:
                why = f"the watch began at version {self._began_at} and shows version {number}: another history"
                return WatchReading(tuple(events), WatchEnd(why))
            events.append(event)
        if self._lines.too_long:
            return WatchReading(tuple(events), WatchEnd(f"an event of the watch is longer than {self._line_max} bytes"))
        return WatchReading(tuple(events))
