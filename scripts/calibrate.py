"""Calibrate the prediction intervals: ``make intervals``.

``forecasts``: every run of the truth is predicted from every other run of its application, as in scripts/accuracy.py, with
five seeds; what each forecast was off, and what made it hard, goes to benchmarks/forecasts.csv.

``fit``: from that table alone come domain/whatif/calibration.py, which podtide uses, and benchmarks/INTERVALS.md, which says
how many real values lie in the intervals. Of scales on a grid the one with the narrowest intervals is taken. Each
application weighs the same, whatever its number of runs. Runs of one application are alike, so the intervals that other
applications make hold less of it; all are widened by one factor, the least with which at least 90% of the forecasts are in,
and 87% of each change, left out application by application.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import permutations, product
from math import log
from pathlib import Path
from typing import Final, NamedTuple

from returns.pipeline import is_successful

from podtide.domain.whatif.prediction import (
    Calibration,
    ChangeKind,
    Difficulty,
    Quantity,
    Scale,
    Tails,
    amounts,
    difficulty,
)
from podtide.entrypoints.whatif.run import Study, ask, refusal, study
from scripts.accuracy import DATA, PROJECT, Real, application, real_runs, variant

FORECASTS: Final = PROJECT / "benchmarks" / "forecasts.csv"
REPORT: Final = PROJECT / "benchmarks" / "INTERVALS.md"
CALIBRATION: Final = PROJECT / "domain" / "whatif" / "calibration.py"

LEVEL: Final = 0.90
"""The share of real values that an interval is to hold."""
LEAST: Final = 0.87
"""The least share of every change."""
SEEDS: Final = 5
BASE: Final = 0.01
"""The base of every scale: scores have no unit, so one coefficient is free."""
WEIGHTS: Final = (0.0, 0.02, 0.05, 0.1, 0.2)
"""Of ``starting``, ``idle``, ``distance`` and ``spread``."""
OWN: Final = 0.5
"""Of the own error. The truth has small ones, so it cannot tell; a model that is far off on the run that it knows deserves
less trust on another."""
FEW: Final = 3
"""A change that fewer applications of the truth have is given the widest tails of all."""


class Forecast(NamedTuple):
    """A forecast and what came true, in seconds, by quantity; ``hard``: what makes it less sure."""

    application: str
    source: str
    target: str
    change: ChangeKind
    quantity: Quantity
    real: float
    forecast: float
    hard: Difficulty

    @property
    def error(self) -> float:
        """The logarithm of what is real over what was forecast."""
        return log(self.real / self.forecast)


# -- forecasts --------------------------------------------------------------------------------------------------------


def forecasts(truth: Path) -> Iterator[Forecast]:
    """Every run of an application predicted from every other one; sources that podtide refuses are left out."""
    runs = real_runs(truth)
    studies = {run.name: study(application(run.log), seeds=SEEDS).unwrap() for run in runs}
    for source, target in permutations(runs, 2):
        if source.application == target.application and not refusal(studies[source.name]):
            yield from forecast(studies[source.name], source, target)


def forecast(studied: Study, source: Real, target: Real) -> Iterator[Forecast]:
    """The forecasts of both quantities for one pair; none where the forecast does not come to its end."""
    found = ask(studied, variant(source, target), watch=False)
    assert is_successful(found), found
    answer = found.unwrap()
    if answer.unfinished is not None:
        return
    came = {Quantity.RUNTIME: target.runtime, Quantity.EXECUTOR_SECONDS: target.executor_seconds}
    known, own, guessed = amounts(studied.application), studied.error.shares, amounts(answer.typical)
    for quantity, real in came.items():
        hard = difficulty(quantity, answer.outcomes, answer.typical, known[quantity], own[quantity])
        guess = guessed[quantity] / 1000
        yield Forecast(source.application, source.name, target.name, answer.change, quantity, real, guess, hard)


_COLUMNS: Final = (*Forecast._fields[:-1], *Difficulty._fields)


def write(found: Iterable[Forecast], path: Path) -> None:
    """The table of forecasts."""
    with path.open("w", encoding="utf-8", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(_COLUMNS)
        for one in found:
            *words, real, guess, hard = one
            texts = [word.value if isinstance(word, ChangeKind | Quantity) else word for word in words]
            out.writerow([*texts, f"{real:.3f}", f"{guess:.3f}", *(f"{value:.5f}" for value in hard)])


def read(path: Path) -> list[Forecast]:
    """The table again."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))[1:]
    return [
        Forecast(
            row[0],
            row[1],
            row[2],
            ChangeKind(row[3]),
            Quantity(row[4]),
            float(row[5]),
            float(row[6]),
            Difficulty(*map(float, row[7:])),
        )
        for row in rows
    ]


