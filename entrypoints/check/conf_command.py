"""``podtide conf``: is this configuration what you think it is?

What is in force goes to standard output: a table on a terminal, ``key<TAB>value<TAB>origin`` lines in a pipe, one JSON
object with ``--json``. What is wrong or odd goes to standard error (with ``--json`` into the object). Nothing that a
setting contains can move the terminal's cursor, and what Spark would not show is not shown.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Final

import click

from podtide.adapters.text.safe import escaped
from podtide.adapters.views.conf import complaints, document, lines, print_table
from podtide.domain.conf.spark_versions import DEFAULT_VERSION, parse_version
from podtide.entrypoints.check.conf_report import report_of

BAD_CONFIG: Final = 2
REFUSED_BY_SPARK: Final = 5


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--conf", "pairs", multiple=True, metavar="KEY=VALUE", help="A setting; wins over the file. Repeatable.")
@click.option(
    "--properties-file", "file", type=click.Path(path_type=Path), metavar="FILE", help="Such as spark-defaults.conf."
)
@click.option(
    "--spark-version", "version", metavar="VERSION", help="Whose defaults apply, 2.4 to 4.3. [default: 4.3.0]"
)
@click.option("--all", "everything", is_flag=True, help="Every known key, also where its default is in force.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
@click.pass_context
def conf(
    ctx: click.Context, pairs: tuple[str, ...], file: Path | None, version: str | None, everything: bool, as_json: bool
) -> None:
    """Check a configuration and show what is in force, and where each value comes from.

    Settings are read with the types, checks and defaults of Spark, and refused together where the version refuses them
    when dynamic allocation starts; behaviour is that of Spark 4.3.0 whatever the version. All mistakes are reported at
    once. Exit code 2 if a setting cannot be read, 3 if the file cannot be read, 5 if each setting can be, and that Spark
    would not start with them.
    """
    chosen = parse_version(version) if version is not None else DEFAULT_VERSION
    if version is not None and (not version.strip() or (chosen.remark and "no Spark version" in chosen.remark)):
        raise click.BadParameter(f"{escaped(version)!r} is no version such as 3.5.1", param_hint="--spark-version")
    report = report_of(pairs, file, chosen, everything=everything)
    if as_json:
        click.echo(json.dumps(document(report), indent=2))
    else:
        if sys.stdout.isatty():
            print_table(report)
        else:
            for line in lines(report):
                click.echo(line)
        for line in complaints(report):
            click.echo(line, err=True)
    ctx.exit(0 if not report.errors else REFUSED_BY_SPARK if report.readable else BAD_CONFIG)
