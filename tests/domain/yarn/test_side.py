"""The machines of the YARN side together, under the engine: who hears what, who waits for whom, and when."""

from __future__ import annotations

import pytest

from podtide.domain import engine
from podtide.domain.base.units import NEVER, ExecutorId, ProfileId
from podtide.domain.protocol import executor_stimuli, pod_stimuli
from podtide.domain.protocol.application import EngineConfig
from podtide.domain.protocol.backend_messages import HostsExcluded
from podtide.domain.protocol.cluster_config import ContainerRules, ExclusionConfig
from podtide.domain.protocol.config import ScalingConfig
from podtide.domain.protocol.containers import ContainerId, NodeReport, Resource
from podtide.domain.protocol.executor_commands import (
    AnswerRegistration,
    DecommissionExecutors,
    RemoveExecutor,
    StopSource,
)
from podtide.domain.protocol.reasons import Held, Phase, Threw
from podtide.domain.protocol.stimuli import ResourceProfileAdded, StageSubmitted
from podtide.domain.protocol.yarn_messages import (
    CallResourceManager,
    CancelRequests,
    ContainersGiven,
    DecommissionHost,
    EndApplication,
    LaunchEnded,
    LaunchExecutor,
    MasterEnding,
    MasterLost,
    MasterRegistered,
    ProfilesDefined,
    ReleaseContainers,
    RequestContainers,
    ResourcesAnswered,
    TellLossReason,
    UpdateExclusions,
)
from podtide.domain.yarn import router as yarn_router, side as yarn_side
from podtide.domain.yarn.reporter import ReporterStage
from podtide.domain.yarn.scheduler_backend import STALE
from tests.support.yarn_side_play import Manager, S, YarnPlay, config, kinds

ONE = ExecutorId("1")


def test_an_executor_whose_heartbeats_stop_is_given_up_and_its_container_released() -> None:
    play = YarnPlay(config(initial=0))
    play.offer("h1", "h2").feed(executor_stimuli.TargetsSet(0, ((ProfileId(0), 2),)))
    play.registers(1, 2)
    play.feed(executor_stimuli.HeartbeatsStopped(0, ONE, 0))
    play.wait(179 * S)
    assert play.registered == ["1", "2"]
    play.wait(2 * S).offer("h3").wait(10 * S)
    (removed,) = play.all(RemoveExecutor)
    assert (removed.at, removed.executor, removed.reason.kind) == (180 * S, ONE, "ExecutorProcessLost")
    assert [command.containers for command in play.all(ReleaseContainers)] == [("c1",)]
    assert [command.executor for command in play.all(LaunchExecutor)] == ["1", "2", "3"], "it is replaced"
    assert play.registered == ["2"]


def test_from_a_target_to_an_executor_and_back() -> None:
    play = YarnPlay(config(initial=0))
    play.offer("h1", "h2").feed(executor_stimuli.TargetsSet(0, ((ProfileId(0), 2),)))
    assert [command.executor for command in play.all(LaunchExecutor)] == ["1", "2"]
    assert play.beats == [0, 0, 0], "a changed target wakes the reporter"
    play.registers(1, 2)
    play.feed(executor_stimuli.TargetsSet(0, ((ProfileId(0), 1),)), executor_stimuli.KillRequested(0, (ONE,)))
    assert [command.containers for command in play.all(ReleaseContainers)] == [("c1",)]
    assert play.registered == ["1", "2"], "the driver keeps it until it is gone"
    said = play.disconnects(1)
    assert kinds(said) == ["CallResourceManager"], "somebody waits for a reason, so the reporter wakes"
    told = play.ends(1, status=-105).wait(S).all(TellLossReason)
    assert [command.reason.message for command in told if command.reason] == [
        "Container c1 exited from explicit termination request."
    ]
    assert play.registered == ["2"]
    assert sorted(play.side.allocator.rows.running_by_profile()[ProfileId(0)]) == ["2"]


