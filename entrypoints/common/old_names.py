"""Names of the command line: options that were called otherwise in the release before, and what a shell asks by.

An old name works for one release more, with a warning.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import click

COMPLETION: Final = "_PODTIDE_COMPLETE"
"""The environment variable by which a shell's script asks podtide for completions; click reads it."""

OLD_NAMES: Final[Mapping[str, Mapping[str, str]]] = {
    "whatif": {"--conf": "--recorded-conf", "--properties-file": "--recorded-properties-file"},
    "tune": {
        "--conf": "--recorded-conf",
        "--properties-file": "--recorded-properties-file",
        "--processes": "--jobs",
    },
    "diff": {"--processes": "--jobs"},
    "fleet": {"--limit": "--timeout"},
    "simulate": {"--until": "--duration", "--targets": "--schedule"},
    "run": {"--driver": "--driver-url", "--for": "--duration", "--workers": "--api-concurrency"},
    "stop": {"--driver": "--include-driver", "--claims": "--include-claims"},
    "pod": {"--driver": "--driver-pod", "--spark-conf-dir": "--conf-dir"},
}
"""By command: the name of 0.1 and the name of today. They go with the release after 0.2."""

END_OF_OPTIONS: Final = "--"


def renamed(command: str, arguments: Sequence[str]) -> list[str]:
    """The arguments of a command with today's names; each old name is warned of once on standard error."""
    names = OLD_NAMES.get(command)
    if not names:
        return list(arguments)
    made: list[str] = []
    old: dict[str, str] = {}
    for place, argument in enumerate(arguments):
        if argument == END_OF_OPTIONS:
            made.extend(arguments[place:])
            break
        name, equals, value = argument.partition("=")
        if name in names:
            old[name] = names[name]
        made.append(f"{names.get(name, name)}{equals}{value}")
    for name, today in old.items():
        click.echo(f"podtide: {command} {name} is now {today}; the next release does not know {name}", err=True)
    return made
