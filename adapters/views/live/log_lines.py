"""A live run as lines for a pipe, a file or a log collector: plain for people and ``grep``, or one JSON object a line.

Plain lines have fixed columns - the time in UTC to the millisecond, the level, the kind (``decision``, ``held``, ``report``,
``news``, ``status``) and a name without blanks - and then words in which ``·`` stands between parts. A step's five hundred
creates are one line. JSON lines hold every decision and report as its record (docs/reference/formats.md) behind
``at_ms``, ``level`` and ``kind``; values under keys that Spark redacts are redacted in both, and nothing in a line can
steer a terminal.

Nothing here delays a decision. Steps and notices are put into a queue as they are; a thread formats and writes them. When
the reader is slower than the run for long, the queue is full: lines are dropped, and the number of dropped lines is written
as soon as there is room. A reader that has gone (``| head``) or a disk that is full ends nothing: a run in charge of
executors goes on without anybody who reads. It says so once on standard error; a full disk is tried again with every line.
What else a reader that has gone means - a shadow that only prints may as well end - is for ``on_gone``.

Every ``status_ms`` a status line says where things stand, unless nothing has happened since the last one.
"""

from __future__ import annotations

import os
import queue
import select
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import IO, Any, Final, NamedTuple, Self, TypeAlias

from podtide.adapters.clock import Clock
from podtide.adapters.notices import Level, Notice, Topic
from podtide.adapters.recording.records.commands import command_record
from podtide.adapters.recording.records.decisions import report_record
from podtide.adapters.recording.records.jsonl import encoded
from podtide.adapters.recording.run_stalls import stall_document
from podtide.adapters.text.format import lasting
from podtide.adapters.text.page import Page
from podtide.adapters.text.redactor import Redactor
from podtide.adapters.text.safe import cause, escaped
from podtide.adapters.views.live import events
from podtide.adapters.views.live.status import REQUESTED, LiveSnapshot, alarms
from podtide.adapters.views.live.tracker import LiveTracker
from podtide.adapters.views.stalls import stall_line
from podtide.adapters.views.timeline.decisions import bound_words
from podtide.domain.base.units import Millis
from podtide.domain.conf.redaction import Redaction
from podtide.domain.engine import EngineState
from podtide.domain.protocol.application import AnyStimulus, Command
from podtide.domain.protocol.commands import Report, Step
from podtide.domain.protocol.reasons import Fact

STATUS_MS: Final[Millis] = 30_000
"""How often a status line is due."""

QUEUE_MAX: Final = 10_000
"""Steps and notices that wait to be written; the next ones are dropped."""

AT_ONCE_MAX: Final = 5
"""Notices of one topic and level that are written one by one of what is written at once; the others are counted."""

TEXT_MAX: Final = 2_000
"""Characters of one plain line."""

LINGER_S: Final = 0.5
"""Seconds that something waits for more of its kind: executors register one by one, many of them in a second."""

CLOSE_S: Final = 2.0
"""Seconds that the end waits for a slow reader to take what is left."""

NEWS: Final = "news"
STATUS: Final = "status"


class _Stepped(NamedTuple):
    """What one step said."""

    now: Millis
    commands: tuple[Command, ...]
    reports: tuple[Report, ...]
    moves: tuple[events.OutsideMove, ...]


_Item: TypeAlias = _Stepped | Notice


