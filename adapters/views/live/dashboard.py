"""What a live view draws: a snapshot as lines that fit a terminal, from forty columns and a dozen rows up.

In the order in which an operator asks: what is this, and is anything wrong; where do targets and executors stand; how did
they get there; what holds back; what was decided, and why; how is the API server; what else happened. Sections shrink
before they go: the header, what is wrong and the executors are always there, then what holds back and the API, and what
rows are left go to the graph, the decisions and the notices. Every line is cut to the width; none is ever longer.

Colours are the terminal's own and say nothing that the characters do not say: bars and graph have a character for each
thing, what is wrong begins with ``!``. The graph has the height that is left, from one row up, and time that moves: row
``k`` of ``rows`` ends at ``(k + 1) / rows`` of the top. With eighths of a block its area is exact to an eighth of a row.
The cost follows the size of the terminal, never the pods.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import ceil
from typing import Final

from rich.cells import cell_len
from rich.text import Text

from podtide.adapters.notices import Level
from podtide.adapters.text import plot
from podtide.adapters.text.format import clock, count, lasting, size
from podtide.adapters.text.page import STYLES, Page
from podtide.adapters.text.plot import Glyphs, Line, StyledSpan
from podtide.adapters.text.safe import escaped
from podtide.adapters.views.live import status
from podtide.adapters.views.live.api_calls import WINDOW_S
from podtide.adapters.views.live.events import stamp
from podtide.domain.base.units import DEFAULT_PROFILE

NARROW: Final = 60
"""Columns below which the header leaves out what goes without saying."""

WIDE: Final = 76
"""Columns from which a section's remarks stand beside its title, and profiles have two lines."""

ROOMY: Final = 32
"""Rows from which sections are set apart by empty lines."""

GRAPH_ROWS_MAX: Final = 7
GRAPH_COLUMNS_MIN: Final = 16
PROFILES_SHOWN: Final = 6
HELD_SHOWN: Final = 4
CALLS_SHOWN: Final = 3

_NOTICE_STYLES: Final = {Level.INFO: "", Level.WARNING: "held", Level.ERROR: "threw"}
_BAR: Final = {
    "running": ("█", "▓", "#", "busy"),
    "pending": ("▒", "▒", "+", "need"),
    status.REQUESTED: ("░", "░", "-", "idle"),
}
"""The parts of a bar: in colour, without, in ASCII, and their style."""

_MISSING: Final = ("·", "·", ".", "dim")
_OTHERS: Final = ("terminating", "failed", "unknown", "succeeded")
_DONE: Final = {
    "requestTotalExecutors": ("request", "requests"),
    "createPod": ("pod asked for", "pods asked for"),
    "answerRegistration": ("registration", "registrations"),
    "killExecutors": ("kill", "kills"),
    "decommissionExecutors": ("decommission", "decommissions"),
    "deletePods": ("delete", "deletes"),
    "deletePod": ("delete", "deletes"),
    "removeExecutor": ("executor gone", "executors gone"),
    "scaleSet": ("scaling", "scalings"),
}
"""Commands that are summed up above the decisions, in words."""

_WORDS: Final = {status.REQUESTED: "asked for"}


