"""One case played against its cluster, watched; and a case that fails made small."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from podtide.domain.base.units import Millis
from podtide.domain.fakes.kubernetes import cluster as worlds
from podtide.domain.fakes.kubernetes.cluster import KubernetesCluster
from podtide.domain.protocol.allocation_policies import FIXED_POLICIES, SPARK_POLICIES, Policies
from podtide.entrypoints.common.app_loop import Stuck
from podtide.entrypoints.simulate.run import Setup, Simulation
from tests.simulation.driver import Asking, Working
from tests.simulation.watcher import Broken, Name, Watcher
from tests.simulation.weather import APP, Case, S, draw, patience

MODES: dict[str, Policies] = {"faithful": SPARK_POLICIES, "fixed": FIXED_POLICIES}

CHECK_EVERY_MS: Millis = 5 * S
"""How often a calm run is asked whether it has come to rest."""

CALLS_MAX = 20_000
"""Calls under way at which a case is cut off: deletes that nobody waits for pile up while the API loses them."""

WORK_MS: Millis = 25 * S
"""The longest that a task takes, and the way to the next one."""


@dataclass(frozen=True)
class Played:
    """What came of a case. ``rested_ms``: how long after the calm the target was reached (None: it was not, or need not)."""

    steps: int
    broken: tuple[Broken, ...]
    tally: dict[str, int]
    end: Millis
    rested_ms: Millis | None
    bound_ms: Millis
    note: str

    @property
    def unnamed(self) -> tuple[Broken, ...]:
        """What nobody has explained."""
        return tuple(broken for broken in self.broken if broken.name is Name.UNNAMED)


class Play:
    """A case under way."""

    def __init__(self, case: Case, policies: Policies) -> None:
        self.case = case
        self.config = case.config(policies)
        self.watcher = Watcher(self.config, self.look)
        self.half: Asking | Working = Working(case) if case.tasks else Asking(case)
        setup = Setup(self.config, case.description, case.seed, 0, 2**40, APP)
        self.simulation = Simulation(setup, self.half, [self.watcher])
        self.loop = self.simulation.loop

    def look(self) -> KubernetesCluster:
        """The cluster as it is now."""
        world = self.simulation.environment.world
        assert isinstance(world, KubernetesCluster)
        return world

    @property
    def over(self) -> bool:
        """Whether there is nothing more to see: the application ended, or something is wrong that has no name."""
        ended = self.simulation.environment.ended is not None
        return ended or any(broken.name is Name.UNNAMED for broken in self.watcher.broken)

    @property
    def piled_up(self) -> bool:
        """Whether more calls are under way than are worth living through."""
        return worlds.census(self.look()).calls_open > CALLS_MAX

    def storm(self, until: Millis | None) -> None:
        """Live through the bad weather."""
        self.loop.launch()
        self.storm_on(until)

    def storm_on(self, until: Millis | None = None) -> None:
        """Go on living through it."""
        stop = self.case.calm_ms if until is None else min(until, self.case.calm_ms)
        while self.loop.now < stop and not self.over and not self.piled_up:
            self.loop.run(min(stop, self.loop.now + 60 * S))

    def bound(self) -> Millis:
        """How long it may take from now on."""
        bound = patience(self.case, self.config, worlds.census(self.look()).calls_open)
        if isinstance(self.half, Working):
            bound += WORK_MS * (len(self.half.running) + sum(stage.left for stage in self.half.stages))
        return bound

    def rest(self, bound: Millis) -> tuple[Millis | None, str]:
        """Wait until it has come to rest, and stays so for as long as nobody can miss that it does not; or for the bound."""
        loop, watcher, calm = self.loop, self.watcher, self.loop.now
        side = self.config.kubernetes
        holds = 2 * CHECK_EVERY_MS + side.lifecycle.missing_delta_ms + 2 * side.sources.poll_interval_ms
        since: Millis | None = None
        while not self.over:
            loop.run(loop.now + CHECK_EVERY_MS)
            if self.over:
                break
            left = watcher.settled(loop.state) if self.half.done() else ("work to do", {})
            if left is None:
                since = loop.now if since is None else since
                if loop.now - since >= holds:
                    return since - calm, ""
                continue
            since = None
            if out_of_ids(self):
                return None, "allocation.maximum reached"
            if loop.now - calm > bound:
                watcher.unsettled(loop.state, loop.now, *left)
                break
        return None, ""


def out_of_ids(play: Play) -> bool:
    """Whether no executor may be created any more."""
    side = play.loop.state.kubernetes
    return (
        side is not None
        and side.allocator is not None
        and (side.allocator.executors + 1 >= play.config.kubernetes.allocation.pods_max)
    )


def play(case: Case, mode: str, until: Millis | None = None) -> Played:
    """Play a case to its end, to the first violation, or up to ``until``."""
    run = Play(case, MODES[mode])
    rested: Millis | None = None
    bound, note = 0, ""
    run.storm(until)
    if run.piled_up:
        note = f"cut off with more than {CALLS_MAX:,} calls under way"
    elif until is None and not run.over:
        bound = run.bound()
        rested, note = run.rest(bound)
    watcher = run.watcher
    if watcher.ended is not None:
        note = f"ended by the driver with exit code {watcher.ended}"
    tally = Counter(run.simulation.tally)
    tally.update({f"not in the books: {reason.value}": n for reason, n in watcher.explained.items()})
    tally.update({f"threw {what}": n for what, n in watcher.threw.items()})
    tally.update({f"driver: {what}": n for what, n in run.half.summary().items()})
    return Played(run.loop.steps, tuple(watcher.broken), dict(tally), run.loop.now, rested, bound, note)


@dataclass(frozen=True)
class Small:
    """A failure made small: the case without what it does not need, and up to when it has to be played."""

    seed: int
    without: frozenset[str]
    until: Millis | None
    broken: Broken


def shrink(seed: int, mode: str, first: Broken, without: frozenset[str] = frozenset(), tries: int = 150) -> Small:
    """Leave out part after part as long as the same rule is broken, then cut the run off right behind it."""

    def fails(off: frozenset[str], until: Millis | None) -> Broken | None:
        try:
            played = play(draw(seed, off, helped=mode == "fixed"), mode, until)
        except Stuck:
            return None
        return next((b for b in played.broken if (b.rule, b.name) == (first.rule, first.name)), None)

    best = first
    for part in draw(seed, without).parts:
        if tries <= 0:
            break
        tries -= 1
        found = fails(without | {part}, None)
        if found is not None:
            without, best = without | {part}, found
    until = best.at + 1
    cut = fails(without, until)
    return Small(seed, without, until if cut is not None else None, cut or best)
