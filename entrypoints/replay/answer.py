"""The answer of a replay, for whoever asks without a command line: the document, and every decision in words."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from podtide.adapters.eventlog.bytes.reader import LogSource
from podtide.adapters.eventlog.decoder_process import SecondProcess, pays
from podtide.adapters.eventlog.sensor import EventLogSensor
from podtide.adapters.views.replay_document import ReplayDocument, TimelineEntry, read, timeline_entries
from podtide.adapters.views.timeline.scaling import Timeline
from podtide.domain.conf.spark_conf import SparkConf
from podtide.entrypoints.replay.run import Replay, waits_of

RECORDS_MAX: Final = 100_000
"""Decisions that are kept; an application that decides every second does so for a day."""


@dataclass(frozen=True, slots=True)
class ReplayAnswer:
    """``timeline``: every decision and bound, in order; ``left_out``: how many more there were."""

    document: ReplayDocument
    timeline: tuple[TimelineEntry, ...]
    left_out: int = 0


def replayed(source: LogSource, overrides: Sequence[SparkConf] = (), spark_version: str | None = None) -> ReplayAnswer:
    """Replay a log that was opened; closing it is the caller's. Raises LogError, SettingsError, NothingToReplay."""
    records: list[dict[str, Any]] = []
    timeline = Timeline()
    left_out = 0

    def keep(record: dict[str, Any]) -> None:
        nonlocal left_out
        timeline.take(record)
        if record.get("repeated"):
            return
        if len(records) < RECORDS_MAX:
            records.append(record)
        else:
            left_out += 1

    with contextlib.ExitStack() as resources:
        sensor = resources.enter_context(SecondProcess(source)) if pays(source) else EventLogSensor(source)
        work = Replay(sensor, keep, overrides, spark_version, bounds=False)
        work.progress = lambda: timeline.prune(work.world.proposed)
        document = read(work.run())
    waits = waits_of(work.settled.config)
    entries = timeline_entries(records, document.app.first_ms, waits, timeline.profiles, work.world.proposed)
    return ReplayAnswer(document, tuple(entries), left_out)
