"""R1 with real Spark in cluster mode: the only copy of the application, a module and a jar is on a staging server.

Each pod fetches them by its init container, over TLS. Needs PODTIDE_SPARK_PYTHON, and a JDK for the jar.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.live.spark_driver import cluster_run, spark_python

TWICE = """
public class Twice implements org.apache.spark.sql.api.java.UDF1<Long, Long> {
    public Long call(Long number) { return 2 * number; }
}
"""
ONLY_HERE = """
def triple(number):
    return 3 * number
"""
MAIN = """
import json, sys
import only_here
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType

session = SparkSession.builder.getOrCreate()
session.udf.registerJavaFunction("twice", "Twice", LongType())
numbers = session.sparkContext.parallelize(range(100), 4)
answer = {
    "python": numbers.map(only_here.triple).sum(),
    "java": session.range(0, 100, 1, 4).selectExpr("sum(twice(id))").collect()[0][0],
    "driver": [__file__, only_here.__file__],
    "executor": numbers.map(lambda _: __import__("only_here").__file__).distinct().collect(),
}
with open(sys.argv[1], "w") as out:
    json.dump(answer, out)
session.stop()
"""


def test_r1_an_application_whose_only_copy_is_on_the_staging_server(tmp_path: Path) -> None:
    python = spark_python()
    folder, answer = tmp_path / "submitter", tmp_path / "answer"
    (folder / "in").mkdir(parents=True)
    (folder / "in" / "main.py").write_text(MAIN)
    (folder / "in" / "only_here.py").write_text(ONLY_HERE)
    _jar(python, tmp_path / "classes", folder / "in" / "twice.jar")

    submit = [sys.executable, str(Path(__file__).with_name("stage_submit.py")), str(folder), str(answer)]
    ran = cluster_run(tmp_path, python, "--", "env", *submit)

    told = json.loads(answer.read_text())
    assert (told["python"], told["java"]) == (3 * 4950, 2 * 4950)
    (executor,) = told["executor"]
    assert executor not in told["driver"]  # each pod has fetched for itself
    assert {Path(path).name for path in (executor, *told["driver"])} == {"only_here.py", "main.py"}
    bundle = json.loads(ran.stdout.splitlines()[-1])
    assert bundle["ended"] == "0 bundles removed, 1 kept\n"
    assert [text.splitlines()[-1] for text in bundle["removed"]] == [
        "0 bundles removed, 1 kept, 1 of them without pods",
        "1 bundle removed, 0 kept",
    ]
    assert bundle["left"] == []


def _jar(python: str, folder: Path, jar: Path) -> None:
    """Compile the function against the Spark of a Python."""
    javac = shutil.which("javac")
    if javac is None:
        pytest.skip("NOT TESTED: the jar needs a JDK, and there is no javac")
    folder.mkdir()
    (folder / "Twice.java").write_text(TWICE)
    ask = [python, "-c", "import pyspark; print(pyspark.__path__[0])"]
    jars = subprocess.run(ask, capture_output=True, text=True, check=True).stdout.strip() + "/jars/*"
    subprocess.run([javac, "-cp", jars, "-d", str(folder), str(folder / "Twice.java")], check=True)
    with zipfile.ZipFile(jar, "w") as archive:
        archive.write(folder / "Twice.class", "Twice.class")
