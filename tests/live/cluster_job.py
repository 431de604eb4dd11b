"""A program that knows nothing of clusters: two jobs with a pause in which its executors go, and a query. Prints JSON."""

import json
import time

from pyspark.sql import SparkSession

session = (
    SparkSession.builder.appName("job")
    .config("spark.dynamicAllocation.enabled", "true")
    .config("spark.dynamicAllocation.maxExecutors", "2")
    .config("spark.dynamicAllocation.executorIdleTimeout", "2s")
    .config("spark.dynamicAllocation.shuffleTracking.timeout", "2s")
    .config("spark.executor.memory", "512m")
    .config("spark.driver.memory", "512m")
    .getOrCreate()
)
context = session.sparkContext


def executors() -> int:
    """Without the driver, which is among them."""
    return len(context._jsc.sc().statusTracker().getExecutorInfos()) - 1


def job() -> list[tuple[int, int]]:
    pairs = context.parallelize(range(1000), 8).map(lambda number: (number % 3, number))
    return sorted(pairs.reduceByKey(lambda one, other: one + other).collect())


first = job()
end = time.monotonic() + 120
while executors() and time.monotonic() < end:
    time.sleep(0.1)
print(
    json.dumps(
        {
            "version": context.version,
            "master": context.master,
            "app": context.applicationId,
            "idle": executors(),
            "jobs": [first, job()],
            "query": session.range(1000).selectExpr("sum(id)").collect()[0][0],
        }
    )
)
session.stop()
