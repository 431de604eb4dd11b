"""Times, counts and ids in words, for people who read in a terminal: one wording for one thing, wherever it is shown.

Everything here is plain text of one line. Nothing in it comes from a log but numbers and executor ids, and those are
escaped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from podtide.adapters.text.safe import escaped
from podtide.domain.base.units import Millis

IDS_SHOWN: Final = 6
"""Executor ids that are named one by one in a row; the rest is counted."""

ID_SHOWN_MAX: Final = 24
"""Characters of one executor id that are shown."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

_INFINITE: Final = re.compile(r"(2147483647|2147483647000|9223372036854775807)(s|ms)?")
_MILLIS: Final = re.compile(r"[0-9]{1,12}ms")


def clock(span_ms: Millis, *, tenths: bool = False) -> str:
    """A time since the start: ``0:04.3``, ``12:05``, ``1:02:03``, ``3d 04:05:06``."""
    if span_ms < 0:
        return f"-{clock(-span_ms, tenths=tenths)}"
    seconds, rest = divmod(span_ms, 1000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    tail = f"{seconds:02}.{rest // 100}" if tenths else f"{seconds:02}"
    if days:
        return f"{days:,}d {hours:02}:{minutes:02}:{tail}"
    return f"{hours}:{minutes:02}:{tail}" if hours else f"{minutes}:{tail}"


def lasting(span_ms: float) -> str:
    """A length of time: ``300 ms``, ``4.3 s``, ``15 s``, ``2m 05s``, ``3h 07m``, ``12d 4h``."""
    span = round(span_ms)
    if span < 1000:
        return f"{span} ms" if span else "0 s"
    if span < 60_000:
        return f"{span / 1000:.1f}".removesuffix(".0") + " s"
    minutes, seconds = divmod(round(span / 1000), 60)
    if minutes < 60:
        return f"{minutes}m {seconds:02}s"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours}h {minutes:02}m"
    return f"{hours // 24:,}d {hours % 24}h"


def moment(at_ms: Millis) -> str:
    """A moment of the calendar, in UTC: ``2026-11-21 09:44:23 UTC``."""
    try:
        return (_EPOCH + timedelta(milliseconds=at_ms)).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, ValueError):  # beyond the year 9999
        return f"{at_ms:,} ms"


def count(number: float, one: str, many: str | None = None) -> str:
    """A number and its noun: ``1 task``, ``1,234 tasks``."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def size(number: float) -> str:
    """Bytes: ``812 B``, ``73.4 kB``, ``2.1 GB``."""
    for unit in ("B", "kB", "MB", "GB"):
        if number < 1000:
            return f"{number:,.0f} {unit}" if unit == "B" else f"{number:,.1f} {unit}"
        number /= 1000
    return f"{number:,.1f} TB"


def ids(executors: Sequence[str], shown_max: int = IDS_SHOWN) -> str:
    """Executor ids, the first few by name: ``4, 1, 2`` or ``1, 10, 11 and 40 more``."""
    return some([escaped(executor, ID_SHOWN_MAX) for executor in executors[:shown_max]], shown_max, len(executors))


def some(texts: Sequence[str], shown_max: int, total: int | None = None, separator: str = ", ") -> str:
    """The first few texts, and how many more there are: ``a, b and 40 more``. ``total``: where not all are given."""
    shown = separator.join(texts[:shown_max])
    more = (len(texts) if total is None else total) - min(len(texts), shown_max)
    return f"{shown} and {more:,} more" if more > 0 else shown


def joined(parts: Iterable[str], separator: str = " · ") -> str:
    """The parts of a reason as one line."""
    return separator.join(part for part in parts if part)


def setting_text(value: str | None, most: int = 40) -> str:
    """A setting's value as it was written, but for milliseconds and Spark's spelling of infinity; at most ``most`` signs."""
    if value is None:
        return "unset"
    if _INFINITE.fullmatch(value):
        return "unlimited"
    if _MILLIS.fullmatch(value):
        return lasting(int(value[:-2])).replace(" ", "")
    return escaped(value, most) or "(empty)"
