"""A simulation for people: one screen in a terminal, plain text in a pipe.

In the order in which the questions come: what was simulated, from which seed; how did the pods follow the target (a plot);
what happened (a timeline); how long did each target take, what did it cost in pods and calls, what held pods back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from rich.text import Text

from podtide.adapters import terminal_plot
from podtide.adapters.app_story import Moment
from podtide.adapters.log_errors import escaped
from podtide.adapters.text_layout import STYLES, Page
from podtide.adapters.wording import clock, count, ids, lasting
from podtide.domain.units import Millis

ROWS_MAX: Final = 30
"""Rows of the timeline, half of them from the beginning and half from the end."""

TARGETS_SHOWN: Final = 12
WORST: Final = 8
"""Bounds that are listed."""


class SimulationView:
    """Prints a simulation. ``document``: what ``podtide simulate --json`` prints."""

    def __init__(self, page: Page, document: Mapping[str, Any]) -> None:
        self.page = page
        self.document = document
        self.start: Millis = document["start_ms"]

    def report(self, moments: Sequence[Moment], left_out: int) -> None:
        """Everything; ``moments`` may lack ``left_out`` of them in the middle."""
        self.header()
        self.plot()
        self.timeline(moments, left_out)
        self.targets()
        self.costs()
        self.limits()

    def header(self) -> None:
        """What was simulated."""
        document, page = self.document, self.page
        page.line(page.text(f"Simulation of {escaped(document['app_id'])}", "bold"))
        parts = [
            f"cluster: {escaped(document['cluster'])}",
            f"seed {document['seed']}",
            f"{lasting(document['seconds'] * 1000)} of virtual time",
            count(document["steps"], "step"),
        ]
        page.lines(list(page.packed(Text(), map(page.text, parts))))
        for key, value in document["conf"].items():
            page.say(f"{escaped(key)} {escaped(str(value))}", "dim")
        if document["fixes"]:
            page.say("fixes that Spark 4.3.0 lacks: " + ", ".join(document["fixes"]), "dim")
        for note in document["notes"]:
            page.bullet("!", escaped(note, 1000), "held")

    def plot(self) -> None:
        """Pods against the target, over time."""
        page, document = self.page, self.document
        rich_signs = page.coloured and page.unicode
        glyphs = terminal_plot.COLOURED if rich_signs else terminal_plot.PLAIN if page.unicode else terminal_plot.ASCII
        lines = terminal_plot.draw(document["series"], round(document["seconds"] * 1000), page.width, glyphs)
        if not lines:
            return
        page.title("Pods", "over virtual time, averaged")
        page.lines([Text.assemble(*((span.text, STYLES.get(span.style, "")) for span in line)) for line in lines])
        legend = [
            (glyphs.level * 2, "target", "target"),
            (glyphs.busy * 2, "busy", "running"),
            (glyphs.idle * 2, "idle", "asked for, pending or starting"),
        ]
        parts = [Text.assemble((sign, STYLES[style]), f" {words}") for sign, style, words in legend]
        page.line(Text("  "), Text("   ").join(parts))

    def timeline(self, moments: Sequence[Moment], left_out: int) -> None:
        """What happened, in order; of many moments the first and the last."""
        if not moments:
            return
        page = self.page
        page.title("Timeline", "times since the start")
        shown: list[Moment | None] = list(moments)
        hidden = left_out
        if len(moments) > ROWS_MAX or left_out:
            half = ROWS_MAX // 2
            hidden += max(0, len(moments) - 2 * half)
            shown = [*moments[:half], None, *moments[-half:]] if len(moments) > 2 * half else list(moments)
        rows: list[tuple[Text, Text, Text]] = []
        for moment in shown:
            if moment is None:
                rows.append((Text(), page.text("..."), page.text(f"{hidden:,} more", "dim")))
                continue
            what, why = _told(moment.what)
            rows.append((page.text(clock(moment.at - self.start, tenths=True), "dim"), page.text(what), page.text(why)))
        page.lines(page.table(rows, [True, False, False]))

    def targets(self) -> None:
        """How long each raised target took."""
        goals = self.document["targets"]
        if not goals:
            return
        page = self.page
        page.title("Targets", "from the moment they were raised until so many pods ran")
        rows = []
        for goal in goals[:TARGETS_SHOWN]:
            if goal["seconds"] is not None:
                took = lasting(goal["seconds"] * 1000)
            else:
                took = "replaced before" if goal["replaced"] else "never reached"
            at = clock(goal["at_ms"] - self.start, tenths=True)
            rows.append(
                (page.text(at, "dim"), page.text(f"{goal['before']:,} to {goal['target']:,}"),
                 page.text(f"profile {goal['profile']}", "dim"), page.text(took))
            )  # fmt: skip
        page.lines(page.table(rows, [True, False, False, False]))
        if len(goals) > TARGETS_SHOWN:
            page.say(f"  and {len(goals) - TARGETS_SHOWN:,} more (--json has them)", "dim")

    def costs(self) -> None:
        """Pods, executors' time and calls."""
        page, pods = self.page, self.document["pods"]
        page.title("What it took")
        rows = [
            ("pods created", f"{pods['created']:,}", _failures(pods["creations_failed"], "creations failed")),
            (
                "executors registered",
                f"{pods['registered']:,}",
                f"{pods['removed']:,} removed again{_by(self.document)}",
            ),
            ("pods wasted", f"{pods['wasted']:,}", "created, gone, and never registered"),
            ("excess pods deleted", f"{pods['retired']:,}", ""),
            ("never seen", f"{pods['timed_out']:,}", "given up after allocation.executor.timeout"),
            ("pod time running", lasting(pods["running_seconds"] * 1000), ""),
            ("pod time waiting", lasting(pods["waiting_seconds"] * 1000), "asked for, pending or starting"),
            ("API calls", f"{sum(self.document['calls'].values()):,}", _calls(self.document["calls"])),
        ]
        failed = self.document["calls_failed"]
        if failed:
            rows.append(("calls that failed", f"{sum(failed.values()):,}", _calls(failed)))
        if self.document["workload"]:
            rows.extend(_work(self.document["workload"]))
        page.lines(
            page.table(
                [
                    (page.text(a), page.text(b), page.text(c, "dim"))
                    for a, b, c in rows
                    if b != "0" or a == "pods created"
                ],
                [False, True, False],
            )
        )
        if self.document["exit_code"] is not None:
            page.bullet("!", f"The application was ended with exit code {self.document['exit_code']}.", "threw")

    def limits(self) -> None:
        """What held pods back, for how long."""
        held = self.document["held"]
        if not held:
            return
        page = self.page
        page.title("What held pods back", "pod-seconds: pods missing, times how long")
        rows = [
            (
                page.text(entry["bound"]),
                page.text(f"profile {entry['profile']}", "dim"),
                page.text(lasting(entry["seconds"] * 1000)),
                page.text(f"{entry['pod_seconds']:,.1f} pod-seconds"),
            )
            for entry in held[:WORST]
        ]
        page.lines(page.table(rows, [False, False, True, True]))


