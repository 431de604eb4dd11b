"""What is recommended for a log works where it is pasted: on its Spark version, cluster manager and platform."""

from __future__ import annotations

import csv
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support import commands
from tests.support.whatif_log import STATIC, write_log

tune = partial(commands.answer, "tune")

DA = "spark.dynamicAllocation."
QUICK = ("--budget", "12", "--seeds", "1", "--within", "100%")
ALONE = {"spark.executor.instances": "8", "spark.executor.cores": "1"}
DATABRICKS = {
    "spark.databricks.clusterUsageTags.clusterScalingType": "fixed_size",
    "spark.master": "spark://10.0.0.1:7077",
}


def log_of(path: Path, properties: dict[str, str], version: str = "4.3.0") -> Path:
    """A log of eight executors of which two would do: half of them do nothing for long."""
    log = write_log(path, {**ALONE, **properties}, executors=8, tasks=2, task_ms=10_000)
    log.write_text(log.read_text().replace('"Spark Version": "4.3.0"', f'"Spark Version": "{version}"'))
    return log


def advised(log: Path) -> tuple[dict[str, Any], list[str]]:
    """The recommendation, with what was searched, and the notes."""
    found = tune(log, *QUICK, "--json").document
    return {**found["recommendation"], "space": found["searched"]["space"]}, found["notes"]


def told(notes: list[str], *words: str) -> bool:
    return any(all(word in note for word in words) for note in notes)


def test_before_spark_3_dynamic_allocation_is_offered_beside_a_shuffle_service_alone(tmp_path: Path) -> None:
    advice, notes = advised(log_of(tmp_path / "old", {"spark.master": "yarn"}, "2.4.8"))
    assert list(advice["space"]) == ["static"]
    assert told(
        notes, f"Not recommended: {DA}enabled", "before Spark 3.0 dynamic allocation needs an external shuffle service"
    )
    served = {"spark.master": "yarn", "spark.shuffle.service.enabled": "true"}
    advice, notes = advised(log_of(tmp_path / "served", served, "2.4.8"))
    assert f"{DA}maxExecutors" in advice["space"]
    assert f"{DA}shuffleTracking.enabled" not in advice["conf"]
    advice, _ = advised(log_of(tmp_path / "new", {"spark.master": "yarn"}, "3.1.2"))
    assert f"{DA}maxExecutors" in advice["space"]


def test_a_log_without_a_version_gets_what_every_version_has(tmp_path: Path) -> None:
    advice, notes = advised(log_of(tmp_path / "log", {"spark.master": "yarn"}, ""))
    assert list(advice["space"]) == ["static"]
    assert told(
        notes, "before Spark 3.0 dynamic allocation needs", "the log does not say its version (--spark-version does)"
    )
    assert told(notes, "The Spark version is unknown")


@pytest.mark.parametrize(
    ("master", "forms", "asked"),
    [
        ("yarn", ["spark-defaults.conf", "spark-submit"], "spark.executor.instances"),
        ("spark://master:7077", ["spark-defaults.conf", "spark-submit"], "spark.cores.max"),
        ("k8s://https://api", ["spark-defaults.conf", "spark-submit", "SparkApplication"], "spark.executor.instances"),
    ],
)
def test_lines_are_those_of_the_cluster_manager(tmp_path: Path, master: str, forms: list[str], asked: str) -> None:
    log = log_of(tmp_path / "log", {"spark.master": master}, "2.4.8")
    answer = tune(log, *QUICK, "--space", "none", "--space", "static=2", "--json")
    advice = answer.document["recommendation"]
    assert (advice["static"], list(advice["lines"])) == (2, forms)
    assert f"{asked} " in advice["lines"]["spark-defaults.conf"]


def test_a_platform_with_rules_of_its_own_gets_its_knob_and_no_settings(tmp_path: Path) -> None:
    log = log_of(tmp_path / "log", DATABRICKS)
    advice, notes = advised(log)
    assert list(advice["space"]) == ["static"]
    assert advice["conf"] == {}
    assert advice["lines"] == {"Databricks": f'"num_workers": {advice["static"]}\n'}
    assert told(notes, "Databricks decides on executors itself", "autoscale.min_workers")
    shown = tune(log, *QUICK)
    assert "Databricks:" in shown.out
    assert '"num_workers"' in shown.out
    assert "--conf" not in shown.out
    assert "Not recommended: spark.dynamicAllocation." in " ".join(shown.out.split())


def test_emr_gets_spark_s_settings_and_hears_of_managed_scaling(tmp_path: Path) -> None:
    emr = {"spark.master": "yarn", "spark.emr.default.executor.cores": "1"}
    advice, notes = advised(log_of(tmp_path / "log", emr, "3.5.0-amzn-0"))
    assert f"{DA}maxExecutors" in advice["space"]
    assert told(notes, "On EMR: what to set is", "MinimumCapacityUnits")


def test_a_setting_that_was_asked_for_is_left_out_where_it_has_no_effect(tmp_path: Path) -> None:
    log = log_of(tmp_path / "log", {"spark.master": "yarn"})
    answer = tune(log, *QUICK, "--space", "spark.kubernetes.allocation.batch.size=5,10", "--json")
    assert "spark.kubernetes.allocation.batch.size" not in answer.document["searched"]["space"]
    assert told(answer.document["notes"], "spark.kubernetes.allocation.batch.size (YARN does not read it)")


def test_where_nothing_has_an_effect_nothing_is_tried(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log", {"spark.master": "local[1]"}, executors=1)
    page = tmp_path / "page.html"
    shown = tune(log, *QUICK, "--report", page)
    assert shown.code == 0
    assert "Nothing is worth changing" in " ".join(shown.out.split())
    assert "a local master does not read it" in " ".join(shown.out.split())
    assert "a local master does not read it" in page.read_text()
    advice, notes = advised(log)
    assert (advice["space"], advice["lines"]) == ({}, {})
    assert told(notes, "static counts (nothing asks a local master for a count of executors)")


def test_a_fleet_names_what_has_an_effect(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    for name, properties, version in (
        ("databricks", DATABRICKS, "3.4.1"),
        ("old", {"spark.master": "yarn"}, "2.4.8"),
        ("standalone", {"spark.master": "spark://master:7077"}, "4.3.0"),
        ("yarn", STATIC, "4.3.0"),
    ):
        log_of(logs / name, properties, version)
    out = tmp_path / "out.csv"
    answer = commands.answer("fleet", logs, "--within", "100%", "--jobs", "1", "--out", out)
    assert answer.code == 0, answer.err
    with out.open(newline="") as file:
        databricks, old, standalone, yarn = csv.DictReader(file)
    assert "static" in databricks["best"]
    assert databricks["best_conf"] == ""
    assert "num_workers" in databricks["left_out"]
    assert "static" in old["best"]
    assert "spark.executor.instances" in old["best_conf"]
    assert f"{DA}enabled" in old["left_out"]
    assert "before Spark 3.0" in old["left_out"]
    assert "spark.cores.max" in standalone["best_conf"] or f"{DA}enabled" in standalone["best_conf"]
    assert yarn["left_out"] == ""
