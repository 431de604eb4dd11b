"""The parts of a synthetic event log's lines that do not depend on what happens: for make_log.py.

Field names, their order and their types are those that Spark 4.3.0's JsonProtocol writes. What varies with the
simulation (ids, times, executors, outcomes) is filled in by make_log.
"""

from __future__ import annotations

import json
import random
from typing import Any, Final

EXECUTOR_METRICS: Final = """
    JVMHeapMemory JVMOffHeapMemory OnHeapExecutionMemory OffHeapExecutionMemory OnHeapStorageMemory
    OffHeapStorageMemory OnHeapUnifiedMemory OffHeapUnifiedMemory DirectPoolMemory MappedPoolMemory
    ProcessTreeJVMVMemory ProcessTreeJVMRSSMemory ProcessTreePythonVMemory ProcessTreePythonRSSMemory
    ProcessTreeOtherVMemory ProcessTreeOtherRSSMemory MinorGCCount MinorGCTime MajorGCCount MajorGCTime
    TotalGCTime ConcurrentGCCount ConcurrentGCTime
"""
INTERNAL_METRICS: Final = (
    "executorDeserializeTime",
    "executorDeserializeCpuTime",
    "executorRunTime",
    "executorCpuTime",
    "resultSize",
    "jvmGCTime",
    "resultSerializationTime",
    "input.bytesRead",
    "input.recordsRead",
)
SQL_METRICS: Final = ("number of output rows", "duration")
CALL_SITE: Final = "collect at Daily.scala:87"
STACK: Final = "\n".join(
    (
        "org.apache.spark.sql.classic.Dataset.collect(Dataset.scala:1503)",
        "com.example.reports.Daily$.main(Daily.scala:87)",
        "com.example.reports.Daily.main(Daily.scala)",
        "java.base/java.lang.reflect.Method.invoke(Method.java:569)",
        "org.apache.spark.deploy.JavaMainApplication.start(SparkApplication.scala:52)",
    )
)
REASONS: Final = {
    "ok": '{"Reason":"Success"}',
    "failed": (
        '{"Reason":"ExceptionFailure","Class Name":"java.io.IOException","Description":"connection reset by peer",'
        '"Stack Trace":[{"Declaring Class":"com.example.Source","Method Name":"read","File Name":"Source.scala",'
        '"Line Number":41}],"Full Stack Trace":"java.io.IOException: connection reset by peer\\n\\tat '
        'com.example.Source.read(Source.scala:41)\\n","Accumulator Updates":[]}'
    ),
    "killed": '{"Reason":"TaskKilled","Kill Reason":"another attempt succeeded","Accumulator Updates":[]}',
    "fetch": (
        '{"Reason":"FetchFailed","Block Manager Address":{"Executor ID":"1","Host":"10.0.0.1","Port":7337},'
        '"Shuffle ID":0,"Map ID":0,"Map Index":0,"Reduce ID":0,"Message":"Connection refused"}'
    ),
    "lost": (
        '{"Reason":"ExecutorLostFailure","Executor ID":"%s","Exit Caused By App":false,'
        '"Loss Reason":"Container from a bad node. Exit status: 137."}'
    ),
}
"""TaskEndReason by what happened; ``lost`` takes the executor id."""


