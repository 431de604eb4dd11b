"""How durations, shares and sizes are written on the command line: one way for all commands."""

from __future__ import annotations

from typing import Any

import click
import pytest

from podtide.entrypoints.common.types import DurationType, OptionType, SecondsType, ShareType, SizeType


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (DurationType(), "90", 90_000),
        (DurationType(), " 250ms ", 250),
        (DurationType(), "1h30m", 5_400_000),
        (DurationType(), "15min", 900_000),
        (DurationType(), "0", 0),
        (DurationType(endless=True), "0", None),
        (SecondsType(), "1.5s", 1.5),
        (SecondsType(endless=True), "0s", None),
        (ShareType(), "10%", 0.1),
        (ShareType(), "0.1", 0.1),
        (ShareType(), "1", 1.0),
        (ShareType(), "250%", 2.5),
        (ShareType(-0.99), "-10%", -0.1),
        (SizeType(), "512m", 512 << 20),
        (SizeType(), "2 GiB", 2 << 30),
        (SizeType(endless=True), "0", 0),
    ],
)
def test_a_value_is_read(kind: OptionType, text: str, value: Any) -> None:
    assert kind.convert(text, None, None) == value


@pytest.mark.parametrize(
    ("kind", "text", "why"),
    [
        (DurationType(), "soon", "is no duration: expected such as 500ms, 90s"),
        (DurationType(), "-1s", "is no duration"),
        (DurationType(), "25h", "is too long: expected 0s to 1d"),
        (DurationType(2_000), "1s", "is too short: expected 2s to 1d"),
        (ShareType(), "10", "write 1000% if it is meant"),
        (ShareType(), "nan", "expected a share"),
        (ShareType(), "-1%", "expected a share such as 10% or 0.1, 0% to 10000%"),
        (SizeType(), "2048", "expected a size such as 512m or 2g"),
        (SizeType(), "0", "expected a size"),
        (SizeType(256 << 20), "1m", "of at least 256m"),
    ],
)
def test_what_cannot_be_meant_is_refused(kind: OptionType, text: str, why: str) -> None:
    with pytest.raises(click.BadParameter, match=why):
        kind.convert(text, None, None)
