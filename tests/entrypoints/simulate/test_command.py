"""``podtide simulate`` as its user meets it: in this process by click's runner, and as a program of its own."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from podtide.adapters.recording.reader import Recording
from podtide.domain.protocol.executor_commands import RemoveExecutor
from podtide.domain.protocol.executor_stimuli import HeartbeatsStopped
from podtide.domain.protocol.pod_commands import CreatePod
from podtide.domain.protocol.reasons import Bound, Cause, Held, Phase
from podtide.entrypoints.simulate.command import START
from tests.support import commands
from tests.support.project import PROJECT
from tests.support.schemas import schema, validate

asked = partial(commands.answer, "simulate")
ran = partial(commands.ran, "simulate")

DEMO = PROJECT / "demo"
SCHEMA = schema("simulation")
K = "spark.kubernetes."
BATCH = ("--conf", f"{K}allocation.batch.size=1")

STEADY = """
nodes:
  groups:
    - {name: w, count: 10, cpu: 4, image-present: true}
stages:
  schedule: {delay: 1s}
  pulled: {delay: 1s}
  start: {delay: 1s}
  register: {delay: 2s}
executors: {rpc: 0s}
api: {latency: 100ms}
watch: {delay: 300ms}
"""
"""A cluster without chance: an executor registers 5.05 s after its pod was asked for."""


def document(*arguments: str | Path) -> Any:
    answer = asked(*arguments, "--json")
    assert answer.code == 0, answer.err
    told = json.loads(answer.out)
    validate(told, "simulation")
    return told


@pytest.fixture
def steady(tmp_path: Path) -> Path:
    path = tmp_path / "steady.yaml"
    path.write_text(STEADY)
    return path


# ------------------------------------------------------------------------------------------------- counted by hand


def test_a_target_without_limits(steady: Path) -> None:
    told = document("--cluster", steady, "--schedule", "0:3")
    (goal,) = told["targets"]
    # The start takes three calls one after the other, the claims one more; then the pod is asked for.
    assert goal["at_ms"] == START + 200
    assert goal["reached_ms"] == START + 300 + 200 + 5_050  # the third of three creations, one after the other
    assert told["pods"]["created"] == told["pods"]["registered"] == 3
    assert told["pods"]["wasted"] == told["pods"]["on_the_way"] == 0
    there = [300 + place * 100 + 5_050 for place in range(3)]
    assert told["pods"]["executor_seconds"] == pytest.approx(sum(told["duration_s"] - at / 1000 for at in there))
    assert told["pods"]["waiting_seconds"] == pytest.approx(
        sum(at - asked for at, asked in zip(there, _counted(3), strict=True)) / 1000
    )
    assert told["held"] == []
    assert told["calls"] == {
        "create_configmaps": 1, "create_pods": 3, "get_pods": 1, "list_persistentvolumeclaims": 1,
        "list_pods": int(told["duration_s"] // 30),
    }  # fmt: skip


def test_every_moment_until_the_target_has_one_cause(steady: Path) -> None:
    told = document("--cluster", steady, "--schedule", "0:3")
    # The claims are listed from 0.2 s on, then the pods are asked for until 0.6. The last one is there at 0.55, each of
    # its changes is seen 0.3 s later: on a node from 1.55, its container runs from 3.55, it registers at 5.55.
    assert told["targets"][0]["waited"] == [
        {"for": "container start", "duration_s": 2.0},
        {"for": "executor start", "duration_s": 1.7},
        {"for": "node", "duration_s": 1.0},
        {"for": "API call", "duration_s": 0.4},
        {"for": "pod not seen", "duration_s": 0.25},
    ]


@pytest.mark.parametrize(
    "arguments",
    [
        ("--schedule", "0:200", "--conf", f"{K}allocation.batch.size=5"),
        ("--schedule", "0:60,100:90,300:120", "--cluster", DEMO / "spot-cluster.yaml", "--duration", "20m"),
        ("--schedule", "0:40,150:90", "--cluster", DEMO / "yarn-cluster.yaml", "--duration", "20m"),
        ("--schedule", "0:12", "--conf", f"{K}allocation.pods.allocator=statefulset"),
    ],
)
def test_the_causes_of_a_target_sum_to_its_time(arguments: tuple[str | Path, ...]) -> None:
    told = document(*arguments, "--conf", "spark.executor.maxNumFailures=1000")
    for goal, following in zip(told["targets"], [*told["targets"][1:], None], strict=True):
        ends = told["duration_s"] if following is None else (following["at_ms"] - START) / 1000
        whole = goal["duration_s"] if goal["duration_s"] is not None else ends - (goal["at_ms"] - START) / 1000
        assert sum(round(wait["duration_s"] * 1000) for wait in goal["waited"]) == round(whole * 1000)


def _counted(pods: int) -> list[int]:
    """When each pod begins to count: when its creation is answered."""
    return [300 + (place + 1) * 100 for place in range(pods)]


def test_what_a_batch_size_of_one_costs(steady: Path) -> None:
    told = document("--cluster", steady, "--schedule", "0:3", *BATCH)
    held = {bound["bound"]: (bound["duration_s"], bound["pod_seconds"]) for bound in told["held"]}
    # Rounds begin at 0.2, 0.4 (made up for), 1.1, and 2.3 s: each asks for one pod, if the one before was seen.
    assert held == {
        "batch size": (pytest.approx(0.2 + 1.2), pytest.approx(0.2 * 2 + 1.2)),
        "unacknowledged pods": (pytest.approx(0.7), pytest.approx(0.7 * 2)),
    }
    assert told["targets"][0]["duration_s"] == pytest.approx(2.4 + 5.05 - 0.2)


def test_what_held_pods_back_sums_to_what_the_recording_says(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    told = document("--schedule", "0:60,40:10,90:200", "--record", path, *BATCH, "--duration", "3m")
    since: dict[tuple[Bound, int], int] = {}
    summed: dict[tuple[str, int], int] = {}
    created = 0
    with Recording(str(path)) as recording:
        for step in recording:
            created += sum(isinstance(command, CreatePod) for command in step.commands)
            for report in step.reports:
                if isinstance(report, Held):
                    key = (report.bound, report.profile)
                    if report.phase is Phase.BEGAN:
                        since[key] = report.at
                    elif report.phase is Phase.ENDED:
                        name = (report.bound.value, report.profile)
                        summed[name] = summed.get(name, 0) + report.at - since.pop(key)
    end = START + round(told["duration_s"] * 1000)
    for (bound, profile), at in since.items():
        summed[bound.value, profile] = summed.get((bound.value, profile), 0) + end - at
    listed = {(b["bound"], b["profile"]): round(b["duration_s"] * 1000) for b in (*told["held"], *told["kept"])}
    assert listed == summed
    assert told["calls"]["create_pods"] == created


def test_the_clusters_tally_agrees_with_the_drivers_view(steady: Path) -> None:
    told = document("--cluster", steady, "--schedule", "0:5,60:9,120:2", "--conf", f"{K}driver.pod.name=d")
    for verb, calls in told["calls"].items():
        assert told["cluster_tally"][f"calls_{verb}"] == calls
    assert told["cluster_tally"]["executors_registered"] == told["pods"]["registered"] == 9


HANGS = STEADY.replace(
    "{delay: 2s}", "{delay: 2s}\n  hangs: {from: registered, next: hung, delay: 30s, during: {until: 10s}}"
)
"""Who registers within the first ten seconds hangs 30 s later; those who come for them do not."""

FIXED = ("--conf", "spark.dynamicAllocation.enabled=false", "--conf", "spark.executor.instances=2")


@pytest.mark.parametrize(
    ("settings", "gone_s"),
    [
        # Registered after 5 s, silent from 25 to 35 s on; looked at every minute, given up when that is more than 120 s ago.
        ((), 180),
        (("spark.network.timeout=40s", "spark.network.timeoutInterval=38s"), 76),
        (("spark.storage.blockManagerHeartbeatTimeoutMs=70s",), 120),
    ],
)
def test_executors_that_hang_are_given_up_killed_and_replaced(
    tmp_path: Path, settings: Sequence[str], gone_s: int
) -> None:
    cluster, work, recorded = tmp_path / "c.yaml", tmp_path / "w.yaml", tmp_path / "run.jsonl"
    cluster.write_text(HANGS)
    work.write_text("jobs: {count: {stages: {map: {tasks: 2, duration: 60s}}}}")
    options = [part for setting in settings for part in ("--conf", setting)]
    told = document("--workload", work, "--cluster", cluster, *FIXED, *options, "--record", recorded)
    assert told["removals"] == {"heartbeat_timeout": 2}
    assert (told["pods"]["created"], told["pods"]["registered"]) == (4, 4), "they are replaced"
    (job,) = told["workload"]["jobs"]
    counts = [told["workload"][f"tasks_{outcome}"] for outcome in ("lost", "succeeded")]
    assert (job["ending"], counts) == ("succeeded", [2, 2])
    # Killed; 5 s later deleted, 30 s later gone, as they hear no SIGTERM; then seen, replaced, registered.
    assert (job["ended_ms"] - START) / 1_000 == pytest.approx(gone_s + 5 + 30 + 1 + 5 + 60, abs=2)
    removals: dict[str, list[RemoveExecutor]] = {}
    silent = set()
    with Recording(str(recorded)) as recording:
        for step in recording:
            silent |= {one.executor for one in step.stimuli if isinstance(one, HeartbeatsStopped)}
            for command in step.commands:
                if isinstance(command, RemoveExecutor) and command.why.cause is Cause.HEARTBEAT_TIMEOUT:
                    assert command.at == START + 1_000 * gone_s
                    removals.setdefault(command.executor, []).append(command)
    assert silent == set(removals) == {"1", "2"}
    for given in removals.values():
        assert [one.reason.kind for one in given] == ["ExecutorKilled", "ExecutorProcessLost"]
    again = commands.answer("replay", recorded)
    assert again.code == 0, again.out + again.err
    story = commands.answer("explain", recorded, "--executor", "1")
    assert "falls silent last heartbeat 0:" in story.words
    assert "ExecutorProcessLost: Executor heartbeat timed out after" in story.words


@pytest.mark.parametrize(("pause_s", "given_up", "ended_s"), [(60, 0, 5 + 60 + 60), (400, 2, 180 + 36 + 5 + 60)])
def test_executors_that_pause_go_on_unless_they_were_given_up(
    tmp_path: Path, pause_s: int, given_up: int, ended_s: int
) -> None:
    cluster, work = tmp_path / "c.yaml", tmp_path / "w.yaml"
    goes_on = f"goes-on: {{from: hung, next: registered, delay: {pause_s}s}}"
    cluster.write_text(HANGS.replace("executors:", f"  {goes_on}\nexecutors:"))
    work.write_text("jobs: {count: {stages: {map: {tasks: 2, duration: 60s}}}}")
    told = document("--workload", work, "--cluster", cluster, *FIXED)
    assert told["removals"] == ({"heartbeat_timeout": given_up} if given_up else {})
    assert (told["workload"]["tasks_lost"], told["workload"]["tasks_succeeded"]) == (given_up, 2)
    assert (told["workload"]["jobs"][0]["ended_ms"] - START) / 1_000 == pytest.approx(ended_s, abs=2)


def test_on_yarn_executors_of_a_crashed_machine_are_given_up_before_the_resource_manager_misses_it(
    tmp_path: Path,
) -> None:
    cluster = tmp_path / "c.yaml"
    groups = (
        "{groups: [{name: w, count: 3, memory: 8Gi, vcores: 4}], events: [{at: 1m, what: lose, group: w, stays: true}]}"
    )
    cluster.write_text(f"kind: yarn\nnodes: {groups}\n")
    yarn = ("--conf", "spark.master=yarn")
    told = document("--cluster", cluster, "--schedule", "0:6,600:6", *yarn, "--duration", "9m")
    assert told["removals"] == {"heartbeat_timeout": 2}
    assert told["containers"]["registered"] == 8, "they are replaced, and the machine is missed after ten minutes"


def test_pods_that_crash_are_wasted(tmp_path: Path) -> None:
    path = tmp_path / "crash.yaml"
    path.write_text(
        STEADY.replace("stages:", "stages:\n  crash: {from: running, next: failed, weight: 1000, exits: {9: 1}}")
    )
    told = document("--cluster", path, "--schedule", "0:4", "--conf", "spark.executor.maxNumFailures=5")
    assert told["exit_code"] == 11
    assert told["pods"]["registered"] == 0
    assert told["wasted_by"] == {"pod_failed": told["pods"]["wasted"]}
    assert told["pods"]["wasted"] >= 6
    assert "ended with exit code 11" in asked(
        "--cluster", path, "--schedule", "0:4", "--conf", "spark.executor.maxNumFailures=5"
    ).out.replace("\n    ", " ")


# ---------------------------------------------------------------------------------------------- reports and documents


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--schedule", "0:2"),
        ("--schedule", "0:2,30:3", "--conf", f"{K}allocation.pods.allocator=statefulset"),
        ("--workload", DEMO / "workload.yaml", "--cluster", DEMO / "spot-cluster.yaml", "--duration", "2m"),
        ("--workload", DEMO / "workload.yaml", "--duration", "90s", "--fix", "all"),
        ("--duration", "0"),
    ],
    ids=["static", "targets", "a set", "bad weather", "fixed", "no time"],
)  # fmt: skip
def test_every_document_is_in_the_schema(arguments: Sequence[str | Path]) -> None:
    told = document(*arguments)
    pods = told["pods"]
    assert pods["created"] <= pods["registered"] + pods["wasted"] + pods["on_the_way"]


def test_every_field_is_documented() -> None:
    text = (PROJECT / "docs" / "reference" / "formats.md").read_text()
    section = text.partition("## Simulation document")[2].partition("\n## ")[0]
    pods = [f".{name}" for name in SCHEMA["properties"]["pods"]["required"]]
    for name in (*SCHEMA["required"], *pods, *SCHEMA["properties"]["targets"]["items"]["required"]):
        if name not in ("schema", "pods", "profile"):
            assert f"{name}`" in section, name


def test_sets_are_plotted_and_counted_as_well() -> None:
    answer = asked("--schedule", "0:4", "--conf", f"{K}allocation.pods.allocator=deployment")
    assert "▓▓ registered" in answer.out
    told = document("--schedule", "0:4", "--conf", f"{K}allocation.pods.allocator=deployment")
    assert told["pods"]["created"] == told["pods"]["registered"] == 4
    assert max(one[3] for one in told["series"]["peak"]) == 4


def test_notes_say_what_is_to_be_known() -> None:
    def notes(*arguments: str) -> str:
        return " ".join(document(*arguments)["notes"])

    assert "before the demand was over" in notes("--schedule", "0:1,100:2", "--duration", "50s")
    assert "before the last target was reached" in notes("--schedule", "0:500", "--duration", "30s")
    assert "1 executor beyond the target" in notes("--schedule", "0:2,60:1")
    assert "dynamic allocation is off" in notes("--schedule", "0:1", "--conf", "spark.dynamicAllocation.enabled=true")
    roll = "spark.plugins=org.apache.spark.scheduler.cluster.k8s.ExecutorRollPlugin"
    warned = notes("--schedule", "0:1", "--conf", roll, "--conf", f"{K}executor.rollInterval=60s")
    assert "Spark warns: Disabled because spark.decommission.enabled is false." in warned
    assert notes("--schedule", "0:1") == ""


def test_the_properties_file_is_under_the_command_line(tmp_path: Path) -> None:
    path = tmp_path / "spark-defaults.conf"
    path.write_text(f"spark.executor.instances 5\n{K}allocation.batch.size 2\n")
    told = document("--properties-file", path, "--conf", "spark.executor.instances=1")
    assert told["conf"] == {"spark.executor.instances": "1", f"{K}allocation.batch.size": "2"}
    assert told["pods"]["created"] == 1


def test_what_spark_would_log_goes_to_a_file(tmp_path: Path) -> None:
    path = tmp_path / "driver.log"
    answer = asked("--schedule", "0:2", "--spark-log", path)
    assert answer.code == 0
    lines = path.read_text().splitlines()
    assert any("ExecutorPodsAllocator: Going to request 2 executors" in line for line in lines)
    assert [p.name for p in tmp_path.iterdir()] == ["driver.log"]


def test_the_spark_log_changes_no_decision(tmp_path: Path) -> None:
    plain = document("--schedule", "0:9,40:2", *BATCH)
    talking = document("--schedule", "0:9,40:2", *BATCH, "--spark-log", tmp_path / "log")
    for told in (plain, talking):
        del told["steps"]
    assert plain == talking


# --------------------------------------------------------------------------------------------------- the same again


def test_the_same_seed_is_the_same_to_the_byte_in_any_process(tmp_path: Path) -> None:
    arguments = (
        "--schedule",
        "0:20,60:50",
        "--cluster",
        DEMO / "spot-cluster.yaml",
        "--seed",
        "5",
        "--json",
        "--record",
    )
    answers = []
    for turn, hashes in enumerate(("0", "1234")):
        answers.append(ran(*arguments, tmp_path / f"{turn}.jsonl", env={"PYTHONHASHSEED": hashes}))
        assert answers[-1].code == 0, answers[-1].err
    assert answers[0].out == answers[1].out
    assert (tmp_path / "0.jsonl").read_bytes() == (tmp_path / "1.jsonl").read_bytes()


def test_another_seed_is_another_story(tmp_path: Path) -> None:
    for seed in ("1", "2"):
        assert asked("--schedule", "0:5", "--seed", seed, "--record", tmp_path / seed).code == 0
    assert (tmp_path / "1").read_bytes() != (tmp_path / "2").read_bytes()


def test_a_recording_can_be_written_to_standard_output() -> None:
    answer = ran("--schedule", "0:1", "--duration", "20s", "--record", "-")
    lines = answer.out.splitlines()
    assert json.loads(lines[0])["kind"] == "recording"
    assert "end" in json.loads(lines[-1])
    assert answer.err == ""


# ---------------------------------------------------------------------------------------------------------- refusals


def test_a_file_is_not_replaced_unless_that_is_said(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text("mine")
    answer = asked("--schedule", "0:1", "--record", path)
    assert (answer.code, answer.out) == (2, "")
    assert "exists already" in answer.err
    assert str(path) in answer.err
    assert path.read_text() == "mine"
    assert asked("--schedule", "0:1", "--record", path, "--overwrite").code == 0
    assert path.read_text().startswith('{"podtide":1,"kind":"recording"')


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["--schedule", "0:a"], 2, "--schedule: step 1"),
        (["--schedule", "0:5,9"], 2, "--schedule: step 2"),
        (["--schedule", ""], 2, "--schedule"),
        (["--schedule", "60:5,30:2"], 2, "--schedule"),
        (["--schedule", "0:99999999999"], 2, "--schedule"),
        (["--cluster", "nowhere.yaml"], 3, "nowhere.yaml"),
        (["--workload", "nowhere.yaml"], 3, "nowhere.yaml"),
        (["--conf", "oops"], 2, "oops"),
        (["--conf", f"{K}allocation.batch.size=0"], 2, f"{K}allocation.batch.size"),
        (["--conf", f"{K}allocation.pods.allocator=com.example.Mine"], 2, "allocator"),
        (["--properties-file", "nowhere.conf"], 2, "nowhere.conf"),
        (["--fix", "SPARK-1"], 2, "SPARK-1"),
        (["--duration", "soon"], 2, "--duration"),
        (["--duration", "4000d"], 2, "ten years at most"),
        (["--seed", "-1"], 2, "--seed"),
        (["--schedule", "0:1", "--workload", "x"], 2, "choose one"),
        (["--json", "--record", "-"], 2, "standard output"),
        (["--json", "--spark-log", "-"], 2, "standard output"),
        (["--record", "a", "--spark-log", "./a"], 2, "the same file"),
        (["--record", "no/such/folder/r"], 2, "no/such/folder/r"),
        (["--record", "r.gz"], 2, "r.gz"),
        (["--record", "r\0"], 2, "r"),
        (["--spark-log", "no/such/folder/l"], 2, "no/such/folder/l"),
        (["extra"], 2, "extra"),
    ],
    ids=str,
)
def test_what_cannot_be_used_is_named_and_leaves_nothing(
    arguments: list[str], code: int, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    answer = asked(*arguments)
    assert (answer.code, answer.out) == (code, "")
    assert told in answer.err
    assert "Traceback" not in answer.err
    assert list(tmp_path.iterdir()) == []


def test_a_broken_cluster_file_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text("api:\n  latency: 8ms\n  latencies: 9ms\n")
    answer = asked("--cluster", path)
    assert (answer.code, answer.out) == (3, "")
    assert f"{path}:3: api.latencies" in answer.err