class Frame:
    """Draws snapshots for one terminal. ``page``: its encoding and colours."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._place = 2 if not page.unicode else 0 if page.coloured else 1
        self._glyphs = (plot.COLOURED, plot.PLAIN, plot.ASCII)[self._place]

    def draw(self, snapshot: status.LiveSnapshot, width: int, height: int) -> list[Text]:
        """At most ``height`` lines of at most ``width`` columns."""
        width, height = max(1, width), max(1, height)
        self._page.width = width
        gap = [Text()] if height >= ROOMY else []
        head = [
            *self._header(snapshot),
            *(self._page.text(f"! {text}", "threw") for text in status.alarms(snapshot)[: max(1, height // 6)]),
        ]
        executors = self._executors(snapshot, max(1, min(PROFILES_SHOWN, (height - len(head)) // 6)))
        held = self._held(snapshot, 1 if height < 20 else HELD_SHOWN)
        api = self._api(snapshot, 0 if height < 30 else CALLS_SHOWN)
        left = height - len(head) - len(executors) - len(held) - len(api) - 5 * len(gap)
        graph = self._graph(snapshot, min(GRAPH_ROWS_MAX, (left - 4) // 3)) if left >= 7 else []
        left -= len(graph) + (len(gap) if graph else 0)
        notice_rows = min(len(snapshot.notices) or 1, max(1, left * 2 // 5 - 1))
        decision_rows = max(0, left - notice_rows - 2)
        wanted = len(snapshot.decisions) * (1 if width >= NARROW else 2)
        if (spare := decision_rows - max(1, wanted)) > 0:
            decision_rows, notice_rows = decision_rows - spare, notice_rows + spare
        sections = [head, executors, graph, held, self._decisions(snapshot, decision_rows), api]
        sections.append(self._notices(snapshot, notice_rows))
        lines: list[Text] = []
        for section in sections:
            if section:
                lines += (gap if lines else []) + list(section)
        return [self._fitted(line, width) for line in lines[:height]]

    # --------------------------------------------------------------------------------------------------------- sections

    def _header(self, snapshot: status.LiveSnapshot) -> list[Text]:
        about, page = snapshot.about, self._page
        style = "title" if snapshot.acting else "held"
        name = Text.assemble(
            page.text("podtide " if page.width >= NARROW else "", "bold"),
            page.text("acts for " if snapshot.acting else "shadows ", style),
            page.text(escaped(about.app_id, 60), "bold"),
            page.text(f" in {escaped(about.namespace, 60)}"),
        )
        time = page.text(f"{stamp(snapshot.at)[11:19]}{' UTC' if page.width >= NARROW else ''}", "dim")
        if name.cell_len + time.cell_len + 2 <= page.width:
            name = Text.assemble(name, " " * (page.width - name.cell_len - time.cell_len), time)
        parts = [page.text(f"up {clock(snapshot.at - snapshot.started)}")]
        if snapshot.stage is not status.RunStage.RUNNING:
            parts.append(page.text(snapshot.stage.value, "held"))
        over = snapshot.stage is status.RunStage.STOPPED
        if snapshot.lease is status.Lease.HELD and not over:
            parts.append(page.text("lease held", "good"))
        elif snapshot.acting and snapshot.lease is status.Lease.NONE:
            parts.append(page.text("no lease yet", "held"))
        if snapshot.watch is status.WatchHealth.ALIVE and not over:
            parts.append(page.text("watching", "good"))
        if snapshot.seen_ms is not None:
            parts.append(page.text(f"pods seen {status.ago(snapshot.seen_ms)}"))
        if snapshot.driver:
            parts.append(page.text("driver answers", "good"))
        if about.target:
            parts.append(page.text(f"target: {escaped(about.target, 40)}", "dim"))
        if snapshot.differences:
            parts.append(page.text(count(snapshot.differences, "difference"), "held"))
        return [name, self._packed(parts)]

    def _executors(self, snapshot: status.LiveSnapshot, shown: int) -> list[Text]:
        page, profiles = self._page, snapshot.profiles
        legend = [self._sign(*_BAR[state], f" {_WORDS.get(state, state)}") for state in _BAR]
        legend.append(self._sign(*_MISSING, " missing"))
        title = "Executors" if snapshot.stage is not status.RunStage.STOPPED else "Executors, as last seen"
        lines = [self._title(title, legend)]
        named = any(one.profile != DEFAULT_PROFILE for one in profiles)
        if not profiles:
            return [*lines, page.text("  none, and none wanted", "dim")]
        top = max(max(one.target, _live(one)) for one in profiles) or 1
        tight = len(profiles) > 1 and page.width >= WIDE
        label = max(len(f"profile {one.profile}") for one in profiles) if named else 0
        for figures in profiles[:shown]:
            lead = f"  {f'profile {figures.profile}':<{label}}  " if named else "  "
            words = self._counts(figures)
            if tight:
                bar = self._bar(figures, max(8, page.width // 3), top)
                lines.append(Text.assemble(page.text(lead), bar, "  ", words))
                continue
            if named:
                lines.append(page.text(lead.rstrip(), "dim"))
            lines += [Text.assemble("  ", self._bar(figures, page.width - 4, top)), Text.assemble("  ", words)]
        if (more := len(profiles) - shown) > 0:
            lines.append(Text.assemble(page.text(f"  {more:,} more; all: ", "dim"), self._counts(snapshot.total)))
        return lines

    def _bar(self, figures: status.ProfileFigures, columns: int, top: int) -> Text:
        """What runs, comes and is missing, drawn so that ``top`` executors fill the columns; ``|`` is the target."""
        bar = Text()
        reached = drawn = 0
        for state, signs in _BAR.items():
            reached += figures.pods.get(state, 0)
            length = max(-(-reached * columns // top) if figures.pods.get(state) else 0, drawn) - drawn
            length = min(length, columns - drawn)
            bar.append(self._page.plain(signs[self._place]) * length, STYLES[signs[3]])
            drawn += length
        goal = min(columns, figures.target * columns // top)
        if goal > drawn:
            bar.append(self._page.plain(_MISSING[self._place]) * (goal - drawn), STYLES["dim"])
        elif drawn and figures.target < _live(figures):  # more than wanted: the target is a mark inside
            bar.append(" " * (columns - drawn))
            cut = max(0, min(columns - 1, goal))
            rest = bar[cut + 1 :] if cut + 1 < len(bar.plain) else Text()
            bar = Text.assemble(bar[:cut], (self._page.plain(self._glyphs.vertical), STYLES["target"]), rest)
        return bar

    def _counts(self, figures: status.ProfileFigures | status.TotalFigures) -> Text:
        pods = figures.pods
        parts = [
            Text.assemble(
                self._page.text(f"{pods.get('running', 0):,}", "bold"),
                self._page.text(f" of {figures.target:,} running"),
            )
        ]
        if figures.registered != pods.get("running", 0):
            parts.append(self._page.text(f"{figures.registered:,} registered"))
        parts += [
            self._page.text(f"{pods[state]:,} {_WORDS.get(state, state)}")
            for state in ("pending", status.REQUESTED)
            if pods.get(state)
        ]
        if figures.leaving:
            parts.append(self._page.text(f"{figures.leaving:,} leaving", "killed"))
        parts += [
            self._page.text(f"{pods[state]:,} {state}", "killed" if state == "failed" else "dim")
            for state in _OTHERS
            if pods.get(state)
        ]
        return self._packed(parts)

    def _graph(self, snapshot: status.LiveSnapshot, rows: int) -> list[Text]:
        page, points = self._page, snapshot.recent
        margin = len(f"{top_of(points):,}") + 4
        columns = page.width - margin - 2
        if rows < 1 or columns < GRAPH_COLUMNS_MIN or not points:
            return []
        length = max(30, -(-len(points) // 30) * 30)  # a minute at first, then as long as it is known
        drawn = columns_of(points, columns, length)
        top = top_of(drawn)
        lines = graph(drawn, rows, self._glyphs)
        span = lasting(length * snapshot.recent_width_ms).replace("m 00s", " min")
        legend = [self._sign(self._glyphs.busy, self._glyphs.busy, self._glyphs.busy, "busy", " running")]
        if rows > 1:
            legend.append(self._sign(*(self._glyphs.level,) * 3, "target", " target"))
        drawing = [self._title(f"Last {span}", legend)]
        for place, line in enumerate(lines):
            edge = self._glyphs.tick if place in (0, rows - 1) else self._glyphs.side
            label = f"{top:,}" if place == 0 else "0" if place == rows - 1 else ""
            axis = page.text(f"  {label:>{margin - 4}} {edge}", "axis")
            drawing.append(Text.assemble(axis, *((span.text, self._style(span.style)) for span in line)))
        return drawing

    def _held(self, snapshot: status.LiveSnapshot, shown: int) -> list[Text]:
        page, held = self._page, snapshot.held
        if not held:
            return [Text.assemble(page.text("Held back now", "title"), page.text("  nothing", "dim"))]
        lines = [page.text("Held back now", "title")]
        ordered = sorted(held, key=lambda hold: (hold.keeps, -hold.number, hold.since))
        for hold in ordered[:shown]:
            what, *parts = hold.words or (hold.bound,)
            since = lasting(snapshot.at - hold.since)
            lines += self._rows("!", "held", what, [*parts[:1], f"for {since}", *parts[1:]])
        if (more := len(held) - shown) > 0:
            lines.append(page.text(f"  and {more:,} more", "dim"))
        return lines

    def _decisions(self, snapshot: status.LiveSnapshot, rows: int) -> list[Text]:
        page = self._page
        totals: dict[tuple[str, str], int] = {}
        for (name, _), number in snapshot.counts.items():
            if name in _DONE:
                totals[_DONE[name]] = totals.get(_DONE[name], 0) + number
        remarks = [page.text(count(number, *words), "dim") for words, number in totals.items()]
        lines = [self._title("Decisions", remarks)]
        if not snapshot.decisions:
            return [*lines, page.text("  none yet", "dim")][: rows + 1]
        fitting: list[Text] = []
        for one in reversed(snapshot.decisions):
            drawn = self._rows(stamp(one.end)[11:19], one.mark, one.what, one.why)
            if len(fitting) + len(drawn) > rows:
                break
            fitting = drawn + fitting
        return lines + fitting

    def _api(self, snapshot: status.LiveSnapshot, kinds: int) -> list[Text]:
        page, calls = self._page, snapshot.calls
        since = max(60.0, min(WINDOW_S, (snapshot.at - snapshot.started) / 1000))
        parts = [page.text(count(calls.calls, "call"))]
        parts.append(
            page.text(f"{calls.failed:,} failed", "killed" if calls.recent_failed else "dim" if calls.failed else "")
        )
        parts.append(page.text(f"{calls.recent * 60 / since:,.0f} a minute"))
        if calls.median is not None and calls.slowest is not None:
            parts.append(page.text(f"median {_seconds(calls.median)}, slowest 1% {_seconds(calls.slowest)}"))
        parts.append(page.text(f"sent {size(calls.sent)}, got {size(calls.received)}", "dim"))
        if snapshot.watch_breaks:
            parts.append(page.text(count(snapshot.watch_breaks, "watch break"), "dim"))
        lines = [Text.assemble(page.text("API  ", "title"), self._packed(parts))]
        for one in calls.latencies[:kinds]:
            failed = [
                f"{number:,} x {code}"
                for (verb, resource, code), number in sorted(calls.totals.items())
                if (verb, resource) == (one.verb, one.resource) and code[:1] != "2"
            ]
            remarks = [f"median {_seconds(one.median)}", f"slowest 1% {_seconds(one.slowest)}", *failed]
            total = sum(number for key, number in calls.totals.items() if key[:2] == (one.verb, one.resource))
            lines.append(self._row(f"{total:>7,}", "", f"{escaped(one.verb, 20)} {escaped(one.resource, 40)}", remarks))
        if kinds and snapshot.steps:
            slow = _share(snapshot, 0.99)
            remarks = [f"99% within {_seconds(slow)}"] if slow is not None else []
            lines.append(self._row(f"{snapshot.steps:>7,}", "", "steps of the loop", remarks))
        return lines

    def _notices(self, snapshot: status.LiveSnapshot, rows: int) -> list[Text]:
        page = self._page
        lines = [page.text("News", "title")]
        if not snapshot.notices:
            return [Text.assemble(lines[0], page.text("  none", "dim"))]
        for one in snapshot.notices[-rows:] if rows > 0 else ():
            often = [f"{one.times:,} times"] if one.times > 1 else []
            style = _NOTICE_STYLES[one.level]
            lines.append(self._row(stamp(one.end)[11:19], style, one.topic.value, [*often, one.text]))
        return lines

    # ------------------------------------------------------------------------------------------------------------- parts

    def _title(self, title: str, remarks: Sequence[Text]) -> Text:
        line = self._page.text(title, "title")
        return Text.assemble(line, "  ", self._packed(remarks)) if remarks and self._page.width >= WIDE // 2 else line

    def _row(self, lead: str, style: str, what: str, parts: Iterable[str]) -> Text:
        page = self._page
        why = page.text("".join(f" · {part}" for part in parts if part), "dim")
        return Text.assemble(page.text(f"  {lead} ", "dim"), page.text(what, style), why)

    def _rows(self, lead: str, style: str, what: str, parts: Sequence[str]) -> list[Text]:
        """A row, or two where the reasons would not be seen."""
        if self._page.width >= NARROW or not parts:
            return [self._row(lead, style, what, parts)]
        why = self._page.text(f"    {' · '.join(part for part in parts if part)}", "dim")
        return [self._row(lead, style, what, ()), why]

    def _packed(self, parts: Sequence[Text]) -> Text:
        dot = self._page.text(" · ", "dim")
        return Text.assemble(
            *(piece for place, part in enumerate(parts) for piece in ((dot, part) if place else (part,)))
        )

    def _sign(self, coloured: str, plain: str, ascii_sign: str, style: str, words: str) -> Text:
        sign = (coloured, plain, ascii_sign)[self._place]
        return Text.assemble((self._page.plain(sign), STYLES[style]), self._page.text(words, "dim"))

    def _style(self, name: str) -> str:
        front, _, back = name.partition(" on ")
        if back == "busy" and self._place == 0:
            return f"{STYLES[front]} on {STYLES[back]}"
        return STYLES[front]

    def _fitted(self, line: Text, width: int) -> Text:
        """A line that is no longer than the terminal is wide; what is cut ends in an ellipsis."""
        line.rstrip()
        if line.cell_len <= width:
            return line
        mark = self._page.plain("…")
        room = max(0, width - cell_len(mark))
        line.truncate(room, overflow="crop")
        line.rstrip()
        return Text.assemble(line, mark) if room else Text(mark[:width])


def _live(figures: status.ProfileFigures) -> int:
    return sum(figures.pods.get(state, 0) for state in _BAR)


def _share(snapshot: status.LiveSnapshot, share: float) -> float | None:
    """The edge of the histogram below which this share of the steps lies."""
    histogram = snapshot.step_seconds
    for edge, number in zip(histogram.edges, histogram.cumulative, strict=False):
        if histogram.count and number >= share * histogram.count:
            return edge
    return None


def _seconds(seconds: float) -> str:
    return f"{seconds * 1000:.2g} ms" if seconds < 0.0095 else lasting(seconds * 1000)


# -------------------------------------------------------------------------------------------------------------- the graph


def columns_of(points: Sequence[status.TrendPoint], columns: int, length: int) -> list[status.TrendPoint]:
    """``length`` points, the newest at the right end, brought to so many columns; what lies before the first is zero.

    A column shows the most executors of its stretch of time and the target at its end.
    """
    padded = [status.TrendPoint(0, 0, 0)] * max(0, length - len(points)) + list(points[-length:])
    drawn = []
    for column in range(columns):
        begin = column * length // columns
        some = padded[begin : max(begin + 1, (column + 1) * length // columns)]
        drawn.append(
            status.TrendPoint(some[-1].target, max(one.running for one in some), max(one.registered for one in some))
        )
    return drawn


def top_of(points: Sequence[status.TrendPoint]) -> int:
    """The highest value that is drawn, at least 1."""
    return max((max(point.target, point.running) for point in points), default=1) or 1


def graph(points: Sequence[status.TrendPoint], rows: int, glyphs: Glyphs) -> list[Line]:
    """One column for each point, ``rows`` rows, the top one first; spans name ``busy``, ``target`` or ``blank``."""
    top = top_of(points)
    cells = [[StyledSpan(" ", "blank")] * len(points) for _ in range(rows)]
    for column, point in enumerate(points):
        height = point.running / top * rows
        for row in range(ceil(height)):
            share = min(1.0, height - row)
            if share == 1 or not glyphs.edges:
                if share >= 0.5 or row == 0:
                    cells[row][column] = StyledSpan(glyphs.busy, "busy")
            else:
                cells[row][column] = StyledSpan(glyphs.edges[max(0, min(7, round(share * 8) - 1))], "busy")
        if point.target and rows > 1:
            row = ceil(point.target / top * rows) - 1
            whole = cells[row][column].text == glyphs.busy
            cells[row][column] = StyledSpan(glyphs.level, "target on busy" if whole else "target on blank")
    return [plot.joined(row) for row in reversed(cells)]
