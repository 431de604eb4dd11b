"""The last parts of a report: what to change, how sure that is, and how it was computed.

A recommendation comes with lines to paste, and a tune over several logs with a row for each of them. Whatever the log does
not tell is listed with its effect.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from podtide.adapters.text.format import count
from podtide.adapters.views.report.executors_chart import executors_chart
from podtide.adapters.views.report.markup import Markup, element, join, name, pasted, prose, visible
from podtide.adapters.views.report.plots import Spot, frontier
from podtide.adapters.views.report.sections import decisions_table, own_error, plain_table, section
from podtide.adapters.views.report.variants import further_figures, variants_table
from podtide.adapters.views.whatif.figures import change, difference, money, number, percent, took
from podtide.adapters.views.whatif.findings import about, featured
from podtide.adapters.views.whatif.model import Document, Prices, Recommendation, Recorded, Run
from podtide.domain.rerun.plan import AS_RECORDED, AS_SIMULATED

CHARTS_MAX: Final = 6
SPOTS_MAX: Final = 250
NOTES_MAX: Final = 40
RUNS_SHOWN: Final = 50
NAMES_SHOWN: Final = 3

MEASURES: Final = {"cost": "cost", "executor_seconds": "executor-seconds", "core_hours": "core-hours"}
"""What a tune minimises besides time, in words."""

VARIANT_DECISIONS_MAX: Final = 100


def what_to_change(document: Document, lead: str) -> Markup:
    """The recommendation, the variants against the record, the frontier, and each variant over time."""
    parts: list[Markup] = []
    if document.recommendation is not None:
        parts.append(_advice(document.recommendation))
    if len(document.runs) > 1:
        parts.append(_runs(document))
    if document.variants:
        parts += [element("h3", "Variants against the record"), variants_table(document), further_figures(document)]
    if document.frontier:
        parts += [element("h3", "Time against money"), _frontier(document)]
    charted = [one for one in featured(document, CHARTS_MAX) if one.curve]
    if charted:
        unfolded: list[Markup | None] = [element("h3", "Each variant over time")]
        for index, one in enumerate(charted):
            label = visible(one.name)
            body = (
                executors_chart(one, document.recorded, f"variant-{index}", label),
                decisions_table(one, label, VARIANT_DECISIONS_MAX),
            )
            opened = element("summary", name(one.name), " ", element("small", took(one.runtime_s)))
            unfolded.append(element("details", opened, *body))
        rest = sum(1 for one in document.variants if one.curve) - len(charted)
        unfolded.append(
            element("p", f"{count(rest, 'variant')} more in the JSON document.", class_="note") if rest else None
        )
        parts.append(element("div", *unfolded, class_="unfold"))
    return section("change", "What to change", lead, *parts)


def how_sure(document: Document, lead: str) -> Markup:
    """The own error, what is not known, and remarks."""
    parts: list[Markup] = [own_error(document)]
    if document.unknowns:
        parts.append(element("h3", "What the log does not tell"))
        parts.append(
            _listed(
                join(prose(one.what, 400), " ", element("small", prose(one.effect, 600))) for one in document.unknowns
            )
        )
    if notes := _notes(document):
        parts += [element("h3", "Remarks"), _listed(prose(one, 600) for one in notes)]
    return section("sure", "How sure we are", lead, *parts)


def _notes(document: Document) -> list[str]:
    """Remarks, each once; with whose it is where it is not everybody's."""
    runs = (document.self_replay, *document.variants)
    whose: dict[str, list[str]] = {note: [] for note in document.notes}
    for one in runs:
        for note in one.notes:
            whose.setdefault(note, []).append(visible(one.name, 60))
    told = []
    for note, names in whose.items():
        everybody = not names or len(names) == len(runs) or note in document.notes
        more = f" and {len(names) - NAMES_SHOWN:,} more" if len(names) > NAMES_SHOWN else ""
        told.append(note if everybody else f"{note} ({'; '.join(names[:NAMES_SHOWN])}{more})")
    return told


def how_computed(document: Document) -> Markup:
    """Method, prices, and what a search looked at."""
    text = (
        f"The event log was read once ({about(document)}). Its tasks were run again on virtual time: every decision "
        "about executors was made by the same code that decides in production; start-ups and losses were taken from the "
        "log. The config that the log really ran with comes first, and its distance from what happened is the own error; "
        "each variant starts from the same tasks and the same luck."
    )
    words = [
        ("Run time", "from the application's start to its end"),
        ("Executor-seconds", "from each executor's registration to its removal, or the application's end"),
        (
            "Billed executor-seconds",
            "from each executor's request to the same end; the causes of the ledger sum to them",
        ),
        ("Did work", "the executor ran at least one task whose result counted"),
        ("Slots unused", "slot time that no task used, of all slot time that executors offered"),
        ("Range", f"lowest to highest of {count(document.seeds, 'seed')}, then widened by the own error"),
    ]
    defined = element(
        "ul", *(element("li", element("b", term), ": ", meaning) for term, meaning in words), class_="plain"
    )
    parts: list[Markup] = [element("p", text), defined]
    if document.prices is not None:
        parts.append(element("p", f"Prices: {_prices(document.prices)}."))
    if document.unusable:
        left = (f"{visible(one.log, 120)}: {visible(one.why)}" for one in document.unusable)
        parts += [element("h3", "Logs that were left out"), _listed(prose(one, 600) for one in left)]
    if document.searched is not None:
        looked = document.searched
        parts.append(
            element(
                "p",
                f"Searched {count(looked.candidates, 'candidate')}: {count(looked.full_simulations, 'full simulation')}, "
                f"{looked.pruned:,} given up early because they could not win.",
            )
        )
        rows = [(visible(key, 100), _values(value)) for key, value in list(looked.space.items())[:NOTES_MAX]]
        if rows:
            parts.append(plain_table("The space that was searched.", ("Setting", "Values"), rows))
    return section("method", "How it was computed", "", *parts)


