"""SPARK_CONF_DIR: the files that executors find at /opt/spark/conf, chosen as Spark 4.3.0 chooses them.

Regular files of the directory itself, but no archives (.gz, .zip, .jar, .tar), no templates, and nothing called
``spark*conf`` or ``spark*properties`` - those are the driver's. From the smallest on, as many as fit into
spark.kubernetes.configMap.maxSize characters (names and contents); one that is too large by itself, or not UTF-8, is left
out. What is left out is said.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, NamedTuple

from podtide.adapters.text.safe import escaped

SIZE_MAX: Final = 1_048_576
"""spark.kubernetes.configMap.maxSize unless it is set."""

ENTRIES_MAX: Final = 10_000

_ARCHIVE: Final = re.compile(r".*\.(gz|zip|jar|tar)")
_OF_SPARK: Final = re.compile(r".*\.template|spark.*(conf|properties)")


class ConfFiles(NamedTuple):
    """Texts by file name, in the order of their names, and what was left out and why."""

    texts: dict[str, str]
    remarks: tuple[str, ...] = ()


class ConfDirError(Exception):
    """A directory that cannot be read."""


def read_conf_dir(folder: str | Path, size_max: int = SIZE_MAX) -> ConfFiles:
    """The files of a conf directory; none for a path that is no directory, as in Spark. Raises ConfDirError."""
    place = Path(folder)
    try:
        if not place.is_dir():
            return ConfFiles({}, (f"{escaped(str(place))} is no directory: executors have no files of it",))
        found = []
        for count, path in enumerate(place.iterdir()):
            if count >= ENTRIES_MAX:
                raise ConfDirError(escaped(f"{place}: more than {ENTRIES_MAX} entries"))
            if path.is_file() and not _ARCHIVE.fullmatch(path.name) and not _OF_SPARK.fullmatch(path.name):
                found.append((path.stat().st_size + _length(path.name), path.name, path))
        return _chosen(sorted(found), size_max)
    except OSError as problem:
        raise ConfDirError(escaped(f"{problem.filename or place}: cannot be read: {problem.strerror}")) from None


def _chosen(found: list[tuple[int, str, Path]], size_max: int) -> ConfFiles:
    texts: dict[str, str] = {}
    remarks: list[str] = []
    total = 0
    for size, name, path in found:
        if size > size_max:
            remarks.append(f"{escaped(name)} is left out: longer than {size_max} characters")
            continue
        try:
            text = path.read_bytes()[: size_max + 1].decode("utf-8")
        except UnicodeDecodeError:
            remarks.append(f"{escaped(name)} is left out: not UTF-8")
            continue
        taken = _length(name) + _length(text)
        if total + taken >= size_max:
            remarks.append(f"{escaped(name)} is left out: the files before it fill {size_max} characters")
            continue
        texts[name] = text
        total += taken
    return ConfFiles(dict(sorted(texts.items(), key=lambda item: item[0].encode("utf-16-be"))), tuple(remarks))


def _length(text: str) -> int:
    """String.length: UTF-16 units."""
    return len(text.encode("utf-16-be", "surrogatepass")) // 2
