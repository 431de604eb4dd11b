"""The story of an executor, or of a moment, for people; made of the documents that ``podtide explain --json`` prints.

Times are since the start of the application. Whatever comes from the recording - names of pods and nodes, the API's
messages - is escaped and cut before it is laid out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from podtide.adapters.text.format import count, ids, lasting, moment
from podtide.adapters.text.page import Page
from podtide.adapters.text.safe import escaped
from podtide.adapters.views.explain import yarn_view
from podtide.adapters.views.explain.container import CONTAINER_WAITS
from podtide.adapters.views.explain.executor import WAITS
from podtide.adapters.views.recording import RowPrinter
from podtide.adapters.views.timeline.decisions import bound_words, decided_rows, facts_words, failure_words, hold_words
from podtide.adapters.views.timeline.reasons import why_killed
from podtide.adapters.views.timeline.scaling_rows import TimelineRow
from podtide.domain.base.units import Millis

TEXT_MAX: Final = 200
STAGES_SHOWN: Final = 30
PAUSE_MIN: Final[Millis] = 1_000
"""A pause between two entries that is worth a line of its own."""

CALLS_SHOWN: Final = 10

_NEWS: Final = {
    "killed": "killed",
    "decommissioned": "decommissioned",
    "disconnected": "connection lost",
    "silent": "falls silent",
    "heard again": "heard from again",
    "application stops": "the application stops",
    "not listed": "no longer listed",
}


class ExplainView:
    """Prints a story. ``document``: what ``podtide explain --json`` prints."""

    def __init__(self, page: Page, document: Mapping[str, Any]) -> None:
        self.page = page
        self.document = document
        self.start: Millis = document["app"]["first_ms"]
        self.printer = RowPrinter(page, self.start)

    def header(self, title: str) -> None:
        """Whose recording, and which part of it."""
        page, document = self.page, self.document
        page.line(page.text(title, "bold"), page.text(f"  {escaped(document['app']['id'])}", "dim"))
        source = f"{document['recording']['source']} recording {escaped(document['recording']['name'])}"
        page.row("", (source, f"started {moment(self.start)}"))
        for note in document["notes"]:
            page.bullet("!", escaped(note, 1000), "held")

    # --------------------------------------------------------------------------------------------------- an executor

    def report(self) -> None:
        """What the document tells: of an executor, or of a moment."""
        if "story" in self.document:
            self.executor()
        else:
            self.moment()

    def executor(self) -> None:
        """The whole story of an executor."""
        page, document = self.page, self.document["story"]
        self.header(f"Executor {escaped(document['executor'], 60)}")
        if document.get("container") is not None and document["container"] != document["executor"]:
            page.say(
                f"in {escaped(document['container'], 80)} on {escaped(document['host'] or 'no known host', 60)}", "dim"
            )
        self._stages(document["stages"])
        page.title("What happened", "times since the start")
        last: Millis | None = None
        entries = document["entries"]
        head = len(entries) // 2 if document["left_out"] else len(entries)
        for place, entry in enumerate(entries):
            if place == head and document["left_out"]:
                page.say(f"      {page.plain('⋯')} {count(document['left_out'], 'entry', 'entries')} more", "dim")
            if last is not None and entry["at_ms"] - last >= PAUSE_MIN:
                page.say(f"         {page.plain('⋯')} {lasting(entry['at_ms'] - last)}", "dim")
            last = entry["at_ms"]
            page.lines([line for row in self._rows(entry) for line in self.printer.row(row)])
        self._end(document)

    def _stages(self, stages: Iterable[Mapping[str, Any]]) -> None:
        page = self.page
        page.title("Stages", "how long it was what")
        listed = list(stages)[:STAGES_SHOWN]
        width = max((len(lasting(stage["lasted_ms"])) for stage in listed), default=0)
        for stage in listed:
            when = self.printer.clock(stage["since_ms"])
            lead = page.text(f"{when:>8}  {lasting(stage['lasted_ms']):>{width}}  ", "dim")
            node = escaped(stage.get("node", ""), 60)
            name = stage["stage"]
            place = f"{name} on {node}" if node else name
            parts = [page.text(name.replace("on a node", f"on {node}") if "on a node" in name else place)]
            if not stage["over"]:
                parts.append(page.text("still, when the recording ends", "dim"))
            if (waits := WAITS.get(name) or CONTAINER_WAITS.get(name)) is not None:
                parts.append(page.text(waits, "dim"))
            page.row(lead, parts)
        if not listed:
            page.say("  none: it was heard of, and neither created nor registered", "dim")

    def _end(self, document: Mapping[str, Any]) -> None:
        page = self.page
        page.title("In the end")
        books = [f"{who}: {escaped(text, TEXT_MAX)}" for who, text in document["books"].items()]
        if self.document["books_told"]:
            page.row("  books  ", books or ["nobody knows it any more"])
        tasks = document["tasks"]
        if tasks["started"] or tasks["ended"]:
            ran = f"{tasks['started']:,} started, {tasks['ended']:,} ended"
            if tasks["last_ended_ms"] is not None:
                ran += f", the last at {self.printer.clock(tasks['last_ended_ms'])}"
            page.row("  tasks  ", [ran])

    def _rows(self, entry: Mapping[str, Any]) -> list[TimelineRow]:
        at = entry["at_ms"]
        of_container = yarn_view.entry_rows(entry, self.printer.clock)
        if of_container is not None:
            return of_container
        match entry["what"]:
            case "asked for":
                return self._asked_for(entry)
            case "call succeeded":
                return [TimelineRow(at, "quiet", f"{entry['call']} succeeded", [f"after {lasting(entry['took_ms'])}"])]
            case "call failed":
                text = failure_words(entry["status"], entry["message"])
                return [
                    TimelineRow(at, "threw", f"{entry['call']} failed", [text, f"after {lasting(entry['took_ms'])}"])
                ]
            case "seen":
                return [self._seen(entry)]
            case "registers":
                host = escaped(entry["host"], 60) or "a host that nobody named"
                return [TimelineRow(at, "raised", "registers", [f"from {host}", f"profile {entry['profile']}"])]
            case "decided" | "kept":
                return decided_rows({k: v for k, v in entry.items() if k not in ("line", "what", "executors")})
            case "books":
                return [TimelineRow(at, "quiet", "books", [f"{who}: {text}" for who, text in entry["books"].items()])]
            case "killed" | "decommissioned":
                others = entry["executors"] - 1
                along = [f"with {count(others, 'other')}"] if others else []
                why = why_killed(escaped(entry["cause"]), entry["facts"], at)
                return [TimelineRow(at, "killed", _NEWS[entry["what"]], [why, *along])]
            case "kill asked for" | "decommission asked for":
                message = [escaped(entry["message"], TEXT_MAX)] if entry.get("message") else []
                by = ["by the executor itself"] if entry.get("by_executor") else []
                return [TimelineRow(at, "killed", entry["what"], [*message, *by, "from outside"])]
            case "first task":
                return [TimelineRow(at, "quiet", "first task", [f"task {entry['task']} of stage {entry['stage']}"])]
            case "not listed":
                text = f"a full list of {count(entry['pods'], 'pod')} does not have {escaped(entry['pod'], 80)}"
                return [TimelineRow(at, "killed", _NEWS["not listed"], [text])]
            case "disconnected":
                return [TimelineRow(at, "killed", _NEWS["disconnected"], [escaped(entry["address"], 80)])]
            case "silent":
                return [
                    TimelineRow(
                        at, "killed", _NEWS["silent"], [f"last heartbeat {self.printer.clock(entry['last_ms'])}"]
                    )
                ]
            case "exits":
                return [TimelineRow(at, "killed", "exits by itself", [escaped(entry["message"], TEXT_MAX)])]
            case "kill of its host asked for" | "decommission of its host asked for":
                return [TimelineRow(at, "killed", entry["what"], [escaped(entry["host"], 60), "from outside"])]
            case other:
                return [TimelineRow(at, "quiet", _NEWS.get(other, escaped(other)), [])]

    def _asked_for(self, entry: Mapping[str, Any]) -> list[TimelineRow]:
        """Why it was asked for, as which one of how many, after how long, and what had held it back."""
        at, facts, batch = entry["at_ms"], entry["facts"], entry["batch"]
        why = [escaped(entry["cause"]), *facts_words(facts, ("profile",)), f"profile {entry['profile']}"]
        rows = [TimelineRow(at, "raised", "asked for", why)]
        if batch["pods"] > 1:
            place = f"the {_ordinal(batch['place'])} of {batch['pods']:,} ({batch['first']} to {batch['last']})"
            missing = facts.get("missing")
            more = isinstance(missing, int) and missing > batch["pods"]
            of = [f"{missing - batch['pods']:,} more were missing"] if more else []
            rows.append(TimelineRow(at, "quiet", "in a batch", [place, *of]))
        bound = entry.get("bound")
        if bound is not None:
            numbers = facts_words(bound["facts"], ("missing",))
            rows.append(TimelineRow(at, "held", "batch cut", [f"by {bound_words(bound['bound'])}", *numbers]))
        rows += yarn_view.target_rows(entry, self.printer.clock)
        rows += yarn_view.hold_rows(entry, self.printer.clock, "held back until then")
        if entry["claims"]:
            reused = [f"reused {ids([str(one) for one in entry['reused']], 2)}"] if entry["reused"] else []
            rows.append(
                TimelineRow(at, "quiet", "volume claims", [ids([str(one) for one in entry["claims"]], 3), *reused])
            )
        return rows

    def _seen(self, entry: Mapping[str, Any]) -> TimelineRow:
        parts = []
        if "unreadable" in entry:
            parts.append(f"Spark cannot read it: {escaped(entry['unreadable'], TEXT_MAX)}")
        parts += [escaped(f"phase {entry['phase']}", 60)] if "phase" in entry else []
        if "node" in entry:
            parts.append(f"on {escaped(entry['node'], 60)}")
        if "deleted_at" in entry:
            parts.append(f"being deleted since {escaped(entry['deleted_at'], 40)}")
        for container in entry.get("containers", ()):
            code = "" if container["exit_code"] is None else f" with exit code {container['exit_code']}"
            reason = "" if container["reason"] is None else f" ({escaped(container['reason'], 60)})"
            verb = "ended" if container["state"] == "terminated" else "waits"
            parts.append(f"{escaped(container['container'], 60)} {verb}{code}{reason}")
        parts += [escaped(entry[key], TEXT_MAX) for key in ("reason", "message") if key in entry]
        state = entry.get("state", "unreadable")
        mark = {"PodRunning": "raised", "PodFailed": "threw", "PodDeleted": "killed", "PodSucceeded": "lowered"}
        return TimelineRow(entry["at_ms"], mark.get(state, "quiet"), f"seen {state}", parts)

    # ------------------------------------------------------------------------------------------------------ a moment

    def moment(self) -> None:
        """How things stood at a moment."""
        page, document = self.page, self.document["moment"]
        at = document["at_ms"]
        self.header(f"At {self.printer.clock(at)}, {moment(at)}")
        step = document["step"]
        ago = lasting(at - step["at_ms"])
        page.say(f"The last step before it is that of line {step['line']}, {ago} earlier ({step['at_ms']} ms).", "dim")
        self._profiles(document)
        self._held(document, at)
        self._calls(document, at)
        for title, key in (("The last decisions", "last"), ("The next decisions", "next")):
            page.title(title)
            if not document[key]:
                page.say("  none", "dim")
            for decision in document[key]:
                self.printer.records(decision["decided"][:3])
                if decision["commands"] > 3:
                    page.say(f"      and {count(decision['commands'] - 3, 'more command')} of this step", "dim")

    def _profiles(self, document: Mapping[str, Any]) -> None:
        page = self.page
        if "hosts" in document:
            self._containers(document)
            return
        page.title("Targets and pods", "as the allocator counts them")
        if "profiles" not in document:
            aims = ", ".join(f"profile {profile}: {target:,}" for profile, target in document["asked"].items())
            page.say(f"  asked for: {aims or 'nothing yet'}")
            return
        heads = ("profile", "target", "counted", "running", "pending", "known pending", "created", "known created")
        keys = ("target", "counted", "running", "pending", "known_pending", "created", "joined")
        if document["profiles"]:
            page.grid(heads, _rows_of(document["profiles"], keys), (True,) * len(heads))
        else:
            page.say("  no target was set yet", "dim")
        seen = [
            f"{entry['pods']:,} {escaped(entry['state'], 40)}" + _of(entry["profile"]) for entry in document["seen"]
        ]
        page.row("  pods seen  ", seen or ["none"])
        parts = [f"{number:,} {name.replace('_', ' ')}" for name, number in document["executors"].items() if number]
        page.row("  executors  ", parts or ["none registered"])
        if document["failures"]:
            page.row("  failures   ", [f"{document['failures']:,} count"])
        if "round" in document:
            current = document["round"]
            since = self.printer.clock(current["since_ms"])
            parts = [f"began at {since}", f"{current['asked']:,} pods asked for", "waits for calls to come back"]
            page.row("  a round    ", parts)
        self._timer(document)

    def _containers(self, document: Mapping[str, Any]) -> None:
        page = self.page
        page.title("Targets and containers", "as the application master counts them")
        heads = yarn_view.HEADS
        page.grid(heads, _rows_of(document["profiles"], yarn_view.KEYS), (True,) * len(heads))
        for label, figures in yarn_view.standing_words(document):
            page.row(f"  {label:<10} ", figures)
        self._timer(document)

    def _timer(self, document: Mapping[str, Any]) -> None:
        page, timer = self.page, document["next_timer_ms"]
        when = "none: only news can change anything" if timer is None else f"at {self.printer.clock(timer)}"
        page.row("  next timer ", [when])

    def _held(self, document: Mapping[str, Any], at: Millis) -> None:
        page = self.page
        page.title("What was held, and by what")
        if not document["held"]:
            page.say("  nothing", "dim")
        for hold in document["held"]:
            if "facts" in hold:
                page.say(f"  {hold_words(hold, at, self.printer.clock(hold['since_ms']))}", "held")
            else:
                by = bound_words(hold["bound"])
                page.say(f"  {count(hold['executors'], 'executor')} kept by {by}, profile {hold['profile']}", "held")

    def _calls(self, document: Mapping[str, Any], at: Millis) -> None:
        page = self.page
        page.title("Calls under way")
        if not document["calls"]:
            page.say("  none", "dim")
        for call in document["calls"][:CALLS_SHOWN]:
            since = self.printer.clock(call["since_ms"])
            page.say(f"  {call['calls']:,} {call['call']}, the oldest since {since} ({lasting(at - call['since_ms'])})")


def _rows_of(profiles: Mapping[str, Mapping[str, int]], keys: Sequence[str]) -> list[tuple[str, ...]]:
    return [(profile, *(f"{figures[key]:,}" for key in keys)) for profile, figures in profiles.items()]


def _of(profile: str) -> str:
    return "" if profile in ("", "0") else f" of profile {escaped(profile, 20)}"


def _ordinal(number: int) -> str:
    ending = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number:,}{ending}"
