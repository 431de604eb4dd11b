"""``podtide whatif``: the same application under another config, and how sure that is.

The log is read and run again under its own config first; how far that is from what really happened stands beside every
answer, and where it is too far there is none (exit code 5). Then every variant is run, over several seeds. What the command
line gets wrong is said before anything is simulated; where the variants themselves are at fault, before the first run.

Standard output carries the answer alone: progress and errors go to standard error, progress only where that is a terminal.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import click

from podtide.adapters.eventlog.bytes.errors import LogError
from podtide.adapters.recording.records.decision_file import STDOUT
from podtide.adapters.text.progress import TerminalLine
from podtide.adapters.text.safe import display
from podtide.adapters.views.whatif.model import builtins
from podtide.domain.conf.spark_conf import SparkConf
from podtide.domain.rerun.plan import EXECUTORS_MAX, Variant
from podtide.domain.rerun.rerun import rerun as run_again
from podtide.domain.whatif.summary import SEEDS
from podtide.entrypoints.common.app_config import MASTER
from podtide.entrypoints.common.log_config import SettingsError
from podtide.entrypoints.common.option_groups import SectionedCommand, in_json
from podtide.entrypoints.common.output import (
    Misused,
    ModelRefused,
    UnreadableInput,
    check_streams,
    print_object,
    printed,
    refused_as,
)
from podtide.entrypoints.whatif import options as common_options
from podtide.entrypoints.whatif.answer import WhatIfTerms, whatif_document
from podtide.entrypoints.whatif.recorded_log import Loaded, NothingToRun, load
from podtide.entrypoints.whatif.run import RerunFunction
from podtide.entrypoints.whatif.variants import VariantError, VariantWishes, variants_of

SEEDS_MAX: Final = 1_000

Read = Callable[[str, Sequence[SparkConf], str | None], Loaded]


@dataclass(frozen=True)
class WhatIfOptions(common_options.GroundOptions):
    """What the command line asks for."""

    log: str
    wishes: VariantWishes = field(default_factory=VariantWishes)
    kubernetes: bool = False


@click.command(cls=SectionedCommand)
@click.argument("log")
@click.option(
    "--set",
    "sets",
    multiple=True,
    metavar="KEY=VALUE",
    help="Change a setting; KEY= unsets it. All of them make one variant.",
)
@click.option(
    "--variant",
    "variants",
    multiple=True,
    metavar="NAME:KEY=VALUE,...",
    help="One more variant; a comma inside a value is written \\,. Also static=N and fault.spot-rate, fault.slow-start, "
    "fault.quota.",
)
@click.option(
    "--static",
    "statics",
    multiple=True,
    type=click.IntRange(1, EXECUTORS_MAX),
    metavar="N",
    help=f"A variant without dynamic allocation: N executors from the start, at most {EXECUTORS_MAX:,}.",
)
@click.option(
    "--spot-rate",
    metavar="RATE",
    help="Simulate spot interruptions, such as 0.5/h per executor (in a variant named faults).",
)
@click.option(
    "--slow-start",
    metavar="DURATION",
    help="Make every executor start this much slower (in a variant named faults).",
)
@click.option("--quota", metavar="N", help="Let the cluster run at most N executors (in a variant named faults).")
@click.option("--kubernetes", is_flag=True, help="Run every variant on Kubernetes, whatever the log ran on.")
@common_options.clustered
@common_options.pooled
@common_options.priced
@common_options.seeded(SEEDS, SEEDS_MAX, "Runs of each variant.")
@common_options.bounded("Refuse (exit code 5) when the log's own config, run again, is further off than this.")
@common_options.known_better("the log's", "What the log's own config really was; for all variants.")
@in_json
@common_options.reported
def whatif(
    log: str,
    sets: tuple[str, ...],
    variants: tuple[str, ...],
    statics: tuple[int, ...],
    spot_rate: str | None,
    slow_start: str | None,
    quota: str | None,
    **given: Any,
) -> int:
    """What the application of the event log LOG would have taken and cost under another config.

    LOG is a file (plain, .gz, .zstd, .lz4, .snappy, .lzf), the folder of a rolled log, the zip of a History Server,
    a URL, or - for standard input. The application is run again under its own config first, and the difference to what
    happened is printed with every answer. Without a variant: how fast it could be, what other counts of executors would
    take and cost, and which settings are most worth trying.

    \b
    Exit codes: 0 done, 2 usage or configuration, 3 the log cannot be read,
    5 refused: the model does not fit this application, 130 interrupted.
    """
    return run(WhatIfOptions(log, VariantWishes(sets, variants, statics, spot_rate, slow_start, quota), **given))


def run(options: WhatIfOptions, *, read: Read = load, rerun: RerunFunction = run_again) -> int:
    """The command. ``read`` and ``rerun``: what reads the log and what runs it again. Raises Refusal."""
    check_streams(stdin=options.log == STDOUT)
    if options.as_json and options.report == STDOUT:
        raise Misused("--json and --report - both write to standard output; choose one")
    terms = _terms(options)
    with (
        refused_as(ModelRefused, NothingToRun, prefix=f"{display(options.log)}: "),
        refused_as(UnreadableInput, LogError),
        refused_as(Misused, SettingsError),
    ):
        loaded = read(options.log, terms.ground.overrides, options.spark_version)
    with TerminalLine(sys.stderr) as line:
        found = whatif_document(options.log, loaded, terms, rerun=rerun, say=line.put)
    if options.as_json:
        with printed():
            print_object(builtins(found))
    if found.refused:
        raise ModelRefused(*(f"{display(options.log)}: {line}" for line in found.refused))
    if not options.as_json and options.report != STDOUT:
        from podtide.adapters.text.page import Page  # noqa: PLC0415 - rich costs a tenth of a second
        from podtide.adapters.views.whatif.view import WhatIfView  # noqa: PLC0415 - the same

        with printed():
            WhatIfView(Page(sys.stdout), found).report()
            sys.stdout.flush()
    if options.report is not None:  # last: a disk that is full costs the page, not the answer
        common_options.write_report(found, options.report)
    return 0


def _terms(options: WhatIfOptions) -> WhatIfTerms:
    """The options, understood; whatever can be refused without the log is refused here. Raises Misused, UnreadableInput."""
    wishes = options.wishes
    if options.kubernetes:
        wishes = VariantWishes(
            wishes.sets, wishes.variants, wishes.statics, wishes.spot_rate, wishes.slow_start, wishes.quota,
            {"spark.master": MASTER},
        )  # fmt: skip
    with refused_as(Misused, VariantError):
        variants = variants_of(wishes)
    prices = common_options.given_prices(options.price)
    if options.kubernetes and not variants:
        variants = (Variant("on kubernetes", {"spark.master": MASTER}),)
    ground, remarks = common_options.given_ground(options)
    return WhatIfTerms(variants, prices, ground, remarks)
