"""A job for trying things: forty seconds of work in two stages, with a pause between them."""

import time

from pyspark.sql import SparkSession

spark = SparkSession.builder.appName("tutorial").getOrCreate()
rows = spark.range(0, 400, 1, 16).where("java_method('java.lang.Thread', 'sleep', 200L) is not null")
print("rows:", rows.count())
time.sleep(8)
print("rows again:", rows.count())
spark.stop()
