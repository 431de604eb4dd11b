"""An application of the truth: an analyst asks one query after the other, and thinks in between.

Joins by broadcast and by shuffle, distinct counts, a window, a limit: each query has stages of its own kind.
Started by scripts/make_truth_logs.py. Every row sleeps, so what the work takes does not depend on the machine.
"""

import time

from pyspark.sql import SparkSession

NAP = "java_method('java.lang.Thread', 'sleep', {}L) is not null"


def main() -> None:
    """Ask the queries."""
    spark = SparkSession.builder.getOrCreate()
    spark.range(0, 640, 1, 16).selectExpr("id", "id % 16 as item", "id % 40 as buyer").createOrReplaceTempView("orders")
    spark.range(0, 16, 1, 1).selectExpr("id as item", "id % 4 as kind").createOrReplaceTempView("items")
    spark.range(0, 200, 1, 4).selectExpr("id % 40 as buyer", "id as visit").createOrReplaceTempView("visits")
    queries = (
        (f"select kind, count(*) from orders join items using (item) where {NAP.format(20)} group by kind", 2.5),
        (f"select count(distinct buyer) from orders where item < 8 and {NAP.format(25)}", 0.5),
        (
            "select /*+ merge(v) */ buyer, count(*) as n from orders join visits v using (buyer) "
            f"where {NAP.format(6)} group by buyer order by n desc limit 5",
            6,
        ),
        (
            "select max(place) from (select row_number() over (partition by buyer order by id) as place from orders "
            f"where {NAP.format(15)}) where {NAP.format(2)}",
            1,
        ),
        (f"select item, count(*) from orders where id % 5 = 0 and {NAP.format(70)} group by item order by item", 0),
    )
    for query, thought in queries:
        spark.sql(query).collect()
        time.sleep(thought)
    spark.stop()


if __name__ == "__main__":
    main()
