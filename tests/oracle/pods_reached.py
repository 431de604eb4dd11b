"""Which rules of the pods allocator a scenario reached, told from real Spark's answers.

``PodsReached`` is shown every line with its answers. The state after each line holds the allocator's books, and the line
the snapshots that it read; so it can count each profile's pods as Spark counts them and see which limit a request
stopped at, what deletions chose, and what became of the books.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from tests.oracle.pods_world import K8S, PodsSetting
from tests.oracle.watch import Watch
from tests.oracle.world import Answers, Line

UNLIMITED: Final = 2**31 - 1

RULES: Final = {
    # targets and notices
    "target-notifies": "a target change with nothing outstanding asks for a delivery at once",
    "target-waits": "a target change with pods outstanding waits for the next delivery",
    "target-kept": "a profile that a request does not name keeps its target",
    # requests
    "created-to-target": "a request makes up what is missing",
    "created-batch": "a request is cut to the batch size",
    "created-to-slots": "a request is cut to a share of the free slots",
    "created-to-profile-limit": "a request is cut to the pending limit of its profile",
    "created-nothing": "a profile that lacks pods is held by its limits",
    "created-two-profiles": "one round requests pods for two profiles",
    "slots-none": "no slot is free: nobody gets a pod",
    "slots-over": "more pods are pending than the limit allows",
    "unseen-hold": "pods that no snapshot has shown hold back their profile alone",
    "empty-delivery-creates": "a delivery without snapshots requests pods",
    "one-profile-takes-all": "with one profile known, pods of every label count for profile 0",
    "other-profile-ignored": "a pod of a profile without a target counts nowhere",
    "label-unreadable": "a pod without a readable profile label ends the round",
    "maximum-throws": "the limit of ids ends the round, at every delivery",
    "create-failed": "a refused request burns its id, the next one is made",
    "create-failed-all": "every request of a round is refused",
    # what has been created
    "created-seen": "a created pod is seen",
    "created-seen-between": "a created pod was seen only in a snapshot that is not the last",
    "created-joined": "the driver knows a created pod that no snapshot has shown",
    "joined-seen": "it is seen later",
    "created-before": "an id is created that a snapshot showed before",
    "came-back": "a pod that was missing from a snapshot is there again",
    "timed-out": "created pods are never seen: given up, and deleted",
    "timed-out-kept": "the same, and deletion is off",
    "timed-out-refused": "that deletion fails",
    # excess
    "excess-created": "pods that nobody has seen are deleted first",
    "excess-pending": "pending pods are deleted",
    "excess-both": "both in one call",
    "excess-chosen": "only some of the pending ones",
    "excess-hash-order": "chosen in the order of a hash table, not of their ids",
    "excess-young": "pods are in excess, none is old enough",
    "excess-no-time": "a pending pod without a readable creation time counts as old",
    "excess-refused": "the deletion fails: the ids count as deleted all the same",
    "excess-known": "a pod that the driver knows is not deleted",
    "deleted-ignored": "a deleted pod that is still there does not count",
    "deleted-replaced": "and is replaced when the target rises again",
    "deleted-forgotten": "a deleted id that left the snapshot is forgotten",
    "deleted-unseen-forgotten": "and so is one that no snapshot has ever shown",
    "is-deleted": "isDeleted says yes",
    "is-not-deleted": "isDeleted says no",
    # phases
    "phase-unknown": "Unknown counts as no pod",
    "phase-failed": "Failed counts as no pod",
    "phase-succeeded": "Succeeded counts as no pod",
    "phase-terminating": "Terminating counts as no pod",
    "phase-other-case": "phases are read in any case",
    "running-deleted": "a running pod that is being deleted counts",
    "pending-deleted": "a pending pod that is being deleted does not",
    "container-failed": "a running pod whose Spark container failed does not",
    "container-succeeded": "a running pod whose Spark container is done does not",
    # claims
    "claim-created": "a pod brings its claim",
    "claim-two": "a pod brings two",
    "claim-of-driver": "the driver owns it",
    "claim-of-executor": "the pod owns it",
    "claim-refused": "the claim is refused: the pod is deleted and the round ends",
    "claim-pod-stays": "and that deletion is refused too",
    "claim-fixed": "a claim with a name of its own is created for each pod",
    "claims-listed": "a request looks for claims to reuse",
    "claims-not-listed": "reuse is off or there is no driver pod: no list",
    "claim-reused": "a claim of an earlier pod is reused",
    "claim-reused-partly": "of two claims one is reused",
    "claim-young": "claims are free, but too young",
    "claim-waits": "as many claims as executors are allowed: requests wait",
    "claim-waits-empty": "then a delivery without snapshots does not even look",
    # life of the allocator
    "stop": "stop() deletes all pods",
    "stop-refused": "and swallows a failure",
    "settings-refused": "a profile's pending limit above the limit of all is refused",
    "driver-missing": "the driver pod is not there",
}

BEYOND: Final = {
    "driver-readiness": "the wait for a driver pod that is not ready runs on the wall clock",
    "claims-list-refused": "a scenario cannot make a list fail",
    "recovery-mode": "it changes what is in a pod, which the answers do not show",
}

_BY_PHASE: Final = {"unknown", "failed", "succeeded", "terminating"}


class PodsReached(Watch):
    """Counts the rules that one scenario reaches."""

    rules = RULES

    def __init__(self, setting: PodsSetting) -> None:
        super().__init__()
        self._setting = setting
        conf = setting.header["conf"]
        self._batch = setting.number(K8S + "allocation.batch.size", 20)
        self._slots = setting.number(K8S + "allocation.maxPendingPods", UNLIMITED)
        self._slots_each = setting.number(K8S + "allocation.maxPendingPodsPerRp", UNLIMITED)
        self._idle_ms = setting.millis("spark.dynamicAllocation.executorIdleTimeout", 60_000)
        self._waiting = setting.flag(K8S + "driver.waitToReusePersistentVolumeClaim", False)
        self._volumes = sum(key.endswith("options.claimName") for key in conf)
        self._fixed = any(key.endswith("options.claimName") and value != "OnDemand" for key, value in conf.items())
        self._reuses = setting.flag(K8S + "driver.reusePersistentVolumeClaim", True)
        self._reuses &= setting.flag(K8S + "driver.ownPersistentVolumeClaim", True)
        self._reuses &= K8S + "driver.pod.name" in conf
        self._young = str(setting.header.get("options", {}).get("pvcCreationTimestamp", "")) > "2900"
        self._targets: dict[int, int] = {}
        self._known: set[str] = set()
        self._pods: dict[int, Line] = {}
        self._ever: set[int] = set()
        self._owned: dict[int, list[str]] = {}
        self._state: dict[str, Any] = {
            "newlyCreatedExecutors": [],
            "schedulerKnownNewlyCreatedExecs": [],
            "deletedExecutorIds": [],
            "numOutstandingPods": 0,
            "nextId": 0,
            "notified": 0,
        }

    def see(self, line: Line, answers: Answers) -> None:
        """Count what one line of the scenario reached."""
        if "conf" in line:
            for answer in answers:
                self._hit("settings-refused", "must be less than or equal" in str(answer.get("error")))
                self._hit("driver-missing", "No pod was found named" in str(answer.get("error")))
            return
        states = [answer["state"] for answer in answers if "state" in answer]
        if not states:
            return
        after = states[-1]
        self._known = set(map(str, line["knownIds"])) if "knownIds" in line else self._known
        if "targets" in line:
            self._retargeted(line, after)
        snapshots = [{int(pod["id"]): pod for pod in pods} for pods in line.get("snapshots", ())]
        before, shown = set(self._pods), {number for snapshot in snapshots for number in snapshot}
        if snapshots:
            self._pods = snapshots[-1]
            self._phases()
        for answer in answers:
            for number, answered in answer.get("isDeleted", {}).items():
                self._hit("is-deleted" if answered else "is-not-deleted", number is not None)
            self._claim(answer)
            self._hit("label-unreadable", "NumberFormat" in str(answer.get("threw")))
            self._hit("maximum-throws", "Exceed the pod creation limit" in str(answer.get("threw")))
        if line.get("stop"):
            refused = any("delete" in answer and answer.get("failed") for answer in answers)
            self._hit("stop-refused" if refused else "stop")
        elif "snapshots" in line or "targets" in line:
            self._hit("came-back", bool(shown - before & shown and (shown - before) & self._ever))
            self._books(line, after, snapshots)
            self._deletions(line, answers, after)
            threw = any("threw" in answer for answer in answers)
            rounds = ("snapshots" in line) + ("targets" in line and after["notified"] > self._state["notified"])
            if rounds == 1 and not threw:
                self._requests(line, answers, after)
        self._ever |= shown
        self._state = after

    def _retargeted(self, line: Line, after: dict[str, Any]) -> None:
        named = {int(profile): target for profile, target in line["targets"].items()}
        self._hit("target-kept", any(self._targets[profile] for profile in self._targets.keys() - named.keys()))
        self._hit("target-notifies", after["notified"] > self._state["notified"])
        self._hit("target-waits", after["notified"] == self._state["notified"])
        self._targets |= named

    def _phases(self) -> None:
        for pod in self._pods.values():
            phase = str(pod["phase"])
            deleting = pod.get("deletionTimestamp") is not None
            self._hit(
                "phase-other-case", phase.lower() in ("running", "pending") and phase not in ("Running", "Pending")
            )
            if phase.lower() in _BY_PHASE and not deleting:
                self._hit(f"phase-{phase.lower()}")
            self._hit("running-deleted", deleting and phase == "Running")
            self._hit("pending-deleted", deleting and phase == "Pending")
            if phase == "Running" and "exitCode" in pod:
                self._hit("container-failed" if pod["exitCode"] else "container-succeeded")

    # ---- the books

    def _books(self, line: Line, after: dict[str, Any], snapshots: list[dict[int, Line]]) -> None:
        created = {number for number, _, _ in self._state["newlyCreatedExecutors"]}
        left = created - {number for number, _, _ in after["newlyCreatedExecutors"]}
        joined = {number for number, _ in self._state["schedulerKnownNewlyCreatedExecs"]}
        joined_now = {number for number, _ in after["schedulerKnownNewlyCreatedExecs"]}
        seen = {number for snapshot in snapshots for number in snapshot}
        self._hit("created-seen", bool(left & seen))
        self._hit("created-seen-between", bool(left & seen - set(self._pods)))
        self._hit("created-joined", bool(left & joined_now))
        self._hit("joined-seen", bool((joined - joined_now) & seen))
        deleted, deleted_now = set(self._state["deletedExecutorIds"]), set(after["deletedExecutorIds"])
        gone = left - seen - joined_now - deleted_now
        if not self._setting.flag(K8S + "executor.deleteOnTermination", True) and gone and line.get("snapshots"):
            self._hit("timed-out-kept")
        self._hit("deleted-ignored", bool(deleted_now & set(self._pods) & deleted))
        forgotten = deleted - deleted_now
        self._hit("deleted-forgotten", bool(forgotten & self._ever))
        self._hit("deleted-unseen-forgotten", bool(forgotten - self._ever))

    def _deletions(self, line: Line, answers: Answers, after: dict[str, Any]) -> None:
        created = {number for number, _, _ in self._state["newlyCreatedExecutors"]}
        for answer in answers:
            if "delete" not in answer:
                continue
            ids = set(answer["delete"])
            if answer["phaseSelector"] is None:
                self._hit("timed-out-refused" if answer.get("failed") else "timed-out")
                continue
            pending = ids & set(self._pods)
            self._hit("excess-created", bool(ids & created - pending))
            self._hit("excess-pending", bool(pending))
            self._hit("excess-both", bool(ids & created - pending) and bool(pending))
            self._hit("excess-refused", bool(answer.get("failed")))
            self._hit(
                "excess-no-time", any(self._pods[number].get("createdAt") in ("yesterday", None) for number in pending)
            )
            profile = self._profile(self._pods[min(pending)]) if pending else None
            spared = {
                number
                for number, pod in self._pods.items()
                if pending and number not in pending and self._old(pod, line["at"]) and self._profile(pod) == profile
                and number not in self._state["deletedExecutorIds"] and str(number) not in self._known
            }  # fmt: skip
            self._hit("excess-chosen", bool(pending) and bool(spared))
            self._hit("excess-hash-order", any(number < max(pending) for number in spared))
        for number, pod in self._pods.items():
            if self._pending(pod) and str(number) in self._known and self._over(self._profile(pod), after):
                self._hit("excess-known")
                break

    def _over(self, profile: int, after: dict[str, Any]) -> bool:
        return self._count(profile, after)[0] > self._targets.get(profile, 0)

    def _old(self, pod: Line, now: int) -> bool:
        return self._pending(pod) and isinstance(pod.get("createdAt"), int) and now - pod["createdAt"] > self._idle_ms

    @staticmethod
    def _pending(pod: Line) -> bool:
        return str(pod["phase"]).lower() == "pending" and pod.get("deletionTimestamp") is None

    @staticmethod
    def _running(pod: Line) -> bool:
        return str(pod["phase"]).lower() == "running" and "exitCode" not in pod

    def _profile(self, pod: Line) -> int:
        label = pod.get("rp", 0)
        return 0 if len(self._targets) <= 1 or not isinstance(label, int) else label

    def _count(self, profile: int, after: dict[str, Any]) -> tuple[int, int]:
        """A profile's pods after a round, and how many of them do not run, as Spark counts them."""
        there = [
            pod
            for number, pod in self._pods.items()
            if number not in after["deletedExecutorIds"] and self._profile(pod) == profile
        ]
        waiting = sum(map(self._pending, there))
        waiting += sum(of == profile for _, of, _ in after["newlyCreatedExecutors"])
        waiting += sum(of == profile for _, of in after["schedulerKnownNewlyCreatedExecs"])
        return sum(map(self._running, there)) + waiting, waiting

    # ---- requests

    def _requests(self, line: Line, answers: Answers, after: dict[str, Any]) -> None:
        entries = [entry for answer in answers for entry in answer.get("create", ())]
        made: Counter[int] = Counter()
        tried: Counter[int] = Counter()
        for entry in entries:
            tried[entry["rp"]] += 1
            made[entry["rp"]] += "failed" not in entry
            self._hit("create-failed", "failed" in entry)
            self._hit("created-before", entry["id"] in self._pods)
        self._hit("create-failed-all", bool(entries) and not sum(made.values()))
        self._hit("created-two-profiles", len(tried) > 1)
        self._hit("empty-delivery-creates", bool(entries) and not line.get("snapshots"))
        deleted = {number for number in after["deletedExecutorIds"] if number in self._pods}
        self._hit("deleted-replaced", bool(entries) and bool(deleted))
        waiting = sum(self._count(profile, after)[1] - made[profile] for profile in self._targets)
        unseen = {
            of for number, of, _ in self._state["newlyCreatedExecutors"]
            if number in {still for still, _, _ in after["newlyCreatedExecutors"]}
        }  # fmt: skip
        for number, pod in self._pods.items():
            counted = (self._pending(pod) or self._running(pod)) and number not in after["deletedExecutorIds"]
            label = pod.get("rp", 0)
            self._hit("one-profile-takes-all", counted and len(self._targets) == 1 and label != 0)
            self._hit("other-profile-ignored", counted and len(self._targets) > 1 and label not in self._targets)
        asked = any("pvcGet" in answer for answer in answers)
        for profile, target in self._targets.items():
            count, idle = self._count(profile, after)
            missing = target - count + made[profile]
            if missing < 0 and not any("delete" in answer for answer in answers):
                young = any(
                    self._pending(pod) and self._profile(pod) == profile and str(number) not in self._known
                    and not self._old(pod, line["at"]) and number not in after["deletedExecutorIds"]
                    for number, pod in self._pods.items()
                )  # fmt: skip
                self._hit("excess-young", young)
            if missing <= 0:
                continue
            if profile in unseen:
                self._hit("unseen-hold", not tried[profile])
                continue
            at_limit = idle - made[profile] + tried[profile] >= self._slots_each
            if tried[profile] == missing:
                self._hit("created-to-target")
            elif tried[profile] == self._batch:
                self._hit("created-batch")
            elif at_limit:
                self._hit("created-to-profile-limit" if tried[profile] else "created-nothing")
            elif tried[profile]:
                self._hit("created-to-slots", self._slots < UNLIMITED)
            self._hit("slots-none", not entries and waiting == self._slots)
            self._hit("slots-over", not entries and waiting > self._slots)
            if not entries and waiting < self._slots and self._waiting and self._volumes and not at_limit:
                self._hit("claim-waits", asked)
                self._hit("claim-waits-empty", not asked and not line.get("snapshots"))
        if entries and self._volumes:
            self._hit("claims-listed" if asked else "claims-not-listed")
            self._hit("claim-young", asked and self._young and self._reuses and bool(self._free()))

    def _free(self) -> set[str]:
        """Claims of pods that are no longer there."""
        return {name for number, names in self._owned.items() if number not in self._pods for name in names}

    def _claim(self, answer: Line) -> None:
        if "pvcCreate" in answer:
            self._hit("claim-refused" if answer.get("failed") else "claim-created")
            self._hit("claim-of-driver" if answer["owner"] == "driver" else "claim-of-executor")
            self._hit("claim-fixed", self._fixed and answer["pvcCreate"] == "fixed")
        elif str(answer.get("http", "")).startswith("DELETE"):
            self._hit("claim-pod-stays", answer["code"] >= 300)
        for entry in answer.get("create", ()):
            names = entry.get("pvcs", [])
            others = [name for name in names if f"-{entry['id']}-" not in name and name != "fixed"]
            self._hit("claim-two", len(names) > 1)
            self._hit("claim-reused", bool(others))
            self._hit("claim-reused-partly", 0 < len(others) < len(names))
            if "failed" not in entry:
                self._owned[entry["id"]] = names
