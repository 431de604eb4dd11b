"""What people want to know of a live run, kept up to date as it happens: an observer of the loop with bounded memory.

It is told three kinds of things. The loop shows every step (``step``), and when it begins to work and to wait (``roused``,
``resting``). Adapters notify from their own threads (``notify``, a ``notices.Notify``), and every call to the API server is
seen when it has ended (``seen``, a ``kubernetes.api.Watcher``). Whoever draws, counts or answers for the run's health takes
a ``LiveSnapshot`` from any thread.

What a step costs is what it says: pods are counted when they change, registered executors when they come and go. Only a
full list costs a pass over all pods, as it does everywhere. What people read is put together (``views.live.events``): a
ramp of fifty batches is one line that grows, five hundred refusals are one notice that happened five hundred
times.
"""

from __future__ import annotations

import re
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from podtide.adapters.clock import Clock
from podtide.adapters.kubernetes.api import CallSeen
from podtide.adapters.notices import Level, Notice, Topic
from podtide.adapters.recording.records.commands import command_name
from podtide.adapters.text.redactor import Redactor
from podtide.adapters.text.safe import escaped
from podtide.adapters.views.live import status
from podtide.adapters.views.live.api_calls import Calls, HistogramCounter
from podtide.adapters.views.live.events import DEBUG, Line, TargetWatch, cause_of, held_words, lines_of
from podtide.adapters.views.live.pods import PodCounts
from podtide.adapters.views.stats.base import HoldKey, HoldTable
from podtide.adapters.views.timeline.decisions import bound_words
from podtide.domain.base.units import Millis
from podtide.domain.conf.redaction import Redaction
from podtide.domain.engine import EngineState
from podtide.domain.protocol import executor_commands as ec
from podtide.domain.protocol.application import AnyStimulus, Command
from podtide.domain.protocol.commands import ScheduleThrew, Step
from podtide.domain.protocol.executor_stimuli import Stopping
from podtide.domain.protocol.reasons import Held, Threw
from podtide.domain.stalls.stalls import Stall

DECISIONS_KEPT: Final = 60
"""Lines of decisions that are kept."""

JOINED_MS: Final[Millis] = 15_000
"""Lines that say the same so soon after each other are one, as long as they are among the last ``JOINED_LINES``."""

JOINED_LINES: Final = 12

NOTICES_KEPT: Final = 30
NOTICES_JOINED_MS: Final[Millis] = 10_000
TEXT_MAX: Final = 300

PROFILES_MAX: Final = 50
"""Profiles that are told one by one: those with the lowest numbers; the totals hold all."""

WIDTH_MS: Final[Millis] = 2_000
POINTS_MAX: Final = 300
"""Stretches of time that are remembered: ten minutes of two seconds each."""

HELD_MAX: Final = 200
"""Bounds in force that are told apart."""

STEP_EDGES: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
"""Upper edges of the histogram of steps, in seconds."""

_NUMBERS: Final = re.compile(r"\d+")
_MACHINES_MAX: Final = 20