# -- the calibration --------------------------------------------------------------------------------------------------


def quantile(values: Sequence[tuple[float, float]], share: float) -> float:
    """The weighted quantile of (value, weight), at least one: the first value that so much of the weight is not above."""
    ordered = sorted(values)
    wanted = share * sum(weight for _, weight in ordered)
    reached = 0.0
    for value, weight in ordered:
        reached += weight
        if reached >= wanted - 1e-12:
            return value
    return ordered[-1][0]


def tails(found: Sequence[Forecast], scale: Scale, widening: float = 1.0) -> Tails:
    """The quantiles of the scores, every application of the same weight."""
    counts: dict[str, int] = {}
    for one in found:
        counts[one.application] = counts.get(one.application, 0) + 1
    scores = [(one.error / scale.of(one.hard), 1 / counts[one.application]) for one in found]
    beyond = (1 - LEVEL) / 2
    return Tails(*(widening * quantile(scores, share) for share in (beyond, 1 - LEVEL, LEVEL, 1 - beyond)))


def by_change(found: Sequence[Forecast], scale: Scale, widening: float = 1.0) -> dict[ChangeKind, Tails]:
    """The tails of each change; those that few applications have get the widest of all."""
    made = {}
    for change in ChangeKind:
        those = [one for one in found if one.change is change]
        if len({one.application for one in those}) >= FEW:
            made[change] = tails(those, scale, widening)
    columns = list(zip(*made.values(), strict=True))
    widest = Tails(min(columns[0]), min(columns[1]), max(columns[2]), max(columns[3]))
    return {change: made.get(change, widest) for change in ChangeKind}


def width(found: Sequence[Forecast], scale: Scale) -> float:
    """The mean width of the intervals, on a logarithmic scale, every application of the same weight."""
    ends = by_change(found, scale)
    applications = sorted({one.application for one in found})
    total = 0.0
    for name in applications:
        those = [one for one in found if one.application == name]
        widths = [(ends[one.change].high - ends[one.change].low) * scale.of(one.hard) for one in those]
        total += sum(widths) / len(widths)
    return total / len(applications)


def best_scale(found: Sequence[Forecast]) -> Scale:
    """The scale of the grid with the narrowest intervals; of equals the first."""
    grid = (Scale(BASE, a, b, c, d, OWN * BASE) for a, b, c, d in product(WEIGHTS, repeat=4))
    return min(grid, key=lambda scale: width(found, scale))


def inside(one: Forecast, scale: Scale, ends: Mapping[ChangeKind, Tails]) -> bool:
    """Whether the real value is in the interval."""
    low, _, _, high = ends[one.change]
    return low <= one.error / scale.of(one.hard) <= high


def left_out(found: Sequence[Forecast], scale: Scale, widening: float) -> list[tuple[Forecast, bool]]:
    """Each forecast, and whether its real value is in the interval that the other applications make."""
    held = []
    for name in sorted({one.application for one in found}):
        ends = by_change([one for one in found if one.application != name], scale, widening)
        held += [(one, inside(one, scale, ends)) for one in found if one.application == name]
    return held


def coverage(held: Sequence[tuple[Forecast, bool]]) -> float:
    """The share of real values inside, every application of the same weight."""
    applications = sorted({one.application for one, _ in held})
    shares = []
    for name in applications:
        hits = [hit for one, hit in held if one.application == name]
        shares.append(sum(hits) / len(hits))
    return sum(shares) / len(shares)


def widening(found: Sequence[Forecast], scale: Scale) -> float:
    """The least factor, in steps of a twentieth, with which the applications that are left out are in often enough."""
    return next(step / 20 for step in range(20, 100) if _often_enough(left_out(found, scale, step / 20)))


def _often_enough(held: Sequence[tuple[Forecast, bool]]) -> bool:
    changes = {one.change for one, _ in held}
    each = (coverage([one for one in held if one[0].change is change]) for change in changes)
    return coverage(held) >= LEVEL and all(share >= LEAST for share in each)


