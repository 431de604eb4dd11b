"""An application of the truth: executors are let go while their shuffle data is still needed, and hand it on.

Without shuffle tracking, with ``spark.decommission.enabled`` and migration of shuffle and RDD blocks: idle executors are
decommissioned, the others take over their blocks, and nothing is computed again.
Started by scripts/make_truth_logs.py. Tasks sleep, so what they take does not depend on the machine.
"""

import time

from pyspark.sql import SparkSession

NAP = "java_method('java.lang.Thread', 'sleep', {}L) is not null"


def main() -> None:
    """Join two sides, one ready long before the other; then ask one grouped data set twice."""
    spark = SparkSession.builder.getOrCreate()
    first = spark.range(0, 400, 1, 16).where(NAP.format(40)).selectExpr("id", "id % 20 as branch")
    second = spark.range(0, 250, 1, 1).where(NAP.format(40)).selectExpr("id as other", "id % 20 as branch")
    first.join(second, "branch").groupBy("branch").count().collect()

    def nap(value: int) -> tuple[int, int]:
        time.sleep(1)
        return value % 6, value

    groups = spark.sparkContext.parallelize(range(12), 12).map(nap).groupByKey(6)
    groups.count()
    for seconds in (0.5, 0.8):

        def sum_up(values: list[int], seconds: float = seconds) -> int:
            time.sleep(seconds)
            return sum(values)

        time.sleep(5)
        groups.mapValues(sum_up).count()
    spark.stop()


if __name__ == "__main__":
    main()
