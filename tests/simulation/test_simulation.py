"""Random applications against random clusters: nothing that has to hold is broken, in any weather.

The same cases as ``make soak`` plays by the thousand (scripts/soak.py), drawn by hypothesis, and a stateful run in which the
driver's asks and the passing of time are chosen one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from hypothesis import HealthCheck, given, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from podtide.domain.base.units import NEVER, Millis
from podtide.domain.protocol.allocation_policies import FIXED_POLICIES
from podtide.domain.protocol.application import AnyStimulus
from tests.simulation.driver import Asking
from tests.simulation.play import MODES, Play, play, shrink
from tests.simulation.watcher import Broken, Name
from tests.simulation.weather import PROFILES, Ask, Case, S, draw, drawn

LENGTHY = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
few = settings(max_examples=20, deadline=None, derandomize=True, database=None, suppress_health_check=LENGTHY)

randoms = st.randoms(use_true_random=False)
seeds = st.integers(0, 2**31)


@few
@given(randoms, seeds)
def test_nothing_is_broken_with_the_fixes_on(chance: Random, seed: int) -> None:
    played = play(drawn(chance, seed, helped=True), "fixed")
    assert not played.broken, played.broken[0]


@few
@given(randoms, seeds)
def test_under_sparks_rules_only_what_is_known(chance: Random, seed: int) -> None:
    played = play(drawn(chance, seed), "faithful")
    assert not played.unnamed, played.unnamed[0]


@settings(few, max_examples=6)
@given(seeds)
def test_the_same_seed_gives_the_same_story(seed: int) -> None:
    assert draw(seed) == draw(seed)
    assert play(draw(seed), "faithful") == play(draw(seed), "faithful")


def test_a_failure_is_made_small() -> None:
    case = draw(67)
    first = next(broken for broken in play(case, "faithful").broken if broken.name is Name.LATE_TASK_PENDING)
    small = shrink(67, "faithful", first, tries=8)
    again = play(draw(67, small.without), "faithful", small.until)
    assert len(draw(67, small.without).parts) - len(small.without) < len(case.parts)
    assert again.broken[0] == small.broken
    assert (small.broken.rule, small.broken.name) == (first.rule, first.name)


# One thing after the other.


class Told(Asking):
    """Does what it is told to, when it is told to."""

    def __init__(self, case: Case) -> None:
        super().__init__(replace(case, asks=()))
        self.orders: list[Ask] = []

    def due(self) -> Millis:
        return self.now if self.orders else min(super().due(), self.look_at, NEVER)

    def advance(self, now: Millis) -> Sequence[AnyStimulus]:
        self.asks.extend(self.orders)
        self.orders.clear()
        return super().advance(now)


class Weather(RuleBasedStateMachine):
    """Asks at any time, in any weather; when it is calm at last, all comes to rest."""

    def __init__(self) -> None:
        super().__init__()
        self.run: Play | None = None

    @initialize(chance=randoms, seed=seeds)
    def begin(self, chance: Random, seed: int) -> None:
        case = replace(drawn(chance, seed, helped=True), asks=(), tasks=False)
        conf = {key: value for key, value in case.conf if not key.startswith("spark.dynamicAllocation.m")}
        conf["spark.dynamicAllocation.enabled"] = "false"
        quiet = replace(case.description, api=replace(case.description.api, quota_pods=None))
        self.run = Play(replace(case, conf=tuple(conf.items()), description=quiet), FIXED_POLICIES)
        self.told = Told(self.run.case)
        self.run.half = self.told
        self.run.simulation.environment.script = self.told
        self.run.loop.launch()

    @property
    def storming(self) -> bool:
        return self.run is not None and not self.run.over and self.run.loop.now < self.run.case.calm_ms

    def tell(self, ask: Ask) -> None:
        assert self.run is not None
        self.told.orders.append(replace(ask, at=self.run.loop.now))

    @precondition(lambda self: self.storming)
    @rule(profile=st.sampled_from(PROFILES), number=st.integers(0, 12))
    def target(self, profile: int, number: int) -> None:
        self.tell(Ask(0, "target", PROFILES[profile], number))

    @precondition(lambda self: self.storming)
    @rule(what=st.sampled_from(["kill", "force", "decommission", "busy", "idle"]), number=st.integers(0, 12))
    def executor(self, what: str, number: int) -> None:
        self.tell(Ask(0, what, PROFILES[0], number))

    @rule(ms=st.sampled_from([50, S, 7 * S, 45 * S]))
    def wait(self, ms: Millis) -> None:
        if self.run is not None and self.storming:
            self.run.loop.run(self.run.loop.now + ms)

    @invariant()
    def nothing_is_broken(self) -> None:
        assert self.run is None or not self.run.watcher.broken, self.first()

    def first(self) -> Broken | None:
        return self.run.watcher.broken[0] if self.run is not None and self.run.watcher.broken else None

    def teardown(self) -> None:
        if self.run is None or self.run.over:
            return
        asked = tuple(Ask(0, "target", profile, number) for profile, number in sorted(self.told.targets.items()))
        self.run.case = replace(self.run.case, asks=asked)  # what the bound is counted from
        self.run.storm_on()
        self.run.rest(self.run.bound())
        assert not self.run.watcher.broken, self.first()


TestWeather = Weather.TestCase
TestWeather.settings = settings(few, max_examples=12, stateful_step_count=30)

assert set(MODES) == {"faithful", "fixed"}
