"""Which rules of the lifecycle manager a scenario reached, told from real Spark's answers.

Every removal and every call to the API is an answer, with the snapshot that it belongs to; the state after a line holds
the manager's books. What did not happen is told by comparing both with the snapshots of the line.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any, Final

from tests.oracle.lifecycle_world import LifecycleSetting
from tests.oracle.watch import Watch
from tests.oracle.world import Answers, Line

TEXTS: Final = {
    "success": "code-0",
    "generic, look at logs to clarify": "code-1",
    "Douglas Adams fan": "code-42",
    "Uncaught exception": "code-uncaught",
    "JVM OOM": "code-52",
    "DiskStore failed to create temp dir": "code-53",
    "not executable - possibly perm or arch": "code-126",
    "SIGKILL, possible container OOM": "code-137",
    "SIGSEGV: that's unexpected": "code-139",
    "exit-1, your guess is as good as mine": "code-255",
    "unexpected": "code-other",
}

RULES: Final = {
    # failures
    "failure-counted": "a failed pod counts as a failure",
    "failure-once": "and does so once, however often it is seen",
    "failure-inactive": "also when it is labelled inactive",
    "failure-deleting": "also when it is being deleted, and only its container has failed",
    "failure-not-deleted": "a failed pod that counts as deleted does not",
    "failure-registered": "a creation that failed counts",
    "failure-expires": "failures older than the interval no longer count",
    "limit-reached": "more failures than allowed: the application is stopped",
    "limit-met": "as many failures as allowed: it is not",
    "limit-set": "the limit is a setting",
    "limit-three": "the limit is three by default",
    "limit-twice": "the limit is twice the executors",
    "limit-huge": "twice the executors is more than a number holds",
    # removals
    "removed-failed": "a failed executor is removed",
    "removed-succeeded": "an executor that is done is removed, which surprises a driver that counts on it",
    "removed-succeeded-inactive": "or does not",
    "removed-deleted": "a deleted executor is removed",
    "removed-deleted-code": "and its container's exit code told",
    "removed-by-container": "a running pod whose Spark container ended is removed",
    "removed-once": "an executor in the cache is not removed again",
    "removed-twice-a-round": "without a cache it is removed in each snapshot",
    "removed-again": "it is removed again once the cache has forgotten it",
    "inactive-left-alone": "a pod labelled inactive is left alone",
    "code-none": "no Spark container has ended: exit code -1",
    **{rule: f"exit code text ({text})" for text, rule in TEXTS.items()},
    "text-reason": "the API gave a reason",
    "text-reason-empty": "an empty reason still gets its sentence",
    "text-message": "the API gave a message",
    "text-margin": "the margin of its lines is eaten",
    "text-containers": "several containers are described",
    "text-waiting": "one of them waits",
    "text-running": "one of them runs",
    "text-stateless": "one of them has an empty state",
    "text-no-containers": "none is described",
    # pods at the API
    "pod-deleted": "a final pod is deleted",
    "pod-gone": "it is gone already",
    "pod-deleting": "it is being deleted already",
    "pod-get-refused": "looking for it fails",
    "pod-delete-refused": "its deletion fails",
    "pod-again": "every round looks for it again",
    "pod-skipped": "a final pod that is being deleted is not looked for",
    "pod-marked": "deletion is off: it is labelled inactive",
    "pod-mark-refused": "labelling fails",
    "pod-marked-once": "it is labelled once",
    "mark-forgotten": "a labelled pod is forgotten once it is seen so, or gone",
    # lost executors
    "lost": "a registered executor is in no poll: lost",
    "lost-young": "it registered too short a time before the poll",
    "lost-again": "it is lost at every poll, until the driver forgets it",
    "lost-removed": "it was removed before: not lost",
    "poll-older": "a poll that is older than the last one is looked at too",
    "poll-same": "the same poll is not looked at twice",
    # odd rounds
    "round-empty": "a round without snapshots",
    "round-threw": "a pod that cannot be described ends the round",
    "removal-swallowed": "its removal is never sent while it is in the cache",
    "limit-after-throw": "a limit passed in a round that threw stops the application in the next",
    "snapshot-threw": "a pod that cannot be read makes no snapshot",
}

BEYOND: Final = {
    "order": "within a snapshot of more than four pods the order is that of a hash; answers are sorted by id",
    "log-lines": "what is only logged does not show",
}

_CODE: Final = re.compile(r"exited with exit code (-?\d+)\((.*?)\)\.$", re.MULTILINE)


class LifecycleReached(Watch):
    """Counts the rules that one scenario reaches."""

    rules = RULES

    def __init__(self, setting: LifecycleSetting) -> None:
        super().__init__()
        self._setting = setting
        self._limit = 0
        self._registered: dict[str, int] = {}
        self._removed: set[str] = set()
        self._lost: set[str] = set()
        self._looked: set[str] = set()
        self._pods: dict[str, Line] = {}
        self._threw = False
        self._state: dict[str, Any] = {
            "removedCache": [],
            "inactivated": [],
            "failedIds": [],
            "numFailed": 0,
            "lastFullSnapshotTs": 0,
            "exits": 0,
        }

    def see(self, line: Line, answers: Answers) -> None:
        """Count what one line of the scenario reached."""
        if "conf" in line:
            self._opening(line, answers)
            return
        after = answers[-1]["state"]
        self._registered = line.get("registered", self._registered)
        snapshots = [[dict(pod, id=str(pod["id"])) for pod in each["pods"]] for each in line.get("snapshots", ())]
        seen = [pod for pods in snapshots for pod in pods]
        for each, pods in zip(line.get("snapshots", ()), snapshots, strict=True):
            self._pods = ({} if each["full"] is not None else self._pods) | {pod["id"]: pod for pod in pods}
        threw = any("threw" in answer for answer in answers)
        self._hit("round-threw", threw)
        self._hit("snapshot-threw", any("snapshotThrew" in answer for answer in answers))
        self._hit("round-empty", line.get("snapshots") == [])
        self._removals(answers, seen)
        self._failures(line, after, seen, answers, threw)
        self._calls(answers, seen, after)
        if not threw:
            self._polls(line, answers, after)
        removed = {answer["remove"] for answer in answers if "remove" in answer}
        fresh = {str(number) for number in set(after["removedCache"]) - set(self._state["removedCache"])}
        self._hit("removal-swallowed", threw and bool(fresh - removed))
        self._removed |= removed
        self._threw = threw
        self._state = after

    def _opening(self, line: Line, answers: Answers) -> None:
        conf = line["conf"]
        self._limit = answers[0]["maxNumExecutorFailures"]
        if "spark.executor.maxNumFailures" in conf:
            self._hit("limit-set")
        elif self._limit == 2**31 - 1:
            self._hit("limit-huge")
        else:
            self._hit("limit-three" if self._limit == 3 else "limit-twice")

    def _failures(self, line: Line, after: dict[str, Any], seen: list[Line], answers: Answers, threw: bool) -> None:
        before = {str(number) for number in self._state["failedIds"]}
        fresh = {str(number) for number in after["failedIds"]} - before
        for pod in seen:
            if pod["id"] in fresh:
                self._hit("failure-counted")
                self._hit("failure-inactive", bool(pod.get("inactive")))
                self._hit("failure-deleting", "deletionTimestamp" in pod and pod["phase"] == "Running")
            self._hit("failure-once", pod["id"] in before and str(pod["phase"]).lower() == "failed")
            deleted = pod["phase"] == "Failed" and "deletionTimestamp" in pod
            self._hit("failure-not-deleted", deleted and pod["id"] not in fresh | before)
        self._hit("failure-registered", "registerFailures" in line)
        grown = len(fresh) + line.get("registerFailures", 0)
        self._hit("failure-expires", after["numFailed"] < self._state["numFailed"] + grown)
        exits = any("exit" in answer for answer in answers)
        self._hit("limit-reached", exits)
        self._hit("limit-met", not exits and not threw and after["numFailed"] == self._limit and "snapshots" in line)
        self._hit("limit-after-throw", exits and self._threw and not fresh)

    def _removals(self, answers: Answers, seen: list[Line]) -> None:
        phases = {pod["id"]: pod for pod in seen}
        removed: Counter[str] = Counter()
        for answer in answers:
            if "isExecutorActive" in answer:
                self._hit("removed-succeeded" if answer["answer"] else "removed-succeeded-inactive")
            if "remove" not in answer:
                continue
            number, message = answer["remove"], answer["message"]
            if "not found in the cluster at the polling time" in message:
                self._hit("lost-again" if number in self._lost else "lost")
                self._lost.add(number)
                continue
            removed[number] += 1
            self._hit("removed-again", number in self._removed - self._lost)
            if "was deleted by a user" in message:
                self._hit("removed-deleted")
                self._hit("removed-deleted-code", answer["exitCode"] != -1)
                continue
            pod = phases.get(number, {})
            self._hit("removed-failed", str(pod.get("phase")).lower() == "failed")
            self._hit("removed-by-container", pod.get("phase") == "Running")
            self._text(answer, pod)
        self._hit("removed-twice-a-round", max(removed.values(), default=0) > 1)
        final = {pod["id"] for pod in seen if str(pod["phase"]).lower() in ("failed", "succeeded")}
        cached = {str(number) for number in self._state["removedCache"]}
        self._hit("removed-once", bool(final & cached - removed.keys()))
        inactive = {pod["id"] for pod in seen if pod.get("inactive")}
        self._hit("inactive-left-alone", bool(inactive & final - removed.keys() - cached))

    def _text(self, answer: Line, pod: Line) -> None:
        message = answer["message"]
        found = _CODE.search(message)
        if found:
            self._hit(TEXTS[found.group(2)])
        self._hit("code-none", answer["exitCode"] == -1)
        self._hit("text-reason", bool(pod.get("reason")))
        self._hit("text-reason-empty", "brief reason: \n" in message)
        self._hit("text-message", bool(pod.get("message")))
        self._hit("text-margin", "\n" in str(pod.get("message")) and "|" not in message)
        self._hit("text-containers", message.count("container name:") > 1)
        self._hit("text-waiting", "container state: waiting" in message)
        self._hit("text-running", "container state: running" in message)
        self._hit("text-stateless", "container state: N/A" in message)
        self._hit("text-no-containers", "container name:" not in message)

    def _calls(self, answers: Answers, seen: list[Line], after: dict[str, Any]) -> None:
        found: set[tuple[str, str]] = set()
        looked: set[str] = set()
        for answer in answers:
            if "podGet" in answer:
                number = answer["podGet"].removeprefix("exec-")
                looked.add(number)
                self._hit("pod-gone", answer["code"] == 404)
                self._hit("pod-get-refused", answer["code"] not in (200, 404))
                if answer["code"] == 200:
                    found.add((number, answer["in"]))
            if "podDelete" in answer:
                found.discard((answer["podDelete"].removeprefix("exec-"), answer["in"]))
                self._hit("pod-deleted" if answer["code"] == 200 else "pod-delete-refused")
            if "podPatch" in answer:
                self._hit("pod-marked" if answer["code"] == 200 else "pod-mark-refused")
        self._hit("pod-deleting", bool(found))
        self._hit("pod-again", bool(looked & self._looked))
        self._looked |= looked
        patched = {answer["podPatch"].removeprefix("exec-") for answer in answers if "podPatch" in answer}
        marked = {str(number) for number in self._state["inactivated"]}
        for pod in seen:
            final = str(pod["phase"]).lower() in ("failed", "succeeded") and "deletionTimestamp" not in pod
            self._hit("pod-marked-once", final and not pod.get("inactive") and pod["id"] in marked - patched)
            ended = "deletionTimestamp" in pod and pod["phase"] == "Running" and not pod.get("inactive")
            failed = int(pod["id"]) in after["failedIds"]
            self._hit("pod-skipped", self._setting.deletes and ended and failed and pod["id"] not in looked)
        self._hit("mark-forgotten", bool(marked - {str(number) for number in after["inactivated"]}))

    def _polls(self, line: Line, answers: Answers, after: dict[str, Any]) -> None:
        polls = [each["full"] for each in line.get("snapshots", ()) if each["full"] is not None]
        if not polls:
            return
        before, now = self._state["lastFullSnapshotTs"], after["lastFullSnapshotTs"]
        self._hit("poll-older", now < before)
        self._hit("poll-same", polls[-1] == before == now)
        if now == before:
            return
        removed = {answer["remove"] for answer in answers if "remove" in answer}
        missing = self._registered.keys() - self._pods.keys() - removed
        cached = {str(number) for number in after["removedCache"]}
        for number in missing:
            old = now - self._registered[number] > self._setting.delta_ms
            self._hit("lost-young", not old)
            self._hit("lost-removed", old and number in cached)
