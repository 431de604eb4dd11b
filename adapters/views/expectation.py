"""The verdict of ``--expect`` for people: that all is as it was, or the first difference and its story."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from podtide.adapters.recording.records.expectation import ABSENT, Departing, Expectation, Unexpected
from podtide.adapters.text.format import clock, count, ids, joined, moment
from podtide.adapters.text.page import Page
from podtide.adapters.text.safe import escaped
from podtide.adapters.views.replay import ReplayView
from podtide.adapters.views.timeline.decisions import profiles_of
from podtide.adapters.views.timeline.reasons import BOUNDS, peak_of
from podtide.adapters.views.timeline.scaling_rows import Rows

VALUE_SHOWN_MAX: Final = 60
DEPARTURES_SHOWN: Final = 12


def verdict(view: ReplayView, expectation: Expectation, document: Mapping[str, Any]) -> None:
    """Print the outcome of a comparison."""
    name = expectation.name
    if expectation.difference is None:
        view.page.say(f"As expected: {count(expectation.compared, 'decision')}, each as in {name}.", "good")
        return
    view.header()
    _difference(view, expectation.difference, name, expectation.compared, document["app"]["first_ms"])


def _difference(view: ReplayView, difference: Unexpected, name: str, compared: int, start: int) -> None:
    expected, decided = difference.expected, difference.decided
    first = decided if decided is not None else expected
    assert first is not None
    at = first["at_ms"]
    if expected is None:
        what = f"{name} ends, and another decision came"
    elif decided is None:
        what = f"{name}:{difference.line} expects a decision that did not come"
    else:
        what = f"{name}:{difference.line} expects another decision"
    view.page.blank()
    view.page.say(f"Not as expected: after {count(compared, 'decision')} as in the file, {what}.", "bad")
    view.page.say(f"It is {clock(at - start, tenths=True)} after the start, {moment(at)}.")
    records = [decided, *difference.before, *difference.next_decided]
    rows = Rows(view.waits, {profile for record in records if record is not None for profile in profiles_of(record)})
    if difference.before:
        view.page.title("What led up to it", "decided as expected")
        for record in difference.before:
            view.record(record, rows)
    for bound in difference.holds:
        by, most = BOUNDS.get(bound["bound"], escaped(bound["bound"])), peak_of(bound["bound"], bound["facts"])
        profile = f" of profile {bound['profile']}" if bound["profile"] else ""
        since = clock(bound["at_ms"] - start, tenths=True)
        view.page.say(f"  held since {since} by {by}{profile}: {most:,}", "held")

    def print_record(record: Mapping[str, Any]) -> None:
        if _whole(record):
            view.record(record, rows)
        else:
            view.page.say(f"  {clock(record['at_ms'] - start, tenths=True)}  {_bare(record)}")

    print_sides(view.page, difference, print_record)


def print_sides(page: Page, difference: Unexpected, print_record: Callable[[Mapping[str, Any]], None]) -> None:
    """Print what was expected and what is decided, and where the two differ."""
    for title, begun, following in (
        ("Expected", difference.expected, difference.next_expected),
        ("Decided", difference.decided, difference.next_decided),
    ):
        page.title(title)
        if begun is None:
            page.say("  nothing more", "dim")
            continue
        for record in (begun, *following):
            print_record(record)
    print_departures(page, difference.departing, "expected")


def _whole(record: Mapping[str, Any]) -> bool:
    """Whether a record of a file has all that a row needs: somebody may have written it by hand."""
    facts = record.get("facts")
    if not isinstance(facts, dict) or not isinstance(record.get("cause"), str):
        return False
    if record["command"] == "requestTotalExecutors":
        if "changes" in record:
            return False
        return "profile" not in facts or all(isinstance(facts.get(key), int) for key in ("profile", "before", "after"))
    named = record.get("ids")
    return isinstance(named, list) and all(isinstance(one, str) for one in named)


def _bare(record: Mapping[str, Any]) -> str:
    """A record in the words of its keys."""
    parts = [escaped(record["command"])]
    if isinstance(record.get("targets"), dict):
        parts.append(_value(record["targets"]))
    if isinstance(record.get("ids"), list):
        parts.append(ids([str(one) for one in record["ids"]]))
    if isinstance(record.get("cause"), str):
        parts.append(escaped(record["cause"]))
    return joined(parts)


def print_departures(page: Page, departing: Sequence[Departing], before: str) -> None:
    """Print where two records differ. ``before``: what the first of them is called."""
    if not departing:
        return
    page.title("Where they differ")
    width = max(len(escaped(d.path, VALUE_SHOWN_MAX)) for d in departing[:DEPARTURES_SHOWN])
    for one in departing[:DEPARTURES_SHOWN]:
        path = f"{escaped(one.path, VALUE_SHOWN_MAX):<{width}}"
        page.say(f"  {path}  {before} {_value(one.expected)}, decided {_value(one.decided)}", "bad")
    if (more := len(departing) - DEPARTURES_SHOWN) > 0:
        page.say(f"  and {count(more, 'more value')}", "bad")


def _value(value: Any) -> str:
    return ABSENT if value == ABSENT else escaped(str(value), VALUE_SHOWN_MAX)
