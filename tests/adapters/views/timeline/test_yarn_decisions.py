"""Decisions about containers in words: every kind has its row, says its numbers, and nothing in one can steer a terminal."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as some
from pyrsistent import pmap

from podtide.adapters.recording.codec import decided_record
from podtide.adapters.views.explain.yarn_view import entry_rows, standing_words
from podtide.adapters.views.timeline.decisions import decided_rows, stimulus_words
from podtide.adapters.views.timeline.yarn_decisions import heard_containers, short, shorts
from podtide.domain.base.units import ExecutorId, ProfileId
from podtide.domain.protocol import yarn_messages as ym
from podtide.domain.protocol.container_requests import Layout, Span
from podtide.domain.protocol.containers import Completion, Container, ContainerId, NodeReport, Resource
from podtide.domain.protocol.executor_commands import ExitReason
from podtide.domain.protocol.reasons import Bound, Cause, Held, Phase, Why
from tests.adapters.views.timeline.test_decisions import EVIL, harmless, kinds

AT = 5_000
P0, P1 = ProfileId(0), ProfileId(1)
LAYOUT = Layout(("h3", "h4", "h5"), ("/a", "/a", "/b"), (3, 2), (2, 3))


def box(number: int) -> ContainerId:
    return ContainerId(f"container_1700000000000_0001_01_{number:06}")


def words(command: Any) -> str:
    rows = decided_rows(decided_record(command))
    for row in rows:
        harmless(row)
    return " | ".join(" · ".join(part for part in (row.what, *row.why) if part) for row in rows)


SAID = [
    (
        ym.RequestContainers(
            AT, P0, 1, LAYOUT, 2, Resource(1_408, 2), None,
            Why(Cause.BELOW_TARGET, pmap({"target": 9, "pending": 0, "running": 3, "starting": 1, "missing": 5})),
        ),
        "request 5 containers · 5 missing of 9 (3 running, 1 starting) · 3 on h3, h4, h5, 2 anywhere · requests 1 to 5 · "
        "1,408 MiB, 2 cores",
    ),
    (
        ym.RequestContainers(AT, P1, 7, None, 1, Resource(4_096, 1, (("yarn.io/gpu", 2),)), "fast", Why(Cause.BELOW_TARGET)),
        "request 1 container · below target · anywhere · 4,096 MiB, 1 core, yarn.io/gpu 2 · nodes labelled fast · profile 1",
    ),
    (
        ym.CancelRequests(AT, P0, (Span(1, 4), Span(9, 9)), Why(Cause.LOCALITY)),
        "cancel 5 requests · to ask anew where the data is",
    ),
    (
        ym.CancelRequests(AT, P1, (Span(1, 1),), Why(Cause.ABOVE_TARGET, pmap({"target": 2, "pending": 3, "running": 1}))),
        "cancel 1 request · target 2, 3 waited, 1 run · profile 1",
    ),
    (ym.CallResourceManager(AT, 4, Why(Cause.HEARTBEAT, pmap({"pending": 12}))), "heartbeat · 12 requests waiting"),
    (ym.CallResourceManager(AT, 4, Why(Cause.HEARTBEAT, pmap({"pending": 0}))), "heartbeat"),
    (
        ym.TakeRequests(
            AT, P0, (ym.Match(box(2), 1, "h3"), ym.Match(box(3), 2, "/a"), ym.Match(box(4), 7, "*")), Why(Cause.MATCHED)
        ),
        "match 3 containers · container 000002 takes request 1 at h3 · container 000003 takes request 2 at /a · "
        "container 000004 takes request 7 anywhere",
    ),
    (
        ym.ReleaseContainers(AT, (box(5), box(6)), Why(Cause.SURPLUS, pmap({"received": 9, "used": 7}))),
        "release 2 containers · no request wants them: 7 of 9 were wanted · containers 000005, 000006",
    ),
    (
        ym.ReleaseContainers(AT, (box(5),), Why(Cause.KILLED, pmap({"executor": "17"}))),
        "release 1 container · executor 17 is let go by the driver · container 000005",
    ),
    (
        ym.ReleaseContainers(AT, (box(5),), Why(Cause.LAUNCH_FAILED, pmap({"what": "java.io.IOException: no"}))),
        "release 1 container · the launch failed · java.io.IOException: no · container 000005",
    ),
    (
        ym.ReleaseContainers(AT, (box(5),), Why(Cause.ABOVE_TARGET, pmap({"running": 3, "target": 2}))),
        "release 1 container · not launched: 3 run, the target is 2 · container 000005",
    ),
    (
        ym.LaunchExecutor(
            AT, ExecutorId("4"), box(9), "h1", P0, 1_024, 1, Why(Cause.BELOW_TARGET, pmap({"running": 3, "target": 8}))
        ),
        "launch executor 4 · on h1 · in container 000009 · 3 of 8 run",
    ),
    (
        ym.UpdateExclusions(AT, ("h1",), ("h2", "h3"), Why(Cause.EXCLUDED, pmap({"excluded": 4}))),
        "exclude 1 host · h1 · 4 excluded now | include 2 hosts · h2, h3 · 4 excluded now",
    ),
    (
        ym.DecommissionHost(AT, "h1", Why(Cause.NODE_DECOMMISSIONING)),
        "decommission h1 · its node is being decommissioned",
    ),
    (
        ym.TellLossReason(
            AT, ExecutorId("4"), ExitReason("ExecutorExited", "Container preempted", -102, False), Why(Cause.LOSS_ASKED)
        ),
        "why executor 4 is gone · preempted (-102): Container preempted",
    ),
    (
        ym.TellLossReason(AT, ExecutorId("4"), None, Why(Cause.LOSS_ASKED), "no such executor"),
        "why executor 4 is gone · no such executor",
    ),
    (
        ym.EndApplication(AT, "FAILED", 11, "Max number of executor failures (3) reached", Why(Cause.TOO_MANY_FAILURES)),
        "end: FAILED · Max number of executor failures (3) reached · exit code 11 · too many failures",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("command", "said"), SAID, ids=[type(one).__name__ for one, _ in SAID])
def test_a_command_says_its_numbers(command: Any, said: str) -> None:
    assert words(command) == said


def test_every_command_is_said() -> None:
    assert {type(one) for one, _ in SAID} >= set(kinds(ym.YarnCommand)) - {
        kind for kind in kinds(ym.YarnCommand) if kind.__name__ == "RemoveExecutor"
    }


@pytest.mark.parametrize(
    "kind",
    [kind for kind in kinds(ym.YarnCommand) if kind is not ym.RequestContainers],
    ids=lambda kind: kind.__name__,
)
def test_nothing_in_a_command_steers_a_terminal(kind: type) -> None:
    @settings(max_examples=25, suppress_health_check=list(HealthCheck), deadline=None)
    @given(some.from_type(kind))
    def told(command: Any) -> None:
        for row in decided_rows(decided_record(command)):
            harmless(row)

    told()


@pytest.mark.parametrize(
    ("stimulus", "said"),
    [
        (
            ym.ResourcesAnswered(
                AT, 1, (Container(box(2), "h1", P0, Resource(1_408, 1)),), (Completion(box(1), -102),),
                (NodeReport("h9", "DECOMMISSIONING"),), 12, Resource(2_048, 3),
            ),
            "the resource manager gives 1 container on h1; says ended: container 000001 preempted (-102); reports h9 "
            "DECOMMISSIONING; has 2,048 MiB, 3 cores left for the queue",
        ),
        (ym.ResourcesAnswered(AT, 1), "the resource manager gives nothing"),
        (ym.ResourcesRefused(AT, 1, "x.Y: no", fatal=True), "the heartbeat failed, for good: x.Y: no"),
        (ym.LaunchEnded(AT, ExecutorId("3")), "the launch of executor 3 is through"),
        (ym.LaunchEnded(AT, ExecutorId("3"), "x: y"), "the launch of executor 3 failed: x: y"),
        (ym.MasterRegistered(AT), "an application master registers"),
        (ym.MasterLost(AT, "h1:4040"), "the application master is lost"),
    ],
)  # fmt: skip
def test_what_entered_is_told_in_a_line(stimulus: Any, said: str) -> None:
    assert stimulus_words(stimulus) == heard_containers(stimulus) == said


def test_strangers_texts_stay_on_their_line() -> None:
    evil = ym.ResourcesAnswered(
        AT, 1, (Container(ContainerId(EVIL), EVIL, P0, Resource(1, 1)),), (Completion(ContainerId(EVIL), 1, EVIL),),
        (NodeReport(EVIL, EVIL),),
    )  # fmt: skip
    line = stimulus_words(evil)
    assert line.isprintable()
    assert words(ym.EndApplication(AT, EVIL, 1, EVIL * 500, Why(Cause.HEARTBEAT)))


@pytest.mark.parametrize(
    ("phase", "said"), [(Phase.BEGAN, "held 7 back · began"), (Phase.ENDED, "held 0 back · ended")]
)
def test_a_bound_of_the_resource_manager_says_how_many_wait(phase: Phase, said: str) -> None:
    pending = 0 if phase is Phase.ENDED else 7
    report = Held(AT, phase, Bound.RESOURCE_MANAGER, P0, (), pmap({"pending": pending, "target": 9}))
    assert words(report) == f"{said} · by the resource manager · target 9"


def test_containers_are_named_by_what_tells_them_apart() -> None:
    assert short(box(7)) == "container 000007"
    assert short("box-of-somebody") == "container box-of-somebody"
    assert shorts([box(number) for number in range(1, 8)]) == "containers 000001, 000002, 000003, 000004 and 3 more"


@pytest.mark.parametrize(
    ("requests", "told"),
    [
        (1, ["1 missing of 4", "near its data on h3", "profile 0"]),
        (3, ["1 missing of 4", "one of 3 containers", "3 near their data on h3", "profile 0"]),
    ],
)
def test_one_container_is_asked_for_near_its_data(requests: int, told: list[str]) -> None:
    entry = {
        "what": "requested", "at_ms": AT, "facts": {"missing": 1, "target": 4}, "requests": requests, "anywhere": 0,
        "hosts": ["h3"], "hosts_total": 1, "profile": 0, "target": None, "held": [],
    }  # fmt: skip
    rows = entry_rows(entry, str)
    assert rows is not None
    assert rows[0].why == told


@pytest.mark.parametrize(
    ("counted", "maximum", "told"),
    [
        (1, 6, ["1 that counts", "at 6 the application ends"]),
        (4, 2**31 - 1, ["4 that count", "no number of them ends the application"]),
        (0, 6, None),
    ],
)
def test_failures_of_a_moment_say_what_they_lead_to(counted: int, maximum: int, told: list[str] | None) -> None:
    story = {
        "hosts": [], "hosts_total": 0, "executors": {}, "excluded": [], "excluded_total": 0, "released": 0,
        "failures": {"counted": counted, "maximum": maximum},
    }  # fmt: skip
    assert dict(standing_words(story)).get("failures") == told
