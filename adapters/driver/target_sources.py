"""Where the number of executors comes from when no driver is asked: a number, a schedule, or lines on standard input.

Each source has ``initial``, the default profile's executors that the application begins with (None: not known yet),
``start`` and ``stop``, and says what it has to say as domain stimuli through ``hear``, from a thread of its own. A
``TargetsSet`` always names every profile that has a target so far: that is what requestTotalExecutors means.

A schedule is played by the clock from ``start`` on. Lines are acted upon one by one; one that means nothing becomes a
notice, with its number and what was expected, and ends nothing. Reading waits for the file descriptor, never in it, so
that it can be ended, and leaves the descriptor's mode alone, which is shared with the parent process.
"""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Protocol, TypeAlias

from podtide.adapters.clock import Clock
from podtide.adapters.driver.line_protocol import LineRefused, StatusAsked, StopAsked, TargetAsked, understand
from podtide.adapters.driver.schedule import EXECUTORS_MAX, TargetError
from podtide.adapters.notices import Level, Notice, Notify, Topic
from podtide.domain.base.units import DEFAULT_PROFILE, Millis, ProfileId
from podtide.domain.fakes.driver.script import Targets
from podtide.domain.protocol.executor_stimuli import DecommissionRequested, KillRequested, TargetsSet

PROFILES_MAX: Final = 1_000
"""Profiles that lines may give targets to."""
LINE_MAX: Final = 64 * 1024
"""Bytes of the longest line; a kill of thousands fits."""
PIECE: Final = 64 * 1024
WAIT_MAX_S: Final = 60.0

TargetStimulus: TypeAlias = TargetsSet | KillRequested | DecommissionRequested
Hear: TypeAlias = Callable[[TargetStimulus], None]


class TargetSource(Protocol):
    """What a live run needs of a source."""

    initial: int | None

    def start(self) -> None:
        """Begin to say what is wanted."""
        ...

    def stop(self, timeout_s: float = 5.0) -> bool:
        """End it; whether it ended in time."""
        ...


class NumberSource:
    """The same number for ever."""

    def __init__(self, executors: int, hear: Hear) -> None:
        """Raises TargetError for what is no number of executors."""
        if not 0 <= executors <= EXECUTORS_MAX:
            raise TargetError(f"expected 0 to {EXECUTORS_MAX} executors, got {executors}")
        self.initial: int | None = executors
        self._hear = hear

    def start(self) -> None:
        """Say it; a run that goes on from another's recording may have had another number."""
        self._hear(TargetsSet(0, ((DEFAULT_PROFILE, self.initial or 0),)))

    def stop(self, timeout_s: float = 5.0) -> bool:
        """Nothing goes on."""
        del timeout_s
        return True