def metrics_block(r: random.Random) -> str:
    """Return the end of a TaskEnd line from "Task Executor Metrics" on, with one %d for the run time."""
    peaks = {name: r.randrange(1 << 28) if i < 6 else 0 for i, name in enumerate(EXECUTOR_METRICS.split())}
    pushed = (
        "Corrupt Merged Block Chunks",
        "Merged Fetch Fallback Count",
        "Merged Remote Blocks Fetched",
        "Merged Local Blocks Fetched",
        "Merged Remote Chunks Fetched",
        "Merged Local Chunks Fetched",
        "Merged Remote Bytes Read",
        "Merged Local Bytes Read",
        "Merged Remote Requests Duration",
    )
    read = {
        "Remote Blocks Fetched": r.randrange(900),
        "Local Blocks Fetched": r.randrange(9),
        "Fetch Wait Time": r.randrange(900),
        "Remote Bytes Read": r.randrange(1 << 30),
        "Remote Bytes Read To Disk": 0,
        "Local Bytes Read": r.randrange(1 << 20),
        "Total Records Read": r.randrange(1 << 20),
        "Remote Requests Duration": r.randrange(900),
        "Push Based Shuffle": dict.fromkeys(pushed, 0),
    }
    first = {
        "Executor Deserialize Time": r.randrange(30),
        "Executor Deserialize CPU Time": r.randrange(9_000_000),
    }
    rest = {
        "Executor CPU Time": r.randrange(1 << 32),
        "Peak Execution Memory": r.randrange(1 << 24),
        "Peak On Heap Execution Memory": 0,
        "Peak Off Heap Execution Memory": 0,
        "Result Size": r.randrange(9_000),
        "JVM GC Time": r.randrange(90),
        "Result Serialization Time": 0,
        "Memory Bytes Spilled": 0,
        "Disk Bytes Spilled": 0,
        "Shuffle Read Metrics": read,
        "Shuffle Write Metrics": {
            "Shuffle Bytes Written": r.randrange(1 << 28),
            "Shuffle Write Time": r.randrange(1 << 30),
            "Shuffle Records Written": r.randrange(1 << 20),
        },
        "Input Metrics": {"Bytes Read": r.randrange(1 << 28), "Records Read": r.randrange(1 << 20)},
        "Output Metrics": {"Bytes Written": 0, "Records Written": 0},
        "Updated Blocks": [],
    }
    return (
        f'"Task Executor Metrics":{compact(peaks)},"Task Metrics":{compact(first)[:-1]},'
        f'"Executor Run Time":%d,{compact(rest)[1:]}}}\n'
    )


def compact(value: object) -> str:
    """JSON as Spark writes it: no blanks."""
    return json.dumps(value, separators=(",", ":"))


def stage_info(
    stage: int,
    attempt: int,
    *,
    tasks: int,
    partitions: int,
    parents: list[int],
    times: dict[str, int | str],
) -> dict[str, Any]:
    """Return a Stage Info; ``times`` holds its times and its failure reason under Spark's names."""
    unstored = {"Use Disk": False, "Use Memory": False, "Use Off Heap": False, "Deserialized": False}
    rdd = {
        "RDD ID": stage * 3,
        "Name": "MapPartitionsRDD",
        "Scope": json.dumps({"id": str(stage), "name": "WholeStageCodegen (1)"}),
        "Callsite": CALL_SITE,
        "Parent IDs": [stage * 3 + 1],
        "Storage Level": unstored | {"Replication": 1},
        "Barrier": False,
        "DeterministicLevel": "DETERMINATE",
        "Number of Partitions": partitions,
        "Number of Cached Partitions": 0,
        "Memory Size": 0,
        "Disk Size": 0,
    }
    return {
        "Stage ID": stage,
        "Stage Attempt ID": attempt,
        "Stage Name": CALL_SITE,
        "Number of Tasks": tasks,
        "RDD Info": [rdd],
        "Parent IDs": parents,
        "Details": STACK,
        **times,
        "Accumulables": [],
        "Resource Profile Id": 0,
        "Shuffle Push Enabled": False,
        "Shuffle Push Mergers Count": 0,
    }


def properties(execution: int | None) -> dict[str, str]:
    """Return a job's properties: a few of those that SQL puts there."""
    mine = {"spark.job.description": "daily report", "callSite.short": CALL_SITE}
    return mine | ({"spark.sql.execution.id": str(execution)} if execution is not None else {})


def plan() -> dict[str, Any]:
    """Return the plan fields of a SQL execution event, a few kB of them."""
    text = "== Physical Plan ==\n" + "\n".join(
        f"* HashAggregate ({i})\n+- Exchange ({i + 1})\n   +- * Project ({i + 2})" for i in range(0, 90, 3)
    )
    tree = {"nodeName": "AdaptiveSparkPlan", "simpleString": "isFinalPlan=false", "children": [], "metadata": {}}
    return {"physicalPlanDescription": text, "sparkPlanInfo": tree | {"metrics": []}}


def environment(conf: dict[str, str]) -> dict[str, Any]:
    """Return the fields of SparkListenerEnvironmentUpdate: the conf among 80 kB of everything else."""
    return {
        "JVM Information": {
            "Java Home": "/opt/java",
            "Java Version": "17.0.15",
            "Scala Version": "version 2.13.18",
        },
        "Spark Properties": conf,
        "Hadoop Properties": {f"hadoop.property.{i}": "value" * 8 for i in range(1_000)},
        "System Properties": {"file.encoding": "UTF-8", "os.name": "Linux"},
        "Metrics Properties": {},
        "Classpath Entries": {f"/opt/spark/jars/library-{i}.jar": "System Classpath" for i in range(250)},
    }
