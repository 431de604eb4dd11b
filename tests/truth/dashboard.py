"""An application of the truth: a dashboard. Two threads ask many small queries, with pauses between them.

Shuffles have the default of 200 partitions, which adaptive execution coalesces.
Started by scripts/make_truth_logs.py. Every row sleeps, so what the work takes does not depend on the machine.
"""

import threading
import time

from pyspark.sql import SparkSession

NAP = "java_method('java.lang.Thread', 'sleep', {}L) is not null"


def main() -> None:
    """Ask both threads' queries to their end."""
    spark = SparkSession.builder.getOrCreate()
    spark.range(0, 2400, 1, 8).selectExpr("id", "id % 12 as region").createOrReplaceTempView("sales")
    spark.range(0, 12, 1, 2).selectExpr("id as region", "concat('r', id) as name").createOrReplaceTempView("regions")

    def tiles(pauses: list[float], millis: int) -> None:
        for number, pause in enumerate(pauses):
            part = f"(select * from sales where id % {3 + number % 3} = 0 and {NAP.format(millis)})"
            if number % 3 == 2:
                query = f"select name, count(*) from {part} join regions using (region) group by name order by name"
            else:
                query = f"select region, sum(id) from {part} group by region"
            spark.sql(query).collect()
            time.sleep(pause)

    threads = [
        threading.Thread(target=tiles, args=([0.5, 0.2, 1.5, 0.3, 4.5, 0.3, 0.2, 1.0, 0.4], 4)),
        threading.Thread(target=tiles, args=([1.0, 2.0, 0.1, 0.1, 5.0, 0.5, 0.2], 7)),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    spark.stop()


if __name__ == "__main__":
    main()
