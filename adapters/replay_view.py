"""A replay for people: one screen or two in a terminal, plain text in a pipe.

In the order in which the questions come: whose log is this and under which config (and what is odd about it); how did
the target move against the executors that were there (a plot); what was decided and why (a timeline); what does it
sum up to; what can the log not tell. The view is given the replay's document and timeline and knows nothing else.

Whatever comes from a log is text, never markup: it is escaped (log_errors.escaped) before it is laid out, so that no
name can move the cursor, colour the screen or stand for another. Colours are left to the terminal's own sixteen, and
nothing is told by colour alone. Where the output's encoding has no such signs, ASCII stands for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import IO, Any, Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from podtide.adapters import terminal_plot, wording
from podtide.adapters.log_errors import escaped
from podtide.adapters.timeline import HeldTotal, Moment, Timeline, between, single
from podtide.adapters.timeline_rows import Row, Rows
from podtide.adapters.wording import clock, count, lasting, moment
from podtide.domain.units import Millis

WIDTH_MAX: Final = 120
"""Columns that are used of a wide terminal; longer lines are hard to read."""

NARROW: Final = 64
"""Columns below which the fields of a row stand under each other."""

WHAT_WIDTH: Final = 19
ROWS_MAX: Final = 34
"""Rows of the timeline up to which a rising target is told step by step."""

LINES_SHOWN: Final = 5
"""Malformed lines that are named."""

BATCH: Final = 64
"""Rows that are printed at a time."""

STYLES: Final = {
    "raised": "green", "lowered": "cyan", "killed": "red", "proposed": "yellow", "held": "yellow", "threw": "bold red",
    "quiet": "dim", "target": "bold bright_green", "need": "magenta", "busy": "blue", "idle": "bright_black",
    "axis": "dim", "blank": "", "title": "bold", "good": "green", "bad": "bold red",
}  # fmt: skip

SIGNS: Final = {"raised": "▲", "lowered": "▼", "killed": "×", "proposed": "?", "held": "■", "threw": "!", "quiet": " "}

_ASCII: Final = str.maketrans(
    {"→": "->", "·": ";", "−": "-", "…": "...", "▲": "^", "▼": "v", "×": "x", "■": "#", "━": "=", "█": "#", "▓": "#", "░": ":",
     "⋯": "..."}
)  # fmt: skip


class _Console(Console):
    """A console that leaves a closed pipe to whoever runs the command."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def console_for(stream: IO[str], *, width: int | None = None) -> Console:
    """A console on a stream: colours if it is a terminal that has them, never any markup."""
    return _Console(file=stream, width=width, markup=False, highlight=False, emoji=False, legacy_windows=False)


