"""A simulation for people: one screen or two in a terminal, plain text in a pipe.

In the order in which the questions come: what was simulated, from which seed; how did the executors follow the target (a
plot); what happened (a timeline); how long did each target take, what did it cost in pods and calls, what held pods back.

The parts below the header are printed for recordings as well, which have the same figures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from rich.cells import cell_len
from rich.text import Text

from podtide.adapters.text import plot
from podtide.adapters.text.format import clock, count, lasting
from podtide.adapters.text.page import Page
from podtide.adapters.text.safe import escaped
from podtide.adapters.views.stats.waits import Wait
from podtide.adapters.views.timeline.decisions import bound_words
from podtide.domain.base.units import DEFAULT_PROFILE, Millis

TARGETS_SHOWN: Final = 12
BOUNDS_SHOWN: Final = 8
JOBS_SHOWN: Final = 12

WAITS_INDENT: Final = 6
"""Columns by which the causes of a target stand to the right of its row."""

NARROW: Final = 56
"""Columns below which remarks stand under their figures."""

LABEL: Final = 21
"""Columns of what a figure is called."""

_EXITS: Final = {
    1: "the driver failed",
    11: "more executors failed than spark.executor.maxNumFailures allows",
}
"""What Spark's exit codes say."""

_WAITS: Final = {
    Wait.ROUND.value: "for the allocator's next round",
    Wait.REFUSED.value: "after refused calls",
    Wait.LOST.value: "for lost executors to be noticed",
    Wait.MASTER.value: "for an application master",
    Wait.QUEUE.value: "for room in the queue",
    Wait.OFFER.value: "for containers, the queue has room",
    Wait.API_CALL.value: "for API calls",
    Wait.LAUNCH.value: "for launches",
    Wait.UNSEEN.value: "to see pods that were created",
    Wait.NODE.value: "for nodes",
    Wait.CONTAINER.value: "for images and containers",
    Wait.PROCESS.value: "for executors to start",
}
"""What a target waits for, in words; bounds have their own."""


def _together(seconds: float, what: str) -> str:
    """Seconds of several added up: ``0.4 pod-seconds``, ``1 pod-second``, ``6,021 pod-seconds``."""
    shown = f"{seconds:,.0f}" if seconds >= 10 else f"{seconds:,.1f}".removesuffix(".0")
    return f"{shown} {what}-second{'' if shown == '1' else 's'}"


