"""A worker's work on one log of a fleet: a request in bytes, whatever assesses a log, and the row in bytes.

``answer`` is what worker processes and Spark executors run. It knows nothing of what-ifs: how a log is assessed is handed to
it (``Assess``; ``fleet.assess.assess``, or what a test has instead) and found by its name in its module. What it adds is
what is the same for all: whether what was found in a folder is a log at all, what happens to a log that cannot be read or
of a fault of podtide's own, how long it took, and by what the log is known. Nothing here knows how many logs there are or
where their rows go; everything that is needed comes with the request and the options, which can be pickled.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

import msgspec

from podtide import __version__
from podtide.adapters.eventlog.bytes.errors import LogError
from podtide.adapters.fleet.discovery import FoundLog, begins_like_log
from podtide.adapters.fleet.rows import FleetRow, RowStatus, Stamp, row_bytes, shortened, shown_place
from podtide.domain.rerun.plan import Variant
from podtide.domain.whatif.prices import Prices
from podtide.domain.whatif.summary import MAX_ERROR

WITHIN: Final = 0.1
"""How much longer a setting may take, as a share of the run time."""

SEEDS: Final = 1
"""Runs of each setting: a fleet is answered by its many logs, one log by many seeds."""


@dataclass(frozen=True, slots=True)
class FleetOptions:
    """What is asked about every log; two runs with equal options give equal rows.

    ``variants``: the settings to try; None for the default ones (``fleet.candidates``). ``tune``: search instead.
    """

    variants: tuple[Variant, ...] | None = None
    tune: bool = False
    prices: Prices | None = None
    seeds: int = SEEDS
    max_error: float = MAX_ERROR
    within: float = WITHIN


Assess: TypeAlias = Callable[[str, FleetOptions], FleetRow]
"""From a path and the options to a row without ``seconds``, ``podtide`` and the log's stamp. Raises ``LogError``."""


def answer(assess: Assess, options: FleetOptions, request: bytes) -> bytes:
    """A worker's work: the row of the log that ``request`` (see ``request``) names, as bytes.

    What was found in a folder and is no event log comes back as skipped; an error of podtide's own as failed. MemoryError
    is left to whoever bounds the memory.
    """
    place, named, size, modified_ms, etag = json.loads(request)
    begun = time.perf_counter()
    try:
        if not named and not begins_like_log(place):
            row = FleetRow(log="", status=RowStatus.SKIPPED, reason="is no event log")
        else:
            row = assess(place, options)
    except LogError as problem:
        row = FleetRow(log="", status=RowStatus.UNREADABLE, reason=shortened(problem.why))
    except MemoryError:
        raise
    except Exception as problem:
        row = FleetRow(log="", status=RowStatus.FAILED, reason=shortened(_words(problem)))
    row = msgspec.structs.replace(
        row, log=shown_place(place), seconds=round(time.perf_counter() - begun, 3),
        log_bytes=size, log_modified_ms=modified_ms, log_etag=etag,
    )  # fmt: skip
    return row_bytes(row)


def request(found: FoundLog, place: str) -> bytes:
    """A request to ``answer``. ``place``: where the worker finds it, which may be another name for the same."""
    stamp = found.stamp
    return json.dumps([place, found.named, stamp.size, stamp.modified_ms, stamp.etag]).encode()


def failed(found: FoundLog, why: str, status: RowStatus = RowStatus.FAILED) -> FleetRow:
    """The row of a log that no worker answered for."""
    stamp: Stamp = found.stamp
    return FleetRow(
        log=shown_place(found.place), status=status, reason=shortened(why), podtide=__version__,
        log_bytes=stamp.size, log_modified_ms=stamp.modified_ms, log_etag=stamp.etag,
    )  # fmt: skip


def clean(text: str) -> str:
    """A text from a log as one that can be written anywhere: half of a surrogate pair is none."""
    return text.encode("utf-8", "backslashreplace").decode()


def _words(problem: Exception) -> str:
    lines = clean(str(problem)).strip().splitlines()
    return f"{type(problem).__name__}: {lines[0]}" if lines else type(problem).__name__
