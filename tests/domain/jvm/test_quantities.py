"""Kubernetes quantities, against recorded answers of Spark's client."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from podtide.domain.jvm.quantities import compare, parse_quantity

READINGS = json.loads((Path(__file__).parent / "quantity_readings.json").read_text())


@pytest.mark.parametrize(("text", "amount"), [row[:2] for row in READINGS], ids=[repr(row[0]) for row in READINGS])
def test_reads_as_the_client_does(text: str, amount: str | None) -> None:
    assert parse_quantity(text) == (None if amount is None else Decimal(amount))


@pytest.mark.parametrize(
    ("left", "right", "answer"),
    [
        ("200Gi", "100Gi", 1),
        ("100Gi", "100Gi", 0),
        ("1Gi", "1024Mi", 0),
        ("1G", "1Gi", -1),
        ("1000m", "1", 0),
        ("1e3", "1k", 0),
        ("1e999999999", "1Ei", 1),
        ("1 Gi", "1Gi", None),
        ("1Gi", "1K", None),
    ],
)
def test_compares_amounts(left: str, right: str, answer: int | None) -> None:
    assert compare(left, right) == answer


@given(
    st.text(max_size=40) | st.from_regex(r"[+-]?[0-9]{0,30}\.?[0-9]{0,30}[A-Za-z]{0,2}-?[0-9]{0,12}", fullmatch=True)
)
def test_anything_is_read_or_refused(text: str) -> None:
    amount = parse_quantity(text)
    assert (amount is None) == (compare(text, text) is None)


def test_long_texts_are_refused_at_once() -> None:
    assert parse_quantity("1" * 1_000_000) is None
