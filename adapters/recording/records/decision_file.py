"""Files of decisions: JSON lines, one decision a line, exactly the records of ``--json`` (docs/reference/formats.md).

There is no header and no footer, so the files of two replays can be compared with ``diff``, cut with ``head`` and
read with ``jq``. A file is written beside its place under another name and renamed once it is whole: whoever looks
finds the old one or the new one, never half of it. What is no regular file (a device, a named pipe, standard output)
cannot be renamed over and is written as it is.
"""

from __future__ import annotations

import os
import secrets
import shutil
import stat
import sys
import weakref
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple, Self

import msgspec

from podtide.adapters.recording.records.decisions import SCHEMA_VERSION
from podtide.adapters.recording.records.jsonl import encoded
from podtide.adapters.text.safe import cause, display, escaped

STDOUT: Final = "-"

LINE_MAX: Final = 16 * 1024 * 1024
"""Bytes of the longest line that is read; a kill of 100,000 executors takes two."""


class DecisionFileError(Exception):
    """A file of decisions cannot be read or written; the message is one printable line that names it."""

    def __init__(self, path: str, why: str, line: int | None = None) -> None:
        super().__init__(f"{display(path)}{'' if line is None else f':{line}'}: {why}")


class DecisionWriter:
    """Writes a file of decisions; a context manager. ``commit`` puts it in its place, leaving without discards it."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._temporary: Path | None = None
        try:
            self._file = self._open()
        except OSError as problem:
            raise DecisionFileError(path, f"cannot be written: {cause(problem)}") from None

    def put(self, record: dict[str, Any]) -> None:
        """Append a decision. Raises DecisionFileError if the disk refuses, BrokenPipeError if the reader has gone."""
        self.write(encoded(record))

    def write(self, line: bytes) -> None:
        """Append a line that is ready, its newline included. Raises as ``put`` does."""
        try:
            self._file.write(line)
        except BrokenPipeError:
            raise
        except OSError as problem:
            raise self._refused(problem) from None

    def commit(self) -> None:
        """All decisions are written: put the file in its place."""
        try:
            self._file.flush()
            if self._temporary is not None:
                self._file.close()
                self._temporary.replace(self._place)
                self._temporary = None
                self._forget.detach()
        except BrokenPipeError:
            raise
        except OSError as problem:
            raise self._refused(problem) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.path != STDOUT:
            with suppress(OSError):  # what could not be flushed was reported by put or commit
                self._file.close()
        if self._temporary is not None:
            self._forget()

    def _open(self) -> BinaryIO:
        if self.path == STDOUT:
            return sys.stdout.buffer
        # A link stays a link: what it points to is replaced.
        self._place = Path(os.path.realpath(self.path))
        try:
            known = self._place.stat()
        except FileNotFoundError:
            known = None
        if known is not None and not stat.S_ISREG(known.st_mode):
            return self._place.open("wb")
        if known is not None and not os.access(self._place, os.W_OK):
            raise PermissionError(0, "it is write-protected")
        self._temporary = self._place.with_name(f".{self._place.name[:100]}.{secrets.token_hex(6)}.part")
        # Before there is a file: whatever interrupts this process from here on, the file goes when it ends.
        self._forget = weakref.finalize(self, self._temporary.unlink, missing_ok=True)
        handle = os.open(self._temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        if known is not None:
            shutil.copymode(self._place, self._temporary)
        else:
            mask = os.umask(0)
            os.umask(mask)
            self._temporary.chmod(0o666 & ~mask)
        return os.fdopen(handle, "wb")

    def _refused(self, problem: OSError) -> DecisionFileError:
        return DecisionFileError(self.path, f"writing failed: {cause(problem)}")


def put_file(data: bytes, path: str) -> None:
    """Write a file, which is in its place whole or not at all; ``-`` is standard output. Raises DecisionFileError."""
    with DecisionWriter(path) as file:
        file.write(data)
        file.commit()


class Numbered(NamedTuple):
    """A decision of a file and the number of its line, from 1."""

    line: int
    record: dict[str, Any]


class DecisionReader:
    """Reads a file of decisions line by line; a context manager. Raises DecisionFileError, the line named."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.name = display(path)
        try:
            self._file = Path(path).open("rb")  # noqa: SIM115 - closed by __exit__
        except OSError as problem:
            raise DecisionFileError(path, f"cannot be read: {cause(problem)}") from None

    def decisions(self) -> Iterator[Numbered]:
        """The decisions in their order; empty lines are passed over, and so is a header that names the version."""
        decode = msgspec.json.Decoder().decode
        number = 0
        while True:
            try:
                text = self._file.readline(LINE_MAX)
            except OSError as problem:
                raise DecisionFileError(self.path, f"reading failed: {cause(problem)}") from None
            if not text:
                return
            number += 1
            if len(text) == LINE_MAX:
                raise DecisionFileError(self.path, f"the line is longer than {LINE_MAX:,} bytes", number)
            if text.isspace():
                continue
            try:
                record = decode(text)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
                raise DecisionFileError(self.path, f"no JSON: {_words(problem)}", number) from None
            if number == 1 and isinstance(record, dict) and record.get("kind") == "decisions":
                if record.get("podtide") != SCHEMA_VERSION:
                    other = f"version {record.get('podtide')} of the format; {SCHEMA_VERSION} is understood"
                    raise DecisionFileError(self.path, escaped(other), number)
                continue
            if why := _no_decision(record):
                raise DecisionFileError(self.path, why, number)
            yield Numbered(number, record)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def _words(problem: Exception) -> str:
    return "nested too deeply" if isinstance(problem, RecursionError) else cause(problem)


def _no_decision(record: Any) -> str | None:
    """What keeps a value from being a decision, None if nothing does."""
    if not isinstance(record, dict):
        return "an object was expected, one decision a line"
    if "decisions" in record or "podtide" in record:
        return "a whole document; the file that --decisions writes was expected, one decision a line"
    if not isinstance(record.get("at_ms"), int) or isinstance(record.get("at_ms"), bool):
        return "at_ms is missing or no whole number"
    if not isinstance(record.get("command"), str):
        return "command is missing or no text"
    for key, kind in (("ids", list), ("targets", dict), ("facts", dict), ("causes", list), ("changes", list)):
        if key in record and not isinstance(record[key], kind):
            return f"{key} is no {'list' if kind is list else 'object'}"
    if not all(isinstance(change, dict) for change in record.get("changes", ())):
        return "changes holds something that is no change"
    return None
