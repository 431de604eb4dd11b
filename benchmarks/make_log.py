"""Write a synthetic event log of any size: ``python benchmarks/make_log.py OUT [--tasks N] [--seed S]``.

The log is what a busy SQL application on a few hundred executors leaves behind. It comes out of a small
simulation, so that everything in it agrees with everything else: jobs arrive in waves, several run at once,
each is a graph of stages whose tasks wait for free cores; executors arrive some seconds after they are needed
and go when they have been idle, some are lost with their tasks; tasks fail and are tried again, stragglers get a
speculative copy and one of the two is killed, a fetch failure now and then ends a stage attempt. In between
stand the SQL events of Spark and events of plugins that no reader knows.

Lines have the fields and the order that Spark 4.3.0 gives them. Task metrics come from a pool of pre-rendered
blocks: their values are plausible, not derived from the simulation, but for the times. The application is
configured with ``spark.eventLog.includeTaskMetricsAccumulators=false``, so a TaskEnd carries its SQL metrics as
accumulables and is 2.4 kB long; ``--accumulators`` switches them on (Spark's default) for lines of 3.6 kB.

A million tasks take about 2.9 GB plain. The same arguments give the same bytes. On standard output: one JSON
object with what was written, to check a reader's counts against.
"""

from __future__ import annotations

import argparse
import heapq
import json
import math
import random
import sys
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final, TypeAlias

import zstandard

PROJECT: Final = Path(__file__).resolve().parent.parent
if __name__ == "__main__":
    sys.path[0] = str(PROJECT)  # as a script, this folder stands first: its modules are imported as a package

from benchmarks import log_lines  # noqa: E402  (the path above must come first)

CORES: Final = 4
EXECUTORS_MIN: Final = 10
EXECUTORS_MAX: Final = 300
IDLE_MS: Final = 30_000
START_MS: Final = 1_767_225_600_000
"""The application starts on 2026-01-01."""

JOBS_AT_ONCE: Final = (1, 2, 4, 6, 8, 6, 4, 2)
"""How many jobs run side by side, by the phase of WAVE_MS that the clock is in."""
WAVE_MS: Final = 120_000
BUFFERED_LINES: Final = 4_000
POOL: Final = 1_024


@dataclass(slots=True, eq=False)
class Executor:
    """One executor: how many cores are free, what runs on it, and since when nothing did."""

    name: str
    host: str
    idle_since: int
    free: int = CORES
    alive: bool = True
    running: dict[int, Task] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Stage:
    """One stage attempt with its tasks, and the constant parts of the lines that they write."""

    number: int
    tasks: int
    parents: list[int]
    job: Job
    attempt: int = 0
    submitted: int = 0
    waiting: deque[tuple[int, int]] = field(default_factory=deque)  # (index, task attempt)
    done: bytearray = field(default_factory=bytearray)
    left: int = 0
    open: bool = False
    running: int = 0
    complete: bool = False
    shuffles: bool = False
    start_head: str = ""
    end_head: str = ""
    rows: int = 0
    copies: dict[int, list[Task]] = field(default_factory=dict)  # index -> attempts running side by side


@dataclass(slots=True, eq=False)
class Job:
    """One job: its stages, and the SQL execution that it belongs to, if any."""

    number: int
    execution: int | None
    stages: list[Stage] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Task:
    """One running task attempt."""

    number: int
    index: int
    attempt: int
    launched: int
    executor: Executor
    stage: Stage
    speculative: bool
    ended: bool = False


Action: TypeAlias = Callable[[], None]


