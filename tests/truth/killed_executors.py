"""An application of the truth: executors die in the middle of a map stage and in the middle of the stage that reads it.

A thread kills the executor's process (its id is in the folder that scripts/cluster_java.py names) a fixed time after the
stage's first task. The readers fetch one block after the other while their rows sleep, so that some of them find the data
of a dead executor missing: a FetchFailed, and both stages are tried again.
Started by scripts/make_truth_logs.py. Every row sleeps, so what the work takes does not depend on the machine.
"""

import os
import signal
import threading
import time
from pathlib import Path

from pyspark import SparkContext
from pyspark.sql import SparkSession

NAP = "java_method('java.lang.Thread', 'sleep', {}L) is not null"
PROCESSES = Path(os.environ["EXECUTOR_PROCESSES"])


def kill_one(sc: SparkContext) -> None:
    """Kill the process of the first executor that is registered."""
    registered = sc._jsc.sc().getExecutorIds().mkString(" ").split()
    for executor in sorted(registered, key=int):
        try:
            os.kill(int((PROCESSES / executor).read_text()), signal.SIGKILL)
        except ProcessLookupError:
            continue  # the driver has not noticed yet
        return


def main() -> None:
    """Run the same query twice, with one death in each of the first query's stages and one in the second's."""
    spark = SparkSession.builder.getOrCreate()
    tracker = spark.sparkContext.statusTracker()
    over = threading.Event()

    def watch(deaths: dict[int, float]) -> None:
        started: dict[int, float] = {}
        while not over.wait(0.05):
            for stage in tracker.getActiveStageIds():
                known = tracker.getStageInfo(stage)
                if known and (known.numActiveTasks or known.numCompletedTasks):
                    started.setdefault(stage, time.monotonic())
            for order, stage in enumerate(sorted(started)):
                if order in deaths and time.monotonic() > started[stage] + deaths[order]:
                    del deaths[order]
                    kill_one(spark.sparkContext)

    watching = threading.Thread(target=watch, args=({0: 3.2, 1: 2.0, 3: 2.0},))
    watching.start()
    for rows in (480, 320):
        numbers = spark.range(0, rows, 1, 16).where(NAP.format(40)).selectExpr("id", "randstr(200, 1) as text")
        numbers.repartition(8, "id").where(NAP.format(40)).write.format("noop").mode("overwrite").save()
        time.sleep(1)
    over.set()
    watching.join()
    spark.stop()


if __name__ == "__main__":
    main()
