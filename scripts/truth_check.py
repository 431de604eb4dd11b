"""Replay real runs and compare with what their drivers decided: ``make truth-check``.

A run is a folder with an event log (``log/``) and the driver's own log (``driver-decisions.log``, or ``.log.zst``). The
runs are those under ``../shared/data/truth``, if that folder stands beside the project, the demo's, and those of tests/truth
(or of ``--truth``). For each run the table says how far the replay's target and kills are from the driver's:

targets   moves of the target, replayed and real; ``off``: the smallest time tolerance under which each side, at every
          move of the other, has or passes the same target
kills     executors let go, replayed and real; ``same``: those that both let go; ``off``: the largest difference in time
kept      seconds, over all executors, in which shuffle data kept an idle executor: replayed, real
          (scripts/kept_executors.py); ``same``: the share of either that is in both

The two clocks differ: the replay ticks on a grid of 100 ms from the application's start, the driver 100 ms after its last
round ended, and it hears events after they happened. Differences beyond the tolerance are explained one by one in
docs/explanation/truth.md, and the table names the reason. Exit code 1 if a peak differs, a target is off by more than
``--tolerance`` ms, or a kill differs, without such a reason. The runs of tests/truth are too many for that: they are
judged together, by the share of the replay's kills that happened and of the driver's kills that the replay proposes
(``SHARE``).
"""

from __future__ import annotations

import argparse
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from podtide.adapters.eventlog.bytes.lines import Chunk
from podtide.adapters.eventlog.bytes.source import open_log
from podtide.adapters.eventlog.sensor import EventLogSensor
from podtide.domain.base.units import Millis
from podtide.entrypoints.replay.run import Replay
from scripts.driver_log import Decided, Removal, TargetMove, driver_decisions, read_lines
from scripts.kept_executors import common, kept_by_driver, kept_by_replay, seconds

PROJECT: Final = Path(__file__).resolve().parent.parent
TRUTH: Final = PROJECT.parent / "shared" / "data" / "truth"
OWN_TRUTH: Final = PROJECT / "tests" / "truth"
SHARE: Final = 0.95
TOLERANCE_MS: Final = 600

LATE_TICKS, PHASE, END, START, UNTIMED = (
    "late ticks",
    "tick phase",
    "end of the log",
    "slow start",
    "event without time",
)
EXPLAINED: Final = {
    "w1/C_b1_i10_max16/run2": LATE_TICKS,
    "w2/G_min2_init4_i3_max8/run1": START,
    "w3/D_b1_i3_min1_max4/run3": PHASE,
    "w6/A_b1_i60_max8/run3": END,
    "w6/F_cores2_i10_max4/run1": END,
    "w6/G_min2_init4_i3_max8/run1": PHASE,
    "demo": UNTIMED,
}
"""Runs that differ by more than the tolerance, and the reason that docs/explanation/truth.md gives."""


class Compared(NamedTuple):
    """One row of the table."""

    run: str
    moves: tuple[int, int]
    peaks: tuple[int, int]
    target_off_ms: int
    kills: tuple[int, int]
    kills_same: int
    kill_off_ms: int
    kept_s: tuple[float, float]
    kept_same_s: float

    @property
    def kept_share(self) -> float:
        """How much of the time that either says is in both; 1 where neither says any."""
        either = sum(self.kept_s) - self.kept_same_s
        return self.kept_same_s / either if either else 1.0

    def faults(self, tolerance_ms: int) -> list[str]:
        """What is beyond the tolerance."""
        found = []
        if self.peaks[0] != self.peaks[1]:
            found.append("peak")
        if self.target_off_ms > tolerance_ms:
            found.append("target")
        if self.kills_same != max(self.kills) or self.kill_off_ms > tolerance_ms:
            found.append("kills")
        return found


class Replayed(NamedTuple):
    """What the replay of a log decides (profile 0) and reports, with the log's idle timeout."""

    decided: Decided
    records: list[dict[str, Any]]
    ended_ms: Millis
    idle_ms: Millis


def replayed(log: Path) -> Replayed:
    """Replay a log."""
    decided = Decided()
    with open_log(str(log)) as source:
        records: list[dict[str, Any]] = []
        replay = Replay(EventLogSensor(source), records.append, bounds=False)
        document = replay.run()
    before: int | None = None
    for record in records:
        if record.get("command") == "requestTotalExecutors":
            target = record["targets"]["0"]
            if before is not None and target != before:
                decided.moves.append(TargetMove(record["at_ms"], 0, target))
            before = target
        elif "ids" in record and "command" in record:
            decided.removals.append(Removal(record["at_ms"], tuple(record["ids"])))
    return Replayed(decided, records, document["app"]["last_ms"], replay.settled.config.idle_timeout_ms)


def off(ours: Sequence[TargetMove], theirs: Sequence[TargetMove]) -> int:
    """The smallest tolerance under which the other side has or passes the target of every move of one side."""
    return max((*_lags(ours, theirs), *_lags(theirs, ours)), default=0)


def _lags(moves: Sequence[TargetMove], others: Sequence[TargetMove]) -> Iterator[int]:
    times = [other.at for other in others]
    for move in moves:
        reach = 0
        while not _passes(others, times, move, reach):
            reach += 1 if reach < 20 else 10
            if reach > 3_600_000:
                break
        yield reach


def _passes(others: Sequence[TargetMove], times: Sequence[int], move: TargetMove, reach: int) -> bool:
    first = max(0, bisect_right(times, move.at - reach) - 1)
    last = bisect_right(times, move.at + reach)
    levels = [other.target for other in others[first:last]]
    return bool(levels) and min(levels) <= move.target <= max(levels)


