"""``--namespace`` of the commands that speak to a cluster."""

from __future__ import annotations

import re
from typing import Final

import click

from podtide.adapters.text.safe import escaped

_NAMESPACE: Final = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")


def namespace_of(context: click.Context, option: click.Parameter, value: str | None) -> str | None:
    """A namespace's name, or None where none is given."""
    if value is not None and _NAMESPACE.fullmatch(value) is None:
        why = f"{escaped(value)!r} is no namespace: expected a-z, 0-9 and -, at most 63 characters"
        raise click.BadParameter(why, context, option)
    return value
