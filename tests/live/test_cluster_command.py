"""``podtide cluster -- python job.py`` with real Spark: no cluster, no change of the program, nothing left.

The program's executors come, go while there is nothing to do, come back, and its answers are right. Needs
PODTIDE_SPARK_PYTHON, and for older releases the Pythons that ``make live`` makes.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.live.spark_driver import RELEASES, cluster_run, spark_python

JOB = Path(__file__).with_name("cluster_job.py")
DRIVEN = """
import sys
from pyspark.sql import SparkSession

session = SparkSession.builder.getOrCreate()
total = session.sparkContext.parallelize(range(100), 4).map(lambda number: number + 1).sum()
with open(sys.argv[1], "w") as answer:
    answer.write(str(total))
session.stop()
"""
ROOT_KEY = "spark.kubernetes.executor.volumes.hostPath.spark-local-dir-node.options.path"
SHUFFLED = f"""
import json, os, sys
from pyspark.sql import SparkSession

context = SparkSession.builder.getOrCreate().sparkContext
root = context.getConf().get("{ROOT_KEY}")
pairs = context.parallelize(range(1000), 4).map(lambda number: (number % 3, number))
sums = sorted(pairs.reduceByKey(lambda one, other: one + other, 2).collect())
app = context.applicationId
blocks = sorted({{app + path[len(app) :].partition("-")[0] for path in
                 (os.path.relpath(one, root) for one, _, files in os.walk(root) if any("shuffle_" in f for f in files))}})
with open(sys.argv[1], "w") as out:
    json.dump({{"sums": sums, "app": app, "folders": sorted(os.listdir(root)), "blocks": blocks}}, out)
context.stop()
"""
LOOKED = f"""
import json, os, subprocess, sys, time

conf = open(os.environ["SPARK_CONF_DIR"] + "/spark-defaults.conf").read().splitlines()
(root,) = [line.split()[1] for line in conf if line.startswith("{ROOT_KEY} ")]
memory = ["--conf", "spark.executor.memory=512m", "--conf", "spark.driver.memory=512m"]
command = ["spark-submit", "--deploy-mode", "cluster", *memory, "--conf", "spark.executor.instances=1"]
subprocess.run([*command, "local://" + sys.argv[1], sys.argv[2]], check=True)
end = time.monotonic() + 60
while os.listdir(root) != [".service"] and time.monotonic() < end:
    time.sleep(0.1)
print(json.dumps(os.listdir(root)))
"""
SHUFFLE = Path(__file__).with_name("shuffle_job.py")
SUMS = [[rest, sum(range(rest, 1000, 3))] for rest in range(3)]
SUMMARY = re.compile(r"podtide cluster: (\d+) pods \((.*); 2 at once\), (\d+) API calls.*, ([0-9.,]+) executor-seconds")


@pytest.mark.parametrize("release", RELEASES)
def test_a_program_with_dynamic_allocation(tmp_path: Path, release: str) -> None:
    python = spark_python(release)
    ran = cluster_run(tmp_path, python, "--", "env", "-u", "PYTHONPATH", python, str(JOB))
    told = json.loads(ran.stdout.splitlines()[-1])
    assert told["version"].startswith(release)
    assert told["master"].startswith("k8s://https://127.0.0.1:")
    assert told["idle"] == 0  # they went, and came back
    assert told["jobs"] == [SUMS, SUMS]
    assert told["query"] == sum(range(1000))
    summary = SUMMARY.search(ran.stderr)
    assert summary is not None, ran.stderr[-3000:]
    assert int(summary[1]) >= 3
    assert "left" not in summary[2]
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("podtide-")]
    assert [pid for pid in _processes() if told["app"] in pid] == []


@pytest.mark.parametrize(("options", "mapped"), [(["--shuffle-service"], 1_000), ([], 2_000)])
def test_s1_s2_shuffle_files_outlive_their_executors(tmp_path: Path, options: list[str], mapped: int) -> None:
    """With the service no map task runs again when all executors have gone; without it all of them do."""
    python = spark_python()
    program = ["env", "-u", "PYTHONPATH", python, str(SHUFFLE)]
    ran = cluster_run(tmp_path, python, *options, "--", *program)
    assert json.loads(ran.stdout.splitlines()[-1]) == {"idle": 0, "jobs": [SUMS, SUMS], "mapped": mapped}
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("podtide-")]
    assert [line for line in _processes() if str(tmp_path) in line] == []


def test_s11_shuffle_files_go_with_their_application(tmp_path: Path) -> None:
    """In cluster mode, where the driver has a pod: while it runs, a directory names the application; then it goes."""
    python = spark_python()
    answer, job, look = tmp_path / "answer", tmp_path / "job.py", tmp_path / "look.py"
    job.write_text(SHUFFLED)
    look.write_text(LOOKED)
    program = ["env", "-u", "PYTHONPATH", python, str(look), str(job), str(answer)]
    ran = cluster_run(tmp_path, python, "--shuffle-service", "--", *program)
    told = json.loads(answer.read_text())
    assert told["sums"] == SUMS
    assert [name for name in told["folders"] if name != ".service"] == [told["app"]]
    assert told["blocks"] == [f"{told['app']}/blockmgr"], "where executors keep their blocks, and what they register"
    assert json.loads(ran.stdout.splitlines()[-1]) == [".service"]


def test_a_program_in_cluster_mode(tmp_path: Path) -> None:
    """spark-submit as it is: the driver is a pod, its executor another, and both are gone at the end."""
    python = spark_python()
    answer = tmp_path / "answer"
    job = tmp_path / "job.py"
    job.write_text(DRIVEN)
    settings = ["spark.executor.instances=1", "spark.executor.memory=512m", "spark.driver.memory=512m"]
    conf = [word for setting in settings for word in ("--conf", setting)]
    submit = [
        str(Path(python).parent / "spark-submit"),
        "--deploy-mode",
        "cluster",
        *conf,
        f"local://{job}",
        str(answer),
    ]
    ran = cluster_run(tmp_path, python, "--", "env", "-u", "PYTHONPATH", *submit)
    assert answer.read_text() == "5050", ran.stderr[-3000:]
    # The executor is deleted while it runs, or has ended by itself when its driver closed the connection.
    fates = ("1 deleted, 1 succeeded", "2 succeeded")
    assert any(f"podtide cluster: 2 pods ({fate};" in ran.stderr for fate in fates), ran.stderr[-3000:]
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("podtide-")]
    assert [line for line in _processes() if str(job) in line] == []


def _processes() -> list[str]:
    """The command lines of all processes."""
    lines = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(file.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:  # it ended meanwhile
            continue
    return lines
