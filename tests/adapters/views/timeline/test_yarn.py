"""Moments on YARN: what belongs together is told as one, and memory stays bounded whatever comes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyrsistent import pmap

from podtide.adapters.views.stats.yarn import GIVEN_BACK, YarnStats
from podtide.adapters.views.timeline.kubernetes import HEAD, TAIL
from podtide.adapters.views.timeline.yarn import YarnTimeline
from podtide.domain import engine
from podtide.domain.base.units import ExecutorId, Millis, ProfileId
from podtide.domain.protocol import yarn_messages as ym
from podtide.domain.protocol.application import EngineConfig
from podtide.domain.protocol.cluster_config import NegotiationConfig, YarnConfig
from podtide.domain.protocol.commands import Step
from podtide.domain.protocol.config import ScalingConfig
from podtide.domain.protocol.container_requests import Layout
from podtide.domain.protocol.containers import Completion, Container, ContainerId, Resource
from podtide.domain.protocol.executor_commands import ExitReason, RemoveExecutor
from podtide.domain.protocol.reasons import Cause, Threw, Why

P0 = ProfileId(0)
SMALL = Resource(1_408, 1)
NOBODY = YarnConfig(allocator=NegotiationConfig(executors_initial=0))
STATE = engine.launch(EngineConfig(ScalingConfig(), dynamic=False, yarn=NOBODY), 0).state
BELOW = Why(Cause.BELOW_TARGET, pmap({"target": 4, "missing": 2, "running": 1, "starting": 0, "pending": 0}))


def box(number: int) -> ContainerId:
    return ContainerId(f"container_1_0001_01_{number:06}")


class Told:
    """A timeline and a story that are given steps by hand."""

    def __init__(self) -> None:
        self.timeline = YarnTimeline()
        self.story = YarnStats(0)

    def step(self, now: Millis, *items: Any, stimuli: Sequence[Any] = ()) -> None:
        reports = tuple(one for one in items if isinstance(one, Threw))
        commands = tuple(one for one in items if not isinstance(one, Threw))
        for observer in (self.timeline, self.story):
            observer.step(now, stimuli, Step(STATE, commands, reports))

    def rows(self, end: Millis) -> list[str]:
        self.timeline.finish(end)
        self.story.finish(end)
        head, _, tail = self.timeline.rows()
        return [" · ".join(part for part in (row.what, *row.why) if part) for row in (*head, *tail)]


def gone(at: Millis, executor: int, status: int | None, message: str, cause: Cause) -> RemoveExecutor:
    return RemoveExecutor(
        at, ExecutorId(str(executor)), ExitReason("ExecutorExited", message, status, False), Why(cause)
    )


def test_a_ramp_of_requests_is_one_moment_with_its_wishes() -> None:
    told = Told()
    layout = Layout(("h1", "h2"), ("/r", "/r"), (2,), (2,))
    told.step(1_000, ym.RequestContainers(1_000, P0, 1, layout, 0, SMALL, None, BELOW))
    told.step(2_000, ym.RequestContainers(2_000, P0, 3, layout, 3, SMALL, None, BELOW))
    told.step(60_000, ym.RequestContainers(60_000, P0, 8, None, 1, SMALL, None, BELOW))
    assert [row for row in told.rows(70_000) if row.startswith("+")] == [
        "+ 7 requests · for 4 in the end · 4 near their data on h1, h2, 3 anywhere · 2 times over 1 s",
        "+ 1 request · 2 missing of 4 · anywhere",
    ]


def test_launches_say_how_near_to_their_wishes_they_are() -> None:
    told = Told()
    given = tuple(Container(box(n), host, P0, SMALL) for n, host in ((1, "h1"), (2, "h2"), (3, "h3")))
    matches = (
        ym.Match(box(1), 1, "h1"),
        ym.Match(box(2), 2, "/r"),
        ym.Match(box(3), 3, "*"),
    )
    launches = [
        ym.LaunchExecutor(500, ExecutorId(str(n)), box(n), f"h{n}", P0, 1_024, 1, Why(Cause.BELOW_TARGET))
        for n in (1, 2, 3)
    ]
    told.step(
        500, ym.TakeRequests(500, P0, matches, Why(Cause.MATCHED)), *launches,
        stimuli=(ym.ResourcesAnswered(500, 1, given),),
    )  # fmt: skip
    (row,) = [row for row in told.rows(900) if row.startswith("+")]
    assert row == ("+ 3 executors (1 to 3) · on h1, h2, h3 · 1 on a wished host, 1 on a wished rack, 1 anywhere")
    boxes = told.story.document()["containers"]
    assert boxes["matched"] == {"host": 1, "rack": 1, "anywhere": 1}
    assert boxes["on_the_way"] == 3


def test_an_executor_that_is_told_twice_is_gone_once() -> None:
    told = Told()
    bad = "Container from a bad node: c. Exit status: 143."
    told.step(10, gone(10, 7, 143, bad, Cause.CONTAINER_COMPLETED), gone(10, 7, 143, bad, Cause.CONTAINER_COMPLETED))
    back = "Container c exited from explicit termination request."
    told.step(20, gone(20, 8, -100, back, Cause.LOSS_ASKED))
    told.step(30, gone(30, 9, -100, back, Cause.CONTAINER_COMPLETED))
    assert told.rows(99) == ["gone 7 · exit status 143", f"gone 8, 9 · {GIVEN_BACK} · 2 times over 10 ms"]


def test_a_heartbeat_that_failed_is_told_once() -> None:
    told = Told()
    what = "java.io.IOException: no"
    told.step(10, Threw(10, "YarnAllocator", what), stimuli=(ym.ResourcesRefused(10, 1, what),))
    told.step(20, Threw(20, "YarnAllocator", "java.lang.AssertionError: assertion failed"))
    assert told.rows(99) == [
        f"heartbeat failed · {what}", "YarnAllocator threw · java.lang.AssertionError: assertion failed",
    ]  # fmt: skip


def test_only_a_second_application_master_is_news() -> None:
    told = Told()
    told.step(1, stimuli=(ym.MasterRegistered(1),))
    assert told.rows(2) == []
    told.step(5, stimuli=(ym.MasterRegistered(5),))
    assert told.rows(9) == ["a new application master · it registered anew: executors and requests are forgotten"]


def test_a_container_that_ends_before_its_executor_registers_is_wasted() -> None:
    told = Told()
    given = (Container(box(1), "h1", P0, SMALL),)
    told.step(
        500, ym.LaunchExecutor(500, ExecutorId("1"), box(1), "h1", P0, 1_024, 1, Why(Cause.BELOW_TARGET)),
        stimuli=(ym.ResourcesAnswered(500, 1, given, (Completion(box(1), 1),)),),
    )  # fmt: skip
    document = told.story.document()
    assert document["wasted_by"] == {"container completed": 1}
    assert document["containers"]["exits"] == {"exit status 1": 1}
    assert document["containers"]["on_the_way"] == 0


def test_memory_is_bounded_by_the_moments_that_are_kept() -> None:
    told = Told()
    layout = Layout(("h1",), ("/r",), (1,), (1,))
    for place in range(2_000):
        at = place * 60_000
        told.step(at, ym.RequestContainers(at, P0, place + 1, layout, 0, SMALL, None, BELOW))
    rows = told.rows(200_000_000)
    assert len(rows) == HEAD + TAIL
    assert len(told.timeline._placed) <= HEAD + TAIL + 1
