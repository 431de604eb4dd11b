"""A recording for people: what it is a recording of, what was decided in it, and whether that is decided again.

``RecordingView`` prints a recording as a replay of an event log is printed: whose it is and under which conf, how the pods
followed the target, what happened, what it took and what held pods back. ``verdict`` prints the outcome of ``--check``: that
every decision is as recorded, or the first that is not, with its story. Whatever comes from a recording is escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from rich.text import Text

from podtide.adapters.recording.comparison import Agreement, Divergence
from podtide.adapters.recording.records.expectation import Expectation
from podtide.adapters.text.format import clock, count, lasting, moment
from podtide.adapters.text.page import Page
from podtide.adapters.text.safe import escaped
from podtide.adapters.views.expectation import print_departures, print_sides
from podtide.adapters.views.simulation import SimulationView
from podtide.adapters.views.stalls import show_stalls
from podtide.adapters.views.timeline.decisions import call_words, decided_rows, hold_words, stimulus_words
from podtide.adapters.views.timeline.kubernetes import PodTimeline
from podtide.adapters.views.timeline.scaling_rows import SIGNS, TimelineRow
from podtide.domain.base.units import Millis

HEAD_ROWS: Final = 24
TAIL_ROWS: Final = 16
"""Rows of the timeline at its beginning and at its end; ``--all`` shows every decision instead."""

NARROW: Final = 64
WHAT_MAX: Final = 26
BATCH: Final = 64
STIMULI_SHOWN: Final = 8
RECORDS_SHOWN: Final = 4
CONF_SHOWN: Final = 40


class RowPrinter:
    """Rows on a page, with times since ``start``."""

    def __init__(self, page: Page, start: Millis, span: Millis = 0) -> None:
        self.page = page
        self.start = start
        self._time_width = max(8, len(clock(span, tenths=True)) + 1)

    def clock(self, at: Millis) -> str:
        """A time since the start."""
        return clock(at - self.start, tenths=True)

    def row(self, row: TimelineRow, what_width: int = WHAT_MAX) -> Iterable[Text]:
        """A row as lines: time, sign and what in columns, why beside or below them."""
        page = self.page
        when = page.text(f"{self.clock(row.at):>{self._time_width}}", "dim")
        what = page.plain(row.what)
        lead = Text.assemble(when, page.text(f" {SIGNS[row.mark]} {what:<{what_width}} ", row.mark))
        why = [page.text(part) for part in row.why if part]
        if page.width >= NARROW and len(what) <= what_width:
            yield from page.packed(lead, why)
            return
        lead.rstrip()
        yield from page.wrapped(lead, page.width)
        if why:
            indent = 4 if page.width < NARROW else self._time_width + 4 + what_width
            yield from page.packed(Text(" " * indent), why)

    def ends(self, timeline: PodTimeline, head_max: int, tail_max: int, nothing: str) -> None:
        """Print the first moments of a timeline and the last ones. ``nothing``: what to say where there is none."""
        head, left, tail = timeline.rows()
        page, rows = self.page, [*head, *tail]
        if not left and len(rows) <= head_max + tail_max:
            self.rows(rows)
            if not rows:
                page.say(f"  {nothing}", "dim")
            return
        first, last = rows[:head_max], rows[max(head_max, len(rows) - tail_max) :]
        self.rows(first)
        page.say(f"      {page.plain('⋯')} {count(left + len(rows) - len(first) - len(last), 'moment')} more", "dim")
        self.rows(last)

    def rows(self, rows: Iterable[TimelineRow]) -> None:
        """Print rows, their second column as wide as it must be."""
        listed = list(rows)
        width = min(WHAT_MAX, max((len(self.page.plain(row.what)) for row in listed), default=0))
        self.page.lines([line for row in listed for line in self.row(row, width)])

    def records(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Print every record as a row, however many there are."""
        shown: list[Text] = []
        for record in records:
            for row in decided_rows(record):
                shown += self.row(row)
            if len(shown) >= BATCH:
                self.page.lines(shown)
                shown = []
        self.page.lines(shown)


