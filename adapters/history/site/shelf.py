"""Reports of runs, made when they are asked for: one at a time, in a process of its own with a bound on time, and kept.

A report takes from a second to minutes. No request waits for it: the answer is that it is being made, and a moment later the
report, or why there is none. What was made is kept up to ``KEPT_BYTES``, the one that was asked for last the longest.
"""

from __future__ import annotations

import queue
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final, NamedTuple

from podtide.adapters.process_pool import Ended, Work, Workers, WorkersError

KEPT_BYTES: Final = 64 * 1024 * 1024
WAITING_MAX: Final = 16
"""Reports that wait for their turn; of more it is said that too many are asked for."""

FAILED: Final = b"!"
MADE: Final = b"="
"""First byte of a worker's answer: a page, or why there is none."""


class Shelved(NamedTuple):
    """A report, or why there is none."""

    page: bytes | None
    why: str = ""


class TooMany(Exception):
    """Too many reports are being made."""


class ReportShelf:
    """Makes reports by ``work``, from a request to ``MADE`` and a page or ``FAILED`` and a reason; a context manager."""

    def __init__(self, work: Work, workers: Callable[[Work], Workers]) -> None:
        """``workers``: makes one process for the work, with its bounds."""
        self._work, self._workers = work, workers
        self._queue: queue.Queue[tuple[str, bytes] | None] = queue.Queue(WAITING_MAX)
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, Shelved] = OrderedDict()
        self._size = 0
        self._under_way: set[str] = set()
        self._thread: threading.Thread | None = None

    def get(self, key: str, request: bytes) -> Shelved | None:
        """The report, or None while it is made. Raises TooMany."""
        with self._lock:
            if (found := self._kept.get(key)) is not None:
                self._kept.move_to_end(key)
                return found
            if key in self._under_way:
                return None
            try:
                self._queue.put_nowait((key, request))
            except queue.Full:
                raise TooMany from None
            self._under_way.add(key)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="reports", daemon=True)
                self._thread.start()
            return None

    def close(self) -> None:
        """Make no more; one that is under way ends with this process."""
        with suppress(queue.Full):
            self._queue.put_nowait(None)

    def __enter__(self) -> ReportShelf:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self) -> None:
        try:
            with self._workers(self._work) as workers:
                for key, answer in workers.run(self._requests()):
                    self._keep(key, _shelved(answer))
        except WorkersError as problem:
            with self._lock:
                self._thread = None
                waiting = list(self._under_way)
            for key in waiting:
                self._keep(key, Shelved(None, str(problem)))

    def _requests(self) -> Iterator[tuple[str, bytes]]:
        while (taken := self._queue.get()) is not None:
            yield taken

    def _keep(self, key: str, made: Shelved) -> None:
        with self._lock:
            self._under_way.discard(key)
            self._kept[key] = made
            self._size += len(made.page or b"")
            while self._size > KEPT_BYTES and len(self._kept) > 1:
                _, gone = self._kept.popitem(last=False)
                self._size -= len(gone.page or b"")


def _shelved(answer: bytes | Ended) -> Shelved:
    if isinstance(answer, Ended):
        return Shelved(None, answer.why)
    return Shelved(answer[1:]) if answer.startswith(MADE) else Shelved(None, answer[1:].decode("utf-8", "replace"))
