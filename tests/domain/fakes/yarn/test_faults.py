"""What can go wrong in a YARN cluster: every fault can be had, and none comes unasked."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import pytest

from podtide.domain.base.randomness import Constant
from podtide.domain.base.units import NEVER
from podtide.domain.fakes.windows import ALWAYS_OPEN, Window
from podtide.domain.fakes.yarn import cluster as worlds
from podtide.domain.fakes.yarn.capacity_scheduler import UNKNOWN_PRIORITY, next_change
from podtide.domain.fakes.yarn.description import (
    CallFault,
    ContainerPhase,
    Death,
    LaunchFault,
    Mistakes,
    Nodes,
    YarnNodeEvent,
    YarnNodeHappening,
)
from podtide.domain.fakes.yarn.rows import ContainerStage
from podtide.domain.protocol.completions import judge
from podtide.domain.protocol.containers import NodeReport, Resource
from podtide.domain.protocol.executor_stimuli import ExecutorDisconnected, HeartbeatsStopped, RegisterExecutor
from podtide.domain.protocol.yarn_messages import LaunchEnded, MasterRegistered, ResourcesAnswered
from tests.support.yarn_world_play import App, S, plain

MANY = Nodes("worker", 40, 65_536, 16)
M = 60 * S


def run(count: int = 200, until: int = 600, rows: Sequence[Nodes] = (MANY,), **settings: object) -> App:
    app = App(plain(*rows, **settings))  # type: ignore[arg-type]
    app.request(count)
    return app.until(until * S)


def statuses(app: App) -> Counter[int]:
    return Counter(c.status for c in app.completed() if c.diagnostics != "Container released by application")


# containers


def test_deaths_at_start_up() -> None:
    app = run(deaths=(Death(ContainerPhase.STARTING, share=0.25, delay=Constant(500), statuses=((1, 3.0), (52, 1.0))),))
    assert statuses(app).total() == pytest.approx(50, rel=0.4)
    assert set(statuses(app)) == {1, 52}
    assert app.tally("executors.never registered") == statuses(app).total()
    assert app.gone() == []  # the driver never heard of them
    assert app.stages() == {ContainerStage.REGISTERED: 200 - statuses(app).total()}


@pytest.mark.parametrize("status", [-103, -104])
def test_memory_limits(status: int) -> None:
    app = run(until=3_600, deaths=(Death(per_hour=2.0, statuses=((status, 1.0),)),))
    assert statuses(app)[status] == pytest.approx(170, abs=20)  # 1 - e**-2 of 200, nearly
    assert len(app.gone()) == statuses(app)[status]
    one = next(c for c in app.completed() if c.status == status)
    verdict = judge(one.container, "h", status, one.diagnostics, ending=False)
    found = re.search(r"limits\. ([0-9.]+ GB of [0-9.]+ GB) (physical|virtual) memory used\. Consider", verdict.text)
    assert found is not None
    used, allowed = (float(amount.split(" ")[0]) for amount in found[1].split(" of "))
    assert used >= allowed
    assert allowed == (2.0 if status == -104 else 4.2)


def test_preemption_at_a_rate() -> None:
    app = run(until=3_600, deaths=(Death(per_hour=1.0, statuses=((-102, 1.0),)),))
    assert statuses(app)[-102] == pytest.approx(126, abs=20)
    assert app.tally("containers.preempted") == statuses(app)[-102] == len(app.gone())


def test_a_kill_by_the_resource_manager_is_told_before_the_process_ends() -> None:
    app = run(1, 20, (Nodes("worker", 1),), deaths=(Death(share=1.0, delay=Constant(3 * S), statuses=((-102, 1.0),)),))
    (lost,) = app.all(ExecutorDisconnected)
    (answer,) = [a for a in app.all(ResourcesAnswered) if a.completed]
    registered = app.all(RegisterExecutor)[0].at
    assert registered + 3 * S < lost.at <= registered + 4 * S + 10
    assert answer.at <= registered + 5 * S


def test_deaths_only_where_and_when_they_are_meant_to_be() -> None:
    death = Death(share=1.0, groups=("bad",), profiles=(0,), during=Window(0, 30 * S))
    app = App(plain(Nodes("bad", 1, 8_192, 8), Nodes("good", 1, 8_192, 8), deaths=(death,)))
    app.request(4)
    app.request(4, profile=1)
    app.until(60 * S)
    released = {c.container for c in app.completed() if c.status == -100}
    bad = {c.id for c in app.given() if c.host == "bad-1" and c.profile == 0} - released
    assert {c.container for c in app.completed() if c.status == 1} == bad
    assert bad
    app.request(2)
    app.until(90 * S)
    assert statuses(app)[1] == len(bad)


def test_launches_that_fail() -> None:
    fault = LaunchFault("java.io.IOException: no", 0.5, groups=("worker",))
    app = run(launch_faults=(fault, LaunchFault("x", 1.0, fatal=True, groups=("worker",), during=Window(500 * S))))
    failed = app.failed_launches()
    assert len(failed) == pytest.approx(100, rel=0.3)
    assert {(one.failure, one.fatal) for one in failed} == {("java.io.IOException: no", False)}
    assert app.stages()[ContainerStage.REGISTERED] == 200 - len(failed)
    app.request(1)
    app.until(620 * S)
    assert app.failed_launches()[-1].fatal or app.failed_launches()[-1].failure == "java.io.IOException: no"


def test_a_launch_in_a_container_that_is_gone() -> None:
    app = App(plain(), launches=False)
    app.request(1)
    app.until(3 * S)
    (container,) = app.given()[:1]
    app.release(container.id)
    app.until(5 * S)
    app.launch(container)
    app.until(6 * S)
    (ended,) = app.all(LaunchEnded)
    assert "was recently stopped on node manager" in str(ended.failure)


def test_a_launch_twice() -> None:
    app = App(plain(), launches=False)
    app.request(1)
    app.until(3 * S)
    (container,) = app.given()[:1]
    app.launch(container)
    app.launch(container)
    app.until(10 * S)
    assert [bool(one.failure) for one in app.all(LaunchEnded)] == [False, True]
    assert app.registered() == ["1"]


# nodes


def test_a_crashed_machine() -> None:
    """Silent at 30 s; the driver sees it after 2 minutes, the resource manager after 10; it is back after 15."""
    event = YarnNodeEvent(30 * S, YarnNodeHappening.LOSE, "worker", 1, back=Constant(15 * M))
    app = App(plain(Nodes("worker", 2, 8_192, 8), node_events=(event,)))
    app.request(8)
    app.until(29 * S)
    assert app.stages() == {ContainerStage.REGISTERED: 8}
    app.until(2 * M)
    assert (app.gone(), app.stages()) == ([], {ContainerStage.REGISTERED: 4, ContainerStage.OVER: 4})
    silent = app.all(HeartbeatsStopped)
    assert len({one.executor for one in silent}) == len(silent) == 4
    assert all(30 * S <= one.at < 31 * S and one.at - 20 * S < one.last_ms <= one.at for one in silent)
    app.until(3 * M)
    assert len(app.gone()) == 4
    assert app.completed() == []
    assert worlds.census(app.world).nodes == 2
    app.until(11 * M)
    assert [(c.status, c.diagnostics) for c in app.completed()] == [(-100, "Container released on a *lost* node")] * 4
    assert app.reports() == [NodeReport("worker-1", "LOST")]
    assert app.all(ResourcesAnswered)[-1].nodes == 1
    app.request(6)
    app.until(17 * M)
    assert app.reports()[1:] == [NodeReport("worker-1", "RUNNING")]
    assert app.stages() == {ContainerStage.REGISTERED: 8}


def test_a_machine_that_is_back_before_it_is_missed() -> None:
    event = YarnNodeEvent(30 * S, YarnNodeHappening.LOSE, "worker", host="worker-2", back=Constant(10 * S))
    app = App(plain(Nodes("worker", 2, 8_192, 8), node_events=(event,)))
    app.request(8)
    app.until(42 * S)
    assert Counter(c.status for c in app.completed()) == {-100: 4}
    assert [r.state for r in app.reports()] == ["LOST", "RUNNING"]


def test_a_launch_on_a_crashed_machine() -> None:
    event = YarnNodeEvent(10 * S, YarnNodeHappening.LOSE, "worker", stays=True)
    app = App(plain(Nodes("worker", 1), node_events=(event,)), launches=False)
    app.request(1)
    app.until(11 * S)
    app.launch(app.given()[0])
    app.until(5 * M)
    (ended,) = app.all(LaunchEnded)
    assert ended.at == pytest.approx(11 * S + 3 * M, abs=S)
    assert "NoRouteToHost" in str(ended.failure)
    app.beats = None
    assert worlds.due(app.until(30 * M).world) == NEVER


def test_decommissioning() -> None:
    """Nothing new there; gone when it is empty."""
    event = YarnNodeEvent(30 * S, YarnNodeHappening.DECOMMISSION, "worker", stays=True)
    app = App(plain(Nodes("worker", 2, 8_192, 8), node_events=(event,)))
    app.request(6)
    app.until(32 * S)
    assert app.reports() == [NodeReport("worker-1", "DECOMMISSIONING")]
    app.request(2)
    app.until(60 * S)
    late = [c.host for a in app.all(ResourcesAnswered) if a.at > 33 * S for c in a.allocated]
    assert set(late) == {"worker-2"}
    assert worlds.census(app.world).nodes == 2
    there = [c.id for c in app.given() if c.host == "worker-1"]
    app.release(*there)
    app.until(70 * S)
    assert [r.state for r in app.reports()] == ["DECOMMISSIONING", "DECOMMISSIONED"]
    assert worlds.census(app.world).nodes == 1


def test_decommissioning_ends_with_its_time() -> None:
    event = YarnNodeEvent(30 * S, YarnNodeHappening.DECOMMISSION, "worker", back=Constant(60 * S))
    app = App(plain(Nodes("worker", 1, 8_192, 8), node_events=(event,), decommission_ms=60 * S))
    app.request(3)
    app.until(89 * S)
    assert app.stages() == {ContainerStage.REGISTERED: 3}
    app.until(95 * S)
    assert [c.status for c in app.completed()][-3:] == [-100] * 3
    assert (app.stages(), len(app.gone())) == ({}, 3)
    app.until(160 * S)
    assert [r.state for r in app.reports()] == ["DECOMMISSIONING", "DECOMMISSIONED", "RUNNING"]


def test_an_unhealthy_node() -> None:
    event = YarnNodeEvent(30 * S, YarnNodeHappening.SICKEN, "worker", 2, back=Constant(60 * S))
    app = App(plain(Nodes("worker", 3, 8_192, 8), node_events=(event,)))
    app.request(9)
    app.until(33 * S)
    assert [r.state for r in app.reports()] == ["UNHEALTHY"] * 2
    lost = [c for c in app.completed() if c.diagnostics == "Container released on a *lost* node"]
    assert len(app.gone()) == len(lost) >= 4
    app.until(100 * S)
    assert [r.state for r in app.reports()][2:] == ["RUNNING"] * 2


def test_nodes_that_join() -> None:
    event = YarnNodeEvent(30 * S, YarnNodeHappening.JOIN, "worker", 2)
    app = App(plain(Nodes("worker", 1, 4_096, 8), node_events=(event,)))
    app.request(6)
    app.until(29 * S)
    assert app.stages() == {ContainerStage.REGISTERED: 2}
    app.until(60 * S)
    assert app.stages() == {ContainerStage.REGISTERED: 6}
    assert {c.host for c in app.given()} == {"worker-1", "worker-2", "worker-3"}
    assert sorted(r.host for r in app.reports()) == ["worker-2", "worker-3"]


@pytest.mark.parametrize("rates", [{"lost_per_hour": 3.0}, {"decommissioned_per_hour": 3.0}])
def test_nodes_that_go_at_a_rate(rates: dict[str, float]) -> None:
    row = Nodes("worker", 40, back=Constant(60 * S), **rates)  # type: ignore[arg-type]
    app = run(80, 3_600, (row,), node_expiry_ms=30 * S, decommission_ms=30 * S)
    states = Counter(r.state for r in app.reports())
    went = states["LOST"] + states["DECOMMISSIONED"]
    assert went == pytest.approx(115, rel=0.3)
    assert states["RUNNING"] == pytest.approx(went, abs=6)


# the resource manager


def test_calls_that_fail_lose_nothing() -> None:
    fault = CallFault("java.io.IOException: away", during=Window(0, 10 * S))
    app = App(plain(faults=(fault,)))
    app.exclude("worker-1")
    app.request(4)
    app.until(9 * S)
    assert app.given() == []
    assert {(r.what, r.fatal) for r in app.refused()} == {("java.io.IOException: away", False)}
    app.until(15 * S)
    assert len(app.given()) >= 4
    assert "worker-1" not in {c.host for c in app.given()}
    assert app.tally("calls.refused") == len(app.refused()) == 9


def test_a_release_in_a_call_that_failed_is_made_again() -> None:
    app = App(plain(faults=(CallFault(during=Window(10_500, 11_500)),)))
    app.request(1)
    app.until(10_600)
    app.release(app.given()[0].id)
    app.until(20 * S)
    assert [c.status for c in app.completed()] == [-100]


def test_calls_that_are_slow() -> None:
    app = App(plain(faults=(CallFault(slow=Constant(3 * S)),)), beats=None)
    app.call()
    app.until(10 * S)
    assert [a.at for a in app.all(ResourcesAnswered)] == [3_020]


def test_more_than_the_maximum_is_refused() -> None:
    app = App(plain(maximum_mib=8_192, maximum_vcores=4), beats=None)
    app.request(1, size=Resource(9_000, 1))
    app.call()
    app.until(S)
    assert "InvalidResourceRequestException" in app.refused()[0].what
    app.cancel(1, 1)
    app.request(1)
    app.call()
    assert len(app.until(2 * S).refused()) == 1


def mistaken(during: Window = ALWAYS_OPEN, **shares: float) -> App:
    app = App(plain(MANY, mistakes=Mistakes(during=during, **shares)), launches=False)
    app.request(200)
    return app.until(60 * S)


def test_mistakes() -> None:
    surplus = mistaken(surplus=0.2)
    assert surplus.tally("mistakes.surplus") == pytest.approx(40, rel=0.4)
    assert len(surplus.given()) == surplus.tally("containers.allocated") >= 200 + surplus.tally("mistakes.surplus")
    unknown = mistaken(unknown=0.1)
    assert sum(c.profile == UNKNOWN_PRIORITY for c in unknown.given()) == unknown.tally("mistakes.unknown priority") > 5
    small = mistaken(small=0.1)
    assert sum(c.resource.memory_mib == 1_024 for c in small.given()) == small.tally("mistakes.too small") > 5
    partial = mistaken(partial=0.5)
    assert partial.tally("mistakes.partial") > 1
    assert len(partial.given()) == partial.tally("containers.allocated")
    none = mistaken(Window(1_000 * S), surplus=0.5, unknown=0.5, small=0.5)
    assert not [name for name in worlds.tally(none.world) if name.startswith("mistakes")]


# the application master


def test_another_application_master() -> None:
    app = App(plain(restarts=(30 * S,)))
    app.request(6)
    app.exclude("worker-4")
    app.until(29_500)
    assert app.stages() == {ContainerStage.REGISTERED: 6}
    answers = len(app.all(ResourcesAnswered))
    app.until(39 * S)
    assert app.stages() == {}
    assert len(app.gone()) == 6
    assert not worlds.census(app.world).master
    assert len(app.all(ResourcesAnswered)) == answers  # nobody answers
    app.until(41 * S)
    assert app.all(MasterRegistered) == [MasterRegistered(0), MasterRegistered(40 * S)]
    app.request(8)
    app.until(60 * S)
    assert app.completed() == [] or {c.diagnostics for c in app.completed()} == {"Container released by application"}
    assert app.given()[-1].id.startswith("container_1700000000000_0001_02_")
    assert "container_1700000000000_0001_02_000002" in {c.id for c in app.given()}
    assert "worker-4" in {c.host for c in app.given()[6:]}  # what was excluded is forgotten


# calm


def test_after_calm_nothing_goes_wrong() -> None:
    app = App(
        plain(
            Nodes("worker", 10, lost_per_hour=60.0),
            calm_ms=5 * M,
            node_events=(YarnNodeEvent(6 * M, YarnNodeHappening.LOSE, "worker", 3),),
            faults=(CallFault(probability=0.3),),
            launch_faults=(LaunchFault(probability=0.3),),
            deaths=(Death(per_hour=30.0), Death(ContainerPhase.STARTING, share=0.2)),
            mistakes=Mistakes(0.2, 0.2, 0.2, 0.2, 0.2),
            restarts=(7 * M,),
        )
    )
    app.request(40)
    app.until(20 * M)
    before = {name: n for name, n in worlds.tally(app.world).items() if not name.startswith("calls.made")}
    app.request(10)
    app.until(40 * M)
    after = dict(worlds.tally(app.world))
    for name in ("calls.refused", "nodes.crashed", "launches.failed", "mistakes.surplus", "exits.1"):
        assert after.get(name) == before.get(name)


# times


@pytest.mark.parametrize(
    ("window", "t", "at"),
    [
        (Window(), 5, None),
        (Window(10), 5, 10),
        (Window(10), 10, None),
        (Window(10, 20), 9, 10),
        (Window(10, 20), 10, 20),
        (Window(10, 20), 20, None),
        (Window(10, 20, 50), 15, 20),
        (Window(10, 20, 50), 20, 60),
        (Window(10, 20, 50), 60, 70),
        (Window(10, 20, 50), 119, 120),
    ],
)
def test_when_a_time_opens_or_closes_next(window: Window, t: int, at: int | None) -> None:
    assert next_change(window, t) == at
