"""A YARN cluster without faults: who is given what, when and where, and how containers live and end."""

from __future__ import annotations

import pytest

from podtide.domain.base.units import NEVER, ExecutorId
from podtide.domain.fakes.windows import Window
from podtide.domain.fakes.yarn import cluster as worlds
from podtide.domain.fakes.yarn.description import YARN, Nodes, Queue, Tenant, racks
from podtide.domain.fakes.yarn.rows import ContainerStage
from podtide.domain.protocol.containers import Completion, Resource
from podtide.domain.protocol.executor_commands import DecommissionExecutors, ExitReason, RemoveExecutor, StopSource
from podtide.domain.protocol.executor_stimuli import RegisterExecutor
from podtide.domain.protocol.pod_commands import ListPods
from podtide.domain.protocol.yarn_messages import (
    CallResourceManager,
    EndApplication,
    LaunchEnded,
    MasterRegistered,
    ResourcesAnswered,
)
from tests.support.yarn_world_play import SIZE, WHY, App, S, layout, plain

TWO_RACKS = (Nodes("left", 3, 8_192, 8, racks=("/left",)), Nodes("right", 3, 8_192, 8, racks=("/right",)))


def test_a_life() -> None:
    """Asked at 0, told at 1 s, given by heartbeats, heard at 2 s, launched, fetched, up and registered."""
    app = App(plain(Nodes("worker", 1)))
    app.request(1)
    app.until(10 * S)
    (container,) = app.given()
    assert (container.id, container.host) == ("container_1700000000000_0001_01_000002", "worker-1")
    assert (container.profile, container.resource) == (0, SIZE)
    assert app.all(MasterRegistered) == [MasterRegistered(0)]
    assert app.all(LaunchEnded) == [LaunchEnded(2_070, ExecutorId("1"), container=container.id)]
    (registered,) = app.all(RegisterExecutor)
    assert (registered.at, registered.executor, registered.host) == (4_072, "1", "worker-1")
    assert app.stages() == {ContainerStage.REGISTERED: 1}
    answer = app.all(ResourcesAnswered)[-1]
    assert (answer.nodes, answer.available) == (1, Resource(65_536 - 2_048, 15))


@pytest.mark.parametrize(
    ("asked", "given"),
    [((1_408, 1), (2_048, 1)), ((1_024, 2), (1_024, 2)), ((1, 1), (1_024, 1)), ((4_097, 3), (5_120, 3))],
)
def test_what_is_asked_for_is_rounded_up(asked: tuple[int, int], given: tuple[int, int]) -> None:
    app = App(plain(), launches=False)
    app.request(1, size=Resource(*asked))
    assert app.until(3 * S).given()[0].resource == Resource(*given)


def test_a_node_gives_one_container_without_locality_at_each_heartbeat() -> None:
    app = App(plain(Nodes("worker", 4)))
    app.request(12)
    app.until(2 * S + 20)
    assert sorted(c.host for c in app.given()) == ["worker-1", "worker-2", "worker-3", "worker-4"]
    fast = App(plain(Nodes("worker", 1), anywhere_per_heartbeat=5))
    fast.request(5)
    assert len(fast.until(2 * S + 20).given()) == 5


def test_more_is_given_than_wanted_where_asks_cross_with_gifts() -> None:
    """The call at 3 s says that 2 of 6 are still wanted; the nodes gave those at just that time."""
    app = App(plain(Nodes("worker", 4, 8_192, 8)))
    app.request(6)
    app.until(20 * S)
    assert app.tally("containers.allocated") > 6
    assert app.tally("containers.launched") == 6
    surplus = app.tally("containers.allocated") - 6
    assert app.tally("containers.released") == surplus
    assert [c.status for c in app.completed()] == [-100] * surplus