class SimulationView:
    """Prints a simulation. ``document``: what ``podtide simulate --json`` prints."""

    def __init__(self, page: Page, document: Mapping[str, Any]) -> None:
        self.page = page
        self.document = document
        self.start: Millis = document["start_ms"]

    def report(self, timeline: Callable[[], None]) -> None:
        """Everything; ``timeline`` prints what happened, in order."""
        self.header()
        self.plot()
        timeline()
        self.jobs()
        self.targets()
        self.costs()
        self.limits()

    def header(self) -> None:
        """What was simulated."""
        document, page = self.document, self.page
        page.line(page.text(f"Simulation of {escaped(document['app_id'])}", "bold"))
        parts = [
            f"{lasting(document['duration_s'] * 1000)} of virtual time",
            count(document["steps"], "step"),
            f"seed {document['seed']}",
            f"cluster: {escaped(document['cluster'])}",
        ]
        page.row("", parts)
        conf = [
            Text.assemble(
                page.text(f"{escaped(key.removeprefix('spark.'))} ", "dim"), page.text(escaped(str(value)) or '""')
            )
            for key, value in document["conf"].items()
        ]
        if conf:
            page.row("conf  ", conf)
        if document["fixes"]:
            page.say("fixes that Spark 4.3.0 lacks: " + ", ".join(document["fixes"]), "dim")
        for note in document["notes"]:
            page.bullet("!", escaped(note, 1000), "held")

    def plot(self) -> None:
        """Executors against the target, over time."""
        page, document = self.page, self.document
        legend = {"target": "target", "busy": "registered", "idle": "asked for, not registered yet"}
        span_ms = round(document["duration_s"] * 1000)
        parts = plot.show(page, document["series"], span_ms, "over virtual time, averaged", legend)
        if parts:
            page.row("  ", parts)

    def jobs(self) -> None:
        """How long each job of a workload took, and what its tasks went through."""
        work, page = self.document["workload"], self.page
        jobs = work.get("jobs")
        if not jobs:
            return
        page.title("Jobs", "from their submission; the first task began after")
        rows = []
        for job in jobs[:JOBS_SHOWN]:
            name = escaped(job["name"], 40) + (f" #{job['run'] + 1}" if job["run"] else "")
            rows.append(
                (
                    page.text(clock(job["began_ms"] - self.start, tenths=True), "dim"),
                    page.text(name),
                    page.text("" if job["ended_ms"] is None else lasting(job["ended_ms"] - job["began_ms"])),
                    page.text(
                        "" if job["first_task_ms"] is None else lasting(job["first_task_ms"] - job["began_ms"]), "dim"
                    ),
                    page.text(job["ending"] or "not ended"),
                )
            )
        page.lines(page.table(rows, [True, False, True, True, False]))
        page.more(len(jobs) - JOBS_SHOWN, in_json=True)
        figures = [
            (key.replace("_", " ").removesuffix(" ms"), lasting(value) if key.endswith("_ms") else f"{value:,}")
            for key, value in work.items()
            if key != "jobs" and value
        ]
        page.row("  ", [page.text(f"{name} {value}") for name, value in figures])

    def targets(self) -> None:
        """How long each raised target took, and what for."""
        goals = self.document["targets"]
        if not goals:
            return
        page = self.page
        remark = "how long until so many executors had registered, and for what the last of them waited"
        page.title("Targets that were raised", remark)
        named = self._named(goals)
        rows = []
        for goal in goals[:TARGETS_SHOWN]:
            if goal["duration_s"] is not None:
                took = page.text(lasting(goal["duration_s"] * 1000))
            else:
                end = "changed before it was reached" if goal["replaced"] else "not reached"
                took = page.text(f"{end}, with {goal['most']:,} at most", "held")
            steps = f" in {count(goal['steps'], 'step')}" if goal["steps"] > 1 else ""
            rows.append(
                (
                    page.text(clock(goal["at_ms"] - self.start, tenths=True), "dim"),
                    page.text(f"{goal['before']:,} → {goal['target']:,}{steps}"),
                    *((page.text(f"profile {goal['profile']}", "dim"),) if named else ()),
                    took,
                )
            )
        right = [True, *[False] * (len(rows[0]) - 1)]
        lines = page.table(rows, right)
        fits = len(lines) == len(rows)  # else the rows are stacked, each in lines of its own
        for place, goal in enumerate(goals[:TARGETS_SHOWN]):
            page.lines([lines[place]] if fits else page.table([rows[place]], right))
            waits = [f"{lasting(wait['duration_s'] * 1000)} {_wait_words(wait['for'])}" for wait in goal["waited"]]
            if waits:
                page.row(" " * WAITS_INDENT, [page.text(wait, "dim") for wait in waits])
        more = len(goals) - TARGETS_SHOWN
        if more > 0:
            page.say(
                f"  and {more + self.document.get('targets_left_out', 0):,} more (--json has {len(goals):,})", "dim"
            )

    def costs(self) -> None:
        """Pods or containers, executors' time and calls."""
        page, document = self.page, self.document
        page.title("What it took")
        if "containers" in document:
            always, rows = ALWAYS_OF_YARN, container_costs(document)
        else:
            always, rows = ("pods created", "executors registered", "executor time"), self._pod_costs()
        self._costs([row for row in rows if row[0] in always or row[1] not in ("0", "0 s")])
        if document["exit_code"] is not None:
            code = document["exit_code"]
            why = f": {_EXITS[code]}" if code in _EXITS else ""
            if (ending := document.get("ending")) is not None:
                why = f", {escaped(ending['status'], 40)}: {escaped(ending['message'], 200)}"
            page.bullet("!", f"The application was ended with exit code {code}{why}.", "threw")

    def _pod_costs(self) -> list[Cost]:
        document = self.document
        pods = document["pods"]
        failed = f"{count(pods['creations_failed'], 'creation')} failed" if pods["creations_failed"] else ""
        way = f"{pods['on_the_way']:,} still on the way" if pods["on_the_way"] else ""
        return [
            ("pods created", f"{pods['created']:,}", [failed, way]),
            ("executors registered", f"{pods['registered']:,}", [removed_words(pods["removed"], document["removals"])]),
            ("pods wasted", f"{pods['wasted']:,}", _wasted_words(document)),
            ("excess pods deleted", f"{pods['excess']:,}", ["pods that had not started, above the target"]),
            ("pods given up", f"{pods['timed_out']:,}", ["not seen within allocation.executor.timeout"]),
            *_time_costs(pods, "pods"),
            *_call_costs(document, "API calls"),
            ("rounds that threw", f"{document['rounds_threw']:,}", ["Spark logs these and tries again"]),
        ]

    def _costs(self, shown: Sequence[Cost]) -> None:
        page = self.page
        width = max(cell_len(number) for _, number, _ in shown)
        for name, number, remarks in shown:
            remarks_shown = [page.text(remark, "dim") for remark in remarks if remark]
            if page.width >= NARROW:
                page.row(page.text(f"  {name:<{LABEL}} {number:>{width}}  "), remarks_shown)
                continue
            page.lines(list(page.hanging(Text("  "), page.text(f"{name} {number}"))))
            if remarks_shown:
                page.row("    ", remarks_shown)

    def limits(self) -> None:
        """What held pods or containers back and what kept executors, for how long."""
        unit = "container" if "containers" in self.document else "pod"
        self._bounds("held", f"What held {unit}s back", "for how long, and times how many", unit)
        self._bounds("kept", "What kept executors that could have gone", "for how long, and times how many", "executor")

    def _bounds(self, key: str, title: str, remark: str, what: str) -> None:
        bounds = self.document[key]
        if not bounds:
            return
        page = self.page
        page.title(title, remark)
        named = self._named(bounds)
        rows = [
            (
                page.text(bound_words(bound["bound"])),
                *((page.text(f"profile {bound['profile']}", "dim"),) if named else ()),
                page.text(lasting(bound["duration_s"] * 1000)),
                page.text(_together(bound[f"{what}_seconds"], what)),
            )
            for bound in bounds[:BOUNDS_SHOWN]
        ]
        page.lines(page.table(rows, [*[False] * (len(rows[0]) - 2), True, True]))
        page.more(len(bounds) - BOUNDS_SHOWN, in_json=True)

    @staticmethod
    def _named(entries: Iterable[Mapping[str, Any]]) -> bool:
        """Whether profiles have to be told apart."""
        return any(entry["profile"] != DEFAULT_PROFILE for entry in entries)


