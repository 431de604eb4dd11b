"""The driver's half on YARN: who is asked, who waits, and when an executor is gone."""

from __future__ import annotations

from typing import TypeVar

import pytest
from pyrsistent import pmap

from podtide.domain.backend.registry import KILLED
from podtide.domain.backend.state import BackendPhase, sufficient_resources_registered
from podtide.domain.base.units import NEVER, ExecutorId, Millis, ProfileId
from podtide.domain.protocol.backend_messages import (
    ActiveChanged,
    Decommissioned,
    ExecutorDisabled,
    HeartbeatTimedOut,
    HostsExcluded,
    Killed,
    KnownChanged,
    LossReported,
    MasterAsked,
    Requested,
    RequestMore,
    RequestTotals,
    YarnBackendCommand,
    YarnBackendInput,
)
from podtide.domain.protocol.cluster_config import BackendConfig
from podtide.domain.protocol.containers import ContainerSpec, Resource
from podtide.domain.protocol.executor_commands import (
    AnswerRegistration,
    DecommissionExecutors,
    ExitReason,
    RemoveExecutor,
    StopSource,
)
from podtide.domain.protocol.executor_stimuli import (
    DecommissionRequested,
    ExecutorBusy,
    ExecutorDisconnected,
    KillRequested,
    RegisterExecutor,
    Starting,
    Stopping,
    Wake,
)
from podtide.domain.protocol.pod_commands import DeletePods, MarkPods
from podtide.domain.protocol.pod_stimuli import CallFailure, GenerateExecutorId, Outcome
from podtide.domain.protocol.reasons import Cause, Remark, Threw, Why
from podtide.domain.protocol.stimuli import ExecutorRemoved, Reset
from podtide.domain.protocol.yarn_messages import (
    ContainersWanted,
    DecommissionHost,
    KillExecutors,
    LossReasonsAsked,
    MasterEnding,
    MasterLost,
    MasterRegistered,
    ProfilesDefined,
    TellLossReason,
)
from podtide.domain.yarn import scheduler_backend as yarn_backend
from podtide.domain.yarn.scheduler_backend import MASTER_GONE, NO_MASTER, PROCESS_LOST, STALE

C = TypeVar("C")
ZERO = ProfileId(0)
ENDED = ExitReason("ExecutorExited", "Container c1 on host: h1 was preempted.", -102, False)
WHY = Why(Cause.CONTAINER_COMPLETED)


def ids(*numbers: int) -> tuple[ExecutorId, ...]:
    return tuple(ExecutorId(str(number)) for number in numbers)


class Driver:
    """A backend under way. The application master answers when the test says so."""

    def __init__(self, *, master: bool = True, executors: int = 0, **config: object) -> None:
        self.config = BackendConfig(**config)  # type: ignore[arg-type]
        self.now: Millis = 0
        self.state = yarn_backend.begin(self.config, 0)
        self.reports: list[object] = []
        self.hear(Starting(0))
        if master:
            self.hear(MasterRegistered(0))
        for number in range(1, executors + 1):
            self.hear(arriving(number))

    def hear(self, *items: YarnBackendInput) -> list[YarnBackendCommand]:
        step = yarn_backend.manage(self.state, items, self.config, self.now)
        self.state = step.state
        self.reports.extend(step.reports)
        return list(step.commands)

    def answered(self, failure: CallFailure | None = None) -> list[YarnBackendCommand]:
        """The application master answers the oldest call under way."""
        return self.hear(Outcome(self.now, min(self.state.asks), failure))


def arriving(number: int, host: str = "h1", profile: int = 0) -> RegisterExecutor:
    return RegisterExecutor(0, ExecutorId(str(number)), ProfileId(profile), host, f"{host}:{number}")


def lost(number: int, host: str = "h1") -> ExecutorDisconnected:
    return ExecutorDisconnected(0, f"{host}:{number}")


def only(commands: list[YarnBackendCommand], kind: type[C]) -> list[C]:
    return [command for command in commands if isinstance(command, kind)]


def wanted(commands: list[YarnBackendCommand]) -> list[ContainersWanted]:
    return [one.message for one in only(commands, MasterAsked) if isinstance(one.message, ContainersWanted)]


# ----------------------------------------------------------------------------------------------------------- requests


def test_before_there_is_a_master_requests_are_refused_and_remembered() -> None:
    driver = Driver(master=False)
    assert driver.hear(RequestTotals(0, ((ZERO, 3),), serial=7)) == [Requested(0, 7, False)]
    assert driver.state.requested == ((ZERO, 3),)
    assert driver.hear(RequestMore(0, 2, serial=8)) == [Requested(0, 8, False)]
    assert driver.state.requested == ((ZERO, 5),)


