"""Random tables of pods, and which rules of ExecutorPodsSnapshot their states reach."""

from __future__ import annotations

import random
from typing import Any, Final

from tests.oracle.watch import Watch
from tests.oracle.world import Answers, Line, Sink

SPARK: Final = "spark-kubernetes-executor"
PHASES: Final = (
    *("Pending", "Running", "Running", "Running", "Failed", "Succeeded", "Unknown", "Terminating"),
    *("RUNNING", "pENDING", "terminating", "", "Weird", None),
)

RULES: Final = {
    "PodPending": "pending",
    "PodRunning": "running",
    "PodFailed": "failed",
    "PodSucceeded": "succeeded",
    "PodTerminating": "terminating",
    "PodUnknown": "unknown: another phase",
    "PodDeleted": "deleted: a deletion timestamp",
    "deleted-without-status": "deleted, without a status or a phase",
    "deleting-runs": "being deleted, and running all the same",
    "deleting-terminates": "being deleted, and terminating all the same",
    "container-failed": "running, the Spark container failed",
    "container-succeeded": "running, the Spark container is done",
    "container-no-code": "running, the Spark container ended without a code",
    "container-first": "of two containers with the name the first counts",
    "container-other": "running, another container failed: the pod has failed",
    "container-other-restarts": "running, another container failed and may be restarted",
    "container-other-ignored": "running, another container failed, and only Spark's counts",
    "container-other-no-code": "running, another container ended without a code: failed",
    "container-named": "the Spark container has a name of its own",
    "init-ignored": "running, an init container failed",
    "phase-other-case": "phases are read in any case",
    "threw": "a pod that cannot be read",
    "threw-number": "an id that is no number",
    "no-id": "a pod without an id is skipped",
    "twice": "of two pods with one id the last counts",
}

BEYOND: Final = {"log-lines": "what is only logged does not show"}


def write(r: random.Random, sink: Sink, rows: int) -> None:
    """Write a table."""
    for number in range(1, rows + 1):
        sink.put(_row(r, number))
    sink.settle()


def _row(r: random.Random, number: int) -> Line:
    spark = r.choice((SPARK, SPARK, "main"))
    row: Line = {}
    if r.random() < 0.12:
        row["pods"] = [_pod(r, number + r.randint(0, 1), spark) for _ in range(r.randint(2, 4))]
    else:
        row["pod"] = _pod(r, number, spark)
    if r.random() < 0.8:
        row["checkAllContainers"] = r.random() < 0.7
    if spark != SPARK or r.random() < 0.5:
        row["sparkContainerName"] = spark
    return row


def _pod(r: random.Random, number: int, spark: str) -> Line:
    pod: dict[str, Any] = {"id": number, "phase": r.choice(PHASES)}
    if r.random() < 0.3:
        pod["deletionTimestamp"] = r.choice((0, 1_700_000_000_000, "2024-01-01T00:00:00Z", ""))
    if r.random() < 0.7:
        pod["restartPolicy"] = r.choice(("Never", "Never", "Never", "Always", "OnFailure", "never"))
    if r.random() < 0.04:
        pod["noStatus"] = True
    if r.random() < 0.04:
        pod["noSpec"] = True
    if r.random() < 0.05:
        pod["id"] = r.choice(("EXECID", "007", "x", None, " 1", "-3"))
    containers = [_container(r, spark) for _ in range(r.choice((0, 1, 1, 2, 2, 3)))]
    if containers:
        pod["containers"] = containers
    elif r.random() < 0.2:
        pod["exitCode"] = r.choice((0, 1))
    if r.random() < 0.08:
        pod["initContainers"] = [{"name": r.choice(("init", spark)), "exitCode": 1}]
    return pod


def _container(r: random.Random, spark: str) -> Line:
    container: dict[str, Any] = {"name": r.choice((spark, spark, SPARK, "main", "side", None))}
    match r.randrange(10):
        case 0 | 1 | 2 | 3:
            container["exitCode"] = r.choice((0, 0, 0, 1, 137))
        case 4:
            container |= {"state": "terminated", "exitCode": None}
        case 5 | 6 | 7:
            container["state"] = "running"
        case 8:
            container["state"] = r.choice(("waiting", "none"))
        case _:
            container["state"] = None
    return container


class StatesReached(Watch):
    """Counts the rules that one table reaches."""

    rules = RULES

    def see(self, line: Line, answers: Answers) -> None:
        """Count what one row reached."""
        answer = answers[0]
        if "threw" in answer:
            self._hit("threw-number" if "NumberFormat" in answer["threw"] else "threw")
            return
        states: dict[str, str] = answer["states"]
        pods = line.get("pods", [line.get("pod")])
        for state in states.values():
            self._hit(state)
        known = [pod for pod in pods if pod["id"] not in (None, "EXECID")]
        self._hit("no-id", len(known) < len(pods))
        self._hit("twice", len({pod["id"] for pod in known}) < len(known))
        if len(pods) == len(states) == 1:
            self._single(line, pods[0], next(iter(states.values())))

    def _single(self, line: Line, pod: Line, state: str) -> None:
        deleting = pod.get("deletionTimestamp") is not None
        phase = None if pod.get("noStatus") else pod.get("phase")
        self._hit("deleted-without-status", state == "PodDeleted" and phase is None)
        self._hit("deleting-terminates", deleting and state == "PodTerminating")
        self._hit(
            "phase-other-case",
            phase is not None and phase not in PHASES[:8] and state not in ("PodUnknown", "PodDeleted"),
        )
        if str(phase).lower() != "running":
            return
        self._hit("deleting-runs", deleting)
        spark = line.get("sparkContainerName", SPARK)
        every = line.get("checkAllContainers", True)
        ours = [one for one in pod.get("containers", ()) if one["name"] == spark]
        others = [one for one in pod.get("containers", ()) if one["name"] != spark]
        codes = [one["exitCode"] for one in others if "exitCode" in one]
        failed = any(code != 0 for code in codes if code is not None)
        never = pod.get("restartPolicy") == "Never"
        if ours:
            code = ours[0].get("exitCode", "running")
            self._hit("container-failed", state == "PodFailed" and code not in ("running", 0, None))
            self._hit("container-succeeded", state == "PodSucceeded")
            self._hit("container-no-code", code is None)
            self._hit("container-first", len({str(one.get("exitCode")) for one in ours}) > 1)
            self._hit("container-named", spark != SPARK and state != "PodRunning")
        fine = not ours or ours[0].get("exitCode", 0) == 0
        self._hit("container-other", failed and never and every and state == "PodFailed" and fine)
        self._hit("container-other-restarts", failed and not never and every and state != "PodFailed")
        self._hit("container-other-ignored", failed and never and not every and state != "PodFailed")
        self._hit(
            "container-other-no-code",
            None in codes and not failed and never and every and state == "PodFailed" and fine,
        )
        self._hit("init-ignored", "initContainers" in pod and state == "PodRunning")
