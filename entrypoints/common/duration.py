"""Options that hold a time."""

from __future__ import annotations

import re
from typing import Final

import click

from podtide.adapters.text.safe import escaped

MAX_S: Final = 86_400

_DURATION: Final = re.compile(r"([0-9]{1,6})(ms|s|m|h)?")
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, None: 1.0}


def duration_of(context: click.Context, option: click.Parameter, value: str) -> float:
    """A time in seconds, a day at most."""
    match = _DURATION.fullmatch(value.strip())
    if match is None:
        why = f"{escaped(value)!r} is no duration: expected a number and ms, s, m or h, such as 120s"
        raise click.BadParameter(why, context, option)
    seconds = int(match[1]) * _SECONDS[match[2]]
    if seconds > MAX_S:
        raise click.BadParameter(f"{escaped(value)!r} is too long: expected at most a day (24h)", context, option)
    return seconds
