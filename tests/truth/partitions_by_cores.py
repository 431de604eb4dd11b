"""An application of the truth: aggregations whose coalesced partitions follow the cores that are registered.

Adaptive execution coalesces to as many partitions as there are cores at that moment, where every core gets more than 1 MB
(``spark.sql.adaptive.coalescePartitions.parallelismFirst``, on by default). The payload does not compress.
Started by scripts/make_truth_logs.py. Every row sleeps, so what the work takes does not depend on the machine.
"""

import time

from pyspark.sql import SparkSession

NAP = "java_method('java.lang.Thread', 'sleep', {}L) is not null"


def main() -> None:
    """Find the largest document of every customer, twice, the second time on more or fewer cores."""
    spark = SparkSession.builder.getOrCreate()
    for rows, seed, pause in ((1600, 3, 5), (1600, 5, 1)):
        documents = spark.range(0, rows, 1, 16).where(NAP.format(10))
        documents = documents.selectExpr("id % 1500 as customer", f"randstr(8000, {seed}) as page")
        largest = documents.groupBy("customer").agg({"page": "max"}).where(NAP.format(14))
        largest.selectExpr("customer", "length(`max(page)`) as size").write.format("noop").mode("overwrite").save()
        time.sleep(pause)
    spark.stop()


if __name__ == "__main__":
    main()
