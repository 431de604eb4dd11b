"""Help in two parts: the options that most users need, and those for experts."""

from __future__ import annotations

from typing import Final

import click

EXPERT: Final = "Expert options"


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
