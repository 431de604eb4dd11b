"""The fake cluster as sensor and actuator: jumps from moment to moment, answers at once what comes at once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from podtide.domain.base.randomness import Constant
from podtide.domain.base.units import DEFAULT_PROFILE, NEVER, ExecutorId, Millis
from podtide.domain.fakes.kubernetes import cluster as worlds
from podtide.domain.fakes.kubernetes.cluster import KIND
from podtide.domain.fakes.kubernetes.description import Api, Description
from podtide.domain.protocol.commands import Report
from podtide.domain.protocol.pod_commands import AnswerRegistration, CreatePod, StopApplication
from podtide.domain.protocol.pod_stimuli import Outcome, PodStimulus, RegisterExecutor, Wake
from podtide.domain.protocol.pods import PodNumber
from podtide.domain.protocol.reasons import Cause, Threw, Why
from tests.support.fake_cluster import FakeCluster, NoProgress

WHY = Why(Cause.BELOW_TARGET)
S = 1_000


def cluster(description: Description = KIND, until: Millis = 300 * S, seed: int = 1) -> FakeCluster:
    return FakeCluster(worlds.begin(description, seed, 0), until)


def create(number: int, at: Millis = 0) -> CreatePod:
    return CreatePod(at, number, PodNumber(number), DEFAULT_PROFILE, WHY)


def play(fake: FakeCluster, wake_every: Millis = NEVER) -> list[PodStimulus]:
    heard: list[PodStimulus] = []
    if wake_every != NEVER:
        fake.wake_at(wake_every)
    for batch in fake.batches():
        assert batch
        assert {one.at for one in batch} == {fake.now}
        heard.extend(batch)
        for one in batch:
            if isinstance(one, RegisterExecutor):
                heard.extend(fake.apply(AnswerRegistration(fake.now, one.executor, True, WHY), fake.now))
            elif isinstance(one, Wake):
                fake.wake_at(fake.now + wake_every)
    return heard


def test_moments_follow_one_another_until_the_end() -> None:
    fake = cluster()
    assert fake.apply(create(1), 0) == ()
    heard = play(fake)
    assert [type(one).__name__ for one in heard] == ["Outcome", *["PodsUpdated"] * 3, "RegisterExecutor"]
    assert (fake.now, fake.due()) == (300 * S, NEVER)


def test_what_comes_at_once_is_answered_at_once() -> None:
    fake = cluster(replace(KIND, api=Api(latency=Constant(0))))
    (outcome,) = fake.apply(create(7), 0)
    assert outcome == Outcome(0, 7, found=1)


def test_the_loop_is_woken_when_it_asked() -> None:
    fake = cluster(until=10 * S)
    fake.apply(create(1), 0)
    heard = play(fake, wake_every=3 * S)
    assert [one.at for one in heard if isinstance(one, Wake)] == [3 * S, 6 * S, 9 * S]


def test_a_wake_in_the_past_comes_at_once() -> None:
    fake = cluster()
    fake.now = 5 * S
    fake.wake_at(S)
    assert next(fake.batches()) == [Wake(5 * S)]


def test_it_ends_with_the_application() -> None:
    fake = cluster(until=NEVER)
    fake.apply(create(1), 0)
    for _ in fake.batches():
        fake.apply(StopApplication(fake.now, 0, WHY), fake.now)
    assert fake.now < S
    assert fake.apply(create(2, fake.now), fake.now) == ()


def test_it_ends_where_nothing_lies_ahead() -> None:
    fake = cluster(until=NEVER)
    assert list(fake.batches()) == []
    assert fake.now == 0


def test_a_loop_that_never_lets_time_pass_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.support.fake_cluster.SAME_MOMENT_MAX", 50)
    fake = cluster()
    fake.wake_at(0)
    with pytest.raises(NoProgress, match="50 turns at 0 ms and no end"):
        for _ in fake.batches():
            fake.wake_at(0)


def test_reports_are_handed_on() -> None:
    reports: list[Report] = []
    fake = FakeCluster(worlds.begin(KIND, 1, 0), on_report=reports.append)
    report = Threw(0, "X", "y")
    fake.report(report)
    FakeCluster(worlds.begin(KIND, 1, 0)).report(report)
    assert reports == [report]


def test_two_shells_of_one_world_go_their_own_ways() -> None:
    fake = cluster()
    fake.apply(create(1), 0)
    moment = fake.world
    twin = FakeCluster(moment.fork(), 300 * S)
    first = play(fake)
    twin.apply(create(2), 0)
    second = play(twin)
    assert {one.executor for one in first if isinstance(one, RegisterExecutor)} == {ExecutorId("1")}
    assert {one.executor for one in second if isinstance(one, RegisterExecutor)} == {ExecutorId("1"), ExecutorId("2")}


def test_the_same_seed_gives_the_same_bytes() -> None:
    def story(seed: int) -> bytes:
        fake = cluster(seed=seed)
        for number in range(1, 30):
            fake.apply(create(number), 0)
        return repr(play(fake, wake_every=S)).encode()

    assert story(5) == story(5)
    assert story(5) != story(6)