def test_a_request_is_answered_when_the_master_has_answered() -> None:
    driver = Driver()
    (asked,) = driver.hear(RequestTotals(0, ((ZERO, 3),), serial=7))
    assert asked == MasterAsked(0, 1, ContainersWanted(0, ((ZERO, 3),), pmap(), pmap(), (), 1))
    assert driver.hear(Outcome(0, 99)) == [], "a call of which nobody knows"
    assert driver.answered() == [Requested(0, 7, True)]
    assert not driver.state.asks


def test_hints_go_without_excluded_hosts_and_stay_for_the_next_request() -> None:
    driver = Driver()
    driver.hear(HostsExcluded(0, frozenset({"h2", "h9"})))
    hints = {ZERO: {"h1": 2, "h2": 5}}
    (first,) = wanted(driver.hear(RequestTotals(0, ((ZERO, 3),), 7, {ZERO: 4}, hints)))
    assert (first.locality_tasks, first.host_tasks) == ({ZERO: 4}, {ZERO: {"h1": 2}})
    assert first.excluded == ("h2", "h9")
    (second,) = wanted(driver.hear(RequestMore(0, 1)))
    assert (second.targets, second.host_tasks) == (((ZERO, 4),), {ZERO: {"h1": 2}})
    assert driver.state.host_tasks == hints, "the next request strips what is excluded then"


def test_a_negative_request_asks_nobody_and_leaves_the_hints() -> None:
    driver = Driver()
    (answer,) = driver.hear(RequestTotals(0, ((ZERO, -1),), 7, {ZERO: 4}))
    assert isinstance(answer, Requested)
    assert (answer.acked, driver.state.locality_tasks) == (False, {})


def test_while_the_master_is_asked_the_backend_goes_on() -> None:
    driver = Driver()
    driver.hear(RequestTotals(0, ((ZERO, 3),), serial=7))
    assert only(driver.hear(arriving(1)), AnswerRegistration)[0].accepted
    assert only(driver.hear(KillRequested(0, ids(1), serial=8)), MasterAsked)
    assert [type(one) for one in driver.answered() + driver.answered()] == [Requested, Killed], "asked in turn"


# -------------------------------------------------------------------------------------------------------------- kills


def test_a_kill_tells_the_master_and_removes_nobody() -> None:
    driver = Driver(executors=2)
    said = driver.hear(KillRequested(0, ids(1, 9), serial=8))
    assert [one.message for one in only(said, MasterAsked)] == [KillExecutors(0, ids(1))]
    assert not only(said, RemoveExecutor)
    assert not only(said, DeletePods)
    assert only(said, ActiveChanged) == [ActiveChanged(0, inactive=ids(1))]
    assert driver.answered() == [Killed(0, 8, ids(1))]
    assert yarn_backend.due(driver.state, driver.config) == NEVER, "no grace period"
    assert set(driver.state.registry.executors) == set(ids(1, 2))


def test_without_a_master_a_kill_kills_nobody_but_marks_them() -> None:
    driver = Driver(master=False, executors=1)
    assert driver.hear(KillRequested(0, ids(1), serial=8))[-1] == Killed(0, 8, ())
    assert driver.hear(KillRequested(0, ids(1), force=True, serial=9)) == [Killed(0, 9, ())], "asked before"


def test_a_kill_with_a_lowered_target_asks_twice() -> None:
    driver = Driver(executors=2)
    driver.hear(RequestTotals(0, ((ZERO, 2),)))
    driver.answered()
    (less,) = wanted(driver.hear(KillRequested(0, ids(1), adjust_target=True, serial=8)))
    assert less.targets == ((ZERO, 1),)
    assert [one.message for one in only(driver.answered(), MasterAsked)] == [KillExecutors(0, ids(1))]
    assert driver.answered() == [Killed(0, 8, ids(1))]


@pytest.mark.parametrize(("adjust", "answers"), [(False, 1), (True, 1)])
def test_a_call_that_fails_is_what_the_caller_gets(adjust: bool, answers: int) -> None:
    driver = Driver(executors=1)
    driver.hear(KillRequested(0, ids(1), adjust_target=adjust, serial=8))
    for _ in range(answers):
        said = driver.answered(CallFailure(None, "closed", "java.io.IOException"))
    assert said == [Killed(0, 8, (), "java.io.IOException: closed")]
    assert [one.machine for one in driver.reports if isinstance(one, Threw)] == ["YarnClusterSchedulerBackend"]


