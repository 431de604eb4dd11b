"""``podtide conform``: does the core decide what real Spark decided?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from podtide.adapters.scenarios import ScenarioError, UnknownKind, find

SHOWN_MAX = 2_000


@click.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
def conform(paths: tuple[Path, ...]) -> int:
    """Re-decide recorded scenarios and compare every call and every state with what real Spark answered.

    PATHS are scenario files (X.jsonl or X.jsonl.gz, with X.expect.jsonl[.gz] beside them) or folders of them. The
    first divergence of each file is printed. Exit code 1 if any scenario diverges, 3 if a file cannot be used.
    """
    checked = divergent = 0
    code = 0
    for path in paths:
        try:
            for scenario in find(path):
                try:
                    divergence = scenario.check()
                except UnknownKind as kind:
                    click.echo(f"podtide: {kind}", err=True)
                    code = 3
                    continue
                checked += 1
                if divergence is not None:
                    divergent += 1
                    click.echo(f"{scenario.path}: diverges at line {divergence.line} of {scenario.expected.name}")
                    click.echo(f"  expected  {_shown(divergence.expected)}")
                    click.echo(f"  got       {_shown(divergence.got)}")
                    if divergence.expected and divergence.got:
                        click.echo(f"  differs   {_difference(divergence.expected, divergence.got)}")
        except ScenarioError as fault:
            click.echo(f"podtide: {fault}", err=True)
            code = 3
    click.echo(f"{checked} scenarios, {divergent} divergent")
    return 1 if divergent else code


def _shown(line: dict[str, Any] | None) -> str:
    if line is None:
        return "(nothing)"
    text = json.dumps(line, separators=(",", ":"))
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}... ({len(text)} characters)"


def _difference(expected: dict[str, Any], got: dict[str, Any]) -> str:
    """The keys in which two lines differ, one level into ``state``."""
    if isinstance(expected.get("state"), dict) and isinstance(got.get("state"), dict) and expected["at"] == got["at"]:
        expected, got = expected["state"], got["state"]
    keys = [key for key in {**expected, **got} if expected.get(key) != got.get(key)]
    return "; ".join(f"{key}: {_shown_value(expected.get(key))} / {_shown_value(got.get(key))}" for key in keys)


def _shown_value(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))[:300]
