"""What the last parts of a report show: what to change, how sure that is, and how it was computed.

A recommendation comes with lines to paste, and a tune over several logs with a row for each of them. Whatever the log does
not tell is listed with its effect.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from markupsafe import Markup

from podtide.adapters.text.format import count, some
from podtide.adapters.views.report.markup import element, join, prose, visible
from podtide.adapters.views.report.plots import Spot, frontier
from podtide.adapters.views.report.sections import NOTES_MAX
from podtide.adapters.views.whatif.figures import MEASURES, change, difference, money, number, percent, took, whole
from podtide.adapters.views.whatif.findings import OwnedNote, featured, remarks
from podtide.adapters.views.whatif.model import Document, PricesEntry, RecordedEntry, RunEntry, Searched
from podtide.domain.rerun.plan import AS_RECORDED, AS_SIMULATED

CHARTS_MAX: Final = 6
SPOTS_MAX: Final = 250
RUNS_SHOWN: Final = 50
NAMES_SHOWN: Final = 3
PLACES_MAX: Final = 6
VARIANT_DECISIONS_MAX: Final = 100

METHOD: Final = (
    "Its tasks were run again on virtual time: every decision about executors was made by the same code that decides in "
    "production; start-ups and losses were taken from the log. The config that the log really ran with comes first, and its "
    "distance from what happened is the own error; each variant starts from the same tasks and the same luck."
)
TERMS: Final = {
    "Run time": "from the application's start to its end",
    "Executor-seconds": "from each executor's registration to its removal, or the application's end",
    "Billed executor-seconds": "from each executor's request to the same end; the causes of the ledger sum to them",
    "Did work": "slots of the bill in which a task ran whose result counted; an executor with free slots did so in part",
    "Slots unused": "slot time that no task used, of all slot time that executors offered",
}


def charted(document: Document) -> tuple[list[RunEntry], int]:
    """The variants that are drawn over time, and how many more could be."""
    shown = [one for one in featured(document, CHARTS_MAX) if one.curve]
    return shown, sum(1 for one in document.variants if one.curve) - len(shown)


def unknowns(document: Document) -> list[Markup]:
    """What the log does not tell, with its effect."""
    return [join(prose(one.what, 400), " ", element("small", prose(one.effect, 600))) for one in document.unknowns]


def left_out(document: Document) -> list[Markup]:
    """Logs that were left out, with their reasons."""
    return [prose(f"{visible(one.log, 120)}: {visible(one.why)}", 600) for one in document.unusable]


def notes(document: Document) -> list[Markup]:
    """Remarks, each with whose it is where it is not everybody's."""
    return [prose(_signed(one), 600) for one in remarks(document)]


def _signed(one: OwnedNote) -> str:
    if not one.names:
        return one.text
    return f"{one.text} ({some([visible(name, 60) for name in one.names], NAMES_SHOWN, separator='; ')})"


class Plane(NamedTuple):
    """Configs on the plane of time and money. ``unit``: of what is upwards; ``amount``: it in words."""

    spots: list[Spot]
    amount: Callable[[float], str]
    unit: str


def frontier_chart(document: Document) -> Markup:
    """Time against money, and how many configs are not drawn."""
    plane = frontier_plane(document)
    left = len(document.variants) + 2 - len(plane.spots)
    note = element("p", f"{count(left, 'config')} not drawn.", class_="note") if left else None
    return join(frontier(*plane), note)


def frontier_plane(document: Document) -> Plane:
    """What ran, what was tried and what is recommended, by run time and price."""
    recorded, base, currency = document.recorded, document.self_replay, document.currency
    priced = document.measure in (None, "cost") and all(one.cost is not None for one in (base, *document.variants))
    hours = document.measure == "core_hours" and base.core_hours is not None
    unit = "cost" if priced else "core-hours" if hours else "executor-seconds"

    def paid(one: RunEntry | RecordedEntry) -> float | None:
        return one.cost if priced else one.core_hours if hours else one.executor_seconds

    scale = paid(base)

    def amount(value: float) -> str:
        return money(value, currency, scale=scale) if priced else number(value if hours else round(value))

    front, picked = set(document.frontier), document.recommendation.name if document.recommendation else None
    knee = document.knee.name if document.knee else None
    spots = []
    if (value := paid(recorded)) is not None:
        text = f"as recorded\n{took(recorded.runtime_s)}, {amount(value)}"
        spots.append(Spot(recorded.runtime_s, value, "recorded", AS_RECORDED, text))
    for one in (base, *featured(document, SPOTS_MAX)):
        value = paid(one)
        if one.unfinished is not None or one.runtime_s is None or value is None:
            continue
        kind = (
            "simulated" if one is base else "recommended" if one.name == picked else "static" if one.static is not None
            else "front" if one.name in front or one.name == knee else "other"
        )  # fmt: skip
        label = AS_SIMULATED if one is base else one.name
        text = (
            f"{visible(label)}\n{took(one.runtime_s)} ({change(difference(one.runtime_s, base.runtime_s))}), "
            f"{amount(value)} ({change(difference(value, scale))})"
        )
        spots.append(Spot(one.runtime_s, value, kind, "" if kind == "other" else label, text, one.name in front))
    return Plane(spots, amount, unit)


def run_titles(document: Document) -> list[str]:
    """The heads of the table of runs."""
    price = MEASURES.get(document.measure or "", "price")
    heads = ["Run", "Run time", "Executor-seconds", "Own error, run time", "Own error, executor-seconds"]
    return [*heads, "Recommended, run time", f"Recommended, {price}"]


def run_rows(document: Document) -> list[tuple[str, ...]]:
    """The runs that a tune looked at, and what the recommendation does to each."""
    return [
        (
            visible(one.id or one.log, 60), took(one.runtime_s), whole(one.executor_seconds),
            change(one.error.runtime), change(one.error.executor_seconds),
            change(one.recommended.runtime_share) if one.recommended else "",
            change(one.recommended.price_share) if one.recommended else "",
        )
        for one in document.runs[:RUNS_SHOWN]
    ]  # fmt: skip


def space(searched: Searched) -> list[tuple[str, str]]:
    """The settings that were searched, and their values."""
    return [(visible(key, 100), _values(value)) for key, value in list(searched.space.items())[:NOTES_MAX]]


def prices(paid: PricesEntry) -> str:
    """What was paid for, in words."""
    parts = []
    if paid.core_hour is not None:
        parts.append(f"{money(paid.core_hour, paid.currency)} per core-hour")
    if paid.gb_hour is not None:
        parts.append(f"{money(paid.gb_hour, paid.currency)} per GB-hour")
    if paid.spot_share:
        parts.append(f"{percent(paid.spot_share)} on spot at {percent(paid.spot_discount)} off")
    return ", ".join(parts) or "none given"


def _values(value: object) -> str:
    if isinstance(value, Mapping):
        return visible(", ".join(f"{key} {one}" for key, one in value.items()), 400)
    if isinstance(value, list | tuple):
        return visible(", ".join("unset" if one is None else str(one) for one in value), 400)
    return visible(str(value), 400)
