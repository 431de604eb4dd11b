"""One log of a fleet as one row: what it cost, what for, what the best setting would save, and how it went.

A ``FleetRow`` is what a worker answers for one log, what the journal keeps, and what becomes a line of the table. Its
figures come from the document of a what-if; ``runtime_s``, ``executor_seconds`` and ``peak_executors`` are as recorded,
the bill, the ledger and the waiting are of the recorded config run again, and ``error_runtime`` and
``error_executor_seconds`` say how far that run is from the record. A saving is the difference between two simulated
runs, so that the model's error weighs on both sides alike.

``COLUMNS`` is the table: names, kinds and how each is read from a row. There is one column for every ledger cause and for
every limit, in the order of the closed lists, whether or not a log has any of it; a table of last night and one of
tonight have the same columns.

A log is known by its ``Stamp``: size, time of last change and etag, as far as the place where it lies tells them. A
rolled log has the sum of the sizes, the latest time, and a digest over the stamps of its files.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from enum import Enum, StrEnum
from functools import partial
from operator import attrgetter
from typing import Final, NamedTuple, TypeAlias

import msgspec

from podtide.adapters.text.safe import display, escaped
from podtide.domain.base.units import Millis
from podtide.domain.rerun.ledger.causes import Limit, SpendCause

TEXT_MAX: Final = 300
"""Characters of a name or a reason that a row keeps."""

Value: TypeAlias = str | int | float | None


class RowStatus(StrEnum):
    """How it went with a log. ``SKIPPED``: what was found in a folder is no event log; it has no line in the table."""

    OK = "ok"
    REFUSED = "refused"
    """The log was read, but the model does not fit it."""
    UNREADABLE = "unreadable"
    """The log, or what is in its place, cannot be read."""
    FAILED = "failed"
    """The work on it was ended: too long, too large, or an error of podtide's own."""
    SKIPPED = "skipped"


class Stamp(msgspec.Struct, frozen=True):
    """By what a log is known to be the same: bytes, last change, etag; None where the place does not tell."""

    size: int | None = None
    modified_ms: Millis | None = None
    etag: str | None = None


class FleetRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One log. Seconds are floats to the millisecond, shares are fractions; None is not known.

    ``reason``: why it is not ok, without the log's own name. ``seconds``: wall time that the work took. ``best``: the name
    of the cheapest setting within the time bound, None where none is worth it; ``best_conf``: what to set for it,
    ``best_static`` its count. ``saving_share``: of the cost where there is a price, of the core-hours otherwise.
    ``saving_least_*``: what nine of ten real runs save at least (``whatif.prediction``).
    ``tasks_*``: what the log has of task starts and ends, those that failed and those that were killed (also a denied
    commit) among the ends.
    ``filled_seconds``: what tasks whose result counted fill of the bill, a slot being its share of its executor.
    ``cost_unused``, ``cost_driver``: of the cost, what nodes have beside their executors and what the driver takes,
    where the prices ask for it (``whatif.bill``). ``compared``: how many settings were tried, ``left_out``: which were
    not, as they have no effect there, and what a user of its platform sets instead. ``memory_losses``: executors and
    tasks that ended for want of memory;
    ``memory_conf``: the memory that is recommended, None where no other is; its savings are of the bill as it ran, and below
    0 where it takes more (``domain.whatif.memory``).
    """

    log: str
    status: RowStatus
    reason: str | None = None
    app_id: str | None = None
    app_name: str | None = None
    spark_version: str | None = None
    started_ms: Millis | None = None
    tasks_started: int | None = None
    tasks_ended: int | None = None
    tasks_failed: int | None = None
    tasks_killed: int | None = None
    runtime_s: float | None = None
    simulated_runtime_s: float | None = None
    executor_seconds: float | None = None
    billed_seconds: float | None = None
    filled_seconds: float | None = None
    peak_executors: int | None = None
    core_hours: float | None = None
    gb_hours: float | None = None
    cost: float | None = None
    cost_unused: float | None = None
    cost_driver: float | None = None
    currency: str | None = None
    ledger: Mapping[str, float] = {}
    waited_s: float | None = None
    waiting: Mapping[str, float] = {}
    error_runtime: float | None = None
    error_executor_seconds: float | None = None
    compared: int | None = None
    left_out: str | None = None
    best: str | None = None
    best_conf: Mapping[str, str | None] | None = None
    best_static: int | None = None
    best_runtime_s: float | None = None
    best_billed_seconds: float | None = None
    best_core_hours: float | None = None
    best_cost: float | None = None
    saving_billed_seconds: float | None = None
    saving_core_hours: float | None = None
    saving_cost: float | None = None
    saving_share: float | None = None
    saving_least_core_hours: float | None = None
    saving_least_cost: float | None = None
    memory_spilled_bytes: int | None = None
    memory_losses: int | None = None
    memory_conf: Mapping[str, str] | None = None
    memory_risk: str | None = None
    saving_memory_gb_hours: float | None = None
    saving_memory_cost: float | None = None
    seconds: float = 0.0
    podtide: str = ""
    log_bytes: int | None = None
    log_modified_ms: Millis | None = None
    log_etag: str | None = None

    @property
    def waste_s(self) -> float | None:
        """Executor-seconds of the bill that no task filled whose result counted, slot by slot."""
        if not self.ledger:
            return None
        worked = self.ledger.get(SpendCause.RUNNING.value, 0.0) if self.filled_seconds is None else self.filled_seconds
        return round(sum(self.ledger.values()) - worked, 3)


_encoder: Final = msgspec.json.Encoder()
_decoder: Final = msgspec.json.Decoder(FleetRow)


def row_bytes(row: FleetRow) -> bytes:
    """A row as JSON of one line, without a newline. Figures that are no numbers (an endless one) become null."""
    return _encoder.encode(row)


def row_of(data: bytes) -> FleetRow:
    """The row that ``row_bytes`` wrote. Raises msgspec.DecodeError (ValidationError is one) on anything else."""
    return _decoder.decode(data)


def place_bytes(place: str) -> bytes:
    """A path or URL as bytes, for a database: file names need not be text."""
    return place.encode("utf-8", "surrogateescape")


def place_text(place: bytes) -> str:
    """What ``place_bytes`` was given."""
    return place.decode("utf-8", "surrogateescape")


def shown_place(place: str) -> str:
    """A path or URL as tables and lines show it: whole, printable, without a URL's credentials and signature."""
    if "://" in place and ("@" in place or "?" in place):
        return display(place)
    return escaped(place, max(len(place), 1))


