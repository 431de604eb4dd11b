"""``podtide compare``: why one run of an application took longer, or cost more, than another.

Every log is read once. With two logs the second is compared with the first; with more, the last is compared with the typical
one of those before it (``domain.comparison.baseline``). Standard output carries the answer alone; progress goes to standard
error, and only where that is a terminal.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import click
from msgspec import to_builtins

from podtide.adapters.eventlog.bytes.errors import LogError
from podtide.adapters.recording.records.decision_file import put_file
from podtide.adapters.text.safe import display
from podtide.domain.comparison.account import RunAccount
from podtide.domain.comparison.baseline import RUNS_MAX
from podtide.domain.whatif.comparison import Metric
from podtide.domain.whatif.gates import GATES_MAX, Gate, GateError, parse
from podtide.domain.whatif.prices import Prices
from podtide.entrypoints.common.log_config import NothingToReplay, SettingsError
from podtide.entrypoints.common.option_groups import in_json
from podtide.entrypoints.common.output import (
    Misused,
    UnreadableInput,
    check_streams,
    misused,
    print_object,
    printed,
    refused_as,
)
from podtide.entrypoints.compare.accounts import read_account
from podtide.entrypoints.compare.answer import AccountOf, comparison_document
from podtide.entrypoints.whatif import options as common_options
from podtide.entrypoints.whatif.recorded_log import opened

LOGS_MIN: Final = 2
LOGS_MAX: Final = RUNS_MAX + 1
STDIN: Final = "-"

DONE: Final = 0
FAILED: Final = 1

_MEASURED: Final = frozenset({Metric.RUNTIME, Metric.EXECUTOR_SECONDS, Metric.BILLED_SECONDS, Metric.COST, Metric.PEAK})


@dataclass(frozen=True)
class CompareOptions:
    """What the command line asks for."""

    logs: tuple[str, ...]
    gates: tuple[str, ...] = ()
    price: str | None = None
    report: str | None = None
    overwrite: bool = False
    as_json: bool = False


@click.command()
@click.argument("logs", nargs=-1, required=True, metavar="LOG LOG [LOG ...]")
@click.option(
    "--fail-if",
    "gates",
    multiple=True,
    metavar="GATE",
    help="End with exit code 1 if so, such as 'runtime>+20%', 'runtime>+5m', 'cost>+10%'; may be repeated.",
)
@common_options.priced
@common_options.reported
@in_json
def compare(logs: tuple[str, ...], **given: Any) -> int:
    """Why the last run took longer, or cost more, than the run before it.

    LOG is a Spark event log: a file, the folder of a rolled log, the zip of a History Server, or a URL. With two logs the
    second run is compared with the first. With more (at most eleven, in the order of time) the last run is compared with
    the typical one of the others, and what these differ by is called noise.

    The difference of the run time is divided among causes that sum to it: more data, skew, a slow host, slower tasks, fewer
    executors and what kept them away, lost work, other stages, the driver. Each has its seconds and its evidence, and the
    settings that changed and act on it. The bill is divided by the causes of docs/reference/ledger.md.

    \b
    Exit codes: 0 done and no gate failed, 1 a gate failed, 2 usage, 3 a log cannot be read or has no
    task that ended well, 130 interrupted.
    """
    return run(CompareOptions(logs, **given))


def run(options: CompareOptions) -> int:
    """The command. Raises Refusal."""
    check_streams()
    if not LOGS_MIN <= len(options.logs) <= LOGS_MAX:
        raise Misused(f"{len(options.logs)} logs: expected {LOGS_MIN} to {LOGS_MAX}")
    if options.logs.count(STDIN) > 1:
        raise Misused("standard input (-) can only be one of the logs")
    prices = common_options.given_prices(options.price)
    gates = _gates(options.gates, prices)
    common_options.check_report(options.report, overwrite=options.overwrite)
    accounts = [AccountOf(log, _account(log)) for log in options.logs]
    found = comparison_document(accounts, prices, gates)
    with printed():
        if options.as_json:
            print_object(to_builtins(found))
        else:
            from podtide.adapters.text.page import Page  # noqa: PLC0415 - rich costs a tenth of a second
            from podtide.adapters.views.comparison.view import ComparisonView  # noqa: PLC0415 - the same

            ComparisonView(Page(sys.stdout), found).report()
            sys.stdout.flush()
    if options.report is not None:
        from podtide.adapters.views.comparison.page import render  # noqa: PLC0415 - only for those who ask

        with misused():
            put_file(render(found).encode(), options.report)
    return FAILED if any(gate.failed for gate in found.gates) else DONE


def _gates(texts: Sequence[str], prices: Prices | None) -> list[Gate]:
    """The gates, understood. Raises Misused."""
    if len(texts) > GATES_MAX:
        raise Misused(f"{len(texts)} gates: expected at most {GATES_MAX}")
    with refused_as(Misused, GateError, prefix="--fail-if "):
        gates = [parse(text) for text in texts]
    for gate in gates:
        if gate.metric not in _MEASURED:
            known = ", ".join(sorted(metric.value for metric in _MEASURED))
            raise Misused(f"--fail-if {gate.text!r}: expected one of {known}")
        if gate.metric is Metric.COST and prices is None:
            raise Misused(f"--fail-if {gate.text!r} asks for money: expected --price")
    return gates


def _account(log: str) -> RunAccount:
    """The account of a log. Raises UnreadableInput."""
    with (
        refused_as(UnreadableInput, LogError),
        refused_as(UnreadableInput, NothingToReplay, SettingsError, prefix=f"{display(log)}: "),
        opened(log) as (source, progress),
    ):
        return read_account(source, progress=progress).account
