"""Live through bad weather for as long as it takes: random applications against random clusters, watched at every step.

``python scripts/soak.py`` (``make soak``) draws cases one seed after the other (tests/simulation/weather.py: a cluster with
faults, a conf, what the driver asks for), plays each until its faults have stopped and it has come to rest, and holds what
has to hold (tests/simulation/watcher.py). It stops when enough steps are done, and prints what was reached and what was
broken by name. The first violation of each name is shown with the command that replays it; one that has no name is made
small first, by leaving out parts of its case and cutting the run off behind it.

Environment, all optional: STEPS (in all, 1000000), MODE (fixed: every fix on; faithful: Spark's rules), SEED (of the first
case, 0), PROCESSES (2).

``python scripts/soak.py --seed 17 --mode faithful [--without PART]... [--until MS]`` plays one case and tells of it.

Exit code: 0 no violation, or with MODE=faithful only those that Spark's rules are known for
(docs/reference/known-violations.md); 1 a violation without a name, or any with the fixes on; 2 wrong usage.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from itertools import count
from pathlib import Path
from typing import Final, NamedTuple

PROJECT: Final = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(PROJECT), str(PROJECT / ".typing")]

from podtide.entrypoints.common.app_loop import Stuck  # noqa: E402
from tests.simulation.play import MODES, Played, Small, play, shrink  # noqa: E402
from tests.simulation.watcher import Broken, Name  # noqa: E402
from tests.simulation.weather import draw  # noqa: E402

BROKEN: Final = 1
MISUSED: Final = 2
CHUNK: Final = 8
"""Cases that a process plays before it reports."""

PROGRESS_S: Final = 10.0


class Reached(NamedTuple):
    """What a few cases came to."""

    cases: int
    steps: int
    tally: Counter[str]
    notes: Counter[str]
    broken: list[tuple[int, Broken]]
    rested_ms: list[int]
    share: float
    virtual_ms: int


def one(seed: int, mode: str, without: frozenset[str] = frozenset(), until: int | None = None) -> Played:
    """Play the case of a seed."""
    return play(draw(seed, without, helped=mode == "fixed"), mode, until)


def some(first: int, mode: str) -> Reached:
    """Play a few cases, one seed after the other."""
    reached = Reached(0, 0, Counter(), Counter(), [], [], 0.0, 0)
    for seed in range(first, first + CHUNK):
        try:
            played = one(seed, mode)
        except Stuck as stuck:
            broken = Broken(0, f"virtual time stands still: {stuck}", Name.UNNAMED, {})
            reached.broken.append((seed, broken))
            continue
        reached.tally.update(played.tally)
        if played.note:
            reached.notes[played.note] += 1
        names = {broken.name: broken for broken in reversed(played.broken)}
        reached.broken.extend((seed, broken) for broken in names.values())
        share = 0.0
        if played.rested_ms is not None:
            reached.rested_ms.append(played.rested_ms)
            share = played.rested_ms / played.bound_ms
        reached = reached._replace(
            cases=reached.cases + 1, steps=reached.steps + played.steps, share=max(reached.share, share),
            virtual_ms=reached.virtual_ms + played.end,
        )  # fmt: skip
    return reached


class Soak:
    """A soak under way: what was reached so far."""

    def __init__(self, steps: int, mode: str, first: int, processes: int) -> None:
        self.steps_wanted, self.mode, self.processes = steps, mode, processes
        self.seeds: Iterator[int] = count(first, CHUNK)
        self.began = time.monotonic()
        self.report_at = self.began
        self.sum = Reached(0, 0, Counter(), Counter(), [], [], 0.0, 0)

    def run(self) -> None:
        """Play until enough steps are done, or something is broken that has no name."""
        with ProcessPoolExecutor(self.processes) as pool:
            open_: set[Future[Reached]] = {self._next(pool) for _ in range(self.processes + 1)}
            while open_:
                done, open_ = wait(open_, timeout=PROGRESS_S, return_when=FIRST_COMPLETED)
                for future in done:
                    self._add(future.result())
                    if self.sum.steps < self.steps_wanted and not self.unnamed:
                        open_.add(self._next(pool))
                self._progress(force=not open_)

    def _next(self, pool: ProcessPoolExecutor) -> Future[Reached]:
        return pool.submit(some, next(self.seeds), self.mode)

    def _add(self, more: Reached) -> None:
        now = self.sum
        now.tally.update(more.tally)
        now.notes.update(more.notes)
        now.broken.extend(more.broken)
        now.rested_ms.extend(more.rested_ms)
        self.sum = now._replace(
            cases=now.cases + more.cases, steps=now.steps + more.steps, share=max(now.share, more.share),
            virtual_ms=now.virtual_ms + more.virtual_ms,
        )  # fmt: skip

    @property
    def unnamed(self) -> list[tuple[int, Broken]]:
        """Violations that fail the soak."""
        return [(s, b) for s, b in self.sum.broken if b.name is Name.UNNAMED or self.mode == "fixed"]

    def _progress(self, *, force: bool) -> None:
        now = time.monotonic()
        if not force and now - self.report_at < PROGRESS_S:
            return
        self.report_at = now
        spent = now - self.began
        sys.stderr.write(
            f"{self.sum.steps:>10,} steps  {self.sum.cases:>6,} cases  {self.sum.steps / spent:>7,.0f} steps/s  "
            f"{len(self.sum.broken):,} violations\n"
        )

    def tell(self) -> int:
        """Print what was reached; the exit code."""
        total, spent = self.sum, time.monotonic() - self.began
        days = total.virtual_ms / 86_400_000
        print(f"mode        {self.mode}")
        print(f"steps       {total.steps:,} in {total.cases:,} cases, {days:,.1f} days of virtual time")
        print(f"speed       {total.steps / spent:,.0f} steps/s ({spent:,.0f} s, {self.processes} processes)")
        if total.rested_ms:
            rested = sorted(total.rested_ms)
            half, most = rested[len(rested) // 2] / 1000, rested[-1] / 1000
            print(f"at rest     {len(rested):,} cases, {half:.0f} s after the calm (median), {most:.0f} s at most,")
            print(f"            {total.share:.0%} of the bound at most")
        for note, times in sorted(total.notes.items()):
            print(f"not at rest {times:,} cases: {note}")
        print("\nreached")
        for name, times in sorted(total.tally.items()):
            print(f"  {times:>12,}  {name}")
        print("\nviolations")
        names = Counter(broken.name.value for _, broken in total.broken)
        for name, cases in names.most_common():
            print(f"  {cases:>12,}  {name} (cases)")
        if not names:
            print("             0")
        shown: set[Name] = set()
        for seed, broken in sorted(total.broken, key=_seed):
            if broken.name not in shown:
                shown.add(broken.name)
                print(f"\n{broken}\n  replay: {command(seed, self.mode)}")
        if not self.unnamed:
            return 0
        seed, broken = min(self.unnamed, key=_seed)
        print(f"\nmaking seed {seed} small ...", flush=True)
        small = shrink(seed, self.mode, broken)
        print(f"{small.broken}\n  replay: {replay(small, self.mode)}")
        return BROKEN


def _seed(item: tuple[int, Broken]) -> int:
    return item[0]


def command(seed: int, mode: str) -> str:
    """The command that plays a case again."""
    return f"python scripts/soak.py --seed {seed} --mode {mode}"


def replay(small: Small, mode: str) -> str:
    """The command that plays a small case again."""
    off = "".join(f" --without {part!r}" for part in sorted(small.without))
    return command(small.seed, mode) + ("" if small.until is None else f" --until {small.until}") + off


def tell_one(seed: int, mode: str, without: frozenset[str], until: int | None) -> int:
    """Play one case and print what came of it; the exit code."""
    case = draw(seed, without, helped=mode == "fixed")
    unknown = without.difference(case.parts)
    if unknown:
        sys.stderr.write(f"--without {sorted(unknown)[0]!r}: expected one of {', '.join(case.parts)}\n")
        return MISUSED
    print("parts       " + ", ".join(part for part in case.parts if part not in without))
    for key, value in case.conf:
        print(f"conf        {key}={value}")
    for ask in case.asks:
        print(f"ask         {ask.at} ms: {ask.what} {ask.number} of profile {ask.profile}")
    played = play(case, mode, until)
    print(f"steps       {played.steps:,}, up to {played.end:,} ms of virtual time")
    if played.rested_ms is not None:
        print(
            f"at rest     {played.rested_ms / 1000:.0f} s after the calm; the bound was {played.bound_ms / 1000:.0f} s"
        )
    if played.note:
        print(f"            {played.note}")
    for name, times in sorted(played.tally.items()):
        print(f"  {times:>12,}  {name}")
    for broken in played.broken:
        print(broken)
    return BROKEN if played.unnamed or (played.broken and mode == "fixed") else 0


def main() -> int:
    """Read the environment and the arguments, and soak."""
    env = os.environ
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--steps", type=int, default=int(env.get("STEPS", "1000000")), help="steps in all")
    parser.add_argument("--mode", choices=sorted(MODES), default=env.get("MODE", "fixed"))
    parser.add_argument("--first", type=int, default=int(env.get("SEED", "0")), help="seed of the first case")
    parser.add_argument("--processes", type=int, default=int(env.get("PROCESSES", "2")))
    parser.add_argument("--seed", type=int, help="play this case alone")
    parser.add_argument("--without", action="append", default=[], metavar="PART", help="leave a part of the case out")
    parser.add_argument("--until", type=int, metavar="MS", help="stop there in virtual time")
    given = parser.parse_args()
    if given.mode not in MODES:  # argparse does not check a default
        parser.error(f"MODE={given.mode}: expected one of {', '.join(sorted(MODES))}")
    if given.seed is not None:
        return tell_one(given.seed, given.mode, frozenset(given.without), given.until)
    soak = Soak(given.steps, given.mode, given.first, given.processes)
    soak.run()
    return soak.tell()


if __name__ == "__main__":
    sys.exit(main())