def shortened(text: str, most: int = TEXT_MAX) -> str:
    """A text from a log, whole up to ``most`` characters; its middle is cut beyond. Its signs stay as they are."""
    if len(text) <= most:
        return text
    half = (most - 1) // 2
    return f"{text[:half]}…{text[-half:]}"


def stamp_of_all(stamps: Mapping[str, Stamp]) -> Stamp:
    """The stamp of several files as one log: by name, in whatever order they were listed."""
    digest = hashlib.blake2b(digest_size=12)
    size: int | None = 0
    modified: Millis | None = None
    for name in sorted(stamps):
        stamp = stamps[name]
        digest.update(repr((name, stamp.size, stamp.modified_ms, stamp.etag)).encode("utf-8", "backslashreplace"))
        size = None if size is None or stamp.size is None else size + stamp.size
        if stamp.modified_ms is not None:
            modified = stamp.modified_ms if modified is None else max(modified, stamp.modified_ms)
    return Stamp(size, modified, digest.hexdigest())


class ColumnKind(Enum):
    """What a column holds: text, a whole number, a number, or a moment in epoch milliseconds."""

    TEXT = "text"
    COUNT = "count"
    NUMBER = "number"
    MOMENT = "moment"


class Column(NamedTuple):
    """A column of the table."""

    name: str
    kind: ColumnKind
    read: Callable[[FleetRow], Value]


def spent_column(cause: SpendCause) -> str:
    """The column of a ledger cause: ``ledger_kept_by_minimum_s``."""
    return f"ledger_{_words(cause.value)}_s"


def wait_column(limit: Limit) -> str:
    """The column of a limit: ``wait_doubling_ramp_s``."""
    return f"wait_{_words(limit.value)}_s"


def _words(text: str) -> str:
    return "".join(sign if sign.isalnum() else "_" for sign in text)


def _spent(cause: SpendCause) -> Column:
    key = cause.value
    return Column(spent_column(cause), ColumnKind.NUMBER, lambda row: row.ledger.get(key, 0.0) if row.ledger else None)


def _waited(limit: Limit) -> Column:
    key = limit.value
    return Column(
        wait_column(limit),
        ColumnKind.NUMBER,
        lambda row: row.waiting.get(key, 0.0) if row.waited_s is not None else None,
    )


def _conf(field: str, row: FleetRow) -> str | None:
    changes = getattr(row, field)
    return None if changes is None else msgspec.json.encode(changes).decode()


def _columns(field: str, hint: str) -> Iterator[Column]:
    """The columns of a field of a row: one, as its type says, unless it is a mapping or a moment."""
    match field:
        case "ledger":
            yield Column("waste_s", ColumnKind.NUMBER, lambda row: row.waste_s)
            yield from map(_spent, SpendCause)
        case "waiting":
            yield from map(_waited, Limit)
        case "status":
            yield Column(field, ColumnKind.TEXT, lambda row: row.status.value)
        case "best_conf" | "memory_conf":
            yield Column(field, ColumnKind.TEXT, partial(_conf, field))
        case "started_ms" | "log_modified_ms":
            yield Column(field.removesuffix("_ms"), ColumnKind.MOMENT, attrgetter(field))
        case _:
            yield Column(field, _KINDS[hint.partition(" ")[0]], attrgetter(field))


_KINDS: Final = {"str": ColumnKind.TEXT, "int": ColumnKind.COUNT, "float": ColumnKind.NUMBER}

COLUMNS: Final[tuple[Column, ...]] = tuple(
    column for field, hint in FleetRow.__annotations__.items() for column in _columns(field, hint)
)
"""The table, from left to right: the fields of a row in their order."""
