"""An event log as an application to run again: read once, and replayed on the way to learn when executors were asked for.

One pass does both: the sensor's stimuli go through the loop and the production core as in a replay (where executors are
what the log says, whatever is decided), while the observer behind the sensor collects what there is to run. An application
without dynamic allocation decided nothing: its executors were asked for at the start, as many as there ever were at once,
and again where one was lost; nothing is replayed then. Where the log has no environment nobody knows whether it had: only
the executors that came with the first one are taken to have been asked for at the start.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from podtide.adapters.eventlog.application import ACCOUNT_SHAPES, SHAPES, AccountLog, ApplicationLog
from podtide.adapters.eventlog.bytes.lines import FaultKind
from podtide.adapters.eventlog.bytes.reader import LogSource
from podtide.adapters.eventlog.bytes.source import open_log
from podtide.adapters.eventlog.contents import begins_late
from podtide.adapters.eventlog.sensor import EventLogSensor
from podtide.adapters.recording.log_actuator import LogWorld
from podtide.adapters.text.format import count, lasting
from podtide.adapters.text.progress import ByteProgress
from podtide.adapters.text.safe import escaped
from podtide.domain.base.units import Millis, ProfileId
from podtide.domain.conf.spark_conf import SparkConf
from podtide.domain.protocol.commands import Kill, RequestTotal, ScalingCommand
from podtide.domain.protocol.pods import pod_number
from podtide.domain.protocol.stimuli import Reset, Stimulus
from podtide.domain.recorded.application import Application, Leave
from podtide.domain.recorded.executors import ExecutorRecord, leave_of
from podtide.domain.recorded.lifetimes import CAME_UNASKED, TOGETHER_MS, came_unasked
from podtide.domain.recorded.reading import Facts, LogReading
from podtide.domain.recorded.request_times import Registration, Target, request_times
from podtide.domain.recorded.unknowns import LATE_START, MISSING_PARTS, LogTraits, unknowns_of
from podtide.domain.rerun.heartbeats import is_reset_at_start
from podtide.domain.stalls.stalls import Stall
from podtide.entrypoints.common.event_loop import Loop
from podtide.entrypoints.common.log_config import NothingToReplay, SettledConf, settle
from podtide.entrypoints.common.loop_stalls import LoopStalls

TARGETS_MAX: Final = 1_000_000
"""Changes of the target that are kept; an application that changes its mind every second does so for eleven days."""

EARLY_MS: Final[Millis] = 120_000
"""Executors of an autoscaled cluster that came so soon after the start were there, or on their way, when it began."""


class NothingToRun(NothingToReplay):
    """The log is an event log, but holds nothing that could be run again; the text says what is missing."""


@dataclass(frozen=True, slots=True)
class RecordedLog:
    """An application as recorded. ``settled``: the conf that it ran under; ``targets``: the replayed target, all profiles
    together, at each change (empty without dynamic allocation); ``counts``: how the lines were read; ``notes``: what is to
    be said of the conf and the log; ``attempt``: Spark's own id of the attempt, where there is one; ``stalls``: those that
    were asked for."""

    application: Application
    settled: SettledConf
    targets: tuple[tuple[Millis, int], ...]
    counts: Mapping[str, int]
    notes: tuple[str, ...]
    attempt: str | None = None
    stalls: tuple[Stall, ...] = ()


class _Asking(LogWorld):
    """The world of a replay that remembers what was asked for, and when each executor was last to be killed."""

    def __init__(self) -> None:
        super().__init__(_nowhere)
        self.targets: list[Target] = []
        self.notices: dict[str, Millis] = {}

    def apply(self, command: ScalingCommand, now: Millis) -> Sequence[Stimulus]:
        """Note a new target, or who is to be killed; grant everything.

        A cluster manager counts an executor that is decommissioned until it has ended.
        """
        if isinstance(command, Kill):
            self.notices.update(dict.fromkeys(command.executors, command.at))
        elif isinstance(command, RequestTotal) and len(self.targets) < TARGETS_MAX:
            wanted = dict(command.targets)
            if not self.targets or self.targets[-1].executors != wanted:
                self.targets.append(Target(command.at, wanted))
        return super().apply(command, now)


def read_application(
    source: LogSource,
    *,
    overrides: Sequence[SparkConf] = (),
    spark_version: str | None = None,
    strict: bool = False,
    progress: Callable[[], None] | None = None,
    account: AccountLog | None = None,
) -> RecordedLog:
    """Read a log that was opened (``open_log``); it is read to its end, and closing it is the caller's.

    ``overrides``: settings over the log's own that the replay decides with, where the log's are known to be incomplete;
    ``spark_version``: whose defaults apply, the log's own if None; ``progress`` is called now and then; ``account`` hears
    what a comparison of runs needs. Raises LogError for what cannot be read, SettingsError for unusable overrides,
    NothingToRun where no task ended well.
    """
    reading = LogReading()
    shapes = SHAPES if account is None else ACCOUNT_SHAPES
    sensor = EventLogSensor(source, strict=strict, shapes=shapes, observer=ApplicationLog(reading, account))
    prologue = sensor.prologue()
    settled = settle(prologue, overrides, spark_version)
    times = [t for t in (prologue.started_ms, prologue.first_ms) if t is not None]
    start = max(0, min(times, default=sensor.clock))
    asking = _Asking()
    watch = LoopStalls(settled, start) if account is not None else None
    loop: Loop | None = None
    if settled.enabled or watch is not None:
        # Without dynamic allocation nothing is asked for; the loop then only says how things stood.
        world = asking if settled.enabled else LogWorld(_nowhere)
        loop = Loop(settled.config, start, world, lambda now: _observe(watch, loop, now))
    if loop is not None and settled.enabled and is_reset_at_start(settled.conf):
        loop.lanes[0].take(loop.load.with_signals((), (Reset(start),)), loop.config, start)
    for batch in sensor.batches():
        if loop is not None:
            loop.take(batch)
        if progress is not None:
            progress()
    last = sensor.clock if prologue.ended_ms is None else max(sensor.clock, prologue.ended_ms)
    stalls: tuple[Stall, ...] = ()
    if loop is not None:
        loop.finish(last)
    if loop is not None and watch is not None:
        watch.observe(loop, last, last=True)
        stalls = tuple(watch.stalls(last))
    compacted = bool(source.compacted)
    refusal = reading.nothing(compacted=compacted)
    if refusal is not None:
        raise NothingToRun("; ".join([_why(refusal.why, sensor), *(_stalled(stall, last) for stall in stalls[:1])]))
    began = reading.times.begins(start)
    end = reading.times.ends(began, reading.fleet.lives, several=sensor.seen.applications > 1)
    lives = reading.settle(began, end)
    facts = Facts(
        escaped(prologue.id or ""),
        escaped(prologue.name or ""),
        escaped(prologue.spark_version or ""),
        began,
        end,
        reading.times.ended is not None,
        prologue.properties or {},
    )
    requested = _requested(reading, lives, asking, settled, facts)
    application = reading.application(facts, requested)
    traits = _traits(reading, sensor, settled, compacted=compacted)
    counts = {**application.counts, **_lost(sensor)}
    application = replace(application, counts=counts, unknowns=unknowns_of(application, traits))
    lines = {
        "read": sensor.counts.read,
        "skipped": sensor.counts.skipped,
        "malformed": sensor.counts.malformed,
        "cut": sensor.counts.cut,
        "faults": len(sensor.faults),
    }
    targets = tuple((target.at, sum(target.executors.values())) for target in asking.targets)
    notes = (*settled.notes, *_notes(sensor, loop))
    return RecordedLog(application, settled, targets, lines, notes, prologue.attempt, stalls)


class Loaded(NamedTuple):
    """An application, and what is odd about its log."""

    application: Application
    notes: tuple[str, ...] = ()


@contextlib.contextmanager
def opened(log: str) -> Iterator[tuple[LogSource, Callable[[], None]]]:
    """An event log for the time of the block, and what shows on standard error how far it was read. Raises LogError."""
    with contextlib.closing(open_log(log)) as source, ByteProgress(sys.stderr, source.size) as progress:
        yield source, lambda: progress.show(source.bytes_read)


def load(log: str, overrides: Sequence[SparkConf] = (), spark_version: str | None = None) -> Loaded:
    """Read the event log ``log`` (a file, a folder, a URL, "-" for standard input).

    ``overrides``, ``spark_version``: what the user knows better than the log. Raises LogError for what cannot be read,
    SettingsError for unusable overrides, NothingToRun where no task ended well.
    """
    with opened(log) as (source, progress):
        read = read_application(source, overrides=overrides, spark_version=spark_version, progress=progress)
    return Loaded(read.application, tuple(note for note in read.notes if note not in read.settled.notes))


def _requested(
    reading: LogReading, lives: Sequence[ExecutorRecord], replayed: _Asking, settled: SettledConf, facts: Facts
) -> list[Millis | None]:
    """When each executor was asked for."""
    registrations = [
        Registration(
            ProfileId(life.profile),
            life.added,
            _leaving(life, replayed.notices.get(life.executor)),
            life.removed is not None and leave_of(life.reason) is Leave.LOST,
            life.requested,
            pod_number(life.executor),
        )
        for life in lives
    ]
    ready = facts.started_ms if reading.driver_ready_ms is None else max(facts.started_ms, reading.driver_ready_ms)
    master = facts.properties.get("spark.master", "")
    at_once = master.startswith(("spark://", "local"))
    targets = replayed.targets if settled.enabled else _static(registrations, ready)
    requested_ms = request_times(targets, registrations, ready, at_once=at_once)
    if settled.enabled:
        there = came_unasked(registrations, requested_ms)
        for place in there:
            requested_ms[place] = min(ready, registrations[place].added_ms)
        reading.counts[CAME_UNASKED] = len(there)
        return requested_ms
    early = ready + EARLY_MS
    if not facts.properties:  # nor is it known whether Spark itself asked for more
        early = min((one.added_ms for one in registrations), default=ready) + TOGETHER_MS
    elif settled.platform is None:
        return requested_ms
    # What scaled the cluster is not in the log: whoever came later came by its rules.
    return [None if one.added_ms > early else at for at, one in zip(requested_ms, registrations, strict=True)]


def _leaving(life: ExecutorRecord, notice_ms: Millis | None) -> Millis | None:
    """When an executor ceased to count: when it was to be killed, which its removal confirmed, or when it was removed."""
    if life.removed is None or notice_ms is None or notice_ms < max(life.added, life.last_task or 0):
        return life.removed
    return min(notice_ms, life.removed)


def _static(registrations: Sequence[Registration], ready: Millis) -> list[Target]:
    """What an application without dynamic allocation asked for: the most that it had of each profile."""
    moves: dict[ProfileId, list[tuple[Millis, int]]] = {}
    for one in registrations:
        moves.setdefault(one.profile, []).append((one.added_ms, 1))
        if one.removed_ms is not None:
            moves[one.profile].append((one.removed_ms, -1))
    wanted: dict[ProfileId, int] = {}
    for profile, changes in moves.items():
        count = most = 0
        for _, change in sorted(changes):
            count += change
            most = max(most, count)
        wanted[profile] = most
    return [Target(ready, wanted)]


def _traits(reading: LogReading, sensor: EventLogSensor, settled: SettledConf, *, compacted: bool) -> LogTraits:
    works = reading.works.values()
    return LogTraits(
        sensor.seen.parentless,
        reading.metered,
        reading.partitioned,
        bool(reading.block_updates),
        compacted,
        settled.platform,
        sensor.counts.malformed,
        len(sensor.faults),
        sensor.seen.applications,
        sum(work.oversized for work in works),
        settled.enabled,
    )


def _lost(sensor: EventLogSensor) -> dict[str, int]:
    """What there is not of a log in parts, as ``Application.counts`` has it."""
    late = begins_late(sensor.application, sensor.seen)
    gaps = sum(fault.kind is FaultKind.GAP for fault in sensor.faults)
    return {name: count for name, count in ((LATE_START, int(late)), (MISSING_PARTS, gaps)) if count}


def _notes(sensor: EventLogSensor, loop: Loop | None) -> list[str]:
    notes = []
    counts = sensor.counts
    if counts.malformed:
        first = counts.first_malformed[0]
        notes.append(
            f"{count(counts.malformed, 'line')} could not be used; {escaped(first.file)}:{first.line}: {first.why}."
        )
    if loop is not None and loop.cut_short:
        notes.append(f"In {loop.cut_short} gaps between events the timer was not followed to the end.")
    return notes


def _why(why: str, sensor: EventLogSensor) -> str:
    counts = sensor.counts
    if not counts.malformed:
        return why
    first = counts.first_malformed[0]
    return f"{why} ({counts.malformed} malformed lines; line {first.line}: {first.why})"


def _nowhere(_record: dict[str, Any]) -> None:
    """Records are not kept."""


def _observe(watch: LoopStalls | None, loop: Loop | None, now: Millis) -> None:
    """The watch over stalls, where there is one."""
    if watch is not None and loop is not None:
        watch.observe(loop, now)


def _stalled(stall: Stall, end: Millis) -> str:
    """What kept a log from having a task that ended."""
    return f"nothing moved for {lasting((stall.until or end) - stall.since)}: {stall.cause.value}"
