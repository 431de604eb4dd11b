"""A shadow's recording beside the log of the driver that it stood beside: what both decided, and what only one did.

``shadow_truth.py RECORDING DRIVER_LOG [--limit MS]``. The driver's log is the truth; it needs DEBUG of
ExecutorAllocationManager and of org.apache.spark.scheduler.cluster.k8s, with milliseconds, in UTC. Both clocks are those of
one machine. Four kinds of deeds are compared, each as a sequence in which order counts:

targets   moves of a profile's target (ExecutorAllocationManager)
creates   executor pods asked for (ExecutorPodsAllocator), at the time of the round that decided it: Spark makes the calls
          one after the other, and says each when it is done
deletes   pending pods deleted as excess (ExecutorPodsAllocator)
kills     executors let go for being idle (ExecutorAllocationManager)

``same`` counts what both did in the same order; ``lag`` is our time less the driver's: the median, and the farthest either
way. ``passed`` are moves of the driver's target that the shadow made as part of a larger one: of what happens between two
looks at the REST API it sees the sum. For the same reason executors that the driver let go in two rounds may be let go in
one here, sorted by id: what both did within the limit, but in another order, is counted as the same and as ``swapped``.
Everything that only one of them did is listed with its time. Only what lies between the shadow's first and last step
counts, less ``--limit`` at the end: what the driver did in its last moments, the shadow could not have seen.

Exit code 1 if anything differs or is farther apart than ``--limit`` (default: one allocation round and two polls, 2.5 s).
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from difflib import SequenceMatcher
from pathlib import Path
from typing import Final, NamedTuple

from podtide.adapters.recording.header import RecordingError
from podtide.adapters.recording.reader import Recording
from podtide.domain.base.units import Millis
from podtide.domain.protocol.commands import Decommission, Kill, RequestTotal
from podtide.domain.protocol.pod_commands import CreatePod, DeletePods
from scripts.driver_log import driver_decisions

LIMIT_MS: Final[Millis] = 2_500
KINDS: Final = ("targets", "creates", "deletes", "kills")

_LINE: Final = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[.,]\d{3}) +[A-Z]+ +(\S+): (.*)")
_REQUESTED: Final = re.compile(r"Requested executor with id (\d+) from Kubernetes\.")
_ROUND: Final = re.compile(r"Going to request \d+ executors from Kubernetes ")
_EXCESS: Final = re.compile(r"Deleting \d+ excess pod requests \(([\d,]+)\)\.")


class Deed(NamedTuple):
    """Something that was decided: ``what`` names it, so that the same is equal on both sides. ``value``: of a target."""

    at: Millis
    what: str
    value: int = 0


@dataclass
class Deeds:
    """All that one side decided, by kind, in order; ``first`` and ``last``: when it was there to decide."""

    first: Millis = 0
    last: Millis = 0
    of: dict[str, list[Deed]] = field(default_factory=lambda: {kind: [] for kind in KINDS})

    def note(self, kind: str, at: Millis, what: str, value: int = 0) -> None:
        """Add one."""
        self.of[kind].append(Deed(at, what, value))

    def target(self, at: Millis, profile: int, target: int) -> None:
        """Add a move of a target."""
        self.note("targets", at, f"profile {profile} to {target}", target)


class Row(NamedTuple):
    """One kind compared. ``lags``: ours less theirs of what both did, in ms. ``passed``, ``swapped``: see above."""

    kind: str
    ours: int
    theirs: int
    lags: tuple[Millis, ...]
    passed: int
    swapped: int
    only_ours: tuple[Deed, ...]
    only_theirs: tuple[Deed, ...]

    @property
    def farthest_ms(self) -> Millis:
        """The largest distance in time, either way."""
        return max((abs(lag) for lag in self.lags), default=0)

    def agrees(self, limit_ms: Millis) -> bool:
        """Whether both did the same, in order, within the limit."""
        return not self.only_ours and not self.only_theirs and self.farthest_ms <= limit_ms


class Compared(NamedTuple):
    """Everything compared."""

    rows: tuple[Row, ...]
    first: Millis
    last: Millis

    def agrees(self, limit_ms: Millis) -> bool:
        """Whether nothing differs."""
        return all(row.agrees(limit_ms) for row in self.rows)


def shadow_deeds(recording: str) -> Deeds:
    """What a shadow decided, from its recording. Raises RecordingError."""
    deeds = Deeds()
    with Recording(recording) as steps:
        for step in steps:
            deeds.first = deeds.first or step.at
            deeds.last = step.at
            for command in step.commands:
                match command:
                    case RequestTotal():
                        for change in command.changes:
                            if change.before != change.after:
                                deeds.target(step.at, change.profile, change.after)
                    case CreatePod():
                        deeds.note("creates", step.at, f"executor {command.executor}")
                    case DeletePods(phase="Pending") if command.executors is not None:
                        for executor in command.executors:
                            deeds.note("deletes", step.at, f"executor {executor}")
                    case Kill() | Decommission():
                        for gone in command.executors:
                            deeds.note("kills", step.at, f"executor {gone}")
                    case _:
                        pass
    return deeds


def driver_deeds(lines: Sequence[str]) -> Deeds:
    """What the driver decided, from its log."""
    deeds = Deeds()
    decided_at: Millis = 0
    decided = driver_decisions(lines)
    for move in decided.moves:
        deeds.target(move.at, move.profile, move.target)
    for at, executor in decided.killed():
        deeds.note("kills", at, f"executor {executor}")
    for line in lines:
        line_match = _LINE.match(line)
        if not line_match:
            continue
        at = _millis(line_match[1])
        deeds.first = deeds.first or at
        deeds.last = at
        if not line_match[2].endswith("ExecutorPodsAllocator"):
            continue
        if _ROUND.match(line_match[3]):
            decided_at = at
        elif request := _REQUESTED.match(line_match[3]):
            deeds.note("creates", decided_at or at, f"executor {request[1]}")
        elif excess := _EXCESS.match(line_match[3]):
            for executor in excess[1].split(","):
                deeds.note("deletes", at, f"executor {executor}")
    return deeds


def compare(ours: Deeds, theirs: Deeds, limit_ms: Millis = LIMIT_MS) -> Compared:
    """Set what both decided side by side, over the time in which both were there to decide."""
    first = max(ours.first, theirs.first)
    last = min(ours.last, theirs.last)
    rows = [
        _row(
            kind, _within(ours.of[kind], first, last), _within(theirs.of[kind], first, last), last - limit_ms, limit_ms
        )
        for kind in KINDS
    ]
    return Compared(tuple(rows), first, last)


def _row(kind: str, ours: Sequence[Deed], theirs: Sequence[Deed], settled: Millis, limit_ms: Millis) -> Row:
    pairs = _in_order(ours, theirs)
    mine = set(range(len(ours))) - {left for left, _ in pairs}
    yours = set(range(len(theirs))) - {right for _, right in pairs}
    swapped = [
        (left, right)
        for left in sorted(mine)
        for right in sorted(yours)
        if kind != "targets" and ours[left].what == theirs[right].what
        if abs(ours[left].at - theirs[right].at) <= limit_ms
    ]
    mine -= {left for left, _ in swapped}
    yours -= {right for _, right in swapped}
    lags = tuple(ours[left].at - theirs[right].at for left, right in sorted([*pairs, *swapped]))
    # What one of them did just before the end, the other may have been about to do.
    only_ours = tuple(ours[place] for place in sorted(mine) if ours[place].at < settled)
    only_theirs = [theirs[place] for place in sorted(yours) if theirs[place].at < settled]
    passed = [deed for deed in only_theirs if kind == "targets" and _passed(ours, deed, limit_ms)]
    alone = tuple(deed for deed in only_theirs if deed not in passed)
    return Row(kind, len(ours), len(theirs), lags, len(passed), len(swapped), only_ours, alone)


def _in_order(ours: Sequence[Deed], theirs: Sequence[Deed]) -> list[tuple[int, int]]:
    """The places of what both did in the same order."""
    matcher = SequenceMatcher(None, [deed.what for deed in ours], [deed.what for deed in theirs], autojunk=False)
    return [
        (left + offset, right + offset) for left, right, size in matcher.get_matching_blocks() for offset in range(size)
    ]


def _passed(ours: Sequence[Deed], theirs: Deed, limit_ms: Millis) -> bool:
    """Whether a move of ours, of the same profile and at about that time, led over the target of this one."""
    name = theirs.what.rpartition(" to ")[0]
    before = 0
    for deed in ours:
        if deed.what.rpartition(" to ")[0] != name:
            continue
        low, high = sorted((before, deed.value))
        if low < theirs.value < high and abs(deed.at - theirs.at) <= limit_ms:
            return True
        before = deed.value
    return False


def _within(deeds: Iterable[Deed], first: Millis, last: Millis) -> list[Deed]:
    return [deed for deed in deeds if first <= deed.at <= last]


def table(compared: Compared) -> list[str]:
    """The comparison for people: a table, then what differs."""
    titles = f"{'same':>7}{'passed':>8}{'swapped':>9}{'lag median':>13}{'earliest':>10}{'latest':>9}"
    lines = [f"{'':9}{'shadow':>8}{'driver':>8}{titles}"]
    for row in compared.rows:
        shown = ["-", "-", "-"]
        if row.lags:
            shown = [f"{statistics.median(row.lags):.0f} ms", f"{min(row.lags)} ms", f"{max(row.lags)} ms"]
        lines.append(
            f"{row.kind:9}{row.ours:8}{row.theirs:8}{len(row.lags):7}{row.passed:8}{row.swapped:9}{shown[0]:>13}{shown[1]:>10}{shown[2]:>9}"
        )
    for row in compared.rows:
        for who, deeds in (("shadow", row.only_ours), ("driver", row.only_theirs)):
            lines.extend(f"{row.kind}: {deed.what} by the {who} alone, {_clock(deed.at)}" for deed in deeds)
    return lines


def _clock(at: Millis) -> str:
    return datetime.fromtimestamp(at / 1000, UTC).strftime("%H:%M:%S.%f")[:-3]


def _millis(text: str) -> Millis:
    moment = datetime.strptime(text.replace(",", "."), "%Y-%m-%d %H:%M:%S.%f").replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000)


def main() -> int:
    """Print the comparison; 1 if something differs."""
    parser = argparse.ArgumentParser(description="Compare what a shadow decided with what the driver's log says.")
    parser.add_argument("recording", help="of podtide run --mode shadow --record")
    parser.add_argument("log", type=Path, help="the driver's log")
    parser.add_argument("--limit", type=int, default=LIMIT_MS, metavar="MS", help="default %(default)s")
    given = parser.parse_args()
    try:
        ours = shadow_deeds(given.recording)
        theirs = driver_deeds(given.log.read_text(errors="replace").splitlines())
    except (RecordingError, OSError) as problem:
        print(problem, file=sys.stderr)
        return 3
    compared = compare(ours, theirs, given.limit)
    print("\n".join(table(compared)))
    return 0 if compared.agrees(given.limit) else 1


if __name__ == "__main__":
    sys.exit(main())
