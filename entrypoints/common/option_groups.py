"""Options in groups: those that several commands share, and in the help those that only experts need."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

import click

EXPERT: Final = "Expert options"

Command = TypeVar("Command", bound=Callable[..., Any])


def together(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Options as one decorator; help lists them in this order."""

    def given(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return given


def in_json(command: Command) -> Command:
    """``--json``."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of a report.")(command)


def configured(conf_help: str) -> Callable[[Command], Command]:
    """``--conf`` and ``--properties-file``."""
    return together(
        click.option("--conf", multiple=True, metavar="KEY=VALUE", help=conf_help),
        click.option(
            "--properties-file",
            metavar="FILE",
            help="Settings in the form of spark-defaults.conf; --conf overrides it.",
        ),
    )


def decided(fixes: Iterable[str]) -> Callable[[Command], Command]:
    """``--fix`` and ``--policy``. ``fixes``: the names of those that there are."""
    return together(
        click.option(
            "--fix", "fixes", multiple=True, metavar="NAME", help=f"A fix that Spark lacks: {', '.join(fixes)}, or all."
        ),
        click.option(
            "--policy", "policies", cls=ExpertOption, multiple=True, metavar="CHOICE=MODULE:NAME",
            help="Decide with a function of your own: CHOICE is retire, split or size (docs/how-to/policies.md).",
        ),
    )  # fmt: skip


class ExpertOption(click.Option):
    """An option that few users need; help lists it apart."""


class SectionedCommand(click.Command):
    """A command whose help lists the options for experts behind the others."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the options in two sections."""
        shown: dict[str, list[tuple[str, str]]] = {"Options": [], EXPERT: []}
        for option in self.get_params(ctx):
            record = option.get_help_record(ctx)
            if record is not None:
                shown[EXPERT if isinstance(option, ExpertOption) else "Options"].append(record)
        for title, records in shown.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)
