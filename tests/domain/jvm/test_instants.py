"""Moments: the texts that Java's Instant.parse takes and refuses, and those that Kubernetes writes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given, strategies as st

from podtide.domain.jvm.instants import format_instant, java_instant, parse_instant

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)
DATETIMES = st.datetimes(timezones=st.just(UTC))
LAST_DAY = 1_483_228_799_000


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("2026-11-21T09:44:23Z", 1_795_254_263_000),
        ("2026-11-21t09:44:23z", 1_795_254_263_000),
        ("2020-01-01T00:00:00.Z", 1_577_836_800_000),
        ("2020-01-01T00:00:00.123456789Z", 1_577_836_800_123),
        ("1969-12-31T23:59:59.9999Z", -1),  # cut towards the past
        ("1969-12-31T23:59:59Z", -1_000),
        ("2020-01-01T24:00:00Z", 1_577_923_200_000),  # midnight at the end of the day
        ("2020-01-01T24:00:00.000+01:00", 1_577_919_600_000),
        ("2016-12-31T23:59:60Z", LAST_DAY),  # a leap second is the one before
        ("2016-12-31T23:59:60.5Z", LAST_DAY + 500),
        ("2016-12-31T23:59:60+05:00", LAST_DAY - 5 * 3_600_000),
        ("2020-01-01T00:00:00+01:00", 1_577_833_200_000),
        ("2020-01-01T00:00:00-18:00", 1_577_901_600_000),
        ("2020-01-01T00:00:00+17:59:59", 1_577_772_001_000),
        ("2020-01-01T00:00:00-00:00", 1_577_836_800_000),
        ("2000-02-29T00:00:00Z", 951_782_400_000),
        ("0000-01-01T00:00:00Z", -62_167_219_200_000),
        ("-0001-01-01T00:00:00Z", -62_198_755_200_000),
        ("+12020-01-01T00:00:00Z", 317_147_356_800_000),
        ("+292278994-08-17T07:12:55.807Z", 2**63 - 1),
        ("-292275055-05-16T16:47:04.192Z", -(2**63)),
    ],
)
def test_what_java_takes(text: str, moment: int) -> None:
    assert parse_instant(text) == moment


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Z",
        "yesterday",
        "2020-01-01",
        "2020-01-01T00:00:00",
        "2020-01-01T00:00Z",
        "2020-01-01 00:00:00Z",
        " 2020-01-01T00:00:00Z",
        "2020-01-01T00:00:00Z\n",
        "2020-1-01T00:00:00Z",
        "2020-13-01T00:00:00Z",
        "2020-00-01T00:00:00Z",
        "2020-02-30T00:00:00Z",
        "1900-02-29T00:00:00Z",
        "2020-01-01T25:00:00Z",
        "2020-01-01T24:00:00.1Z",
        "2020-01-01T00:60:00Z",
        "2020-01-01T00:00:60Z",
        "2016-12-31T22:59:60Z",
        "2020-01-01T00:00:00,5Z",
        "2020-01-01T00:00:00.1234567890Z",
        "2020-01-01T00:00:00+01",
        "2020-01-01T00:00:00+0100",
        "2020-01-01T00:00:00+01:60",
        "2020-01-01T00:00:00-18:00:01",
        "2020-01-01T00:00:00+24:00",
        "12020-01-01T00:00:00Z",  # more than four digits need a sign
        "+2020-01-01T00:00:00Z",  # and a sign more than four digits
        "-0000-01-01T00:00:00Z",
        "+1000000000-01-01T00:00:00Z",
        "+9999999999-01-01T00:00:00Z",
        "+292278994-08-17T07:12:55.808Z",
        "-292275055-05-16T16:47:04.191Z",
        "٢٠٢٠-01-01T00:00:00Z",
        "2" * 10_000,
    ],
)
def test_what_java_refuses(text: str) -> None:
    assert parse_instant(text) is None


@given(DATETIMES)
def test_parses_as_datetime_does(moment: datetime) -> None:
    text = f"{moment.year:04}" + moment.isoformat()[4:].replace("+00:00", "Z")
    assert parse_instant(text) == (moment - EPOCH) // MILLISECOND


@given(DATETIMES, st.integers(-18 * 60, 18 * 60))
def test_offsets_are_subtracted(moment: datetime, minutes: int) -> None:
    local = moment.replace(tzinfo=timezone(timedelta(minutes=minutes)))
    sign = "-" if minutes < 0 else "+"
    text = f"{moment.isoformat()[:19]}{sign}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"
    assert parse_instant(text) == (local.replace(microsecond=0) - EPOCH) // MILLISECOND


@given(DATETIMES)
def test_formats_as_datetime_does(moment: datetime) -> None:
    millis = (moment - EPOCH) // MILLISECOND
    assert format_instant(millis) == moment.replace(microsecond=0, tzinfo=None).isoformat() + "Z"


@given(st.integers(-(10**18), 10**18))
def test_reads_what_it_wrote(moment: int) -> None:
    assert parse_instant(format_instant(moment)) == moment // 1000 * 1000
    assert parse_instant(java_instant(moment)) == moment


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (1_500, "1970-01-01T00:00:01.500Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
        (7, "1970-01-01T00:00:00.007Z"),
        (253_402_300_800_000, "+10000-01-01T00:00:00Z"),
        (-62_198_755_200_000, "-0001-01-01T00:00:00Z"),
    ],
)
def test_java_writes(moment: int, text: str) -> None:
    assert java_instant(moment) == text