Cost: TypeAlias = tuple[str, str, Sequence[str]]
"""A figure: what it is called, the number, and remarks (empty ones are left out)."""


def _wait_words(cause: str) -> str:
    """What a target waits for, in words."""
    return _WAITS.get(cause) or f"by {bound_words(cause)}"


def removed_words(removed: int, causes: Mapping[str, int]) -> str:
    """Executors that are gone again, and why."""
    if not removed:
        return ""
    if len(causes) == 1:
        return f"{removed:,} gone again: {escaped(next(iter(causes)))}"
    return f"{removed:,} gone again: {', '.join(listed_words(causes))}"


def listed_words(counts: Mapping[str, int]) -> Sequence[str]:
    """Counts by name, the largest first."""
    return [
        f"{escaped(name)} {number:,}" for name, number in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    ]


ALWAYS_OF_YARN: Final = ("containers launched", "executors registered", "executor time")
"""Figures that are shown also where they are 0."""


_NEAR: Final = {"host": "on a wished host", "rack": "on a wished rack", "anywhere": "anywhere"}


def container_costs(document: Mapping[str, Any]) -> list[Cost]:
    """The figures of ``views.stats.yarn.YarnStats.document``."""
    boxes = document["containers"]
    cancelled = f"{boxes['cancelled']:,} cancelled" if boxes["cancelled"] else ""
    pending = f"{boxes['pending']:,} still waiting" if boxes["pending"] else ""
    localized = f"{boxes['localized']:,} near their data" if boxes["localized"] else ""
    near = [f"{number:,} {_NEAR[how]}" for how, number in boxes["matched"].items() if number]
    way = f"{boxes['on_the_way']:,} still on the way" if boxes["on_the_way"] else ""
    failed = f"{count(boxes['launches_failed'], 'launch', 'launches')} failed" if boxes["launches_failed"] else ""
    # An exception may be what ended the application: outside the reporter thread, or as one too many in a row.
    throws_note = "the reporter thread logs these and goes on" if document["exit_code"] is None else ""
    hosts = document["hosts"]
    excluded, included = hosts["excluded"], hosts["included"]
    return [
        ("containers requested", f"{boxes['requested']:,}", [localized, cancelled, pending]),
        ("containers given", f"{boxes['allocated']:,}", near if localized else []),
        ("given too many", f"{boxes['surplus']:,}", ["given back: no request wanted them"]),
        ("left over", f"{_left_over(boxes):,}", ["neither launched nor given back: an exception came between"]),
        ("containers launched", f"{boxes['launched']:,}", [failed, way]),
        ("executors registered", f"{boxes['registered']:,}", [removed_words(boxes["removed"], document["removals"])]),
        ("containers ended", f"{sum(boxes['exits'].values()):,}", listed_words(boxes["exits"])),
        ("containers wasted", f"{boxes['wasted']:,}", _wasted_words(document)),
        ("hosts excluded", f"{excluded:,}", [f"{included:,} taken back in"] if included else []),
        ("nodes leaving", f"{hosts['decommissioning']:,}", ["decommissioned by the resource manager"]),
        *_time_costs(boxes, "containers"),
        *_call_costs(document, "calls"),
        ("rounds that threw", f"{document['rounds_threw']:,}", [throws_note]),
    ]


def _wasted_words(document: Mapping[str, Any]) -> list[str]:
    return ["gone before they registered", *listed_words(document["wasted_by"])]


def _time_costs(figures: Mapping[str, Any], units: str) -> Iterator[Cost]:
    yield "executor time", lasting(figures["executor_seconds"] * 1000), ["of registered executors, added up"]
    waiting = lasting(figures["waiting_seconds"] * 1000)
    yield "waiting time", waiting, [f"of {units} asked for and not registered, added up"]


def _call_costs(document: Mapping[str, Any], name: str) -> Iterator[Cost]:
    for label, calls in ((name, document["calls"]), ("calls that failed", document["calls_failed"])):
        yield label, f"{sum(calls.values()):,}", listed_words(calls)


def _left_over(boxes: Mapping[str, Any]) -> int:
    """Containers that were given, and of which the heartbeat made nothing, because it ended in an exception."""
    left: int = boxes["allocated"] - boxes["launched"] - boxes["surplus"]
    return max(0, left)
