"""An application of the truth: loads of four days, one after the other, and a summary of all that was written.

Each load joins with a small table by broadcast, aggregates and writes Parquet; the driver pauses between the days.
Started by scripts/make_truth_logs.py. Every row sleeps, so what the work takes does not depend on the machine.
"""

import time

from pyspark.sql import SparkSession

NAP = "java_method('java.lang.Thread', 'sleep', {}L) is not null"


def main() -> None:
    """Load the days, then summarize them."""
    spark = SparkSession.builder.getOrCreate()
    stores = spark.range(0, 24, 1, 2).selectExpr("id as store", "id % 6 as region")
    for day, (rows, pause) in enumerate(((360, 1.5), (240, 5), (480, 0.5), (300, 3))):
        sales = spark.range(0, rows, 1, 10 + 2 * day).where(NAP.format(35))
        sales = sales.selectExpr("id % 24 as store", "id * 7 % 100 as amount")
        totals = sales.join(stores, "store").groupBy("region", "store").sum("amount")
        totals.selectExpr("region", "store", "`sum(amount)` as total").write.mode("append").parquet("totals")
        time.sleep(pause)
    loaded = spark.read.parquet("totals")
    loaded.where(NAP.format(60)).groupBy("region").avg("total").orderBy("region").collect()
    spark.stop()


if __name__ == "__main__":
    main()