def test_the_reporter_sleeps_as_long_as_something_waits() -> None:
    play = YarnPlay(config()).until(10 * S)
    assert play.beats == [0, 0, 200, 600, 1_400, 3_000, 6_000, 9_000]
    play.offer("h1", "h2").until(12 * S)
    assert play.until(20 * S).beats[8:] == [12 * S, 15 * S, 18 * S]


def test_while_the_resource_manager_is_asked_whoever_needs_the_allocator_waits() -> None:
    play = YarnPlay(config(dynamic=True, initial=1), Manager(silent=True))
    play.feed(executor_stimuli.TargetsSet(0, ((ProfileId(0), 4),)), executor_stimuli.KillRequested(0, (ONE,)))
    assert [type(letter.item).__name__ for letter in play.side.held] == ["ContainersWanted"]
    assert kinds(play.answer()) == ["RequestContainers", "CallResourceManager"], "the reporter's own first round"
    assert play.side.allocator.targets[ProfileId(0)] == 4, "taken between the two rounds"
    assert play.side.reporter.stage is ReporterStage.BEATING
    assert play.answer() == []
    assert [command.count for command in play.all(RequestContainers)] == [1, 3]


def test_what_waited_may_wake_the_reporter_that_just_went_to_sleep() -> None:
    play = YarnPlay(config(initial=0))
    play.manager.silent = True
    play.until(3 * S)
    play.feed(executor_stimuli.TargetsSet(play.now, ((ProfileId(0), 1),)))
    said = play.answer()
    assert kinds(said) == ["RequestContainers", "CallResourceManager"]


def test_no_node_left_ends_the_application() -> None:
    always = ExclusionConfig(always=frozenset({"h1", "h2"}))
    play = YarnPlay(config(allocator={"exclusion": always}), Manager(nodes=2))
    assert [command.added for command in play.all(UpdateExclusions)] == [("h1", "h2")]
    (end,) = play.all(EndApplication)
    assert end.message == "Due to executor failures all available nodes are excluded"
    assert play.beats == [0], "the master's own round; the reporter looked before its first"


def test_refused_calls_are_counted() -> None:
    play = YarnPlay(config(initial=0)).until(S)
    play.manager.refusal = ("java.io.IOException: no route to host", False)
    play.until(60 * S)
    (end,) = play.all(EndApplication)
    assert (end.exit_code, end.message) == (12, "Exception was thrown 5 time(s) from Reporter thread.")
    assert play.beats[-5:] == [3 * S, 6 * S, 9 * S, 12 * S, 15 * S]
    assert len([one for one in play.reports if isinstance(one, Threw)]) == 5


def test_a_decommissioning_node_takes_its_executors_along() -> None:
    play = YarnPlay(config(allocator={"decommission": True})).offer("h1", "h2").until(S)
    play.registers(1)
    play.registers(2, host="h2")
    play.manager.updated.append(NodeReport("h1", "DECOMMISSIONING"))
    play.until(4 * S)
    assert [command.host for command in play.all(DecommissionHost)] == ["h1"]
    assert [command.executors for command in play.all(DecommissionExecutors)] == [("1",)]


def test_another_master_goes_on_from_the_highest_id() -> None:
    play = YarnPlay(config(), Manager(queued=True)).offer("h1", "h2").until(S)
    play.feed(LaunchEnded(play.now, ExecutorId("2")))
    play.registers(2)
    before = play.side.allocator.serial
    play.feed(ProfilesDefined(play.now, ((ProfileId(3), play.side.allocator.specs[ProfileId(0)]),)))
    said = play.offer("h1", "h2").feed(MasterRegistered(play.now))
    removed = [command for command in said if isinstance(command, RemoveExecutor)]
    assert [(command.executor, command.reason) for command in removed] == [("2", STALE)]
    assert [command.executor for command in said if isinstance(command, LaunchExecutor)] == ["3", "4"]
    assert min(command.serial for command in said if isinstance(command, CallResourceManager)) == before + 1
    assert set(play.side.allocator.specs) == {0, 3}, "what containers of a profile are is not forgotten"
    assert play.feed(LaunchEnded(play.now, ONE)) == [], "of the master before"
    known = play.side.allocator.rows.launches[ExecutorId("3")]
    play.feed(LaunchEnded(play.now, ExecutorId("3"), container=ContainerId("container_of_before")))
    assert ExecutorId("3") in play.side.allocator.rows.launches, "the same id, another container"
    play.feed(LaunchEnded(play.now, ExecutorId("3"), container=known.container))
    assert ExecutorId("3") not in play.side.allocator.rows.launches