# ------------------------------------------------------------------------------------------------------- registration


@pytest.mark.parametrize(("seconds", "words"), [(120, "120 seconds"), (1, "1 second")])
def test_nobody_waits_for_the_master_for_ever(seconds: int, words: str) -> None:
    driver = Driver(executors=1, ask_timeout_ms=seconds * 1_000)
    driver.hear(RequestTotals(0, ((ZERO, 3),), serial=7), KillRequested(0, ids(1), serial=8))
    driver.now = yarn_backend.due(driver.state, driver.config)
    assert driver.now == seconds * 1_000
    said = driver.hear(Wake(driver.now))
    threw = (
        f"org.apache.spark.rpc.RpcTimeoutException: Cannot receive any reply from the application master in {words}. "
        "This timeout is controlled by spark.rpc.askTimeout"
    )
    assert only(said, Requested) == [Requested(driver.now, 7, False, threw)]
    assert only(said, Killed) == [Killed(driver.now, 8, (), threw)]
    assert yarn_backend.due(driver.state, driver.config) == NEVER
    assert driver.hear(Outcome(driver.now, 1), Outcome(driver.now, 2)) == [], "too late"


def test_a_profile_that_nobody_defined_cannot_be_asked_for() -> None:
    driver = Driver()
    driver.hear(RequestTotals(0, ((ZERO, 1),)))
    missing = "org.apache.spark.SparkException: ResourceProfileId 7 not found!"
    wished = RequestTotals(0, ((ZERO, 2), (ProfileId(7), 1)), 9, {ZERO: 1})
    assert driver.hear(wished) == [Requested(0, 9, False, missing)]
    assert (driver.state.requested, driver.state.locality_tasks) == (((ZERO, 1),), {}), "nothing is changed"
    (negative,) = only(driver.hear(wished._replace(targets=((ProfileId(7), -1),))), Requested)
    assert negative.threw is not None
    assert "negative number" in negative.threw, "the sum is looked at first"
    driver.hear(ProfilesDefined(0, ((ProfileId(7), ContainerSpec(Resource(1, 1), 1, 1)),)))
    assert [one.targets for one in wanted(driver.hear(wished))] == [((ZERO, 2), (ProfileId(7), 1))]


def test_without_the_master_that_was_lost_it_is_as_before_the_first_one() -> None:
    driver = Driver(executors=3, remarks=True)
    driver.hear(RequestTotals(0, ((ZERO, 3),), serial=7), lost(3))
    said = driver.hear(MasterLost(0, "h9:1"))
    assert only(said, Requested) == [Requested(0, 7, False, MASTER_GONE)]
    assert [(one.executor, one.reason) for one in only(said, RemoveExecutor)] == [(ids(3)[0], PROCESS_LOST)]
    assert sorted(driver.state.registry.executors) == ["1", "2"], "nobody is stale yet"
    assert driver.hear(RequestTotals(0, ((ZERO, 4),), serial=8)) == [Requested(0, 8, False)]
    (removed,) = only(driver.hear(lost(2)), RemoveExecutor)
    assert removed.reason == NO_MASTER
    assert driver.hear(MasterLost(0, "h9:1")) == [], "one cannot be lost twice"
    assert [one.topic for one in driver.reports if isinstance(one, Remark)].count("master lost") == 1


@pytest.mark.parametrize(
    ("before", "arrives", "accepted"),
    [
        ((), arriving(1), True),
        ((arriving(1),), arriving(1), False),
        ((HostsExcluded(0, frozenset({"h1"})),), arriving(1), False),
        ((), RegisterExecutor(0, ExecutorId("x"), ZERO, "h1", "h1:1"), False),
        ((Stopping(0),), arriving(1), None),
    ],
)
def test_who_is_let_in(before: tuple[YarnBackendInput, ...], arrives: RegisterExecutor, accepted: bool | None) -> None:
    driver = Driver()
    driver.hear(*before)
    answers = [one.accepted for one in only(driver.hear(arrives), AnswerRegistration)]
    assert answers == ([] if accepted is None else [accepted])


def test_enough_executors_are_a_share_of_the_initial_ones() -> None:
    driver = Driver(executors=3, executors_initial=4)
    assert not sufficient_resources_registered(driver.state, driver.config)
    driver.hear(arriving(4))
    assert sufficient_resources_registered(driver.state, driver.config)
    assert driver.hear(GenerateExecutorId(0, "pod")) == []


# ------------------------------------------------------------------------------------------------------------- losses


