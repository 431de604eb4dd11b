"""The scheduler backend: Spark's own scenarios (K1 to K8), kills, decommissions, losses, timers, start and stop."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

import pytest

from podtide.domain.backend import scheduler_backend as backend
from podtide.domain.backend.registry import KILLED
from podtide.domain.backend.state import (
    BackendPhase,
    BackendState,
    readiness,
    sufficient_resources_registered,
    supports_hold,
)
from podtide.domain.base.units import NEVER, ExecutorId, Millis, ProfileId
from podtide.domain.protocol.backend_messages import (
    ActiveChanged,
    BackendCommand,
    BackendInput,
    Decommissioned,
    ExecutorDisabled,
    HeartbeatTimedOut,
    Killed,
    KnownChanged,
    LossReported,
    RecoveryMode,
    Requested,
    RequestMore,
    RequestTotals,
    SourcesStarted,
    StartAllocator,
    StopAllocator,
    TargetsForwarded,
)
from podtide.domain.protocol.cluster_config import BackendConfig
from podtide.domain.protocol.commands import Report
from podtide.domain.protocol.executor_commands import (
    AnswerRegistration,
    DecommissionExecutors,
    ExitReason,
    RemoveExecutor,
    StopSource,
)
from podtide.domain.protocol.executor_stimuli import (
    DecommissionExecutorsOnHost,
    DecommissionRequested,
    ExecutorBusy,
    ExecutorDisconnected,
    ExecutorExiting,
    KillExecutorsOnHost,
    KillRequested,
    RegisterExecutor,
    Starting,
    Stopping,
    Wake,
)
from podtide.domain.protocol.pod_commands import AssignExecutorId, CreateConfigMap, DeleteOwned, DeletePods, MarkPods
from podtide.domain.protocol.pod_stimuli import CallFailure, GenerateExecutorId, Outcome
from podtide.domain.protocol.reasons import Cause, Threw
from podtide.domain.protocol.stimuli import ExecutorRemoved

C = TypeVar("C")

CONFIG = BackendConfig(app_id="app-1", executors_initial=3)
STATEFULSET = replace(CONFIG, allocator="statefulset")
DEPLOYMENT = replace(CONFIG, allocator="deployment")
GRACE = CONFIG.grace_ms
EXITED = ExitReason("ExecutorExited", "gone", 1, True)
REFUSED = CallFailure(403, "no")
REFUSED_TEXT = "io.fabric8.kubernetes.client.KubernetesClientException: no"


def ids(*executors: str) -> tuple[ExecutorId, ...]:
    return tuple(map(ExecutorId, executors))


class Play:
    """A backend under way; the outcome of a call is given by the test."""

    def __init__(self, config: BackendConfig = CONFIG, now: Millis = 0) -> None:
        self.config, self.now = config, now
        self.state: BackendState = backend.begin(config, now)
        self.reports: list[Report] = []

    def hear(self, *items: BackendInput) -> list[BackendCommand]:
        step = backend.manage(self.state, items, self.config, self.now)
        self.state = step.state
        self.reports.extend(step.reports)
        return list(step.commands)

    def wake(self, at: Millis) -> list[BackendCommand]:
        self.now = at
        return self.hear(Wake(at))

    def register(self, *executors: str, profile: int = 0) -> list[BackendCommand]:
        return self.hear(
            *(RegisterExecutor(self.now, ExecutorId(e), ProfileId(profile), f"h{e}", f"h{e}:1") for e in executors)
        )

    def request(self, *targets: tuple[int, int]) -> list[BackendCommand]:
        return self.hear(RequestTotals(self.now, tuple((ProfileId(p), n) for p, n in targets), 7))

    def kill(
        self, *executors: str, adjust: bool = False, failures: bool = False, force: bool = False
    ) -> list[BackendCommand]:
        return self.hear(KillRequested(self.now, ids(*executors), adjust, failures, force, 5))

    def decommission(self, *executors: str, adjust: bool = False, by_executor: bool = False) -> list[BackendCommand]:
        return self.hear(DecommissionRequested(self.now, ids(*executors), "bye", None, adjust, by_executor, 6))

    def answer(self, serial: int, failure: CallFailure | None = None) -> list[BackendCommand]:
        return self.hear(Outcome(self.now, serial, failure))

    def threw(self) -> list[str]:
        return [report.what for report in self.reports if isinstance(report, Threw)]


def only(commands: list[BackendCommand], kind: type[C]) -> C:
    found = [command for command in commands if isinstance(command, kind)]
    assert len(found) == 1, found
    return found[0]


def kinds(commands: list[BackendCommand]) -> list[str]:
    return [type(command).__name__ for command in commands]


def marks(commands: list[BackendCommand]) -> list[tuple[str, str, str, tuple[ExecutorId, ...]]]:
    return [(c.kind, c.key, c.value, c.executors) for c in commands if isinstance(c, MarkPods)]


# ---------------------------------------------------------------------------------------- K: Spark's own scenarios


def test_k1_start_goes_allocator_config_map_target_sources() -> None:
    play = Play()
    start = only(play.hear(Starting(0)), StartAllocator)
    config_map = only(play.answer(start.serial), CreateConfigMap)
    commands = play.answer(config_map.serial)
    assert kinds(commands) == ["TargetsForwarded", "SourcesStarted"]
    assert only(commands, TargetsForwarded).targets == ((0, 3),)
    assert play.state.requested == ()  # the first target is nobody's request


def test_k2_stop_tidies_up_in_order() -> None:
    play = Play()
    commands = play.hear(Stopping(0))
    assert [c.what for c in commands if isinstance(c, StopSource)] == ["scheduler", "store", "watch", "poll"]
    assert [c.kind for c in commands if isinstance(c, DeleteOwned)] == ["services", "persistentvolumeclaims"]
    assert kinds(commands)[-1] == "StopAllocator"
    commands = play.answer(only(commands, StopAllocator).serial)
    assert only(commands, DeleteOwned).kind == "configmaps"
    assert [c.what for c in commands if isinstance(c, StopSource)] == ["timers", "client"]
    assert play.state.phase is BackendPhase.STOPPED


def test_k3_losses_of_unknown_executors_are_told_too() -> None:
    play = Play()
    commands = play.hear(LossReported(0, ExecutorId("9"), EXITED))
    assert kinds(commands) == ["RemoveExecutor", "ExecutorRemoved"]
    assert only(commands, RemoveExecutor).reason == EXITED
    assert only(commands, ExecutorRemoved) == ExecutorRemoved(0, ExecutorId("9"), "gone")


def test_k4_kill_tells_the_driver_at_once_and_the_cluster_after_the_grace_period() -> None:
    play = Play(replace(CONFIG, decommission_label="decom", decommission_label_value="yes"))
    play.register("1", "2", "3")
    commands = play.kill("1", "2")
    removed = [c for c in commands if isinstance(c, RemoveExecutor)]
    assert [c.executor for c in removed] == ["1", "2"]
    assert {c.reason for c in removed} == {KILLED}
    assert marks(commands) == [("label", "decom", "yes", ids("1", "2"))]
    assert not any(isinstance(c, DeletePods) for c in commands)
    assert play.wake(GRACE - 1) == []
    delete = only(play.wake(GRACE), DeletePods)
    assert (delete.executors, delete.phase, delete.list_first) == (ids("1", "2"), "Running", True)
    assert delete.why.cause is Cause.STILL_RUNNING
    assert backend.due(play.state, play.config) == NEVER


def test_k5_a_step_of_stop_that_throws_stops_nothing() -> None:
    play = Play()
    commands = play.hear(Stopping(0))
    scheduler = next(c for c in commands if isinstance(c, StopSource))
    assert play.hear(Outcome(0, scheduler.serial, REFUSED)) == []
    assert kinds(play.answer(only(commands, StopAllocator).serial)) == ["DeleteOwned", "StopSource", "StopSource"]
    assert play.threw() == []


def test_k6_nobody_registers_once_the_context_is_stopped() -> None:
    play = Play()
    play.answer(only(play.hear(Stopping(0)), StopAllocator).serial)
    assert play.register("1") == []
    assert play.hear(GenerateExecutorId(0, "pod-1", "a:1")) == []


def test_k7_the_first_pod_that_asks_is_executor_1() -> None:
    play = Play(STATEFULSET)
    named = play.hear(GenerateExecutorId(0, "pod-7", "a:1"), GenerateExecutorId(0, "pod-8", "a:2"))
    assert [(c.pod, c.executor) for c in named if isinstance(c, AssignExecutorId)] == [("pod-7", "1"), ("pod-8", "2")]


def test_k8_kill_under_a_deployment_puts_the_deletion_cost_on_pods() -> None:
    play = Play(replace(DEPLOYMENT, deletion_cost=7))
    play.register("1", "2")
    assert marks(play.kill("1")) == [("annotation", "controller.kubernetes.io/pod-deletion-cost", "7", ids("1"))]


# ------------------------------------------------------------------------------------------------------- requests


def test_a_request_replaces_all_that_was_requested() -> None:
    play = Play()
    play.request((0, 5), (1, 2))
    commands = play.request((1, 3))
    assert only(commands, TargetsForwarded).targets == ((1, 3),)
    assert only(commands, Requested) == Requested(0, 7, True)
    assert play.state.requested == ((1, 3),)


@pytest.mark.parametrize(
    ("item", "what"),
    [
        (RequestTotals(0, ((ProfileId(0), 1), (ProfileId(1), -2)), 7), "executor(s) -1"),
        (RequestTotals(0, ((ProfileId(0), 2**31 - 1), (ProfileId(1), 1)), 7), f"executor(s) {-(2**31)}"),
        (RequestMore(0, -1, 7), "additional executor(s) -1"),
    ],
)
def test_a_negative_request_is_an_illegal_argument(item: BackendInput, what: str) -> None:
    play = Play()
    play.request((0, 5))
    message = (
        f"java.lang.IllegalArgumentException: Attempted to request a negative number of {what} from the cluster "
        "manager. Please specify a positive number!"
    )
    assert play.hear(item) == [Requested(0, 7, False, message)]
    assert play.threw() == [message]
    assert play.state.requested == ((0, 5),)


def test_more_executors_are_of_the_default_profile() -> None:
    play = Play()
    assert only(play.hear(RequestMore(0, 2, 7)), TargetsForwarded).targets == ((0, 2),)
    assert only(play.hear(RequestMore(0, 2**31 - 1, 7)), TargetsForwarded).targets == ((0, 2**31 - 1),)


def test_an_allocator_that_may_throw_is_waited_for() -> None:
    play = Play(STATEFULSET)
    forwarded = only(play.request((0, 5)), TargetsForwarded)
    assert forwarded.awaited
    assert play.register("1") == []  # behind Spark's lock
    assert backend.due(play.state, play.config) == NEVER
    commands = play.answer(forwarded.serial, REFUSED)
    assert commands[0] == Requested(0, 7, False, REFUSED_TEXT)
    assert only(commands, AnswerRegistration).accepted
    assert play.threw() == [REFUSED_TEXT]


# ---------------------------------------------------------------------------------------------------------- kills


def test_what_a_kill_says_in_order() -> None:
    play = Play(replace(DEPLOYMENT, deletion_cost=1, decommission_label="decom"))
    play.register("1")
    assert kinds(play.kill("1")) == [
        "ActiveChanged", "RemoveExecutor", "Killed", "KnownChanged", "ExecutorRemoved", "MarkPods", "MarkPods",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("asked", "force", "killed"),
    [
        (("1", "2", "3"), False, ("1", "3")),  # 2 is busy
        (("1", "2", "3"), True, ("1", "2", "3")),
        (("9", "1"), False, ("1",)),  # 9 is unknown
        (("2",), False, ()),
        ((), False, ()),
    ],
)
def test_who_is_killed(asked: tuple[str, ...], force: bool, killed: tuple[str, ...]) -> None:
    play = Play()
    play.register("1", "2", "3")
    play.hear(ExecutorBusy(0, ids("2"), True))
    commands = play.kill(*asked, force=force)
    assert only(commands, Killed) == Killed(0, 5, ids(*killed))
    assert backend.due(play.state, play.config) == (GRACE if killed else NEVER)
    assert [e for e in ("1", "2", "3") if not play.state.is_active(ExecutorId(e))] == list(killed)


def test_an_executor_named_twice_is_killed_twice() -> None:
    play = Play()
    play.register("1")
    play.request((0, 5))
    commands = play.kill("1", "1", adjust=True)
    assert only(commands, Killed).executors == ids("1", "1")
    assert only(commands, TargetsForwarded).targets == ((0, 3),)
    assert kinds(commands).count("ExecutorRemoved") == 2
    assert only(commands, KnownChanged).removed == ids("1")


@pytest.mark.parametrize(
    ("requested", "killed", "targets"),
    [
        ((), ("1",), ((0, 0),)),  # nobody requested anything: the whole application shrinks to nothing
        ((), ("1", "2"), ((0, 0),)),
        (((0, 5),), ("1", "2"), ((0, 3),)),
        (((0, 1),), ("1", "2"), ((0, 0),)),
        (((0, 0),), ("1",), ((0, 0),)),
    ],
)
def test_a_kill_may_lower_the_target(
    requested: tuple[tuple[int, int], ...], killed: tuple[str, ...], targets: tuple[tuple[int, int], ...]
) -> None:
    play = Play()
    play.register("1", "2")
    if requested:
        play.request(*requested)
    assert only(play.kill(*killed, adjust=True), TargetsForwarded).targets == targets


def test_lowering_a_profile_that_was_never_requested_throws_and_leaves_its_traces() -> None:
    play = Play()
    play.register("1", profile=1)
    play.request((0, 5))
    commands = play.kill("1", adjust=True)
    threw = "java.util.NoSuchElementException: key not found: Profile: id = 1"
    assert commands == [ActiveChanged(0, inactive=ids("1")), Killed(0, 5, (), threw)]
    assert play.threw() == [threw]
    assert only(play.kill("1"), Killed).executors == ()  # asked before: never again
    assert not play.state.is_active(ExecutorId("1"))
    assert ExecutorId("1") in play.state.registry.executors


def test_a_kill_waits_for_an_allocator_that_may_throw() -> None:
    play = Play(STATEFULSET)
    play.register("1", "2")
    forwarded = only(play.kill("1", adjust=True), TargetsForwarded)
    assert kinds(play.answer(forwarded.serial))[:2] == ["RemoveExecutor", "Killed"]
    forwarded = only(play.kill("2", adjust=True), TargetsForwarded)
    assert play.answer(forwarded.serial, REFUSED) == [Killed(0, 5, (), REFUSED_TEXT)]


@pytest.mark.parametrize(("failures", "reason"), [(False, KILLED.message), (True, "gone")])
def test_whose_reason_counts_after_a_kill_that_got_stuck(failures: bool, reason: str) -> None:
    play = Play()
    play.register("1", profile=1)
    play.request((0, 5))
    play.kill("1", adjust=True, failures=failures)  # throws: marked, but not removed
    assert only(play.hear(LossReported(0, ExecutorId("1"), EXITED)), ExecutorRemoved).reason == reason


# ------------------------------------------------------------------------------------------------ decommissioning


def test_what_a_decommission_says_in_order() -> None:
    play = Play(replace(DEPLOYMENT, deletion_cost=1, decommission_label="decom"))
    play.register("1", "2")
    commands = play.decommission("2", "9")
    assert kinds(commands) == ["ActiveChanged", "DecommissionExecutors", "Decommissioned", "MarkPods", "MarkPods"]
    told = only(commands, DecommissionExecutors)
    assert (told.executors, told.message, told.notify_executors) == (ids("2"), "bye", True)
    assert only(commands, Decommissioned) == Decommissioned(0, 6, ids("2"))
    assert [(kind, named) for kind, _, _, named in marks(commands)] == [
        ("label", ids("2", "9")),
        ("annotation", ids("2", "9")),
    ]


def test_an_executor_that_says_so_itself_is_not_told_nor_marked() -> None:
    play = Play(replace(DEPLOYMENT, deletion_cost=1, decommission_label="decom"))
    play.register("1")
    commands = play.decommission("1", by_executor=True)
    assert not only(commands, DecommissionExecutors).notify_executors
    assert marks(commands) == []


@pytest.mark.parametrize("end", ["lost", "disconnected"])
def test_a_decommissioned_executor_is_gone_because_of_that(end: str) -> None:
    play = Play()
    play.register("1")
    play.decommission("1")
    lost = LossReported(0, ExecutorId("1"), EXITED) if end == "lost" else ExecutorDisconnected(0, "h1:1")
    commands = play.hear(lost)
    assert only(commands, ExecutorRemoved).reason == "Executor decommission: bye"
    assert only(commands, KnownChanged).removed == ids("1")
    given = EXITED if end == "lost" else ExitReason("ExecutorDecommission", "Executor decommission: ")
    assert only(commands, RemoveExecutor).reason == given


def test_what_still_decommissions_is_killed_by_force() -> None:
    play = Play(replace(CONFIG, force_kill_timeout_ms=60_000))
    play.register("1", "2")
    play.hear(ExecutorBusy(0, ids("2"), True))
    play.decommission("1", "2")
    play.hear(LossReported(0, ExecutorId("1"), EXITED))
    assert backend.due(play.state, play.config) == 60_000
    commands = play.wake(60_000)
    assert [c.executor for c in commands if isinstance(c, RemoveExecutor)] == ["2"]
    assert not any(isinstance(c, Killed | TargetsForwarded) for c in commands)  # nobody asked
    assert only(commands, RemoveExecutor).why.cause is Cause.DECOMMISSION_TIMEOUT
    assert backend.due(play.state, play.config) == 60_000 + GRACE


def test_a_decommission_may_lower_the_target() -> None:
    play = Play(STATEFULSET)
    play.register("1")
    forwarded = only(play.decommission("1", adjust=True), TargetsForwarded)
    assert kinds(play.answer(forwarded.serial)) == ["DecommissionExecutors", "Decommissioned"]
    play.register("2")
    forwarded = only(play.decommission("2", adjust=True), TargetsForwarded)
    assert play.answer(forwarded.serial, REFUSED) == [Decommissioned(0, 6, (), REFUSED_TEXT)]
    assert not play.state.is_active(ExecutorId("2"))


def test_a_decommission_of_a_profile_never_requested_throws() -> None:
    play = Play()
    play.register("1", profile=1)
    play.request((0, 5))
    commands = play.decommission("1", adjust=True)
    assert only(commands, Decommissioned).threw == "java.util.NoSuchElementException: key not found: Profile: id = 1"
    assert not play.state.is_active(ExecutorId("1"))


# --------------------------------------------------------------------------------------------------------- losses


@pytest.mark.parametrize(
    ("allocator", "message", "recovers"),
    [
        ("direct", "exit code 137(SIGKILL, possible container OOM)", True),
        ("direct", "OOM", True),
        ("direct", "oom", False),
        ("direct", "out of memory", False),
        ("statefulset", "OOM", False),
    ],
)
def test_recovery_mode(allocator: str, message: str, recovers: bool) -> None:
    play = Play(replace(CONFIG, allocator=allocator))
    loss = LossReported(0, ExecutorId("1"), EXITED._replace(message=message))
    assert any(isinstance(c, RecoveryMode) for c in play.hear(loss)) == recovers
    assert not any(isinstance(c, RecoveryMode) for c in play.hear(loss))  # said once


def test_a_kill_is_no_loss_for_recovery_mode() -> None:
    play = Play()
    play.register("OOM")
    assert not any(isinstance(c, RecoveryMode) for c in play.kill("OOM"))


def test_a_lost_connection_disables_and_the_pod_tells() -> None:
    play = Play()
    play.register("1")
    assert play.hear(ExecutorDisconnected(0, "h1:1")) == [
        ActiveChanged(0, inactive=ids("1")),
        ExecutorDisabled(0, ExecutorId("1")),
    ]
    assert play.hear(ExecutorDisconnected(0, "h1:1")) == []  # already
    commands = play.hear(LossReported(0, ExecutorId("1"), EXITED))
    assert only(commands, ExecutorRemoved).reason == "gone"
    assert not any(isinstance(c, ActiveChanged) for c in commands)


def test_a_killed_executor_that_got_stuck_is_disabled_without_being_active() -> None:
    play = Play()
    play.register("1", profile=1)
    play.request((0, 5))
    play.kill("1", adjust=True)
    assert play.hear(ExecutorDisconnected(0, "h1:1")) == [ExecutorDisabled(0, ExecutorId("1"))]


def test_a_pod_that_asked_for_an_id_and_left_is_forgotten() -> None:
    play = Play(STATEFULSET)
    play.hear(GenerateExecutorId(0, "pod-1", "a:1"))
    assert play.hear(ExecutorDisconnected(0, "a:1"), ExecutorDisconnected(0, "b:1")) == []
    assert len(play.state.registry.askers) == 0


# ------------------------------------------------------------------------------------- what others tell the endpoint


def timed_out(executor: str, silent_ms: Millis = 170_000) -> HeartbeatTimedOut:
    return HeartbeatTimedOut(0, ExecutorId(executor), silent_ms, 120_000)


def test_an_executor_that_is_not_heard_from_is_killed_and_then_reported_lost() -> None:
    play = Play()
    play.register("1", "2")
    play.request((0, 2))
    play.hear(ExecutorBusy(0, ids("1"), True))  # it is killed by force
    commands = play.hear(timed_out("1"))
    lost = ExitReason("ExecutorProcessLost", "Executor heartbeat timed out after 170000 ms", None, True)
    removals = [command for command in commands if isinstance(command, RemoveExecutor)]
    assert [(one.reason, one.why.cause) for one in removals] == [
        (KILLED, Cause.HEARTBEAT_TIMEOUT), (lost, Cause.HEARTBEAT_TIMEOUT)
    ]  # fmt: skip
    # The backend had removed it when the second message came, which is an event all the same.
    events = [command.reason for command in commands if isinstance(command, ExecutorRemoved)]
    assert events == [KILLED.message, lost.message]
    assert commands.index(removals[0]) < commands.index(KnownChanged(0, removed=ids("1"))) < commands.index(removals[1])
    assert not any(isinstance(command, TargetsForwarded) for command in commands), "it is replaced: the target stays"
    assert dict(play.state.requested) == {0: 2}
    assert set(play.state.registry.executors) == {"2"}
    # Its pod, which is Running, goes with the grace period.
    assert only(play.wake(GRACE), DeletePods).executors == ids("1")


def test_a_kill_after_a_timeout_counts_as_a_failure() -> None:
    """killAndReplaceExecutor: the reason that somebody gives first is the one that counts."""
    play = Play(STATEFULSET)
    play.register("1")
    play.state.registry = play.state.registry.to_kill(ids("1"), expected=False)  # a kill that got stuck
    (event,) = [command for command in play.hear(timed_out("1")) if isinstance(command, ExecutorRemoved)]
    assert event.reason == "Executor heartbeat timed out after 170000 ms"


def test_a_timeout_of_an_unknown_executor_kills_nobody() -> None:
    commands = Play().hear(timed_out("9"))
    assert [type(command) for command in commands] == [RemoveExecutor, ExecutorRemoved]


def test_a_decommissioning_executor_that_falls_silent_is_killed_too() -> None:
    play = Play()
    play.register("1")
    play.decommission("1")
    events = [command.reason for command in play.hear(timed_out("1")) if isinstance(command, ExecutorRemoved)]
    assert events == ["Executor decommission: bye", "Executor heartbeat timed out after 170000 ms"]


def test_an_executor_that_exits_is_removed_for_the_reason_that_it_gives() -> None:
    play = Play()
    play.register("1", "2")
    play.decommission("2")
    commands = play.hear(
        ExecutorExiting(0, ExecutorId("1"), "Unable to create executor"),
        ExecutorExiting(0, ExecutorId("2"), "Finished decommissioning"),
    )
    assert [command.reason for command in commands if isinstance(command, ExecutorRemoved)] == [
        "Unable to create executor", "Executor decommission: bye"
    ]  # fmt: skip
    given = [command.reason for command in commands if isinstance(command, RemoveExecutor)]
    assert [(one.kind, one.caused_by_app) for one in given] == [("ExecutorLossReason", True)] * 2
    assert not any(isinstance(command, DeletePods) for command in play.wake(10 * GRACE)), "their pods end by themselves"


def on_hosts(play: Play, **hosts: str) -> None:
    for executor, host in hosts.items():
        name = executor.removeprefix("e")
        play.hear(RegisterExecutor(0, ExecutorId(name), ProfileId(0), host, f"{host}:{name}"))


def test_all_executors_of_a_host_are_killed_by_force_and_replaced() -> None:
    play = Play()
    on_hosts(play, e2="h1", e10="h1", e1="h2", e3="h1", e4="h1")
    play.request((0, 5))
    play.hear(ExecutorBusy(0, ids("2"), True), ExecutorDisconnected(0, "h1:4"))
    play.decommission("3")
    commands = play.hear(KillExecutorsOnHost(0, "h1"))
    killed = [command.executor for command in commands if isinstance(command, RemoveExecutor)]
    assert killed == ["2", "10"], "neither one that decommissions nor one whose connection is lost"
    assert {command.reason for command in commands if isinstance(command, ExecutorRemoved)} == {KILLED.message}
    assert {command.why.cause for command in commands if isinstance(command, RemoveExecutor)} == {Cause.HOST_EXCLUDED}
    assert not any(isinstance(command, TargetsForwarded) for command in commands)
    assert only(play.wake(GRACE), DeletePods).executors == ids("2", "10")
    assert {"h1": {"3", "4"}, "h2": {"1"}} == {host: set(here) for host, here in play.state.registry.by_host.items()}


def test_all_executors_of_a_host_decommission() -> None:
    play = Play(replace(CONFIG, decommission_label="leaving"))
    on_hosts(play, e2="h1", e10="h1", e1="h2", e3="h1")
    play.request((0, 4))
    play.decommission("3")
    commands = play.hear(DecommissionExecutorsOnHost(0, "h1"))
    told = only(commands, DecommissionExecutors)
    assert (told.executors, told.message, told.notify_executors) == (
        ids("2", "10"), "Decommissioning all executors on h1.", True
    )  # fmt: skip
    assert only(commands, MarkPods).executors == ids("2", "10")
    assert dict(play.state.requested) == {0: 4}
    assert play.hear(DecommissionExecutorsOnHost(0, "h1")) == [], "all of them do"


@pytest.mark.parametrize("message", [KillExecutorsOnHost(0, "h7"), DecommissionExecutorsOnHost(0, "h7")])
def test_a_host_without_executors(message: BackendInput) -> None:
    play = Play()
    on_hosts(play, e1="h1")
    assert play.hear(message) == []


# --------------------------------------------------------------------------------------------------- start and stop


@pytest.mark.parametrize("failing", ["allocator", "config map", "targets"])
def test_start_ends_where_it_throws(failing: str) -> None:
    play = Play(STATEFULSET)
    serial = only(play.hear(Starting(0)), StartAllocator).serial
    if failing != "allocator":
        serial = only(play.answer(serial), CreateConfigMap).serial
        if failing != "config map":
            serial = only(play.answer(serial), TargetsForwarded).serial
    assert play.answer(serial, REFUSED) == []
    assert play.reports == [Threw(0, "KubernetesClusterSchedulerBackend", REFUSED_TEXT, fatal=True)]


def test_start_without_config_map_under_an_allocator_that_may_throw() -> None:
    play = Play(replace(STATEFULSET, config_map=False))
    start = only(play.hear(Starting(0)), StartAllocator)
    forwarded = only(play.answer(start.serial), TargetsForwarded)
    assert only(play.answer(forwarded.serial), SourcesStarted) == SourcesStarted(0)
    assert play.state.phase is BackendPhase.RUNNING


def test_stop_keeps_what_the_configuration_keeps() -> None:
    keep = replace(CONFIG, delete_services=False, own_claims=False, delete_on_termination=False)
    play = Play(keep)
    assert [c.what for c in play.hear(Stopping(0)) if isinstance(c, StopSource)] == [
        "scheduler", "store", "watch", "poll", "timers", "client",
    ]  # fmt: skip


def test_an_allocator_that_throws_at_stop_leaves_the_rest_undone() -> None:
    play = Play()
    play.register("1")
    play.kill("1")
    stop = only(play.hear(Stopping(0)), StopAllocator)
    assert play.answer(stop.serial, REFUSED) == []
    assert play.threw() == [REFUSED_TEXT]
    assert play.state.phase is BackendPhase.ABANDONED
    assert kinds(play.wake(GRACE)) == ["DeletePods"]  # the maintenance thread goes on


@pytest.mark.parametrize(
    ("grace", "ends", "deleted"), [(5_000, 5_000, 1), (30_010, 30_010, 1), (30_011, 30_010, 0), (60_000, 30_010, 0)]
)
def test_stop_waits_for_the_grace_period_at_most_30_seconds(grace: Millis, ends: Millis, deleted: int) -> None:
    play = Play(replace(CONFIG, grace_ms=grace))
    play.register("1")
    play.kill("1")
    play.now = 10
    commands = play.answer(only(play.hear(Stopping(10)), StopAllocator).serial)
    assert not any(isinstance(c, StopSource) for c in commands)
    assert backend.due(play.state, play.config) == ends
    commands = play.wake(ends)
    assert kinds(commands) == ["DeletePods"] * deleted + ["StopSource", "StopSource"]
    assert play.state.phase is BackendPhase.STOPPED


def test_a_second_stop_waits_for_the_first() -> None:
    play = Play()
    play.register("1")
    play.kill("1")
    play.answer(only(play.hear(Stopping(0)), StopAllocator).serial)
    assert play.hear(Stopping(1)) == []


def test_force_kills_end_with_stop() -> None:
    play = Play(replace(CONFIG, force_kill_timeout_ms=1_000))
    play.register("1")
    play.decommission("1")
    play.hear(Stopping(0))
    assert play.wake(1_000) == []


@pytest.mark.parametrize("label", [None, "decom"])
def test_after_stop_the_maintenance_thread_rejects(label: str | None) -> None:
    play = Play(replace(CONFIG, decommission_label=label))
    play.register("1", "2")
    play.answer(only(play.hear(Stopping(0)), StopAllocator).serial)
    commands = play.kill("1")
    assert only(commands, Killed).threw == "java.util.concurrent.RejectedExecutionException"
    assert any(isinstance(c, RemoveExecutor) for c in commands) == (label is None)
    decommissioned = only(play.decommission("2"), Decommissioned)
    assert (decommissioned.threw is None) == (label is None)


def test_overdue_timers_run_before_what_is_heard() -> None:
    play = Play()
    play.register("1", "2")
    play.kill("1")
    play.now = GRACE
    assert kinds(play.kill("2"))[0] == "ActiveChanged"  # of this moment: with its Wake
    play.now = GRACE + 1
    assert kinds(play.register("3"))[0] == "DeletePods"


# ------------------------------------------------------------------------------------------------------- questions


@pytest.mark.parametrize(
    ("registered", "now", "by"),
    [(2, 0, None), (3, 0, "ratio"), (0, 29_999, None), (0, 30_000, "time"), (3, 30_000, "ratio")],
)
def test_readiness(registered: int, now: Millis, by: str | None) -> None:
    play = Play()  # 3 executors at 80 %: 2.4
    play.register(*map(str, range(registered)))
    assert readiness(play.state, play.config, now).by == by
    assert sufficient_resources_registered(play.state, play.config) == (by == "ratio")


@pytest.mark.parametrize(("allocator", "holds"), [("direct", True), ("statefulset", False), ("x.Y", False)])
def test_hold_is_for_the_direct_allocator(allocator: str, holds: bool) -> None:
    assert supports_hold(replace(CONFIG, allocator=allocator)) == holds
