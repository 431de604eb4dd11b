"""``podtide conform``: does the core decide what real Spark decided?"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from podtide.adapters.conformance.runner import AnswerDivergence, Scenario, ScenarioError, find

SHOWN_MAX = 2_000


class _Tally:
    """Scenarios checked and divergent, by folder, in the order in which the folders came."""

    def __init__(self) -> None:
        self.folders: dict[Path, list[int]] = {}

    def count(self, folder: Path, *, divergent: bool) -> None:
        counts = self.folders.setdefault(folder, [0, 0])
        counts[0] += 1
        counts[1] += divergent

    def lines(self) -> Iterator[str]:
        """A line for each folder, where there are several, and one for all."""
        if len(self.folders) > 1:
            for folder, (checked, divergent) in self.folders.items():
                yield f"{folder}: {checked} scenarios, {divergent} divergent"
        yield f"{sum(c for c, _ in self.folders.values())} scenarios, {self.divergent} divergent"

    @property
    def divergent(self) -> int:
        return sum(divergent for _, divergent in self.folders.values())


@click.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
def conform(paths: tuple[Path, ...]) -> int:
    """Re-decide recorded scenarios and compare every call and every state with what real Spark answered.

    PATHS are scenario files (X.jsonl or X.jsonl.gz, with X.expect.jsonl[.gz] beside them; tables of pod states carry
    their answers), folders of them, or folders of such folders. The first divergence of each file is printed. Exit
    code 1 if any scenario diverges, 3 if a file cannot be used.
    """
    tally = _Tally()
    unusable = False
    for path in paths:
        try:
            for scenario in find(path):
                try:
                    divergence = scenario.check()
                except ScenarioError as fault:
                    unusable = True
                    click.echo(f"podtide: {fault}", err=True)
                    continue
                tally.count(scenario.path.parent, divergent=divergence is not None)
                if divergence is not None:
                    _report(scenario, divergence)
        except (ScenarioError, OSError) as fault:  # nothing there, or a folder that may not be read
            unusable = True
            click.echo(f"podtide: {fault}", err=True)
    for line in tally.lines():
        click.echo(line)
    return 1 if tally.divergent else 3 if unusable else 0


def _report(scenario: Scenario, divergence: AnswerDivergence) -> None:
    answers = scenario.expected or scenario.path
    click.echo(f"{scenario.path}: diverges at line {divergence.line} of {answers.name}")
    click.echo(f"  expected  {_shown(divergence.expected)}")
    click.echo(f"  got       {_shown(divergence.got)}")
    if divergence.expected and divergence.got:
        click.echo(f"  differs   {_difference(divergence.expected, divergence.got)}")


def _shown(line: dict[str, Any] | None) -> str:
    if line is None:
        return "(nothing)"
    text = json.dumps(line, separators=(",", ":"))
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}... ({len(text)} characters)"


def _difference(expected: dict[str, Any], got: dict[str, Any]) -> str:
    """The keys in which two lines differ, one level into ``state``."""
    if (
        isinstance(expected.get("state"), dict)
        and isinstance(got.get("state"), dict)
        and expected.get("at") == got.get("at")
    ):
        expected, got = expected["state"], got["state"]
    keys = [key for key in {**expected, **got} if expected.get(key) != got.get(key)]
    return "; ".join(f"{key}: {_shown_value(expected.get(key))} / {_shown_value(got.get(key))}" for key in keys)


def _shown_value(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))[:300]
