"""Which files of a folder are a log, and in what order, by their names alone: Spark's rolled logs, Databricks' log delivery.

A rolled log is a folder ``eventlog_v2_<app>`` of ``events_<n>_<app>[.codec]`` and one ``appstatus_<app>`` that ends in
``.inprogress`` while the application runs. Spark (RollingEventLogFilesFileReader) sorts by n as a number. When it
compacts, it writes ``events_<n>_<app>[.codec].compact``, which stands for every file up to n: the highest compact
file comes first and replaces all of n and below. Where Spark refuses a log with missing numbers, a gap is named here
and the rest is read. The name of the folder is not believed: a copied or renamed one is recognised by its files.

Databricks delivers what one SparkContext logged as ``eventlog-YYYY-MM-DD--HH-MM.gz``, one file for each time that it rolled
the log over, and ``eventlog`` for what came after the last of them, all in one folder. They are read by date, ``eventlog``
last. Names do not tell whether a part is missing; the first line of each does (``eventlog.sensor``). A file ``eventlog``
without dated ones beside it is a log like any other.

Hidden files are never logs: names that begin with ``.`` or ``_`` (``_SUCCESS``, ``.app.crc``) and checksums.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from podtide.adapters.eventlog.bytes.codecs import SUFFIXES, bare_name

ROLLED_PREFIX: Final = "eventlog_v2_"
STATUS_PREFIX: Final = "appstatus_"
IN_PROGRESS: Final = ".inprogress"
COMPACT: Final = ".compact"

CURRENT: Final = "eventlog"
"""Databricks' file of what was logged since the last time that it rolled the log over."""

_EVENTS: Final = re.compile(r"events_([0-9]{1,18})_(.+)", re.DOTALL)
_DATED: Final = re.compile(r"eventlog-([0-9]{4}-[0-9]{2}-[0-9]{2}--[0-9]{2}-[0-9]{2}(?:-[0-9]{2})?)")
"""Without its codec. Dates of one form are in the order of their texts."""


@dataclass(frozen=True, slots=True)
class Entry:
    """Something in a folder: its name there, its size in bytes (None where the store does not say), its kind."""

    name: str
    size: int | None
    folder: bool = False


@dataclass(frozen=True, slots=True)
class Gap:
    """Files of a rolled log that are missing: numbers ``first`` to ``last``, before the file ``before``."""

    first: int
    last: int
    before: str

    def __str__(self) -> str:
        return f"events_{self.first}" if self.first == self.last else f"events_{self.first} to events_{self.last}"


@dataclass(frozen=True, slots=True)
class Rolled:
    """A log of several files: these in the order of reading, what is missing, what compaction replaced.

    ``in_progress`` is None where the folder has no status file. ``clashes`` are files that claim a number, or a date, which
    another file has: with any of them the order is unknown.
    """

    files: tuple[Entry, ...]
    gaps: tuple[Gap, ...]
    replaced: tuple[str, ...]
    in_progress: bool | None
    compacted: bool
    clashes: tuple[str, ...]
    delivered: bool = False


def hidden(name: str) -> bool:
    """Whether a file of this name is none of the user's: checksums, markers, editors' and systems' leftovers."""
    return name.startswith((".", "_")) or name.endswith((".crc", "~"))


def is_events_name(name: str) -> bool:
    """Whether the name is that of one file of a rolled log."""
    return _EVENTS.fullmatch(name) is not None


def is_dated_name(name: str) -> bool:
    """Whether the name is that of one part of a log that Databricks delivered."""
    return _DATED.fullmatch(_without_codec(name)) is not None


def is_part_name(name: str) -> bool:
    """Whether a file of this name is never a whole log, whatever lies beside it."""
    return is_events_name(name) or is_dated_name(name)


def is_current_name(name: str) -> bool:
    """Whether the name is that of the last part of a log that Databricks delivered, if a dated part lies beside it."""
    return _without_codec(name) == CURRENT