class ReplayView:
    """Prints a replay. ``document``: of Replay.run; ``waits``: cause to the timeout that stands behind it."""

    def __init__(self, console: Console, document: Mapping[str, Any], waits: Mapping[str, Millis]) -> None:
        self.console = console
        self.document = document
        self.start: Millis = document["app"]["first_ms"]
        self.span: Millis = max(0, document["app"]["last_ms"] - self.start)
        self.width = max(20, min(WIDTH_MAX, console.width))
        encoding = (getattr(console.file, "encoding", None) or "utf-8").lower()
        self._encoding = encoding
        self._unicode = encoding.replace("-", "").startswith("utf")
        self._coloured = bool(console.color_system) and not console.no_color
        self._waits = waits
        self._tenths = self.span < 3_600_000

    # ------------------------------------------------------------------------------------------------ the sections

    def report(self, timeline: Timeline, records: Iterable[Mapping[str, Any]] | None = None) -> None:
        """Everything. ``records``: the whole timeline, where it was asked for; else what ``timeline`` selected."""
        self.header()
        self.plot()
        if records is None:
            self.timeline(timeline)
        else:
            self.whole_timeline(records, timeline)
        self.summary(timeline)
        self.limits()

    def header(self) -> None:
        """Whose log this is, which config was in force and what is odd about either."""
        document, app = self.document, self.document["app"]
        name = escaped(app["name"] or "an application without a name")
        identity = escaped(app["id"] or "")
        attempt = f" attempt {escaped(app['attempt'])}" if app["attempt"] else ""
        self._print(self._text(name, "bold"), self._text(f"  {identity}{attempt}" if identity else "", "dim"))
        version = f"Spark {escaped(app['spark_version'])}" if app["spark_version"] else "Spark version not logged"
        self._print(self._text(f"{version} · {moment(self.start)} · {lasting(self.span)}"))
        self._print(
            self._text(f"{count(app['jobs'], 'job')}, {count(app['stages'], 'stage')}, {count(app['tasks'], 'task')} · log: "),
            self._text(self._log(document["log"], document["events"])),
        )
        self._print(
            self._text(
                f"Decided as Spark {document['behaviour']} would, with the defaults of Spark {escaped(str(document['defaults']))}.",
                "dim",
            )
        )
        self._config(document["conf"])
        for note in document["notes"]:
            self._bullet(note, "!", "held")

    def plot(self) -> None:
        """Target against executors over time."""
        coloured = self._coloured and self._unicode
        glyphs = terminal_plot.COLOURED if coloured else terminal_plot.PLAIN if self._unicode else terminal_plot.ASCII
        lines = terminal_plot.draw(self.document["series"], self.span, self.width, glyphs)
        if not lines:
            return
        self._title("Target and executors", "over the time since the start")
        for line in lines:
            self._print(*(Text(span.text, self._plot_style(span.style)) for span in line))
        legend = [
            (glyphs.level * 2, "target", "target, replayed"),
            (glyphs.busy * 2, "busy", "executors with tasks"),
            (glyphs.idle * 2, "idle", "idle executors"),
            (glyphs.need, "need", "need of the tasks"),
        ]
        parts: list[Text] = []
        used = 0
        for sign, style, words in legend:
            length = len(sign) + len(words) + 4
            if used and used + length > self.width - 2:
                self._print(Text("  "), *parts)
                parts, used = [], 0
            parts += [Text(sign, STYLES[style]), Text(f" {words}   ")]
            used += length
        self._print(Text("  "), *parts)

    def timeline(self, timeline: Timeline) -> None:
        """The selected moments and, between them, how many are left out."""
        moments = timeline.moments()
        rows = Rows(self._waits, timeline.profiles)
        told = sum(min(m.moves, len(m.steps)) if m.kind.value == "raised" else 1 for m in moments)
        steps = timeline.kept_all and told <= ROWS_MAX
        remark = "every decision" if timeline.kept_all else "the weightiest moments; --all shows every decision"
        self._title("Timeline", remark)
        shown: list[Text] = []
        last: Moment | None = None
        for now in moments:
            self._left_out(shown, rows, last, now, timeline)
            for row in rows.of(now, steps=steps):
                shown += self._row(row)
            last = now
        self._left_out(shown, rows, last, None, timeline)
        self._lines(shown)
        if not moments:
            self._print(self._text("  nothing was decided", "dim"))

    def whole_timeline(self, records: Iterable[Mapping[str, Any]], timeline: Timeline) -> None:
        """Every record as a row, in order."""
        rows = Rows(self._waits, timeline.profiles)
        self._title("Timeline", "every decision, every bound that held or let go")
        shown: list[Text] = []
        for number, record in enumerate(records):
            for now in single(record, number):
                for row in rows.of(now, steps=True):
                    shown += self._row(row)
            if len(shown) >= BATCH:
                self._lines(shown)
                shown = []
        self._lines(shown)

    def summary(self, timeline: Timeline) -> None:
        """What it sums up to."""
        actual, replayed = self.document["actual"], self.document["replayed"]
        self._title("Summary")
        facts = self._grid()
        peak = f"{replayed['peak_target']:,}{self._when(replayed['peak_target_ms'])}"
        facts.add_row(*self._pair("peak target", f"{peak} · peak need {replayed['peak_need']:,}"))
        came = f"{actual['added']:,} came, {actual['removed']:,} went"
        facts.add_row(*self._pair("peak executors", f"{actual['peak']:,}{self._when(actual['peak_ms'])} · {came}"))
        paid, idle = actual["executor_seconds"], actual["idle_executor_seconds"]
        share = f" ({min(1.0, idle / paid):.0%})" if paid > 0 else ""
        facts.add_row(*self._pair("executor-seconds", f"{paid:,.1f} · {idle:,.1f} of them idle{share}"))
        waited, short = actual["backlog_seconds"] * 1000, actual["backlog_waited_for_executors_seconds"] * 1000
        told = f"tasks waited {lasting(waited)} · for more executors {lasting(short)}" if waited else "no task ever waited"
        facts.add_row(*self._pair("backlog", told))
        facts.add_row(*self._pair("decisions", self._decisions(replayed)))
        facts.add_row(*self._pair("kills", _kills(replayed)))
        if replayed["schedule_threw"]:
            times = count(replayed["schedule_threw"], "time")
            facts.add_row(self._text("schedule() threw", "bad"), self._text(times, "bad"))
        self.console.print(facts, width=self.width)
        self._causes(replayed["by_cause"], timeline.held)
        if replayed["bounds"]:
            self._bounds(replayed["bounds"])

    def limits(self) -> None:
        """What the log cannot tell, and which of its lines could not be used."""
        document, events = self.document, self.document["events"]
        if document["limits"]:
            self._title("What the log cannot tell")
            for limit in document["limits"]:
                self._bullet(limit, "·", "dim")
        self._title("Events")
        told = f"{events['read']:,} read, {events['skipped']:,} of them without a role, {events['malformed']:,} malformed"
        self._print(self._text(f"  {told}", "bad" if events["malformed"] else ""))
        for line in events["malformed_lines"][:LINES_SHOWN]:
            self._bullet(f"{escaped(line['file'])}:{line['line']}: {escaped(line['why'])}", "!", "bad")
        if (more := events["malformed"] - min(LINES_SHOWN, len(events["malformed_lines"]))) > 0:
            self._bullet(f"and {count(more, 'more line')}", " ", "bad")
        for fault in events["faults"][:LINES_SHOWN]:
            where = f"{escaped(fault['file'])}:{fault['line']}"
            self._bullet(f"{where}: {fault['kind']}: {escaped(fault['why'])}", "!", "held")
        if (more := len(events["faults"]) - LINES_SHOWN) > 0:
            self._bullet(f"and {count(more, 'more fault')}", " ", "held")

    # ------------------------------------------------------------------------------------------------------ pieces

    def _log(self, log: Mapping[str, Any], events: Mapping[str, Any]) -> str:
        files = log["files"]
        what = escaped(files[0].rsplit("/", 1)[-1]) if len(files) == 1 else count(len(files), "file")
        words = [what, *log["codecs"]]
        words += [word for word in ("rolled", "compacted") if log[word]]
        if log["in_progress"]:
            words.append("in progress")
        if events["cut"] or any(fault["kind"] == "cut off" for fault in events["faults"]):
            words.append("cut off at its end")
        return ", ".join(words)

    def _config(self, conf: Mapping[str, Any]) -> None:
        """The keys that were set or that bound, without their common prefix."""
        if not conf:
            return
        self._title("Config in force")
        cells = []
        for key, entry in conf.items():
            name = key.removeprefix("spark.dynamicAllocation.").removeprefix("spark.")
            cells.append((escaped(name, 60), escaped(str(entry["value"]), 40), escaped(str(entry["origin"]), 40)))
        grid = self._grid()
        grid.add_column()
        for name, value, origin in cells:
            grid.add_row(self._text(f"  {name}"), self._text(value, "bold"), self._text(origin, "dim"))
        self.console.print(grid, width=self.width)

    def _decisions(self, replayed: Mapping[str, Any]) -> str:
        return f"{replayed['decisions']:,} · {count(replayed['target_changes'], 'change')} of the target"

    def _causes(self, causes: Mapping[str, int], held: Mapping[str, HeldTotal]) -> None:
        """Decisions by cause, and beside them what held executors back or kept them."""
        left = self._table(f"decisions{'':<9}", "times")
        most = max(causes.values(), default=1)
        for cause, times in sorted(causes.items(), key=lambda item: -item[1]):
            bar = ("█" if self._unicode else "#") * max(1, round(times / most * 8))
            left.add_row(self._text(cause), self._text(f"{times:,}"), Text(bar, STYLES["busy"]))
        if not held:
            self.console.print(left, width=self.width)
            return
        right = self._table("held by", "times", "for", "most")
        for bound, total in sorted(held.items(), key=lambda item: -item[1].held_ms):
            right.add_row(
                self._text(wording.BOUNDS.get(bound, escaped(bound))),
                self._text(f"{total.times:,}"),
                self._text(lasting(total.held_ms)),
                self._text(f"{total.peak:,}"),
            )
        if self.width < 78:
            for table in (left, right):
                self.console.print()
                self.console.print(table, width=self.width)
            return
        beside = Table.grid(padding=(0, 3))
        beside.add_row(left, right)
        self.console.print()
        self.console.print(beside, width=self.width)

    def _bounds(self, bounds: Mapping[str, Mapping[str, Any]]) -> None:
        """Both answers to what the log does not say about shuffles, side by side."""
        never, once = bounds["shuffles_never_cleaned"], bounds["shuffles_cleaned_at_once"]
        self.console.print()
        table = self._table("if shuffles were cleaned", "never (shown)", "at once")
        for label, key in (
            ("decisions", "decisions"), ("changes of the target", "target_changes"), ("kills proposed", "kills_proposed"),
            ("  confirmed", "kills_confirmed"), ("  disproved", "kills_disproved"), ("  unconfirmed", "kills_unconfirmed"),
        ):  # fmt: skip
            style = "" if never[key] == once[key] else "held"
            table.add_row(self._text(label), self._text(f"{never[key]:,}"), self._text(f"{once[key]:,}", style))
        self.console.print(table, width=self.width)

    def _left_out(self, shown: list[Text], rows: Rows, last: Moment | None, now: Moment | None, timeline: Timeline) -> None:
        if not timeline.kept_all and (left := rows.left_out(between(last, now, timeline))):
            shown.append(self._text(f"{'⋯':>{self._time_width()}}   {left}", "dim"))

    def _row(self, row: Row) -> Iterator[Text]:
        """A row as one line or more: time, sign and what in columns, why wrapped beside them."""
        style = STYLES[row.mark]
        when = f"{clock(row.at - self.start, tenths=self._tenths):>{self._time_width()}}"
        lead = [self._text(when, "dim"), self._text(f" {SIGNS[row.mark]} ", row.mark)]
        narrow = self.width < NARROW
        indent = len(when) + 3
        if narrow:
            yield Text.assemble(*lead, self._text(row.what, row.mark))
            indent = 4
        else:
            indent += WHAT_WIDTH + 1
            lead.append(self._text(f"{row.what:<{WHAT_WIDTH}} ", row.mark))
        room = max(12, self.width - indent)
        why = self._text(row.why)
        if not narrow and len(row.what) > WHAT_WIDTH:
            yield Text.assemble(*lead)
        elif not narrow:
            first, *rest = why.wrap(self.console, room) or [Text()]
            yield Text.assemble(*lead, first)
            yield from (Text.assemble(" " * indent, line) for line in rest)
            return
        del style
        yield from (Text.assemble(" " * indent, line) for line in why.wrap(self.console, room))

    def _time_width(self) -> int:
        return max(7, len(clock(self.span, tenths=self._tenths)) + 1)

    def _when(self, at: Millis | None) -> str:
        return "" if at is None else f" at {clock(at - self.start, tenths=self._tenths)}"

    def _pair(self, label: str, value: str) -> tuple[Text, Text]:
        return self._text(f"  {label}", "dim"), self._text(value)

    def _grid(self) -> Table:
        grid = Table.grid(padding=(0, 2, 0, 0))
        grid.add_column(no_wrap=True)
        grid.add_column(overflow="fold")
        return grid

    def _table(self, first: str, *others: str) -> Table:
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim", title_justify="left")
        table.add_column(self._text(f"  {first}"), no_wrap=True)
        for other in others:
            table.add_column(self._text(other), justify="right", no_wrap=True)
        return table

    def _title(self, title: str, remark: str = "") -> None:
        self.console.print()
        self._print(self._text(title, "title"), self._text(f"  {remark}" if remark else "", "dim"))

    def _bullet(self, text: str, sign: str, style: str) -> None:
        lines = self._text(text).wrap(self.console, max(12, self.width - 4))
        for number, line in enumerate(lines):
            self._print(self._text(f"  {sign} " if not number else "    ", style), line)

    def _plot_style(self, name: str) -> str:
        """``target on busy``: the colour of the line before that of the area."""
        front, _, back = name.partition(" on ")
        if back in ("busy", "idle") and self._coloured and self._unicode:
            return f"{STYLES[front]} on {STYLES[back]}"
        return STYLES[front]

    def _text(self, text: str, style: str = "") -> Text:
        if not self._unicode:
            text = text.translate(_ASCII).encode(self._encoding, "backslashreplace").decode(self._encoding)
        return Text(text, STYLES.get(style, style))

    def _print(self, *parts: Text) -> None:
        self._lines([Text.assemble(*parts)])

    def _lines(self, lines: Sequence[Text]) -> None:
        if lines:
            self.console.print(Text("\n").join(lines), width=self.width, overflow="fold")


def _kills(replayed: Mapping[str, Any]) -> str:
    if not replayed["kills_proposed"]:
        return "none proposed"
    words = {"confirmed": "confirmed by the log", "disproved": "disproved", "unconfirmed": "open when it ends"}
    told = [f"{replayed[f'kills_{key}']:,} {word}" for key, word in words.items() if replayed[f"kills_{key}"]]
    return f"{replayed['kills_proposed']:,} proposed · {', '.join(told)}"