class Fit(NamedTuple):
    """What was found for a quantity."""

    scale: Scale
    widening: float
    ends: dict[ChangeKind, Tails]
    held: list[tuple[Forecast, bool]]


def fit(found: Sequence[Forecast]) -> Fit:
    """The calibration of one quantity from its forecasts."""
    scale = best_scale(found)
    factor = widening(found, scale)
    return Fit(scale, factor, by_change(found, scale, factor), left_out(found, scale, factor))


def calibration(fits: Mapping[Quantity, Fit]) -> Calibration:
    """The calibration of all quantities."""
    return Calibration(
        {quantity: one.scale for quantity, one in fits.items()},
        {(quantity, change): ends for quantity, one in fits.items() for change, ends in one.ends.items()},
    )


# -- what is written --------------------------------------------------------------------------------------------------

_MODULE: Final = '''"""How far forecasts of real runs were off.

Written by scripts/calibrate.py from benchmarks/forecasts.csv, not by hand.
{forecasts} forecasts of {runs} real runs of {applications} applications; ``prediction`` says what the numbers mean, and
benchmarks/INTERVALS.md how many real values are in the intervals.
"""

from __future__ import annotations

from typing import Final

from podtide.domain.whatif.prediction import Calibration, ChangeKind, Quantity, Scale, Tails

CALIBRATION: Final = Calibration(
    scales={{
{scales}
    }},
    tails={{
{tails}
    }},
)
'''


def module(found: Sequence[Forecast], made: Calibration) -> str:
    """The text of domain/whatif/calibration.py."""

    def call(name: str, values: tuple[float, ...]) -> str:
        return f"{name}({', '.join(f'{value:.4g}' if value else '0.0' for value in values)})"

    return _MODULE.format(
        forecasts=len(found),
        runs=len({one.target for one in found}),
        applications=len({one.application for one in found}),
        scales="\n".join(f"        Quantity.{key.name}: {call('Scale', one)}," for key, one in made.scales.items()),
        tails="\n".join(
            f"        (Quantity.{quantity.name}, ChangeKind.{change.name}): {call('Tails', one)},"
            for (quantity, change), one in made.tails.items()
        ),
    )


_REPORT: Final = """# How much the intervals hold

Written by `make intervals` (scripts/calibrate.py says how); not edited by hand. Every forecast of benchmarks/forecasts.csv
against the 90% prediction interval that the *other* applications make.

{tables}"""


def report(fits: Mapping[Quantity, Fit]) -> str:
    """The text of benchmarks/INTERVALS.md."""
    return _REPORT.format(tables="\n".join(_table(quantity, one) for quantity, one in fits.items()))


def _table(quantity: Quantity, made: Fit) -> str:
    weights = ", ".join(f"{name} {value:g}" for name, value in zip(Scale._fields, made.scale, strict=True))
    lines = [
        f"## {quantity.value.capitalize()}",
        "",
        f"Scale: {weights}. Widened by {made.widening:.2f}.",
        "",
        "| forecasts of | n | inside | median width (high / low - 1) |",
        "|---|---|---|---|",
    ]
    groups = [(f"{change.value}", [one for one in made.held if one[0].change is change]) for change in ChangeKind]
    names = sorted({one.application for one, _ in made.held})
    groups += [(name, [one for one in made.held if one[0].application == name]) for name in names]
    for title, held in [*groups, ("all", made.held)]:
        if held:
            widths = sorted(
                (made.ends[one.change].high - made.ends[one.change].low) * made.scale.of(one.hard) for one, _ in held
            )
            share = sum(hit for _, hit in held) / len(held)
            median = 2.718281828 ** widths[len(widths) // 2] - 1
            lines.append(f"| {title} | {len(held)} | {share:.0%} | {median:.0%} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Make forecasts, or a calibration of them, or both."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--truth", type=Path, action="append", help="folder of real runs; may be repeated")
    parser.add_argument("--fit-only", action="store_true", help="take the forecasts that benchmarks/forecasts.csv has")
    given = parser.parse_args()
    if not given.fit_only:
        places = given.truth or [one for one in (PROJECT / "tests" / "truth", DATA / "truth") if one.is_dir()]
        write([one for place in places for one in forecasts(place)], FORECASTS)
    found = read(FORECASTS)
    fits = {quantity: fit([one for one in found if one.quantity is quantity]) for quantity in Quantity}
    CALIBRATION.write_text(module(found, calibration(fits)), encoding="utf-8")
    REPORT.write_text(report(fits), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