def _frontier(document: Document) -> Markup:
    recorded, base, currency = document.recorded, document.self_replay, document.currency
    priced = document.measure in (None, "cost") and all(one.cost is not None for one in (base, *document.variants))
    hours = document.measure == "core_hours" and base.core_hours is not None
    unit = "cost" if priced else "core-hours" if hours else "executor-seconds"

    def paid(one: Run | Recorded) -> float | None:
        return one.cost if priced else one.core_hours if hours else one.executor_seconds

    scale = paid(base)

    def told(value: float) -> str:
        return money(value, currency, scale=scale) if priced else number(value if hours else round(value))

    front, picked = set(document.frontier), document.recommendation.name if document.recommendation else None
    spots = []
    if (value := paid(recorded)) is not None:
        text = f"as recorded\n{took(recorded.runtime_s)}, {told(value)}"
        spots.append(Spot(recorded.runtime_s, value, "recorded", AS_RECORDED, text))
    for one in (base, *featured(document, SPOTS_MAX)):
        value = paid(one)
        if one.unfinished is not None or value is None:
            continue
        kind = (
            "simulated" if one is base else "recommended" if one.name == picked else "static" if one.static is not None
            else "front" if one.name in front else "other"
        )  # fmt: skip
        label = AS_SIMULATED if one is base else one.name
        text = (
            f"{visible(label)}\n{took(one.runtime_s)} ({change(difference(one.runtime_s, base.runtime_s))}), "
            f"{told(value)} ({change(difference(value, scale))})"
        )
        spots.append(Spot(one.runtime_s, value, kind, "" if kind == "other" else label, text, one.name in front))
    left = len(document.variants) + 2 - len(spots)
    note = element("p", f"{count(left, 'config')} not drawn.", class_="note") if left else None
    return join(frontier(spots, told, unit), note)


def _runs(document: Document) -> Markup:
    """The runs that a tune looked at, and what the recommendation does to each."""
    rows = [
        (
            visible(one.id or one.log, 60), took(one.runtime_s), number(round(one.executor_seconds)),
            change(one.error.runtime), change(one.error.executor_seconds),
            change(one.recommended.runtime_share) if one.recommended else "",
            change(one.recommended.price_share) if one.recommended else "",
        )
        for one in document.runs[:RUNS_SHOWN]
    ]  # fmt: skip
    head = (
        "Run", "Run time", "Executor-seconds", "Own error, run time", "Own error, executor-seconds",
        "Recommended, run time", f"Recommended, {MEASURES.get(document.measure or '', 'price')}",
    )  # fmt: skip
    left = len(document.runs) - len(rows)
    note = element("p", f"{count(left, 'run')} more in the JSON document.", class_="note") if left else None
    return join(
        element("h3", "Run by run"), plain_table("As recorded, and what the recommendation does.", head, rows), note
    )


def _advice(advice: Recommendation) -> Markup:
    title = "Recommendation" if advice.name is not None else "Leave it as it is"
    parts: list[Markup] = [element("h3", title)]
    if advice.name is not None:
        parts.append(element("p", element("b", name(advice.name)), ". ", prose(advice.text)))
    elif advice.text:
        parts.append(element("p", prose(advice.text)))
    for index, (where, lines) in enumerate(list(advice.lines.items())[:6]):
        if not lines.strip():
            continue
        copy = element("button", "Copy", element("span", f" the lines for {visible(where, 60)}", class_="hidden"),
                       type="button", class_="copy", data_copy=f"paste-{index}", hidden=True)  # fmt: skip
        parts.append(element("div", element("span", prose(where, 60)), copy, class_="paste"))
        parts.append(element("pre", element("code", pasted(lines.strip("\n")), id=f"paste-{index}")))
    return element("div", *parts, class_="advice")


def _listed(items: Any) -> Markup:
    entries = list(items)
    shown = [element("li", one) for one in entries[:NOTES_MAX]]
    if (more := len(entries) - NOTES_MAX) > 0:
        shown.append(element("li", f"and {more:,} more in the JSON document"))
    return element("ul", *shown, class_="plain")


def _prices(prices: Prices) -> str:
    parts = []
    if prices.core_hour is not None:
        parts.append(f"{money(prices.core_hour, prices.currency)} per core-hour")
    if prices.gb_hour is not None:
        parts.append(f"{money(prices.gb_hour, prices.currency)} per GB-hour")
    if prices.spot_share:
        parts.append(f"{percent(prices.spot_share)} on spot at {percent(prices.spot_discount)} off")
    return ", ".join(parts) or "none given"


def _values(value: object) -> str:
    if isinstance(value, Mapping):
        return visible(", ".join(f"{key} {one}" for key, one in value.items()), 400)
    if isinstance(value, list | tuple):
        return visible(", ".join("unset" if one is None else str(one) for one in value), 400)
    return visible(str(value), 400)
