"""Which rules of the YARN allocator a scenario reached, told from real Spark's answers.

Every request, match, launch, release and message is an answer, and the state after a line holds the allocator's books; what
did not happen is told by comparing the line with the states around it.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from tests.oracle.watch import Watch
from tests.oracle.world import Answers, Line
from tests.oracle.yarn_world import EXCLUDE, PMEM, PREEMPTED, VMEM, YarnSetting

LARGE_MIB: Final = 60_000
NOT_BLAMED: Final = (-100, -101, -105, -106, -107)

RULES: Final = {
    # requests
    "asked-anywhere": "containers are missing: they are asked for anywhere",
    "asked-near": "near their data",
    "asked-both": "some near their data, some anywhere",
    "asked-shrinking": "hosts drop out of later requests of one placement",
    "asked-stale": "requests that nobody wants there any more are cancelled and asked anew",
    "asked-from-anywhere": "requests without hosts are cancelled and asked for near the data",
    "asked-elsewhere": "locality is satisfied: what is missing is asked for anywhere",
    "hints-wait": "nothing is missing: new hints do nothing",
    "hints-of-nothing": "hints that count no task",
    "hints-gone": "a request without hints forgets those of before",
    "cancelled-stale": "a lowered target cancels requests of stale hosts first",
    "cancelled-anywhere": "then those without hosts",
    "cancelled-near": "and those near the data last",
    "running-stays": "a target below what runs touches nobody",
    "label": "requests have the node label",
    "label-two": "a label that is two: the client refuses, the heartbeat ends",
    # targets
    "target-unchanged": "an unchanged target changes nothing",
    "target-empty": "no target at all: all become 0",
    "target-negative": "a target below 0",
    "profile-new": "a new profile",
    "profile-as-initial": "a new profile whose target is the initial number is no change",
    # matching
    "matched-host": "a container takes a request on its host",
    "matched-rack": "on its rack",
    "matched-anywhere": "anywhere",
    "matched-older": "one on a strange host takes a request that names others",
    "matched-order": "executor ids follow the passes, not the resource manager's order",
    "surplus": "a container that no request wants is released",
    "larger": "a larger container will do",
    "smaller": "a smaller one ends the round",
    "smaller-loses": "and what stands behind it is lost, completions too",
    "profile-unknown": "and so does one of an unknown priority",
    "skipped": "enough run already: a container is released unlaunched, its id is used up",
    # launches
    "launched": "a launch succeeds",
    "launch-later": "a launch ends later",
    "launch-failed": "a launch fails: the container is released",
    "launch-fatal": "a launch fails fatally",
    "launch-lost": "a container completes while it is launched: no executor comes of it",
    # ends
    "ended-success": "exit status 0",
    "ended-preempted": "a container was preempted",
    "ended-virtual": "beyond its virtual memory: blamed, not counted",
    "ended-physical": "beyond its physical memory: blamed, not counted",
    "ended-extract": "the diagnostics say how much it used",
    "ended-not-blamed": "YARN's own statuses are nobody's fault",
    "ended-counted": "any other counts as a failure",
    "ended-released": "one that was killed ends as it was asked to",
    "ended-unknown": "one of which nobody knows",
    "ended-unknown-counted": "and counts as a failure",
    "ended-twice": "an end that is told twice counts twice",
    "ended-at-once": "given and ended in one answer",
    "ended-shutdown": "after the shutdown nobody is to blame",
    # kills and questions
    "killed": "a kill releases the container and lowers what runs",
    "killed-replaced": "and the next heartbeat asks for another one, if the target stays",
    "kill-unknown": "a kill of nobody known",
    "kill-starting": "a kill of an executor that starts is not heard",
    "kill-twice": "a second kill is one of nobody known",
    "loss-waits": "a question why somebody is gone waits for the end",
    "loss-stored": "one that was answered before it was asked",
    "loss-unknown": "one after nobody known",
    "loss-several": "several wait for the same answer",
    # exclusion
    "excluded-always": "hosts of the conf are excluded",
    "excluded-scheduler": "hosts of the task scheduler",
    "excluded-unheard": "which are not looked at when no target changes",
    "excluded-own": "a host on which too much failed",
    "excluded-own-again": "again at once after its time, the count was not reset",
    "excluded-over": "an exclusion that is over is lifted at the next look",
    "excluded-late": "and stays until then",
    "excluded-uncounted": "what fails on an excluded host is not counted",
    "excluded-all": "as many are excluded as there are nodes",
    "nodes-none": "a cluster without nodes",
    "failure-expires": "failures older than the interval no longer count",
    "limit-reached": "as many failures as allowed",
    # the resource manager
    "call-fails": "a call fails, its requests stay",
    "call-again": "what a call that failed carried goes with the next",
    "decommissioned": "a node is decommissioned, the driver hears of it",
    "decommissioned-twice": "twice in one answer, twice",
    "decommissioned-once": "but once in two answers",
    "decommission-off": "not with an external shuffle service, or without decommissioning",
    "heartbeat-shown": "what the client sends",
    "logged": "what Spark logs",
    "ids-go-on": "ids go on from the driver's last one",
    "stopped": "stop",
}

BEYOND: Final = {
    "reporter": "the application master's reporter thread sleeps on the wall clock",
    "resources": "the judge's YARN knows no custom resources",
    "profiles-of-the-log": "above four profiles their order in the log is that of a hash",
}


class YarnReached(Watch):
    """Counts the rules that one scenario reaches."""

    rules = RULES

    def __init__(self, setting: YarnSetting) -> None:
        super().__init__()
        self._setting = setting
        self._state: dict[str, Any] = {}
        self._hosts: dict[str, tuple[str, ...]] = {}
        self._hints: dict[str, dict[str, int]] = {}
        self._over: set[str] = set()
        self._failed_call = False

    def see(self, line: Line, answers: Answers) -> None:
        """Count what one line of the scenario reached."""
        if not answers or "state" not in answers[-1]:
            return  # a conf that Spark refuses
        after = answers[-1]["state"]
        self._hit("heartbeat-shown", any("heartbeat" in answer for answer in answers))
        self._hit("logged", any("log" in answer for answer in answers))
        if "conf" in line:
            self._hit("excluded-always", bool(after["excluded"]))
            self._hit("ids-go-on", after["lastId"] > 0)
            self._state = after
            return
        self._driver(line, answers, after)
        self._requests(line, answers, after)
        self._matches(line, answers)
        self._launches(line, answers, after)
        self._ends(line, answers, after)
        self._exclusions(answers, after)
        self._manager(line, answers)
        self._state = after

    # ---- requests

    def _requests(self, line: Line, answers: Answers, after: dict[str, Any]) -> None:
        before, cancelled, asked = self._state, Counter[str](), Counter[str]()
        if "targets" in line:
            hints = line.get("hostToLocalTaskCount", {})
            self._hit("hints-gone", bool(self._hints) and not hints)
            self._hit("hints-of-nothing", any(not sum(hosts.values()) for hosts in hints.values()))
            self._hints = hints
        for answer in answers:
            for name in answer.get("cancel", ()):
                cancelled[f"{answer['rp']} {self._where(name)}"] += 1
            groups = answer.get("request", ())
            hosts = [tuple(group["hosts"] or ()) for group in groups]
            if groups:
                self._hit("asked-near", any(hosts))
                self._hit("asked-anywhere", () in hosts)
                self._hit("asked-both", any(hosts) and () in hosts)
                self._hit("asked-shrinking", len([each for each in hosts if each]) > 1)
                wished = self._hints.get(str(answer["rp"]), {})
                self._hit("asked-elsewhere", any(wished.values()) and not any(hosts))
                self._hit("label", groups[0]["label"] == "gpu")
                asked[str(answer["rp"])] += 1
            for group in groups:
                rp, number = map(int, group["first"].split("."))
                for place in range(group["n"]):
                    self._hosts[f"{rp}.{number + place}"] = tuple(group["hosts"] or ())
        for which in cancelled:
            profile, kind = which.split()
            if asked[profile]:
                self._hit("asked-stale", kind == "stale")
                self._hit("asked-from-anywhere", kind == "anywhere")
            else:
                self._hit(f"cancelled-{kind}")
        released = any("release" in answer for answer in answers)
        if "allocate" in line:
            for profile, target in after["target"].items():
                running = before["running"].get(profile, ())
                waits = before["pending"].get(profile, ())
                fewer = len(running) + before["starting"].get(profile, 0) > target
                self._hit("running-stays", fewer and bool(running) and not waits and not released)
                stale = any(self._where(name) == "stale" for name in waits)
                self._hit("hints-wait", stale and not asked[profile] and set(waits) <= set(after["pending"][profile]))
        threw = [answer["threw"] for answer in answers if "threw" in answer]
        self._hit("label-two", any("InvalidContainerRequest" in what for what in threw))

    def _where(self, name: str) -> str:
        """What a request is worth: near the data, stale, or anywhere."""
        hosts = self._hosts.get(name, ())
        wished = self._hints.get(name.partition(".")[0], {})
        return "anywhere" if not hosts else "near" if wished.keys() & set(hosts) else "stale"

    # ---- containers

    def _matches(self, line: Line, answers: Answers) -> None:
        given = {one["id"]: one for one in _answered(line, "allocated")}
        order = [match["container"] for answer in answers for match in answer.get("match", ())]
        launched = [launch["container"] for answer in answers for launch in answer.get("launch", ())]
        for answer in answers:
            for match in answer.get("match", ()):
                host, where = given[match["container"]]["host"], match["at"]
                named = self._hosts.get(match["request"], ())
                self._hit("matched-host", where == host)
                self._hit("matched-rack", where.startswith("/"))
                self._hit("matched-anywhere", where == "*")
                self._hit("matched-older", where == "*" and bool(named) and host not in named)
                self._hit("larger", given[match["container"]].get("memory", 0) > LARGE_MIB)
        self._hit("matched-order", bool(order) and order != [one for one in given if one in order])
        released = {container for answer in answers for container in answer.get("release", ())}
        self._hit("surplus", bool(released & given.keys() - set(order)))
        skipped = released & set(order) - set(launched)
        self._hit("skipped", bool(skipped) and "handle" in line)
        threw = [answer["threw"] for answer in answers if "threw" in answer]
        smaller = any(what.startswith("java.lang.AssertionError") for what in threw)
        self._hit("smaller", smaller)
        self._hit("smaller-loses", smaller and len(order) > len(launched) + 1)
        self._hit("profile-unknown", any("should not be null" in what for what in threw))

    def _launches(self, line: Line, answers: Answers, after: dict[str, Any]) -> None:
        started = sum(len(answer.get("launch", ())) for answer in answers)
        queued = self._setting.options.get("launch") == "queued"
        self._hit("launched", started > 0 and bool(after["executors"]))
        self._hit("launch-later", queued and "launched" in line and bool(after["executors"]))
        self._hit(
            "launch-failed", "launchFailed" in line or ("failLaunches" not in line and self._lost(answers, after))
        )
        self._hit("launch-fatal", "launchFatal" in line)
        completed = {one["id"] for one in _answered(line, "completed")}
        self._hit("launch-lost", bool(completed & set(self._state["launching"])))

    def _lost(self, answers: Answers, after: dict[str, Any]) -> bool:
        """Whether a launch failed in this line where each ends at once: released, but not among those to be expected."""
        if self._setting.options.get("launch") == "queued":
            return False
        launched = {launch["container"] for answer in answers for launch in answer.get("launch", ())}
        released = {container for answer in answers for container in answer.get("release", ())}
        return bool(launched & released - set(after["released"]))

    def _ends(self, line: Line, answers: Answers, after: dict[str, Any]) -> None:
        completed = _answered(line, "completed")
        if not completed or any("threw" in answer for answer in answers):
            return
        reasons = [answer["removeExecutor"] for answer in answers if "removeExecutor" in answer]
        for reason in reasons:
            status, text = reason["exit"], reason["reason"]
            if text.endswith("exited after Application shutdown."):
                self._hit("ended-shutdown")
                continue
            self._hit("ended-success", status == 0)
            self._hit("ended-preempted", status == PREEMPTED)
            self._hit("ended-virtual", status == VMEM)
            self._hit("ended-physical", status == PMEM)
            self._hit("ended-extract", "memory used. Consider" in text)
            self._hit("ended-not-blamed", status in NOT_BLAMED)
            self._hit("ended-counted", text.startswith("Container from a bad node"))
        known = set(self._state["executors"].values()) | set(self._state["released"])
        fresh = {launch["container"] for answer in answers for launch in answer.get("launch", ())}
        ids = [one["id"] for one in completed]
        strangers = [one for one in completed if one["id"] not in known | fresh]
        counted = [one for one in strangers if one["exit"] not in (0, *range(-107, -99))]
        grown = after["failed"] - self._state["failed"]
        self._hit("ended-released", bool(set(ids) & set(self._state["released"])))
        self._hit("ended-unknown", bool(strangers))
        self._hit("ended-unknown-counted", bool(counted) and grown > 0 and not reasons)
        self._hit("ended-twice", len(ids) > len(set(ids)))
        self._hit("ended-at-once", bool(set(ids) & fresh))

    # ---- the driver

    def _driver(self, line: Line, answers: Answers, after: dict[str, Any]) -> None:
        before = self._state
        if "targets" in line:
            targets = line["targets"]
            changed = any(answer.get("changed") for answer in answers)
            self._hit("target-unchanged", not changed)
            self._hit("target-empty", not targets)
            self._hit("target-negative", any(count < 0 for count in targets.values()))
            fresh = targets.keys() - before["target"].keys()
            self._hit("profile-new", bool(fresh))
            self._hit("profile-as-initial", bool(fresh) and not changed)
            excluded = set(line.get("excludedNodes", ()))
            heard = set(after["schedulerExcluded"])
            self._hit("excluded-scheduler", changed and bool(heard))
            self._hit("excluded-unheard", not changed and excluded != heard)
        starting = {str(number) for number in range(before["lastId"] + 1)} - before["executors"].keys()
        for executor in line.get("kill", ()):
            container = before["executors"].get(executor)
            if container is None:
                unknown = executor in map(str, before["lossStored"]) or int(executor) > before["lastId"]
                self._hit("kill-unknown", unknown)
                self._hit("kill-starting", executor in starting and bool(before["launching"]) and not unknown)
            else:
                self._hit("kill-twice" if container in before["released"] else "killed")
        for executor in line.get("enqueueLoss", ()):
            waits = after["lossPending"].get(executor, 0)
            self._hit("loss-waits", waits > 0)
            self._hit("loss-several", waits > 1)
            self._hit("loss-stored", int(executor) in before["lossStored"])
        self._hit("loss-unknown", any("lossReasonFailed" in answer for answer in answers))
        asked = any(answer.get("request") for answer in answers)
        replaced = asked and bool(before["released"]) and before["target"] == after["target"]
        self._hit("killed-replaced", replaced and not _answered(line, "completed"))

    # ---- exclusion and the resource manager

    def _exclusions(self, answers: Answers, after: dict[str, Any]) -> None:
        before, now = self._state, answers[-1]["at"]
        fresh = after["ownExcluded"].keys() - before["ownExcluded"].keys()
        self._hit("excluded-own", bool(fresh))
        self._hit("excluded-own-again", bool(fresh & self._over))
        lifted = before["ownExcluded"].keys() - after["ownExcluded"].keys()
        self._hit("excluded-over", bool(lifted))
        self._over |= lifted
        late = {host for host, until in after["ownExcluded"].items() if until <= now}
        self._hit("excluded-late", bool(late))
        removed = [answer["removeExecutor"] for answer in answers if "removeExecutor" in answer]
        bad = [one for one in removed if one["reason"].startswith("Container from a bad node")]
        shunned = before["ownExcluded"].keys() | set(before["schedulerExcluded"])
        on = any(f" on host: {host}. " in one["reason"] for one in bad for host in shunned)
        counting = self._setting.conf.get(EXCLUDE) == "true"
        self._hit("excluded-uncounted", counting and on)
        self._hit("excluded-all", after["allExcluded"])
        self._hit("nodes-none", after["clusterNodes"] == 0)
        self._hit("failure-expires", after["failed"] < before["failed"])
        self._hit("limit-reached", after["failed"] >= after["maxFailures"])

    def _manager(self, line: Line, answers: Answers) -> None:
        answer = line.get("allocate", {})
        fails = "throw" in answer
        self._hit("call-fails", fails)
        shown = [one["heartbeat"] for one in answers if "heartbeat" in one]
        asked = any("request" in one or "cancel" in one for one in answers)
        self._hit("call-again", self._failed_call and bool(shown) and bool(shown[0]["asks"]) and not asked)
        if "allocate" in line:
            self._failed_call = fails and bool(shown) and bool(shown[0]["asks"])
        told = [one["decommissionExecutorsOnHost"] for one in answers if "decommissionExecutorsOnHost" in one]
        leaving = [node["host"] for node in answer.get("updatedNodes", ()) if node["state"] == "DECOMMISSIONING"]
        self._hit("decommissioned", bool(told))
        self._hit("decommissioned-twice", len(told) > len(set(told)))
        self._hit("decommissioned-once", bool(set(leaving) & set(self._state["decommissioning"])))
        self._hit("decommission-off", bool(leaving) and not told and not self._state["decommissioning"])
        self._hit("stopped", "stop" in line)


def _answered(line: Line, what: str) -> list[Line]:
    """What the resource manager gives or tells in a line."""
    answer: Line = line.get("allocate") or line.get("handle") or {}
    told: list[Line] = answer.get(what, [])
    return told
