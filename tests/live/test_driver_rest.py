"""The driver's sensor against real Spark: what was seen of an application, against the event log that it wrote.

A PySpark application on a local cluster of two workers, with its web interface on: cached data, shuffles, jobs side by
side, tasks that fail and run again. The sensor looks at it from beginning to end. Afterwards the event log tells what really
happened: at each look the load was what the log says of that moment, give or take the time that Spark's listeners and the
look itself took; and in the end nothing is missing. ``PODTIDE_SPARK_PYTHON`` names a Python with pyspark 4.3.
"""

from __future__ import annotations

import bisect
import json
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from podtide.adapters.clock import SystemClock
from podtide.adapters.driver.driver_client import Access, DriverHttp
from podtide.adapters.driver.driver_sensor import DriverSensor, DriverSettings, ask_conf
from podtide.adapters.eventlog.bytes.source import open_log
from podtide.adapters.eventlog.sensor import EventLogSensor
from podtide.adapters.notices import Notice, Topic
from podtide.domain.base.units import ExecutorId, Millis, ProfileId
from podtide.domain.live.driver_shuffles import UNSEEN_JOB
from podtide.domain.live.driver_view import UNSEEN
from podtide.domain.protocol import stimuli
from podtide.domain.protocol.config import ScalingConfig
from podtide.domain.protocol.executor_stimuli import ExecutorDisconnected, RegisterExecutor
from podtide.domain.scaling import executor_monitor, load as loads
from tests.live.spark_driver import spark_python

PROGRAM = """
import json, sys, threading, time
from pyspark.sql import SparkSession
from pyspark import TaskContext
builder = SparkSession.builder.master("local-cluster[2,2,1024]").appName("looked at")
for key, value in json.loads(sys.argv[1]).items():
    builder = builder.config(key, value)
context = builder.getOrCreate().sparkContext
print(json.dumps({"url": context.uiWebUrl, "app": context.applicationId}), flush=True)
sys.stdin.readline()
def slow(x):
    time.sleep(0.5)
    return (x % 4, 1)
def flaky(x):
    time.sleep(0.3)
    if x == 3 and TaskContext.get().attemptNumber() == 0:
        raise ValueError("once")
    return x
pairs = context.parallelize(range(12), 12).map(slow).cache()
for _ in range(2):
    pairs.reduceByKey(lambda a, b: a + b, 4).map(lambda pair: (time.sleep(0.6), pair)[1]).count()
beside = threading.Thread(target=lambda: context.parallelize(range(6), 6).map(slow).count())
beside.start()
context.parallelize(range(5), 5).map(slow).collect()
beside.join()
context.parallelize(range(8), 8).map(flaky).count()
pairs.unpersist(True)
print(json.dumps({"done": True}), flush=True)
sys.stdin.readline()
context.stop()
"""

CONF = {
    "spark.ui.enabled": "true", "spark.ui.port": "0", "spark.ui.showConsoleProgress": "false",
    "spark.ui.liveUpdate.period": "0", "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1",
    "spark.eventLog.enabled": "true", "spark.eventLog.compress": "false", "spark.eventLog.rolling.enabled": "false",
    "spark.eventLog.logBlockUpdates.enabled": "true", "spark.executor.memory": "512m", "spark.executor.cores": "2",
}  # fmt: skip

EARLIER_MS = 1_500
"""How old what a look begins with may be: the time that the listener bus takes, on a machine with other things to do."""

SCALING = ScalingConfig(idle_timeout_ms=600_000)


class Moment(NamedTuple):
    """The books at a moment. ``began``: when the look was begun that they are of."""

    at: Millis
    began: Millis
    pending: int
    running: int
    busy: int
    executors: int


class Books:
    """The load and the idleness, fed with events."""

    def __init__(self) -> None:
        self.load = loads.empty()
        self.idle = executor_monitor.empty(SCALING)
        self.moments: list[Moment] = []

    def take(self, events: list[stimuli.Stimulus], at: Millis, began: Millis) -> None:
        self.load = loads.fold(self.load, events)
        self.idle = executor_monitor.fold(self.idle, events, SCALING)
        demand, roster = self.load.demand(ProfileId(0)), self.idle.roster(ProfileId(0))
        self.moments.append(Moment(at, began, demand.pending, demand.running, roster.busy, roster.count))


class Looking:
    """A sensor that keeps what it heard, and the books after every look."""

    def __init__(self, url: str) -> None:
        self.clock = SystemClock()
        self.books = Books()
        self.heard: list[Any] = []
        self.notices: list[Notice] = []
        self.ids: dict[str, ExecutorId] = {}
        self.batch: list[Any] = []
        get = DriverHttp(url, Access(timeout_s=60.0), self.clock, {})
        settings = DriverSettings(interval_s=0.1, gone_s=1.0, refused_s=1.0)
        self.sensor = DriverSensor(get, None, self.batch.append, self.clock, self.notices.append, settings, lambda: 0.0)
        self.halt = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        while not self.halt.is_set() and not self.sensor.ended.is_set():
            began = self.clock.now()
            pause = self.sensor.turn()
            self._keep(began)
            self.halt.wait(pause)

    def _keep(self, began: Millis) -> None:
        events: list[stimuli.Stimulus] = []
        for one in self.batch:
            if isinstance(one, RegisterExecutor):
                self.ids[one.address] = one.executor
                events.append(stimuli.ExecutorAdded(one.at, one.executor, one.profile))
            elif isinstance(one, ExecutorDisconnected):
                events.append(stimuli.ExecutorRemoved(one.at, self.ids[one.address]))
            elif isinstance(one, stimuli.ListenerEvent):
                events.append(one)
        self.heard.extend(self.batch)
        self.batch.clear()
        self.books.take(events, self.clock.now(), began)


