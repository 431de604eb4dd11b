"""A description from what was seen: a known cluster is played, and what is fitted to it must be that cluster again."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from podtide.domain.base.randomness import Constant, LogNormal, Quantiles, Uniform
from podtide.domain.base.units import DEFAULT_PROFILE, ExecutorId
from podtide.domain.fakes import fitting
from podtide.domain.fakes.fitting import DurationSample, Evidence, Fitted
from podtide.domain.fakes.kubernetes.checks import problems
from podtide.domain.fakes.kubernetes.cluster import KIND
from podtide.domain.fakes.kubernetes.description import (
    Api,
    Description,
    Fault,
    Life,
    Lost,
    NodeGroup,
    PodStage,
    Verb,
    Watch,
)
from podtide.domain.fakes.kubernetes.fit import fit
from podtide.domain.protocol.cluster_config import SourcesConfig
from podtide.domain.protocol.executor_commands import DecommissionExecutors, ExitReason, RemoveExecutor
from podtide.domain.protocol.executor_stimuli import RegisterExecutor
from podtide.domain.protocol.pod_commands import CreatePod, DeletePods, ListPods
from podtide.domain.protocol.pod_stimuli import Outcome, PodsReplaced, PodsUpdated
from podtide.domain.protocol.pods import PodManifest, PodNumber
from tests.support.world_play import WHY, Driver, S, plain, quick, stage


def played(description: Description, count: int = 300, until: int = 600, seed: int = 1, **begin: object) -> Driver:
    """A driver with so many pods, a hundred at a time."""
    driver = Driver(description, seed, **begin)  # type: ignore[arg-type]
    for first in range(1, count + 1, 100):
        driver.create(*range(first, min(first + 100, count + 1)))
        driver.until(driver.now + 60 * S)
    return driver.until(until * S)


def fitted(driver: Driver) -> Fitted[Description]:
    found = fit(driver.observed)
    assert problems(found.description) == ()
    return found


def stages(found: Fitted[Description]) -> dict[str, PodStage]:
    return {s.name: s for s in found.description.executors.stages}


def evidence(found: Fitted[Description], key: str) -> Evidence:
    (one,) = [e for e in found.evidence if e.key == key]
    return one


def test_nothing_seen_is_the_default() -> None:
    found = fit([])
    assert found.description == KIND
    assert {e.observations for e in found.evidence} == {0}
    assert evidence(found, "stages.pull").text == "not seen: the default"


def test_a_cluster_without_chance_is_found_to_the_millisecond() -> None:
    found = fitted(played(plain(groups=(NodeGroup("worker", 20),))))
    life = stages(found)
    delays = {name: life[name].delay for name in ("schedule", "pull", "pulled", "start", "register")}
    assert delays == {
        "schedule": Constant(10), "pull": Constant(5_200), "pulled": Constant(300), "start": Constant(0),
        "register": Constant(1_000 + 2 - 10),  # from seen to heard
    }  # fmt: skip
    assert found.description.api.latency == Constant(20)
    assert found.description.watch.delay == Constant(10)
    counts = {e.key: e.observations for e in found.evidence}
    assert (counts["stages.register"], counts["stages.pull"], counts["api.latency"]) == (300, 20, 300)
    assert found.description.groups == (replace(KIND.groups[0], count=20),)  # no pod waited: as many nodes as were seen


def test_distributions_are_found() -> None:
    truth = plain(
        stage("register", Life.RUNNING, Life.REGISTERED), groups=(NodeGroup("worker", 20),),
        api=Api(latency=Uniform(10, 30)), watch=Watch(delay=Constant(0)),
    )  # fmt: skip
    slow = tuple(
        replace(s, delay=LogNormal(4_000, 9_000)) if s.name == "register" else s for s in truth.executors.stages
    )
    found = fitted(played(replace(truth, executors=replace(truth.executors, stages=slow)), count=1_000, until=900))
    register = stages(found)["register"].delay
    assert isinstance(register, Quantiles)
    for u in (0.1, 0.5, 0.9):
        assert register.quantile(u) == pytest.approx(LogNormal(4_000, 9_000).quantile(u), rel=0.12)
    assert found.description.api.latency.quantile(0.5) == pytest.approx(20, abs=2)


def test_crashes_and_failures_are_told_apart() -> None:
    driver = played(
        plain(
            stage("crash", Life.RUNNING, Life.FAILED, 2_000, weight=0.25, exits=((1, 3.0), (52, 1.0))),
            stage("oom", Life.REGISTERED, Life.FAILED, per_hour=2.0, exits=((137, 1.0),)),
            stage("evict", Life.REGISTERED, Life.EVICTED, per_hour=1.0),
            groups=(NodeGroup("worker", 30),),
        ),
        count=400,
        until=1_800,
    )
    found = fitted(driver)
    life = stages(found)
    assert life["crash"].weight == pytest.approx(0.25, rel=0.25)
    assert life["crash"].delay == Constant(2_000)
    assert [code for code, _ in life["crash"].exits] == [1, 52]
    assert life["fails"].per_hour == pytest.approx(2.0, rel=0.25)
    assert [code for code, _ in life["fails"].exits] == [137]
    assert life["evicted"].per_hour == pytest.approx(1.0, rel=0.3)
    assert "executor-hours" in evidence(found, "stages.fails").text


def test_who_was_told_to_go_did_not_fail() -> None:
    driver = played(plain(decommission=True, groups=(NodeGroup("worker", 10),)), count=90)
    for number in range(1, 31):
        driver.ask(RemoveExecutor(driver.now, ExecutorId(str(number)), ExitReason("ExecutorKilled", ""), WHY))
        driver.ask(DecommissionExecutors(driver.now, (ExecutorId(str(30 + number)),), "", True, WHY))
    driver.ask(DeletePods(driver.now, 5_000, tuple(PodNumber(n) for n in range(61, 91)), None, WHY))
    driver.until(driver.now + 60 * S)
    found = fitted(driver)
    life = stages(found)
    assert life["exit"].delay == Constant(300 + 2 + 10)
    assert life["drain"].delay == Constant(2_000 + 2 + 10)
    assert life["terminate"].delay == Constant(500)
    assert not {"crash", "fails", "evicted"} & life.keys()
    assert found.description.executors.decommission


def test_refusals_are_shares_of_their_calls() -> None:
    faults = (
        Fault(429, probability=0.2, verbs=(Verb.CREATE,), retry_after_ms=1_500),
        Fault(500, probability=0.25, verbs=(Verb.CREATE,)),
        Fault(lost=Lost.ANSWER, probability=0.1, verbs=(Verb.CREATE,)),
        Fault(lost=Lost.REQUEST, probability=0.1, verbs=(Verb.CREATE,)),
    )
    driver = played(plain(api=quick(*faults, timeout_ms=100), groups=(NodeGroup("worker", 80),)), count=1_000)
    driver.ask(ListPods(driver.now, 9_000, WHY))
    driver.until(driver.now + S)
    found = fitted(driver)
    got = {(f.status, f.lost): f for f in found.description.api.faults}
    assert got.keys() == {(429, None), (500, None), (None, Lost.ANSWER), (None, Lost.REQUEST)}
    assert got[429, None].retry_after_ms == 1_500
    for fault in faults:
        assert got[fault.status, fault.lost].probability == pytest.approx(fault.probability, rel=0.3)
    assert {(f.verbs, f.resources) for f in got.values()} == {((Verb.CREATE,), ("pods",))}
    assert "of 1000 calls" in evidence(found, "api.faults[0]").text


def test_a_quota_is_no_fault() -> None:
    found = fitted(played(plain(api=quick(quota_pods=7)), count=20, until=100))
    assert found.description.api.quota_pods == 7
    assert found.description.api.faults == ()
    assert evidence(found, "api.quota").observations == 13


def test_what_others_use_of_a_quota_is_not_left() -> None:
    driver = played(plain(api=quick(quota_pods=7)), count=20, until=100)
    others = [
        one._replace(failure=one.failure._replace(message=one.failure.message.replace("used: pods=7, limited: pods=7",
                                                                                      "used: pods=50, limited: pods=50")))
        if isinstance(one, Outcome) and one.failure is not None
        else one
        for one in driver.observed
    ]  # fmt: skip
    assert fit(others).description.api.quota_pods == 7


def test_nodes_that_pods_waited_for_are_found() -> None:
    late = NodeGroup("worker", 2, 4_000, 65_536, maximum=9, arrives=Constant(60_000))
    found = fitted(played(plain(groups=(late,)), count=30, until=700))
    there, ordered = found.description.groups
    assert (there.name, there.count, there.maximum, there.pods) == ("there", 2, None, 4)
    # 30 pods need 8 nodes of 4, so 6 come, each a minute after it was ordered: 10 s after the first pod was found to wait.
    assert (ordered.name, ordered.count, ordered.pods, ordered.arrives) == ("ordered", 0, 4, Constant(60_000))
    assert evidence(found, "nodes.groups[1].arrives").observations == 6
    assert evidence(found, "nodes.groups[1].maximum").observations == 0


def test_orders_that_nobody_answers_are_the_maximum() -> None:
    few = NodeGroup("worker", 2, 4_000, 65_536, maximum=5, arrives=Constant(60_000))
    found = fitted(played(plain(groups=(few,)), count=40, until=1_200, polls=True))
    assert [(g.count, g.maximum) for g in found.description.groups] == [(2, None), (0, 3)]
    none = replace(few, maximum=None)
    found = fitted(played(plain(groups=(none,)), count=40, until=1_200, polls=True))
    assert [(g.count, g.maximum, g.pods) for g in found.description.groups] == [(2, None, 4)]


def test_a_pod_that_somebody_changed_before_it_was_placed_did_not_wait() -> None:
    driver = played(plain(groups=(NodeGroup("worker", 20),)), count=90)
    observed: list[object] = []
    for one in driver.observed:
        observed.append(one)
        if isinstance(one, PodsUpdated) and one.pods[0].node is None:
            observed.append(one._replace(pods=(one.pods[0]._replace(version=f"9{one.pods[0].version}"),)))
    found = fit(observed)  # type: ignore[arg-type]
    assert found.description.groups == (replace(KIND.groups[0], count=20),)


def test_nodes_that_are_taken_back_are_no_failures_of_their_pods() -> None:
    spot = NodeGroup("spot", 20, 4_000, 65_536, interruptions_per_hour=3.0)
    gone = replace(spot, drained=False, notice_ms=0)
    for group in (spot, gone):
        found = fitted(played(plain(groups=(group,)), count=70, until=1_800))
        (there,) = found.description.groups
        assert there.interruptions_per_hour == pytest.approx(3.0, rel=0.35)
        assert there.drained is group.drained
        assert not {"crash", "fails", "evicted"} & stages(found).keys()
        assert "node-hours" in evidence(found, "nodes.groups[0].interruptions-per-hour").text


def test_without_a_watch_lists_must_do() -> None:
    sources = SourcesConfig(watch=False, poll_interval_ms=500)
    found = fitted(played(plain(), count=40, polls=True, sources=sources))
    one = evidence(found, "stages.register")
    assert (one.observations, one.note) == (40, "from lists, coarse")
    assert stages(found)["register"].delay.quantile(0.5) <= 1_000


@pytest.mark.uncounted
def test_what_is_fitted_plays_like_what_was_seen() -> None:
    """Time to register, of the default cluster and of what is fitted to it."""

    def times(driver: Driver) -> list[int]:
        asked = {c.executor: c.at for c in driver.observed if isinstance(c, CreatePod)}
        return sorted(r.at - asked[PodNumber(int(r.executor))] for r in driver.all(RegisterExecutor))

    roomy = replace(KIND, groups=(NodeGroup("worker", 70),))
    seen = played(roomy, count=1_000)
    again = times(played(replace(fitted(seen).description, groups=roomy.groups), count=1_000, seed=2))
    for place in (100, 500, 900):
        assert again[place] == pytest.approx(times(seen)[place], rel=0.1)


@given(st.lists(st.integers(-5, 10**12), min_size=1, max_size=200))
def test_samples_make_delays_that_can_be_played(values: list[int]) -> None:
    sample = DurationSample()
    for value in values:
        sample.add(value)
    assert problems(replace(KIND, controllers=sample.delay())) == ()
    assert sample.count == len(values)


def test_samples_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fitting, "SAMPLES_MAX", 64)
    sample = DurationSample()
    for value in range(100_000):
        sample.add(value)
    assert len(sample.values) <= 64
    assert sample.count == 100_000
    assert sample.delay().quantile(0.5) == pytest.approx(50_000, rel=0.1)


manifests = st.builds(
    PodManifest,
    st.sampled_from(["a", "b"]),
    st.sampled_from([{}, {"spark-exec-id": "1"}, {"spark-exec-id": "2"}, {"spark-exec-id": "EXECID"}]),
    deleted_at=st.sampled_from([None, "x"]),
    phase=st.sampled_from([None, "Pending", "Running", "Failed", "Succeeded", "odd"]),
    version=st.sampled_from(["", "1", "7", "abc", "²"]),
    node=st.sampled_from([None, "n"]),
)
anything = st.one_of(
    st.builds(PodsUpdated, st.integers(0, 10**6), st.lists(manifests, max_size=3).map(tuple)),
    st.builds(PodsReplaced, st.integers(0, 10**6), st.lists(manifests, max_size=3).map(tuple)),
    st.builds(
        RegisterExecutor, st.integers(0, 10**6), st.sampled_from(["1", "2"]).map(ExecutorId), st.just(DEFAULT_PROFILE)
    ),
    st.builds(Outcome, st.integers(0, 10**6), st.integers(0, 3)),
    st.builds(
        CreatePod, st.integers(0, 10**6), st.integers(0, 3), st.just(PodNumber(1)), st.just(DEFAULT_PROFILE), st.just(WHY)
    ),
)  # fmt: skip


@pytest.mark.uncounted
@given(st.lists(anything, max_size=30))
def test_whatever_was_recorded_gives_a_cluster(observations: list[object]) -> None:
    assert problems(fit(observations).description) == ()  # type: ignore[arg-type]