def split_log(entries: Iterable[Entry]) -> Rolled | None:
    """The log of several files that lies in a folder with these entries, if there is one."""
    listed = tuple(entries)
    return rolled(listed) or delivered(listed)


def rolled(entries: Iterable[Entry]) -> Rolled | None:
    """The rolled log that these files are, or None if there is no ``events_<n>_<app>`` among them."""
    numbered: list[tuple[int, bool, str, Entry]] = []
    status: list[str] = []
    for entry in entries:
        if entry.folder or hidden(entry.name):
            continue
        if found := _EVENTS.fullmatch(entry.name):
            numbered.append((int(found[1]), entry.name.endswith(COMPACT), _without_codec(found[2]), entry))
        elif entry.name.startswith(STATUS_PREFIX):
            status.append(entry.name)
    if not numbered:
        return None
    numbered.sort(key=lambda one: (one[0], one[1], one[3].name))
    compact = max((at for at, one in enumerate(numbered) if one[1]), default=None)
    kept = numbered[compact or 0 :]
    return Rolled(
        files=tuple(one[3] for one in kept),
        gaps=tuple(_gaps(kept, compacted=compact is not None)),
        replaced=tuple(one[3].name for one in numbered[: compact or 0]),
        # While the status file is renamed both may show: the finished one is the later truth.
        in_progress=all(name.endswith(IN_PROGRESS) for name in status) if status else None,
        compacted=compact is not None,
        clashes=_clashes(kept),
    )


def delivered(entries: Iterable[Entry]) -> Rolled | None:
    """The log that Databricks delivered as these files, or None if none of them has a date."""
    dated: list[tuple[str, Entry]] = []
    current: list[Entry] = []
    for entry in entries:
        if entry.folder:
            continue
        if found := _DATED.fullmatch(_without_codec(entry.name)):
            dated.append((found[1], entry))
        elif is_current_name(entry.name):
            current.append(entry)
    if not dated:
        return None
    dated.sort(key=lambda one: (one[0], one[1].name))
    counts = Counter(date for date, _ in dated)
    clashes = [entry.name for date, entry in dated if counts[date] > 1]
    clashes += [entry.name for entry in current if len(current) > 1]
    files = (*(entry for _, entry in dated), *current)
    return Rolled(files, (), (), None, compacted=False, clashes=tuple(clashes), delivered=True)


def log_entries(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """What in a folder may be a log by itself, by name: rolled folders, and files that are neither hidden nor parts."""
    listed = [entry for entry in entries if not hidden(entry.name)]
    in_parts = any(is_dated_name(entry.name) and not entry.folder for entry in listed)
    found = (
        entry
        for entry in listed
        if (
            entry.name.startswith(ROLLED_PREFIX)
            if entry.folder
            else not entry.name.startswith(STATUS_PREFIX)
            and not (in_parts and (is_dated_name(entry.name) or is_current_name(entry.name)))
        )
    )
    return tuple(sorted(found, key=lambda entry: entry.name))


def _without_codec(name: str) -> str:
    """The name in ``<name>[.codec][.compact]``."""
    name = bare_name(name)
    return next((name.removesuffix(suffix) for suffix in SUFFIXES if name.endswith(suffix)), name)


def _gaps(numbered: list[tuple[int, bool, str, Entry]], *, compacted: bool) -> Iterable[Gap]:
    expected = numbered[0][0] if compacted else 1
    for number, _, _, entry in numbered:
        if number > expected:
            yield Gap(expected, number - 1, entry.name)
        expected = number + 1


def _clashes(numbered: list[tuple[int, bool, str, Entry]]) -> tuple[str, ...]:
    """Two files of one number (``events_1_a`` and ``events_1_a.zstd``), or of two applications."""
    counts = Counter(number for number, *_ in numbered)
    several = len({application for _, _, application, _ in numbered}) > 1
    return tuple(entry.name for number, _, _, entry in numbered if several or counts[number] > 1)
