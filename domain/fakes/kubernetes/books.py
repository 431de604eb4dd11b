"""The inside of a world: tables of immutable rows, what lies ahead in time, and indexes over both.

A ``World`` owns mutable books and hands them on to its successor with a journal, as every large value here does
(``base.versioned``). That is affordable because nothing but ``Table`` is ever written to: the first time a step touches a
key the table keeps what was there, so the journal of a step is as large as what the step touched, and going back is
putting the old rows back. All that is derived (the heap of times, the indexes, the counts) is made anew from the
tables then. The alternative, to refuse an older world, would be cheaper by a tenth and forbid the one thing that a
pure world is for: going on from the same moment twice.

What lies ahead is a row of ``agenda`` under a serial number, which also orders what happens at the same millisecond; a
heap holds (time, serial). Cancelling deletes the row. Iteration never depends on the history of a dict: serials and
uids only grow, and where order matters among names it is sorted.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterator
from typing import Any, Self, TypeVar, cast

from podtide.domain.base.randomness import Stream, split
from podtide.domain.base.units import NEVER, Millis
from podtide.domain.base.versioned import JournalEntry
from podtide.domain.fakes.kubernetes.description import Description, Life, Shape, Stage
from podtide.domain.fakes.kubernetes.rows import (
    Application,
    CallRow,
    Change,
    ClaimRow,
    Due,
    Kind,
    NodeRow,
    PodRow,
    SetRow,
)
from podtide.domain.fakes.tables import Table
from podtide.domain.protocol.config import SourcesConfig
from podtide.domain.protocol.pod_stimuli import PodStimulus
from podtide.domain.protocol.pods import UNNAMED_EXECUTOR, PodManifest

H = TypeVar("H", bound=Hashable)
M = TypeVar("M")


class Plan:
    """What follows from a description alone: computed once, shared by all versions of a world."""

    def __init__(self, description: Description, sources: SourcesConfig, app: Application, polls: bool) -> None:
        self.description = description
        self.sources = sources
        self.app = app
        self.polls = polls
        # By name, so that the order in which a file lists its stages changes nothing.
        self.stages = tuple(sorted(description.executors.stages, key=_stage_name))
        self.weighted: dict[Life, list[tuple[int, Stage]]] = {}
        self.rated: dict[Life, list[tuple[int, Stage]]] = {}
        for place, stage in enumerate(self.stages):
            if stage.weight == 0 and stage.per_hour is None:
                continue
            by = self.weighted if stage.per_hour is None else self.rated
            by.setdefault(stage.source, []).append((place, stage))
        self.shapes = dict(description.executors.profiles)
        self.history_ms = description.api.stale_age.quantile(1.0) if description.api.stale else 0

    def shape(self, profile: int) -> Shape:
        """What a pod of this profile requests."""
        return self.shapes.get(profile, self.description.executors.shape)


def _stage_name(stage: Stage) -> str:
    return stage.name


class Books:
    """The mutable inside of a world."""

    def __init__(self, plan: Plan, seed: Stream, began: Millis) -> None:
        self.plan = plan
        self.seed = seed
        self.began = began
        self.agenda: Table[int, Due] = Table()
        self.pods: Table[int, PodRow] = Table()
        self.nodes: Table[int, NodeRow] = Table()
        self.coming: Table[int, int] = Table()
        self.calls: Table[int, CallRow] = Table()
        self.lanes: Table[int, int] = Table()
        self.sets: Table[int, SetRow] = Table()
        self.claims: Table[str, ClaimRow] = Table()
        self.history: Table[int, Change] = Table()
        self.backlog: Table[int, PodManifest] = Table()
        self.numbers: Table[str, int] = Table()
        self.tally: Table[str, int] = Table()
        self.said: list[PodStimulus] = []
        self.recount()

    # versions

    def tables(self) -> tuple[Table[int, object] | Table[str, object], ...]:
        """Every table, in one order."""
        return (self.agenda, self.pods, self.nodes, self.coming, self.calls, self.lanes, self.sets, self.claims,
                self.history, self.backlog, self.numbers, self.tally)  # type: ignore[return-value]  # fmt: skip

    def copy(self) -> Self:
        """Return independent books with the same rows; what is derived is made by ``recount``."""
        twin = type(self).__new__(type(self))
        twin.plan, twin.seed, twin.began, twin.said = self.plan, self.seed, self.began, []
        for name in ("agenda", "pods", "nodes", "coming", "calls", "lanes", "sets", "claims", "history", "backlog",
                     "numbers", "tally"):  # fmt: skip
            setattr(twin, name, Table(dict(getattr(self, name).rows)))
        return twin

    def journal(self) -> list[JournalEntry]:
        """What the step overwrote; the next step begins."""
        entries: list[JournalEntry] = []
        for place, table in enumerate(self.tables()):
            if table.old:
                entries.append((place, table.old))
                table.old = {}
        return entries

    def undo(self, journal: list[JournalEntry]) -> None:
        """Take one step back."""
        tables = self.tables()
        for place, old in journal:
            tables[cast(int, place)].undo(cast("dict[Any, Any]", old))

    def recount(self) -> None:
        """Make the heap, the indexes and the counts anew."""
        for table in self.tables():
            table.sort()
        self.heap = [(due.at, serial) for serial, due in self.agenda.rows.items()]
        heapq.heapify(self.heap)
        self.names: dict[str, int] = {}
        self.labels: dict[str, dict[int, None]] = {}
        self.speakers: dict[str, dict[int, None]] = {}
        self.owned: dict[int, dict[int, None]] = {}
        self.aboard: dict[int, dict[int, None]] = {}
        self.waiting: dict[Shape, dict[int, int]] = {}
        self.counts: dict[tuple[int, Life], int] = {}
        self.unfinished = 0
        for pod in self.pods.rows.values():
            self._enter(pod)
        for shape, tickets in self.waiting.items():
            self.waiting[shape] = dict(sorted(tickets.items()))
        self.in_group = [0] * len(self.plan.description.groups)
        self.set_names = {row.name: number for number, row in self.sets.rows.items()}
        for node in self.nodes.rows.values():
            self.in_group[node.group] += 1
        for group in self.coming.rows.values():
            self.in_group[group] += 1

    # numbers

    def number(self, name: str) -> int:
        """A counter or flag; 0 at first."""
        return self.numbers.rows.get(name, 0)

    def next(self, name: str) -> int:
        """Count one up; returns the new count."""
        count = self.numbers.rows.get(name, 0) + 1
        self.numbers.put(name, count)
        return count

    def count(self, name: str, by: int = 1) -> None:
        """Add to what the summary tells."""
        self.tally.put(name, self.tally.rows.get(name, 0) + by)

    def stream(self, family: int, key: int) -> Stream:
        """The stream of one pod, node, call or event."""
        return split(split(self.seed, family), key)

    def faulty(self, now: Millis) -> bool:
        """Whether faults may begin."""
        calm = self.plan.description.calm_ms
        return calm is None or now - self.began < calm

    # what lies ahead

    def later(self, at: Millis, kind: Kind, a: int = 0, b: int = 0, say: PodStimulus | None = None) -> int:
        """Put something into the agenda; returns its serial."""
        serial = self.next("agenda")
        self.agenda.put(serial, Due(at, kind, a, b, say))
        heap = self.heap
        heapq.heappush(heap, (at, serial))
        if len(heap) > 2 * len(self.agenda.rows) + 1_000:  # what was cancelled is dropped at last
            self.heap = [(due.at, serial) for serial, due in self.agenda.rows.items()]
            heapq.heapify(self.heap)
        return serial

    def cancel(self, serial: int) -> None:
        """Take something out of the agenda, if it is still there."""
        if serial:
            self.agenda.drop(serial)

    def due(self) -> Millis:
        """When something lies ahead next."""
        heap, agenda = self.heap, self.agenda.rows
        while heap:
            if heap[0][1] in agenda:
                return heap[0][0]
            heapq.heappop(heap)
        return NEVER

    def pop(self, until: Millis) -> Iterator[Due]:
        """What lies ahead up to and including ``until``, in order, also what is put there meanwhile."""
        while (at := self.due()) <= until and at != NEVER:
            _, serial = heapq.heappop(self.heap)
            due = self.agenda.drop(serial)
            assert due is not None
            yield due

    # pods

    def put_pod(self, pod: PodRow) -> None:
        """Write a pod and keep the indexes."""
        old = self.pods.rows.get(pod.uid)
        self.pods.put(pod.uid, pod)
        if old is not None:
            if (
                old.life is pod.life and old.node == pod.node and old.ticket == pod.ticket
                and old.label == pod.label and old.executor == pod.executor and old.manifest.phase == pod.manifest.phase
            ):  # fmt: skip
                return
            self._leave(old)
        self._enter(pod)

    def drop_pod(self, pod: PodRow) -> None:
        """Forget a pod."""
        self._leave(self.pods.rows[pod.uid])
        self.pods.drop(pod.uid)

    def _enter(self, pod: PodRow) -> None:
        uid = pod.uid
        self.names[pod.name] = uid
        if pod.label != UNNAMED_EXECUTOR:
            self.labels.setdefault(pod.label, {})[uid] = None
        if pod.executor:
            self.speakers.setdefault(pod.executor, {})[uid] = None
        if pod.owner:
            self.owned.setdefault(pod.owner, {})[uid] = None
        if pod.node:
            self.aboard.setdefault(pod.node, {})[uid] = None
        if pod.ticket:
            self.waiting.setdefault(self.plan.shape(pod.profile), {})[pod.ticket] = uid
        key = (pod.profile, pod.life)
        self.counts[key] = self.counts.get(key, 0) + 1
        self.unfinished += not pod.finished

    def _leave(self, pod: PodRow) -> None:
        uid = pod.uid
        self.names.pop(pod.name, None)
        if pod.label != UNNAMED_EXECUTOR:
            _remove(self.labels, pod.label, uid)
        if pod.executor:
            _remove(self.speakers, pod.executor, uid)
        if pod.owner:
            _remove(self.owned, pod.owner, uid)
        if pod.node:
            _remove(self.aboard, pod.node, uid)
        if pod.ticket:
            _remove(self.waiting, self.plan.shape(pod.profile), pod.ticket)
        key = (pod.profile, pod.life)
        self.counts[key] -= 1
        if not self.counts[key]:
            del self.counts[key]
        self.unfinished -= not pod.finished

    def labelled(self, label: str) -> list[PodRow]:
        """The pods with this label spark-exec-id, oldest first."""
        rows = self.pods.rows
        return [rows[uid] for uid in sorted(self.labels.get(label, ()))]

    def speaking(self, executor: str) -> list[PodRow]:
        """The pods whose process goes by this executor id, oldest first."""
        rows = self.pods.rows
        return [rows[uid] for uid in sorted(self.speakers.get(executor, ()))]


def _remove(index: dict[H, dict[int, M]], key: H, member: int) -> None:
    members = index[key]
    del members[member]
    if not members:
        del index[key]
