"""Random lives of the polling source, and which of its rules they reach."""

from __future__ import annotations

import random
from typing import Any, Final

from tests.oracle.watch import Watch
from tests.oracle.world import Answers, Line, Sink

EXECUTOR: Final = "spark.kubernetes.executor."
VERSIONS: Final = ("0", "1", "5", "9", "10", "11", "18446744073709551615")
ODD_VERSIONS: Final = (None, "", "-1", "abc", " 5", "18446744073709551616", "+7", "007", "\u0663")

RULES: Final = {
    "poll": "a list is handed over",
    "poll-late": "the first list is made after one interval",
    "poll-off": "polling is off: nothing is listed",
    "poll-refused": "a list fails: nothing changes, the next one is made",
    "poll-selects": "pods of other applications, of the driver and inactive ones are not listed",
    "poll-without-id": "a pod without an id is handed over",
    "version-asked": "with resource versions, version 0 is asked for",
    "version-newer": "a list of a newer version is taken",
    "version-same": "a list of the same version is taken",
    "version-older": "a list of an older version is dropped",
    "version-unsigned": "versions compare as unsigned numbers of 64 bits",
    "version-unreadable": "a version that is none drops the list",
    "version-missing": "and so does a missing one",
    "started-twice": "starting twice throws",
    "stopped": "after stop() nothing is listed",
}

BEYOND: Final = {"cluster-trouble": "a list that takes long, or never ends"}


class PollWorld:
    """One scenario being made."""

    def __init__(self, r: random.Random, sink: Sink) -> None:
        self.r = r
        self.now = r.choice((0, 1_000_000))
        self._sink = sink

    def run(self, steps: int) -> None:
        """Play the scenario."""
        r = self.r
        interval = r.choice((700, 5_000, 30_000))
        conf = {EXECUTOR + "apiPollingInterval": f"{interval}ms"}
        versions = r.random() < 0.65
        if versions:
            conf[EXECUTOR + "enablePollingWithResourceVersion"] = "true"
        if r.random() < 0.08:
            conf[EXECUTOR + "enableApiPolling"] = "false"
        self._ask({"conf": conf, "appId": r.choice(("app-1", "spark-9")), "startAt": self.now})
        odd = r.choice((0, 0, 0.2, 0.5))
        for step in range(steps):
            line: Line = {"at": self.now}
            if step == 0 or r.random() < 0.02:
                line["start"] = True
            if r.random() < 0.4:
                line["pods"] = [self._pod(i) for i in range(r.randint(0, 5))]
            if r.random() < 0.5:
                line["resourceVersion"] = r.choice(ODD_VERSIONS if r.random() < odd else VERSIONS)
            if r.random() < 0.15:
                line["fail"] = r.choice(({}, {"GET pods": ["*"]}, {"GET pods": ["exec-1"]}, {"DELETE pods": ["*"]}))
            if step > 5 and r.random() < 0.02:
                line["stop"] = True
            self._ask(line)
            self.now += r.choice((0, interval, interval, interval // 2, 3 * interval))

    def _pod(self, place: int) -> Line:
        r = self.r
        pod: dict[str, Any] = {"id": place + 1, "phase": r.choice(("Pending", "Running", "Failed", None))}
        match r.randrange(10):
            case 0:
                pod["app"] = "other"
            case 1:
                pod["inactive"] = True
            case 2:
                pod["labels"] = {"spark-role": "driver"}
            case 3:
                pod["labels"] = {"spark-exec-inactive": "false"}
            case 4:
                del pod["id"]
                pod["name"] = "nobody"
            case _:
                pass
        if r.random() < 0.1:
            pod["deletionTimestamp"] = 0
        return pod

    def _ask(self, line: Line) -> None:
        self._sink.put(line)
        self._sink.settle()


class PollReached(Watch):
    """Counts the rules that one scenario reaches."""

    rules = RULES

    def __init__(self) -> None:
        super().__init__()
        self._versions = self._on = False
        self._version: str | None = "1"
        self._taken: int | None = None
        self._pods: list[Line] = []
        self._started = self._stopped = False

    def see(self, line: Line, answers: Answers) -> None:
        """Count what one line of the scenario reached. What is due runs before the line's own settings hold."""
        if "conf" in line:
            self._versions = line["conf"].get(EXECUTOR + "enablePollingWithResourceVersion") == "true"
            self._on = line["conf"].get(EXECUTOR + "enableApiPolling", "true") == "true"
            return
        lists = [answer for answer in answers if "list" in answer]
        for answer, following in zip(answers, [*answers[1:], {}], strict=True):
            if "list" in answer:
                taken = following.get("replaceSnapshot")
                self._hit("poll-refused", answer["code"] >= 300)
                self._hit("version-asked", answer.get("resourceVersion") == "0")
                if answer["code"] < 300:
                    self._polled(taken)
        started = bool(line.get("start"))
        self._hit("poll-off", started and not self._on and not answers[-1]["state"]["scheduled"])
        self._hit("poll-late", started and self._on and not lists and answers[-1]["state"]["scheduled"] != [])
        self._hit("started-twice", any("IllegalArgument" in str(answer.get("threw")) for answer in answers))
        self._hit("stopped", self._stopped and not answers[-1]["state"]["scheduled"])
        self._stopped |= bool(line.get("stop"))
        self._version = line.get("resourceVersion", self._version) if "resourceVersion" in line else self._version
        self._pods = line.get("pods", self._pods)

    def _polled(self, taken: list[str] | None) -> None:
        text = self._version or ""
        readable = text.isascii() and text.removeprefix("+").isdigit() and int(text) < 2**64
        if taken is not None:
            self._hit("poll")
            self._hit("poll-selects", len(taken) < len({pod.get("name", pod.get("id")) for pod in self._pods}))
            self._hit("poll-without-id", "nobody" in taken)
        if not self._versions:
            return
        if self._version is None:
            self._hit("version-missing", taken is None)
        elif not readable:
            self._hit("version-unreadable", taken is None)
        elif taken is None:
            self._hit("version-older", self._taken is not None and int(text) < self._taken)
        else:
            if self._taken is not None:
                self._hit("version-newer", int(text) > self._taken)
                self._hit("version-same", int(text) == self._taken)
                self._hit("version-unsigned", int(text) >= 2**63 > self._taken)
            self._taken = int(text)
