"""How right is the what-if? ``make accuracy`` predicts real runs from other real runs and writes benchmarks/ACCURACY.md.

The truth is a folder of runs of the same applications under several configs (``../shared/data/truth`` beside the project,
or ``--truth``): ``<application>/<config>/run<k>/`` with ``log/`` and ``manifest.json``. From every run each other run of the
application is predicted: the source's log, and the conf of the target, which is all that a user would give. Compared are run
time (ApplicationStart to ApplicationEnd) and executor-seconds (ExecutorAdded to ExecutorRemoved or the end).

Four answers stand side by side for the same pairs:

- *as podtide infers*: everything from the source's log;
- *real start-ups*: the target's own latencies from grant to registration are given, so what is left is the error of
  policy, scheduling and of the driver's own way to its first job;
- *all slots from the start*: the static estimate that Sparklens would make (the target's maximum, from the first moment);
- *repeats*: how much two real runs of one config differ, which nobody can predict better than.

A pair of runs under two cluster managers stands in a table of its own.

A refusal counts as a miss: an error beyond every bound. Rankings: for each source, every two configs whose real values (the
means of their runs) differ by more than 15 % should come in the real order. Where other people's logs are at hand
(``../shared/data/public``, or ``--public``) the model's own error over them is added, with every refusal and its reason.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, permutations
from math import inf
from pathlib import Path
from statistics import fmean
from typing import Any, Final, NamedTuple

from returns.pipeline import is_successful

from podtide.adapters.eventlog.bytes.errors import LogError
from podtide.adapters.eventlog.bytes.source import open_log
from podtide.domain.base.units import Millis
from podtide.domain.recorded.application import Application
from podtide.domain.rerun.behaviour import Behaviour, StartUp
from podtide.domain.rerun.plan import Variant
from podtide.entrypoints.whatif.recorded_log import NothingToRun, read_application
from podtide.entrypoints.whatif.run import Study, ask, refusal, study

PROJECT: Final = Path(__file__).resolve().parent.parent
DATA: Final = PROJECT.parent / "shared" / "data"
REPORT: Final = PROJECT / "benchmarks" / "ACCURACY.md"

SMALL_PEAK: Final = 6
"""Up to so many executors the goal holds: on one host, more of them wait for the host above all."""

GOALS: Final = {"RDD": (0.04, 0.10), "SQL": (0.06, 0.15)}
"""The median and where 90% are within, by the kind of application."""
GOAL_EACH: Final = 0.08
"""The median of every application."""
RANKED: Final = 0.15
"""Configs whose real values differ by less may come in either order."""

_MEANT: Final = (
    "spark.dynamicAllocation.",
    "spark.executor.cores",
    "spark.executor.instances",
    "spark.master",
    "spark.scheduler.mode",
)
"""What a config is about; the rest of a conf says where its log goes."""


class Real(NamedTuple):
    """A real run: what happened, and what was asked for. ``starts``: latencies by grant."""

    name: str
    application: str
    config: str
    runtime: float
    executor_seconds: float
    peak: int
    conf: Mapping[str, str]
    workers: int
    starts: tuple[Millis, ...]
    log: Path

    @property
    def manager(self) -> str:
        """The cluster manager: the scheme of its master."""
        return self.conf.get("spark.master", "").partition(":")[0].partition("[")[0]


class Guess(NamedTuple):
    """A prediction in seconds; infinite where it was refused."""

    runtime: float
    executor_seconds: float


@dataclass(frozen=True, slots=True)
class Pair:
    """One run predicted from another: by each of the three methods."""

    source: Real
    target: Real
    inferred: Guess
    given: Guess
    static: Guess
    why: str = ""


REFUSED: Final = Guess(inf, inf)


def real_runs(truth: Path) -> list[Real]:
    """The runs under a folder, by name."""
    found = []
    for manifest in sorted(truth.glob("*/*/run*/manifest.json")):
        run: dict[str, Any] = json.loads(manifest.read_text(encoding="utf-8"))
        granted = sorted(
            (one["granted"], one["added"] if one["registered"] is None else one["registered"])
            for one in run["executors"]
            if one["granted"] is not None and one["added"] is not None
        )
        found.append(
            Real(
                str(manifest.parent.relative_to(truth)),
                run["workload"],
                run["config"],
                run["app_s"],
                run["executor_seconds"],
                run["peak_executors"],
                {key: text for key, text in run["conf"].items() if key.startswith(_MEANT)},
                run["workers"],
                tuple(max(1, round(1000 * (registered - requested))) for requested, registered in granted),
                manifest.parent / run["log"],
            )
        )
    return found


def application(log: Path) -> Application:
    """An application as recorded. Raises LogError, or NothingToRun where no task ended well."""
    with open_log(str(log)) as source:
        return read_application(source).application


def variant(source: Real, target: Real) -> Variant:
    """The target's conf over the source's log: what a user would say."""
    changes: dict[str, str | None] = dict.fromkeys(key for key in source.conf if key not in target.conf)
    changes.update({key: text for key, text in target.conf.items() if source.conf.get(key) != text})
    static = None if is_dynamic(target) else target.workers
    return Variant(target.config, changes, static)


def everything_at_once(target: Real) -> Variant:
    """As many executors as the target may have, all the time."""
    cores = {key: target.conf[key] for key in ("spark.executor.cores", "spark.scheduler.mode") if key in target.conf}
    return Variant(f"static {target.workers}", cores, target.workers)


def is_dynamic(run: Real) -> bool:
    """Whether the run had dynamic allocation."""
    return run.conf.get("spark.dynamicAllocation.enabled") == "true"


def predict(studied: Study, wanted: Variant, behaviour: Behaviour | None = None) -> Guess:
    """A prediction. Raises ValueError where the variant is refused, which would be a fault of this script."""
    basis = studied if behaviour is None else replace(studied, behaviour=behaviour)
    found = ask(basis, wanted, watch=False)
    if not is_successful(found):
        raise ValueError("; ".join(map(str, found.failure())))
    typical = found.unwrap().typical
    if typical.unfinished is not None:
        return REFUSED
    return Guess(typical.runtime_ms / 1000, typical.executor_ms / 1000)


def pairs(runs: Sequence[Real], studies: Mapping[str, Study], refused: Mapping[str, str]) -> Iterator[Pair]:
    """Every run of an application predicted from every other."""
    for source, target in permutations(runs, 2):
        if source.application != target.application:
            continue
        studied, wanted = studies[source.name], variant(source, target)
        present = replace(studied.behaviour, startup=StartUp((1,)), boot_ms=0, fresh_ms=())
        static = predict(studied, everything_at_once(target), present)
        if source.name in refused:
            yield Pair(source, target, REFUSED, REFUSED, static, "refused: " + refused[source.name])
            continue
        startup = replace(studied.behaviour.startup, given=target.starts)
        yield Pair(
            source,
            target,
            predict(studied, wanted),
            predict(studied, wanted, replace(studied.behaviour, startup=startup)),
            static,
        )


# -- figures ----------------------------------------------------------------------------------------------------------


def off(guess: float, real: float) -> float:
    """The signed relative error."""
    return inf if guess == inf else (guess - real) / real


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest value that so large a share is not above; NaN of nothing."""
    ordered = sorted(values)
    return ordered[max(0, min(len(ordered) - 1, -int(-share * len(ordered) // 1) - 1))] if ordered else float("nan")


def percent(value: float) -> str:
    """A share as text."""
    return "refused" if abs(value) == inf else f"{100 * value:.1f}%"


def distribution(errors: Iterable[float]) -> str:
    """Median, 90 %, largest, and shares within 5, 15 and 25 %, as cells of a table."""
    sizes = [abs(one) for one in errors]
    if not sizes:
        return "0 | - | - | - | - | - | -"
    shares = " | ".join(f"{100 * sum(one <= bound for one in sizes) / len(sizes):.0f}%" for bound in (0.05, 0.15, 0.25))
    marks = " | ".join(percent(quantile(sizes, share)) for share in (0.5, 0.9, 1.0))
    return f"{len(sizes)} | {marks} | {shares}"


HEAD: Final = (
    "| pairs | quantity | n | median | 90% within | largest | within 5% | within 15% | within 25% |\n"
    "|---|---|---|---|---|---|---|---|---|\n"
)


def table(found: Sequence[Pair], method: str) -> str:
    """One method's distributions."""
    small = [one for one in found if one.target.peak <= SMALL_PEAK]
    groups: list[tuple[str, list[Pair]]] = [
        (f"targets of up to {SMALL_PEAK} executors", small),
        (f"source and target up to {SMALL_PEAK}", [one for one in small if one.source.peak <= SMALL_PEAK]),
        ("all", list(found)),
    ]
    rows = [
        f"| {title} | {name} | {distribution(errors(group, method, place))} |"
        for title, group in groups
        for place, name in enumerate(("run time", "executor-seconds"))
    ]
    return HEAD + "\n".join(rows) + "\n"


def errors(found: Iterable[Pair], method: str, place: int) -> list[float]:
    """Signed errors of a method: in run time (0) or executor-seconds (1)."""
    return [off(getattr(one, method)[place], (one.target.runtime, one.target.executor_seconds)[place]) for one in found]


def kind_of(studied: Study) -> str:
    """SQL where a stage reads an exchange of it."""
    return "SQL" if any(stage.exchanged for stage in studied.application.stages) else "RDD"


def application_rows(found: Sequence[Pair], studies: Mapping[str, Study]) -> str:
    """The errors of each application and of each kind, beside how far two real runs of one config are apart."""
    small = [one for one in found if one.target.peak <= SMALL_PEAK]
    groups: dict[str, list[Pair]] = {}
    for one in small:
        kind = kind_of(studies[one.source.name])
        groups.setdefault(f"{one.source.application} ({kind})", []).append(one)
    for kind in GOALS:
        of_kind = [one for one in small if kind_of(studies[one.source.name]) == kind]
        if of_kind:
            groups[f"all {kind}"] = of_kind
    lines = [
        "| application | n | as podtide infers | with the real start-ups | two runs of one config |",
        "|---|---|---|---|---|",
    ]
    for name, those in groups.items():
        again = [one for one in those if one.source.config == one.target.config]
        spans = [[apart(one.source, one.target, place) for one in again] for place in (0, 1)]
        repeated = ", ".join(percent(quantile(each, 0.5)) for each in spans) if again else "-"
        cells = []
        for method in ("inferred", "given"):
            sizes = [[abs(one) for one in errors(those, method, place)] for place in (0, 1)]
            cells.append("; ".join(f"{percent(quantile(each, 0.5))}, {percent(quantile(each, 0.9))}" for each in sizes))
        lines.append(f"| {name} | {len(those)} | {cells[0]} | {cells[1]} | {repeated} |")
    return "\n".join(lines) + "\n"


def apart(one: Real, other: Real, place: int) -> float:
    """How far apart two runs are, relative to their mean: in run time (0) or executor-seconds (1)."""
    first, second = ((run.runtime, run.executor_seconds)[place] for run in (one, other))
    return abs(first - second) / ((first + second) / 2)


def repeats(runs: Sequence[Real]) -> str:
    """How far apart two real runs of one config are, relative to their mean."""
    rows = []
    for one, other in combinations(runs, 2):
        if (one.application, one.config) == (other.application, other.config):
            spans = [percent(apart(one, other, place)) for place in (0, 1)]
            rows.append(f"| {one.application} {one.config} | {one.peak} | {spans[0]} | {spans[1]} |")
    return "| config | peak | run time | executor-seconds |\n|---|---|---|---|\n" + "\n".join(rows) + "\n"


def floor(runs: Sequence[Real], studies: Mapping[str, Study]) -> str:
    """How good a forecast is that says of a run what another run of the same config was."""
    again = [
        (one, other)
        for one, other in permutations(runs, 2)
        if (one.application, one.config) == (other.application, other.config)
    ]
    rows = []
    for kind in GOALS:
        those = [one for one in again if kind_of(studies[one[0].name]) == kind]
        for place, name in enumerate(("run time", "executor-seconds")):
            apart = [off(*((run.runtime, run.executor_seconds)[place] for run in pair)) for pair in those]
            rows.append(f"| {kind} | {name} | {distribution(apart)} |")
    return HEAD.replace("pairs", "applications") + "\n".join(rows) + "\n"


class Ranking(NamedTuple):
    """How many orders there were to get right, and those that were not."""

    orders: int
    wrong: tuple[str, ...]


def rankings(found: Sequence[Pair], method: str, place: int, *, small: bool) -> Ranking:
    """Two configs, forecast from one source, should come in the real order if their real values differ by more than
    ``RANKED``. The real value of a config is the mean of its runs."""
    orders, wrong = 0, []
    by_source: dict[str, dict[str, list[Pair]]] = {}
    for one in found:
        if not small or one.target.peak <= SMALL_PEAK:
            by_source.setdefault(one.source.name, {}).setdefault(one.target.config, []).append(one)
    for source, configs in by_source.items():
        known = [
            (
                config,
                fmean(getattr(one, method)[place] for one in those),
                fmean((one.target.runtime, one.target.executor_seconds)[place] for one in those),
            )
            for config, those in configs.items()
        ]
        for (config, guess, real), (other, other_guess, other_real) in combinations(known, 2):
            if abs(real - other_real) <= RANKED * min(real, other_real):
                continue
            orders += 1
            if not (guess < other_guess if real < other_real else guess > other_guess):
                wrong.append(f"{source}: {config} ({guess:.0f} s, really {real:.0f} s) against "
                             f"{other} ({other_guess:.0f} s, really {other_real:.0f} s)")  # fmt: skip
    return Ranking(orders, tuple(wrong))


def ranking_rows(found: Sequence[Pair]) -> str:
    """The table of rankings, and what was ranked wrongly."""
    lines = ["| method | targets | quantity | orders | wrong |", "|---|---|---|---|---|"]
    listed = []
    for method, title in (
        ("inferred", "as podtide infers"),
        ("given", "real start-ups"),
        ("static", "all slots from the start"),
    ):
        for small in (True, False):
            for place, name in enumerate(("run time", "executor-seconds")):
                got = rankings(found, method, place, small=small)
                lines.append(
                    f"| {title} | {f'up to {SMALL_PEAK}' if small else 'all'} | {name} | {got.orders} | {len(got.wrong)} |"
                )
                if method == "inferred" and not small:
                    listed += [f"- {name}, {one}" for one in got.wrong[:20]]
    return (
        "\n".join(lines)
        + "\n"
        + (
            "\nRanked wrongly, as podtide infers (at most 20 for each quantity):\n\n" + "\n".join(listed) + "\n"
            if listed
            else ""
        )
    )


# -- explanations -----------------------------------------------------------------------------------------------------


def worst_rows(found: Sequence[Pair], studies: Mapping[str, Study], count: int) -> str:
    """The pairs that are most off, with what the source's log made of the target's start-ups and first job."""

    def size(one: Pair) -> float:
        return max(
            abs(off(one.inferred.runtime, one.target.runtime)),
            abs(off(one.inferred.executor_seconds, one.target.executor_seconds)),
        )

    lines = [
        "| target, from source | run time | executor-s | with real start-ups | "
        "start (work) source / target | first job source / target | why |",
        "|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    for one in sorted(found, key=size, reverse=True)[:count]:
        here, there = studies[one.source.name], studies[one.target.name]
        real = (one.target.runtime, one.target.executor_seconds)
        inferred = [off(one.inferred[place], real[place]) for place in (0, 1)]
        given = [off(one.given[place], real[place]) for place in (0, 1)]
        lines.append(
            f"| {one.target.name}, from {one.source.name.partition('/')[2]} "
            f"| {percent(inferred[0])} | {percent(inferred[1])} | {percent(given[0])}, {percent(given[1])} "
            f"| {_work(here):.1f} s / {_work(there):.1f} s | {_first_job(here):.1f} s / {_first_job(there):.1f} s "
            f"| {one.why or _why(one, inferred, given, here, there)} |"
        )
    return "\n".join(lines) + "\n"


def _work(studied: Study) -> float:
    return quantile(studied.behaviour.startup.work_ms, 0.5) / 1000


def _first_job(studied: Study) -> float:
    app = studied.application
    return (min((job.submitted_ms for job in app.jobs), default=app.started_ms) - app.started_ms) / 1000


def _why(one: Pair, inferred: Sequence[float], given: Sequence[float], here: Study, there: Study) -> str:
    """What explains most of it, by what is left when it is taken away."""
    place = max((0, 1), key=lambda each: abs(inferred[each]))
    reasons = []
    if abs(given[place]) < 0.6 * abs(inferred[place]):
        reasons.append(
            f"start-ups: the host was {_work(there) / max(0.001, _work(here)):.1f} times as slow in the target's run"
        )
    late = (_first_job(there) - _first_job(here)) / one.target.runtime
    if abs(late) > 0.3 * abs(inferred[0]) > 0.015 and late * inferred[0] < 0:
        reasons.append(f"the first job came {_first_job(there) - _first_job(here):+.1f} s from the source's")
    if abs(there.error.runtime) > 0.05 or abs(there.error.executor_seconds) > 0.05:
        reasons.append(
            f"the target's own log is off by {percent(there.error.runtime)} and {percent(there.error.executor_seconds)}"
        )
    return "; ".join(reasons) or "policy or scheduling"


def own_rows(runs: Sequence[Real], studies: Mapping[str, Study], refused: Mapping[str, str]) -> str:
    """Each run of the truth run again under its own config."""
    lines = [
        "| run | peak | run time | executor-seconds | curve | parallel | start (work) | |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for run in runs:
        own, startup = studies[run.name].error, studies[run.name].behaviour.startup
        lines.append(
            f"| {run.name} | {run.peak} | {percent(own.runtime)} | {percent(own.executor_seconds)} | {percent(own.curve)} "
            f"| {startup.parallel:.1f} | {_work(studies[run.name]):.1f} s | {refused.get(run.name, '')} |"
        )
    return "\n".join(lines) + "\n"


# -- other people's logs ----------------------------------------------------------------------------------------------


class Own(NamedTuple):
    """What became of a log: its own error, or the reason why there is none."""

    log: str
    outcome: str
    runtime: float = inf
    executor_seconds: float = inf
    reason: str = ""


def own_errors(public: Path, seeds: int) -> Iterator[Own]:
    """Every log under a folder with an ``index.tsv``, run again under its own config."""
    for line in (public / "index.tsv").read_text(encoding="utf-8").splitlines()[1:]:
        name = line.split("\t")[0]
        print(name, file=sys.stderr)
        try:
            recorded = application(public / name)
        except NothingToRun as nothing:
            yield Own(name, "nothing to run", reason=str(nothing))
            continue
        except LogError as fault:
            yield Own(name, "unreadable", reason=str(fault))
            continue
        studied = study(recorded, seeds=seeds)
        if not is_successful(studied):
            yield Own(name, "unreadable", reason="; ".join(map(str, studied.failure())))
            continue
        done = studied.unwrap()
        reasons = refusal(done)
        own = done.error
        yield Own(
            name,
            "refused" if reasons else "simulated",
            own.runtime,
            own.executor_seconds,
            reasons[0] if reasons else "",
        )


def public_rows(found: Sequence[Own]) -> str:
    """Shares, distributions, and every refusal."""
    counts = Counter(one.outcome for one in found)
    with_tasks = counts["refused"] + counts["simulated"]
    lines = [
        f"{len(found)} logs: {', '.join(f'{count} {name}' for name, count in sorted(counts.items()))}. Of those with tasks "
        f"{percent(counts['refused'] / max(1, with_tasks))} are refused.",
        "",
        "| logs | quantity | n | median | 90% within | largest | within 5% | within 15% | within 25% |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for title, group in (
        ("simulated", [one for one in found if one.outcome == "simulated"]),
        ("all with tasks", [one for one in found if one.outcome in ("simulated", "refused")]),
    ):
        lines += [
            f"| {title} | {name} | {distribution(getattr(one, name) for one in group)} |"
            for name in ("runtime", "executor_seconds")
        ]
    lines += ["", "| log | | run time | executor-seconds | reason |", "|---|---|---|---|---|"]
    lines += [
        f"| {one.log} | {one.outcome} | {percent(one.runtime) if one.outcome == 'refused' else '-'} "
        f"| {percent(one.executor_seconds) if one.outcome == 'refused' else '-'} | {one.reason[:300].replace('|', '/')} |"
        for one in found
        if one.outcome != "simulated"
    ]
    return "\n".join(lines) + "\n"


# -- the report -------------------------------------------------------------------------------------------------------

TEXT: Final = """# How right is the what-if?

Written by `make accuracy` (scripts/accuracy.py says how); not edited by hand. {runs} real runs of {applications}
applications (Spark {versions}), each predicted from each other run of its application under the same cluster manager:
{pairs} pairs. {refused} of the sources are refused (their pairs count as misses). Errors are (predicted - real) / real; the
tables hold their sizes.

The goal, for targets of up to {peak} executors, in both quantities: {goals};
the median of no application above {goal_each}; no two configs in the wrong order whose real values differ by more than
{ranked}.

## As podtide infers: everything from the source's log

{inferred}
By application, targets of up to {peak} executors (median and 90%; run time, executor-seconds):

{applications_each}
## With the real start-ups of the target

What is left is the error of policy, scheduling and the driver's own way to its first job.

{given}
## All slots from the start

The static estimate: the target's maximum of executors, all there from the first moment to the last.

{static}
## Two real runs of one config

What no prediction can be better than, with one run known: a run of a config taken as the forecast of another run of it.

{floor}
Relative to their mean:

{repeats}
## Across cluster managers

One run known under a manager, the other predicted under another: as podtide infers.

{across}
## Orders

{rankings}
## The worst of them

What is left with the real start-ups, what a start takes on the host when nothing is in its way (fitted, median) and when the
first job came: in the run that was known and in the one that was predicted.

{worst}
## Own error: each run under its own config

{own}{public}"""


def report(
    runs: Sequence[Real], studies: Mapping[str, Study], refused: Mapping[str, str], public: Sequence[Own]
) -> str:
    """The whole of ACCURACY.md."""
    everything = list(pairs(runs, studies, refused))
    found = [one for one in everything if one.source.manager == one.target.manager]
    return TEXT.format(
        runs=len(runs),
        applications=len({run.application for run in runs}),
        versions=", ".join(sorted({studied.application.spark_version for studied in studies.values()})),
        pairs=len(found),
        refused=len(refused),
        peak=SMALL_PEAK,
        goals=", ".join(
            f"{kind} {low:.0%} or less in the median and 90% within {high:.0%}" for kind, (low, high) in GOALS.items()
        ),
        goal_each=f"{GOAL_EACH:.0%}",
        applications_each=application_rows(found, studies),
        ranked=f"{RANKED:.0%}",
        inferred=table(found, "inferred"),
        given=table(found, "given"),
        static=table(found, "static"),
        floor=floor(runs, studies),
        repeats=repeats(runs),
        across=table([one for one in everything if one.source.manager != one.target.manager], "inferred"),
        rankings=ranking_rows(found),
        worst=worst_rows(found, studies, 15),
        own=own_rows(runs, studies, refused),
        public=f"\n## Own error over other people's logs\n\n{public_rows(public)}" if public else "",
    )


def main() -> int:
    """Write the report. Exit code 3 where there is no truth or a run of it cannot be read."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--truth", type=Path, default=DATA / "truth", help="folder of real runs")
    parser.add_argument(
        "--public",
        type=Path,
        default=DATA / "public",
        help="folder of other people's logs with an index.tsv, if it is there",
    )
    parser.add_argument("--seeds", type=int, default=5, help="runs of each prediction (default 5)")
    parser.add_argument("--out", type=Path, default=REPORT, help="the file to write ('-': standard output)")
    given = parser.parse_args()
    runs = real_runs(given.truth)
    if not runs:
        print(f"{given.truth}: no runs (<application>/<config>/run<k>/manifest.json)", file=sys.stderr)
        return 3
    studies: dict[str, Study] = {}
    refused: dict[str, str] = {}
    for run in runs:
        try:
            studied = study(application(run.log), seeds=given.seeds).unwrap()
        except (LogError, NothingToRun) as fault:
            print(f"{run.log}: {fault}", file=sys.stderr)
            return 3
        studies[run.name] = studied
        reasons = refusal(studied)
        if reasons:
            refused[run.name] = reasons[0]
    text = report(
        runs, studies, refused, list(own_errors(given.public, 1)) if (given.public / "index.tsv").is_file() else []
    )
    if str(given.out) == "-":
        print(text)
    else:
        given.out.write_text(text, encoding="utf-8")
        print(f"wrote {given.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
