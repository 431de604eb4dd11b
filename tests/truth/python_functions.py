"""An application of the truth: Python functions in Python workers, an aggregation, and a table that is written.

Started by scripts/make_truth_logs.py. Every row sleeps, so what the work takes does not depend on the machine.
"""

import time

from pyspark.sql import SparkSession
from pyspark.sql.functions import udf


def main() -> None:
    """Score the texts, write the scores, read them again."""
    spark = SparkSession.builder.getOrCreate()

    def score(number: int) -> int:
        # Every eighth text is a long one.
        time.sleep(0.12 if number % 8 == 0 else 0.04)
        return number % 100

    def grade(points: int) -> str:
        time.sleep(0.03)
        return "good" if points > 50 else "bad"

    scored = udf(score, "int", useArrow=False)
    graded = udf(grade, "string", useArrow=False)
    texts = spark.range(0, 800, 1, 20).withColumnRenamed("id", "text")
    scores = texts.withColumn("score", scored("text"))
    scores.write.mode("overwrite").parquet("scores")
    time.sleep(4)
    counts = spark.read.parquet("scores").groupBy("score").count()
    counts.select(graded("score").alias("grade"), "count").collect()
    spark.stop()


if __name__ == "__main__":
    main()
