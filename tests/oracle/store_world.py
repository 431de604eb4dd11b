"""Random lives of the snapshots store: subscribers with timers of their own, threads that meet, deliveries that throw."""

from __future__ import annotations

import random
from typing import Any, Final

from tests.oracle.world import Answers, Line, Sink

PHASES: Final = ("Pending", "Running", "Running", "Failed", "Succeeded", "Unknown", "Terminating", "RUNNING")
INTERVALS: Final = (1, 50, 100, 300, 1000, 1000, 2500)
THROWS: Final = ("IllegalState", "IllegalState", "fatal", "IllegalArgument", "NumberFormat", "Other")


class StoreWorld:
    """One scenario being made."""

    def __init__(self, r: random.Random, sink: Sink) -> None:
        self.r = r
        self.now = r.choice((0, 1_000_000))
        self._sink = sink
        self._bad = r.choice((0, 0, 0.03, 0.1))
        self._throws = r.choice((0, 0, 0.05, 0.15))
        self._exits = r.random() < 0.25
        self._busy = r.choice((0, 0.1, 0.35))
        self._exited = False

    def run(self, steps: int) -> None:
        """Play the scenario; after an exit Spark says nothing more, so only a few lines follow."""
        r = self.r
        conf: dict[str, str] = {}
        if r.random() < 0.3:
            conf["spark.kubernetes.executor.checkAllContainers"] = r.choice(("true", "false"))
        if r.random() < 0.15:
            conf["spark.kubernetes.executor.podTemplateContainerName"] = "main"
        self._ask({"conf": conf, "startAt": self.now})
        names = list("abcd"[: r.choice((1, 2, 2, 3, 4))])
        waiting = [(name, r.choice(INTERVALS)) for name in names]
        if any(interval == 1 for _, interval in waiting):
            waiting = [(name, max(37, interval)) for name, interval in waiting]
        left = steps
        while left > 0:
            left -= 1
            if r.random() < 0.75:
                self.now += r.choice((1, 10, 100, 250, 500, 1000, 1000, 3000))
            line: Line = {"at": self.now}
            if waiting and r.random() < 0.5:
                name, interval = waiting.pop(0)
                line |= {"subscribe": name, "interval": interval}
            else:
                line |= self._acts(names)
            if r.random() < 0.12:
                line["hold"] = True
            self._ask(line)
            if self._exited:
                left = min(left, 3)
        if r.random() < 0.35:
            self._ask(
                {"at": self.now, "ops": [{"notify": True}, {"stop": True}] if r.random() < 0.5 else [{"stop": True}]}
            )
            self._ask({"at": self.now + 5_000, "update": [{"id": 1, "phase": "Running"}]})
            self._ask({"at": self.now + 6_000, "notify": True})
            self._ask({"at": self.now + 7_000, "subscribe": "late", "interval": 100})

    def _acts(self, names: list[str]) -> Line:
        r = self.r
        kind = r.random()
        if kind < self._busy:
            during = {r.choice(names): [self._act(names, inner=True) for _ in range(r.randint(1, 4))]}
            return {"during": during} | ({"notify": True} if r.random() < 0.5 else {})
        if kind < self._busy + self._throws:
            what = r.choice(THROWS)
            if what in ("IllegalArgument", "NumberFormat") and not self._exits:
                what = "IllegalState"
            return {"throwNext": {r.choice(names): what}} | ({"notify": True} if r.random() < 0.5 else {})
        if r.random() < 0.3:
            return {"ops": [self._act(names, inner=False) for _ in range(r.randint(2, 5))]}
        return self._act(names, inner=False)

    def _act(self, names: list[str], *, inner: bool) -> Line:
        r = self.r
        kind = r.random()
        if kind < 0.42:
            return {"update": [self._pod() for _ in range(r.choice((1, 1, 1, 2, 4)))]}
        if kind < 0.6:
            return {"replace": [self._pod() for _ in range(r.randint(0, 6))]}
        if kind < 0.9:
            return {"notify": True} if r.random() < 0.7 else {"run": True}
        if inner and r.random() < 0.3:
            return {"during": {r.choice(names): [{"notify": True}]}}
        return {"notify": True} if inner else {}

    def _pod(self) -> Line:
        r = self.r
        pod: dict[str, Any] = {"id": r.randint(1, 9), "phase": r.choice(PHASES)}
        if r.random() < 0.12:
            pod["deletionTimestamp"] = 0
        if r.random() < 0.15:
            pod["containers"] = [{"name": "spark-kubernetes-executor", "exitCode": r.choice((0, 1))}]
            pod["restartPolicy"] = r.choice(("Never", "Always"))
        if r.random() < 0.06:
            pod["id"] = r.choice(("EXECID", "007", "12345678901", None))
        if r.random() < self._bad:
            match r.randrange(4):
                case 0:
                    pod["id"] = r.choice(("abc", "", "1.5", "99999999999999999999"))
                case 1:
                    pod["noStatus"] = True
                    pod.pop("deletionTimestamp", None)
                case 2:
                    pod["phase"] = None
                case _:
                    pod |= {"phase": "Running", "noSpec": True}
        return pod

    def _ask(self, line: Line) -> Answers:
        self._sink.put(line)
        answers = self._sink.settle()[-1][1]
        self._exited |= any("exit" in answer for answer in answers)
        return answers
