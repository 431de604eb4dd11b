"""The kinds of scenarios that the generator makes: a world for each, and the rules that its scenarios can reach.

A kind plays one scenario through a sink: it draws a setting, and lets its world and what counts the coverage take
turns. What a world is told, the coverage has seen before.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from tests.oracle import (
    lifecycle_reached,
    lifecycle_world,
    oddities,
    pods_reached,
    pods_world,
    podstates_world,
    poll_world,
    reached,
    store_reached,
    store_world,
    yarn_reached,
    yarn_world,
)
from tests.oracle.events import OPTIONAL, Dialect
from tests.oracle.settings import draw
from tests.oracle.watch import Watch
from tests.oracle.world import Answers, Line, Sink, World


class Watched:
    """A sink whose answers the coverage sees before the world does."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self.watch: Watch | None = None

    def put(self, line: Line) -> None:
        """Send a line whose answer can wait."""
        self._sink.put(line)

    def settle(self) -> list[tuple[Line, Answers]]:
        """Return the answers to all lines since the last call, in order."""
        answered = self._sink.settle()
        if self.watch is not None:
            for line, answers in answered:
                self.watch.see(line, answers)
        return answered


@dataclass(frozen=True)
class Kind:
    """A kind of scenario."""

    stem: str
    """What the files are called by."""
    steps: int
    """Steps of a scenario unless told otherwise."""
    refusals: bool
    """Whether some scenarios have a conf that Spark refuses."""
    rules: Mapping[str, str]
    beyond: Mapping[str, str]
    further: tuple[str, ...]
    """Further things that are counted and wanted."""
    play: Callable[[random.Random, Watched, int], Counter[str]]


def draw_dialect(r: random.Random) -> Dialect:
    """Draw the age of the log: most have all fields, some lack a few, some nearly all."""
    how = r.random()
    if how < 0.5:
        return Dialect(null_metrics=r.random() < 0.3)
    missing = r.sample(OPTIONAL, r.randint(1, 4) if how < 0.8 else len(OPTIONAL) - 2)
    return Dialect(frozenset(missing), r.random() < 0.5)


def _eam(r: random.Random, sink: Watched, steps: int) -> Counter[str]:
    setting, dialect = draw(r), draw_dialect(r)
    world = World(r, sink, setting, dialect)
    sink.watch = watch = reached.Reached(setting, world.profiles)
    world.run(steps, oddities.strike)
    watch.counts.update(f"oddity: {name}" for name in world.struck)
    watch.counts.update(f"without: {name}" for name in dialect.without)
    watch.counts["null metrics"] += dialect.null_metrics
    return watch.counts


def _pods(r: random.Random, sink: Watched, steps: int) -> Counter[str]:
    setting = pods_world.draw_setting(r)
    sink.watch = watch = pods_reached.PodsReached(setting)
    pods_world.PodsWorld(r, sink, setting).run(steps)
    return watch.counts


def _lifecycle(r: random.Random, sink: Watched, steps: int) -> Counter[str]:
    setting = lifecycle_world.draw_setting(r)
    sink.watch = watch = lifecycle_reached.LifecycleReached(setting)
    lifecycle_world.LifecycleWorld(r, sink, setting).run(steps)
    return watch.counts


def _store(r: random.Random, sink: Watched, steps: int) -> Counter[str]:
    sink.watch = watch = store_reached.StoreReached()
    store_world.StoreWorld(r, sink).run(steps)
    return watch.counts


def _poll(r: random.Random, sink: Watched, steps: int) -> Counter[str]:
    sink.watch = watch = poll_world.PollReached()
    poll_world.PollWorld(r, sink).run(steps)
    return watch.counts


def _podstates(r: random.Random, sink: Watched, steps: int) -> Counter[str]:
    sink.watch = watch = podstates_world.StatesReached()
    podstates_world.write(r, sink, steps)
    return watch.counts


def _yarn(r: random.Random, sink: Watched, steps: int) -> Counter[str]:
    setting = yarn_world.draw_setting(r)
    sink.watch = watch = yarn_reached.YarnReached(setting)
    yarn_world.YarnWorld(r, sink, setting).run(steps)
    return watch.counts


KINDS: Final[dict[str, Kind]] = {
    "eam": Kind(
        "dynamic",
        300,
        False,
        reached.RULES,
        reached.BEYOND,
        (
            *(f"oddity: {strike.__name__}" for strike in dict.fromkeys(oddities.ODDITIES)),
            *(f"without: {name}" for name in OPTIONAL),
        ),
        _eam,
    ),
    "pods": Kind("pods", 40, True, pods_reached.RULES, pods_reached.BEYOND, (), _pods),
    "lifecycle": Kind("lifecycle", 40, False, lifecycle_reached.RULES, lifecycle_reached.BEYOND, (), _lifecycle),
    "store": Kind("store", 60, False, store_reached.RULES, store_reached.BEYOND, (), _store),
    "poll": Kind("poll", 30, False, poll_world.RULES, poll_world.BEYOND, (), _poll),
    "podstates": Kind("podstates", 100, False, podstates_world.RULES, podstates_world.BEYOND, (), _podstates),
    "yarn": Kind("yarn", 60, True, yarn_reached.RULES, yarn_reached.BEYOND, (), _yarn),
}
