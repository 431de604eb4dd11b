"""Small event logs in which tasks wait and nothing moves, each beside the nearest one in which all is well."""

from __future__ import annotations

import json

from tests.support import event_log_lines as log

S = 1_000
M = 60 * S


def begun(master: str = "", **conf: str) -> list[str]:
    head = log.begun(**conf)
    if master:
        environment = json.loads(head[1])
        environment["Spark Properties"]["spark.master"] = master
        head[1] = json.dumps(environment)
    return head


def ran(stage: int, index: int, executor: str, began: int, ended: int, reason: str = "Success") -> list[str]:
    return [log.task(stage, index, executor, began), log.task(stage, index, executor, began, ended, reason)]


def ended(at: int) -> str:
    return log.line("ApplicationEnd", Timestamp=log.START + at)


def nobody_comes(first_comes: int) -> list[str]:
    """A stage of one task, and its only executor comes at ``first_comes``."""
    lines = [*begun(), log.submitted(0, 1, S), log.executor("1", first_comes)]
    return [*lines, *ran(0, 0, "1", first_comes, first_comes + S), log.completed(0, 1, first_comes + S)]


def nothing_starts(pause: int) -> list[str]:
    """Two tasks for an executor that is there; the second starts ``pause`` after the first one's end."""
    lines = [*begun(maxExecutors="1"), log.submitted(0, 2, S), log.executor("1", 2 * S), *ran(0, 0, "1", 3 * S, 4 * S)]
    return [*lines, *ran(0, 1, "1", 4 * S + pause, 5 * S + pause), log.completed(0, 2, 5 * S + pause)]


def long_tasks(length: int) -> list[str]:
    """Two tasks of ``length`` one after the other on the one executor that may be there."""
    lines = [*begun(maxExecutors="1"), log.submitted(0, 2, S), log.executor("1", 2 * S)]
    lines += ran(0, 0, "1", 3 * S, 3 * S + length)
    return [*lines, *ran(0, 1, "1", 3 * S + length, 3 * S + 2 * length), log.completed(0, 2, 3 * S + 2 * length)]


def short_lives(reason: str, success: bool = False) -> list[str]:
    """Five executors, each gone 40 s after it came; ``success``: one of them ends another task well before."""
    lines = [*begun(maxExecutors="1"), log.submitted(0, 2, S)]
    for number in range(5):
        came, name = 2 * S + number * 45 * S, str(number)
        lines += [log.executor(name, came)]
        if success and number == 2:
            lines += ran(0, 1, name, came + S, came + 2 * S)
        lines += [
            *ran(0, 0, name, came + 2 * S, came + 40 * S, "ExecutorLostFailure"),
            log.gone(name, came + 40 * S, reason),
        ]
    return [*lines, log.executor("9", 240 * S), *ran(0, 0, "9", 240 * S, 241 * S), ended(242 * S)]


def late_task(late: bool) -> list[str]:
    """A stage is aborted while a task runs; ``late``: others of its tasks are heard of after it. Then a stage waits."""
    lines = [*begun(executorIdleTimeout="5s", **{"shuffleTracking.enabled": "false"})]
    lines += [log.submitted(0, 3, S), log.executor("1", 2 * S), log.task(0, 0, "1", 3 * S)]
    info = {**log.stage(0, 3, S), "Completion Time": log.START + 4 * S, "Failure Reason": "cancelled"}
    lines += [log.line("StageCompleted", Stage_Info=info)]
    if late:
        lines += [log.task(0, 1, "1", 4 * S), log.task(0, 1, "1", 4 * S, 6 * S, "TaskKilled")]
        lines += [log.task(0, 2, "1", 4 * S), log.task(0, 2, "1", 4 * S, 6 * S, "TaskKilled")]
    lines += [log.task(0, 0, "1", 3 * S, 7 * S, "TaskKilled"), log.gone("1", 12 * S, "Executor killed by driver.")]
    lines += [log.submitted(1, 1, 20 * S)]
    if not late:
        lines += [log.executor("2", 30 * S), *ran(1, 0, "2", 30 * S, 31 * S), log.completed(1, 1, 31 * S)]
    return [*lines, ended(10 * M)]


def ghost(lived: int, master: str = "k8s://https://10.0.0.1") -> list[str]:
    """The only executor is gone after ``lived``; a task waits for another one, which never comes."""
    lines = [*begun(master, maxExecutors="4"), log.submitted(0, 1, S), log.executor("1", 10 * S)]
    return [*lines, log.gone("1", 10 * S + lived, "worker lost"), ended(20 * M)]


def two_profiles() -> list[str]:
    """Tasks of the default profile end all the time; the one of another profile waits for an executor of its own."""
    lines = [*begun(), log.executor("1", S), log.submitted(0, 21, S)]
    special = {**log.stage(1, 1, S), "Resource Profile Id": 1}
    resources = {"cores": {"Resource Name": "cores", "Amount": 1, "Discovery Script": "", "Vendor": ""}}
    tasks = {"cpus": {"Resource Name": "cpus", "Amount": 1.0}}
    announced = {"Resource Profile Id": 1, "Executor Resource Requests": resources, "Task Resource Requests": tasks}
    lines += [log.line("ResourceProfileAdded", **{key.replace(" ", "_"): value for key, value in announced.items()})]
    lines += [log.line("StageSubmitted", Stage_Info=special)]
    for minute in range(20):
        lines += ran(0, minute, "1", minute * M + 2 * S, minute * M + 30 * S)
    return [*lines, log.executor("2", 20 * M, profile=1), *ran(1, 0, "2", 20 * M, 20 * M + S), ended(20 * M + S)]


def old_shuffles(idle: int, busy: bool = False) -> list[str]:
    """An executor holds the data of a shuffle that no job needs since 8 s, and stays for ``idle``."""
    made, read = log.stage(0, 1, S), log.stage(1, 1, S, parents=(0,), rdd=1)
    lines = [*begun(), log.job(0, S, made, read), log.submitted(0, 1, S), log.executor("1", 2 * S)]
    lines += [
        log.task(0, 0, "1", 3 * S),
        log.task(0, 0, "1", 3 * S, 4 * S, kind="ShuffleMapTask"),
        log.completed(0, 1, 4 * S),
    ]
    lines += [
        log.submitted(1, 1, 4 * S, parents=(0,), rdd=1),
        *ran(1, 0, "1", 4 * S, 5 * S),
        log.completed(1, 1, 5 * S),
    ]
    lines += [log.job_end(0, 5 * S)]
    if busy:
        work = log.stage(2, 1, 50 * M, rdd=2)
        lines += [log.job(1, 50 * M, work), log.submitted(2, 1, 50 * M, rdd=2), *ran(2, 0, "1", 50 * M, 51 * M)]
        lines += [log.completed(2, 1, 51 * M), log.job_end(1, 51 * M)]
    return [*lines, ended(5 * S + idle)]
