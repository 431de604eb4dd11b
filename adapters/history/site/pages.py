"""The pages of a history: all applications, one application, one run, and the logs that could not be taken up.

Everything that comes from logs is escaped by construction (``views.report.markup``). A page loads nothing and runs nothing:
its style is inside and named by hash in the policy that is sent with it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from markupsafe import Markup

from podtide.adapters.fleet.rows import RowStatus, shown_place
from podtide.adapters.history.site.charts import BillColumn, RunPoint, bills, small_line, trend
from podtide.adapters.history.store import AppFigures, RunHistory
from podtide.adapters.history.values import EventKind, KeptRun
from podtide.adapters.text.format import count, moment
from podtide.adapters.views.report.bars import Bar, colour_class, present, stacked
from podtide.adapters.views.report.markup import EMPTY, element, join, name, trusted, visible
from podtide.adapters.views.report.plots import hatches
from podtide.adapters.views.report.style import hash_source, page_style
from podtide.adapters.views.whatif.figures import CAUSES, change, executor_seconds, money, number, percent, took
from podtide.domain.whatif.prices import Prices

APPLICATIONS: Final = 500
RUNS: Final = 100
REGRESSIONS: Final = 8
CAUSES_SHOWN: Final = 3
BROKEN: Final = 500
LINE_RUNS: Final = 20
"""How much a page shows."""

ADVICE_RUNS: Final = 20
LEAST_S: Final = 0.5
"""Executor-seconds of a cause that are told."""

_STYLE: Final = page_style() + (
    "nav{grid-column:1/-1;font-size:.875rem}.chart{margin:.5rem 0 1.5rem}.chart a{outline-offset:1px}"
    ".dot{fill:var(--blue);stroke:var(--surface);stroke-width:1.5}.dot.worse{fill:var(--bad)}.dot.better{fill:var(--good)}"
    ".dot.left{fill:var(--surface);stroke:var(--soft)}.line.s-value{stroke:var(--blue)}"
    ".line.s-normal{stroke:var(--soft);stroke-dasharray:5 4}.part.thin{stroke-width:.5}"
    ".worse{color:var(--bad);font-weight:600}.better{color:var(--good);font-weight:600}"
    ".scroll{overflow-x:auto}.told{margin:0 0 1.1rem;padding:0 0 0 1rem;border-left:3px solid var(--bad);max-width:none}"
    ".told ul{margin:.25rem 0 0;padding-left:1.2rem}td.line{min-width:130px}"
)
_POLICY: Final = (
    f"default-src 'none'; style-src {hash_source(_STYLE)}; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
POLICY: Final = (("Content-Security-Policy", _POLICY), ("Referrer-Policy", "no-referrer"))
"""Headers of a page."""

_KINDS: Final = {"worse": "worse", "still worse": "worse", "better": "better", "still better": "better"}


class SiteTerms(NamedTuple):
    """``prices``: what money is shown by; core-hours without. ``reports``: whether reports of runs can be made."""

    prices: Prices | None = None
    reports: bool = True

    @property
    def unit(self) -> str:
        """What money is counted in."""
        return "core-hours" if self.prices is None else self.prices.currency

    def spent(self, run: KeptRun) -> float:
        """What a run took of executors."""
        return run.usage.core_hours if self.prices is None else run.usage.cost(self.prices)

    def words(self, amount: float) -> str:
        """An amount of money."""
        return f"{money(amount)} core-hours" if self.prices is None else money(amount, self.prices.currency)

    def figure(self, amount: float) -> str:
        """The same, where the unit stands above it."""
        return money(amount, None if self.prices is None else self.prices.currency)


def shell(title: str, lead: str, *content: str | None, nav: str | None = None) -> bytes:
    """A whole page."""
    page = element(
        "html",
        element(
            "head",
            element("meta", charset="utf-8"),
            element("meta", name="viewport", content="width=device-width, initial-scale=1"),
            element("meta", name="color-scheme", content="light dark"),
            element("title", f"{visible(title, 80)} · podtide"),
            element("style", trusted(_STYLE)),
        ),
        element(
            "body",
            hatches(),
            element(
                "header",
                element("p", element("b", "podtide"), " history", class_="brand"),
                element("nav", element("a", "All applications", href="/"), nav),
                element("h1", name(title, 160)),
                element("p", lead, class_="about"),
            ),
            element("main", *content, id="content"),
        ),
        lang="en",
    )
    return f"<!DOCTYPE html>\n{page}".encode("utf-8", "backslashreplace")


def overview(history: RunHistory, terms: SiteTerms) -> bytes:
    """All applications, and what was reported last."""
    totals = history.totals()
    known = history.applications(APPLICATIONS)
    lead = (
        f"{count(totals.runs, 'run')} of {count(totals.applications, 'application')}, "
        f"{count(totals.events[EventKind.REGRESSION.value], 'regression')} reported"
    )
    if stalled := totals.events[EventKind.STALL.value]:
        lead += f", {count(stalled, 'stalled run')}"
    broken = (
        element("a", f"{count(totals.broken, 'log')} could not be taken up", href="/broken") if totals.broken else None
    )
    regressions = [json.loads(one.body) for one in history.events(frozenset({EventKind.REGRESSION}), REGRESSIONS)]
    stalls = [json.loads(one.body) for one in history.events(frozenset({EventKind.STALL}), REGRESSIONS)]
    rows = [_app_row(history, one, terms) for one in known]
    heads = ["Application", "Runs", "Run time", "Last runs", terms.unit.capitalize(), "Waste", "Best setting saves"]
    more = len(known) < totals.applications
    return shell(
        "Applications",
        lead,
        _section("Regressions", *map(_told, regressions)) if regressions else None,
        _section("Stalls", *map(_stalled, stalls)) if stalls else None,
        _section(
            "Applications",
            _table(heads, rows, "The figures are those of each application's last run.", text=(6,)),
            element("p", f"Only the last {APPLICATIONS} are shown.", class_="note") if more else None,
        )
        if rows
        else _section("Applications", element("p", "No finished run has been taken up yet.")),
        nav=None if broken is None else join(" · ", broken),
    )


def application(history: RunHistory, named: str, terms: SiteTerms) -> bytes:
    """One application: how its runs went, what they were paid for, what would help, and every run."""
    runs = history.runs_of(named, RUNS)
    old_first = runs[::-1]
    regressions = [json.loads(one.body) for one in history.events(frozenset({EventKind.REGRESSION}), 3, named)]
    stalls = [json.loads(one.body) for one in history.events(frozenset({EventKind.STALL}), 3, named)]
    columns = [
        BillColumn(_link(run), f"{_when(run)}: {executor_seconds(sum(run.row.ledger.values()))}", run.row.ledger)
        for run in old_first
    ]
    bars = [Bar(run.key.app_id, run.row.ledger, "") for run in runs]
    legend = element(
        "p",
        *(element("span", element("i", class_=f"key {colour_class(one)}"), one) for one in present(bars, CAUSES)),
        class_="legend",
    )
    times = [_point(run, "run time", run.row.runtime_s, "s", took) for run in old_first]
    spent = [_point(run, "money", terms.spent(run) or None, terms.unit, terms.words) for run in old_first]
    return shell(
        named,
        f"{count(len(runs), 'run')} shown, the last one {_when(runs[0])}",
        _section("Regressions", *map(_told, regressions)) if regressions else None,
        _section("Stalls", *map(_stalled, stalls)) if stalls else None,
        _section(
            "Trend",
            element("h3", "Run time"),
            trend(times, took, "Run time of each run"),
            element("h3", terms.unit.capitalize()),
            trend(spent, terms.figure, "Money of each run"),
            element(
                "p",
                "Dashed: what was normal when the run was judged. Red: above it by more than noise. White: not healthy.",
                class_="note",
            ),
        ),
        _section(
            "What executors were paid for", legend, bills(columns, executor_seconds, "The bill of each run by cause")
        )
        if any(run.row.ledger for run in runs)
        else None,
        _advice(runs[:ADVICE_RUNS]),
        _section("Runs", _run_table(runs, terms)),
    )


def run_page(history: RunHistory, run: KeptRun, first: int, terms: SiteTerms) -> bytes:
    """One run. ``first``: the number of a run by which its application is linked to."""
    row = run.row
    kinds = frozenset({EventKind.REGRESSION, EventKind.IMPROVEMENT, EventKind.STALL})
    events = [
        body for event in history.events(kinds, RUNS, run.name) if (body := json.loads(event.body))["run"] == run.id
    ]
    changes = [body for body in events if body["kind"] != EventKind.STALL.value]
    stalls = [body for body in events if body["kind"] == EventKind.STALL.value]
    figures = [
        ("Run time", took(row.runtime_s), _normal(run, "run time", row.runtime_s, "s", took)),
        (
            terms.unit.capitalize(),
            terms.figure(terms.spent(run)),
            _normal(run, "money", terms.spent(run), terms.unit, terms.figure),
        ),
        ("Waste", percent(_waste(run)), "of the executor time billed"),
        ("Executors at once", number(row.peak_executors), f"Spark {visible(row.spark_version or 'unknown', 20)}"),
    ]
    bar = Bar("executor time", row.ledger, executor_seconds(sum(row.ledger.values())))
    rows = [
        [element("span", element("i", class_=f"key {colour_class(cause)}"), cause), executor_seconds(row.ledger[cause])]
        for cause in present([bar], CAUSES)
        if row.ledger[cause] >= LEAST_S
    ]
    state = [] if run.healthy else ["the log has no end" if not run.finished else "its last job failed"]
    if row.status is not RowStatus.OK:
        state.append(visible(row.reason or row.status.value, 300))
    return shell(
        run.key.app_id,
        join(
            "run of ", name(run.name, 100), f", {_when(run)}", f", attempt {visible(run.key.attempt, 20)}"
            if run.key.attempt else None,
        ),
        _section("Regression" if any(one["kind"] == "regression" for one in changes) else "Change", *map(_told, changes))
        if changes
        else None,
        _section("Stalls", *map(_stalled, stalls)) if stalls else None,
        _section(
            "In short",
            *(element("p", one, class_="warning") for one in state),
            element(
                "dl",
                *(element("div", element("dt", a), element("dd", b), element("dd", c)) for a, b, c in figures),
                class_="figures",
            ),
            element("p", element("a", "The whole report of this run", href=f"/run/{run.id}/report"))
            if terms.reports and row.status is RowStatus.OK
            else None,
            element("p", "Log: ", name(shown_place(run.place), 300), class_="note"),
        ),
        _section(
            "What executors were paid for",
            stacked([bar], CAUSES, executor_seconds, "The bill by cause", still=True),
            _table(["Cause", "Executor time"], rows),
        )
        if row.ledger
        else None,
        _advice([run]),
        nav=join(" · ", element("a", name(run.name, 60), href=f"/app/{first}")),
    )  # fmt: skip


def broken(history: RunHistory) -> bytes:
    """Logs that could not be taken up."""
    rows = [
        [name(shown_place(place), 300), visible(reason, 300), moment(at)]
        for place, reason, at in history.broken(BROKEN)
    ]
    table = _table(["Log", "Why", "Tried"], rows, text=(1,))
    return shell("Broken logs", "They are tried again when they change.", _section("Logs", table))


def message(title: str, text: str) -> bytes:
    """A page that says one thing."""
    return shell(title, "", _section(title, element("p", text)))


def _app_row(history: RunHistory, one: AppFigures, terms: SiteTerms) -> list[str | Markup]:
    last = one.last
    runs = history.runs_of(one.name, LINE_RUNS)[::-1]
    values = [run.row.runtime_s for run in runs if run.row.runtime_s]
    regressions = element("small", count(one.regressions, "regression")) if one.regressions else None
    saving = last.row.saving_share
    return [
        join(element("a", name(one.name), href=f"/app/{last.id}"), element("small", _when(last))),
        join(number(one.runs), regressions),
        _judged(last, "run time", took(last.row.runtime_s)),
        small_line(values, "Run time of the last runs"),
        _judged(last, "money", terms.figure(terms.spent(last))),
        percent(_waste(last)),
        f"{percent(saving)}: {visible(last.row.best or '', 60)}" if saving else "-",
    ]


def _run_table(runs: Sequence[KeptRun], terms: SiteTerms) -> Markup:
    rows = [
        [
            join(element("a", _when(run), href=_link(run)), element("small", name(run.key.app_id))),
            _judged(run, "run time", took(run.row.runtime_s)),
            _judged(run, "money", terms.figure(terms.spent(run))),
            percent(_waste(run)),
            number(run.row.peak_executors),
            f"{percent(run.row.saving_share)}: {visible(run.row.best or '', 60)}" if run.row.saving_share else "-",
            element("a", "report", href=f"/run/{run.id}/report")
            if terms.reports and run.row.status is RowStatus.OK
            else visible(run.row.status.value),
        ]
        for run in runs
    ]
    heads = ["Run", "Run time", terms.unit.capitalize(), "Waste", "Executors", "Best setting saves", ""]
    return _table(heads, rows, text=(5,))


def _advice(runs: Sequence[KeptRun]) -> Markup | None:
    """What would help: the setting that saves most over these runs, as their forecasts say."""
    saved: dict[str, float] = {}
    for run in runs:
        if run.row.best:
            saved[run.row.best] = saved.get(run.row.best, 0.0) + (run.row.saving_core_hours or 0.0)
    if not saved:
        return None
    rows = []
    for best, hours in sorted(saved.items(), key=lambda one: -one[1])[:CAUSES_SHOWN]:
        helped = [run for run in runs if run.row.best == best]
        conf = helped[0].row.best_conf or {}
        settings = "\n".join(f"{key}={'(unset)' if value is None else value}" for key, value in conf.items())
        lines = [element("code", visible(line, 200)) for line in settings.splitlines()]
        of = "" if len(runs) == 1 else f"in {len(helped)} of {count(len(runs), 'run')}"
        rows.append(
            [
                join(visible(best, 60), element("small", of)),
                f"{money(hours)} core-hours",
                took(helped[0].row.best_runtime_s),
                join(*(part for line in lines for part in (line, element("br")))),
            ]
        )
    heads = ["Setting", "Saves", "Run time then", "Settings of the last run that it helps"]
    return _section("What would help", _table(heads, rows, "Forecasts, as podtide fleet computes them.", text=(3,)))


def _stalled(body: dict[str, Any]) -> Markup:
    """A run in which nothing moved: when, for how long, why, what to do."""
    return element(
        "div",
        element("a", name(body["app"]["name"], 100), href=f"/run/{int(body['run'])}"),
        f", {moment(int(body['started_ms']))}: tasks waited and nothing moved",
        element(
            "ul",
            *(
                element(
                    "li",
                    f"{visible(one['cause'], 60)}, for {took(one['seconds'])}",
                    " to the end of the log" if one["lasts"] else None,
                    element("small", " ", visible(f"{one['meaning']} {one['advice']}", 600)),
                )
                for one in body["stalls"][:CAUSES_SHOWN]
            ),
        ),
        class_="told",
    )


def _told(body: dict[str, Any]) -> Markup:
    """A regression in a sentence, with its causes."""
    unit = str(body["unit"])
    words = took if unit == "s" else lambda value: f"{money(value)} {visible(unit, 16)}"
    worse = body["change_share"] > 0
    if body["measure"] == "money":
        causes = [
            element("li", visible(one["cause"], 60), f" {'+' if worse else '−'}{words(abs(one['cost']))}")
            for one in body.get("bill", ())
            if (one["cost"] > 0) is worse
        ]
    else:
        causes = [
            element(
                "li", name(one["text"], 120), f" {'+' if worse else '−'}{took(abs(one['runtime_s']))}",
                element("small", " ", visible("; ".join([*one["evidence"], *one["settings"]]), 400)),
            )
            for one in body.get("causes", ())
            if (one["runtime_s"] > 0) is worse
        ]  # fmt: skip
    return element(
        "div",
        element("a", name(body["app"]["name"], 100), href=f"/run/{int(body['run'])}"),
        f", {moment(int(body['started_ms']))}: {visible(body['measure'], 20)} {words(body['value'])}, normally "
        f"{words(body['normal'])} (",
        element("span", change(body["change_share"]), class_="worse" if worse else "better"),
        f"; noise up to {percent(body['limit_share'])})",
        element("ul", *causes[:CAUSES_SHOWN]) if causes else None,
        class_="told",
    )


def _point(run: KeptRun, measure: str, value: float | None, unit: str, words: Any) -> RunPoint:
    verdict = run.verdict.get(measure) or {}
    normal = verdict.get("normal") if verdict.get("unit") == unit else None
    text = f"{_when(run)}: {words(value)}" if value is not None else _when(run)
    kind = _KINDS.get(verdict.get("judgement", ""), "" if run.healthy else "left")
    if normal is not None:
        text += f", normally {words(normal)}"
    return RunPoint(_link(run), text, value, normal, kind)


def _normal(run: KeptRun, measure: str, value: float | None, unit: str, words: Any) -> str:
    verdict = run.verdict.get(measure) or {}
    if value is None or verdict.get("unit") != unit or not verdict.get("normal"):
        return "not judged" if run.verdict.get("left_out") else "not judged yet"
    return f"normally {words(verdict['normal'])} ({change(value / verdict['normal'] - 1.0)})"


def _judged(run: KeptRun, measure: str, text: str) -> Markup:
    kind = _KINDS.get((run.verdict.get(measure) or {}).get("judgement", ""))
    return element("span", text, class_=kind)


def _waste(run: KeptRun) -> float | None:
    whole = sum(run.row.ledger.values())
    return None if not whole or run.row.waste_s is None else run.row.waste_s / whole


def _when(run: KeptRun) -> str:
    return moment(run.key.started_ms) if run.key.started_ms else "at an unknown time"


def _link(run: KeptRun) -> str:
    return f"/run/{run.id}"


def _section(title: str, *content: str | None) -> Markup:
    return element("section", element("h2", title), *content)


def _table(
    heads: Sequence[str], rows: Iterable[Sequence[str | Markup]], caption: str = "", *, text: Sequence[int] = ()
) -> Markup:
    """A table; columns of ``text`` are read, the others compared."""

    def kind(at: int) -> str | None:
        return "text" if at in text else None

    return element(
        "div",
        element(
            "table",
            element("caption", caption) if caption else EMPTY,
            element("thead", element("tr", *(element("th", one, class_=kind(at)) for at, one in enumerate(heads)))),
            element(
                "tbody",
                *(
                    element("tr", *(element("td", cell, class_=kind(at)) for at, cell in enumerate(row)))
                    for row in rows
                ),
            ),
        ),
        class_="scroll",
    )
