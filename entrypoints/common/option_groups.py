"""Options in groups: those that several commands share, and in the help those that only experts need."""

from __future__ import annotations

from collections.abc import Callable
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