def compare(run: str, log: Path, driver: Path) -> Compared:
    """Replay one run and set it beside its driver's decisions."""
    replay = replayed(log)
    ours, lines = replay.decided, read_lines(driver)
    theirs = driver_decisions(lines)
    our_kills, their_kills = ours.killed(), theirs.killed()
    same, kill_off = _matched(our_kills, their_kills)
    peaks = tuple(max((move.target for move in side.moves), default=0) for side in (ours, theirs))
    with open_log(str(log)) as source:
        events = [
            line for piece in source.pieces() if isinstance(piece, Chunk) for line in bytes(piece.data).splitlines()
        ]
    kept_real = kept_by_driver(events, lines, their_kills, replay.idle_ms)
    kept_ours = kept_by_replay(replay.records, replay.ended_ms)
    return Compared(
        run,
        (len(ours.moves), len(theirs.moves)),
        (peaks[0], peaks[1]),
        off(ours.moves, theirs.moves),
        (len(our_kills), len(their_kills)),
        same,
        kill_off,
        (seconds(kept_ours), seconds(kept_real)),
        seconds(common(kept_ours, kept_real)),
    )


def _matched(ours: list[tuple[int, str]], theirs: list[tuple[int, str]]) -> tuple[int, int]:
    left: dict[str, list[int]] = {}
    for at, executor in theirs:
        left.setdefault(executor, []).append(at)
    same = farthest = 0
    for at, executor in ours:
        times = left.get(executor)
        if times:
            place = min(bisect_left(times, at), len(times) - 1)
            farthest = max(farthest, abs(times.pop(place) - at))
            same += 1
    return same, farthest


def runs(truth: Path) -> Iterator[tuple[str, Path, Path]]:
    """Every run with dynamic allocation under a folder: its name, its event log, its driver's log."""
    for driver in sorted(truth.glob("*/*/run*/driver-decisions.log*")) if truth.is_dir() else ():
        if "static" not in driver.parent.parent.name:
            yield str(driver.parent.relative_to(truth)), driver.parent / "log", driver


def judged_singly() -> Iterator[tuple[str, Path, Path]]:
    """The runs that are explained one by one."""
    yield from runs(TRUTH)
    for log in sorted((PROJECT / "demo").glob("eventlog_v2_*")):
        yield "demo", log, PROJECT / "demo" / "driver-decisions.log"


HEAD: Final = (
    f"{'run':38} {'moves':>9} {'peak':>7} {'target off':>11} {'kills':>9} {'same':>5} {'kill off':>9} "
    f"{'kept':>15} {'same':>5}"
)


def text_of(row: Compared, remark: str) -> str:
    """A line of the table."""
    return (
        f"{row.run:38} {row.moves[0]:4}/{row.moves[1]:<4} {row.peaks[0]:3}/{row.peaks[1]:<3} "
        f"{row.target_off_ms:8} ms {row.kills[0]:4}/{row.kills[1]:<4} {row.kills_same:5} {row.kill_off_ms:6} ms "
        f"{row.kept_s[0]:7.1f}/{row.kept_s[1]:<7.1f} {row.kept_share:5.0%}  {remark}"
    ).rstrip()


def check_singly(tolerance: int) -> bool:
    """Print the table of the runs that are explained one by one; whether all is well."""
    failed = explained = count = exact = 0
    for run, log, driver in judged_singly():
        row = compare(run, log, driver)
        faults = row.faults(tolerance)
        reason = EXPLAINED.get(run) if faults and "peak" not in faults else None
        failed += bool(faults) and reason is None
        explained += reason is not None
        count += 1
        exact += row.kills_same == max(row.kills)
        print(text_of(row, f"{', '.join(faults)}{f': {reason}' if reason else ''}"))
    print(
        f"{count} runs (replayed/driver), the same kills in {exact}; {explained} differ beyond {tolerance} ms for a reason "
        f"in docs/explanation/truth.md, {failed} without one"
    )
    return bool(count) and not failed


def check_together(truth: Path, tolerance: int) -> bool:
    """Print the table of the runs that are judged together; whether all is well, or there are none."""
    rows = []
    for run, log, driver in runs(truth):
        row = compare(run, log, driver)
        print(text_of(row, ", ".join(row.faults(tolerance))))
        rows.append(row)
    if not rows:
        return True
    same = sum(row.kills_same for row in rows)
    happened, proposed = (same / max(1, sum(row.kills[side] for row in rows)) for side in (0, 1))
    within = sum(row.target_off_ms <= tolerance for row in rows)
    ours, theirs = (sum(row.kept_s[side] for row in rows) for side in (0, 1))
    both = sum(row.kept_same_s for row in rows)
    print(
        f"{len(rows)} runs: targets within {tolerance} ms in {within}, the same peak in "
        f"{sum(row.peaks[0] == row.peaks[1] for row in rows)}; {happened:.1%} of the replay's "
        f"{sum(row.kills[0] for row in rows)} kills happened, {proposed:.1%} of the driver's "
        f"{sum(row.kills[1] for row in rows)} are proposed; kept by shuffle data: {ours:.0f} s replayed, {theirs:.0f} s "
        f"real, {both:.0f} s in both"
    )
    return min(happened, proposed) >= SHARE


def main() -> int:
    """Print the tables; 1 if something differs that is not explained."""
    parser = argparse.ArgumentParser(description="Compare replays with what real drivers decided.")
    parser.add_argument("--tolerance", type=int, default=TOLERANCE_MS, metavar="MS", help="default %(default)s")
    parser.add_argument("--truth", type=Path, default=OWN_TRUTH, help="the runs that are judged together")
    given = parser.parse_args()
    print(HEAD)
    well = [check_singly(given.tolerance), check_together(given.truth, given.tolerance)]
    return 0 if all(well) else 1


if __name__ == "__main__":
    sys.exit(main())
