"""The commands as someone with a YARN application meets them, and those that are Kubernetes' alone."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from podtide.adapters.files.yarn_cluster import understand
from podtide.adapters.recording.reader import Recording
from podtide.adapters.text.documents import snake_case
from podtide.adapters.views.stats.yarn import GIVEN_BACK
from podtide.domain.fakes.yarn.description import ContainerPhase, racks
from podtide.domain.protocol.yarn_messages import MasterRegistered, ResourcesAnswered
from podtide.entrypoints import cli
from podtide.entrypoints.simulate.command import START
from tests.support.commands import answer as ran
from tests.support.schemas import validate

YARN = ("--conf", "spark.master=yarn")

CALM = """
kind: yarn
nodes:
  groups:
    - {name: w, count: 8, memory: 16Gi, vcores: 8, racks: [/east, /west]}
"""
STORM = """
kind: yarn
seed: 5
nodes:
  groups:
    - {name: w, count: 8, memory: 16Gi, vcores: 8, racks: [/east, /west], lost-per-hour: 4, decommissioned-per-hour: 4}
queue:
  memory: 40Gi
  vcores: 40
  preempts: true
  tenants: [{name: other, memory: 20Gi, vcores: 20, during: {from: 8s, until: 80s}}]
manager:
  faults: [{probability: 0.05}]
  mistakes: {surplus: 0.3, partial: 0.1, repeated: 0.1}
executors:
  launch-faults: [{probability: 0.15}]
  deaths: [{phase: running, per-hour: 120, statuses: {143: 1, -104: 1}}]
"""
NEAR = """
outputs: service
jobs:
  load:
    times: 3
    think: 15s
    stages:
      read: {tasks: 60, duration: {median: 10s, p90: 30s}, data: {hosts: [w-1, w-3, w-5], copies: 2}}
      write: {tasks: 10, duration: 5s, parents: [read]}
"""
DYNAMIC = (
    "--conf", "spark.shuffle.service.enabled=true", "--conf", "spark.executor.cores=2",
    "--conf", "spark.dynamicAllocation.executorIdleTimeout=10s", "--conf", "spark.executor.maxNumFailures=1000",
    "--conf", "spark.yarn.executor.launch.excludeOnFailure.enabled=true",
    "--conf", "spark.excludeOnFailure.application.maxFailedExecutorsPerNode=0",
    "--conf", "spark.excludeOnFailure.timeout=20s",
)  # fmt: skip


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Clusters, a workload, and a recording of each cluster under it."""
    folder = tmp_path_factory.mktemp("yarn")
    made = {name: folder / f"{name}.yaml" for name in ("calm", "storm", "near")}
    for name, text in (("calm", CALM), ("storm", STORM), ("near", NEAR)):
        made[name].write_text(text)
    for name in ("calm", "storm"):
        made[f"{name}.jsonl"] = folder / f"{name}.jsonl"
        arguments = ["simulate", "--cluster", made[name], "--workload", made["near"], *DYNAMIC, "--json"]
        result = CliRunner().invoke(cli.podtide, [str(one) for one in (*arguments, "--record", made[f"{name}.jsonl"])])
        assert result.exit_code == 0, result.output
        document = json.loads(result.stdout)
        validate(document, "simulation")
        made[f"{name}.json"] = folder / f"{name}.json"
        made[f"{name}.json"].write_text(result.stdout)
    return made


def answer(files: dict[str, Path], name: str) -> Any:
    return json.loads(files[f"{name}.json"].read_text())


# ------------------------------------------------------------------------------------------------------------ simulate


