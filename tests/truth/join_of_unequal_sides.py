"""An application of the truth: a join whose one side is ready long before the other, twice.

The sides are jobs of their own under adaptive execution. Executors that only hold the first side wait for the second one:
longer than the short idle timeouts of the configs.
Started by scripts/make_truth_logs.py. Every row sleeps, so what the work takes does not depend on the machine.
"""

import time

from pyspark.sql import DataFrame, SparkSession


def slow_rows(spark: SparkSession, rows: int, tasks: int, millis: int) -> DataFrame:
    """Rows that take ``millis`` each."""
    nap = f"java_method('java.lang.Thread', 'sleep', {millis}L) is not null"
    return spark.range(0, rows, 1, tasks).where(nap).selectExpr("id", "id % 40 as branch")


def main() -> None:
    """Join orders with payments, then returns with complaints."""
    spark = SparkSession.builder.getOrCreate()
    for first, second in (
        (slow_rows(spark, 400, 16, 40), slow_rows(spark, 700, 2, 40)),
        (slow_rows(spark, 200, 8, 40), slow_rows(spark, 150, 1, 40)),
    ):
        joined = first.join(second.withColumnRenamed("id", "other"), "branch")
        joined.groupBy("branch").count().orderBy("branch").collect()
        time.sleep(2)
    spark.stop()


if __name__ == "__main__":
    main()