def test_whoever_waited_for_the_master_before_hears_that_it_is_gone() -> None:
    play = YarnPlay(config(dynamic=True, initial=0))
    play.manager.silent = True
    play.until(3 * S)
    play.feed(StageSubmitted(play.now, 0, 0, 4, ProfileId(0)))
    play.until(5 * S)
    assert play.state.scaling.awaiting is not None
    assert play.side.backend.asks
    play.manager.silent = False
    play.feed(MasterRegistered(play.now))
    assert play.state.scaling.awaiting is None
    assert not play.side.backend.asks
    assert not play.side.held


def test_the_end() -> None:
    play = YarnPlay(config()).until(S)
    said = play.feed(executor_stimuli.Stopping(play.now))
    assert kinds(said) == ["CancelRequests", "CallResourceManager", "StopSource", "StopSource"]
    assert play.side.allocator.ending
    assert play.side.allocator.targets == {0: 0}
    assert play.due == NEVER
    assert play.feed(MasterRegistered(play.now)) == []


def test_the_end_waits_for_the_round_under_way() -> None:
    play = YarnPlay(config(), Manager(silent=True))
    assert play.feed(executor_stimuli.Stopping(0)) == []
    assert play.all(StopSource) == []
    play.answer()
    assert [command.what for command in play.all(StopSource)] == ["scheduler", "client"]
    assert play.side.reporter.stage is ReporterStage.OVER


def test_that_the_application_ends_waits_for_no_lock() -> None:
    play = YarnPlay(config()).offer("h1", "h2").wait(S)
    play.registers(1, 2)
    play.manager.silent = True
    play.wait(3 * S)
    play.feed(executor_stimuli.Stopping(play.now))
    play.ends(1).answer()
    (removed,) = play.all(RemoveExecutor)
    assert removed.reason.message == "Executor for container c1 exited after Application shutdown."
    assert play.side.allocator.health.failures.count == 0


def test_without_a_master_nobody_beats_and_nothing_is_held_back() -> None:
    play = YarnPlay(config()).wait(S)
    play.manager.silent = True
    play.wait(3 * S)
    under_way = play.side.allocator.waiting
    assert under_way is not None
    play.feed(executor_stimuli.TargetsSet(play.now, ((ProfileId(0), 5),)), MasterLost(play.now))
    assert (play.side.held, play.side.beating, play.side.reporter.stage) == ((), False, ReporterStage.ABSENT)
    assert [one.phase for one in play.reports if isinstance(one, Held)] == [Phase.BEGAN, Phase.ENDED]
    before = len(play.beats)
    assert play.feed(ResourcesAnswered(play.now, under_way), MasterLost(play.now)) == []
    assert play.due == NEVER
    play.manager.silent = False
    play.offer("h1", "h2").wait(60 * S).feed(MasterRegistered(play.now))
    assert len(play.beats) == before + 2
    assert [command.executor for command in play.all(LaunchExecutor)] == ["1", "2"]