def test_a_cluster_that_behaves_gives_every_container_that_is_asked_for(files: dict[str, Path]) -> None:
    told = answer(files, "calm")
    boxes = told["containers"]
    assert "pods" not in told
    assert boxes["launched"] == boxes["registered"] + boxes["wasted"] + boxes["on_the_way"] > 0
    assert boxes["requested"] == boxes["cancelled"] + boxes["pending"] + sum(boxes["matched"].values())
    assert boxes["allocated"] == boxes["surplus"] + boxes["launched"]
    assert boxes["localized"] > 0
    assert boxes["matched"]["host"] > 0
    assert set(boxes["exits"]) == {snake_case(GIVEN_BACK)}
    assert told["hosts"] == {"excluded": 0, "included": 0, "decommissioning": 0}
    assert (told["exit_code"], told["ending"], told["rounds_threw"], told["calls_failed"]) == (None, None, 0, {})
    assert [job["ending"] for job in told["workload"]["jobs"]] == ["succeeded"] * 3
    (held,) = told["held"]
    assert held["bound"] == "waiting for the resource manager"
    assert held["container_seconds"] >= held["duration_s"] > 0


def test_bad_weather_is_counted(files: dict[str, Path]) -> None:
    told = answer(files, "storm")
    boxes = told["containers"]
    assert boxes["launched"] == boxes["registered"] + boxes["wasted"] + boxes["on_the_way"]
    assert boxes["launches_failed"] == told["calls_failed"]["launches"] > 0
    assert told["calls_failed"]["heartbeats_java_net_connectexception"] == told["rounds_threw"] > 0
    assert boxes["exits"].keys() > {snake_case(GIVEN_BACK), "exit_status_143", "too_much_memory_minus_104"}
    assert sum(boxes["exits"].values()) <= boxes["launched"]
    assert told["hosts"]["decommissioning"] == 0  # Spark looks at that with spark.decommission.enabled only


def test_the_same_seed_tells_the_same_story(files: dict[str, Path]) -> None:
    arguments = ("simulate", "--cluster", files["storm"], "--workload", files["near"], *DYNAMIC, "--json")
    code, out, _ = ran(*arguments)
    assert (code, out) == (0, files["storm.json"].read_text())
    other = json.loads(ran(*arguments, "--seed", "6")[1])
    assert other["containers"] != answer(files, "storm")["containers"]


def test_the_report_speaks_of_containers(files: dict[str, Path]) -> None:
    arguments = ("simulate", "--cluster", files["storm"], "--workload", files["near"], *DYNAMIC)
    code, out, err = ran(*arguments)
    words = " ".join(out.split())
    assert (code, err) == (0, "")
    assert "near their data on w-1, w-3, w-5" in words
    assert "on a wished host" in words
    assert "heartbeat failed java.net.ConnectException" in words
    assert "What held containers back" in words
    assert "the resource manager" in words
    assert "launches failed" in words
    assert "preempted (-102)" in words
    assert "pod" not in re.sub("podtide|simulated", "", words)


@pytest.mark.parametrize("master", ["yarn", "yarn-client", "yarn-cluster"])
def test_the_master_alone_chooses_a_yarn_cluster_that_behaves(master: str) -> None:
    arguments = ("simulate", "--conf", f"spark.master={master}", "--schedule", "0:5,60:8", "--json")
    code, out, err = ran(*arguments)
    told = json.loads(out)
    assert (code, err) == (0, "")
    assert [goal["target"] for goal in told["targets"]] == [5, 8]
    assert told["containers"]["registered"] == 8
    assert told["conf"] == {"spark.master": master}


def test_an_application_without_targets_gets_its_instances() -> None:
    boxes = json.loads(ran("simulate", *YARN, "--json")[1])["containers"]
    assert boxes["registered"] == 2  # Spark's default
    arguments = ("simulate", *YARN, "--conf", "spark.executor.instances=4", "--json")
    assert json.loads(ran(*arguments)[1])["containers"]["registered"] == 4


def test_targets_are_set_again_for_an_application_master_that_comes_anew(tmp_path: Path) -> None:
    cluster, record = tmp_path / "c.yaml", tmp_path / "r.jsonl"
    cluster.write_text("kind: yarn\nmaster: {restarts: [60s]}\n")
    arguments = ("simulate", "--cluster", cluster, "--schedule", "0:5", "--json", "--record", record)
    code, out, err = ran(*arguments)
    assert (code, err) == (0, "")
    told = json.loads(out)
    assert told["containers"]["registered"] == 10
    with Recording(str(record)) as opened:
        masters = [one.at for step in opened for one in step.stimuli if isinstance(one, MasterRegistered)]
    assert len(masters) == 2
    assert masters[1] > START + 60_000
    assert ran("replay", record, "--check")[0] == 0
    words = " ".join(ran("replay", record)[1].split())
    assert "a new application master" in words


