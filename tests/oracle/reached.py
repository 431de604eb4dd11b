"""Which rules of dynamic allocation a scenario reached, told from real Spark's answers.

``Reached`` is shown every line of a scenario with its answers. It compares each state line with the one before
and with the calls and events in between, and counts the rules that the change gives away: a target that rose to
exactly the maximum was clipped by it; pending tasks that did not change over a TaskEnd with TaskKilled mean that
a killed task is not pending again. Rules about single events are counted only where state lines stand directly
before and after the event, so that nothing else can have caused the change.

``RULES`` names everything that is looked for, in the order of the specification (EAM: ExecutorAllocationManager,
its listener, ExecutorMonitor, ResourceProfile). ``BEYOND`` names what generated scenarios cannot show, and why.
"""

from __future__ import annotations

import math
from typing import Any, Final

from tests.oracle.mirror import ExecutorMirror
from tests.oracle.settings import DA, Profile, Setting
from tests.oracle.watch import Watch

RULES: Final = {
    # ExecutorAllocationManager: targets
    "initial-request": "start() requests the initial executors",
    "initial-above-maximum": "nothing holds the initial count below the maximum",
    "initializing-holds": "a target above the need stays while initializing",
    "initializing-ends-by-stage": "the first stage ends initializing",
    "initializing-ends-by-idle": "the first idle executor ends initializing",
    "add-doubles": "a full increment was added: the next is twice as large",
    "add-resets": "less or more than the increment was added: the next is 1 again",
    "add-up-to-need": "an increment is cut to what is needed",
    "add-up-to-maximum": "an increment is cut to the maximum",
    "add-from-executors": "the increment is added to the executors that exist, where they exceed the target",
    "add-sustained": "a later increment comes after the sustained timeout",
    "add-at-once": "a timer that expired without change serves a later need on the next tick",
    "timer-waits": "more is needed, the backlog timer has not expired",
    "timer-expired-no-change": "the timer expired and nothing more is needed",
    "at-maximum": "more is needed, and the maximum is reached",
    "lowered-to-need": "the target falls to the need",
    "lowered-to-minimum": "the target falls to the minimum",
    "held-at-minimum": "less is needed than the minimum: no request",
    "need-negative": "the need is negative",
    "two-profiles-change": "one tick changes the targets of two profiles",
    "one-up-one-down": "one tick raises one profile's target and lowers another's",
    "new-profile-requests": "the first stage of a profile requests its initial executors at once",
    "new-profile-zero": "the first stage of a profile with no initial executors requests nothing",
    "new-profile-throws": "that request throws; the target stays",
    "request-unacked": "a request is not acknowledged: targets are restored",
    "request-threw": "a request throws and counts as not acknowledged",
    "locality-hints": "a request carries tasks per host",
    "testing-no-request": "testing: targets change without a request",
    "reset": "reset() puts the targets back and sets the timer to 0",
    "reset-adds": "the tick after a reset adds at once",
    "backlog-overflow": "a huge backlog timeout overflows: the timer has expired already",
    # ExecutorAllocationManager: removals
    "kill": "idle executors are killed",
    "kill-as-strings": "executors are killed in the order of their ids as strings",
    "kill-refused": "no kill is granted",
    "kill-partly-refused": "some kills are granted",
    "kill-retried": "a refused kill is asked for again on the next tick",
    "kill-threw": "killExecutors throws out of schedule()",
    "request-after-kill-threw": "the request that follows a kill throws out of schedule()",
    "lower-and-kill": "one tick lowers the target, kills, and requests again",
    "decommission": "idle executors are decommissioned instead",
    "decommission-refused": "a decommission is not granted",
    "kept-by-minimum": "an idle executor is kept by the minimum",
    "kept-by-target": "an idle executor is kept by the target",
    "kept-profile-unknown": "an idle executor of unknown profile is not removed",
    "testing-removes": "testing: idle executors count as removed without a kill",
    "testing-unknown-throws": "testing: an idle executor of unknown profile throws",
    "leaving-counted": "an executor that was killed is counted until it is gone",
    "profile-unknown-throws": "schedule() throws for a profile that was never registered",
    "profile-refused": "a profile that no task fits is refused when it is registered",
    # ResourceProfile
    "tasks-by-cores": "several tasks fit an executor by its cores",
    "tasks-by-fractional-cpus": "fractional cpus: more tasks than cores",
    "tasks-by-resource": "a custom resource allows fewer tasks than the cores",
    "tasks-without-cores": "a custom resource alone limits the tasks (standalone, cores not set)",
    "ratio-rounds-up": "the ratio leaves a fraction of an executor, which counts as one",
    "speculation-second-executor": "the copy of a single task asks for a second executor",
    "exclusion-raises": "an unschedulable task set asks for executors beyond those that exist",
    "exclusion-enough": "an unschedulable task set, and the tasks need more anyway",
    # ExecutorAllocationListener
    "backlog-timer-set": "a stage starts the backlog timer",
    "backlog-timer-kept": "a stage finds the timer running",
    "start-clears-timer": "the start of the last waiting task clears the timer and all increments",
    "start-keeps-timer": "a task starts, others still wait",
    "start-unknown-stage": "a task of an unknown stage starts: its profile has no more running tasks",
    "pending-negative": "more tasks of a stage started than it has",
    "end-success": "a task that succeeded is not pending again",
    "end-killed": "a killed task is not pending again",
    "end-failed": "a failed task is pending again",
    "end-resubmitted": "a resubmitted task is pending again",
    "end-failed-starts-timer": "a failure with nothing pending starts the backlog timer",
    "end-speculative-failed": "a failed copy is not pending again",
    "end-without-start": "the end of a task that never started",
    "completed-clears-timer": "the completion of the last stage clears the timer",
    "completed-keeps-timer": "a stage completes, the timer runs on",
    "completed-running": "tasks of a completed stage still count as running",
    "speculation-counts": "a copy that was asked for is pending",
    "speculation-once": "asking for the same copy twice counts once",
    "speculative-start": "a copy starts and is no longer pending",
    "exclusion-added": "an unschedulable task set is counted",
    "exclusion-removed": "an unschedulable task set is no longer counted",
    "exclusion-unknown-stage": "an unschedulable task set of an unknown stage counts for no profile",
    # ExecutorMonitor
    "executor-added": "an executor registers",
    "executor-again": "an executor registers a second time",
    "executor-by-task": "an executor is first heard of through a task",
    "executor-by-block": "an executor is first heard of through a block",
    "executor-repaired": "its profile becomes known when it registers",
    "executor-inactive": "tasks and blocks of an executor that the backend does not know are ignored",
    "executor-removed": "an executor is removed",
    "executor-removed-unknown": "an unknown executor is removed",
    "idle": "an executor idles out",
    "idle-cached": "an executor with cached blocks idles out",
    "idle-shuffle": "an executor with shuffle data idles out",
    "idle-restarted": "the end of a task that never started restarts the idle clock",
    "held-by-cache": "cached blocks hold an idle executor",
    "held-by-shuffle": "shuffle data hold an idle executor",
    "held-never-idle": "an executor known by a block alone never idles out",
    "released-by-unpersist": "an executor idles out because its blocks were dropped",
    "released-by-job-end": "an executor idles out because a job ended",
    "released-by-cleaner": "an executor idles out because a shuffle was cleaned",
    "disk-blocks-served": "blocks on disk hold nobody where the shuffle service serves them",
    "shuffle-reused": "a job needs a shuffle that an earlier job wrote",
}

