r"""Reading spark-defaults.conf, or any file given to spark-submit as --properties-file.

Spark reads such a file as UTF-8 with ``java.util.Properties`` and trims the values (``Utils.getPropertiesFromFile``):

- a line ends at \n, \r or \r\n; blanks (space, tab, form feed) before it do not count; a line that begins with # or
  ! is a comment; a backslash at the end continues the line, whose continuation loses its leading blanks;
- the key ends at the first "=", ":" or blank that no backslash precedes; blanks and one "=" or ":" separate it from
  the value; a line without separator is a key with an empty value;
- \t, \n, \r, \f and \uXXXX are escapes, any other backslash vanishes; a malformed \u refuses the whole file;
- values lose blanks and control characters at both ends, line breaks excepted; a key given twice keeps its last
  value;
- spark-submit ignores keys that do not begin with "spark.".

The file is read whole, so its size is limited. What is odd but legal (ignored and repeated keys, a byte order mark)
is reported beside the conf.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pyrsistent import pmap
from returns.pipeline import is_successful
from returns.result import Failure, Result, Success

from podtide.adapters.text.safe import escaped
from podtide.domain.conf.spark_conf import Setting, SparkConf
from podtide.domain.conf.spark_versions import DEFAULT_VERSION, SparkVersion

FILE_BYTES_MAX: Final = 8 * 1024 * 1024
REMARKS_MAX: Final = 50

_BLANKS: Final = " \t\f"
_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_TRIMMED: Final = "".join(chr(code) for code in range(0x21) if chr(code) not in "\r\n")
_HEX: Final = frozenset("0123456789abcdefABCDEF")


@dataclass(frozen=True, slots=True)
class ConfFileError:
    """Why a file cannot be used: the whole file, or one line of it (counted from 1)."""

    path: str
    why: str
    line: int | None = None

    def __str__(self) -> str:
        place = f"{self.path}:{self.line}" if self.line else self.path
        return escaped(f"{place}: {self.why}")


@dataclass(frozen=True, slots=True)
class Property:
    """One entry: the line that it begins on, its key and its value, trimmed."""

    line: int
    key: str
    value: str


@dataclass(frozen=True, slots=True)
class PropertiesFile:
    """The spark.* settings of a file and what is odd about it."""

    conf: SparkConf
    remarks: tuple[str, ...] = ()


def read_properties_file(
    path: str | Path, version: SparkVersion = DEFAULT_VERSION
) -> Result[PropertiesFile, ConfFileError]:
    """The settings of a properties file; each setting's origin is ``file NAME:LINE``."""
    file = Path(path)
    try:
        if not stat.S_ISDIR(file.stat().st_mode):
            with file.open("rb") as stream:
                raw = stream.read(FILE_BYTES_MAX + 1)
        else:
            return Failure(ConfFileError(str(path), "is a folder, not a properties file"))
    except FileNotFoundError:
        return Failure(ConfFileError(str(path), "no such file"))
    except (OSError, ValueError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) and problem.strerror else str(problem)
        return Failure(ConfFileError(str(path), f"cannot be read ({reason})"))
    if len(raw) > FILE_BYTES_MAX:
        return Failure(ConfFileError(str(path), f"larger than {FILE_BYTES_MAX // 1024**2} MiB: no properties file"))
    if b"\0" in raw[:4096]:
        return Failure(ConfFileError(str(path), "is not a text file"))
    return parse_properties(raw.decode("utf-8", "replace"), str(path), version)


def parse_properties(
    text: str, path: str, version: SparkVersion = DEFAULT_VERSION
) -> Result[PropertiesFile, ConfFileError]:
    """The settings in the text of a properties file."""
    entries = properties(text)
    if not is_successful(entries):
        line = entries.failure()
        return Failure(ConfFileError(path, r"malformed \u escape: four hexadecimal digits are expected", line))
    name = Path(path).name
    settings: dict[str, Setting] = {}
    lines: dict[str, int] = {}
    remarks: list[str] = []
    for entry in entries.unwrap():
        where = f"file {name}:{entry.line}"
        if not entry.key.startswith("spark."):
            mark = " (the file begins with a byte order mark)" if entry.key.startswith("\ufeff") else ""
            remarks.append(f"{where}: {entry.key!r} does not begin with spark. and is ignored{mark}")
            continue
        if entry.key in settings:
            remarks.append(f"{where}: {entry.key} replaces its value of line {lines[entry.key]}")
        settings[entry.key] = Setting(entry.value, where)
        lines[entry.key] = entry.line
    if len(remarks) > REMARKS_MAX:
        remarks[REMARKS_MAX:] = [f"file {name}: and {len(remarks) - REMARKS_MAX} more remarks of this kind"]
    return Success(PropertiesFile(SparkConf(pmap(settings), version), tuple(remarks)))


def properties(text: str) -> Result[tuple[Property, ...], int]:
    """All entries in order; or the number of the line with a malformed escape."""
    entries = []
    for number, line in _logical_lines(text):
        key, value = _split(line)
        try:
            entries.append(Property(number, _unescaped(key), _unescaped(value).strip(_TRIMMED)))
        except ValueError:
            return Failure(number)
    return Success(tuple(entries))


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """java.util.Properties.LineReader: lines with their continuations, without comments and leading blanks.

    A comment sign counts only while nothing of the line was read yet, also after a lone backslash.
    """
    begun = 0
    parts: list[str] = []
    for number, natural in enumerate(_natural_lines(text), 1):
        line = natural.lstrip(_BLANKS)
        if not any(parts):
            if line.startswith(("#", "!")) or (not line and not parts):
                parts = []
                continue
            begun = number
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            parts.append(line[:-1])
            continue
        whole = "".join(parts) + line
        parts = []
        if whole:
            yield begun, whole
    # The file ends in a continuation. (After a lone backslash Java reports an empty key, which no rule here reads.)
    if any(parts):
        yield begun, "".join(parts)


def _natural_lines(text: str) -> list[str]:
    # str.splitlines knows more line ends than Java does.
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def _split(line: str) -> tuple[str, str]:
    """Key and value, escapes still in them."""
    at = 0
    while at < len(line) and line[at] not in "=: \t\f":
        at += 2 if line[at] == "\\" else 1
    at = min(at, len(line))
    rest = line[at:].lstrip(_BLANKS)
    if rest.startswith(("=", ":")):
        rest = rest[1:].lstrip(_BLANKS)
    return line[:at], rest


def _unescaped(text: str) -> str:
    r"""java.util.Properties.loadConvert. Raises ValueError at a malformed \u."""
    if "\\" not in text:
        return text
    parts = []
    at = 0
    surrogates = False
    while True:
        backslash = text.find("\\", at)
        if backslash < 0 or backslash + 1 == len(text):
            parts.append(text[at : backslash if backslash >= 0 else None])
            break
        parts.append(text[at:backslash])
        sign = text[backslash + 1]
        at = backslash + 2
        if sign == "u":
            digits = text[at : at + 4]
            if len(digits) < 4 or not _HEX.issuperset(digits):
                raise ValueError(text)
            parts.append(chr(int(digits, 16)))
            surrogates = surrogates or "\ud800" <= parts[-1] <= "\udfff"
            at += 4
        else:
            parts.append(_ESCAPES.get(sign, sign))
    joined = "".join(parts)
    # Java's strings are UTF-16: two escapes make one character beyond the basic plane.
    return joined.encode("utf-16", "surrogatepass").decode("utf-16", "replace") if surrogates else joined
