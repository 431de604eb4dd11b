"""Moments as Kubernetes and Java write them, and back, by arithmetic alone.

Kubernetes gives times as text (``2026-11-21T09:44:23Z``); Spark reads them with ``java.time.Instant.parse`` wherever
an age decides (how long a pod has been pending, how old a volume claim is). A text that Java refuses counts as
"unknown" there, so which texts Java refuses is part of the decision: this is Java's ISO_INSTANT as of Java 12, strict,
in any case of the letters, which Spark 4.3.0 (Java 17 and later) runs on. It knows

- years of four digits, signed ones of more (``+10000``; minus zero is refused);
- hour 24 at midnight exactly, which is the next day; second 60 at 23:59 only, which is second 59 (a leap second);
- fractions of none to nine digits (``12:00:00.Z`` too), cut to milliseconds towards the past;
- ``Z`` or an offset ``+HH:MM`` or ``+HH:MM:SS`` of at most 18 hours.

The calendar is the Gregorian one, without a beginning. What lies beyond the years that an Instant can hold, or beyond
64-bit milliseconds, has no answer: Java throws there as it does for nonsense.
"""

from __future__ import annotations

import re
from typing import Final

from podtide.domain.base.units import Millis

_INSTANT: Final = re.compile(
    r"(\d{4}|\+\d{5,10}|-\d{4,10})-(\d\d)-(\d\d)T"
    r"(\d\d):(\d\d):(\d\d)(?:\.(\d{0,9}))?"
    r"(?:Z|([+-])(\d\d):(\d\d)(?::(\d\d))?)",
    re.ASCII | re.IGNORECASE,
)
_LONGEST: Final = 60  # "+1000000000-12-31T23:59:59.999999999+18:00:00" has 45 characters

_DAY_S: Final = 86_400
_OFFSET_MAX_S: Final = 18 * 3600
_SECONDS_MIN: Final = -31_557_014_167_219_200  # Instant.MIN
_SECONDS_MAX: Final = 31_556_889_864_403_199  # Instant.MAX
_LONG_MIN: Final = -(2**63)
_LONG_MAX: Final = 2**63 - 1
_MONTH_DAYS: Final = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def parse_instant(text: str) -> Millis | None:
    """Milliseconds since the epoch, as ``Instant.parse(text).toEpochMilli()``; None where Java throws."""
    found = _INSTANT.fullmatch(text) if len(text) <= _LONGEST else None
    if found is None:
        return None
    year_text, month_text, day_text, hour_text, minute_text, second_text, fraction = found.groups()[:7]
    year, month, day = int(year_text), int(month_text), int(day_text)
    if year == 0 and year_text[0] == "-":
        return None
    hour, minute, second = int(hour_text), int(minute_text), int(second_text)
    nanos = int(fraction.ljust(9, "0")) if fraction else 0
    midnight = hour == 24 and minute == 0 and second == 0 and nanos == 0
    leap_second = hour == 23 and minute == 59 and second == 60
    if not 1 <= month <= 12 or not 1 <= day <= _days_of_month(year, month) or minute > 59:
        return None
    if (hour > 23 and not midnight) or (second > 59 and not leap_second):
        return None
    offset = _offset_s(*found.groups()[7:])
    if offset is None:
        return None
    seconds = _days_since_epoch(year, month, day) * _DAY_S + hour * 3600 + minute * 60 + min(second, 59) - offset
    if not _SECONDS_MIN <= seconds <= _SECONDS_MAX:
        return None
    # Whole seconds are counted in milliseconds before the fraction is added; before the epoch Java does it from
    # the second above.
    whole = (seconds + 1 if seconds < 0 and nanos > 0 else seconds) * 1000
    if not _LONG_MIN <= whole <= _LONG_MAX:
        return None
    moment = seconds * 1000 + nanos // 1_000_000
    return moment if _LONG_MIN <= moment <= _LONG_MAX else None


def format_instant(moment: Millis) -> str:
    """The text that Kubernetes writes: UTC, whole seconds (cut towards the past)."""
    seconds = moment // 1000
    days, second_of_day = divmod(seconds, _DAY_S)
    year, month, day = _date(days)
    hours, rest = divmod(second_of_day, 3600)
    minutes, seconds = divmod(rest, 60)
    return f"{_year_text(year)}-{month:02}-{day:02}T{hours:02}:{minutes:02}:{seconds:02}Z"


def java_instant(moment: Millis) -> str:
    """The text of ``Instant.ofEpochMilli(moment).toString()``: three digits of fraction, none when they are zero."""
    text = format_instant(moment)
    fraction = moment % 1000
    return f"{text[:-1]}.{fraction:03}Z" if fraction else text


def _offset_s(sign: str | None, hours: str | None, minutes: str | None, seconds: str | None) -> int | None:
    """Seconds east of UTC, 0 for Z; None where ZoneOffset refuses."""
    if hours is None or minutes is None:
        return 0
    if int(minutes) > 59 or int(seconds or 0) > 59:
        return None
    total = int(hours) * 3600 + int(minutes) * 60 + int(seconds or 0)
    if total > _OFFSET_MAX_S:
        return None
    return -total if sign == "-" else total


def _days_of_month(year: int, month: int) -> int:
    leap = month == 2 and year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return 29 if leap else _MONTH_DAYS[month - 1]


def _days_since_epoch(year: int, month: int, day: int) -> int:
    """Days from 1970-01-01. Years begin in March here, so that the leap day is a year's last."""
    if month <= 2:
        year -= 1
        month += 12
    day_of_year = (153 * (month - 3) + 2) // 5 + day - 1
    return 365 * year + year // 4 - year // 100 + year // 400 + day_of_year - 719_468


def _date(days: int) -> tuple[int, int, int]:
    """Year, month and day of a day since 1970-01-01: the inverse of ``_days_since_epoch``."""
    era, day_of_era = divmod(days + 719_468, 146_097)
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * day_of_year + 2) // 153
    month = shifted + 3 if shifted < 10 else shifted - 9
    year = era * 400 + year_of_era + (1 if month <= 2 else 0)
    return year, month, day_of_year - (153 * shifted + 2) // 5 + 1


def _year_text(year: int) -> str:
    if year < 0:
        return f"-{-year:04}"
    return f"+{year}" if year > 9999 else f"{year:04}"
