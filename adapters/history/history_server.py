"""What a Spark History Server has: its REST address as a place that logs are found in.

``GET /api/v1/applications?status=completed`` lists applications with their attempts;
``/api/v1/applications/<id>[/<attempt>]/logs`` is the log of an attempt as a ZIP (Spark, "Monitoring and Instrumentation",
REST API; without an attempt id in client mode). A log is known again by its ``lastUpdatedEpoch``. Both are read through
fsspec, like every URL (``podtide[remote]``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import quote, urlsplit

import msgspec

from podtide.adapters.eventlog.bytes.errors import LogUndecodable
from podtide.adapters.eventlog.bytes.store import RemoteStore
from podtide.adapters.fleet.discovery import FoundLog
from podtide.adapters.fleet.rows import Stamp

LISTING_MAX: Final = 256 * 1024 * 1024
"""Bytes of the list of applications; of each attempt it has about 400."""

_PIECE: Final = 1024 * 1024
_API: Final = "/api/v1"
_LISTED: Final = re.compile(r"(?:/api/v1(?:/applications)?)?")


class _Attempt(msgspec.Struct):
    attempt: str | None = msgspec.field(name="attemptId", default=None)
    completed: bool = False
    updated: int | None = msgspec.field(name="lastUpdatedEpoch", default=None)
    ended: int | None = msgspec.field(name="endTimeEpoch", default=None)


class _Application(msgspec.Struct):
    id: str
    attempts: list[_Attempt] = []


_decoder: Final = msgspec.json.Decoder(list[_Application])


def is_history_server(place: str) -> bool:
    """Whether a place is the address of a History Server, with or without its ``/api/v1[/applications]``."""
    if not place.lower().startswith(("http://", "https://")):
        return False
    found = urlsplit(place)
    return not found.query and _LISTED.fullmatch(found.path.rstrip("/")) is not None


def applications(place: str) -> Iterator[FoundLog]:
    """Every attempt that a History Server says is completed, as a log. Raises ``LogError``."""
    base = f"{place.rstrip('/').removesuffix('/applications').removesuffix(_API)}{_API}/applications"
    store = RemoteStore(f"{base}?status=completed")
    reader = store.open(store.root)
    try:
        pieces, size = [], 0
        while piece := reader.read(_PIECE):
            size += len(piece)
            if size > LISTING_MAX:
                raise LogUndecodable(place, f"its list of applications has more than {LISTING_MAX:,} bytes")
            pieces.append(piece)
    finally:
        reader.close()
    try:
        listed = _decoder.decode(b"".join(pieces))
    except msgspec.DecodeError as problem:
        raise LogUndecodable(place, f"is no History Server: {problem}") from None
    for application in listed:
        for attempt in application.attempts:
            if attempt.completed:
                part = "" if attempt.attempt is None else f"/{quote(attempt.attempt, safe='')}"
                log = f"{base}/{quote(application.id, safe='')}{part}/logs"
                yield FoundLog(log, Stamp(None, attempt.updated or attempt.ended, None), True)
