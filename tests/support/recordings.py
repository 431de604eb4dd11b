"""Recordings for tests, made by small simulations: a cluster that behaves, and one that does not."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from podtide.adapters.recording.header import header_of
from podtide.adapters.recording.recorder import Recorder
from podtide.adapters.recording.writer import RecordingWriter
from podtide.domain.base.units import DEFAULT_PROFILE, NEVER, Millis
from podtide.domain.conf.spark_conf import from_mapping
from podtide.domain.fakes.kubernetes.description import KIND, Api, Description, Fault, Life, PodStage, Verb
from podtide.domain.protocol.allocation_policies import SPARK_POLICIES, Policies
from podtide.domain.protocol.application import AnyStimulus, Command
from podtide.domain.protocol.executor_stimuli import TargetsSet
from podtide.domain.protocol.stimuli import JobEnd, JobStage, JobStart, StageCompleted, StageSubmitted, UnpersistRDD
from podtide.entrypoints.common.app_config import app_settings
from podtide.entrypoints.simulate.run import Setup, Simulation

T0 = 1_700_000_000_000
APP = "app-7"

CONF = {
    "spark.app.id": APP,
    "spark.app.name": "recorded",
    "spark.master": "k8s://https://k8s",
    "spark.kubernetes.container.image": "spark",
    "spark.kubernetes.executor.podNamePrefix": "exec",
    "spark.executor.instances": "0",
    "spark.kubernetes.allocation.batch.size": "5",
    "spark.executor.maxNumFailures": "1000",
}

_crash = PodStage("crash", Life.RUNNING, Life.FAILED, weight=0.3, exits=((137, 1.0),), reason="OOMKilled")
BAD = replace(
    KIND,
    executors=replace(KIND.executors, stages=(*KIND.executors.stages, _crash)),
    api=Api(faults=(Fault(status=429, probability=0.2, verbs=(Verb.CREATE,)),)),
)


class Script:
    """A driver's other half that says what it is told to, at its time."""

    def __init__(self, said: Sequence[AnyStimulus]) -> None:
        self._said = list(said)

    def due(self) -> Millis:
        return self._said[0].at if self._said else NEVER

    def advance(self, now: Millis) -> Sequence[AnyStimulus]:
        heard: list[AnyStimulus] = []
        while self._said and self._said[0].at <= now:
            heard.append(self._said.pop(0))
        return heard

    def hear(self, word: Command | AnyStimulus, now: Millis) -> None:
        """Nothing depends on it."""

    def done(self) -> bool:
        return not self._said

    def summary(self) -> dict[str, Any]:
        return {}


def wanted(*targets: tuple[float, int]) -> list[AnyStimulus]:
    """Targets of the default profile by the second."""
    return [TargetsSet(T0 + round(at * 1000), ((DEFAULT_PROFILE, target),)) for at, target in targets]


def job(tasks: int, begin: float, end: float) -> list[AnyStimulus]:
    """A job of one stage whose tasks never run."""
    start, stop = T0 + round(begin * 1000), T0 + round(end * 1000)
    return [
        JobStart(start, 0, (JobStage(0),)),
        StageSubmitted(start, 0, 0, tasks, DEFAULT_PROFILE),
        StageCompleted(stop, 0, 0),
        JobEnd(stop, 0),
    ]


def record(
    path: Path,
    said: Sequence[AnyStimulus],
    *,
    conf: dict[str, str] | None = None,
    cluster: Description = KIND,
    policies: Policies = SPARK_POLICIES,
    remarks: bool = False,
    dynamic: bool = False,
    seconds: int = 60,
) -> Path:
    """Simulate and record; the recording is closed, and compressed if its name says so."""
    given = {**CONF, "spark.dynamicAllocation.enabled": "true" if dynamic else "false", **(conf or {})}
    settings = app_settings(from_mapping(given, "test"), policies, remarks=remarks)
    header = header_of(APP, settings.conf, T0, "fake", policies=policies, seed=1)
    with RecordingWriter(str(path), header, flush_steps=0) as writer:
        setup = Setup(settings.config, cluster, 1, T0, T0 + seconds * 1000, APP, settle_ms=20_000)
        Simulation(setup, Script(said), [Recorder(writer)]).run()
    return path


def calm(path: Path) -> Path:
    """Twelve executors in batches of five, then three more."""
    return record(path, wanted((0, 12), (30, 15)))


def stormy(path: Path) -> Path:
    """Creations that are refused, executors that crash, targets that fall."""
    return record(path, wanted((0, 20), (40, 5)), cluster=BAD, seconds=90)


def scaled(path: Path) -> Path:
    """Dynamic allocation: a backlog, then executors that idle and are let go."""
    conf = {"spark.dynamicAllocation.executorIdleTimeout": "10s", "spark.dynamicAllocation.maxExecutors": "4"}
    last = UnpersistRDD(T0 + 70_000, 0)
    return record(path, [*job(8, 1, 30), last], conf=conf, dynamic=True, seconds=90)


def lines(path: Path) -> list[Any]:
    """A recording as it stands, line by line."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def rewritten(path: Path, change: Callable[[list[Any]], Any]) -> Path:
    """The recording with a change to its lines."""
    listed = lines(path)
    change(listed)
    path.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in listed))
    return path


def first_decided(listed: Sequence[Any], command: str) -> tuple[int, dict[str, Any]]:
    """The place of the first line, from 0, that decides such a command, and the record."""
    return next(
        (place, one)
        for place, line in enumerate(listed)
        for one in line.get("decided", ())
        if one.get("command") == command
    )
