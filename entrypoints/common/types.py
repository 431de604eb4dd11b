"""The kinds of values that options hold, each written in one way by every command: durations, shares, sizes."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, Final

import click

from podtide.adapters.files.values import duration, show_duration
from podtide.adapters.text.safe import escaped
from podtide.domain.base.units import Millis

if TYPE_CHECKING:
    OptionType = click.ParamType[Any]
else:
    OptionType = click.ParamType  # no type takes a parameter in older versions of click

SECOND: Final[Millis] = 1_000
DAY: Final[Millis] = 86_400 * SECOND
YEARS: Final[Millis] = 3_650 * DAY

_SIZE: Final = re.compile(r"([0-9]{1,12})\s*([kmgt])(?:i?b)?", re.IGNORECASE)
_BYTES: Final = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


class DurationType(OptionType):
    """Milliseconds of ``250ms``, ``90s``, ``15m``, ``1h30m``, ``2d``; a bare number is seconds, as in Spark.

    ``least``, ``most``: bounds in milliseconds. ``endless``: 0 means without a bound; the value is None then.
    """

    name = "duration"

    def __init__(self, least: Millis = 0, most: Millis = DAY, *, endless: bool = False) -> None:
        self.least, self.most, self.endless = least, most, endless

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Millis | None:
        """The value in milliseconds."""
        if not isinstance(value, str):
            return int(value)
        text = value.strip().replace("min", "m")
        try:
            length = duration(f"{text}s" if text.isdecimal() else text)
        except ValueError:
            expected = "such as 500ms, 90s, 15m or 1h30m, ten years at most"
            self.fail(f"{escaped(value, 60)!r} is no duration: expected {expected}", param, ctx)
        if self.endless and not length:
            return None
        if not self.least <= length <= self.most:
            why = f"expected {show_duration(self.least)} to {show_duration(self.most)}"
            self.fail(f"{escaped(value, 60)!r} is too {'long' if length > self.most else 'short'}: {why}", param, ctx)
        return length


class SecondsType(DurationType):
    """The same, in seconds."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The value in seconds."""
        if not isinstance(value, str):
            return float(value)
        length = super().convert(value, param, ctx)
        return None if length is None else length / SECOND


class ShareType(OptionType):
    """A share, written as a percentage (``10%``) or as a fraction (``0.1``). ``least``, ``most``: bounds."""

    name = "share"

    def __init__(self, least: float = 0.0, most: float = 100.0) -> None:
        self.least, self.most = least, most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The value as a fraction."""
        if not isinstance(value, str):
            return float(value)
        text = value.strip()
        percent = text.endswith("%")
        try:
            share = float(text.removesuffix("%")) / (100 if percent else 1)
        except ValueError:
            share = math.nan
        if not self.least <= share <= self.most:
            span = f"{self.least:.0%} to {self.most:.0%}"
            self.fail(f"{escaped(value, 60)!r}: expected a share such as 10% or 0.1, {span}", param, ctx)
        if not percent and abs(share) > 1:
            # Who writes 10 for 10% would get a bound of ten times the whole, and never notice.
            self.fail(f"{escaped(value, 60)!r} is more than the whole: write {share:.0%} if it is meant", param, ctx)
        return share


class SizeType(OptionType):
    """Bytes of ``512m``, ``2g``, ``1t``. ``least``, ``most``: bounds in bytes. ``endless``: 0 means without a bound."""

    name = "size"

    def __init__(self, least: int = 1, most: int = 1 << 62, *, endless: bool = False) -> None:
        self.least, self.most, self.endless = least, most, endless

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The value in bytes; 0 where there is no bound."""
        if not isinstance(value, str):
            return int(value)
        text = value.strip()
        if self.endless and text == "0":
            return 0
        found = _SIZE.fullmatch(text)
        size = -1 if found is None else int(found[1]) * _BYTES[found[2].lower()]
        if not self.least <= size <= self.most:
            or_none = ", or 0 for no bound" if self.endless else ""
            least = f" of at least {self.least >> 20}m" if self.least > 1 << 20 else ""
            self.fail(f"{escaped(value, 60)!r}: expected a size{least} such as 512m or 2g{or_none}", param, ctx)
        return size