@pytest.mark.parametrize("lost", [False, True])
def test_a_profile_that_waits_for_the_lock_is_known_to_the_next_master(lost: bool) -> None:
    rules = ContainerRules(heap_mib=1_024, overhead_mib=384)
    play = YarnPlay(config(initial=0, allocator={"rules": rules}), Manager(silent=True))
    play.feed(ResourceProfileAdded(0, ProfileId(1), (("cores", 2.0),), (("cpus", 1.0),)))
    play.feed(*((MasterLost(0),) if lost else ()), MasterRegistered(0))
    play.manager.silent = False
    play.answer()
    play.feed(executor_stimuli.TargetsSet(0, ((ProfileId(1), 2),)))
    assert [(command.profile, command.count) for command in play.all(RequestContainers)] == [(1, 2)]


def test_what_was_held_back_ends_with_its_master() -> None:
    play = YarnPlay(config()).wait(S)
    play.feed(MasterRegistered(play.now))
    assert [one.phase for one in play.reports if isinstance(one, Held)] == [Phase.BEGAN, Phase.ENDED, Phase.BEGAN]


def test_a_profile_that_nobody_defined_is_an_exception_for_whoever_asks() -> None:
    play = YarnPlay(config(initial=0))
    assert play.feed(executor_stimuli.TargetsSet(0, ((ProfileId(7), 2),))) == []
    assert [one.what for one in play.reports if isinstance(one, Threw)] == [
        "org.apache.spark.SparkException: ResourceProfileId 7 not found!"
    ]


def test_a_resource_manager_that_is_silent_for_long() -> None:
    play = YarnPlay(config(initial=0)).wait(3 * S)
    play.manager.silent = True
    play.wait(3 * S)
    asked = play.now
    play.feed(executor_stimuli.TargetsSet(play.now, ((ProfileId(0), 2),)))
    assert play.due == asked + 120 * S
    play.until(asked + 120 * S)
    assert [one.what.partition(":")[0] for one in play.reports if isinstance(one, Threw)] == [
        "org.apache.spark.rpc.RpcTimeoutException"
    ]
    play.manager.silent = False
    play.answer()
    assert [command.count for command in play.all(RequestContainers)] == [2], "it is done all the same"


def test_an_end_that_throws_is_the_end_of_the_master_all_the_same() -> None:
    play = YarnPlay(config()).wait(S)
    play.manager.silent = True
    play.wait(3 * S)
    play.feed(executor_stimuli.Stopping(play.now))
    play.wait(120 * S)
    assert len([one for one in play.reports if isinstance(one, Threw)]) == 1
    assert play.all(StopSource) == [], "the rest of stop() is left undone"
    assert (play.side.reporter.stage, play.due) == (ReporterStage.OVER, NEVER)
    play.answer()
    assert (play.side.held, play.due) == ((), NEVER)


def test_a_launch_of_which_nobody_knows_ends_no_wait_for_another() -> None:
    play = YarnPlay(config(allocator={"launches_awaited": True}), Manager(queued=True)).offer("h1", "h2").until(200)
    assert play.feed(LaunchEnded(play.now, ExecutorId("99"))) == []
    assert [command.executor for command in play.all(LaunchExecutor)] == ["1"]


def test_that_no_node_is_left_is_reported_when_it_begins_changes_and_ends() -> None:
    play = YarnPlay(config(initial=0), Manager(nodes=2)).wait(S)

    def exclude(*names: str, target: int) -> None:
        state, items = (
            play.side,
            (HostsExcluded(0, frozenset(names)), executor_stimuli.TargetsSet(0, ((ProfileId(0), target),))),
        )
        assert play.config.yarn is not None
        step = yarn_router.step(state, items, play.config.yarn, play.now)
        play.state = play.state._replace(side=step.state)
        play.reports.extend(step.reports)

    play.manager.silent = True
    play.wait(3 * S)
    exclude("x", target=1)
    play.answer()  # what waited is taken: one of two nodes is excluded
    exclude("x", "y", target=2)
    play.answer()
    exclude("x", "y", "z", target=3)
    exclude(target=4)
    found = [(one.phase, dict(one.facts)) for one in play.reports if isinstance(one, Held)]
    found = [one for one in found if "excluded" in one[1]]
    assert found == [
        (Phase.BEGAN, {"excluded": 2, "nodes": 2}),
        (Phase.CHANGED, {"excluded": 3, "nodes": 2}),
        (Phase.ENDED, {"excluded": 0, "nodes": 2}),
    ]


