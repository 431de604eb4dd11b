"""Options of the commands that speak to a cluster: which cluster, and which namespace."""

from __future__ import annotations

import re
from typing import Final

import click

from podtide.adapters.text.safe import escaped
from podtide.entrypoints.common.option_groups import Command, together

_NAMESPACE: Final = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")


def reached(command: Command) -> Command:
    """``--kubeconfig`` and ``--context``."""
    return together(
        click.option(
            "--kubeconfig", metavar="FILE", help="How to reach the cluster ($KUBECONFIG, the pod's own, ~/.kube)."
        ),
        click.option(
            "--context", "context_name", metavar="NAME", help="A context of the kubeconfig (the current one)."
        ),
    )(command)


def namespace_of(context: click.Context, option: click.Parameter, value: str | None) -> str | None:
    """A namespace's name, or None where none is given."""
    if value is not None and _NAMESPACE.fullmatch(value) is None:
        why = f"{escaped(value)!r} is no namespace: expected a-z, 0-9 and -, at most 63 characters"
        raise click.BadParameter(why, context, option)
    return value
