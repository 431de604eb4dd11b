"""A replay, put together: a log in, everything that can be said about it out (docs/reference/formats.md, "replay").

``Replay`` opens the log, settles the configuration, runs the loop over one lane or two and collects. It prints
nothing: the command does, from the document that ``Replay.document`` returns and the records that the sink was
given on the way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from podtide.adapters.eventlog.bytes.lines import FaultKind
from podtide.adapters.eventlog.contents import LogApplication, begins_late
from podtide.adapters.recording.log_actuator import LogWorld, Meter, Sink
from podtide.adapters.recording.run_stalls import stall_document
from podtide.adapters.text.documents import schema_name
from podtide.adapters.text.safe import escaped
from podtide.adapters.views.sparklog.log import SparkLog
from podtide.adapters.views.sparklog.narrator import Narrator
from podtide.adapters.views.stats.series import History
from podtide.domain.base.units import Millis
from podtide.domain.conf.spark_conf import SparkConf
from podtide.domain.protocol.config import ScalingConfig
from podtide.domain.protocol.stimuli import ShuffleUnneeded, Stimulus
from podtide.domain.scaling.rules import total_need
from podtide.entrypoints.common.event_loop import Loop
from podtide.entrypoints.common.log_config import NothingToReplay, SettledConf, settle
from podtide.entrypoints.common.loop_stalls import JUMP_MS, LoopStalls

if TYPE_CHECKING:
    from podtide.adapters.eventlog.decoder_process import SecondProcess
    from podtide.adapters.eventlog.sensor import EventLogSensor

BEHAVIOUR: Final = "4.3.0"
"""The Spark whose decision logic runs, whatever Spark wrote the log; only defaults follow the log's version."""