class LiveLines:
    """An observer of the loop and a ``Notify`` that writes lines; a context manager around the run.

    ``as_json``: JSON lines instead of plain ones. ``level``: the lowest that is written (``debug``, ``info``, ``warning``,
    ``error``). ``complain``: where it is said once that nothing can be written (standard error). ``on_gone``: called once,
    from the writing thread, when the reader has gone.
    """

    def __init__(
        self,
        tracker: LiveTracker,
        stream: IO[str],
        clock: Clock,
        *,
        as_json: bool = False,
        level: str = events.INFO,
        redaction: Redaction | None = None,
        status_ms: Millis = STATUS_MS,
        queue_max: int = QUEUE_MAX,
        complain: Callable[[str], None] | None = None,
        on_gone: Callable[[], None] | None = None,
    ) -> None:
        assert level in events.LEVELS
        self._tracker = tracker
        self._out = _Out(stream)
        self._page = Page(stream)
        self._clock = clock
        self._as_json = as_json
        self._lowest = events.LEVELS.index(level)
        self._redactor = Redactor(redaction)
        self._status_ms = status_ms
        self._next_status = clock.now() + status_ms
        self._status_change = -1
        self._status_told: object = None
        self._complain = complain or _to_stderr
        self._on_gone = on_gone
        self._targets = events.TargetWatch()
        self._queue: queue.Queue[_Item | None] = queue.Queue(queue_max)
        self._dropped = 0
        self._dropped_lock = threading.Lock()
        self._complained = False
        self._thread = threading.Thread(target=self._run, name="live lines", daemon=True)
        self._started = False
        self.gone = False

    # ------------------------------------------------------------------------------------------------- from any thread

    def step(self, now: Millis, stimuli: Sequence[AnyStimulus], taken: Step[EngineState, Command]) -> None:
        """See one step of the loop."""
        moves = tuple(self._targets.moved(now, stimuli, taken))
        if taken.commands or taken.reports or moves:
            self._put(_Stepped(now, tuple(map(self._redactor.command, taken.commands)), taken.reports, moves))

    def notify(self, notice: Notice) -> None:
        """Take a notice."""
        self._put(notice.redacted(self._redactor))

    def _put(self, item: _Item) -> None:
        if self.gone:
            return
        try:
            self._queue.put_nowait(item)
        except queue.Full:
            with self._dropped_lock:
                self._dropped += 1

    # --------------------------------------------------------------------------------------------- the writing thread

    def __enter__(self) -> Self:
        self._started = True
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Write what is left, and how things stand; a reader that does not read is waited for two seconds."""
        if not self._started:
            return
        self._started = False
        with suppress(queue.Full):
            self._queue.put(None, timeout=CLOSE_S)
        self._thread.join(CLOSE_S)

    def _run(self) -> None:
        going = True
        while going:
            wait_s = max(0.05, min(1.0, (self._next_status - self._clock.now()) / 1000))
            going = self.pump(wait_s=wait_s, linger_s=LINGER_S)

    def pump(self, *, wait_s: float = 0.0, linger_s: float = 0.0) -> bool:
        """Write what waits, and a status line if one is due. False: the end was written.

        ``wait_s``: how long to wait for something; ``linger_s``: how long for more of it, so that it fits into one line.
        """
        items, ended = self._waiting(wait_s, linger_s)
        for line in self._lines(items):
            self._write(line)
        with self._dropped_lock:
            dropped, self._dropped = self._dropped, 0
        now = self._clock.now()
        if dropped:
            text = f"{dropped:,} steps or news were not written: the reader is slower than the run"
            self._write(self._news_line(now, events.WARNING, "lines dropped", text, (("dropped", dropped),)))
        if ended or now >= self._next_status:
            self._next_status = now + self._status_ms
            if ended or self._status_change != self._tracker.change:
                snapshot = self._tracker.snapshot()
                essence = _essence(snapshot)
                if ended or essence != self._status_told:
                    self._write(self._status(snapshot))
                self._status_change, self._status_told = snapshot.change, essence
        return not ended

    def _waiting(self, wait_s: float, linger_s: float) -> tuple[list[_Item], bool]:
        """What waits, or comes within ``wait_s``, and what comes so soon after it; whether the end is among it."""
        items: list[_Item] = []
        until = self._clock.monotonic() + wait_s
        while len(items) < QUEUE_MAX:
            left = until - self._clock.monotonic()
            try:
                item = self._queue.get(timeout=left) if left > 0 else self._queue.get_nowait()
            except queue.Empty:
                return items, False
            if item is None:
                return items, True
            if not items:
                until = self._clock.monotonic() + linger_s
            items.append(item)
        return items, False

    def _lines(self, items: Sequence[_Item]) -> Iterator[str | None]:
        if self._as_json:
            for item in items:
                if isinstance(item, _Stepped):
                    yield from self._stepped_json(item)
                else:
                    yield self._news_line(item.at, item.level.value, item.topic.value, item.text, item.facts)
            return
        alike: Counter[tuple[Topic, Level]] = Counter()
        joined: dict[object, events.Line] = {}  # lines of several steps that say the same, in the order of their begins
        for item in items:
            if isinstance(item, _Stepped):
                moves = [move.line() for move in item.moves]
                for line in (*moves, *events.lines_of(item.now, item.commands, item.reports)):
                    if line.ids is not None and line.key in joined:
                        joined[line.key].join(line)
                    else:
                        joined[line.key if line.ids is not None else id(line)] = line
                continue
            alike[item.topic, item.level] += 1
            if alike[item.topic, item.level] <= AT_ONCE_MAX:
                joined[id(item)] = _said_line(item.at, item.level.value, item.topic.value, item.text, item.facts)
        for line in joined.values():
            yield self._plain(line)
        for (topic, level), number in alike.items():
            if (more := number - AT_ONCE_MAX) > 0:
                yield self._news_line(
                    self._clock.now(), level.value, topic.value, f"and {more:,} more like these at once", ()
                )

    # ---------------------------------------------------------------------------------------------------------- the lines

    def _stepped_json(self, step: _Stepped) -> Iterator[str | None]:
        for move in step.moves:
            yield self._json(events.INFO, events.REPORT, move.record())
        for command in step.commands:
            if self._is_wanted(level := events.command_level(command)):
                yield self._json(level, events.DECISION, command_record(command))
        for report in step.reports:
            if self._is_wanted(level := events.report_level(report)):
                yield self._json(level, events.REPORT, report_record(report))

    def _news_line(
        self, at: Millis, level: str, name: str, text: str, facts: tuple[tuple[str, Fact], ...]
    ) -> str | None:
        """Something that is no decision."""
        if self._as_json:
            return self._json(level, NEWS, {"at_ms": at, "topic": name, "text": text, "facts": dict(facts)})
        return self._plain(_said_line(at, level, name, text, facts))

    def _plain(self, line: events.Line) -> str | None:
        if not self._is_wanted(line.level):
            return None
        name = escaped("-".join(line.name.split()), 60) or "-"
        words = " · ".join([line.what, *(part for part in line.parts if part)])
        text = f"{events.stamp(line.at)} {line.level:<7} {line.kind:<8} {name:<22} {self._redactor.text(words)}"
        return self._page.plain(escaped(text, TEXT_MAX).rstrip())

    def _json(self, level: str, kind: str, record: Mapping[str, Any]) -> str | None:
        if not self._is_wanted(level):
            return None
        line = {"at_ms": record["at_ms"], "level": level, "kind": kind}
        for name, value in self._redactor.record(record).items():
            line["of" if name == "kind" else name] = value  # commands about sets and owned objects have a kind, too
        return encoded(line).decode().rstrip("\n")

    def _status(self, snapshot: LiveSnapshot) -> str | None:
        if self._as_json:
            return self._json(events.INFO, STATUS, status_record(snapshot))
        what, *parts = status_words(snapshot)
        stage = snapshot.stage.value
        at = snapshot.at
        return self._plain(events.Line((), at, at, events.INFO, "", stage, what, why=parts, kind=STATUS))

    def _is_wanted(self, level: str) -> bool:
        return events.LEVELS.index(level) >= self._lowest

    # ------------------------------------------------------------------------------------------------------------ writing

    def _write(self, line: str | None) -> None:
        if line is None or self.gone:
            return
        try:
            self._out.write(line + "\n")
        except BrokenPipeError:
            self._lose("nobody reads the output any more; the run goes on, its lines are dropped")
        except ValueError:  # somebody closed the stream
            self._lose("the output is closed; the run goes on, its lines are dropped")
        except OSError as problem:
            if not self._complained:
                self._complained = True
                self._complain(f"the output cannot be written: {cause(problem)}; the run goes on, lines are lost")

    def _lose(self, text: str) -> None:
        self.gone = True
        self._complain(text)
        if self._on_gone is not None:
            self._on_gone()


class _Out:
    """Writes text to a stream; to its file descriptor where it has one.

    A thread that hangs in a write of Python's own buffers would hold their lock, which ends the whole process badly when
    the interpreter shuts down; one that hangs in the system call holds nothing.
    """

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self._encoding = getattr(stream, "encoding", None) or "utf-8"
        try:
            stream.flush()
            self._descriptor: int | None = stream.fileno()
        except (OSError, ValueError, AttributeError):  # no file: a text in memory
            self._descriptor = None

    def write(self, text: str) -> None:
        """Write it whole. Raises OSError, BrokenPipeError among them, and ValueError on a closed stream."""
        if self._descriptor is None:
            self._stream.write(text)
            self._stream.flush()
            return
        data = memoryview(text.encode(self._encoding, "backslashreplace"))
        while data:
            try:
                data = data[os.write(self._descriptor, data) :]
            except BlockingIOError:  # somebody else has made the descriptor non-blocking
                select.select([], [self._descriptor], [], 1.0)


def _said_line(at: Millis, level: str, name: str, text: str, facts: tuple[tuple[str, Fact], ...] = ()) -> events.Line:
    """A notice in a line: its text may have several, and braces that mean nothing."""
    numbers = [f"{key} {value}" for key, value in facts if value is not None]
    return events.Line((), at, at, level, "", name, " ".join(text.split()), why=numbers, kind=NEWS)


def _to_stderr(text: str) -> None:
    with suppress(OSError, ValueError):
        sys.stderr.write(f"podtide: {escaped(text, TEXT_MAX)}\n")
        sys.stderr.flush()


def _essence(snapshot: LiveSnapshot) -> object:
    """What must be different for another status line: calls that come by the clock, and time, are not enough."""
    held = tuple((hold.bound, hold.profile, hold.number) for hold in snapshot.held)
    stands = (snapshot.stage, snapshot.watch, snapshot.lease, snapshot.driver, snapshot.unreachable_since is None)
    stalls = tuple((one.cause, one.profile, one.blocked) for one in snapshot.stalls)
    counts = (snapshot.differences, snapshot.calls.failed, snapshot.watch_breaks, sum(snapshot.threw.values()))
    return snapshot.total, held, stands, counts, stalls


def status_words(snapshot: LiveSnapshot) -> list[str]:
    """Where things stand, in parts: targets and executors, what holds back, calls, what is wrong."""
    total, calls = snapshot.total, snapshot.calls
    parts = [f"target {total.target:,}", f"running {total.pods.get('running', 0):,}"]
    parts += [
        f"{state if state != REQUESTED else 'asked for'} {number:,}"
        for state in (REQUESTED, "pending", "failed", "terminating", "unknown")
        if (number := total.pods.get(state, 0))
    ]
    parts.append(f"registered {total.registered:,}")
    if total.leaving:
        parts.append(f"leaving {total.leaving:,}")
    for hold in snapshot.held[:3]:
        since = lasting(snapshot.at - hold.since)
        parts.append(
            f"{'keeps' if hold.keeps else 'holds back'} {hold.number:,}: {bound_words(hold.bound)} for {since}"
        )
    parts += [stall_line(stall, snapshot.at) for stall in snapshot.stalls if not stall.blocked]
    parts.append(f"calls {calls.calls:,}" + (f", {calls.failed:,} failed" if calls.failed else ""))
    if snapshot.seen_ms is not None:
        parts.append(f"seen {lasting(snapshot.seen_ms)} ago")
    return [*parts, *alarms(snapshot)]


def status_record(snapshot: LiveSnapshot) -> dict[str, Any]:
    """The same as plain data (docs/reference/live.md)."""
    calls = snapshot.calls
    return {
        "at_ms": snapshot.at,
        "app_id": snapshot.about.app_id,
        "mode": snapshot.about.mode,
        "stage": snapshot.stage.value,
        "target": snapshot.total.target,
        "pods": dict(sorted(snapshot.total.pods.items())),
        "registered": snapshot.total.registered,
        "leaving": snapshot.total.leaving,
        "profiles": [
            {"profile": one.profile, "target": one.target, "pods": dict(sorted(one.pods.items())),
             "registered": one.registered, "leaving": one.leaving}
            for one in snapshot.profiles
        ],
        "held": [
            {"bound": one.bound, "profile": one.profile, "since_ms": one.since, "number": one.number, "keeps": one.keeps}
            for one in snapshot.held
        ],
        "calls": calls.calls,
        "calls_failed": calls.failed,
        "median_seconds": calls.median,
        "slowest_percent_seconds": calls.slowest,
        "seen_seconds": None if snapshot.seen_ms is None else snapshot.seen_ms / 1000,
        "watch": snapshot.watch.value,
        "watch_breaks": snapshot.watch_breaks,
        "lease": snapshot.lease.value,
        "steps": snapshot.steps,
        "differences": snapshot.differences,
        "stalls": [stall_document(stall) for stall in snapshot.stalls],
        "wrong": alarms(snapshot),
    }  # fmt: skip