def test_a_lost_connection_disables_asks_and_removes_on_the_answer() -> None:
    driver = Driver(executors=1)
    assert driver.hear(lost(1)) == [
        ActiveChanged(0, inactive=ids(1)), ExecutorDisabled(0, ids(1)[0]), LossReasonsAsked(0, ids(1)),
    ]  # fmt: skip
    assert driver.hear(lost(1)) == [], "once is enough"
    said = driver.hear(TellLossReason(0, ids(1)[0], ENDED, WHY))
    assert said[0] == RemoveExecutor(0, ids(1)[0], ENDED, WHY)
    assert only(said, ExecutorRemoved) == [ExecutorRemoved(0, ids(1)[0], ENDED.message)]
    assert not driver.state.registry.executors
    assert yarn_backend.due(driver.state, driver.config) == NEVER


def test_a_question_without_an_answer_is_given_up() -> None:
    driver = Driver(executors=1)
    driver.now = 5
    driver.hear(lost(1))
    assert yarn_backend.due(driver.state, driver.config) == 5 + driver.config.ask_timeout_ms
    driver.now = 5 + driver.config.ask_timeout_ms
    (removed,) = only(driver.hear(Wake(driver.now)), RemoveExecutor)
    assert (removed.reason, removed.why.facts) == (PROCESS_LOST, {"waited_ms": driver.config.ask_timeout_ms})
    assert driver.hear(TellLossReason(0, ids(1)[0], ENDED, WHY)) == [], "too late"


def test_what_is_overdue_comes_before_what_happens() -> None:
    driver = Driver(executors=1)
    driver.hear(lost(1))
    driver.now = driver.config.ask_timeout_ms + 1
    assert only(driver.hear(TellLossReason(0, ids(1)[0], ENDED, WHY)), RemoveExecutor)[0].reason == PROCESS_LOST


def test_an_answer_that_nobody_knows_the_executor_is_a_process_lost() -> None:
    driver = Driver(executors=1)
    driver.hear(lost(1))
    (removed,) = only(driver.hear(TellLossReason(0, ids(1)[0], None, WHY, "Fail to find")), RemoveExecutor)
    assert removed.reason == PROCESS_LOST


def test_a_killed_executor_is_killed_whatever_the_master_says() -> None:
    driver = Driver(executors=1)
    driver.hear(KillRequested(0, ids(1)))
    assert only(driver.hear(lost(1)), LossReasonsAsked) == [LossReasonsAsked(0, ids(1))]
    said = driver.hear(TellLossReason(0, ids(1)[0], ENDED, WHY))
    assert [one.reason for one in only(said, ExecutorRemoved)] == [KILLED.message]


def test_a_container_that_ran_out_of_memory_starts_no_recovery() -> None:
    driver = Driver(executors=1)
    reason = ENDED._replace(message="OOM")
    said = driver.hear(LossReported(0, ids(1)[0], reason))
    assert [type(one) for one in said] == [RemoveExecutor, ActiveChanged, KnownChanged, ExecutorRemoved]


SILENT = HeartbeatTimedOut(0, ids(1)[0], 130_000, 120_000)


def test_an_executor_that_is_not_heard_from_is_reported_lost_when_the_master_has_answered_its_kill() -> None:
    driver = Driver(executors=2)
    driver.hear(RequestTotals(0, ((ZERO, 2),)))
    driver.answered()
    said = driver.hear(SILENT)
    assert [one.message for one in only(said, MasterAsked)] == [KillExecutors(0, ids(1))], "its target stays"
    assert not only(said, RemoveExecutor)
    said = driver.answered()
    (removed,) = only(said, RemoveExecutor)
    assert (removed.reason.kind, removed.why.cause) == ("ExecutorProcessLost", Cause.HEARTBEAT_TIMEOUT)
    # Its end counts as a failure, so the reason that is given is the one that counts.
    assert [one.reason for one in only(said, ExecutorRemoved)] == ["Executor heartbeat timed out after 130000 ms"]
    assert set(driver.state.registry.executors) == set(ids(2))


def test_without_a_master_nobody_is_killed_and_the_executor_is_reported_lost_all_the_same() -> None:
    driver = Driver(master=False, executors=1)
    assert [one.reason.kind for one in only(driver.hear(SILENT), RemoveExecutor)] == ["ExecutorProcessLost"]