@dataclass
class Replay:
    """One replay. ``sink`` is given every record of the main lane as it comes, ``spark_log`` the lines of Spark's log."""

    sensor: EventLogSensor | SecondProcess
    sink: Sink
    overrides: Sequence[SparkConf] = ()
    spark_version: str | None = None
    bounds: bool = True
    progress: Callable[[], None] | None = None
    spark_log: SparkLog | None = None

    def run(self) -> dict[str, Any]:
        """Replay the whole log. Raises LogError, SettingsError or NothingToReplay."""
        sensor = self.sensor
        application = sensor.prologue()
        self.settled = settle(application, self.overrides, self.spark_version)
        config = self.settled.config
        times = [t for t in (application.started_ms, application.first_ms) if t is not None]
        start = max(0, min(times, default=sensor.clock))
        self.meter = Meter(start)
        self.stalls = LoopStalls(self.settled, start)
        self.history = History(start)
        self.world = LogWorld(self.sink)
        self.cleaned: LogWorld | None = None
        self.narrator: Narrator | None = None
        if self.spark_log is not None:
            self.narrator = Narrator(self.world, self.spark_log, config, start)
        loop = self.loop = Loop(config, start, self.narrator or self.world, self._observe)
        if self.narrator is not None:
            self.narrator.now = lambda: (loop.lanes[0].state, loop.load)
        for batch in sensor.batches():
            self._take(batch)
            if self.progress is not None:
                self.progress()
        application = sensor.application  # another process that reads the log has told its end only now
        end = sensor.clock if application.ended_ms is None else max(sensor.clock, application.ended_ms)
        if not (sensor.seen.tasks or sensor.seen.stages or sensor.fleet.added):
            text = "no stage, task or executor in it: there is nothing to decide upon"
            if sensor.counts.malformed:
                first = sensor.counts.first_malformed[0]
                text += f" ({sensor.counts.malformed} malformed lines; line {first.line}: {first.why})"
            raise NothingToReplay(text)
        self.loop.finish(end)
        self._observe(end)
        self.stalls.observe(self.loop, end, last=True)
        if self.narrator is not None:
            self.narrator.passed(loop.lanes[0].state, end + 1)
        return self._document(application, start, end)

    def _take(self, batch: list[Stimulus]) -> None:
        """One batch to the loop; the second bound begins with the first shuffle that nobody needs any more."""
        loop = self.loop
        if self.cleaned is None and self.bounds and loop.config.shuffle_tracking:
            place = next((place for place, event in enumerate(batch) if isinstance(event, ShuffleUnneeded)), None)
            if place is not None:
                if place:
                    loop.take(batch[:place])
                    batch = batch[place:]
                self.cleaned = self.world.cleaning(_nowhere)
                loop.fork(loop.lanes[0], self.cleaned)
        loop.take(batch)

    def _observe(self, now: Millis) -> None:
        if self.narrator is not None:
            self.narrator.passed(self.loop.lanes[0].state, now)
        self.stalls.observe(self.loop, now)
        if now <= self.meter.last:
            return
        loop = self.loop
        lane = loop.lanes[0]
        state = lane.state
        need = total_need(state, loop.load, loop.config)
        busy, executors = state.idleness.busy_of_all()
        self.history.hold(self.meter.last, now, (self.world.target, need, executors, busy))
        self.meter.observe(now, need, executors, busy, waiting=loop.load.tasks_wait())

    def _cut_short(self) -> list[str]:
        gaps = self.loop.cut_short
        text = "the timer would have changed something at every tick, silently: not followed to the end"
        return [f"In {gaps} gaps between events {text}."] if gaps else []

    def _unsaid(self, start: Millis) -> list[str]:
        if self.narrator is None or self.narrator.cut_at is None:
            return []
        seconds = (self.narrator.cut_at - start) // 1000
        return [f"Spark's log names kept executors at every round: left out of it from {seconds} s after the start on."]

    def _document(self, application: LogApplication, start: Millis, end: Millis) -> dict[str, Any]:
        sensor, meter, settled = self.sensor, self.meter, self.settled
        counts, fleet = sensor.counts, sensor.fleet
        return {
            "schema": schema_name("replay"),
            "app": {
                "id": application.id,
                "name": application.name,
                "attempt": application.attempt,
                "spark_version": application.spark_version,
                "started_ms": application.started_ms,
                "ended_ms": application.ended_ms,
                "first_ms": start,
                "last_ms": end,
                "tasks": sensor.seen.tasks,
                "stages": sensor.seen.stages,
                "jobs": sensor.seen.jobs,
            },
            "log": {
                "name": sensor.source.name,
                "files": [file.name for file in sensor.source.files],
                "codecs": [str(codec.value) for codec in sensor.source.codecs],
                "in_progress": sensor.source.in_progress,
                "rolled": sensor.source.rolled,
                "compacted": sensor.source.compacted,
            },
            "events": {
                "read": counts.read,
                "skipped": counts.skipped,
                "malformed": counts.malformed,
                "cut": counts.cut,
                "missing_ends": sensor.seen.missing_ends,
                "malformed_lines": [m._asdict() for m in counts.first_malformed],
                "faults": [{"file": f.file, "line": f.line, "kind": f.kind.value, "why": f.why} for f in sensor.faults],
            },
            "conf": settled.shown(),
            "behaviour": BEHAVIOUR,
            "defaults": settled.defaults,
            "dynamic_allocation": settled.enabled,
            "platform": settled.platform,
            "actual": {
                "added": fleet.added,
                "removed": fleet.removed,
                "peak": fleet.peak,
                "peak_ms": fleet.peak_ms,
                "executor_seconds": fleet.executor_ms(end) / 1000,
                "idle_executor_seconds": meter.idle_ms / 1000,
                "backlog_s": meter.backlog_ms / 1000,
                "backlog_waited_for_executors_s": meter.short_ms / 1000,
            },
            "replayed": {
                **_lane(self.world),
                "peak_need": meter.peak_need,
                "bounds": None if self.cleaned is None else {"shuffles_never_cleaned": _lane(self.world),
                                                             "shuffles_cleaned_at_once": _lane(self.cleaned)},
            },
            "stalls": [stall_document(stall) for stall in self.stalls.stalls(end)],
            "stalls_left_out": self.stalls.left_out,
            "series": self.history.document(),
            "notes": [*_incomplete(sensor), *sensor.source.notes, *settled.notes],
            "limits": [*_limits(sensor, settled, self.cleaned is not None), *self._cut_short(), *self._unsaid(start)],
        }  # fmt: skip


