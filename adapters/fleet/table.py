"""The table over a fleet as a file: CSV or Parquet, by the ending of its name; in its place only once it is whole.

CSV is UTF-8 with a header and Unix line ends; what is not known is empty, moments are ISO 8601 in UTC. Names in it are
untrusted and the file is likely to be opened in a spreadsheet, where a cell that begins with ``=``, ``+``, ``-``,
``@``, a tab or a carriage return is a formula: such a text gets an apostrophe in front, as spreadsheets themselves mark a
text (numbers are never touched). Signs that are not printable are written as their escapes, so the file is also safe to look
at in a terminal, and every row is one line.

Parquet holds the same columns with types and the texts as they are; it needs pyarrow (the extra ``fleet``), which is
imported only when such a file is asked for. Rows are written in groups, so memory does not follow their number.
"""

from __future__ import annotations

import csv
import io
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, Self

from podtide.adapters.fleet.rows import COLUMNS, ColumnKind, FleetRow, Value
from podtide.adapters.recording.records.decision_file import DecisionFileError, DecisionWriter
from podtide.adapters.text.safe import cause, display, escaped

ENDINGS: Final = (".csv", ".parquet")

EXTRA: Final = "podtide[fleet]"
"""What brings pyarrow."""

GROUP_ROWS: Final = 20_000
"""Rows of one group of a Parquet file; of so many the columns are in memory."""

_FORMULA: Final = ("=", "+", "-", "@", "＝", "＋", "－", "＠", "\t", "\r", "\n")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class TableError(Exception):
    """The table cannot be written; the message is one printable line that names the file."""


@contextmanager
def _refused() -> Iterator[None]:
    """What goes wrong with the file goes wrong with the table."""
    try:
        yield
    except DecisionFileError as problem:
        raise TableError(str(problem)) from None


class TableWriter(ABC):
    """Takes rows; a context manager that discards what was not committed. Everything raises ``TableError``."""

    def __init__(self, path: str) -> None:
        self._file = DecisionWriter(path)

    @abstractmethod
    def put(self, row: FleetRow) -> None:
        """Append a row."""

    def commit(self) -> None:
        """All rows are there: put the file in its place."""
        with _refused():
            self._finish()
            self._file.commit()

    def _finish(self) -> None:  # noqa: B027 - only some hold rows back
        """Write what is not in the file yet."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.__exit__()


def check_table(path: str) -> None:
    """Refuse at once what could not be written after hours: the ending, the package, the folder. Raises ``TableError``."""
    ending = Path(path).suffix.lower()
    if ending not in ENDINGS:
        raise TableError(f"{display(path)}: a file that ends in .csv or .parquet was expected")
    if ending == ".parquet":
        _arrow(path)
    if Path(path).exists() and not Path(path).is_file():
        raise TableError(f"{display(path)}: is no file; one that ends in .csv or .parquet was expected")
    with _refused(), DecisionWriter(path):
        pass


def open_table(path: str) -> TableWriter:
    """A writer for ``path``, by its ending. Raises ``TableError``."""
    with _refused():
        return ParquetTable(path) if Path(path).suffix.lower() == ".parquet" else CsvTable(path)


class CsvTable(TableWriter):
    """A CSV file; see ``TableWriter``."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._line = io.StringIO()
        self._csv = csv.writer(self._line, lineterminator="\n")
        self._write([column.name for column in COLUMNS])

    def put(self, row: FleetRow) -> None:
        """See ``TableWriter``."""
        self._write([_cell(column.kind, column.read(row)) for column in COLUMNS])

    def _write(self, cells: list[str]) -> None:
        self._csv.writerow(cells)
        with _refused():
            self._file.write(self._line.getvalue().encode("utf-8", "backslashreplace"))
        self._line.seek(0)
        self._line.truncate()


class ParquetTable(TableWriter):
    """A Parquet file, compressed by zstd; see ``TableWriter``."""

    def __init__(self, path: str) -> None:
        arrow, parquet = _arrow(path)
        kinds = {
            ColumnKind.TEXT: arrow.string(),
            ColumnKind.COUNT: arrow.int64(),
            ColumnKind.NUMBER: arrow.float64(),
            ColumnKind.MOMENT: arrow.timestamp("ms", tz="UTC"),
        }
        self._arrow = arrow
        self._path = path
        self._schema = arrow.schema([(column.name, kinds[column.kind]) for column in COLUMNS])
        self._columns: list[list[Value]] = [[] for _ in COLUMNS]
        super().__init__(path)
        try:
            self._writer: Any = parquet.ParquetWriter(_Sink(self._file), self._schema, compression="zstd")
        except BaseException:
            self._file.__exit__()
            raise

    def put(self, row: FleetRow) -> None:
        """See ``TableWriter``."""
        for cells, column in zip(self._columns, COLUMNS, strict=True):
            value = column.read(row)
            if isinstance(value, str):
                value = value.encode("utf-8", "backslashreplace").decode()
            elif column.kind is ColumnKind.NUMBER and value is not None:
                value = float(value)
            cells.append(value)
        if len(self._columns[0]) >= GROUP_ROWS:
            self._flush()

    def _finish(self) -> None:
        self._flush()
        self._writer.close()

    def _flush(self) -> None:
        if not self._columns[0]:
            return
        try:
            arrays = [
                self._arrow.array(cells, field.type) for cells, field in zip(self._columns, self._schema, strict=True)
            ]
            with _refused():
                self._writer.write_table(self._arrow.Table.from_arrays(arrays, schema=self._schema))
        except (self._arrow.ArrowException, OSError) as problem:
            raise TableError(f"{display(self._path)}: writing failed: {cause(problem)}") from None
        self._columns = [[] for _ in COLUMNS]


class _Sink(io.RawIOBase):
    """The file as pyarrow wants it: something that is written to and knows how far it is."""

    def __init__(self, file: DecisionWriter) -> None:
        self._target = file
        self._at = 0

    def writable(self) -> bool:
        """It is."""
        return True

    def tell(self) -> int:
        """Bytes written so far."""
        return self._at

    def write(self, data: Any) -> int:
        """Append bytes."""
        piece = bytes(data)
        self._target.write(piece)
        self._at += len(piece)
        return len(piece)


def _arrow(path: str) -> tuple[Any, Any]:
    try:
        import pyarrow  # noqa: PLC0415 - an extra, and slow to import
        import pyarrow.parquet  # noqa: PLC0415 - the same
    except ImportError:
        raise TableError(
            f"{display(path)}: writing Parquet needs pyarrow: pip install '{EXTRA}'; a file that ends in .csv needs nothing"
        ) from None
    return pyarrow, pyarrow.parquet


def _cell(kind: ColumnKind, value: Value) -> str:
    """One cell of a CSV file."""
    if value is None:
        return ""
    if isinstance(value, str):
        text = escaped(value, max(len(value), 1))
        return f"'{text}" if value.startswith(_FORMULA) or value.lstrip().startswith(_FORMULA) else text
    if kind is ColumnKind.MOMENT:
        try:
            return (_EPOCH + timedelta(milliseconds=value)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        except (OverflowError, ValueError):  # beyond the year 9999
            return ""
    return repr(value)