@pytest.fixture
def spark(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], dict[str, Any], Path]]:
    """A PySpark application that has started and waits for a line."""
    python = spark_python()
    folder = tmp_path / "events"
    folder.mkdir()
    with (tmp_path / "errors").open("w") as errors:
        process = subprocess.Popen(
            [python, "-c", PROGRAM, json.dumps({**CONF, "spark.eventLog.dir": folder.as_uri()})],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=tmp_path,
            env={**os.environ, "PYSPARK_PYTHON": python}, start_new_session=True,
        )  # fmt: skip
    try:
        yield process, said(process), folder
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, 9)
        process.wait(10)


def said(process: subprocess.Popen[str]) -> dict[str, Any]:
    """The next line of the program that is an answer."""
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("{"):
            found: dict[str, Any] = json.loads(line)
            return found
    raise AssertionError("the application ended without an answer")


def go_on(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def truth(folder: Path) -> tuple[Books, list[stimuli.Stimulus]]:
    """The books over time by the event log."""
    (log,) = folder.iterdir()
    sensor = EventLogSensor(open_log(str(log)))
    sensor.prologue()
    events = [event for batch in sensor.batches() for event in batch]
    books = Books()
    for event in sorted(events, key=lambda one: one.at):
        books.take([event], event.at, event.at)
    return books, events


def test_what_is_seen_is_what_happened(spark: tuple[subprocess.Popen[str], dict[str, Any], Path]) -> None:
    process, up, folder = spark
    looking = Looking(up["url"])
    assert (
        ask_conf(DriverHttp(up["url"], Access(timeout_s=60.0), looking.clock, {}), up["app"])["spark.executor.cores"]
        == "2"
    )
    looking.thread.start()
    go_on(process)
    assert said(process) == {"done": True}
    quiet = looking.sensor.looks + 3
    while looking.sensor.looks < quiet and looking.thread.is_alive():
        looking.halt.wait(0.05)
    go_on(process)
    looking.thread.join(60)
    assert looking.sensor.ended.is_set(), "it knows that the application is over"
    assert process.wait(60) == 0
    assert looking.notices[-1].topic is Topic.STOPPING
    assert looking.sensor.app_id == up["app"]

    books, events = truth(folder)
    agree(looking.books.moments, books.moments)
    same_totals(looking.heard, events)


def agree(seen: list[Moment], true: list[Moment]) -> None:
    """Each look is what the log says of some moment shortly before it."""
    times = [moment.at for moment in true]
    worked = [moment for moment in seen if moment.pending or moment.running]
    assert len(worked) > 20
    assert {moment.pending for moment in seen} & set(range(3, 12))
    for look in seen:
        first = max(0, bisect.bisect_right(times, look.began - EARLIER_MS) - 1)
        around = true[first : bisect.bisect_right(times, look.at)]
        if not around:
            continue
        for name in ("pending", "running", "busy", "executors"):
            values = [getattr(moment, name) for moment in around]
            assert min(values) <= getattr(look, name) <= max(values), (name, look, around)
    last = seen[-1]
    assert (last.pending, last.running, last.busy) == (0, 0, 0)
    # More than the four cores, for a moment: a task starts before anybody has heard of the end of the one before it.
    assert 4 <= max(moment.running for moment in seen) <= max(moment.running for moment in true)


def same_totals(heard: list[Any], events: list[stimuli.Stimulus]) -> None:
    """Nothing is missing in the end, and nothing was made up."""

    def ids(kind: Any, name: str, among: list[Any]) -> set[Any]:
        return {getattr(one, name) for one in among if isinstance(one, kind)}

    for kind in (stimuli.JobStart, stimuli.JobEnd):
        assert ids(kind, "job", heard) - {UNSEEN_JOB} == ids(kind, "job", events)
    submitted = {(one.stage, one.attempt) for one in events if isinstance(one, stimuli.StageSubmitted)}
    assert {(one.stage, one.attempt) for one in heard if isinstance(one, stimuli.StageSubmitted)} == submitted
    assert ids(RegisterExecutor, "executor", heard) == ids(stimuli.ExecutorAdded, "executor", events)
    real = [
        one
        for one in heard
        if isinstance(one, stimuli.TaskStart | stimuli.TaskEnd) and (one.stage, one.attempt) != UNSEEN
    ]
    starts, ends = (
        [one for one in real if isinstance(one, stimuli.TaskStart)],
        [one for one in real if isinstance(one, stimuli.TaskEnd)],
    )
    assert len(starts) == len(ends)
    true = [one for one in events if isinstance(one, stimuli.TaskEnd)]
    for outcome in (stimuli.TaskOutcome.SUCCESS, stimuli.TaskOutcome.FAILED):
        counted, happened = (sum(one.outcome is outcome for one in some) for some in (ends, true))
        assert counted <= happened, "of a stage that ends, what nobody saw running is not made up"
    assert len(ends) >= 0.8 * len(true)
    cached = [one for one in heard if isinstance(one, stimuli.BlockUpdated) and isinstance(one.block, stimuli.RddBlock)]
    assert {one.executor for one in cached if one.valid} == ids(RegisterExecutor, "executor", heard)
    assert {one.executor for one in cached if not one.valid} == ids(RegisterExecutor, "executor", heard)
