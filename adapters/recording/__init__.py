"""Recordings: all that entered the core and all that it decided, in one format for live, fake and replayed runs.

docs/formats.md describes the lines, docs/schema/recording.json holds them to it. The parts: ``recording.header`` (the
first line), ``recording.codec`` (stimuli and decisions), ``recording.pods`` (pods as what changed of them),
``recording.writer`` and ``recording.reader``. This module is what others import::

    with RecordingWriter(path, header_of(app_id, conf, now, "live")) as writer:
        writer.step(now, stimuli, step.commands, step.reports)

    with open_recording(path) as recording:
        for step in recording:
            ...
        if recording.cut: ...
"""

from __future__ import annotations

from typing import BinaryIO

from podtide.adapters.recording.codec import AnyStimulus, decided_record, decided_value
from podtide.adapters.recording.header import (
    NothingRecorded,
    RecordingError,
    RecordingHeader,
    Source,
    UnknownPolicy,
    header_of,
    policy_words,
)
from podtide.adapters.recording.reader import (
    Recorded,
    RecordedEnd,
    RecordedPods,
    RecordedStep,
    Recording,
    begins_recording,
    is_recording,
)
from podtide.adapters.recording.writer import RecordingWriter


def open_recording(path: str, *, stdin: BinaryIO | None = None) -> Recording:
    """Open the recording at ``path``, which may be anything that a log's may be, and read its header.

    Raises RecordingError: nothing there, no recording, another version, or damaged (with the line).
    """
    return Recording(path, stdin=stdin)


__all__ = [
    "AnyStimulus",
    "NothingRecorded",
    "Recorded",
    "RecordedEnd",
    "RecordedPods",
    "RecordedStep",
    "Recording",
    "RecordingError",
    "RecordingHeader",
    "RecordingWriter",
    "Source",
    "UnknownPolicy",
    "begins_recording",
    "decided_record",
    "decided_value",
    "header_of",
    "is_recording",
    "open_recording",
    "policy_words",
]