def test_what_only_kubernetes_knows_changes_nothing_and_the_other_way_round() -> None:
    play = YarnPlay(config()).until(S)
    before = play.state
    assert play.feed(pod_stimuli.PodsReplaced(play.now, ()), pod_stimuli.Outcome(play.now, 3)) == []
    assert play.state == before
    pods = EngineConfig(ScalingConfig())
    state = engine.launch(pods, 0).state
    step = engine.advance(state, (MasterRegistered(0), ResourcesAnswered(0, 1), LaunchEnded(0, ONE)), pods, 0)
    assert (step.state, step.commands) == (state, ())


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_new_profile_is_defined_before_it_is_asked_for(dynamic: bool) -> None:
    rules = ContainerRules(heap_mib=1_024, overhead_mib=384)
    play = YarnPlay(config(dynamic=dynamic, initial=0, allocator={"rules": rules}))
    play.feed(ResourceProfileAdded(play.now, ProfileId(1), (("cores", 2.0), ("memory", 2_048.0)), (("cpus", 1.0),)))
    assert play.side.allocator.specs[ProfileId(1)].resource == Resource(2_432, 2)
    if dynamic:
        play.feed(StageSubmitted(play.now, 0, 0, 4, ProfileId(1)))
        play.wait(3 * S)
        assert {command.resource for command in play.all(RequestContainers)} == {Resource(2_432, 2)}


def test_a_decommission_by_request_and_its_end() -> None:
    play = YarnPlay(config(backend={"force_kill_timeout_ms": 5 * S})).offer("h1", "h2").until(S)
    play.registers(1, 2)
    play.feed(executor_stimuli.DecommissionRequested(play.now, (ONE,), "bye"))
    play.wait(6 * S)
    assert [command.containers for command in play.all(ReleaseContainers)] == [("c1",)]


def test_launches_that_are_awaited_hold_the_lock() -> None:
    play = YarnPlay(config(allocator={"launches_awaited": True}), Manager(queued=True)).offer("h1", "h2").until(200)
    assert [command.executor for command in play.all(LaunchExecutor)] == ["1"]
    play.feed(executor_stimuli.TargetsSet(play.now, ((ProfileId(0), 5),)))
    assert len(play.side.held) == 1
    play.feed(LaunchEnded(play.now, ONE))
    assert [command.executor for command in play.all(LaunchExecutor)] == ["1", "2"]
    play.feed(LaunchEnded(play.now, ExecutorId("2")))
    assert not play.side.held
    assert play.side.allocator.targets == {0: 5}


def test_the_side_alone_takes_many_at_once_and_an_older_state_still_answers() -> None:
    settings = config().yarn
    assert settings is not None
    state = yarn_side.begin(settings, 0)
    begun = yarn_router.step(state, (executor_stimuli.Starting(0), MasterRegistered(0)), settings, 0)
    assert kinds(begun.commands) == ["Reset", "RequestContainers", "CallResourceManager"]
    first = yarn_router.step(begun.state, (ResourcesAnswered(0, 1), ContainersGiven(0)), settings, 0)
    again = yarn_router.step(begun.state, (ResourcesAnswered(0, 1), ContainersGiven(0)), settings, 0)
    assert first == again
    assert yarn_side.due(first.state, settings) == NEVER
    later = yarn_router.step(first.state, (ResourcesAnswered(0, 2), executor_stimuli.Wake(0)), settings, 0)
    assert yarn_side.due(later.state, settings) == 200
    assert not [one for one in later.commands if isinstance(one, CancelRequests | AnswerRegistration)]
    assert MasterEnding(0).at == 0
