"""A replay for people: one screen or two in a terminal, plain text in a pipe.

In the order in which the questions come: whose log is this and under which config (and what is odd about it); how did
the target move against the executors that were there (a plot); what was decided and why (a timeline); what does it
sum up to; what can the log not tell. The view is given the replay's document and timeline and knows nothing else.

Whatever comes from a log is escaped before it is laid out, so that no name can move the cursor,
colour the screen or stand for another.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from rich.text import Text

from podtide.adapters.text import plot
from podtide.adapters.text.format import clock, count, lasting, moment, setting_text
from podtide.adapters.text.page import Page
from podtide.adapters.text.safe import escaped
from podtide.adapters.views.stalls import show_stalls
from podtide.adapters.views.timeline.reasons import BOUNDS
from podtide.adapters.views.timeline.scaling import HeldTotal, Moment, MomentKind, Timeline, between, single
from podtide.adapters.views.timeline.scaling_rows import SIGNS, Rows, TimelineRow
from podtide.domain.base.units import ExecutorId, Millis

NARROW: Final = 64
"""Columns below which what and why of a row stand under each other."""

WHAT_MIN: Final = 12
WHAT_MAX: Final = 22
"""Columns of what was decided; longer texts have a line of their own."""

ROWS_MAX: Final = 34
"""Rows of the timeline up to which a rising target is told step by step."""

FAULTS_SHOWN: Final = 5
"""Malformed lines, and other faults, that are named."""

BATCH: Final = 64
"""Rows that are printed at a time."""

BAR: Final = 8
"""Columns of the longest bar."""

_PLACE: Final = re.compile(r"(:| as |, as ).*", re.DOTALL)
_PREFIX: Final = "spark.dynamicAllocation."
_ENABLED: Final = "spark.dynamicAllocation.enabled"


class ReplayView:
    """Prints a replay. ``document``: of Replay.run; ``waits``: cause to the timeout that stands behind it."""

    def __init__(self, page: Page, document: Mapping[str, Any], waits: Mapping[str, Millis]) -> None:
        self.page = page
        self.document = document
        self.waits = waits
        self.start: Millis = document["app"]["first_ms"]
        self.span: Millis = max(0, document["app"]["last_ms"] - self.start)
        self._tenths = self.span < 3_600_000
        self._time_width = max(7, len(clock(self.span, tenths=self._tenths)) + 1)

    # ------------------------------------------------------------------------------------------------ the sections

    def report(
        self,
        timeline: Timeline,
        records: Iterable[Mapping[str, Any]] | None = None,
        proposed: Mapping[ExecutorId, Millis] | None = None,
    ) -> None:
        """Everything. ``records``: the whole timeline, where it was asked for; else what ``timeline`` selected.

        ``proposed``: the kills that the log neither confirmed nor disproved, by executor.
        """
        self.header()
        self.plot()
        if records is None:
            self.timeline(timeline)
        else:
            self.whole_timeline(records, timeline, proposed or {})
        self.summary(timeline)
        self.stalls()
        self.limits()

    def header(self) -> None:
        """Whose log this is, which config was in force and what is odd about either."""
        document, app, page = self.document, self.document["app"], self.page
        identity = f"  {escaped(app['id'])}" if app["id"] else ""
        identity += f" attempt {escaped(app['attempt'])}" if app["attempt"] else ""
        name = escaped(app["name"]) if app["name"] else "An application without a name"
        page.line(page.text(name, "bold"), page.text(identity, "dim"))
        version = f"Spark {escaped(app['spark_version'])}" if app["spark_version"] else "Spark version not logged"
        work = f"{count(app['jobs'], 'job')}, {count(app['stages'], 'stage')}, {count(app['tasks'], 'task')}"
        when = (version, moment(self.start), lasting(self.span), work)
        page.row("", when)
        page.say(f"Log: {_log(document['log'], document['events'])}", "dim")
        defaults = escaped(str(document["defaults"]))
        page.say(f"Decided as Spark {document['behaviour']} would; defaults (only) of {defaults}.", "dim")
        self._config(document["conf"])
        if document["notes"]:
            page.blank()
        for note in document["notes"]:
            page.bullet("!", escaped(note, 1000), "held")

    def plot(self) -> None:
        """Target against executors over time."""
        page = self.page
        legend = {
            "target": "target, replayed",
            "busy": "busy executors",
            "idle": "idle ones",
            "need": "need of the tasks",
        }
        remark = "over the time since the start, averaged"
        series = self.document["series"]
        if not self.document["dynamic_allocation"]:
            # What would have been asked for may be a thousand times what there was: the scale is that of what there was.
            most = max((one[2] for one in series["mean"]), default=0.0)
            above = max((one[0] for one in series["mean"]), default=0.0)
            if 0 < most < above:
                series = {**series, "mean": [(min(one[0], most), *one[1:]) for one in series["mean"]]}
                legend["target"] += f" (up to {self.document['replayed']['peak_target']:,}, beyond the scale)"
        parts = plot.show(page, series, self.span, remark, legend)
        if not parts:
            return
        whole = Text("   ").join(parts)
        if whole.cell_len + 2 <= page.width:
            parts = [whole]
        page.lines([Text.assemble("  ", part) for part in parts])

    def timeline(self, timeline: Timeline) -> None:
        """The selected moments and, between them, how many are left out."""
        moments = timeline.moments()
        kills = ""
        if not self.document["dynamic_allocation"] and (proposed := self.document["replayed"]["kills_proposed"]):
            moments = [one for one in moments if one.kind is not MomentKind.KILLED]
            kills = (
                f"{count(proposed, 'kill')} would have been proposed; nobody decided any: dynamic allocation was off"
            )
        rows = Rows(self.waits, timeline.profiles)
        rows_most = sum(min(m.moves, len(m.steps)) if m.kind is MomentKind.RAISED else 1 for m in moments)
        steps = timeline.kept_all and rows_most <= ROWS_MAX
        remark = "runs are told as one" if timeline.kept_all else "the weightiest; --all shows every decision"
        self.page.title("Timeline", remark)
        listed: list[TimelineRow | str] = []
        last: Moment | None = None
        for now in [*moments, None]:
            if not timeline.kept_all and (left := rows.left_out(between(last, now, timeline))):
                listed.append(left)
            if now is not None:
                listed += rows.of(now, steps=steps)
            last = now
        if kills:
            listed.append(kills)
        width = max((len(self.page.plain(row.what)) for row in listed if isinstance(row, TimelineRow)), default=0)
        shown: list[Text] = []
        for row in listed:
            if isinstance(row, TimelineRow):
                shown += self._row(row, max(WHAT_MIN, min(WHAT_MAX, width)))
            else:
                shown += self.page.hanging(
                    self.page.text(f"{self.page.plain('⋯'):>{self._time_width}}   "), self.page.text(row, "dim")
                )
        self.page.lines(shown)
        if not moments:
            self.page.say("  nothing was decided", "dim")

    def whole_timeline(
        self, records: Iterable[Mapping[str, Any]], timeline: Timeline, proposed: Mapping[ExecutorId, Millis]
    ) -> None:
        """Every record as a row, in order."""
        rows = Rows(self.waits, timeline.profiles, proposed)
        self.page.title("Timeline", "every decision, and every bound that began or ceased to hold")
        shown: list[Text] = []
        for record in records:
            shown += self._record(record, rows)
            if len(shown) >= BATCH:
                self.page.lines(shown)
                shown = []
        self.page.lines(shown)

    def record(self, record: Mapping[str, Any], rows: Rows) -> None:
        """One record as a row of a timeline."""
        self.page.lines(list(self._record(record, rows)))

    def summary(self, timeline: Timeline) -> None:
        """What it sums up to."""
        actual, replayed = self.document["actual"], self.document["replayed"]
        self.page.title("Summary")
        came = f"{actual['added']:,} came, {actual['removed']:,} went"
        paid, idle = actual["executor_seconds"], actual["idle_executor_seconds"]
        share = f" ({min(1.0, idle / paid):.0%})" if paid > 0 else ""
        waited, short = actual["backlog_s"] * 1000, actual["backlog_waited_for_executors_s"] * 1000
        peak = f"{replayed['peak_target']:,}{self._when(replayed['peak_target_ms'])} · the tasks could use"
        pairs = {
            "peak target": f"{peak} {replayed['peak_need']:,}",
            "peak executors": f"{actual['peak']:,}{self._when(actual['peak_ms'])} · {came}",
            "executor-seconds": f"{paid:,.1f} · {idle:,.1f} of them idle{share}",
            "backlog": f"tasks waited {lasting(waited)}, short of executors {lasting(short)}" if waited else "none",
            "decisions": f"{replayed['decisions']:,} · {count(replayed['target_changes'], 'change')} of the target",
            "kills": _kills(replayed),
        }
        if replayed["schedule_threw"]:
            pairs["schedule() threw"] = f"reported {count(replayed['schedule_threw'], 'time')}"
        width = max(map(len, pairs))
        for label, value in pairs.items():
            lead = self.page.text(f"  {label:<{width}}  ", "bad" if "threw" in label else "dim")
            self.page.lines(list(self.page.hanging(lead, self.page.text(value))))
        self._causes(replayed["by_cause"], timeline.held)
        if replayed["bounds"]:
            self._bounds(replayed["bounds"])

    def stalls(self) -> None:
        """When nothing moved although tasks waited, and why."""
        document, app = self.document, self.document["app"]
        show_stalls(self.page, document["stalls"], self.start, app["last_ms"], document["stalls_left_out"])

    def limits(self) -> None:
        """What the log cannot tell, and which of its lines could not be used."""
        page, events = self.page, self.document["events"]
        if self.document["limits"]:
            page.title("What the log cannot tell")
        for limit in self.document["limits"]:
            page.bullet("·", escaped(limit, 1000), "dim")
        page.title("Events")
        counts = (
            f"{events['read']:,} read, {events['skipped']:,} of them without a role, {events['malformed']:,} malformed"
        )
        page.say(f"  {counts}", "bad" if events["malformed"] else "")
        named = events["malformed_lines"][:FAULTS_SHOWN]
        for line in named:
            page.bullet("!", f"{escaped(line['file'])}:{line['line']}: {escaped(line['why'])}", "bad")
        if (more := events["malformed"] - len(named)) > 0:
            page.bullet(" ", f"and {count(more, 'more malformed line')}", "bad")
        for fault in events["faults"][:FAULTS_SHOWN]:
            where = f"{escaped(fault['file'])}:{fault['line']}"
            page.bullet("!", f"{where}: {fault['kind']}: {escaped(fault['why'])}", "held")
        if (more := len(events["faults"]) - FAULTS_SHOWN) > 0:
            page.bullet(" ", f"and {count(more, 'more fault')}", "held")

    # ------------------------------------------------------------------------------------------------------ pieces

    def _config(self, conf: Mapping[str, Mapping[str, Any]]) -> None:
        """The keys, gathered by where their values came from: what was set first, what was left alone last."""
        page = self.page
        groups: dict[str, list[Text]] = {}
        for key, entry in conf.items():
            origin = _gathered(str(entry["origin"]))
            name = key.removeprefix("spark.") if key == _ENABLED else key.removeprefix(_PREFIX)
            quiet = "dim" if origin == "default" else ""
            cell = page.text(f"{escaped(name, 60)} ", quiet)
            cell.append_text(page.text(setting_text(entry["value"]), "bad" if "unusable" in entry else quiet or "bold"))
            groups.setdefault(origin, []).append(cell)
        page.title("Config in force", f"({_PREFIX}* by its last part)")
        order = sorted(
            groups, key=lambda origin: (origin == "default", origin == "derived", not origin.startswith("--"))
        )
        width = min(14, max((len(origin) for origin in order), default=0))
        for origin in order:
            lead = page.text(f"  {origin:<{width}}  ", "dim")
            page.row(lead, groups[origin])

    def _causes(self, causes: Mapping[str, int], held: Mapping[str, HeldTotal]) -> None:
        """Decisions by cause, and beside them what held executors back or kept them."""
        page = self.page
        most = max(causes.values(), default=1)
        rows = [[page.text(head, "dim") for head in ("decided for", "times", "")]]
        for cause, times in sorted(causes.items(), key=lambda item: -item[1]):
            bar = page.text("█" * max(1, round(times / most * BAR)), "busy")
            rows.append([page.text(escaped(cause)), page.text(f"{times:,}"), bar])
        left = page.table(rows, (False, True, False))
        rows = [[page.text(head, "dim") for head in ("held by", "times", "for", "most")]]
        for bound, total in sorted(held.items(), key=lambda item: -item[1].held_ms):
            cells = (f"{total.times:,}", lasting(total.held_ms), f"{total.peak:,}")
            rows.append([page.text(BOUNDS.get(bound, escaped(bound))), *map(page.text, cells)])
        right = page.table(rows, (False, True, True, True), indent=0) if held else []
        page.blank()
        together = page.beside(left, right)
        if together is not None:
            page.lines(together)
            return
        page.lines(left)
        page.blank()
        page.lines([Text.assemble("  ", line) for line in right])

    def _bounds(self, bounds: Mapping[str, Mapping[str, Any]]) -> None:
        """Both answers to what the log does not say about shuffles, side by side."""
        page = self.page
        never, once = bounds["shuffles_never_cleaned"], bounds["shuffles_cleaned_at_once"]
        rows = [[page.text(head, "dim") for head in ("if shuffles were cleaned", "never (as above)", "at once")]]
        for label, key in (
            ("decisions", "decisions"),
            ("changes of the target", "target_changes"),
            ("kills proposed", "kills_proposed"),
            ("  confirmed", "kills_confirmed"),
            ("  disproved", "kills_disproved"),
            ("  open at the end", "kills_unconfirmed"),
        ):
            style = "" if never[key] == once[key] else "held"
            rows.append([page.text(label), page.text(f"{never[key]:,}"), page.text(f"{once[key]:,}", style)])
        page.blank()
        page.lines(page.table(rows, (False, True, True)))

    def _record(self, record: Mapping[str, Any], rows: Rows) -> Iterator[Text]:
        for one in single(record):
            for row in rows.of(one, steps=True):
                yield from self._row(row, WHAT_MAX - 3)

    def _row(self, row: TimelineRow, what_width: int) -> Iterator[Text]:
        """A row as one line or more: time, sign and what in columns, why wrapped beside or below them."""
        page = self.page
        when = page.text(f"{clock(row.at - self.start, tenths=self._tenths):>{self._time_width}}", "dim")
        what = page.plain(row.what)
        lead = Text.assemble(when, page.text(f" {SIGNS[row.mark]} {what:<{what_width}} ", row.mark))
        why = [page.text(part) for part in row.why]
        if page.width >= NARROW and len(what) <= what_width:
            yield from page.packed(lead, why)
            return
        yield lead
        indent = 4 if page.width < NARROW else self._time_width + 4 + what_width
        yield from page.packed(Text(" " * indent), why)

    def _when(self, at: Millis | None) -> str:
        return "" if at is None else f" at {clock(at - self.start, tenths=self._tenths)}"


def _log(log: Mapping[str, Any], events: Mapping[str, Any]) -> str:
    """The log in a few words."""
    words = [escaped(log["name"].rstrip("/").rsplit("/", 1)[-1]), *log["codecs"]]
    if len(log["files"]) > 1:
        words.append(count(len(log["files"]), "file"))
    words += [word for word in ("rolled", "compacted") if log[word]]
    if log["in_progress"]:
        words.append("in progress")
    if events["cut"] or any(fault["kind"] == "cut off" for fault in events["faults"]):
        words.append("cut off at its end")
    return ", ".join(words)


def _gathered(origin: str) -> str:
    """The part of an origin that many keys share: not the line of a file, the other name of a key, the reason."""
    if "default of" in origin:
        return "default"
    if origin.startswith("value of "):
        return "derived"
    return escaped(_PLACE.sub("", origin), 60)


def _kills(replayed: Mapping[str, Any]) -> str:
    if not replayed["kills_proposed"]:
        return "none proposed"
    words = {"confirmed": "confirmed", "disproved": "disproved", "unconfirmed": "open at the end"}
    parts = [f"{replayed[f'kills_{key}']:,} {word}" for key, word in words.items() if replayed[f"kills_{key}"]]
    return f"{replayed['kills_proposed']:,} proposed · {', '.join(parts)}"
