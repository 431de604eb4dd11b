"""Scenario files: X.jsonl and X.expect.jsonl, plain or compressed."""

from __future__ import annotations

import gzip
import io
from pathlib import Path
from typing import IO, cast


def open_pair(folder: Path, name: str, compressed: bool) -> tuple[IO[str], IO[str]]:
    """Open a scenario file and its answers for writing.

    Compressed files carry neither time nor file name, so that the same content gives the same bytes.
    """

    def opened(suffix: str) -> IO[str]:
        path = folder / f"{name}{suffix}"
        if not compressed:
            return path.open("w", encoding="utf-8")
        raw = path.with_name(path.name + ".gz").open("wb")
        packed = _OwningGzip(filename="", mode="wb", compresslevel=9, fileobj=raw, mtime=0)
        packed.owned = raw
        return io.TextIOWrapper(cast(IO[bytes], packed), encoding="utf-8")

    return opened(".jsonl"), opened(".expect.jsonl")


class _OwningGzip(gzip.GzipFile):
    """A gzip file that closes the file below it too (GzipFile leaves a given one open)."""

    owned: IO[bytes] | None = None

    def close(self) -> None:
        super().close()
        if self.owned is not None:
            self.owned.close()
