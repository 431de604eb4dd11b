"""An application of the truth: a join on a skewed key, which adaptive execution splits.

Seven rows of ten have the same key. The payload does not compress, so that the partition of that key is large enough to be
split by the thresholds that scripts/truth_configs.py sets.
Started by scripts/make_truth_logs.py. Every row sleeps, so what the work takes does not depend on the machine.
"""

from pyspark.sql import SparkSession

NAP = "java_method('java.lang.Thread', 'sleep', {}L) is not null"


def main() -> None:
    """Join visits with shops, and do something slow with every visit."""
    spark = SparkSession.builder.getOrCreate()
    visits = spark.range(0, 3200, 1, 16).where(NAP.format(6))
    visits = visits.selectExpr("if(id % 10 < 7, 0, id % 40) as shop", "randstr(1000, 7) as page")
    shops = spark.range(0, 40, 1, 4).where(NAP.format(150)).selectExpr("id as shop", "concat('shop ', id) as name")
    seen = visits.join(shops, "shop").where(NAP.format(12))
    seen.selectExpr("name", "length(page) as size").write.format("noop").mode("overwrite").save()
    spark.stop()


if __name__ == "__main__":
    main()
