"""The Spark engine on a real local-cluster: the same table as here, with podtide sent along as a ZIP.

Executors find the fakes of these tests by their import path, and podtide only in the ZIP.
"""

from __future__ import annotations

import csv
import importlib.util
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from podtide.adapters.fleet.spark_workers import REQUIRED, SparkEngineError, SparkWorkers, package_zip
from podtide.adapters.process_pool import Ended, Workers
from podtide.entrypoints.common.output import ClusterRefused
from podtide.entrypoints.fleet.command import FleetRequest, run_fleet
from podtide.entrypoints.fleet.run import Engine, SurveyTerms
from podtide.entrypoints.fleet.work import FleetOptions
from tests.support.fleet_fakes import fake_assess, fake_log, fake_logs
from tests.support.project import PROJECT

TIMING = ("seconds",)

needs_spark = pytest.mark.skipif(
    importlib.util.find_spec("pyspark") is None or shutil.which("java") is None,
    reason="the Spark engine is NOT tested: it needs pyspark (pip install pyspark==4.3.0) and Java 17",
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Callable[..., Any]]:
    """Engines over one session on local-cluster[2,1,1024]; the session outlives each of them."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 - not everywhere

    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master("local-cluster[2,1,1024]")
        .appName("podtide tests")
        .config("spark.executorEnv.PYTHONPATH", str(PROJECT))
        .config("spark.ui.enabled", "false")
        .config("spark.task.maxFailures", "1")
        .getOrCreate()
    )
    try:
        yield partial(SparkWorkers, requests=2)
    finally:
        session.stop()
        del os.environ["PYSPARK_PYTHON"]


def surveyed(out: Path, logs: Path, engine: Engine) -> list[dict[str, str]]:
    assert run_fleet(FleetRequest((str(logs),), None, SurveyTerms(str(out))), FleetOptions(), engine, fake_assess) == 0
    with out.open(newline="") as file:
        return [{k: v for k, v in row.items() if k not in TIMING} for row in csv.DictReader(file)]


@needs_spark
def test_the_same_table_as_without_spark(tmp_path: Path, cluster: Callable[..., Any]) -> None:
    logs = fake_logs(tmp_path / "logs", 30)
    fake_log(logs / "b-dies", "die")
    fake_log(logs / "c-refused", "refuse")
    (logs / "d-notes.txt").write_text("no log")
    here = surveyed(tmp_path / "here.csv", logs, partial(Workers, jobs=1))
    there = surveyed(tmp_path / "there.csv", logs, cluster)
    assert there == here
    assert [row["status"] for row in here[30:]] == ["failed", "refused"]


@needs_spark
def test_a_log_that_hangs_on_an_executor_is_ended(tmp_path: Path, cluster: Callable[..., Any]) -> None:
    logs = fake_logs(tmp_path / "logs", 3)
    fake_log(logs / "app-000001", "hang")
    rows = surveyed(tmp_path / "out.csv", logs, partial(cluster, limit_s=1.0))
    assert [row["status"] for row in rows] == ["ok", "failed", "ok"]


@needs_spark
def test_a_job_that_fails_is_cut_down_to_the_request_that_fails_it(cluster: Callable[..., Any]) -> None:
    requests = [(str(number), b"die" if number == 3 else b"%d" % number) for number in range(6)]
    with cluster(_echo) as workers:
        workers._work = _deadly  # what Spark's own Python worker does not survive
        answers = dict(workers.run(iter(requests)))
    assert {key: said for key, said in answers.items() if key != "3"} == {str(n): b"%d" % n for n in (0, 1, 2, 4, 5)}
    assert isinstance(answers["3"], Ended)
    assert answers["3"].why.startswith("Spark gave it up: ")


def _echo(request: bytes) -> bytes:
    return request


def _deadly(requests: Iterator[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
    for number, request in requests:
        if request == b"die":
            raise SystemExit(9)
        yield number, request


def test_without_pyspark_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(SparkEngineError, match=r"pip install 'podtide\[spark\]'"):
        SparkWorkers(_echo)
    asked = FleetRequest((str(fake_logs(tmp_path / "logs", 1)),), None, SurveyTerms(str(tmp_path / "out.csv")))
    with pytest.raises(ClusterRefused, match="needs pyspark"):
        run_fleet(asked, FleetOptions(), SparkWorkers, fake_assess)


def test_podtide_can_be_imported_from_its_zip(tmp_path: Path) -> None:
    package_zip(tmp_path / "podtide.zip")
    names = set(zipfile.ZipFile(tmp_path / "podtide.zip").namelist())
    for folder in ("domain", "adapters", "entrypoints"):
        modules = {f"podtide/{module.relative_to(PROJECT)}" for module in (PROJECT / folder).rglob("*.py")}
        assert modules <= names
    assert not [name for name in names if "__pycache__" in name]
    printed = subprocess.run(
        [sys.executable, "-c", "import podtide.entrypoints.fleet.assess as work; print(work.__file__)"],
        env={"PYTHONPATH": str(tmp_path / "podtide.zip")},
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    assert "podtide.zip" in printed.stdout
    assert importlib.util.find_spec(REQUIRED[0]) is not None


def test_a_report_can_be_made_from_the_zip(tmp_path: Path) -> None:
    package_zip(tmp_path / "podtide.zip")
    figures = "'runtime_s': 1, 'executor_seconds': 1"
    program = (
        "from podtide.adapters.views.report.page import render\n"
        f"least = {{'recorded': {{{figures}, 'peak_executors': 1}},"
        f" 'self_replay': {{'name': 'as simulated', {figures}, 'error': {{}}}}}}\n"
        "print(render.__code__.co_filename, render(least))"
    )
    printed = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": str(tmp_path / "podtide.zip")},
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    ).stdout
    assert printed.startswith(str(tmp_path / "podtide.zip"))
    assert "No other config was asked for." in printed