class Writer:
    """Buffers lines into a file, plain or as zstd with a frame per buffer, and counts them."""

    def __init__(self, out: IO[bytes], codec: str) -> None:
        self._out = out
        self._compress = zstandard.ZstdCompressor(level=3).compress if codec == "zstd" else None
        self._lines: list[str] = []
        self.lines = 0
        self.bytes = 0
        self.line = self._lines.append  # each line with its newline

    def flush(self) -> None:
        """Write out what is buffered."""
        raw = "".join(self._lines).encode()
        self.lines += len(self._lines)
        self.bytes += len(raw)
        self._lines.clear()
        self._out.write(self._compress(raw) if self._compress else raw)

    def event(self, name: str, **fields: Any) -> None:
        """Write an event from its fields (underscores in names stand for blanks)."""
        body = {"Event": name} | {key.replace("_", " "): value for key, value in fields.items()}
        self.line(log_lines.compact(body) + "\n")
        if len(self._lines) > BUFFERED_LINES:
            self.flush()

    def breathe(self) -> None:
        """Flush if enough has gathered."""
        if len(self._lines) > BUFFERED_LINES:
            self.flush()


class Application:
    """The simulated application; ``run`` writes its log."""

    def __init__(self, writer: Writer, tasks: int, seed: int, accumulators: bool) -> None:
        self.out = writer
        self.random = random.Random(seed)
        self.planned = tasks
        self.accumulators = accumulators
        self.now = START_MS
        self.queue: list[tuple[int, int, Task | None, str | None, Action | None]] = []
        self.sequence = 0
        self.executors: dict[str, Executor] = {}
        self.coming = 0
        self.next_executor = self.next_task = self.next_stage = self.next_job = self.next_execution = 0
        self.runnable: deque[Stage] = deque()
        self.free: list[Executor] = []
        self.jobs: dict[int, Job] = {}
        self.counts = dict.fromkeys(
            ("task_start", "task_end", "failed", "speculative", "jobs", "stages", "executors_added"), 0
        )
        self.peak = 0
        self.metrics = [log_lines.metrics_block(self.random) for _ in range(POOL)]
        # Durations: most tasks take seconds, few take a minute; drawn once, then walked through.
        self.durations = [int(min(90_000, self.random.lognormvariate(7.6, 0.75))) + 20 for _ in range(65_521)]
        self.fates = self._fates()

    def _fates(self) -> list[str | None]:
        """A pool of task outcomes; None is success."""
        draw = self.random.choices(["ok", "failed", "fetch"], [99_600, 390, 10], k=65_519)
        return [None if fate == "ok" else fate for fate in draw]

    # ---- the clock

    def at(self, ms: int, action: Action) -> None:
        """Do something later."""
        self.sequence += 1
        heapq.heappush(self.queue, (ms, self.sequence, None, None, action))

    def run(self) -> None:
        """Simulate until every planned task has succeeded, writing the log."""
        self.preamble()
        self.at(self.now + 1_000, self.control)
        queue, pop = self.queue, heapq.heappop
        while queue:
            self.now, _, task, fate, action = pop(queue)
            if task is not None:
                if not task.ended:
                    self.end(task, fate)
            elif action is not None:
                action()
        for executor in list(self.executors.values()):
            self.remove(executor, "Executor killed by driver.")
        self.out.event("SparkListenerApplicationEnd", Timestamp=self.now + 10, ExitCode=0)
        self.out.flush()

    def control(self) -> None:
        """Once a second: new jobs for the wave, executors for the tasks, idle ones out, now and then a loss."""
        now, r = self.now, self.random
        wave = JOBS_AT_ONCE[(now - START_MS) // WAVE_MS % len(JOBS_AT_ONCE)]
        if self.planned > 0 and len(self.jobs) < wave:
            self.submit_job()
        waiting = sum(len(stage.waiting) for stage in self.runnable)
        busy = sum(len(executor.running) for executor in self.executors.values())
        wanted = min(EXECUTORS_MAX, max(EXECUTORS_MIN, math.ceil((waiting + busy) / CORES)))
        for _ in range(min(25, wanted - len(self.executors) - self.coming)):
            self.coming += 1
            self.at(now + r.randrange(2_000, 15_000), self.arrive)
        for executor in list(self.executors.values()):
            idle = not executor.running and now - executor.idle_since > IDLE_MS
            if idle and len(self.executors) > EXECUTORS_MIN:
                self.remove(executor, "Executor killed by driver.")
        if self.executors and r.random() < 0.01:
            lost = self.executors[r.choice(list(self.executors))]
            self.remove(lost, "Container from a bad node: container_1 on host. Exit status: 137.")
        if r.random() < 0.05:
            self.out.event("com.example.plugin.SparkListenerCacheReport", host="10.0.0.1", hits=r.randrange(9_999))
        self.speculate()
        self.schedule()
        if self.jobs or self.planned > 0:
            self.at(now + 1_000, self.control)

    # ---- executors

    def arrive(self) -> None:
        """An executor registers; it takes tasks at once."""
        self.coming -= 1
        self.next_executor += 1
        n = self.next_executor
        executor = Executor(str(n), f"10.0.{n // 250 % 250}.{n % 250}", self.now)
        self.executors[executor.name] = executor
        self.peak = max(self.peak, len(self.executors))
        self.counts["executors_added"] += 1
        self.out.event(
            "SparkListenerExecutorAdded",
            Timestamp=self.now,
            Executor_ID=executor.name,
            Executor_Info={
                "Host": executor.host,
                "Total Cores": CORES,
                "Log Urls": {"stdout": f"http://{executor.host}:8042/logs/{n}/stdout"},
                "Attributes": {},
                "Resources": {},
                "Resource Profile Id": 0,
                "Registration Time": self.now,
                "Request Time": self.now - 5_000,
            },
        )
        self.out.event(
            "SparkListenerBlockManagerAdded",
            Block_Manager_ID={"Executor ID": executor.name, "Host": executor.host, "Port": 7079},
            Maximum_Memory=4_000_000_000,
            Timestamp=self.now,
            Maximum_Onheap_Memory=4_000_000_000,
            Maximum_Offheap_Memory=0,
        )
        self.free += [executor] * CORES
        self.schedule()

    def remove(self, executor: Executor, why: str) -> None:
        """An executor goes; what ran on it failed."""
        executor.alive = False
        del self.executors[executor.name]
        for task in list(executor.running.values()):
            self.end(task, "lost")
        self.out.event(
            "SparkListenerExecutorRemoved", Timestamp=self.now, Executor_ID=executor.name, Removed_Reason=why
        )

    # ---- jobs and stages

    def submit_job(self) -> None:
        """A job of one to five stages: a chain, or two branches that meet."""
        r = self.random
        sql = r.random() < 0.7
        job = Job(self.next_job, self.next_execution if sql else None)
        self.next_job += 1
        self.jobs[job.number] = job
        self.counts["jobs"] += 1
        count = r.choice((1, 2, 2, 3, 4, 5))
        joined = count >= 3 and r.random() < 0.5
        for i in range(count):
            size = min(self.planned, r.choice((40, 120, 300, 600, 1_000, 2_000, 4_000)))
            if size == 0:
                break
            self.planned -= size
            first = job.stages[0].number if job.stages else 0
            parents = (
                [] if i == 0 or (joined and i == 1) else [first, first + 1] if joined and i == 2 else [first + i - 1]
            )
            job.stages.append(Stage(self.next_stage, size, parents, job))
            self.next_stage += 1
        for stage in job.stages:
            stage.shuffles = any(stage.number in other.parents for other in job.stages)
            stage.done = bytearray(stage.tasks)
            stage.left = stage.tasks
        if sql:
            self.next_execution += 1
            self.sql_start(job)
        self.out.event(
            "SparkListenerJobStart",
            Job_ID=job.number,
            Submission_Time=self.now,
            Stage_Infos=[self.info(stage) for stage in job.stages],
            Stage_IDs=[stage.number for stage in job.stages],
            Properties=log_lines.properties(job.execution),
        )
        for stage in job.stages:
            if not stage.parents:
                self.submit(stage)

    def sql_start(self, job: Job) -> None:
        """The events that a SQL execution writes before its job."""
        name = "org.apache.spark.sql.execution.ui.SparkListenerSQL"
        self.out.event(
            f"{name}ExecutionStart",
            executionId=job.execution,
            rootExecutionId=job.execution,
            description=log_lines.CALL_SITE,
            details="",
            **log_lines.plan(),
            time=self.now,
            modifiedConfigs={},
            jobTags=[],
        )
        self.out.event(f"{name}AdaptiveExecutionUpdate", executionId=job.execution, **log_lines.plan())

    def info(self, stage: Stage, times: dict[str, int | str] | None = None) -> dict[str, Any]:
        """A stage info; a retried attempt counts only the tasks that are missing, as Spark does."""
        tasks = stage.left if stage.attempt else stage.tasks
        return log_lines.stage_info(
            stage.number,
            stage.attempt,
            tasks=tasks,
            partitions=stage.tasks,
            parents=stage.parents,
            times=times or {},
        )

    def submit(self, stage: Stage) -> None:
        """A stage attempt whose parents are done: its tasks wait for cores."""
        stage.submitted = self.now
        stage.open = True
        stage.waiting.extend((i, 0) for i in range(stage.tasks) if not stage.done[i])
        kind = "ShuffleMapTask" if stage.shuffles else "ResultTask"
        ids = f'"Stage ID":{stage.number},"Stage Attempt ID":{stage.attempt}'
        stage.start_head = f'{{"Event":"SparkListenerTaskStart",{ids},"Task Info":{{"Task ID":'
        stage.end_head = f'{{"Event":"SparkListenerTaskEnd",{ids},"Task Type":"{kind}","Task End Reason":'
        self.counts["stages"] += 1
        self.out.event(
            "SparkListenerStageSubmitted",
            Stage_Info=self.info(stage, {"Submission Time": self.now}),
            Properties=log_lines.properties(stage.job.execution),
        )
        self.runnable.append(stage)
        self.schedule()

    def close(self, stage: Stage, failure: str | None = None) -> None:
        """A stage attempt is over; after a failure another follows, after success its children or the job's end."""
        stage.open = False
        if stage in self.runnable:
            self.runnable.remove(stage)
        stage.waiting.clear()
        times: dict[str, int | str] = {"Submission Time": stage.submitted, "Completion Time": self.now}
        if failure:
            times["Failure Reason"] = failure
        self.out.event("SparkListenerStageCompleted", Stage_Info=self.info(stage, times))
        job = stage.job
        if failure:
            again = Stage(stage.number, stage.tasks, stage.parents, job, stage.attempt + 1)
            again.shuffles, again.done, again.left = stage.shuffles, bytearray(stage.done), stage.left
            job.stages[job.stages.index(stage)] = again
            self.at(self.now + 200, lambda: self.submit(again))
            return
        stage.complete = True
        finished = {other.number for other in job.stages if other.complete}
        for other in job.stages:
            if stage.number in other.parents and finished.issuperset(other.parents):
                self.submit(other)
        if len(finished) == len(job.stages):
            self.end_job(job)

    def end_job(self, job: Job) -> None:
        """The job's last stage is done."""
        del self.jobs[job.number]
        ui = "org.apache.spark.sql.execution.ui.SparkListener"
        if job.execution is not None:
            self.out.event(f"{ui}DriverAccumUpdates", executionId=job.execution, accumUpdates=[[86, 200], [87, 12]])
        self.out.event(
            "SparkListenerJobEnd",
            Job_ID=job.number,
            Completion_Time=self.now,
            Job_Result={"Result": "JobSucceeded"},
        )
        if job.execution is not None:
            self.out.event(f"{ui}SQLExecutionEnd", executionId=job.execution, time=self.now, errorMessage="")

    # ---- tasks

    def schedule(self) -> None:
        """Give free cores to waiting tasks, stage by stage in turn."""
        free, runnable = self.free, self.runnable
        while free and runnable:
            stage = runnable[0]
            if not stage.waiting:
                runnable.popleft()
                continue
            executor = free.pop()
            if executor.alive:
                runnable.rotate(-1)
                index, attempt = stage.waiting.popleft()
                self.launch(stage, executor, index, attempt, False)

    def launch(self, stage: Stage, executor: Executor, index: int, attempt: int, speculative: bool) -> None:
        """Start a task attempt and write its TaskStart."""
        number = self.next_task
        self.next_task = number + 1
        now = self.now
        task = Task(number, index, attempt, now, executor, stage, speculative)
        executor.running[number] = task
        executor.free -= 1
        stage.running += 1
        if speculative or attempt or index in stage.copies:
            stage.copies.setdefault(index, []).append(task)
        self.counts["task_start"] += 1
        self.out.line(
            f'{stage.start_head}{number},"Index":{index},"Attempt":{attempt},"Partition ID":{index},'
            f'"Launch Time":{now},"Executor ID":"{executor.name}","Host":"{executor.host}",'
            f'"Locality":"PROCESS_LOCAL","Speculative":{"true" if speculative else "false"},'
            f'"Getting Result Time":0,"Finish Time":0,"Failed":false,"Killed":false,"Accumulables":[]}}}}\n'
        )
        self.sequence += 1
        takes = self.durations[(number * 7) % 65_521]
        fate = self.fates[(number * 11) % 65_519]
        if fate == "fetch" and (not stage.parents or stage.attempt > 1):
            fate = None
        heapq.heappush(self.queue, (now + takes, self.sequence, task, fate, None))

    def end(self, task: Task, fate: str | None) -> None:
        """A task attempt is over: write its TaskEnd, then what follows from it."""
        stage, executor, now = task.stage, task.executor, self.now
        task.ended = True
        number, index = task.number, task.index
        del executor.running[number]
        executor.free += 1
        stage.running -= 1
        killed = fate == "killed"
        failed = "true" if fate and not killed else "false"
        flags = f'"Failed":{failed},"Killed":{"true" if killed else "false"}'
        reason = log_lines.REASONS[fate or "ok"]
        if fate == "lost":
            reason %= executor.name
        copy = "true" if task.speculative else "false"
        head = (
            f'{stage.end_head}{reason},"Task Info":{{"Task ID":{number},"Index":{index},"Attempt":{task.attempt},'
            f'"Partition ID":{index},"Launch Time":{task.launched},"Executor ID":"{executor.name}",'
            f'"Host":"{executor.host}","Locality":"PROCESS_LOCAL","Speculative":{copy},'
            f'"Getting Result Time":0,"Finish Time":{now},{flags},"Accumulables":['
        )
        if fate in ("lost", "fetch"):  # these carry no metrics
            self.out.line(f'{head}]}},"Task Executor Metrics":{{}}}}\n')
        else:
            block = self.metrics[(number * 13) % POOL] % (now - task.launched)
            self.out.line(f"{head}{self.accumulables(stage, number)}]}},{block}")
        self.counts["task_end"] += 1
        self.after(task, fate)
        if executor.alive:
            self.free.append(executor)
            if self.runnable:
                self.schedule()
            if not executor.running:
                executor.idle_since = now
        if not number & 1_023:
            self.out.breathe()

    def accumulables(self, stage: Stage, number: int) -> str:
        """SQL metrics as strings, as Spark writes them, and the internal ones if asked for."""
        more = number * 31 % 9_973
        stage.rows += more
        base = stage.number * 40
        parts = [
            f'{{"ID":{base + i},"Name":"{name}","Update":"{more}","Value":"{stage.rows}","Internal":true,'
            f'"Count Failed Values":true,"Metadata":"sql"}}'
            for i, name in enumerate(log_lines.SQL_METRICS)
        ]
        if self.accumulators:
            parts += [
                f'{{"ID":{base + 10 + i},"Name":"internal.metrics.{name}","Update":{more},"Value":{stage.rows},'
                f'"Internal":true,"Count Failed Values":true}}'
                for i, name in enumerate(log_lines.INTERNAL_METRICS)
            ]
        return ",".join(parts)

    def after(self, task: Task, fate: str | None) -> None:
        """What the end of a task attempt means for its stage."""
        stage, index = task.stage, task.index
        if index in stage.copies and task in stage.copies[index]:
            stage.copies[index].remove(task)
        if fate is None:
            if not stage.done[index]:
                stage.done[index] = 1
                stage.left -= 1
                for other in stage.copies.pop(index, []):
                    if not other.ended:
                        self.end(other, "killed")
                if stage.left == 0 and stage.open:
                    self.close(stage)
            return
        if fate != "killed":
            self.counts["failed"] += 1
        if not stage.open or stage.done[index] or fate == "killed":
            return
        if fate == "fetch":
            self.close(stage, "org.apache.spark.shuffle.FetchFailedException: Connection refused")
        elif not stage.copies.get(index):
            stage.waiting.append((index, task.attempt + 1))
            if stage not in self.runnable:
                self.runnable.append(stage)

    def speculate(self) -> None:
        """Copy the stragglers of stages that are nearly done to free cores."""
        for job in list(self.jobs.values()):
            for stage in job.stages:
                if not stage.open or stage.waiting or stage.left > stage.tasks // 10:
                    continue
                late = [
                    task
                    for executor in self.executors.values()
                    for task in executor.running.values()
                    if task.stage is stage and self.now - task.launched > 10_000 and task.index not in stage.copies
                ]
                for task in late[:20]:
                    while self.free and not self.free[-1].alive:
                        self.free.pop()
                    if not self.free:
                        return
                    stage.copies[task.index] = [task]
                    self.counts["speculative"] += 1
                    self.launch(stage, self.free.pop(), task.index, task.attempt + 1, True)

    # ---- the beginning

    def preamble(self) -> None:
        """The events before the first job."""
        self.out.event("SparkListenerLogStart", Spark_Version="4.3.0")
        resources = {
            name: {"Resource Name": name, "Amount": amount, "Discovery Script": "", "Vendor": ""}
            for name, amount in (("cores", CORES), ("memory", 8192), ("offHeap", 0))
        }
        self.out.event(
            "SparkListenerResourceProfileAdded",
            Resource_Profile_Id=0,
            Executor_Resource_Requests=resources,
            Task_Resource_Requests={"cpus": {"Resource Name": "cpus", "Amount": 1.0}},
        )
        conf = {
            "spark.app.name": "daily report",
            "spark.master": "yarn",
            "spark.executor.cores": str(CORES),
            "spark.dynamicAllocation.enabled": "true",
            "spark.dynamicAllocation.minExecutors": str(EXECUTORS_MIN),
            "spark.dynamicAllocation.maxExecutors": str(EXECUTORS_MAX),
            "spark.dynamicAllocation.executorIdleTimeout": f"{IDLE_MS // 1000}s",
            "spark.shuffle.service.enabled": "true",
            "spark.speculation": "true",
            "spark.eventLog.enabled": "true",
            "spark.eventLog.includeTaskMetricsAccumulators": "true" if self.accumulators else "false",
        }
        self.out.event("SparkListenerEnvironmentUpdate", **log_lines.environment(conf))
        self.out.event(
            "SparkListenerApplicationStart",
            App_Name="daily report",
            App_ID="application_1767225600000_0001",
            Timestamp=self.now,
            User="reports",
        )


def write_log(
    out: IO[bytes], tasks: int, seed: int = 1, codec: str = "plain", accumulators: bool = False
) -> dict[str, Any]:
    """Write a log of ``tasks`` tasks (first attempts; retries come on top) and return what was written."""
    writer = Writer(out, codec)
    application = Application(writer, tasks, seed, accumulators)
    application.run()
    return {
        **application.counts,
        "events": writer.lines,
        "bytes": writer.bytes,
        "executors_peak": application.peak,
        "log_seconds": (application.now - START_MS) // 1000,
    }


def main() -> None:
    """Write the log that the command line asks for."""
    parser = argparse.ArgumentParser(description="Write a synthetic Spark event log.")
    parser.add_argument("out", type=Path, help="file to write")
    parser.add_argument("--tasks", type=int, default=1_000_000, help="tasks, retries not counted (1000000)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--codec", choices=("plain", "zstd"), default="plain")
    parser.add_argument("--accumulators", action="store_true", help="with the accumulables of all task metrics")
    arguments = parser.parse_args()
    with arguments.out.open("wb", buffering=1 << 20) as out:
        written = write_log(out, arguments.tasks, arguments.seed, arguments.codec, arguments.accumulators)
    json.dump({"out": str(arguments.out), "seed": arguments.seed, **written}, sys.stdout)
    print()


if __name__ == "__main__":
    main()
