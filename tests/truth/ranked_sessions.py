"""An application of the truth: a window over large rows, repartitioned for a slow step, and kept for a second use.

The payload does not compress, so the stages after a shuffle have as many tasks as there are cores, or as the program says.
Started by scripts/make_truth_logs.py. Every row sleeps, so what the work takes does not depend on the machine.
"""

import time

from pyspark.sql import SparkSession

NAP = "java_method('java.lang.Thread', 'sleep', {}L) is not null"


def main() -> None:
    """Rank the sessions of every customer, score the last ones, and count what was scored."""
    spark = SparkSession.builder.getOrCreate()
    sessions = spark.range(0, 1200, 1, 18).where(NAP.format(18))
    sessions = sessions.selectExpr("id", "id % 300 as customer", "randstr(6000, 11) as page")
    sessions.createOrReplaceTempView("sessions")
    ranked = spark.sql(
        "select * from (select *, row_number() over (partition by customer order by id desc) as place from sessions) "
        f"where place <= 2 and {NAP.format(10)}"
    )
    scored = ranked.repartition(10, "id").where(NAP.format(30)).selectExpr("id", "customer", "length(page) as size")
    scored.cache()
    scored.groupBy("customer").count().write.format("noop").mode("overwrite").save()
    time.sleep(4)
    scored.where(NAP.format(8)).groupBy("size").count().collect()
    spark.stop()


if __name__ == "__main__":
    main()
