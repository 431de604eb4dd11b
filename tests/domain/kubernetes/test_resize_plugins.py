"""The resize plugins: Spark's own scenarios (P1 and P2), outcomes, timers."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, strategies as st

from podtide.domain.base.units import NEVER, ExecutorId, Millis
from podtide.domain.kubernetes.resize_plugins import (
    EXPANSION_FAILED,
    IN_PROGRESS,
    REPORTS,
    TRYING,
    UPDATE_FAILED,
    WITHIN,
    ClaimSizes,
    ClaimStimulus,
    report_order,
    resize_claims,
    resize_pods,
    start_claims,
    start_pods,
)
from podtide.domain.protocol.cluster_config import ResizeConfig
from podtide.domain.protocol.executor_stimuli import Stopping, Wake
from podtide.domain.protocol.pod_stimuli import (
    CallFailure,
    ClaimsMeasured,
    ClaimUse,
    DiskReport,
    MemoryMeasured,
    MemoryUse,
    Outcome,
)
from podtide.domain.protocol.reasons import Cause, Remark

MB = 1_000_000
MINUTE = 60_000
FORBIDDEN = CallFailure(403, "forbidden")

# ---------------------------------------------------------------------------------------------------------------- memory

MEMORY = ResizeConfig(MINUTE, threshold=0.9, factor=0.1, remarks=True)


def use(identity: str, used: int | None, limit: int | None, container: str = "spark-kubernetes-executor") -> MemoryUse:
    return MemoryUse(ExecutorId(identity), f"exec-{identity}", container, used, limit)


@pytest.mark.parametrize(
    ("pods", "threshold", "resized"),
    [
        ((), 0.9, []),
        ((use("1", 950 * MB, None),), 0.9, []),  # no limit
        ((use("1", None, 1_000 * MB),), 0.9, []),  # no figure
        ((use("EXECID", 950 * MB, 1_000 * MB),), 0.9, []),  # nobody yet
        ((use("1", 500 * MB, 1_000 * MB),), 0.9, []),
        ((use("1", 900 * MB, 1_000 * MB),), 0.9, []),  # exactly at the threshold
        ((use("1", 950 * MB, 1_000 * MB),), 0.9, [("1", 1_100 * MB)]),
        ((use("1", 500 * MB, 1_000 * MB), use("2", 950 * MB, 1_000 * MB)), 0.9, [("2", 1_100 * MB)]),
        ((use("1", 600 * MB, 1_000 * MB),), 0.5, [("1", 1_100 * MB)]),
        ((use("1", 950 * MB, 1_000 * MB, "main"),), 0.9, [("1", 1_100 * MB)]),
        ((use("1", 999, 999),), 0.9, [("1", 1_098)]),  # 1098.9 bytes
        ((use("1", 2**63 - 1, 2**63 - 1),), 0.9, [("1", 2**63 - 1)]),
    ],
)
def test_p1_memory(pods: tuple[MemoryUse, ...], threshold: float, resized: list[tuple[str, int]]) -> None:
    config = ResizeConfig(MINUTE, threshold, 0.1)
    step = resize_pods(start_pods(config, 0), (MemoryMeasured(MINUTE, pods),), config, MINUTE)
    assert [(c.executor, c.memory_bytes) for c in step.commands] == resized
    assert step.reports == ()


def test_a_resize_names_its_pod_and_its_reason() -> None:
    measured = MemoryMeasured(MINUTE, (use("7", 950, 1_000, "main"),))
    (command,) = resize_pods(start_pods(MEMORY, 0), (measured,), MEMORY, MINUTE).commands
    assert (command.pod, command.container, command.serial) == ("exec-7", "main", 1)
    assert command.why.cause is Cause.MEMORY_USED
    assert dict(command.why.facts) == {"used": 950, "limit": 1_000, "threshold": 0.9, "factor": 0.1}


def test_memory_grows_at_every_run_whatever_came_of_the_last() -> None:
    state = start_pods(MEMORY, 0)
    pods = (use("1", 950, 1_000), use("2", 1, 1_000))
    step = resize_pods(state, (MemoryMeasured(MINUTE, pods),), MEMORY, MINUTE)
    assert [(r.topic, r.facts["executor"]) for r in step.reports if isinstance(r, Remark)] == [(WITHIN, "2")]
    refused = resize_pods(step.state, (Outcome(MINUTE, 1, FORBIDDEN), Outcome(MINUTE, 99)), MEMORY, MINUTE)
    assert [(r.topic, r.facts["executor"]) for r in refused.reports if isinstance(r, Remark)] == [(UPDATE_FAILED, "1")]
    again = resize_pods(refused.state, (Outcome(MINUTE, 1, FORBIDDEN),), MEMORY, MINUTE)
    assert (again.state, again.reports) == (refused.state, ())
    third = resize_pods(again.state, (MemoryMeasured(2 * MINUTE, pods),), MEMORY, 2 * MINUTE)
    assert [(c.executor, c.serial) for c in third.commands] == [("1", 2)]


def test_when_memory_is_measured() -> None:
    state = start_pods(MEMORY, 500)
    assert [state.timer.wants(now) for now in (60_499, 60_500)] == [False, True]
    assert state.timer.due == 60_500
    waiting = resize_pods(state, (Wake(60_500),), MEMORY, 60_500).state
    assert waiting.timer.due == NEVER
    assert resize_pods(waiting, (MemoryMeasured(60_700, ()),), MEMORY, 60_700).state.timer.due == 120_500
    assert resize_pods(state, (Stopping(1),), MEMORY, 1).state.timer.due == NEVER


# ---------------------------------------------------------------------------------------------------------------- claims

CLAIMS = ResizeConfig(5 * MINUTE, threshold=0.9, factor=0.1, remarks=True)
SIZE = 1_000_000_000


def claim(identity: str = "1", name: str = "pvc-1", requested: int = SIZE, capacity: int | None = SIZE) -> ClaimUse:
    return ClaimUse(ExecutorId(identity), name, requested, capacity)


def disk(ratio: float, identity: str = "1", at: Millis = 0) -> DiskReport:
    return DiskReport(at, ExecutorId(identity), ratio)


class Claims:
    """One plugin under way: runs it once every interval and answers its commands."""

    def __init__(self, config: ResizeConfig = CLAIMS) -> None:
        self.config = config
        self.state: ClaimSizes = start_claims(config, 0)
        self.now = 0
        self.remarks: list[Remark] = []

    def feed(self, *stimuli: ClaimStimulus) -> list[tuple[str, int]]:
        step = resize_claims(self.state, stimuli, self.config, self.now)
        self.state = step.state
        self.remarks += [r for r in step.reports if isinstance(r, Remark)]
        return [(c.claim, c.storage_bytes) for c in step.commands]

    def run(self, *claims: ClaimUse) -> list[tuple[str, int]]:
        self.now += self.config.interval_ms
        return self.feed(ClaimsMeasured(self.now, claims))

    def answer(self, serial: int, failure: CallFailure | None = None) -> None:
        assert self.feed(Outcome(self.now, serial, failure)) == []

    def topics(self) -> list[str]:
        return [remark.topic for remark in self.remarks]


@pytest.mark.parametrize(
    ("ratio", "claims", "resized"),
    [
        (0.5, [claim()], []),
        (0.9, [claim()], []),
        (0.95, [claim()], [("pvc-1", 1_100_000_000)]),
        (0.95, [claim(capacity=None)], [("pvc-1", 1_100_000_000)]),
        (0.95, [claim(requested=2 * SIZE)], []),  # in progress
        (0.95, [claim(capacity=2 * SIZE)], [("pvc-1", 1_100_000_000)]),
        (0.95, [], []),
        (0.95, [claim(name="")], []),
        (0.95, [claim("2")], []),  # another executor's
        (0.95, [claim(requested=0, capacity=0)], []),  # nothing was asked for last, and nothing would be now
        (float("nan"), [claim()], [("pvc-1", 1_100_000_000)]),  # not at most the threshold
    ],
)
def test_p2_claims(ratio: float, claims: Sequence[ClaimUse], resized: list[tuple[str, int]]) -> None:
    plugin = Claims()
    plugin.feed(disk(ratio))
    assert plugin.run(*claims) == resized


def test_p2_the_same_size_is_not_asked_for_twice() -> None:
    plugin = Claims()
    plugin.feed(disk(0.95))
    assert plugin.run(claim()) == [("pvc-1", 1_100_000_000)]
    plugin.answer(1)
    assert plugin.run(claim()) == []
    assert plugin.run(claim(requested=1_100_000_000, capacity=1_100_000_000)) == [("pvc-1", 1_210_000_000)]


def test_p2_a_refused_claim_is_left_alone_for_good() -> None:
    plugin = Claims()
    plugin.feed(disk(0.95))
    assert plugin.run(claim(), claim(name="pvc-2")) == [("pvc-1", 1_100_000_000), ("pvc-2", 1_100_000_000)]
    plugin.answer(1, FORBIDDEN)
    plugin.answer(2)
    assert plugin.run(claim(), claim(name="pvc-2", requested=2 * SIZE, capacity=2 * SIZE)) == [("pvc-2", 2_200_000_000)]
    assert plugin.topics().count(EXPANSION_FAILED) == 1


def test_a_claim_that_two_executors_mount_is_asked_for_once() -> None:
    plugin = Claims()
    plugin.feed(disk(0.95), disk(0.99, "2"))
    assert plugin.run(claim(), claim("2")) == [("pvc-1", 1_100_000_000)]


def test_reports_of_executors_without_a_pod_are_dropped() -> None:
    plugin = Claims()
    plugin.feed(disk(0.1), disk(0.95), disk(0.99, "2"), disk(0.3, "3"))
    assert plugin.run(claim(), claim("3", "")) == [("pvc-1", 1_100_000_000)]
    assert dict(plugin.state.reports) == {"1": 0.95, "3": 0.3}
    reports = "{1=PVCDiskUsageReport(1,0.95), 3=PVCDiskUsageReport(3,0.3)}"
    assert (plugin.remarks[0].topic, plugin.remarks[0].facts["reports"]) == (REPORTS, reports)
    assert plugin.run(claim("2")) == []


def test_an_answer_to_nothing_changes_nothing() -> None:
    plugin = Claims()
    state = plugin.state
    plugin.answer(7, FORBIDDEN)
    assert plugin.state == state


def test_what_is_said_about_claims() -> None:
    plugin = Claims()
    plugin.feed(disk(0.95))
    plugin.run(claim(requested=2 * SIZE))
    assert plugin.topics() == [REPORTS, TRYING, IN_PROGRESS]
    assert dict(plugin.remarks[2].facts) == {"claim": "pvc-1", "requested": 2 * SIZE, "capacity": SIZE}
    silent = Claims(ResizeConfig(5 * MINUTE, 0.9, 0.1))
    silent.feed(disk(0.95))
    silent.run(claim())
    assert silent.topics() == []


def test_a_resize_of_a_claim_has_its_reason() -> None:
    state = resize_claims(start_claims(CLAIMS, 0), (disk(0.95),), CLAIMS, 0).state
    (command,) = resize_claims(state, (ClaimsMeasured(5 * MINUTE, (claim(),)),), CLAIMS, 5 * MINUTE).commands
    assert (command.executor, command.why.cause) == ("1", Cause.DISK_USED)
    assert dict(command.why.facts) == {"ratio": 0.95, "threshold": 0.9, "requested": SIZE, "factor": 0.1}


def test_when_claims_are_looked_up() -> None:
    state = start_claims(CLAIMS, 0)
    assert [state.timer.wants(now) for now in (299_999, 300_000)] == [False, True]
    assert state.timer.due == 300_000
    assert resize_claims(state, (Wake(300_000),), CLAIMS, 300_000).state.timer.due == NEVER
    stopped = resize_claims(state, (Stopping(1), ClaimsMeasured(300_000, (claim(),))), CLAIMS, 300_000)
    assert (stopped.commands, stopped.state.timer.due) == ((), NEVER)


@given(st.lists(st.tuples(st.sampled_from("123"), st.floats(0, 1)), max_size=20), st.integers(0, 19))
def test_an_older_state_still_answers_as_before(reports: list[tuple[str, float]], cut: int) -> None:
    stimuli = [disk(ratio, identity) for identity, ratio in reports]
    early = resize_claims(start_claims(CLAIMS, 0), stimuli[:cut], CLAIMS, 0).state
    measured = (ClaimsMeasured(5 * MINUTE, tuple(claim(identity, f"pvc-{identity}") for identity in "123")),)
    before = resize_claims(early, measured, CLAIMS, 5 * MINUTE)
    resize_claims(early, (*stimuli[cut:], *measured), CLAIMS, 5 * MINUTE)
    assert resize_claims(early, measured, CLAIMS, 5 * MINUTE) == before


def test_reports_are_walked_bucket_by_bucket() -> None:
    """ "1" to "9" hash to 49 to 57, "10" to "12" to 1567 and on: bucket 15, then 0 and 1, of 16."""
    ids = [ExecutorId(text) for text in ("2", "10", "1", "12", "11")]
    assert report_order(ids) == ["11", "1", "12", "2", "10"]
    many = [ExecutorId(str(number)) for number in range(1, 1_000)]
    assert sorted(report_order(many), key=int) == many