def test_targets_of_other_profiles_get_containers(tmp_path: Path) -> None:
    workload = tmp_path / "w.yaml"
    workload.write_text("targets:\n  0s: {0: 2, 1: 3}\n")
    code, out, err = ran("simulate", *YARN, "--workload", workload, "--json")
    assert (code, err) == (0, "")
    told = json.loads(out)
    assert {(goal["profile"], goal["target"]) for goal in told["targets"]} == {(0, 2), (1, 3)}
    assert told["containers"]["registered"] == 5


def test_too_many_failures_end_the_application(tmp_path: Path) -> None:
    cluster = tmp_path / "c.yaml"
    cluster.write_text("kind: yarn\nexecutors: {deaths: [{phase: starting, share: 1, statuses: {1: 1}}]}\n")
    arguments = ("simulate", "--cluster", cluster, "--schedule", "0:5", "--conf", "spark.executor.maxNumFailures=4")
    code, out, err = ran(*arguments)
    words = " ".join(out.split())
    assert (code, err) == (0, "")
    message = "FAILED: Max number of executor failures (4) reached"
    assert f"The application was ended with exit code 11, {message}." in words
    told = json.loads(ran(*arguments, "--json")[1])
    assert (told["exit_code"], told["ending"]["status"]) == (11, "FAILED")


def test_every_container_that_was_given_is_accounted_for(tmp_path: Path) -> None:
    cluster = tmp_path / "c.yaml"
    cluster.write_text("kind: yarn\nmanager: {mistakes: {surplus: 0.3, small: 0.2}}\n")
    arguments = ("simulate", "--cluster", cluster, "--schedule", "0:10,60:50,300:0", "--duration", "10m")
    told = json.loads(ran(*arguments, "--json")[1])["containers"]
    left = told["allocated"] - told["launched"] - told["surplus"]
    assert left > 0
    words = " ".join(ran(*arguments)[1].split())
    assert f"left over {left} neither launched nor given back" in words


def test_containers_that_go_with_their_application_master_are_wasted(tmp_path: Path) -> None:
    cluster = tmp_path / "c.yaml"
    cluster.write_text("kind: yarn\nmaster: {restarts: [12s, 60s]}\nexecutors: {start: 10s}\n")
    told = json.loads(ran("simulate", "--cluster", cluster, "--schedule", "0:5", "--json")[1])
    boxes = told["containers"]
    assert boxes["launched"] == boxes["registered"] + boxes["wasted"] + boxes["on_the_way"]
    assert told["wasted_by"]["a_new_application_master"] > 0


def test_an_exception_that_ended_the_application_was_not_gone_over(tmp_path: Path) -> None:
    cluster = tmp_path / "c.yaml"
    cluster.write_text("kind: yarn\nmanager: {faults: [{fatal: true}]}\n")
    words = " ".join(ran("simulate", "--cluster", cluster, "--schedule", "0:5")[1].split())
    assert "rounds that threw 1" in words
    assert "The application was ended with exit code" in words
    assert "goes on" not in words


@pytest.mark.parametrize(
    ("master", "stray"),
    [("YARN", True), ("local[2]", True), ("yarn", False), ("yarn-client", False), ("k8s://https://x", False)],
)
def test_a_master_of_neither_side_is_told(master: str, stray: bool) -> None:
    arguments = ("simulate", "--schedule", "0:1", "--conf", f"spark.master={master}", "--duration", "30s", "--json")
    code, out, _ = ran(*arguments)
    assert code == 0
    said = f"spark.master = {master} (--conf) is neither yarn nor k8s://...: as on Kubernetes."
    assert (said in json.loads(out)["notes"]) is stray