def test_room_on_nodes_is_never_exceeded() -> None:
    app = App(plain(Nodes("worker", 2, 5_000, 8)))
    app.request(10)
    app.until(30 * S)
    assert app.stages() == {ContainerStage.REGISTERED: 4}
    tight = App(plain(Nodes("worker", 2, 8_192, 1)))
    tight.request(10)
    assert tight.until(30 * S).stages() == {ContainerStage.REGISTERED: 2}
    memory_alone = App(plain(Nodes("worker", 2, 8_192, 1), dominant=False))
    memory_alone.request(10)
    assert memory_alone.until(30 * S).stages() == {ContainerStage.REGISTERED: 8}


def test_other_resources_count() -> None:
    gpus = Nodes("gpu", 2, custom=(("yarn.io/gpu", 2),))
    app = App(plain(Nodes("worker", 4), gpus))
    app.request(9, size=Resource(2_048, 1, (("yarn.io/gpu", 1),)))
    app.until(20 * S)
    assert sorted(c.host for c in app.given()) == ["gpu-1", "gpu-1", "gpu-2", "gpu-2"]


def test_labels() -> None:
    rows = (Nodes("worker", 2), Nodes("gold", 2, label="gold"))
    app = App(plain(*rows))
    app.request(3, label="gold")
    app.request(3, profile=1)
    app.until(20 * S)
    hosts = {(c.profile, c.host[:4]) for c in app.given()}
    assert hosts == {(0, "gold"), (1, "work")}


# locality


def test_named_hosts_first_and_many_at_once() -> None:
    app = App(plain(*TWO_RACKS, rack_delay=10))
    app.request(0, layout=layout(("left-2", "/left", 3)))
    app.until(3 * S)
    assert [c.host for c in app.given()][:3] == ["left-2"] * 3
    assert app.tally("containers.on their host") == 3


def test_then_their_racks_then_anywhere() -> None:
    full = (Nodes("left", 3, 2_048, 8, racks=("/left",)), Nodes("right", 3, 8_192, 8, racks=("/right",)))
    app = App(plain(*full, node_delay=4, rack_delay=4))
    app.request(0, layout=layout(("left-2", "/left", 6)))
    app.until(15 * S)
    hosts = [c.host for c in app.given()]
    assert hosts[0] == "left-2"
    assert set(hosts[:3]) == {"left-1", "left-2", "left-3"}
    assert {h[:5] for h in hosts[3:]} == {"right"}
    assert (app.tally("containers.on their host"), app.tally("containers.on their rack")) == (1, 2)
    assert app.tally("containers.anywhere") >= 3


def test_strict_delays() -> None:
    """With one named host among a hundred, and no patience for anywhere else than its rack."""
    app = App(plain(*(Nodes(f"n{i}", 20, 2_048, 8, racks=(f"/r{i}",)) for i in range(5)), rack_delay=100))
    app.request(0, layout=layout(("n3-7", "/r3", 4)))
    hosts = [c.host for c in app.until(8 * S).given()]
    assert "n3-7" in hosts
    assert {h.split("-")[0] for h in hosts} == {"n3"}


# priorities and the queue


def test_who_has_no_room_in_the_queue_blocks_those_behind() -> None:
    app = App(plain(queue=Queue(memory_mib=4_096)))
    app.request(1, profile=1, size=Resource(8_192, 1))
    app.request(1, profile=2)
    assert app.until(20 * S).given() == []
    app.cancel(1, 1, profile=1)
    assert [c.profile for c in app.until(30 * S).given()] == [2]


@pytest.mark.parametrize(("memory", "vcores", "count"), [(8_192, None, 4), (None, 3, 3), (0, None, 0), (5_000, 2, 2)])
def test_queue_limits(memory: int | None, vcores: int | None, count: int) -> None:
    app = App(plain(queue=Queue(memory, vcores)))
    app.request(8)
    app.until(20 * S)
    assert sum(app.stages().values()) == count
    allowed = worlds.census(app.world).allowed
    assert allowed == Resource(32_768 if memory is None else memory, 32 if vcores is None else vcores)


