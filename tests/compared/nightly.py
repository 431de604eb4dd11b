"""The application whose runs are compared: rows that take a time each, an exchange by key, and rows that take time again.

What may differ from run to run is said by settings ``spark.nightly.*`` (scripts/make_compared_logs.py has the runs). Every
row sleeps, so what the work takes does not depend on the machine.
"""

import os
import signal
import threading
import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

SLOW_EXECUTOR = "2"


def nap(millis: int, slow: float) -> str:
    """A condition that is true, and takes so long; ``slow`` times as long on one executor."""
    length = f"{millis}L"
    if slow != 1.0:
        here = "java_method('java.lang.System', 'getenv', 'SPARK_EXECUTOR_ID')"
        length = f"if({here} = '{SLOW_EXECUTOR}', {int(millis * slow)}L, {millis}L)"
    return f"java_method('java.lang.Thread', 'sleep', {length}) is not null"


def kill_at(moments: list[float]) -> None:
    """Kill the processes of the first executors, one at each moment, in seconds from now."""
    processes = Path(os.environ["EXECUTOR_PROCESSES"])

    def kill(executor: int) -> None:
        os.kill(int((processes / str(executor)).read_text()), signal.SIGKILL)

    for executor, seconds in enumerate(moments):
        timer = threading.Timer(seconds, kill, (executor,))
        timer.daemon = True
        timer.start()


def main() -> None:
    """Two queries with a pause of the driver between them."""
    spark = SparkSession.builder.getOrCreate()

    def told(key: str, default: str) -> str:
        return str(spark.conf.get(f"spark.nightly.{key}", default))

    rows, millis, slow = int(told("rows", "640")), int(told("millis", "40")), float(told("slow", "1"))
    keys = "if(id % 10 < 6, 7, id % 97)" if told("skew", "no") == "yes" else "id % 97"
    kill_at([float(moment) for moment in told("kill", "").split()])

    def slow_rows(count: int) -> DataFrame:
        return spark.range(0, count, 1, 16).where(nap(millis, slow)).selectExpr("id", f"{keys} as branch")

    for count in (rows, rows // 2):
        shuffled = slow_rows(count).repartition("branch").where(nap(millis, slow))
        if told("again", "no") == "yes":
            shuffled = shuffled.repartition("id").where(nap(millis, slow))
        shuffled.write.format("noop").mode("overwrite").save()
        time.sleep(float(told("think", "2")))
    spark.stop()


if __name__ == "__main__":
    main()