class RecordingView:
    """Prints a recording that was decided again. ``document``: of ``podtide replay --json``."""

    def __init__(self, page: Page, document: Mapping[str, Any]) -> None:
        self.page = page
        self.document = document
        app = document["app"]
        self.start: Millis = app["first_ms"]
        self.span: Millis = app["last_ms"] - app["first_ms"]
        self.printer = RowPrinter(page, self.start, self.span)

    def report(self, timeline: PodTimeline, records: Iterable[Mapping[str, Any]] | None = None) -> None:
        """Everything. ``records``: all decisions, where the whole timeline was asked for."""
        self.header()
        summary = {**self.document["summary"], "start_ms": self.start, "workload": {}}  # as a simulation has it
        figures = SimulationView(self.page, summary)
        figures.plot()
        end = self.document["app"]["last_ms"]
        show_stalls(self.page, self.document["stalls"], self.start, end, self.document["stalls_left_out"])
        if records is None:
            self.timeline(timeline)
        else:
            self.page.title("Timeline", "every decision, and every bound that began, changed or ceased to hold")
            self.printer.records(records)
        figures.targets()
        figures.costs()
        figures.limits()

    def header(self) -> None:
        """Whose recording this is, under which conf it is decided, and what is to be known about that."""
        document, app, page = self.document, self.document["app"], self.page
        page.line(page.text(f"Recording of {escaped(app['id']) or 'an application without a name'}", "bold"))
        recording = document["recording"]
        source = {"fake": "a fake cluster", "live": "a live cluster", "replay": "a replay"}[recording["source"]]
        seed = "" if recording["seed"] is None else f", seed {recording['seed']}"
        steps = count(recording["steps"], "step")
        page.row("", (f"of {source}{seed}", moment(self.start), lasting(self.span), steps))
        page.say(f"Recording: {escaped(recording['name'])}", "dim")
        page.say(
            f"Decided as Spark {document['behaviour']} would; defaults (only) of {escaped(document['defaults'])}.",
            "dim",
        )
        self._conf()
        for note in document["notes"]:
            page.bullet("!", escaped(note, 1000), "held")

    def timeline(self, timeline: PodTimeline) -> None:
        """What happened, in order."""
        self.page.title("Timeline", "runs are told as one; --all shows every decision")
        self.printer.ends(timeline, HEAD_ROWS, TAIL_ROWS, "nothing was decided")

    def _conf(self) -> None:
        page, conf = self.page, self.document["conf"]
        page.title("Config in force", "what was set and decides something")
        shown = list(conf.items())[:CONF_SHOWN]
        groups: dict[str, list[Text]] = {}
        for key, entry in shown:
            value = "unset" if entry["value"] is None else str(entry["value"])
            quiet = "" if entry["origin"] != "recording" else "dim"
            cell = page.text(f"{escaped(key.removeprefix('spark.'), 70)} ", quiet)
            cell.append_text(page.text(escaped(value, 60) or "(empty)", "bold"))
            groups.setdefault(entry["origin"], []).append(cell)
        width = min(16, max((len(origin) for origin in groups), default=0))
        for origin, cells in sorted(groups.items(), key=lambda group: group[0] == "recording"):
            page.row(f"  {escaped(origin, 60):<{width}}  ", cells)
        page.more(len(conf) - len(shown), in_json=True)
        if not conf:
            page.say("  nothing: Spark's defaults", "dim")
        policies = [f"{escaped(choice)} {escaped(str(word), 60)}" for choice, word in self.document["policies"].items()]
        if policies:
            page.row("  policies  ", policies)


# ---------------------------------------------------------------------------------------------------------- the verdict


