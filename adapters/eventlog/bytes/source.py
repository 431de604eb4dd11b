"""A log, wherever it lies and however it was written: ``open_log(path)`` finds out what a path means.

- a file, plain or compressed, finished or ``.inprogress``; ``-`` for standard input, or any pipe; a URL of a store
  that fsspec has a client for (``s3://``, ``gs://``, ``abfs://``, ``https://``, ``hdfs://``, ...);
- a rolled log, ``eventlog_v2_<app>``; the parts of a log that Databricks delivered (``eventlog-<date>.gz`` and ``eventlog``)
  in one folder; or a folder in which exactly one log lies. Of several files those that do not
  begin like a log are passed over (a run's notes beside its log); several logs are refused by name;
- the ZIP that a History Server hands out, which may hold several attempts: ``logs.zip!<name>`` chooses one. A ZIP is
  read in place; only where it cannot be (a pipe, a server without ranges) is it first copied to a temporary file.

What comes back is a ``LogSource`` (log_reading): the log as chunks of whole lines, in order. Memory is bounded
whatever the log: a chunk, one line of at most ``line_max``, a codec's block (at most 32 MiB; Spark's: 128 KiB) and
window (at most 128 MiB; Spark's: 512 KiB).
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Iterable
from functools import partial
from typing import BinaryIO, Final

from podtide.adapters.eventlog.bytes.codecs import HEAD_BYTES, PLAIN_BYTES, ZIP_MAGICS, Decoded, foreign, sniff
from podtide.adapters.eventlog.bytes.errors import (
    LogAmbiguous,
    LogEmpty,
    LogError,
    LogMissing,
    LogNotFound,
    LogUndecodable,
    LogUnreadable,
)
from podtide.adapters.eventlog.bytes.reader import LogFile, LogSource, ReadingOrder, empty, total_size
from podtide.adapters.eventlog.bytes.rolled import (
    IN_PROGRESS,
    ROLLED_PREFIX,
    STATUS_PREFIX,
    Entry,
    Rolled,
    is_part_name,
    log_entries,
    split_log,
)
from podtide.adapters.eventlog.bytes.store import LocalStore, Reader, RemoteStore, Store, is_url, local_path
from podtide.adapters.eventlog.bytes.zip_store import ZipStore
from podtide.adapters.text.safe import cause, display

STDIN: Final = "-"
STDIN_NAME: Final = "<stdin>"

PROBED_MAX: Final = 100
"""Files of a folder that are opened to see whether they begin like a log; with more, all are candidates."""

SPOOL_MAX: Final = 8 * 1024 * 1024 * 1024
"""Bytes of a ZIP that are copied to a temporary file where it cannot be read in place."""

_MEMBER: Final = re.compile(r"(.+(?:\.zip|/logs))!(.+)", re.IGNORECASE | re.DOTALL)
_TEXT_LEAD: Final = b"\xef\xbb\xbf \t\r\n"


def open_log(path: str, *, stdin: BinaryIO | None = None) -> LogSource:
    """Find the log at ``path`` (see the module) without reading more of it than its first bytes.

    ``stdin``: what ``-`` means; sys.stdin.buffer if None. Raises ``LogError``: nothing there (``LogMissing``), no log
    (``LogNotFound``, ``LogEmpty``, ``LogUndecodable``, ``LogCorrupt``), several (``LogAmbiguous``), refused
    (``LogUnreadable``, ``RemoteFailed``), or a client is missing (``RemoteMissing``).
    """
    if from_stdin(path):
        if stdin is None and sys.stdin is None:
            raise LogUnreadable(path, "standard input is closed")
        raw = stdin if stdin is not None else sys.stdin.buffer
        # read1 gives what a pipe holds, where read would wait until it holds as much as was asked for.
        read = "read1" if hasattr(raw, "read1") else "read"
        reader = Reader(raw, lambda problem: LogUnreadable(path, f"standard input failed: {cause(problem)}"), read)
        return _open_pipe(path, LocalStore(), reader, STDIN_NAME, path[2:] or None)
    if not path:
        raise LogMissing("''", "the path is empty; a file, a folder, a URL or - was expected")
    chosen = _MEMBER.fullmatch(path)
    if is_url(path):
        url, member = (chosen[1], chosen[2]) if chosen else (path, None)
        remote = RemoteStore(url)
        return _open_at(path, remote, remote.root, member)
    store, place = LocalStore(), local_path(path)
    if chosen:
        try:
            store.look(place)
        except LogMissing:
            return _open_at(path, store, local_path(chosen[1]), chosen[2])
    return _open_at(path, store, place, None)


def from_stdin(path: str) -> bool:
    """Whether a path means standard input, which no other process can open."""
    return path == STDIN or path.startswith(f"{STDIN}!")


def _open_at(path: str, store: Store, place: str, member: str | None) -> LogSource:
    try:
        entry = store.look(place)
        if entry.folder:
            return _open_folder(path, store, place)
        if entry.size is None and isinstance(store, LocalStore):
            return _open_pipe(path, store, store.open(place), display(path), member)
        return _open_file(path, store, place, entry, member)
    except LogError as problem:
        # The message names the file that was refused; the log is what the user gave.
        problem.path = path
        raise


def _open_pipe(path: str, store: Store, reader: Reader, name: str, member: str | None) -> LogSource:
    head = reader.peek(HEAD_BYTES)
    if head.startswith(ZIP_MAGICS):
        return _open_zip(path, reader, member)
    _refuse(path, head, "", member)
    plan = ReadingOrder((LogFile(name, name, None),))
    return LogSource(path, store, plan, pipe=reader)


def _open_file(path: str, store: Store, place: str, entry: Entry, member: str | None) -> LogSource:
    reader = store.open(place)
    owned = True
    try:
        head = reader.peek(HEAD_BYTES)
        if head.startswith(ZIP_MAGICS) and not isinstance(store, ZipStore):
            owned = False
            return _open_zip(path, reader, member)
    finally:
        if owned:
            reader.close()
    name = re.split(r"[/\\]", place)[-1]
    _refuse(path, head, name, member)
    plan = ReadingOrder(
        files=(LogFile(display(store.show(place)), place, entry.size),),
        # Spark takes .inprogress off when an application ends; other names say nothing.
        in_progress=True if name.endswith(IN_PROGRESS) else None,
        notes=("this is one part of a log of several files; its folder holds the whole",) if is_part_name(name) else (),
    )
    return LogSource(path, store, plan)


def _open_folder(path: str, store: Store, place: str) -> LogSource:
    entries = store.entries(place)
    if any(is_part_name(entry.name) and not entry.folder for entry in entries):
        return _open_rolled(path, store, place, entries)
    if place.rstrip("/").rpartition("/")[2].startswith(ROLLED_PREFIX):
        raise LogNotFound(path, "this rolled log holds no events; events_<n>_<application> was expected in it")
    only = _one_log(path, store, [(store.join(place, entry.name), entry) for entry in log_entries(entries)])
    return _open_found(path, store, *only)


def _open_found(path: str, store: Store, place: str, entry: Entry) -> LogSource:
    if entry.folder:
        return _open_rolled(path, store, place, store.entries(place))
    return _open_file(path, store, place, entry, None)


def _open_rolled(path: str, store: Store, place: str, entries: Iterable[Entry]) -> LogSource:
    log = split_log(entries)
    if log is None:
        raise LogNotFound(path, "this rolled log holds no events; events_<n>_<application> was expected in it")
    if log.clashes:
        why = "files that exclude each other in one log, remove the wrong ones"
        raise LogAmbiguous(path, why, (store.show(store.join(place, name)) for name in log.clashes))
    paths = [store.join(place, entry.name) for entry in log.files]
    plan = ReadingOrder(
        files=tuple(
            LogFile(display(store.show(within)), within, entry.size)
            for within, entry in zip(paths, log.files, strict=True)
        ),
        in_progress=log.in_progress,
        rolled=True,
        compacted=log.compacted,
        gaps={store.join(place, gap.before): gap for gap in log.gaps},
        notes=_rolled_notes(log),
    )
    if total_size(plan.files) == 0:
        raise LogEmpty(path, empty(in_progress=log.in_progress))
    return LogSource(path, store, plan)


def _open_zip(path: str, reader: Reader, member: str | None) -> LogSource:
    name = path.removesuffix(f"!{member}") if member else path
    zipped = ZipStore(reader if reader.seekable() else _spooled(path, reader), name)
    try:
        logs = zipped.logs()
        if member is None:
            place, entry = _one_log(path, zipped, logs)
        else:
            place, entry = _chosen(zipped, logs, member.strip("/"))
        return _open_found(path, zipped, place, entry)
    except BaseException:
        zipped.close()
        raise


def _chosen(zipped: ZipStore, logs: list[tuple[str, Entry]], member: str) -> tuple[str, Entry]:
    """The log that ``member`` names, in full or by its last components."""
    found = [log for log in logs if log[0] == member] or [log for log in logs if log[0].endswith(f"/{member}")]
    if len(found) > 1:
        why = "several members end like that, give one in full"
        raise LogAmbiguous(zipped.show(member), why, (zipped.show(place) for place, _ in found))
    return found[0] if found else (member, zipped.look(member))


def _one_log(path: str, store: Store, logs: list[tuple[str, Entry]]) -> tuple[str, Entry]:
    """The only log among these places, or the only one that begins like a log."""
    if not logs:
        raise LogNotFound(path, f"no event log lies here; a log file or {ROLLED_PREFIX}<application> was expected")
    found = logs
    if 1 < len(logs) <= PROBED_MAX:
        found = [log for log in logs if log[1].folder or _begins_like_log(store, log[0])]
        if not found:
            raise LogNotFound(path, f"none of the {len(logs)} files here begins like an event log")
    if len(found) > 1:
        raise LogAmbiguous(path, "several logs lie here, give one of them", (store.show(place) for place, _ in found))
    return found[0]


def _begins_like_log(store: Store, place: str) -> bool:
    """Whether the file begins, decoded, with an object that speaks of an event. What cannot be read may be one."""
    try:
        reader = store.open(place)
        try:
            head = reader.peek(HEAD_BYTES)
            if head.startswith(ZIP_MAGICS):
                return True
            if foreign(head):
                return False
            text = next(Decoded(reader.read, sniff(head, place), place), b"")[:HEAD_BYTES].lstrip(_TEXT_LEAD)
        finally:
            reader.close()
    except LogUndecodable:
        return False
    except LogError:
        return True
    return text.startswith(b"{") and b'"Event"' in text


def _refuse(path: str, head: bytes, name: str, member: str | None) -> None:
    """Raise what can be told about a file from its first bytes and its name."""
    if member is not None:
        raise LogUndecodable(path, "is no ZIP, so nothing in it can be chosen with !")
    if not head:
        hint = "; the events lie beside it, give the folder" if name.startswith(STATUS_PREFIX) else ""
        raise LogEmpty(path, empty(in_progress=name.endswith(IN_PROGRESS)) + hint)
    if what := foreign(head):
        raise LogUndecodable(path, f"is {what}; an event log was expected")


def _rolled_notes(log: Rolled) -> tuple[str, ...]:
    notes = []
    if log.compacted:
        replaced = f" and replaces {len(log.replaced)} files beside it" if log.replaced else ""
        notes.append(f"{display(log.files[0].name)} is compacted{replaced}: events of finished jobs were dropped")
    if log.in_progress is None and not log.delivered:
        notes.append(f"no {STATUS_PREFIX}<application> file says whether the application has ended")
    return tuple(notes)


def _spooled(path: str, reader: Reader) -> Reader:
    """The rest of an unseekable reader as a temporary file, which vanishes when it is closed."""
    refuse = partial(_spool_refusal, path)
    try:
        copy = tempfile.TemporaryFile()  # noqa: SIM115 - the reader that is returned closes it
        while data := reader.read(PLAIN_BYTES):
            if copy.tell() + len(data) > SPOOL_MAX:
                copy.close()
                raise LogUndecodable(path, f"a ZIP of more than {SPOOL_MAX:,} bytes; save it to a file first")
            copy.write(data)
        copy.seek(0)
    except OSError as problem:
        raise refuse(problem) from None
    finally:
        reader.close()
    return Reader(copy, refuse)


def _spool_refusal(path: str, problem: Exception) -> LogError:
    return LogUnreadable(path, f"copying the ZIP to a temporary file failed: {cause(problem)}; save it to a file first")