def test_a_kill_for_silence_that_fails_reports_nothing() -> None:
    driver = Driver(executors=1, remarks=True)
    driver.hear(SILENT)
    assert driver.answered(CallFailure(None, "closed", "java.io.IOException")) == []
    assert set(driver.state.registry.executors) == set(ids(1))
    threads = [one.facts["thread"] for one in driver.reports if isinstance(one, Remark) and one.topic == "uncaught"]
    assert threads == ["kill-executor-thread"]


# ------------------------------------------------------------------------------------------------------- decommission


def test_a_decommission_does_not_wait_for_its_lowered_target() -> None:
    driver = Driver(executors=2)
    driver.hear(RequestTotals(0, ((ZERO, 2),)))
    driver.answered()
    said = driver.hear(DecommissionRequested(0, ids(1), "bye", adjust_target=True, serial=8))
    assert wanted(said)[0].targets == ((ZERO, 1),)
    assert only(said, Decommissioned) == [Decommissioned(0, 8, ids(1))]
    assert not only(said, MarkPods)
    assert not driver.state.asks


def test_the_end_of_a_decommission_is_forced() -> None:
    driver = Driver(executors=1, force_kill_timeout_ms=1_000)
    driver.hear(ExecutorBusy(0, ids(1), True), DecommissionRequested(0, ids(1), "bye"))
    driver.now = yarn_backend.due(driver.state, driver.config)
    assert driver.now == 1_000
    said = driver.hear(Wake(1_000))
    assert [one.message for one in only(said, MasterAsked)] == [KillExecutors(1_000, ids(1))]
    assert driver.answered() == [], "nobody asked"


def test_a_hosts_executors_decommission_by_number_whoever_is_gone_already_left_out() -> None:
    driver = Driver(executors=11)
    driver.hear(arriving(12, "h2"), DecommissionRequested(0, ids(3), "bye"), lost(4))
    said = driver.hear(DecommissionHost(0, "h1", WHY))
    (told,) = only(said, DecommissionExecutors)
    assert told.executors == ids(1, 2, 5, 6, 7, 8, 9, 10, 11)
    assert (told.message, told.notify_executors) == ("Decommissioning all executors on h1.", True)
    assert driver.hear(DecommissionHost(0, "h1", WHY)) == []
    assert driver.hear(DecommissionHost(0, "h7", WHY)) == []


# ------------------------------------------------------------------------------------------------ the master, the end


def test_whenever_a_master_registers_everything_begins_anew() -> None:
    driver = Driver(executors=11)
    driver.hear(RequestTotals(0, ((ZERO, 3),), serial=7))
    driver.hear(KillRequested(0, ids(2), serial=8), lost(3))
    said = driver.hear(MasterRegistered(0))
    assert only(said, Requested) == [Requested(0, 7, False, MASTER_GONE)]
    assert only(said, Killed) == [Killed(0, 8, (), MASTER_GONE)]
    removed = only(said, RemoveExecutor)
    assert (removed[0].executor, removed[0].reason) == (ids(3)[0], PROCESS_LOST)
    assert [one.executor for one in removed[1:]] == list(ids(1, 2, 4, 5, 6, 7, 8, 9, 10, 11))
    assert {one.reason for one in removed[1:]} == {STALE}
    assert said.index(Reset(0)) < said.index(removed[1])
    assert (driver.state.requested, dict(driver.state.registry.executors), dict(driver.state.registry.by_host)) == (
        (),
        {},
        {},
    )
    assert driver.state.ids == 11, "ids go on"


def test_stop_tells_the_master_asks_for_nobody_and_waits() -> None:
    driver = Driver(executors=1, force_kill_timeout_ms=1_000)
    driver.hear(DecommissionRequested(0, ids(1)))
    ending, asked = driver.hear(Stopping(0))
    assert ending == MasterEnding(0)
    assert wanted([asked])[0].targets == ()
    assert driver.hear(Stopping(0)) == []
    assert [one.what for one in only(driver.answered(), StopSource)] == ["scheduler", "client"]
    assert driver.state.phase is BackendPhase.STOPPED
    assert yarn_backend.due(driver.state, driver.config) == NEVER
    assert driver.hear(lost(1), LossReported(0, ids(1)[0], ENDED), MasterRegistered(0), Stopping(0)) == []


def test_a_stop_whose_call_fails_leaves_the_rest_undone() -> None:
    driver = Driver()
    driver.hear(Stopping(0))
    assert driver.answered(CallFailure(None, "late", "java.util.concurrent.TimeoutException")) == []
    assert [one.what for one in driver.reports if isinstance(one, Threw)] == [
        "java.util.concurrent.TimeoutException: late"
    ]
    assert driver.state.phase is BackendPhase.STOPPED
