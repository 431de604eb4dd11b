"""Lines of event logs, as Spark writes them, with only what somebody reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

START = 1_700_000_000_000


def line(event: str, **fields: Any) -> str:
    """One event; underscores in names stand for blanks."""
    return json.dumps({"Event": f"SparkListener{event}", **{k.replace("_", " "): v for k, v in fields.items()}})


def begun(version: str = "4.3.0", **conf: str) -> list[str]:
    """A log's first lines: version, environment, application. ``conf`` by the last part of the key."""
    properties = {f"spark.dynamicAllocation.{k}": v for k, v in conf.items()}
    return [
        line("LogStart", Spark_Version=version),
        line("EnvironmentUpdate", Spark_Properties={"spark.dynamicAllocation.enabled": "true", **properties}),
        line("ApplicationStart", App_Name="a test", App_ID="app-1", Timestamp=START, User="somebody"),
    ]


def executor(name: str, at: int, profile: int = 0) -> str:
    info = {"Host": "h", "Total Cores": 1, "Log Urls": {}, "Resource Profile Id": profile}
    return line("ExecutorAdded", Timestamp=START + at, Executor_ID=name, Executor_Info=info)


def gone(name: str, at: int, reason: str = "idle") -> str:
    return line("ExecutorRemoved", Timestamp=START + at, Executor_ID=name, Removed_Reason=reason)


def stage(number: int, tasks: int, at: int, parents: tuple[int, ...] = (), rdd: int = 0) -> dict[str, Any]:
    return {
        "Stage ID": number,
        "Stage Attempt ID": 0,
        "Number of Tasks": tasks,
        "Parent IDs": list(parents),
        "RDD Info": [{"RDD ID": rdd}],
        "Submission Time": START + at,
    }


def submitted(number: int, tasks: int, at: int, **more: Any) -> str:
    return line("StageSubmitted", Stage_Info=stage(number, tasks, at, **more))


def completed(number: int, tasks: int, at: int) -> str:
    return line("StageCompleted", Stage_Info={**stage(number, tasks, 0), "Completion Time": START + at})


def task(
    number: int, index: int, name: str, began: int, ended: int | None = None, reason: str = "Success", kind: str = ""
) -> str:
    """A TaskStart, or with ``ended`` a TaskEnd."""
    info = {
        "Task ID": index,
        "Index": index,
        "Launch Time": START + began,
        "Executor ID": name,
        "Speculative": False,
        "Finish Time": 0 if ended is None else START + ended,
    }
    if ended is None:
        return line("TaskStart", Stage_ID=number, Stage_Attempt_ID=0, Task_Info=info)
    typed = {"Task_Type": kind} if kind else {}
    return line(
        "TaskEnd", Stage_ID=number, Stage_Attempt_ID=0, **typed, Task_End_Reason={"Reason": reason}, Task_Info=info
    )


def job(number: int, at: int, *stages: dict[str, Any], execution: int | None = None) -> str:
    own = {} if execution is None else {"Properties": {"spark.sql.execution.id": str(execution)}}
    return line("JobStart", Job_ID=number, Submission_Time=START + at, Stage_Infos=list(stages), **own)


def execution_end(number: int, at: int) -> str:
    event = "org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionEnd"
    return json.dumps({"Event": event, "executionId": number, "time": START + at})


def job_end(number: int, at: int) -> str:
    return line("JobEnd", Job_ID=number, Completion_Time=START + at)


def written(folder: Path, lines: list[str], name: str = "log", end: str = "\n") -> str:
    """The lines as a file; its path."""
    path = folder / name
    path.write_text("\n".join(lines) + end, encoding="utf-8")
    return str(path)