BEYOND: Final = {
    "profile-impossible-throws": "a profile that no task fits is refused, so schedule() does not know it",
    "raised-to-minimum": "no target ever lies below the minimum: the initial count is at least as large",
    "settings-refused": "generated settings are valid; quirk-settings-* in tests/conformance/data are not",
    "removal-statistics": "how executors were lost shows in metrics only, which a scenario does not ask for",
    "stop": "a scenario has no line for it, and nothing is decided after it",
}


class Reached(Watch):
    """Counts the rules that one scenario reaches. ``profiles`` may grow while the scenario runs."""

    rules = RULES

    def __init__(self, setting: Setting, profiles: dict[int, Profile]) -> None:
        super().__init__()
        conf: dict[str, str] = setting.header["conf"]
        self._setting = setting
        self._profiles = profiles
        self._min = int(conf.get(DA + "minExecutors", 0))
        self._max = int(conf.get(DA + "maxExecutors", 2**31 - 1))
        self._ratio = float(conf.get(DA + "executorAllocationRatio", 1))
        self._testing = conf.get(DA + "testing") == "true"
        self._executors = ExecutorMirror(setting)
        self._state: dict[str, Any] | None = None
        self._between: list[dict[str, Any]] = []
        self._targets: dict[str, int] = {}
        self._was_reset = False
        self._request_throws = False
        self._refused: set[str] = set()
        self._idle: set[str] = set()

    def see(self, line: dict[str, Any], answers: list[dict[str, Any]]) -> None:
        """Count what one line of the scenario reached."""
        states = [answer for answer in answers if "state" in answer]
        calls = [answer for answer in answers if "call" in answer]
        if "conf" in line:
            self._opening(calls)
            return
        self._request_throws = line.get("client", {}).get("throwOnRequest", self._request_throws)
        self._executors.see(line)
        if "event" in line and calls:
            self._call_of_event(line["event"], calls)
        if line.get("reset"):
            self._was_reset = True
        self._between.append(line)
        if states:
            now, state = states[0]["at"], states[0]["state"]
            if line.get("tick"):
                self._tick(now, state, calls)
            elif self._state is not None:
                self._pair(self._state, state)
            self._state, self._between = state, []
            self._targets = dict(state["numExecutorsTarget"])

    # ---- outside of ticks

    def _opening(self, calls: list[dict[str, Any]]) -> None:
        for call in calls:
            self._targets = dict(call["targets"])
            self._hit("initial-request", self._targets["0"] > 0)
            self._hit("initial-above-maximum", self._targets["0"] > self._max)

    def _call_of_event(self, event: dict[str, Any], calls: list[dict[str, Any]]) -> None:
        for call in calls:
            if call["call"] == "error":
                self._hit("profile-refused")
            elif call["call"] == "requestTotalExecutors":
                assert event["Event"] == "SparkListenerStageSubmitted", event
                self._hit("new-profile-throws" if self._request_throws else "new-profile-requests")
                self._targets = dict(call["targets"])

    def _pair(self, before: dict[str, Any], after: dict[str, Any]) -> None:
        """Two state lines with one event in between."""
        lines = [line for line in self._between if not line.get("state")]
        if any(line.get("reset") for line in lines):
            self._hit("reset", after["addTime"] == 0)
        if len(lines) != 1 or "event" not in lines[0]:
            return
        event = lines[0]["event"]
        name = event["Event"].rpartition("SparkListener")[2]
        timer = (before["addTime"], after["addTime"])
        change = {
            key: sum(after[key].values()) - sum(before[key].values())
            for key in ("pending", "pendingSpeculative", "running", "unschedulable", "executorsPerRp")
        }
        change["executors"] = after["executorCount"] - before["executorCount"]
        match name:
            case "StageSubmitted":
                self._hit("backlog-timer-set", timer[0] is None and timer[1] is not None)
                self._hit("backlog-timer-kept", timer[0] is not None and timer[0] == timer[1])
                new = set(after["numExecutorsTarget"]) - set(before["numExecutorsTarget"])
                self._hit("new-profile-zero", any(after["numExecutorsTarget"][p] == 0 for p in new))
            case "TaskStart":
                info = event["Task Info"]
                self._hit("start-clears-timer", timer[0] is not None and timer[1] is None)
                self._hit("start-keeps-timer", timer[1] is not None)
                self._hit("start-unknown-stage", change["running"] == 0)
                self._hit("pending-negative", min(after["pending"].values()) < 0)
                self._hit("speculative-start", info.get("Speculative", False) and change["pendingSpeculative"] < 0)
                self._hit("executor-by-task", change["executors"] == 1)
                tracked = info["Executor ID"] in self._executors.known
                self._hit("executor-inactive", change["executors"] == 0 and not tracked)
            case "TaskEnd":
                self._task_end(event, timer, change)
            case "StageCompleted":
                self._hit("completed-clears-timer", timer[0] is not None and timer[1] is None)
                self._hit("completed-keeps-timer", timer[1] is not None)
                self._hit("completed-running", max(after["running"].values()) > 0)
            case "SpeculativeTaskSubmitted":
                self._hit("speculation-counts", change["pendingSpeculative"] == 1)
                self._hit("speculation-once", change["pendingSpeculative"] == 0 and max(after["pending"].values()) > 0)
            case "UnschedulableTaskSetAdded":
                self._hit("exclusion-added" if change["unschedulable"] else "exclusion-unknown-stage")
            case "UnschedulableTaskSetRemoved":
                self._hit("exclusion-removed", change["unschedulable"] < 0)
            case "ExecutorAdded":
                self._hit("executor-added", change["executors"] == 1)
                self._hit("executor-repaired", change["executors"] == 0 and change["executorsPerRp"] == 1)
                self._hit("executor-again", change["executors"] == 0 and change["executorsPerRp"] == 0)
            case "ExecutorRemoved":
                self._hit("executor-removed" if change["executors"] else "executor-removed-unknown")
            case "BlockUpdated":
                self._hit("executor-by-block", change["executors"] == 1)
            case _:
                pass

    def _task_end(self, event: dict[str, Any], timer: tuple[Any, Any], change: dict[str, int]) -> None:
        reason = event["Task End Reason"]["Reason"]
        copy = event["Task Info"].get("Speculative", False)
        self._hit("end-without-start", change["running"] == 0)
        if reason == "Success":
            self._hit("end-success", change["running"] < 0 and change["pending"] == 0)
        elif reason == "TaskKilled":
            self._hit("end-killed", change["running"] < 0 and change["pending"] == 0)
        elif copy:
            self._hit("end-speculative-failed", change["running"] < 0 and change["pending"] == 0)
        else:
            self._hit("end-resubmitted" if reason == "Resubmitted" else "end-failed", change["pending"] == 1)
            self._hit("end-failed-starts-timer", timer[0] is None and timer[1] is not None)

    # ---- ticks

    def _tick(self, now: int, state: dict[str, Any], calls: list[dict[str, Any]]) -> None:
        names = [call["call"] for call in calls]
        threw = [call["what"] for call in calls if call["call"] == "scheduleThrew"]
        requests = [call for call in calls if call["call"] == "requestTotalExecutors"]
        removals = [call for call in calls if call["call"] in ("killExecutors", "decommissionExecutors")]
        for what in threw:
            self._hit("kill-threw", "kill failed" in what)
            self._hit("request-after-kill-threw", "request failed" in what)
            self._hit("profile-unknown-throws", "not found" in what)
            self._hit("testing-unknown-throws", "UNKNOWN" in what.upper() and self._testing)
        self._hit("request-unacked", names[:1] == ["requestTotalExecutors"] and not calls[0]["ack"])
        self._hit("request-threw", names[:1] == ["requestTotalExecutors"] and self._request_throws)
        self._hit("locality-hints", any(request["hostToLocalTaskCount"] for request in requests))
        self._hit("lower-and-kill", len(requests) == 2 and len(removals) == 1)
        started = any(line.get("event", {}).get("Event") == "SparkListenerStageSubmitted" for line in self._between)
        if self._state is not None and self._state["initializing"] and not state["initializing"]:
            self._hit("initializing-ends-by-stage" if started else "initializing-ends-by-idle")
        changes = [self._target(now, state, profile) for profile in state["numExecutorsTarget"]]
        self._hit("two-profiles-change", sum(map(bool, changes)) > 1)
        self._hit("one-up-one-down", min(changes) < 0 < max(changes))
        self._hit("testing-no-request", self._testing and any(changes) and not requests)
        self._was_reset = False
        for profile in state["numExecutorsTarget"]:
            self._need(state, profile)
        self._removals(now, state, removals, bool(threw))

    def _target(self, now: int, state: dict[str, Any], profile: str) -> int:
        """Count how one profile's target moved in a tick; return the change."""
        need = state["maxNeeded"][profile]
        target = state["numExecutorsTarget"][profile]
        old = self._targets.get(profile, target)
        change: int = target - old
        timer = state["addTime"]
        expired = timer is not None and timer <= now
        if isinstance(need, str):
            return change
        if self._was_reset:
            self._hit("reset-adds", target > max(self._min, 0) and timer is not None and timer > now)
            return change
        self._hit("need-negative", need < 0)
        self._hit("backlog-overflow", timer is not None and timer < 0)
        if change > 0:
            there = state["executorsPerRp"][profile]
            increment = state["numExecutorsToAdd"][profile]
            self._hit("add-doubles", increment > 1)
            self._hit("add-resets", increment == 1)
            self._hit("add-up-to-need", target == need and increment == 1)
            self._hit("add-up-to-maximum", target == self._max and need > target)
            self._hit("add-from-executors", old < there < target)
            before = self._state["addTime"] if self._state else None
            self._hit("add-sustained", increment > 2)
            self._hit("add-at-once", before is not None and now - before > 2_000)
        elif change < 0:
            self._hit("lowered-to-need", target == need)
            self._hit("lowered-to-minimum", target == self._min and target > need)
        else:
            self._hit("initializing-holds", state["initializing"] and need < target)
            self._hit("held-at-minimum", not state["initializing"] and need < target == self._min)
            self._hit("timer-waits", need > target and timer is not None and not expired)
            self._hit("timer-expired-no-change", need == target < self._max and expired)
            self._hit("at-maximum", need > target >= self._max and expired)
        return change

    def _need(self, state: dict[str, Any], profile: str) -> None:
        """Count what made up one profile's need."""
        need = state["maxNeeded"][profile]
        offered = self._profiles.get(int(profile))
        if isinstance(need, str) or offered is None:
            return
        setting = self._setting
        fits = setting.slots(offered)
        cores = offered.executor.get("cores", setting.cores)
        tasks = sum(state[key][profile] for key in ("pending", "pendingSpeculative", "running"))
        plain = tasks * self._ratio / fits
        excluded = state["unschedulable"][profile]
        custom = any(name != "cores" and offered.task.get(name, 0) > 0 for name in offered.executor)
        by_cores = setting.slots(Profile({"cores": cores}, {"cpus": offered.task.get("cpus", float(setting.cpus))}))
        if tasks > 0:
            self._hit("tasks-by-cores", setting.cores_limit and fits > 1)
            self._hit("tasks-by-fractional-cpus", setting.cores_limit and fits > cores)
            self._hit("tasks-by-resource", setting.cores_limit and custom and fits < by_cores)
            self._hit("tasks-without-cores", not setting.cores_limit and custom and fits > 1)
            self._hit("ratio-rounds-up", self._ratio < 1 and plain != int(plain))
        bumped = math.ceil(plain) == 1 and fits > 1 and state["pendingSpeculative"][profile] > 0
        self._hit("speculation-second-executor", bumped and need == 2 and not excluded)
        if excluded:
            self._hit("exclusion-raises" if need > max(math.ceil(plain), 1 + bumped) else "exclusion-enough")

    def _removals(self, now: int, state: dict[str, Any], removals: list[dict[str, Any]], threw: bool) -> None:
        mirror = self._executors
        asked: list[str] = []
        acked: list[str] = []
        for call in removals:
            asked, acked = call["ids"], call["acked"]
            kind = "kill" if call["call"] == "killExecutors" else "decommission"
            self._hit(kind, bool(acked))
            numbers = [int(name) for name in asked if name.isdigit()]
            self._hit("kill-as-strings", numbers != sorted(numbers))
            self._hit(f"{kind}-refused", not acked)
            self._hit("kill-partly-refused", 0 < len(acked) < len(asked))
            self._hit("kill-retried", bool(self._refused & set(asked)))
        self._refused = set(asked) - set(acked)
        leaving = {*state["pendingRemoval"], *state["decommissioning"]}
        idle = set(state["timedOut"])
        self._hit("leaving-counted", bool(leaving))
        self._hit("testing-removes", self._testing and bool(leaving & idle) and not removals)
        for name in idle - set(asked) - leaving:
            profile = mirror.profile(name)
            if profile is None:
                self._hit("kept-profile-unknown", not self._testing)
            elif not threw and not self._refused and str(profile) in state["executorsPerRp"]:
                gone = sum(mirror.profile(other) == profile for other in leaving)
                left = state["executorsPerRp"][str(profile)] - gone - 1
                self._hit("kept-by-minimum", left < self._min)
                self._hit("kept-by-target", self._min <= left < state["numExecutorsTarget"][str(profile)])
        for rule in mirror.ticked(now, idle, self._idle, leaving):
            self._hit(rule)
        self._idle = idle