def _told(what: Mapping[str, Any]) -> tuple[str, str]:
    """What happened and why, in words. Names are escaped by the page."""
    facts = what.get("facts", {})
    match what:
        case {"create": [first, last, many]}:
            who = f"executor {first}" if many == 1 else f"executors {first} to {last}"
            return f"+ {who}", f"{facts['missing']:,} missing of {facts['target']:,}, profile {facts['profile']}"
        case {"targets": moves}:
            words = ", ".join(f"{before:,} to {after:,}" for _, before, after in moves[:4])
            return f"target {words}", str(what["why"])
        case {"delete": executors}:
            return f"- {ids(executors)}", str(what["why"])
        case {"removed": executors}:
            return f"gone {ids(executors)}", str(what["why"])
        case {"let go": executors}:
            return f"let go {ids(executors)}", str(what["why"])
        case {"held": bound}:
            numbers = ", ".join(
                f"{key.replace('_', ' ')} {value}" for key, value in sorted(facts.items()) if value is not None
            )
            return f"held by {bound}", numbers
        case {"threw": threw}:
            return "round threw", str(threw)
        case {"exit": code}:
            return f"exit {code}", str(what["why"])
        case _:
            return next(iter(what)), ""


def _work(workload: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """What the workload's tasks went through, and how long each job took."""
    wasted = f"{lasting(workload['wasted_ms'])} wasted" if workload["wasted_ms"] else ""
    rows = [
        ("tasks succeeded", f"{workload['tasks_succeeded']:,}", f"{lasting(workload['useful_ms'])} of useful work"),
        ("tasks failed", f"{workload['tasks_failed']:,}", ""),
        ("tasks lost", f"{workload['tasks_lost'] + workload['tasks_resubmitted']:,}", "with their executors"),
        ("slots offered", lasting(workload["slot_ms"]), wasted),
    ]
    for job in workload["jobs"][:TARGETS_SHOWN]:
        ended = job["ended_ms"]
        took = lasting(ended - job["began_ms"]) if ended is not None else "-"
        first = job["first_task_ms"]
        waited = "" if first is None else f", its first task after {lasting(first - job['began_ms'])}"
        rows.append((f"job {escaped(job['name'])}", took, f"{job['ending']}{waited}"))
    return rows


def _failures(number: int, words: str) -> str:
    return f"{number:,} {words}" if number else ""


def _by(document: Mapping[str, Any]) -> str:
    causes = document["removals"]
    return ": " + _calls(causes) if causes else ""


def _calls(calls: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {number:,}" for name, number in sorted(calls.items(), key=lambda item: -item[1]))
