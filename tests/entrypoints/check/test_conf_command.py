"""``podtide conf`` as its user sees it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from podtide.entrypoints.check.conf_command import conf

DA = "spark.dynamicAllocation."
ON = ("--conf", f"{DA}enabled=true", "--conf", "spark.master=k8s://https://api")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(conf, arguments)


def plain(*arguments: str) -> dict[str, Any]:
    result = run("--json", *arguments)
    found = json.loads(result.stdout)
    assert isinstance(found, dict)
    return found


def test_the_effective_config_in_lines() -> None:
    result = run(*ON, "--conf", f"{DA}maxExecutors=40")
    assert result.exit_code == 0
    lines = dict(line.split("\t", 1) for line in result.stdout.splitlines())
    assert lines[f"{DA}maxExecutors"] == "40\t--conf"
    assert lines[f"{DA}executorIdleTimeout"] == "60000ms\tdefault of Spark 4.3"
    assert lines["spark.executor.instances"].startswith("\t")
    assert "\x1b" not in result.stdout


def test_the_effective_config_as_one_object() -> None:
    found = plain(*ON, "--conf", f"{DA}minExecutors=2", "--conf", "spark.executor.instances=5")
    assert found["schema"] == "podtide/conf/1"
    assert found["spark"] == {"version": "4.3.0", "defaults": "4.3", "behaviour": "4.3.0"}
    assert found["dynamic_allocation"]["executors_initial"] == 5
    assert found["conf"][f"{DA}minExecutors"]["value"] == "2"
    assert found["conf"][f"{DA}minExecutors"]["origin"] == "--conf"
    assert found["errors"] == []
    assert {
        "level": "info",
        "text": "Dynamic allocation is enabled without a shuffle service.",
        "by": "spark",
    } in found["notices"]


def test_the_file_is_under_the_command_line(tmp_path: Path) -> None:
    file = tmp_path / "spark-defaults.conf"
    file.write_text(f"{DA}minExecutors 1\n{DA}maxExecutors 9\nspark.app.name x\n")
    found = plain("--properties-file", str(file), *ON, "--conf", f"{DA}maxExecutors=40")
    assert found["conf"][f"{DA}minExecutors"]["origin"] == "file spark-defaults.conf:1"
    assert found["conf"][f"{DA}maxExecutors"]["value"] == "40"
    assert found["unlisted"] == 1


@pytest.mark.parametrize(
    ("version", "size", "defaults"), [("3.5.1", "5", "3.5"), ("4.0.0", "10", "4.0"), ("3.3.0-amzn-0", "5", "3.3")]
)
def test_defaults_of_another_version(version: str, size: str, defaults: str) -> None:
    found = plain("--spark-version", version, "--all", "--conf", "spark.shuffle.service.enabled=true")
    assert found["spark"]["defaults"] == defaults
    assert found["conf"]["spark.kubernetes.allocation.batch.size"]["value"] == size


def test_all_shows_keys_that_the_version_knows() -> None:
    newer = "spark.kubernetes.allocation.maximum"
    assert newer in plain("--all")["conf"]
    assert newer not in plain("--all", "--spark-version", "3.5.0")["conf"]
    assert "spark.my.own" in plain("--all", "--conf", "spark.my.own=1")["conf"]
    assert "spark.my.own" not in plain("--conf", "spark.my.own=1")["conf"]


def test_all_errors_at_once() -> None:
    bad = ["oops", f"{DA}minExecutors=x", "spark.executor.heartbeatInterval=1.5s", f"{DA}executorAllocationRatio=3"]
    result = run(*ON, *(word for pair in bad for word in ("--conf", pair)))
    assert result.exit_code == 2
    errors = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    assert [error.split()[1] for error in errors] == [
        "oops", f"{DA}minExecutors", f"{DA}executorAllocationRatio", "spark.executor.heartbeatInterval",
    ]  # fmt: skip
    assert "4 errors" in result.stderr


def test_an_error_in_json_says_what_spark_throws() -> None:
    (error,) = plain(*ON, "--conf", f"{DA}maxExecutors=0")["errors"]
    assert error["key"] == f"{DA}maxExecutors"
    assert error["raised"] == f"org.apache.spark.SparkException: {DA}maxExecutors cannot be 0!"


def test_a_backend_that_would_not_start_is_an_error() -> None:
    result = run(*ON, "--conf", f"{DA}maxExecutors=4", "--conf", "spark.executor.instances=9")
    assert result.exit_code == 5
    assert "0 to 4 executors to begin with" in result.stderr


@pytest.mark.parametrize(
    ("master", "unread"),
    [
        ("spark://m:7077", ["spark.executor.memoryOverhead", "spark.kubernetes.namespace"]),
        ("yarn", ["spark.cores.max", "spark.kubernetes.namespace"]),
        ("k8s://https://api", ["spark.cores.max"]),
        ("local[2]", []),
    ],
)
def test_what_the_cluster_manager_does_not_read_is_said(master: str, unread: list[str]) -> None:
    given = (
        "spark.executor.memoryOverhead=1g",
        "spark.cores.max=8",
        "spark.kubernetes.namespace=x",
        f"{DA}maxExecutors=9",
    )
    result = run(*(word for one in (f"spark.master={master}", *given) for word in ("--conf", one)))
    said = "".join(line for line in result.stderr.splitlines() if "no effect on" in line)
    assert [one.partition("=")[0] for one in sorted(given) if one.partition("=")[0] in said] == sorted(unread)


TRACKING = f"{DA}shuffleTracking.enabled"
SERVICE = "spark.shuffle.service.enabled"
DECOMMISSION = "spark.decommission.enabled"
MIGRATION = "spark.storage.decommission.shuffleBlocks.enabled"
PENDING = ("spark.kubernetes.allocation.maxPendingPodsPerRp=9", "spark.kubernetes.allocation.maxPendingPods=3")


@pytest.mark.parametrize(
    ("version", "settings", "code", "blamed"),
    [
        ("2.4.8", (), 5, SERVICE),
        ("2.4.8", (f"{TRACKING}=true",), 5, SERVICE),
        ("2.4.8", (f"{SERVICE}=true",), 0, None),
        ("2.4.8", (f"{SERVICE}=true", f"{DA}shuffleTracking.timeout=-1s"), 0, None),
        ("2.4.8", (f"{SERVICE}=true", f"{DA}executorIdleTimeout=0"), 0, None),
        ("2.4.8", (f"{SERVICE}=true", "spark.task.cpus=2", "spark.master=spark://m:7077"), 5, "spark.task.cpus"),
        ("3.0.3", (f"{SERVICE}=true", "spark.task.cpus=2", "spark.master=spark://m:7077"), 0, None),
        ("3.0.3", (), 5, TRACKING),
        ("3.0.3", (f"{TRACKING}=true",), 0, None),
        ("3.0.3", (f"{TRACKING}=true", f"{DA}shuffleTracking.timeout=-1s"), 2, f"{DA}shuffleTracking.timeout"),
        ("3.0.3", (f"{DECOMMISSION}=true", f"{MIGRATION}=true"), 5, TRACKING),
        ("3.1.1", (f"{DECOMMISSION}=true", f"{MIGRATION}=true"), 0, None),
        ("3.3.4", (f"{DECOMMISSION}=true",), 5, TRACKING),
        ("3.4.0", (f"{DECOMMISSION}=true", f"{TRACKING}=false"), 0, None),
        ("3.3.4", (), 5, TRACKING),
        ("3.4.0", (), 0, None),
        ("3.5.1", (f"{TRACKING}=false",), 5, TRACKING),
        ("4.3.0", (f"{TRACKING}=false",), 5, TRACKING),
        ("3.5.1", (f"{DA}executorAllocationRatio=2",), 5, f"{DA}executorAllocationRatio"),
        ("4.0.0", PENDING, 0, None),
        ("4.1.0", PENDING, 5, "spark.kubernetes.allocation.maxPendingPodsPerRp"),
        ("4.2.0", ("spark.task.cpus=0.5",), 2, "spark.task.cpus"),
        ("4.3.0", ("spark.task.cpus=0.5",), 0, None),
        ("2.4.8", ("spark.executor.resource.gpu.x=1", f"{SERVICE}=true"), 0, None),
        ("3.4.0", ("spark.executor.resource.gpu.x=1",), 5, "spark.executor.resource.gpu.amount"),
    ],
)
def test_a_version_refuses_what_its_own_checks_do_and_only_that(
    version: str, settings: tuple[str, ...], code: int, blamed: str | None
) -> None:
    given = [word for setting in settings for word in ("--conf", setting)]
    result = run(*ON, "--spark-version", version, *given)
    assert result.exit_code == code, result.output
    if blamed is None:
        assert "error: " not in result.stderr
        return
    (error,) = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    assert error.startswith(f"error: {blamed}")
    assert "expected " in error
    assert f"1 error: Spark {version[:3]} would not start with this" in result.stderr


def test_what_an_earlier_spark_needs_is_said_with_its_version_and_own_words() -> None:
    (error,) = plain(*ON, "--spark-version", "2.4.8", "--conf", f"{TRACKING}=true")["errors"]
    assert error["key"] == SERVICE
    assert error["expected"] == "true: Spark 2.4 allocates dynamically with an external shuffle service only"
    assert error["raised"].endswith("You may enable this through spark.shuffle.service.enabled.")
    assert "without a shuffle service" not in run(*ON, "--spark-version", "2.4.8", "--conf", f"{TRACKING}=true").stderr
    off = run("--spark-version", "2.4.8")
    assert off.exit_code == 0
    assert f"With dynamic allocation Spark would refuse {SERVICE}" in off.stderr


def test_while_dynamic_allocation_is_off_its_own_checks_are_warnings() -> None:
    result = run("--conf", f"{DA}maxExecutors=0")
    assert result.exit_code == 0
    assert "With dynamic allocation Spark would refuse" in result.stderr
    assert run("--conf", f"{DA}maxExecutors=x").exit_code == 2


def test_mistaken_keys_are_pointed_out() -> None:
    result = run(*ON, "--conf", f"{DA}maxExecutor=40", "--conf", "hadoop.x=1")
    assert result.exit_code == 0
    assert f"did you mean {DA}maxExecutors?" in result.stderr
    assert "hadoop.x does not begin with spark." in result.stderr


def test_a_secret_that_is_an_error_is_not_shown() -> None:
    result = run("--json", "--conf", "spark.my.password=hunter2", "--conf", "spark.executor.cores=${spark.my.password}")
    assert result.exit_code == 2
    assert "hunter2" not in result.output


def test_control_characters_and_markup_are_harmless() -> None:
    nasty = "spark.kubernetes.namespace=[red]a\x1b[2Jb\u202e\nspark.x\t1"
    result = run("--all", "--conf", nasty)
    assert "\x1b" not in result.output
    assert "[red]a\\x1b[2Jb\\u202e\\nspark.x\\t1" in result.stdout
    assert json.loads(run("--all", "--json", "--conf", nasty).stdout)


@pytest.mark.parametrize("name", ["missing.conf", "."])
def test_a_file_that_cannot_be_read_has_its_own_exit_code(tmp_path: Path, name: str) -> None:
    result = run("--properties-file", str(tmp_path / name))
    assert (result.exit_code, result.stdout) == (3, "")
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("version", ["x", "", "latest"])
def test_a_version_that_is_none_is_a_usage_error(version: str) -> None:
    result = run("--spark-version", version)
    assert result.exit_code == 2
    assert "no version such as 3.5.1" in result.stderr


def test_a_terminal_gets_a_table(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    with pytest.raises(SystemExit) as ended:
        conf([*ON, "--conf", "spark.my.own=1", "--conf", f"{DA}schedulerBacklogTimeout=5"])
    out = capsys.readouterr().out
    assert ended.value.code == 0
    assert "upper bound of the target of each resource profile" in out
    assert "Dynamic allocation is on: 0 to 2147483647 executors" in out
    assert "1 other setting plays no part in this" in out
    (sustained,) = [line for line in out.splitlines() if "sustainedSchedulerBacklogTimeout" in line]
    assert "5s" in sustained
    assert "never" in out
