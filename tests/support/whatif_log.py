"""A small event log of one stage on executors of one core, written by hand: run time and bill can be worked out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

START = 1_795_247_608_000
STATIC = {"spark.master": "yarn", "spark.executor.instances": "2", "spark.executor.cores": "1"}


def write_log(
    path: Path,
    properties: Mapping[str, str] | None = None,
    *,
    executors: int = 2,
    tasks: int = 40,
    task_ms: int = 1_000,
    name: str = "nightly",
    pause_ms: int = 0,
) -> Path:
    """Executors register after 3 s, the job begins at 4 s, tasks follow one another, and it ends with the last.

    ``pause_ms``: what each executor does nothing for between two tasks, for no reason that the log would tell.
    """
    conf = {"spark.app.name": name, **(STATIC if properties is None else properties)}
    events: list[dict[str, Any]] = [
        {"Event": "SparkListenerLogStart", "Spark Version": "4.3.0"},
        {"Event": "SparkListenerEnvironmentUpdate", "JVM Information": {}, "Spark Properties": conf},
        {
            "Event": "SparkListenerApplicationStart",
            "App Name": name,
            "App ID": "app-1",
            "Timestamp": START,
            "User": "u",
        },
    ]
    events += [
        {
            "Event": "SparkListenerExecutorAdded", "Timestamp": START + 3_000, "Executor ID": str(number + 1),
            "Executor Info": {"Host": f"host{number}", "Total Cores": 1, "Log Urls": {}, "Resource Profile Id": 0},
        }
        for number in range(executors)
    ]  # fmt: skip
    stage = {
        "Stage ID": 0, "Stage Attempt ID": 0, "Stage Name": "count at nightly.py:3", "Number of Tasks": tasks,
        "RDD Info": [], "Parent IDs": [], "Details": "", "Submission Time": START + 4_000, "Accumulables": [],
        "Resource Profile Id": 0, "Shuffle Push Enabled": False, "Shuffle Push Mergers Count": 0,
    }  # fmt: skip
    events += [
        {
            "Event": "SparkListenerJobStart", "Job ID": 0, "Submission Time": START + 4_000, "Stage Infos": [stage],
            "Stage IDs": [0], "Properties": {},
        },
        {"Event": "SparkListenerStageSubmitted", "Stage Info": stage, "Properties": {}},
    ]  # fmt: skip
    free = [START + 4_000] * executors
    moves = []
    for task in range(tasks):
        place = task % executors
        info = {
            "Task ID": task, "Index": task, "Attempt": 0, "Partition ID": task, "Launch Time": free[place],
            "Executor ID": str(place + 1), "Host": f"host{place}", "Locality": "PROCESS_LOCAL", "Speculative": False,
            "Getting Result Time": 0, "Finish Time": 0, "Failed": False, "Killed": False, "Accumulables": [],
        }  # fmt: skip
        about = {"Stage ID": 0, "Stage Attempt ID": 0}
        finish = free[place] + task_ms
        moves.append((free[place], 1, {"Event": "SparkListenerTaskStart", **about, "Task Info": info}))
        done = {**info, "Finish Time": finish}
        ended = {"Task Type": "ResultTask", "Task End Reason": {"Reason": "Success"}, "Task Info": done}
        moves.append((finish, 0, {"Event": "SparkListenerTaskEnd", **about, **ended}))
        free[place] = finish + pause_ms
    events += [move for _, _, move in sorted(moves, key=lambda one: one[:2])]
    end = max(free) - pause_ms
    events += [
        {"Event": "SparkListenerStageCompleted", "Stage Info": {**stage, "Completion Time": end}},
        {"Event": "SparkListenerJobEnd", "Job ID": 0, "Completion Time": end, "Job Result": {"Result": "JobSucceeded"}},
        {"Event": "SparkListenerApplicationEnd", "Timestamp": end},
    ]
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
    return path