def test_tenants_come_and_go() -> None:
    tenant = Tenant(28_672, 0, "nightly", Window(0, 10 * S, 60 * S))
    app = App(plain(queue=Queue(tenants=(tenant,))))
    app.request(16)
    app.until(9 * S)
    assert len(app.given()) == 2
    app.until(40 * S)
    assert sum(app.stages().values()) == 16
    app.until(65 * S)  # it is back, and nobody is preempted
    assert worlds.census(app.world).allowed == Resource(4_096, 32)
    assert worlds.census(app.world).used == Resource(32_768, 16)
    assert app.all(ResourcesAnswered)[-1].available == Resource(0, 16)


def test_preemption_takes_back_what_is_above() -> None:
    tenant = Tenant(20_480, 0, "nightly", Window(30 * S, 90 * S))
    queue = Queue(tenants=(tenant,), preempts=True, wait_ms=10 * S, round_ms=3 * S, share=0.2)
    app = App(plain(queue=queue))
    app.request(8)
    app.request(8, profile=1)
    app.until(39 * S)
    assert sum(app.stages().values()) == 16
    app.until(80 * S)
    completed = [c for c in app.completed() if c.status == -102]
    assert len(completed) == 10
    assert completed[0].diagnostics == "Container preempted by scheduler"
    census = worlds.census(app.world)
    assert census.used == Resource(12_288, 6)
    assert dict(census.stages) == {(0, ContainerStage.REGISTERED): 6}  # the others' profile went first
    assert len(app.gone()) == 10
    answers = [a for a in app.all(ResourcesAnswered) if any(c.status == -102 for c in a.completed)]
    assert len(answers) > 2  # not all at once


# exclusion


def test_excluded_hosts_get_nothing() -> None:
    app = App(plain(Nodes("worker", 2)))
    app.exclude("worker-1", "no-such-host")
    app.request(3)
    app.until(20 * S)
    assert {c.host for c in app.given()} == {"worker-2"}
    app.exclude(removed=("worker-1",))
    app.request(3)
    app.until(40 * S)
    assert {c.host for c in app.given()} == {"worker-1", "worker-2"}


# the end of containers


def test_a_released_container_is_completed_in_the_answer_after_next() -> None:
    app = App(plain())
    app.request(1)
    app.until(10 * S)
    app.release(app.given()[0].id)
    app.until(11 * S)
    assert (app.completed(), worlds.census(app.world).used) == ([], Resource(2_048, 1))
    app.until(13 * S)
    assert app.completed() == [Completion(app.given()[0].id, -100, "Container released by application")]
    assert len(app.gone()) == 1
    assert (app.stages(), worlds.census(app.world).used) == ({}, Resource(0, 0))
    app.release(app.given()[0].id, "nonsense", "container_1_2_3_4")
    assert len(app.until(20 * S).completed()) == 1


def test_a_container_that_nobody_launches_expires() -> None:
    app = App(plain(), launches=False)
    app.request(1)
    app.until(3 * S)
    app.cancel(1, 1)
    app.until(601 * S)
    assert app.completed() == []
    assert app.stages()[ContainerStage.ACQUIRED] >= 1
    app.until(605 * S)
    assert {(c.status, c.diagnostics) for c in app.completed()} == {(-100, "Container expired since it was unused")}
    assert app.stages() == {}


def test_a_refused_executor_goes() -> None:
    app = App(plain(), accepts=False)
    app.request(1)
    app.until(10 * S)
    assert [c.status for c in app.completed()] == [1]
    assert "Exit code: 1" in app.completed()[0].diagnostics
    assert len(app.gone()) == 1


def test_the_drivers_words() -> None:
    app = App(plain())
    app.request(3)
    app.until(10 * S)
    app.ask(RemoveExecutor(app.now, ExecutorId("1"), ExitReason("ExecutorExited", ""), WHY))
    app.ask(DecommissionExecutors(app.now, (ExecutorId("2"), ExecutorId("77")), "", True, WHY))
    app.ask(DecommissionExecutors(app.now, (ExecutorId("3"),), "", False, WHY))
    app.until(10 * S + 200)
    assert app.stages() == {ContainerStage.EXITING: 1, ContainerStage.DRAINING: 1, ContainerStage.REGISTERED: 1}
    app.until(12 * S)
    assert len(app.gone()) == 1
    app.until(16 * S)
    assert [c.status for c in app.completed() if c.status != -100] == [0, 0]
    assert app.stages() == {ContainerStage.REGISTERED: 1}