@pytest.mark.parametrize(
    ("cluster", "master", "said"),
    [
        (CALM, "k8s://https://x", "expected yarn"),
        ("nodes: {groups: [{name: w, count: 1}]}\n", "yarn", "expected k8s://"),
        (CALM, "local[2]", "expected yarn"),
    ],
)
def test_a_cluster_of_the_other_kind_is_refused(tmp_path: Path, cluster: str, master: str, said: str) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(cluster)
    code, out, err = ran("simulate", "--cluster", file, "--conf", f"spark.master={master}")
    assert (code, out) == (2, "")
    assert said in err
    assert "spark.master" in err
    assert str(file) in err


def test_fixes_about_pods_change_nothing() -> None:
    arguments = ("simulate", *YARN, "--schedule", "0:1", "--fix", "SPARK-34519")
    code, out, _ = ran(*arguments)
    assert code == 0
    assert "SPARK-34519: about pods; nothing changes on YARN." in " ".join(out.split())


# ---------------------------------------------------------------------------------------------------- replay and check


@pytest.mark.parametrize("name", ["calm", "storm"])
def test_a_recording_is_decided_again_to_the_letter(files: dict[str, Path], name: str) -> None:
    code, out, err = ran("replay", files[f"{name}.jsonl"], "--check")
    assert (code, err) == (0, "")
    assert out.startswith("Agrees: ")


def test_racks_are_recorded_and_decide_again(files: dict[str, Path]) -> None:
    with Recording(str(files["calm.jsonl"])) as opened:
        racks = opened.header.racks
    assert racks["w-1"] == "/east"
    assert racks["w-2"] == "/west"
    assert len(racks) == 8


def test_a_recording_has_the_figures_of_its_simulation(files: dict[str, Path]) -> None:
    code, out, _ = ran("replay", files["storm.jsonl"], "--json")
    assert code == 0
    summary, simulated = json.loads(out)["summary"], answer(files, "storm")
    same = ("targets", "removals", "wasted_by", "calls", "calls_failed", "hosts", "rounds_threw", "exit_code")
    assert {key: summary[key] for key in same} == {key: simulated[key] for key in same}
    assert summary["containers"]["launched"] == simulated["containers"]["launched"]


def test_every_decision_can_be_read(files: dict[str, Path]) -> None:
    code, out, _ = ran("replay", files["storm.jsonl"], "--all")
    assert code == 0
    for said in (
        "request ",
        "cancel ",
        "heartbeat",
        "match ",
        "release ",
        "launch executor ",
        "exclude ",
        "why executor ",
    ):
        assert said in out


def test_another_conf_is_decided_otherwise_on_what_was_given_then(files: dict[str, Path]) -> None:
    pair = "spark.dynamicAllocation.executorIdleTimeout=3s"
    code, out, _ = ran("replay", files["calm.jsonl"], "--conf", pair)
    words = " ".join(out.split())
    assert code == 0
    assert "the resource manager gives what it gave then, and no container besides" in words
    assert "idle 3 s (timeout 3 s)" in words
    code, out, _ = ran("replay", files["calm.jsonl"], "--conf", pair, "--check")
    assert code == 1
    assert "Diverges: " in out


@pytest.mark.parametrize("profile", [-1, 7])
@pytest.mark.parametrize(
    "arguments", [("replay",), ("replay", "--conf", "spark.executor.memory=3g"), ("explain", "--at", "+60")]
)
def test_targets_of_a_profile_that_nobody_defined_are_refused(
    profile: int, arguments: tuple[str, ...], tmp_path: Path
) -> None:
    made, broken = tmp_path / "made.jsonl", tmp_path / "broken.jsonl"
    assert ran("simulate", *YARN, "--schedule", "0:2,30:3", "--record", made)[0] == 0
    lines = made.read_text().splitlines()
    number = max(at for at, line in enumerate(lines) if '"TargetsSet"' in line)
    lines[number] = lines[number].replace("[[0,3]]", f"[[{profile},3]]")
    broken.write_text("\n".join(lines) + "\n")
    code, _, err = ran(arguments[0], broken, *arguments[1:])
    assert (code, f":{number + 1}: a target of resource profile {profile}: expected" in err) == (3, True)


