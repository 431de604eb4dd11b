"""What a description may not be: each rule by itself, with the key that breaks it; windows of time."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from podtide.domain.base.randomness import Constant, Exponential, LogNormal, Quantiles, Uniform
from podtide.domain.fakes.kubernetes.checks import problems
from podtide.domain.fakes.kubernetes.description import (
    KIND,
    STAGES,
    Api,
    Description,
    Executors,
    Fault,
    Life,
    Lost,
    NodeEvent,
    NodeGroup,
    NodeHappening,
    PodShape,
    PodStage,
    Watch,
)
from podtide.domain.fakes.windows import Window

GROUP = NodeGroup("g", 1)
STAGE = PodStage("x", Life.RUNNING, Life.FAILED)


def with_group(**changes: object) -> Description:
    return replace(KIND, groups=(replace(GROUP, **changes),))  # type: ignore[arg-type]


def with_stage(**changes: object) -> Description:
    return replace(KIND, executors=Executors(stages=(*STAGES, replace(STAGE, **changes))))  # type: ignore[arg-type]


def with_fault(**changes: object) -> Description:
    return replace(KIND, api=Api(faults=(replace(Fault(status=500), **changes),)))  # type: ignore[arg-type]


def test_the_default_can_be_played() -> None:
    assert problems(KIND) == ()


@pytest.mark.parametrize(
    ("description", "where"),
    [
        (replace(KIND, groups=(GROUP, GROUP)), "nodes.groups"),
        (with_group(name=""), "nodes.groups[0].name"),
        (with_group(count=-1), "nodes.groups[0].count"),
        (with_group(count=10**9), "nodes.groups[0].count"),
        (with_group(maximum=0), "nodes.groups[0].maximum"),
        (with_group(cpu_millis=0), "nodes.groups[0].cpu"),
        (with_group(memory_mib=0), "nodes.groups[0].memory"),
        (with_group(pods=0), "nodes.groups[0].pods"),
        (with_group(interruptions_per_hour=-1.0), "nodes.groups[0].interruptions-per-hour"),
        (with_group(arrives=Uniform(5, 3)), "nodes.groups[0].arrives"),
        (with_group(during=Window(5, 5)), "nodes.groups[0].during.until"),
        (replace(KIND, node_events=(NodeEvent(0, NodeHappening.JOIN, "x"),)), "nodes.events[0].group"),
        (replace(KIND, node_events=(NodeEvent(0, NodeHappening.JOIN, "worker", 0),)), "nodes.events[0].count"),
        (replace(KIND, scan_ms=0), "nodes.scan"),
        (replace(KIND, executors=Executors(shape=PodShape(0, 1))), "executors.cpu"),
        (replace(KIND, executors=Executors(profiles=((3, PodShape(1, 0)),))), "executors.profiles.3.memory"),
        (replace(KIND, executors=Executors(profiles=((3, PodShape()), (3, PodShape())))), "executors.profiles"),
        (replace(KIND, executors=Executors(rpc=Constant(-1))), "executors.rpc"),
        (replace(KIND, executors=Executors(stages=(*STAGES, STAGES[0]))), "stages"),
        (with_stage(source=Life.GONE), "stages.x.from"),
        (with_stage(next=Life.SCHEDULED), "stages.x.next"),
        (with_stage(weight=-0.1), "stages.x.weight"),
        (with_stage(weight=float("nan")), "stages.x.weight"),
        (with_stage(per_hour=0.0), "stages.x.per-hour"),
        (with_stage(per_hour=1e9), "stages.x.per-hour"),
        (with_stage(exits=((256, 1.0),)), "stages.x.exits"),
        (with_stage(exits=((1, -1.0),)), "stages.x.exits"),
        (with_stage(groups=("nowhere",)), "stages.x.groups"),
        (with_stage(during=Window(0, None, 5)), "stages.x.during.every"),
        (with_stage(delay=LogNormal(0, 5)), "stages.x.delay"),
        (with_stage(delay=LogNormal(6, 5)), "stages.x.delay"),
        (with_stage(delay=Exponential(-1)), "stages.x.delay"),
        (with_stage(delay=Quantiles(())), "stages.x.delay"),
        (with_stage(delay=Quantiles(((0, 5), (50, 4)))), "stages.x.delay"),
        (with_stage(delay=Quantiles(((0, 5), (101, 9)))), "stages.x.delay"),
        (with_fault(status=None), "api.faults[0]"),
        (with_fault(lost=Lost.ANSWER), "api.faults[0]"),
        (with_fault(status=200), "api.faults[0].status"),
        (with_fault(probability=1.1), "api.faults[0].probability"),
        (with_fault(during=Window(0, 10, 5)), "api.faults[0].during.every"),
        (replace(KIND, api=Api(stale=-0.1)), "api.stale"),
        (replace(KIND, api=Api(stale_age=Constant(-1))), "api.stale-age"),
        (replace(KIND, api=Api(latency=Constant(-1))), "api.latency"),
        (replace(KIND, api=Api(retries=-1)), "api.retries"),
        (replace(KIND, api=Api(quota_pods=-1)), "api.quota"),
        (replace(KIND, watch=Watch(loss=1.5)), "watch.loss"),
        (replace(KIND, watch=Watch(duplicates=1.5)), "watch.duplicates"),
        (replace(KIND, watch=Watch(reordered=1.5)), "watch.reordered"),
        (replace(KIND, watch=Watch(expired=1.5)), "watch.expired"),
        (replace(KIND, watch=Watch(breaks_per_hour=-1.0)), "watch.breaks-per-hour"),
        (replace(KIND, watch=Watch(late=Constant(-1))), "watch.late"),
        (replace(KIND, watch=Watch(during=Window(9, 2))), "watch.during.until"),
        (replace(KIND, watch=Watch(outages=(Window(9),))), "watch.outages[0].until"),
        (replace(KIND, controllers=Constant(-1)), "controllers"),
    ],
)
def test_what_cannot_be_played(description: Description, where: str) -> None:
    assert [found for found, _ in problems(description)] == [where]


WINDOWS = st.tuples(st.integers(0, 50), st.integers(1, 30), st.integers(0, 40), st.sampled_from("fou")).map(
    lambda t: Window(t[0], None if t[3] == "f" else t[0] + t[1], t[1] + t[2] if t[3] == "u" else None)
)


@given(WINDOWS, st.integers(0, 200), st.integers(0, 60))
def test_after_counts_open_time(window: Window, t: int, wait: int) -> None:
    left, end = wait, None
    for moment in range(t, 3_000):
        if window.active(moment):
            if left == 0:
                end = moment
                break
            left -= 1
    found = window.after(t, wait)
    assert found == end or (end is None and window.until_ms is None)


@given(WINDOWS, st.integers(0, 200))
def test_next_start_is_when_it_opens(window: Window, t: int) -> None:
    opens = [m for m in range(t, 400) if window.active(m) and (m == 0 or not window.active(m - 1) or _again(window, m))]
    found = window.next_start(t)
    assert found == (opens[0] if opens else None)


def _again(window: Window, moment: int) -> bool:
    """A window that is always open still begins anew every time."""
    return window.every_ms is not None and (moment - window.from_ms) % window.every_ms == 0