@pytest.mark.parametrize(
    "last", [EndApplication(10 * S, "SUCCEEDED", 0, "", WHY), StopSource(10 * S, 1, "client", WHY)]
)
def test_the_end(last: EndApplication | StopSource) -> None:
    app = App(plain())
    app.request(3)
    app.until(10 * S)
    app.ask(last)
    heard = len(app.heard)
    assert worlds.due(app.world) == NEVER
    app.ask(CallResourceManager(app.now, 99, WHY))
    app.beats = None
    app.until(1_000 * S)
    assert (len(app.heard), worlds.containers(app.world)) == (heard, ())
    assert app.tally("containers.running at the end") == 3
    assert worlds.due(app.world) == NEVER


def test_what_is_for_others_changes_nothing() -> None:
    app = App(plain(), beats=None)
    before = worlds.due(app.world)
    app.ask(StopSource(0, 1, "scheduler", WHY))
    app.ask(ListPods(0, 1, WHY))
    assert (worlds.due(app.world), worlds.containers(app.world)) == (before, ())


# the value


def test_time_does_not_go_back() -> None:
    world = worlds.begin(YARN, 1, 1_000)
    with pytest.raises(ValueError, match="at 1000 already"):
        worlds.advance(world, 999)
    with pytest.raises(ValueError, match="at 1000 already"):
        worlds.apply(world, CallResourceManager(999, 1, WHY), 999)


def test_steps_may_be_of_any_length() -> None:
    """Whoever looks at every millisecond hears the same as who looks when something is due."""
    one = App(YARN, 5, beats=None)
    other = App(YARN, 5, beats=None)
    for app in (one, other):
        app.until(2 * S)
        app.request(7)
        app.call()
    one.until(4 * S)
    for moment in range(2 * S, 4 * S + 1):
        other.until(moment)
    assert one.story() == other.story()
    assert repr(worlds.containers(one.world)) == repr(worlds.containers(other.world))


def test_a_fork_can_be_gone_on_from() -> None:
    app = App(plain(*TWO_RACKS))
    app.request(9, layout=layout(("left-2", "/left", 3), ("right-1", "/right", 1)))
    app.until(1_500)
    before, rows = app.world.fork(), repr(worlds.containers(app.world))
    app.until(30 * S)
    assert repr(worlds.containers(before)) == rows
    again = App(plain(*TWO_RACKS))
    again.world, again.now, again.last, again.serial = before, 1_500, 1_000, 1
    again.made, again.open, again.heard = {0: 12}, {0: list(range(1, 13))}, [h for h in app.heard if h.at <= 1_500]
    again.until(30 * S)
    assert again.story() == app.story()


def test_hosts_and_racks() -> None:
    rows = (Nodes("a", 3, racks=("/r1", "/r2"), hosts=("x", "y")), Nodes("b", 1))
    assert racks(plain(*rows)) == {"x": "/r1", "y": "/r2", "a-3": "/r1", "b-1": "/default-rack"}


def test_the_applications_id_is_in_the_containers_names() -> None:
    app = App(plain(), launches=False, beats=None)
    app.world = worlds.begin(plain(), 1, 0, application_id="application_1763720000123_0042")
    app.until(0).request(1)
    app.call()
    app.until(2 * S).call()
    assert app.until(3 * S).given()[0].id == "container_1763720000123_0042_01_000002"


def test_a_wait_costs_no_events() -> None:
    """Where nothing can be given, nobody looks at 5,000 nodes every second."""
    app = App(plain(Nodes("worker", 5_000, 2_048, 8)), beats=None)
    app.request(10, size=Resource(4_096, 1))
    app.call()
    app.until(S)
    assert worlds.due(app.world) == NEVER