def test_a_recording_stays_on_its_side(files: dict[str, Path]) -> None:
    code, out, err = ran("replay", files["calm.jsonl"], "--conf", "spark.master=k8s://https://x")
    assert (code, out) == (2, "")
    assert "the recording is of an application on YARN" in err


# ------------------------------------------------------------------------------------------------------------- explain


def first_containers(path: Path) -> ResourcesAnswered:
    """The first answer that gave containers."""
    with Recording(str(path)) as opened:
        return next(
            one for step in opened for one in step.stimuli if isinstance(one, ResourcesAnswered) and one.allocated
        )


def test_the_story_of_an_executor_is_the_story_of_its_container(files: dict[str, Path]) -> None:
    code, out, err = ran("explain", files["calm.jsonl"], "--executor", "1", "--json")
    assert (code, err) == (0, "")
    story = json.loads(out)["story"]
    (given,) = first_containers(files["calm.jsonl"]).allocated[:1]
    assert (story["container"], story["host"]) == (given.id, given.host)
    told = [entry["what"] for entry in story["entries"]]
    for what in ("requested", "given", "matched", "launch ended", "registers", "first task", "killed", "completed"):
        assert told.count(what) == 1, what
    stages = [stage["stage"] for stage in story["stages"]]
    assert stages == [
        "requested, not given", "given, being launched", "launched, not registered", "registered", "told to go", "gone",
    ]  # fmt: skip
    times = [entry["at_ms"] for entry in story["entries"]]
    assert times == sorted(times)
    (asked,) = [entry for entry in story["entries"] if entry["what"] == "requested"]
    assert set(asked["hosts"]) == {"w-1", "w-3", "w-5"}
    (ended,) = [entry for entry in story["entries"] if entry["what"] == "completed"]
    assert ended["given_back"] is True


def test_the_container_may_be_named_instead(files: dict[str, Path]) -> None:
    named = first_containers(files["calm.jsonl"]).allocated[0].id
    mine = json.loads(ran("explain", files["calm.jsonl"], "--executor", named, "--json")[1])["story"]
    its = json.loads(ran("explain", files["calm.jsonl"], "--executor", "1", "--json")[1])["story"]
    assert mine == its


def test_a_container_that_nobody_wanted_has_a_story(files: dict[str, Path]) -> None:
    records = json.loads(ran("replay", files["storm.jsonl"], "--json")[1])["decisions"]
    surplus = next(one for one in records if one["command"] == "releaseContainers" and one["cause"] == "surplus")
    code, out, _ = ran("explain", files["storm.jsonl"], "--executor", surplus["containers"][0])
    words = " ".join(out.split())
    assert code == 0
    assert "given back, no executor was started in it" in words
    assert "no request wants them" in words


def test_an_executor_that_failed_says_whose_fault_it_was(files: dict[str, Path]) -> None:
    records = json.loads(ran("replay", files["storm.jsonl"], "--json")[1])["decisions"]
    failed = next(
        one for one in records if one["command"] == "removeExecutor" and one["reason"].get("exit_code") == 143
    )
    code, out, _ = ran("explain", files["storm.jsonl"], "--executor", failed["executor"])
    words = " ".join(out.split())
    assert code == 0
    assert "exit status 143 · the application's fault" in words
    assert "counts as a failure" in words
    assert "Container from a bad node" in words


def test_a_moment_shows_the_books_of_the_application_master(files: dict[str, Path]) -> None:
    code, out, err = ran("explain", files["calm.jsonl"], "--at", "+3", "--json")
    assert (code, err) == (0, "")
    moment = json.loads(out)["moment"]
    profile = moment["profiles"]["0"]
    assert profile["pending"] == profile["local"] + profile["stale"] + profile["anywhere"]
    assert profile["target"] == profile["running"] + profile["starting"] + profile["pending"]
    assert moment["cluster_nodes"] == 8
    assert moment["failures"]["counted"] == 0
    words = " ".join(ran("explain", files["calm.jsonl"], "--at", "+3")[1].split())
    assert "Targets and containers as the application master counts them" in words


def test_an_executor_that_never_was_is_refused(files: dict[str, Path]) -> None:
    code, out, err = ran("explain", files["calm.jsonl"], "--executor", "99999")
    assert (code, out) == (2, "")
    assert "nothing is recorded of an executor 99999; it launched executors 1 to" in err