class LiveTracker:
    """Watches a live run. Thread-safe. ``start``: epoch milliseconds at which it began."""

    def __init__(
        self, about: status.About, clock: Clock, start: Millis | None = None, redaction: Redaction | None = None
    ) -> None:
        self._redactor = Redactor(redaction)
        self._lock = threading.Lock()
        self._clock = clock
        start = clock.now() if start is None else start
        self._change = 0
        # pods and executors
        self._targets = TargetWatch()
        self._pods = PodCounts()
        self._points: deque[tuple[int, status.TrendPoint]] = deque(maxlen=POINTS_MAX)
        # what was decided and what holds
        self._lines: deque[Line] = deque(maxlen=DECISIONS_KEPT)
        self._counts: Counter[tuple[str, str]] = Counter()
        self._threw: Counter[str] = Counter()
        self._held = HoldTable()
        self._held_words: dict[HoldKey, tuple[str, ...]] = {}  # of bounds that are not of single executors
        self._exit_code: int | None = None
        # what was told
        self._notices: deque[tuple[object, status.RepeatedNotice]] = deque(maxlen=NOTICES_KEPT)
        self._notice_counts: Counter[str] = Counter()
        self._calls = Calls(clock)
        self._seen_at: float | None = None
        self._last_heard: Callable[[], float | None] = lambda: None
        self._stalls: Callable[[], tuple[Stall, ...]] = tuple
        self._stall_alarms: Callable[[], Mapping[str, int]] = dict
        self._standing = status.LiveSnapshot(
            at=start, change=0, started=start, about=about, watch_since=start,
            lease_since=start, driver=True if about.driver else None,
        )  # fmt: skip
        """What notices say about how things stand; the rest is filled in when a snapshot is taken."""
        # the loop itself
        self._steps = 0
        self._step_seconds = HistogramCounter(STEP_EDGES)
        self._step_last: float | None = None
        self._roused_at: float | None = None
        self._stepped = False
        self._beat_at: float | None = None

    @property
    def change(self) -> int:
        """Grows whenever something else than time is different."""
        return self._change

    def now(self) -> Millis:
        """Epoch milliseconds, by the run's clock."""
        return self._clock.now()

    # ------------------------------------------------------------------------------------------------ from the loop

    def roused(self) -> None:
        """The loop has something to do: if it takes a step now, the step takes until it rests."""
        self._roused_at = self._beat_at = self._clock.monotonic()
        self._stepped = False

    def resting(self) -> None:
        """The loop waits, or still waits; say so at least every few seconds, however long it waits."""
        now = self._clock.monotonic()
        self._beat_at = now
        roused, self._roused_at = self._roused_at, None
        if roused is not None and self._stepped:
            with self._lock:
                self._step_last = now - roused
                self._step_seconds.add(now - roused)

    def step(self, now: Millis, stimuli: Sequence[AnyStimulus], taken: Step[EngineState, Command]) -> None:
        """See one step. Costs what it says, and the profiles."""
        side = taken.state.kubernetes
        assert side is not None, "a live run is of an application on a cluster"
        self._stepped = True
        with self._lock:
            self._steps += 1
            if any(isinstance(stimulus, Stopping) for stimulus in stimuli):
                self._stands(stage=status.RunStage.STOPPING)
            if self._pods.step(stimuli, taken.commands, side):
                self._seen_at = self._clock.monotonic()
                if not self._standing.listed and side.store.view.full_ts > 0:
                    self._stands(listed=True)
            self._hear(now, taken)
            for move in self._targets.moved(now, stimuli, taken):
                self._tell(move.line())
            point = status.TrendPoint(sum(self._targets.known.values()), self._pods.running, self._pods.registered)
            if not self._points or self._points[-1][1] != point:
                self._change += 1
            self._keep_point(now, point)

    # --------------------------------------------------------------------------------------------- from other threads

    def seen(self, call: CallSeen) -> None:
        """A call to the API server has ended (a ``Watcher``)."""
        with self._lock:
            self._change += 1
            self._calls.take(call)
            if call.verb == "list" and call.resource == "pods" and call.status is not None and call.status < 300:
                self._seen_at = self._clock.monotonic()

    def ask_when_heard(self, last_heard: Callable[[], float | None]) -> None:
        """Who knows when a list, an event or a bookmark last came, in the clock's monotonic seconds (the sensor)."""
        self._last_heard = last_heard

    def ask_for_stalls(self, stalls: Callable[[], tuple[Stall, ...]], alarms: Callable[[], Mapping[str, int]]) -> None:
        """Who knows which stalls last, and how many alarms began of each cause. Asked from any thread."""
        self._stalls, self._stall_alarms = stalls, alarms

    def ending(self) -> None:
        """The run ends: from now on its loop may stand still."""
        with self._lock:
            self._change += 1
            self._stands(stage=status.RunStage.STOPPING)

    def notify(self, notice: Notice) -> None:
        """Take a notice (a ``Notify``)."""
        notice = notice.redacted(self._redactor)
        with self._lock:
            self._change += 1
            self._notice_counts[notice.topic.value] += 1
            self._take(notice)
            self._remember(notice)

    # ------------------------------------------------------------------------------------------------------ to others

    def snapshot(self) -> status.LiveSnapshot:
        """How things stand now. Costs what is shown, never the pods."""
        with self._lock:
            now, monotonic = self._clock.now(), self._clock.monotonic()
            seen = [at for at in (self._seen_at, self._last_heard()) if at is not None]
            pods, targets = self._pods, self._targets.known
            profiles = sorted({*(profile for profile, target in targets.items() if target), *pods.profiles()})
            return replace(
                self._standing,
                at=now,
                change=self._change,
                profiles=tuple(pods.figures(profile, targets.get(profile, 0)) for profile in profiles[:PROFILES_MAX]),
                total=pods.total(sum(targets.values())),
                recent=self._recent(now),
                recent_width_ms=WIDTH_MS,
                decisions=tuple(_frozen(line) for line in self._lines),
                counts=dict(self._counts),
                held=tuple(sorted(self._held_now(), key=lambda hold: (hold.since, hold.profile, hold.bound))),
                threw=dict(self._threw),
                notices=tuple(one for _, one in self._notices),
                notice_counts=dict(self._notice_counts),
                calls=self._calls.figures(),
                seen_ms=max(0, round((monotonic - max(seen)) * 1000)) if seen else None,
                steps=self._steps,
                step_seconds=self._step_seconds.taken(),
                step_last_s=self._step_last,
                stalls=self._stalls(),
                stall_alarms=self._stall_alarms(),
                beat_s=None if self._beat_at is None else monotonic - self._beat_at,
                exit_code=self._exit_code,
            )

    # ------------------------------------------------------------------------------------------ what was decided, held

    def _hear(self, now: Millis, taken: Step[EngineState, Command]) -> None:
        for command in taken.commands:
            self._counts[command_name(type(command)), cause_of(command).value] += 1
            if isinstance(command, ec.StopApplication):
                self._exit_code = command.exit_code
        for report in taken.reports:
            match report:
                case Held():
                    self._hold(report)
                case Threw(machine=machine):
                    self._threw[machine if machine in self._threw or len(self._threw) < _MACHINES_MAX else "other"] += 1
                case ScheduleThrew():
                    self._threw["schedule()"] += 1
                case _:
                    pass
        if taken.commands or taken.reports:
            # What holds is told as what holds now: round by round it would push all else out.
            reports = [report for report in taken.reports if not isinstance(report, Held)]
            for line in lines_of(now, tuple(map(self._redactor.command, taken.commands)), reports):
                if line.level != DEBUG:
                    self._tell(line)

    def _tell(self, line: Line) -> None:
        """Keep a line; one that says the same as one of the last is joined to it."""
        self._change += 1
        for back, known in enumerate(reversed(self._lines)):
            if back >= JOINED_LINES:
                break
            if known.key == line.key and line.at - known.end <= JOINED_MS:
                known.join(line)
                self._lines.remove(known)
                self._lines.append(known)
                return
        self._lines.append(line)

    def _hold(self, report: Held) -> None:
        self._change += 1
        key, holds = (report.bound.value, report.profile), self._held.holds
        if report.executors or key in holds or len(holds) < HELD_MAX:
            self._held.take(report)
        if not report.executors:
            self._held_words.pop(key, None)
            if key in holds:
                self._held_words[key] = held_words(report)

    def _held_now(self) -> Iterator[status.HeldNow]:
        for (bound, profile), hold in self._held.holds.items():
            idle = (f"kept {hold.number:,} idle", f"by {bound_words(bound)}")
            words = self._held_words.get((bound, profile), idle)
            yield status.HeldNow(bound, profile, hold.since, hold.number, hold.keeps, words)

    # ---------------------------------------------------------------------------------------------------- over time

    def _keep_point(self, now: Millis, point: status.TrendPoint) -> None:
        place = now // WIDTH_MS
        if self._points and self._points[-1][0] >= place:
            self._points[-1] = (self._points[-1][0], point)
        else:
            self._points.append((place, point))

    def _recent(self, now: Millis) -> tuple[status.TrendPoint, ...]:
        """One point for every stretch of time up to now; nothing changes between those that are known."""
        if not self._points:
            return ()
        last = max(now // WIDTH_MS, self._points[-1][0])
        first = max(self._points[0][0], last - POINTS_MAX + 1)
        points: list[status.TrendPoint] = []
        for place, point in reversed(self._points):
            length = last - max(place, first) + 1 - len(points)
            points += [point] * length
            if place <= first:
                break
        return tuple(reversed(points))

    # ------------------------------------------------------------------------------------------------------------ notices

    def _stands(self, **changes: Any) -> None:
        self._standing = replace(self._standing, **changes)

    def _take(self, notice: Notice) -> None:
        """What a notice says about how things stand."""
        at, standing = notice.at, self._standing
        match notice.topic:
            case Topic.LISTED:
                self._stands(listed=True)
                self._seen_at = self._clock.monotonic()
            case Topic.WATCHING | Topic.WATCH_REPAIRED:
                self._stands(watch=status.WatchHealth.ALIVE, watch_since=at)
                self._seen_at = self._clock.monotonic()
            case Topic.WATCH_BROKEN:
                since = standing.watch_since if standing.watch is status.WatchHealth.BROKEN else at
                self._stands(watch=status.WatchHealth.BROKEN, watch_since=since, watch_breaks=standing.watch_breaks + 1)
            case Topic.API_UNREACHABLE if standing.unreachable_since is None:
                self._stands(unreachable_since=at)
            case Topic.API_BACK:
                self._stands(unreachable_since=None)
            case Topic.THROTTLED:
                self._stands(throttled_at=at)
            case Topic.LEASE_TAKEN:
                self._stands(lease=status.Lease.HELD, lease_since=at, lease_late_at=None)
            case Topic.LEASE_RENEWED_LATE:
                self._stands(lease_late_at=at)
            case Topic.LEASE_LOST:
                self._stands(lease=status.Lease.LOST, lease_since=at)
            case Topic.DRIVER_UNREACHABLE | Topic.DRIVER_BACK if standing.driver is not None:
                self._stands(driver=notice.topic is Topic.DRIVER_BACK)
            case Topic.DIFFERENCE:
                self._stands(differences=standing.differences + 1)
            case Topic.STOPPED if notice.level is Level.INFO:
                self._stands(stage=status.RunStage.STOPPED)
            case _:
                pass

    def _remember(self, notice: Notice) -> None:
        """Keep it; what says the same but for its numbers is told once, with how often."""
        text = escaped(" ".join(notice.text[: 4 * TEXT_MAX].split()), TEXT_MAX)
        key = (notice.topic, notice.level, _NUMBERS.sub("#", text))
        for place in range(len(self._notices) - 1, max(-1, len(self._notices) - 1 - JOINED_LINES), -1):
            known_key, known = self._notices[place]
            if known_key == key and notice.at - known.end <= NOTICES_JOINED_MS:
                del self._notices[place]
                self._notices.append(
                    (key, replace(known, end=max(known.end, notice.at), text=text, times=known.times + 1))
                )
                return
        self._notices.append((key, status.RepeatedNotice(notice.at, notice.at, notice.level, notice.topic, text)))


def _frozen(line: Line) -> status.DecisionLine:
    return status.DecisionLine(line.at, line.end, line.level, line.mark, line.name, line.what, tuple(line.parts))
