"""Where events go: a file of JSON lines, standard output, a webhook. An event leaves the outbox once it is there.

*A file* gets each event once, whatever ends this process: before events are appended, the file's last lines say which of
them it has, and what was cut off in the middle of a line is removed. Who rotates the file may do so at any time.

*Standard output* and *a webhook* get each event at least once: whether a reader or a server has it is known only from the
answer, and a process may end in between. The webhook therefore has the same ``Idempotency-Key`` for the same event every
time (history and number), by which a receiver drops the second one.

A webhook that does not answer, or answers with anything but 2xx, is asked again: after ``RETRY_MS``, then twice as late each
time, up to ``RETRY_MAX_MS``, and for as long as it takes. Events keep their order as far as the receiver answers.
"""

from __future__ import annotations

import http.client
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Protocol
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from podtide import __version__
from podtide.adapters.fleet.journal import digest
from podtide.adapters.history.store import RunHistory
from podtide.adapters.history.values import WatchEvent
from podtide.adapters.text.safe import cause, display
from podtide.domain.base.units import Millis

TIMEOUT_S: Final = 10.0
RETRY_MS: Final[Millis] = 10_000
RETRY_MAX_MS: Final[Millis] = 3_600_000
TAIL: Final = 1024 * 1024
"""Bytes at the end of a file that are looked at; an event is much smaller."""


class SinkError(Exception):
    """Events cannot be delivered now; the message is one printable line."""


class Sink(Protocol):
    """Somewhere that events go; ``name`` in the outbox."""

    name: str

    def deliver(self, history: RunHistory, now: Millis) -> None:
        """Deliver what is due. Raises SinkError once what was delivered is marked."""
        ...


class LinesFile:
    """JSON lines at the end of a file."""

    def __init__(self, path: str) -> None:
        self._path = Path(os.path.realpath(path))
        self.name = f"lines {self._path}"

    def check(self) -> None:
        """Refuse at once what could not be written later. Raises SinkError."""
        try:
            os.close(self._opened())
        except OSError as problem:
            raise self._failed(problem) from None

    def deliver(self, history: RunHistory, now: Millis) -> None:
        """See ``Sink``."""
        while waiting := history.undelivered(self.name, now):
            try:
                self._append(history.uid, [one.event for one in waiting])
            except OSError as problem:
                raise self._failed(problem) from None
            history.delivered(self.name, waiting[-1].event.id)

    def _append(self, uid: str, events: Sequence[WatchEvent]) -> None:
        handle = self._opened()
        try:
            size = os.fstat(handle).st_size
            tail = os.pread(handle, min(size, TAIL), max(0, size - TAIL))
            whole, _, rest = tail.rpartition(b"\n")
            last = _last_of(whole, uid)
            lines = [event.body + b"\n" for event in events if event.id > last]
            if rest and lines and lines[0].startswith(rest):
                os.ftruncate(handle, size - len(rest))
            elif rest and lines:  # somebody else's line without an end
                lines.insert(0, b"\n")
            left = memoryview(b"".join(lines))
            while left:
                left = left[os.write(handle, left) :]
            os.fsync(handle)
        finally:
            os.close(handle)

    def _opened(self) -> int:
        return os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)

    def _failed(self, problem: OSError) -> SinkError:
        return SinkError(f"{display(str(self._path))}: cannot be written: {cause(problem)}")


class LinesOut:
    """JSON lines to a function that writes and flushes them, such as on standard output."""

    name = "lines -"

    def __init__(self, write: Callable[[bytes], None]) -> None:
        self._write = write

    def deliver(self, history: RunHistory, now: Millis) -> None:
        """See ``Sink``."""
        while waiting := history.undelivered(self.name, now):
            self._write(b"".join(one.event.body + b"\n" for one in waiting))
            history.delivered(self.name, waiting[-1].event.id)


class Webhook:
    """A URL that events are sent to by POST, one at a time. No redirect is followed; TLS is verified."""

    def __init__(self, url: str, *, timeout_s: float = TIMEOUT_S) -> None:
        """Raises SinkError where the URL is none."""
        try:
            found = urlsplit(url)
            host, _ = found.hostname, found.port
        except ValueError:
            host = None
        if host is None or found.scheme not in ("http", "https") or not url.isascii() or not url.isprintable():
            raise SinkError("the webhook is no URL: expected http://... or https://...")
        self.name = f"webhook {digest(url)}"  # the URL may hold a secret
        self._url, self._timeout_s = url, timeout_s
        self._shown = f"webhook at {display(found.netloc.rpartition('@')[2])}"  # the rest may be a secret
        self._opener = build_opener(_NoRedirect())

    def deliver(self, history: RunHistory, now: Millis) -> None:
        """See ``Sink``."""
        problems = []
        while waiting := history.undelivered(self.name, now):
            for one in waiting:
                problem, reached = self._post(history.uid, one.event)
                if problem is None:
                    history.delivered_one(self.name, one.event.id)
                    continue
                wait = min(RETRY_MS << min(one.tries, 20), RETRY_MAX_MS)
                history.postponed(self.name, one.event.id, now + wait, problem)
                problems.append(problem)
                if not reached:  # the others would wait for nothing, too
                    raise SinkError(f"{self._shown}: {problem}; it is tried again")
        if problems:
            raise SinkError(f"{self._shown}: {problems[-1]}; it is tried again")

    def _post(self, uid: str, event: WatchEvent) -> tuple[str | None, bool]:
        """What went wrong, None where nothing did; whether the server answered at all."""
        headers = {
            "Content-Type": "application/json",
            "User-Agent": f"podtide/{__version__}",
            "Idempotency-Key": f"{uid}-{event.id}",
        }
        request = Request(self._url, data=event.body, headers=headers, method="POST")  # noqa: S310 - http and https alone
        try:
            with self._opener.open(request, timeout=self._timeout_s) as answer:
                answer.read(1024)
        except HTTPError as refusal:
            with refusal:
                return f"it answered {refusal.code}", True
        except URLError as problem:
            reason = problem.reason
            return cause(reason) if isinstance(reason, BaseException) else "it cannot be reached", False
        except (OSError, http.client.HTTPException) as problem:
            return cause(problem), False
        return None, True


class _NoRedirect(HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        """Events go where the user said, and nowhere else."""


def _last_of(lines: bytes, uid: str) -> int:
    """The number of this history's last event among these lines; 0 without one."""
    for line in reversed(lines.split(b"\n")):
        try:
            known = json.loads(line)
        except ValueError:
            continue
        if isinstance(known, dict) and known.get("history") == uid and isinstance(known.get("id"), int):
            return int(known["id"])
    return 0