def waits_of(config: ScalingConfig) -> dict[str, Millis]:
    """The timeouts that stand behind causes of a raised target."""
    return {"backlog": config.backlog_timeout_ms, "sustained backlog": config.sustained_backlog_timeout_ms}


def _nowhere(_record: dict[str, Any]) -> None:
    """The second bound is counted, not recorded."""


def _lane(world: LogWorld) -> dict[str, Any]:
    tally = world.tally
    return {
        "decisions": tally.decisions,
        "peak_target": tally.peak_target,
        "peak_target_ms": tally.peak_target_ms,
        "target_changes": tally.target_changes,
        "kills_proposed": tally.kills_proposed,
        "kills_confirmed": tally.kills_confirmed,
        "kills_disproved": tally.kills_disproved,
        "kills_unconfirmed": len(world.proposed),
        "schedule_threw": tally.threw,
        "by_cause": dict(sorted(tally.by_cause.items())),
        "held": dict(sorted(tally.held.items())),
    }


def _incomplete(sensor: EventLogSensor | SecondProcess) -> list[str]:
    """What is missing of the log itself: said before everything else."""
    notes = []
    if begins_late(sensor.application, sensor.seen):
        notes.append(
            "The log begins in the middle of its application: its first part is missing, or this is one part of it. "
            "Executors, tasks and settings from before are not known."
        )
    if gaps := sum(fault.kind is FaultKind.GAP for fault in sensor.faults):
        times = "" if gaps == 1 else f", in {gaps} places"
        notes.append(f"Parts of the log are missing or out of order{times}: what happened there is not known.")
    cut = next((fault for fault in sensor.faults if fault.kind is FaultKind.CUT), None)
    if cut is not None and not sensor.source.in_progress:
        notes.append(
            f"The log is cut off ({escaped(cut.file)}:{cut.line}: {cut.why}): what came after that is not known."
        )
    return notes


def _limits(sensor: EventLogSensor | SecondProcess, settled: SettledConf, bounded: bool) -> list[str]:
    """What this log cannot tell, and what follows from that."""
    seen, config = sensor.seen, settled.config
    notes = []
    if not seen.executors and seen.block_managers:
        notes.append("The log has no executor events: block managers stand for executors.")
    elif not sensor.fleet.added and seen.tasks:
        notes.append("The log names no executors: targets are replayed, removals cannot be.")
    if config.shuffle_tracking:
        if seen.map_stages:
            text = "Shuffle ids are not logged: map stages are told from stage parents and task types."
            if bounded:
                text += (
                    " When Spark cleaned a shuffle is not logged: shown as if never; the other bound is as if at once."
                )
            notes.append(text)
        elif seen.parentless and seen.stages > seen.jobs > 0:
            notes.append("Stage parents are not logged: shuffle data is not seen, so executors may go earlier here.")
    if seen.persisted_rdds and not seen.block_updates:
        notes.append("Block updates are not logged: which executors hold cached data is told from storage levels.")
    if seen.missing_ends:
        many = "task ends are" if seen.missing_ends > 1 else "task end is"
        notes.append(
            f"{seen.missing_ends} {many} missing although the stage or the job ended: Spark's listener queue dropped "
            "events. These tasks are taken to have ended with it (--keep-unended: they run on)."
        )
    if seen.applications > 1:
        notes.append(f"The log holds {seen.applications} applications: they are replayed as one, named by the first.")
    if seen.jump_ms > JUMP_MS:
        days, (file, number) = seen.jump_ms // 86_400_000, seen.jump_at
        notes.append(f"The log's clock jumps by {days} days in or after {file}:{number}: later times may mean nothing.")
    if sensor.source.compacted:
        notes.append("The log was compacted: tasks of finished jobs are missing, and so are the decisions they led to.")
    notes.append(
        "Localities, speculation requests and unschedulable task sets are not logged: no hints, no demand from them."
    )
    return notes
