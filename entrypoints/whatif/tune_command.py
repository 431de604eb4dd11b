"""``podtide tune``: which settings to change, by how much, and what that saves - or that nothing is worth changing.

All logs are read and run again under their own config first; those that the model does not fit are left out and said so.
Then one search over all that is left (``domain.search``), a frontier of time against money, and the cheapest config that
holds the bound on every run, as lines to paste. Standard output carries the answer alone; progress goes to standard error,
and only where that is a terminal.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import Any, Final

import click

from podtide.adapters.recording.records.decision_file import STDOUT
from podtide.adapters.text.progress import CountProgress
from podtide.adapters.views.whatif.model import builtins
from podtide.domain.rerun.rerun import rerun as run_again
from podtide.entrypoints.common.option_groups import SectionedCommand, in_json
from podtide.entrypoints.common.output import Misused, check_streams, print_object, printed, refused_as
from podtide.entrypoints.common.types import ShareType
from podtide.entrypoints.whatif import options as common_options
from podtide.entrypoints.whatif.logs import Read, read_shown
from podtide.entrypoints.whatif.run import RerunFunction
from podtide.entrypoints.whatif.tune import BUDGET, BUDGET_MAX, SEEDS, WITHIN, WORTH, TuneWish
from podtide.entrypoints.whatif.tune_answer import TuneTerms, tune_answer
from podtide.entrypoints.whatif.tune_space import SpaceError, edits_of
from podtide.entrypoints.whatif.workers import PROCESSES_MAX

SEEDS_MAX: Final = 100
LOGS_MAX: Final = 1_000
WITHIN_MIN: Final = -0.99


@dataclass(frozen=True)
class TuneOptions(common_options.GroundOptions):
    """What the command line asks for."""

    logs: tuple[str, ...]
    within: float = WITHIN
    worth: float = WORTH
    spaces: tuple[str, ...] = ()
    budget: int = BUDGET
    seeds: int = field(default=SEEDS, kw_only=True)
    seed: int = 0
    jobs: int | None = None


@click.command(cls=SectionedCommand)
@click.argument("logs", nargs=-1, required=True, metavar="LOG [LOG ...]")
@click.option(
    "--within",
    default=f"{WITHIN:.0%}",
    show_default=True,
    type=ShareType(WITHIN_MIN),
    metavar="SHARE",
    help="How much longer any run may take, in nine of ten cases; below zero asks for speed.",
)
@click.option(
    "--worth",
    default=f"{WORTH:.0%}",
    show_default=True,
    type=ShareType(),
    metavar="SHARE",
    help="The least saving that is worth a change; one that is not there in nine of ten runs never is.",
)
@click.option(
    "--space",
    "spaces",
    multiple=True,
    metavar="KEY=V1,V2,...|FILE",
    help="Values to try of a setting (keep: leave it), static=N,M,... for static counts, none to begin with nothing, or a "
    "YAML file of the same; may be repeated.",
)
@click.option(
    "--budget",
    type=click.IntRange(1, BUDGET_MAX),
    default=BUDGET,
    show_default=True,
    metavar="N",
    help="Configs to consider.",
)
@common_options.seeded(SEEDS, SEEDS_MAX, "Runs, with other luck each, that an answer has to stand.")
@click.option(
    "--seed", type=click.IntRange(0, 2**63 - 1), default=0, metavar="N", help="The seed of the search itself."
)
@common_options.priced
@common_options.clustered
@common_options.pooled
@common_options.bounded("Leave a log out when its own config, run again, is further off than this.")
@common_options.known_better("the logs'", "What the logs' own config really was.")
@click.option(
    "--jobs",
    type=click.IntRange(1, PROCESSES_MAX),
    metavar="N",
    help="Processes that simulate (as many as there are processors, where that pays).",
)
@in_json
@common_options.reported
def tune(logs: tuple[str, ...], **given: Any) -> int:
    """Search for better settings for the application of the event logs LOG, over all of its runs at once.

    Prints the frontier of time against money (or executor-seconds, without prices) with what ran and static counts beside
    it, and recommends the cheapest config that holds the bound on every run, as lines to paste - or says that nothing is
    worth changing. LOG is a file, the folder of a rolled log, the zip of a History Server, or a URL.

    \b
    Exit codes: 0 done, also where nothing is worth changing, 2 usage or configuration, 3 no log can be read,
    5 refused: the model fits none of them, 130 interrupted.
    """
    return run(TuneOptions(logs, **given))


def run(options: TuneOptions, *, read: Read = read_shown, rerun: RerunFunction = run_again) -> int:
    """The command. ``read`` and ``rerun``: what reads a log and what runs it again. Raises Refusal."""
    check_streams()
    if len(options.logs) > LOGS_MAX:
        raise Misused(f"{len(options.logs):,} logs: expected at most {LOGS_MAX:,}; podtide fleet is for more")
    if options.logs.count(STDOUT) > 1:
        raise Misused("standard input (-) can only be one of the logs")
    if options.report == STDOUT and options.as_json:
        raise click.UsageError("--json and --report - both write to standard output; choose one.")
    terms = _terms(options)
    with CountProgress(sys.stderr) as progress:
        found = tune_answer(options.logs, terms, read=read, rerun=rerun, say=progress.show)
    with printed():
        if options.as_json:
            print_object(builtins(found))
        elif options.report != STDOUT:
            from podtide.adapters.text.page import Page  # noqa: PLC0415 - rich costs a tenth of a second
            from podtide.adapters.views.whatif.tune_view import TuneView  # noqa: PLC0415 - the same

            TuneView(Page(sys.stdout), found).report()
            sys.stdout.flush()
    if options.report is not None:  # last: a disk that is full costs the page, not the answer of a long search
        common_options.write_report(found, options.report)
    return 0


def _terms(options: TuneOptions) -> TuneTerms:
    """The options, understood; whatever can be refused without a log is refused here. Raises Misused, UnreadableInput."""
    prices = common_options.given_prices(options.price)
    with refused_as(Misused, SpaceError):
        edits = edits_of(options.spaces)
    ground, remarks = common_options.given_ground(options)
    wish = TuneWish(options.within, options.worth, options.budget, options.seed, prices, options.jobs)
    return TuneTerms(ground, wish, edits, remarks)
