"""Applications whose need of memory can be seen: the name of the application says which of them runs.

``sorted`` and ``ample``: every task sorts as many rows; ``joined``: two sides are sorted and merged, one key has more rows
than the others.
"""

from pyspark.sql import DataFrame, SparkSession, functions as F  # noqa: N812 - as everybody calls it

ROWS = 160_000
TEXT = "abcdefghijklmnopqrstuvwxyz" * 160


def rows(spark: SparkSession, count: int) -> DataFrame:
    """``count`` rows in four partitions: a key in no order, and a text of four thousand letters that differs."""
    numbers = spark.range(0, count, 1, 4)
    return numbers.select(F.xxhash64("id").alias("key"), "id", F.concat(F.lit(TEXT), "id").alias("text"))


def sort(spark: SparkSession) -> None:
    """Four tasks sort their partitions."""
    rows(spark, ROWS).sortWithinPartitions("key").write.format("noop").mode("overwrite").save()


def join(spark: SparkSession) -> None:
    """A sort-merge join; one of eight rows on the left has the same key."""
    key = F.when(F.col("id") % 8 == 0, F.lit(7)).otherwise(F.pmod("key", F.lit(10_000)))
    left = rows(spark, ROWS).select(key.alias("key"), "text")
    right = rows(spark, 10_000).select(F.col("id").alias("key"), F.substring("text", -8, 8).alias("other"))
    left.join(right.hint("merge"), "key").write.format("noop").mode("overwrite").save()


session = SparkSession.builder.getOrCreate()
{"sorted": sort, "ample": sort, "joined": join}[session.conf.get("spark.app.name")](session)
session.stop()