# ----------------------------------------------------------------------------------------------------------------- fit


def test_a_fitted_cluster_has_the_nodes_the_queue_and_the_troubles_of_the_recorded_one(files: dict[str, Path]) -> None:
    code, out, err = ran("fit", files["storm.jsonl"])
    assert (code, err) == (0, "")
    fitted = understand(out)
    assert {host: rack for host, rack in racks(fitted).items() if host.startswith("w-")} == {
        f"w-{number}": "/east" if number % 2 else "/west" for number in range(1, 9)
    }
    assert fitted.queue.memory_mib is not None
    assert 20 * 1024 <= fitted.queue.memory_mib <= 40 * 1024  # what a tenant takes is seen as not there
    assert fitted.manager.faults[0].probability == pytest.approx(0.05, abs=0.04)
    assert fitted.executors.launch_faults[0].probability == pytest.approx(0.15, abs=0.1)
    died = next(death for death in fitted.executors.deaths if death.phase is ContainerPhase.RUNNING)
    assert {143, -104} <= {status for status, _ in died.statuses}
    assert "observations" in out


def test_a_fitted_cluster_behaves_like_the_recorded_one(files: dict[str, Path], tmp_path: Path) -> None:
    cluster = tmp_path / "fitted.yaml"
    assert ran("fit", files["calm.jsonl"], "--out", cluster)[0] == 0
    arguments = ("simulate", "--cluster", cluster, "--workload", files["near"], *DYNAMIC, "--json")
    again, before = json.loads(ran(*arguments)[1]), answer(files, "calm")
    assert again["containers"]["launched"] == pytest.approx(before["containers"]["launched"], rel=0.2)
    assert again["containers"]["executor_seconds"] == pytest.approx(before["containers"]["executor_seconds"], rel=0.2)
    assert again["containers"]["waiting_seconds"] == pytest.approx(before["containers"]["waiting_seconds"], rel=0.4)


# ------------------------------------------------------------------------------------------------------ conf and others


def test_conf_says_what_a_container_is() -> None:
    arguments = ("conf", *YARN, "--conf", "spark.executor.memory=8g", "--conf", "spark.executor.cores=4", "--json")
    code, out, _ = ran(*arguments)
    yarn = json.loads(out)["yarn"]
    assert code == 0
    assert (yarn["container_memory_mib"], yarn["container_vcores"], yarn["executor_heap_mib"]) == (9_011, 4, 8_192)
    assert (yarn["heartbeat_ms"], yarn["heartbeat_waiting_ms"], yarn["failures_max"]) == (3_000, 200, 3)
    assert "yarn" not in json.loads(ran("conf", "--conf", "spark.master=k8s://x", "--json")[1])


@pytest.mark.parametrize(
    ("master", "key", "side"),
    [("yarn", "spark.kubernetes.namespace", "YARN"), ("k8s://x", "spark.yarn.queue", "Kubernetes")],
)
def test_conf_names_settings_of_the_other_side(master: str, key: str, side: str) -> None:
    code, _, err = ran("conf", "--conf", f"spark.master={master}", "--conf", f"{key}=x")
    assert code == 0
    assert f"{key} has no effect on {side}" in err


def test_conf_refuses_what_the_application_master_would() -> None:
    pair = "spark.yarn.executor.resource.memory.amount=4g"
    code, _, err = ran("conf", *YARN, "--conf", pair)
    assert code == 5
    assert "spark.executor.memory" in err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("run", "--app-id", "a"), "no adapter for a live resource manager"),
        (("pod",), "there are no pods on YARN"),
    ],
)
@pytest.mark.parametrize("master", ["yarn", "yarn-client"])
def test_what_only_kubernetes_has_is_refused_with_the_reason(
    arguments: tuple[str, ...], said: str, master: str
) -> None:
    code, out, err = ran(*arguments, "--conf", f"spark.master={master}")
    assert (code, out) == (2, "")
    assert said in err
    assert f"spark.master={master}" in err
