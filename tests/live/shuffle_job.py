"""A program that comes back to its shuffle when all its executors have gone. Prints JSON: how often its map tasks ran."""

import json
import time

from pyspark.sql import SparkSession

session = (
    SparkSession.builder.appName("shuffle")
    .config("spark.dynamicAllocation.enabled", "true")
    .config("spark.dynamicAllocation.maxExecutors", "2")
    .config("spark.dynamicAllocation.executorIdleTimeout", "1s")
    .config("spark.dynamicAllocation.shuffleTracking.timeout", "1s")
    .config("spark.executor.memory", "512m")
    .config("spark.driver.memory", "512m")
    .getOrCreate()
)
context = session.sparkContext
mapped = context.accumulator(0)


def executors() -> int:
    """Without the driver, which is among them."""
    return len(context._jsc.sc().statusTracker().getExecutorInfos()) - 1


def pair(number: int) -> tuple[int, int]:
    mapped.add(1)
    return number % 3, number


sums = context.parallelize(range(1000), 8).map(pair).reduceByKey(lambda one, other: one + other, 4)
first = sorted(sums.collect())
end = time.monotonic() + 120
while executors() and time.monotonic() < end:
    time.sleep(0.1)
idle = executors()
print(json.dumps({"idle": idle, "jobs": [first, sorted(sums.collect())], "mapped": mapped.value}))
session.stop()
