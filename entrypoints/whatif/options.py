"""What the commands that run applications again have in common: options, what can be refused at once, the report.

``whatif``, ``tune``, ``diff`` and ``fleet`` take the same prices, clusters, seeds and own errors, and say the same about
them in ``--help``. What is wrong with an option is a refusal of the command (``common.output``), before a log is read.
"""

from __future__ import annotations

import stat
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import click

from podtide.adapters.files.fair_scheduler import FairSchedulerError, read_pools
from podtide.adapters.files.prices import PriceError, prices_of
from podtide.adapters.files.schema import FileError
from podtide.adapters.files.yarn_cluster import read_cluster
from podtide.adapters.recording.records.decision_file import STDOUT, DecisionFileError, DecisionWriter, put_file
from podtide.adapters.text.safe import display
from podtide.adapters.views.whatif.model import Document
from podtide.domain.rerun.plan import AnyCluster
from podtide.domain.scheduler.rules import FairPool
from podtide.domain.whatif.prices import Prices
from podtide.domain.whatif.summary import MAX_ERROR, SEEDS
from podtide.entrypoints.common.conf_options import given_conf
from podtide.entrypoints.common.option_groups import Command, ExpertOption, together
from podtide.entrypoints.common.output import Misused, UnreadableInput, check_replaceable, misused, refused_as
from podtide.entrypoints.common.types import ShareType
from podtide.entrypoints.whatif.ground import Ground


@dataclass(frozen=True, kw_only=True)
class GroundOptions:
    """What the command line says of logs, and of the answer's form."""

    price: str | None = None
    cluster: str | None = None
    fair_scheduler: str | None = None
    seeds: int = SEEDS
    max_error: float = MAX_ERROR
    conf: tuple[str, ...] = ()
    properties_file: str | None = None
    spark_version: str | None = None
    as_json: bool = False
    report: str | None = None
    overwrite: bool = False


def priced(command: Command) -> Command:
    """``--price``."""
    return click.option(
        "--price",
        metavar="PRICES",
        help="core-hour=0.04,gb-hour=0.005[,spot-share=0.7,spot-discount=0.65,currency=EUR,driver=yes,node-cores=16,"
        "node-memory=64g,...], or a file that says so (docs/how-to/prices.md).",
    )(command)


def clustered(command: Command) -> Command:
    """``--cluster``."""
    return click.option(
        "--cluster",
        metavar="FILE",
        help="The cluster as YAML (docs/reference/fake-cluster.md, docs/reference/fake-yarn.md). Default: as in the log.",
    )(command)


def pooled(command: Command) -> Command:
    """``--fair-scheduler``."""
    return click.option(
        "--fair-scheduler",
        metavar="FILE",
        help="The application's fairscheduler.xml: weights, minimum shares and modes of FAIR pools. Default: all equal.",
    )(command)


def seeded(default: int, most: int, help_text: str) -> Callable[[Command], Command]:
    """``--seeds``. ``help_text``: what is run so often."""
    return click.option(
        "--seeds", type=click.IntRange(1, most), default=default, show_default=True, metavar="N", help=help_text
    )


def bounded(help_text: str) -> Callable[[Command], Command]:
    """``--max-error``. ``help_text``: what happens to a log that is further off."""
    return click.option(
        "--max-error",
        default=f"{MAX_ERROR:.0%}",
        show_default=True,
        type=ShareType(),
        metavar="SHARE",
        help=help_text,
    )


def known_better(whose: str, conf_help: str) -> Callable[[Command], Command]:
    """``--recorded-conf``, ``--recorded-properties-file``, ``--spark-version``: corrections of ``whose`` config."""
    return together(
        click.option("--recorded-conf", "conf", cls=ExpertOption, multiple=True, metavar="KEY=VALUE", help=conf_help),
        click.option(
            "--recorded-properties-file",
            "properties_file",
            cls=ExpertOption,
            metavar="FILE",
            help="The same as a file in the form of spark-defaults.conf; --recorded-conf overrides it.",
        ),
        click.option(
            "--spark-version",
            cls=ExpertOption,
            metavar="VERSION",
            help=f"Take the defaults of this Spark version ({whose} own).",
        ),
    )


def reported(command: Command) -> Command:
    """``--report`` and ``--overwrite``."""
    return together(
        click.option("--report", metavar="FILE", help="Also write a report as one HTML file."),
        click.option("--overwrite", is_flag=True, help="Let --report replace a file."),
    )(command)


def given_prices(text: str | None) -> Prices | None:
    """The prices of ``--price``, if it is given. Raises Misused."""
    with refused_as(Misused, PriceError):
        return None if text is None else prices_of(text)


def given_cluster(path: str | None) -> AnyCluster | None:
    """The cluster of ``--cluster``, if it is given. Raises UnreadableInput."""
    with refused_as(UnreadableInput, FileError):
        return None if path is None else read_cluster(Path(path))


def given_pools(path: str | None) -> dict[str, FairPool]:
    """The pools of ``--fair-scheduler``, if it is given. Raises Misused."""
    with refused_as(Misused, FairSchedulerError):
        return {} if path is None else read_pools(Path(path))


def given_ground(options: GroundOptions) -> tuple[Ground, tuple[str, ...]]:
    """What logs are studied with, and what is to be said of what was given; a report that could not be written is refused.
    Raises Misused, UnreadableInput."""
    cluster = given_cluster(options.cluster)
    pools = given_pools(options.fair_scheduler)
    check_report(options.report, overwrite=options.overwrite)
    given = given_conf(options.conf, options.properties_file, options.spark_version, "--recorded-conf")
    ground = Ground(given.layers, options.spark_version, cluster, options.seeds, options.max_error, pools)
    return ground, tuple(given.remarks)


def check_report(path: str | None, *, overwrite: bool) -> None:
    """A report that could not be written, or would replace a file, is refused before a log is read. Raises Misused.

    A pipe or a device is left alone: opening it would wait for whoever reads it.
    """
    if path is None or path == STDOUT:
        return
    if not Path(path).absolute().parent.is_dir():
        raise Misused(f"--report {display(path)}: expected a file in a folder that exists")
    mode = 0
    with suppress(OSError):  # nothing there, or what writing is refused for
        mode = Path(path).stat().st_mode
    if mode and not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        return
    check_replaceable("--report", path, overwrite=overwrite)
    with refused_as(Misused, DecisionFileError, prefix="--report "), DecisionWriter(path):
        pass  # it could be opened beside its place, and is gone again


def write_report(document: Document, path: str) -> None:
    """The report of a document, as one file. Raises Misused."""
    from podtide.adapters.views.report.page import render  # noqa: PLC0415 - only for those who ask

    with misused():
        put_file(render(document).encode(), path)
