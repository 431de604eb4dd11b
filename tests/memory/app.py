"""Applications whose need of memory can be seen: the name of the application says which of them runs.

``sorted``: every task sorts as many rows; ``joined``: two sides are sorted and merged, one key has more rows than the
others; ``cached``: a table is kept in memory and read again; ``grouped``: hash maps of an aggregation.
"""

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession, functions as F  # noqa: N812 - as everybody calls it

ROWS = 1_600_000
PAYLOAD = "abcdefghijklmnopqrstuvwxyz" * 16


def rows(spark: SparkSession, count: int, seed: int) -> DataFrame:
    """``count`` rows in four partitions: a key in no order, and a text of 416 letters."""
    numbers = spark.range(0, count, 1, 4)
    return numbers.select(F.xxhash64("id", F.lit(seed)).alias("key"), "id", F.lit(PAYLOAD).alias("text"))


def sort(spark: SparkSession) -> None:
    """Four tasks sort their partitions."""
    rows(spark, ROWS, 1).sortWithinPartitions("key").write.format("noop").mode("overwrite").save()


def join(spark: SparkSession) -> None:
    """A sort-merge join; a quarter of the left rows have one key."""
    left = rows(spark, ROWS, 1).select(
        F.when(F.col("id") % 4 == 0, F.lit(7)).otherwise(F.pmod("key", F.lit(100_000))).alias("key"), "text"
    )
    right = spark.range(0, 100_000).select(F.col("id").alias("key"), F.lit(PAYLOAD).alias("other"))
    left.hint("merge").join(right, "key").write.format("noop").mode("overwrite").save()


def cache(spark: SparkSession) -> None:
    """A table in memory, read twice, and then sorted."""
    table = rows(spark, ROWS // 2, 1).persist(StorageLevel.MEMORY_ONLY)
    for _ in range(2):
        table.agg(F.max("key")).collect()
    table.sortWithinPartitions("key").write.format("noop").mode("overwrite").save()


def group(spark: SparkSession) -> None:
    """Hash maps of four hundred thousand groups in each task."""
    rows(spark, ROWS, 1).groupBy("key", "text").count().agg(F.sum("count")).collect()


session = SparkSession.builder.getOrCreate()
{"sorted": sort, "roomy": sort, "joined": join, "cached": cache, "grouped": group}[session.conf.get("spark.app.name")](
    session
)
session.stop()
