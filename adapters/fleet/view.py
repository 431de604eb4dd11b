"""The end of a fleet on a terminal: how many logs, what they cost, where the waste is, what would help whom, what failed.

Everything is read from the document that ``--json`` prints, so that both always say the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from podtide.adapters.fleet.runs import FREE
from podtide.adapters.text.format import count, lasting
from podtide.adapters.text.page import Page
from podtide.adapters.text.safe import display, escaped
from podtide.domain.rerun.ledger.causes import SpendCause

FREE_LEAST: Final = 0.005
"""Of the bill: less of it in free slots is not told apart."""

CAUSES: Final = 6
LIMITS: Final = 4
SETTINGS: Final = 5
REASONS: Final = 6
"""How many lines each list has."""

NAME_MAX: Final = 48
"""Characters of an application's name that are shown."""

REASON_MAX: Final = 160


def show_fleet(page: Page, document: Mapping[str, Any]) -> None:
    """Print the summary of a fleet."""
    logs, totals = document["logs"], document["totals"]
    rows = sum(logs.values()) - logs["skipped"]
    bad = [f"{logs[kind]:,} {kind}" for kind in ("refused", "unreadable", "failed") if logs[kind]]
    parts = [f"{logs['ok']:,} of {count(rows, 'log')} answered", *bad]
    if logs["skipped"]:
        parts.append(f"{count(logs['skipped'], 'file')} passed over as no event log")
    page.say(f"{display(document['out'])}: {' · '.join(parts)}", "title")
    if logs["ok"]:
        page.say(_bill(document, totals))
        for note in document["notes"]:
            page.say(note, "dim")
        _waste(page, document, totals["billed_seconds"])
        _waits(page, document, totals["waited_s"])
        _settings(page, document)
        _memory(page, document)
        _applications(page, document)
    _reasons(page, document)


def _bill(document: Mapping[str, Any], totals: Mapping[str, float]) -> str:
    parts = [
        f"{_amount(totals['core_hours'])} core-hours",
        f"{_amount(totals['gb_hours'])} GB-hours",
        f"{lasting(1000 * totals['billed_seconds'])} of executors from request to end, as simulated",
    ]
    if "cost" in totals:
        parts.insert(0, _money(totals["cost"], document))
    saved = _saving(document, totals.get("saving_cost"), totals["saving_core_hours"])
    whole = totals.get("cost", totals["core_hours"])
    part = totals.get("saving_cost", totals["saving_core_hours"])
    least = totals.get("saving_least_cost", totals["saving_least_core_hours"])
    sure = _saving(document, totals.get("saving_least_cost"), totals["saving_least_core_hours"])
    return (
        f"{', '.join(parts)}; {saved} could be saved ({_share(part, whole)}), {sure} for sure ({_share(least, whole)})"
    )


def _waste(page: Page, document: Mapping[str, Any], billed: float) -> None:
    spent = [(at, cause) for cause, at in document["ledger"].items() if cause != SpendCause.RUNNING.value and at > 0]
    waste = document["totals"]["waste_s"]
    if (free := waste - sum(at for at, _ in spent)) >= FREE_LEAST * billed > 0:
        spent.append((free, FREE))
    page.title("where the waste is", f"{_share(waste, billed)} of the bill, slot by slot")
    _bars(page, [(cause, at, billed) for at, cause in sorted(spent, key=lambda one: -one[0])[:CAUSES]])


def _waits(page: Page, document: Mapping[str, Any], waited: float) -> None:
    if waited <= 0:
        return
    kept = sorted(((at, limit) for limit, at in document["waiting"].items() if at > 0), key=lambda one: -one[0])
    page.title("what tasks waited for", lasting(1000 * waited))
    _bars(page, [(limit, at, waited) for at, limit in kept[:LIMITS]])


def _bars(page: Page, lines: list[tuple[str, float, float]]) -> None:
    rows = [
        (page.text(name), page.text(_share(part, whole)), page.text(lasting(1000 * part), "dim"))
        for name, part, whole in lines
    ]
    if rows:
        page.lines(page.table(rows, (False, True, True)))


def _settings(page: Page, document: Mapping[str, Any]) -> None:
    if not document["settings"]:
        page.title("what would help", "no setting that was tried saves a percent of any log")
        return
    page.title("what would help", "the best setting of each log")
    rows = [
        (
            page.text(escaped(one["name"], NAME_MAX)),
            page.text(count(one["logs"], "log")),
            page.text(_saving(document, one["saving_cost"], one["saving_core_hours"]), "good"),
        )
        for one in document["settings"][:SETTINGS]
    ]
    page.lines(page.table(rows, (False, True, True)))


def _memory(page: Page, document: Mapping[str, Any]) -> None:
    memory = document["memory"]
    less, more = memory["less"], memory["more"]
    if not (memory["spilled_logs"] or memory["short_logs"] or less["logs"]):
        return
    page.title("memory", "from the peaks, spills and losses in the logs; of the bill as it ran")
    if less["logs"]:
        page.bullet("·", f"less would do in {count(less['logs'], 'log')}: {_memory_price(document, less)} saved")
    if memory["spilled_logs"]:
        page.bullet("·", f"{count(memory['spilled_logs'], 'log')} spilled {memory['spilled_bytes'] / 2**30:,.1f} GiB")
    if memory["short_logs"]:
        page.bullet("!", f"{count(memory['short_logs'], 'log')} lost tasks or executors for want of memory", "bad")
    if more["logs"]:
        page.bullet("·", f"more is recommended in {count(more['logs'], 'log')}: {_memory_price(document, more)}")


def _memory_price(document: Mapping[str, Any], sums: Mapping[str, Any]) -> str:
    paid = "" if sums["cost"] is None else f", {_money(sums['cost'], document)}"
    return f"{_amount(sums['gb_hours'])} GB-hours{paid}"


def _applications(page: Page, document: Mapping[str, Any]) -> None:
    if not document["applications"]:
        return
    page.title("the largest savings", "by application")
    rows = [
        (
            page.text(escaped(one["name"], NAME_MAX)),
            page.text(count(one["runs"], "run")),
            page.text(_saving(document, one["saving_cost"], one["saving_core_hours"]), "good"),
            page.text(
                _share(
                    one["saving_core_hours"] if one["saving_cost"] is None else one["saving_cost"],
                    one["core_hours"] if one["cost"] is None else one["cost"],
                )
            ),
            page.text(escaped(one["best"] or "", NAME_MAX), "dim"),
        )
        for one in document["applications"]
    ]
    page.lines(page.table(rows, (False, True, True, True, False)))


def _reasons(page: Page, document: Mapping[str, Any]) -> None:
    if not document["reasons"]:
        return
    page.title("not answered", "and why, the commonest first")
    for one in document["reasons"][:REASONS]:
        text = escaped(one["reason"], REASON_MAX) or "no reason given"
        such_as = ", such as:" if one["logs"] > 1 else ":"
        page.bullet(f"{one['logs']:,} {one['status']}{such_as}", text)


def _saving(document: Mapping[str, Any], cost: float | None, core_hours: float) -> str:
    return f"{_amount(core_hours)} core-hours" if cost is None else _money(cost, document)


def _money(amount: float, document: Mapping[str, Any]) -> str:
    return f"{_amount(amount)} {escaped(document['currency'] or '', 8)}".strip()


def _amount(number: float) -> str:
    """Two digits behind the point, and more of what is small."""
    return f"{number:,.2f}" if abs(number) >= 1 or number == 0 else f"{number:.3g}"


def _share(part: float, whole: float) -> str:
    return f"{part / whole:.1%}" if whole > 0 else "0.0%"
