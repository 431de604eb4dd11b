"""Figures in words: one wording for one figure."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from podtide.adapters.views.whatif import figures
from podtide.domain.rerun.ledger.causes import Limit, SpendCause


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (None, "–"), (0, "0 s"), (0.3, "300 ms"), (4.26, "4.3 s"), (59.94, "59.9 s"), (59.96, "1m00s"), (182, "3m02s"),
        (724, "12m04s"), (3599.6, "1h00m00s"), (3724.3, "1h02m04s"),
        (36_000, "10h00m"), (100 * 3600, "4d4h"), (-182, "−3m02s"),
    ],
)  # fmt: skip
def test_lengths_of_time(seconds: float | None, words: str) -> None:
    assert figures.took(seconds) == words


@given(st.floats(0, 1e9))
def test_a_length_of_time_is_one_word_from_a_minute_on(seconds: float) -> None:
    words = figures.took(seconds)
    assert words.isprintable()
    assert " " not in words or seconds < figures.LONG


@pytest.mark.parametrize(
    ("share", "plain", "signed"),
    [
        (None, "–", "–"), (0, "0%", "±0%"), (0.0002, "<0.1%", "±0%"), (0.042, "4.2%", "+4.2%"), (0.05, "5%", "+5%"),
        (0.0996, "10%", "+10%"), (0.384, "38%", "+38%"), (12.5, "1,250%", "+1,250%"), (-0.034, "−3.4%", "−3.4%"),
    ],
)  # fmt: skip
def test_shares(share: float | None, plain: str, signed: str) -> None:
    assert (figures.percent(share), figures.change(share)) == (plain, signed)


@pytest.mark.parametrize(
    ("value", "currency", "words"),
    [
        (None, "USD", "–"), (1.234, "USD", "$1.23"), (0.00421, "USD", "$0.0042"), (0.5, "CHF", "0.50 CHF"),
        (0, "EUR", "€0.00"), (1234.5, None, "1,234"), (999.999, "EUR", "€1,000.00"), (-3.5, "USD", "−$3.50"),
        (1e-12, "USD", "$0.00000000"),
    ],
)  # fmt: skip
def test_money(value: Any, currency: str | None, words: str) -> None:
    assert figures.money(value, currency) == words


def test_money_beside_money_has_as_many_decimals() -> None:
    assert figures.money(0.5, "USD", scale=20.0) == "$0.50"
    assert figures.money(0.004, "USD", scale=0.004) == "$0.0040"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "–"),
        (2310, "2,310"),
        (13.46, "13.5"),
        (13.0, "13"),
        (0.424, "0.42"),
        (99.97, "100"),
        (-3, "−3"),
        (0, "0"),
    ],
)
def test_numbers(value: Any, words: str) -> None:
    assert figures.number(value) == words


@pytest.mark.parametrize(("value", "words"), [(3, "+3"), (-1, "−1"), (0, "±0"), (0.5, "+0.50")])
def test_signed_numbers(value: Any, words: str) -> None:
    assert figures.signed(value) == words


@pytest.mark.parametrize(("value", "base", "share"), [(11, 10, 0.1), (5, 0, None), (None, 10, None), (5, None, None)])
def test_differences(value: Any, base: float | None, share: float | None) -> None:
    found = figures.difference(value, base)
    assert found is None if share is None else found == pytest.approx(share)


def test_every_cause_and_every_limit_has_its_words() -> None:
    assert set(figures.CAUSES) == {cause.value for cause in SpendCause}
    assert set(figures.LIMITS) == {limit.value for limit in Limit}
    assert next(iter(figures.CAUSES)) == figures.WORK


def test_parts_are_in_order_and_unknown_ones_last() -> None:
    amounts = {"zebra": 1.0, "starting": 2.0, "running": 3.0, "leaving": 0.0, "aardvark": 1.0}
    assert [part for part, _ in figures.parts_of(amounts, figures.CAUSES)] == [
        "running",
        "starting",
        "aardvark",
        "zebra",
    ]
    assert figures.largest(amounts, "running") == [("starting", 2.0), ("aardvark", 1.0), ("zebra", 1.0)]


@pytest.mark.parametrize(("count", "words"), [(1, "1 executor"), (40, "40 executors"), (2.5, "2.5 executors")])
def test_executors(count: float, words: str) -> None:
    assert figures.executors(count) == words


def test_executor_seconds_and_ranges() -> None:
    assert figures.executor_seconds(2310.4) == "2,310 executor-seconds"
    assert figures.executor_seconds(1) == "1 executor-second"
    assert figures.span("1m00s", "2m00s") == "1m00s–2m00s"
    assert figures.span("1m00s", "1m00s") == "1m00s"
    assert figures.at(64.3) == "1:04.3"
