"""Reads a file that a user wrote, within a bound. The caller raises an error of its own; the reason is written here."""

from __future__ import annotations

from pathlib import Path

from podtide.adapters.text.safe import cause


class FileNotUsable(Exception):
    """Why a file cannot be used, and in which line, where it is one line's fault."""

    def __init__(self, why: str, line: int | None = None) -> None:
        super().__init__(why)
        self.why = why
        self.line = line

    def of(self, name: str) -> str:
        """What to say of the file with this name."""
        return f"{name}: {self.why}" if self.line is None else f"{name}:{self.line}: {self.why}"


def bytes_of(path: Path, what: str, most: int, unreadable: str = "cannot be read: {why}") -> bytes:
    """What stands in a file, at most so many bytes. ``what``: what it should be, for the message, as ``unreadable`` is.
    Raises FileNotUsable."""
    try:
        with path.open("rb") as file:
            data = file.read(most + 1)
    except (OSError, ValueError) as fault:
        raise FileNotUsable(unreadable.format(why=cause(fault))) from None
    if len(data) > most:
        raise FileNotUsable(f"too long for {what}: more than {most} bytes")
    return data


def text_of(path: Path, what: str, most: int, unreadable: str = "cannot be read: {why}") -> str:
    """The same as text. Raises FileNotUsable."""
    data = bytes_of(path, what, most, unreadable)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as fault:
        raise FileNotUsable("expected UTF-8 text", data.count(b"\n", 0, fault.start) + 1) from None
