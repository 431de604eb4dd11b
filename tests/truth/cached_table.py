"""An application of the truth: a cached table, used again after the timeouts of the executors that hold it.

The first pause is longer than the cached timeout of most configs, the second is shorter. The first query has no shuffle
whose data would keep the executors.
Started by scripts/make_truth_logs.py. Every row sleeps, so what the work takes does not depend on the machine.
"""

import time

from pyspark.sql import SparkSession

NAP = "java_method('java.lang.Thread', 'sleep', {}L) is not null"


def main() -> None:
    """Make the table, then ask it three times."""
    spark = SparkSession.builder.getOrCreate()
    stock = spark.range(0, 480, 1, 12).where(NAP.format(40)).selectExpr("id", "id % 7 as shelf", "id * 3 as amount")
    stock.cache()
    stock.createOrReplaceTempView("stock")
    spark.sql("select id, amount from stock where shelf = 3").collect()
    time.sleep(9)
    spark.sql(f"select shelf, max(amount) from stock where {NAP.format(10)} group by shelf").collect()
    time.sleep(4)
    spark.sql(f"select count(*) from stock where shelf = 3 and {NAP.format(20)}").collect()
    spark.stop()


if __name__ == "__main__":
    main()