def agreed(agreement: Agreement, name: str, cut: str | None) -> list[str]:
    """That every decision is as recorded, and how far that goes."""
    decisions, steps = count(agreement.decisions, "decision"), count(agreement.steps, "step")
    sentences = [f"Agrees: {decisions} in {steps}, each as recorded in {name}."]
    if cut is not None:
        missing = " Its last step is not compared: what it decided may be lost." if agreement.uncompared else ""
        sentences.append(f"Checked up to its last whole step: the recording is {cut}.{missing}")
    return sentences


def verdict(
    page: Page, agreement: Agreement, name: str, start: Millis, changed: Sequence[str], cut: str | None
) -> None:
    """Print the outcome of a check."""
    name = escaped(name)
    if changed:
        page.say(f"Not as recorded on purpose: {'; '.join(escaped(one, 200) for one in changed)}.", "held")
    divergence = agreement.divergence
    if divergence is None:
        sentences = agreed(agreement, name, cut)
        page.say(sentences[0], "good")
        for more in sentences[1:]:
            page.say(more, "held")
        return
    _difference(page, divergence, agreement, name, start)


def _difference(page: Page, divergence: Divergence, agreement: Agreement, name: str, start: Millis) -> None:
    step = divergence.step
    printer = RowPrinter(page, start, step.at - start)
    before = f"after {count(agreement.decisions, 'decision')} in {count(agreement.steps, 'step')} as recorded"
    page.say(f"Diverges: {before}, the step of {name}:{step.line} is decided otherwise.", "bad")
    page.say(f"It is {printer.clock(step.at)} after the start, {moment(step.at)} ({step.at} ms).")
    earlier = [record for _, records in divergence.before for record in records]
    if earlier:
        page.title("What led up to it", "decided as recorded")
        printer.records(earlier)
    held = [bound for bound in divergence.held if "since_ms" in bound]
    if held:
        page.title("What was held at that time")
        for bound in held:
            page.say(f"  {hold_words(bound, step.at, printer.clock(bound['since_ms']))}", "held")
    page.title("What entered the step")
    calls = {serial: call_words(command) for serial, command in divergence.calls.items()}
    for stimulus in step.stimuli[:STIMULI_SHOWN]:
        page.bullet("·", stimulus_words(stimulus, calls), "dim")
    if (more := len(step.stimuli) - STIMULI_SHOWN) > 0:
        page.say(f"    and {count(more, 'more stimulus', 'more stimuli')}", "dim")
    if divergence.agreed:
        page.blank()
        page.say(f"The first {count(divergence.agreed, 'decision')} of the step agree; then", "dim")
    for title, records in (("Recorded", divergence.recorded), ("Decided now", divergence.decided)):
        page.title(title)
        if not records:
            page.say("  nothing more", "dim")
        printer.records(records[:RECORDS_SHOWN])
        if len(records) > RECORDS_SHOWN:
            page.say("      and more of the same step", "dim")
    print_departures(page, divergence.departing, "recorded")


def expected(page: Page, expectation: Expectation, start: Millis) -> None:
    """Print the outcome of a comparison with a file of decisions (``--expect``)."""
    difference, name = expectation.difference, expectation.name
    if difference is None:
        page.say(f"As expected: {count(expectation.compared, 'decision')}, each as in {name}.", "good")
        return
    first = difference.decided or difference.expected
    assert first is not None
    printer = RowPrinter(page, start, first["at_ms"] - start)
    where = "at its end" if difference.line is None else f"at line {difference.line}"
    page.say(
        f"Not as expected: after {count(expectation.compared, 'decision')} as in the file, {name} differs {where}.",
        "bad",
    )
    page.say(f"It is {printer.clock(first['at_ms'])} after the start, {moment(first['at_ms'])}.")
    if difference.before:
        page.title("What led up to it", "decided as expected")
        printer.records(difference.before)

    def print_record(record: Mapping[str, Any]) -> None:
        if "facts" in record and "cause" in record:
            printer.records([record])
        else:  # somebody may have written it by hand
            page.say(f"  {printer.clock(record['at_ms'])}  {escaped(str(record['command']))}")

    print_sides(page, difference, print_record)