class ScheduleSource:
    """Plays a schedule from ``start`` on. ``done``: its last step was said."""

    def __init__(self, schedule: Targets, hear: Hear, clock: Clock, notify: Notify) -> None:
        self._steps = schedule.steps
        self._hear, self._clock, self._notify = hear, clock, notify
        self._wanted: dict[ProfileId, int] = {}
        at_once = {profile: executors for at, step in self._steps if at <= 0 for profile, executors in step}
        self.initial: int | None = at_once.get(DEFAULT_PROFILE)
        self.done: Final = threading.Event()
        self._place = 0
        self._began: float | None = None
        self._stopped: Final = threading.Event()
        self._thread: threading.Thread | None = None

    def go_on(self, began_at: Millis) -> None:
        """Before ``start``: the schedule began then (epoch ms), in a run that was killed; it goes on where it would be."""
        self._began = self._clock.monotonic() - max(0, self._clock.now() - began_at) / 1000

    def start(self) -> None:
        """Begin; what is wanted at once is said at once."""
        self.turn()
        if not self.done.is_set():
            self._thread = threading.Thread(target=self._run, name="target-schedule", daemon=True)
            self._thread.start()

    def stop(self, timeout_s: float = 5.0) -> bool:
        """End it; the last target stays."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join(timeout_s)
            return not self._thread.is_alive()
        return True

    def _run(self) -> None:
        while not self.done.is_set() and not self._stopped.is_set():
            self._stopped.wait(min(self.turn(), WAIT_MAX_S))

    def turn(self) -> float:
        """Say what is due; returns the seconds until the next step."""
        now = self._clock.monotonic()
        if self._began is None:
            self._began = now
        passed = (now - self._began) * 1000
        due = False
        while self._place < len(self._steps) and self._steps[self._place][0] <= passed:
            self._wanted.update(self._steps[self._place][1])
            self._place += 1
            due = True
        if due:
            self._hear(TargetsSet(0, tuple(sorted(self._wanted.items()))))
        if self._place >= len(self._steps):
            self.done.set()
            text = f"the schedule is over after {len(self._steps)} steps; its last targets stay"
            self._notify(Notice(self._clock.now(), Level.INFO, Topic.STATUS, text))
            return 0.0
        return (self._steps[self._place][0] - passed) / 1000


class LineSource:
    """Lines on a file descriptor, one command each. ``ended``: the input is at its end, or was told to stop.

    ``on_status`` and ``on_stop`` are called for those words, from the source's thread; the latter at the end of the
    input too if ``stop_at_end``, otherwise the last targets stay.
    """

    initial: int | None = None

    def __init__(
        self,
        descriptor: int,
        hear: Hear,
        clock: Clock,
        notify: Notify,
        on_stop: Callable[[], None],
        on_status: Callable[[], None],
        *,
        stop_at_end: bool = False,
    ) -> None:
        self.ended: Final = threading.Event()
        self._descriptor = descriptor
        self._hear, self._clock, self._notify = hear, clock, notify
        self._on_stop, self._on_status = on_stop, on_status
        self._stop_at_end = stop_at_end
        self._targets: dict[ProfileId, int] = {}
        self._number = 0
        self._rest = bytearray()
        self._skipping = False
        self._wake: tuple[int, int] | None = None
        self._lock: Final = threading.Lock()
        self._stopped = False
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to read."""
        try:
            os.fstat(self._descriptor)  # before a pipe is made, which would take the place of one that is closed
        except OSError as problem:
            self._unreadable(problem)
            self._over()
            self.ended.set()
            return
        self._wake = os.pipe()
        self._thread = threading.Thread(target=self._run, name="target-lines", daemon=True)
        self._thread.start()

    def stop(self, timeout_s: float = 5.0) -> bool:
        """End it, also while it waits for a line; whether it ended in time."""
        self._stopped = True
        with self._lock:
            if self._wake is not None:
                with suppress(OSError):
                    os.write(self._wake[1], b".")
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout_s)
            return not thread.is_alive()
        return True

    def _run(self) -> None:
        assert self._wake is not None
        readable = select.poll()
        readable.register(self._descriptor, select.POLLIN)
        readable.register(self._wake[0], select.POLLIN)
        try:
            while not self._stopped:
                ready = {descriptor for descriptor, _ in readable.poll()}
                if self._wake[0] in ready or self._stopped:
                    break
                if not self._read():
                    break
        finally:
            with self._lock:
                reading, writing = self._wake
                self._wake = None
                os.close(reading)
                os.close(writing)
            self.ended.set()

    def _read(self) -> bool:
        """Read what is there; False at the end of the input, or of everything."""
        try:
            data = os.read(self._descriptor, PIECE)
        except BlockingIOError:  # another process that shares it was faster
            return True
        except OSError as problem:
            self._unreadable(problem)
            data = b""
        if not data:
            if self._rest and not self._skipping:
                self.take(bytes(self._rest))
            if not self._stopped:
                self._over()
            return False
        self.feed(data)
        return not self._stopped

    def feed(self, data: bytes) -> None:
        """Take bytes as they come; whole lines are acted upon."""
        *whole, rest = data.split(b"\n")
        for piece in whole:
            if self._stopped:
                return
            if self._skipping:
                self._skipping = False
                continue
            line = bytes(self._rest) + piece
            self._rest.clear()
            if len(line) > LINE_MAX:
                self._too_long()
            else:
                self.take(line)
        if self._skipping:
            return
        self._rest += rest
        if len(self._rest) > LINE_MAX:
            self._too_long()
            self._rest.clear()
            self._skipping = True

    def _too_long(self) -> None:
        self._number += 1
        self._refuse(f"line {self._number}: longer than {LINE_MAX} bytes")

    def take(self, line: bytes) -> None:
        """Act upon one line."""
        self._number += 1
        try:
            order = understand(line.decode("utf-8-sig" if self._number == 1 else "utf-8"))
        except UnicodeDecodeError:
            self._refuse(f"line {self._number}: expected UTF-8 text")
            return
        except LineRefused as refused:
            self._refuse(f"line {self._number}: {refused}")
            return
        match order:
            case None:
                pass
            case TargetAsked():
                self._aim(order)
            case StatusAsked():
                self._on_status()
            case StopAsked():
                self._stopped = True
                self._on_stop()
            case _:
                self._hear(order)

    def _aim(self, target: TargetAsked) -> None:
        if target.profile not in self._targets and len(self._targets) >= PROFILES_MAX:
            self._refuse(f"line {self._number}: targets for more than {PROFILES_MAX} profiles")
            return
        self._targets[target.profile] = target.executors
        self._hear(TargetsSet(0, tuple(sorted(self._targets.items()))))

    def _over(self) -> None:
        text = "the input is at its end" + ("" if self._stop_at_end else "; the last targets stay")
        self._notify(Notice(self._clock.now(), Level.INFO, Topic.STOPPING if self._stop_at_end else Topic.STATUS, text))
        if self._stop_at_end:
            self._on_stop()

    def _unreadable(self, problem: OSError) -> None:
        self._refuse(f"the input cannot be read: {problem.strerror or problem}", Level.ERROR)

    def _refuse(self, text: str, level: Level = Level.WARNING) -> None:
        facts = (("line", self._number),)
        self._notify(Notice(self._clock.now(), level, Topic.INPUT_REFUSED, _printable(text), facts))


def _printable(text: str) -> str:
    """Without what a terminal might act upon."""
    return "".join(c if c.isprintable() else "?" for c in text)
