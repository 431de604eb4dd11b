"""Kubelets on the embedded API server: lives of pods as processes of a Spark whose java is a shell script."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from podtide.adapters.files.cluster import understand
from podtide.adapters.kubelet.spark_process import LocalSpark
from podtide.domain.api_faults.checks import process_problems
from podtide.domain.fakes.kubernetes.real_pods import of_processes, uniform
from tests.adapters.kubelet.play import PODS, Played, played
from tests.live.waiting import until
from tests.support.project import PROJECT

JAVA = """#!/bin/bash
echo "args $@"; echo "ip $SPARK_POD_IP dirs $SPARK_LOCAL_DIRS"
case "$SPARK_EXECUTOR_ID" in
  7) exit 3;;
  8) trap 'echo decommissioned; exit 0' PWR;;
  9) trap '' TERM;;
  10) "$PYTHON" -c 'import os, time; os.setpgid(0, 0); kept = b"x" * (96 << 20); time.sleep(600)' &
      echo $! >"$PIDS/worker";;
esac
echo "$$" >"$PIDS/$SPARK_EXECUTOR_ID"
while :; do sleep 0.02; done
"""


SUBMIT = """#!/bin/bash
echo "args $@"; echo "conf $SPARK_CONF_DIR kubeconfig $KUBECONFIG"; cat "$SPARK_CONF_DIR/spark.properties"
"""


@pytest.fixture
def spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalSpark:
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(JAVA)
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    (tmp_path / "spark" / "jars").mkdir(parents=True)
    submit = tmp_path / "spark" / "bin" / "spark-submit"
    submit.parent.mkdir()
    submit.write_text(SUBMIT)
    submit.chmod(0o755)
    return LocalSpark(tmp_path / "spark")


def test_pods_wait_for_room_and_are_spread(tmp_path: Path, spark: LocalSpark) -> None:
    with played(tmp_path, spark, uniform(2, 1)) as play:
        names = [play.executor(number, tmp_path) for number in range(1, 5)]
        until(lambda: play.kubelet.running() == 2, 20, every_s=0.01)
        nodes = [play.pod(name)["spec"].get("nodeName") for name in names]
        assert nodes == ["node-1", "node-2", None, None]
        play.delete(names[2], 0)  # while it waits
        play.delete(names[1], 0)
        play.reaches(names[3], "Running")
        assert play.pod(names[3])["spec"]["nodeName"] == "node-2"
        assert play.phase(names[2]) == "gone"


FAULTS = """
stages:
  crash: {from: registered, next: failed, delay: 300ms, weight: 1e9, profiles: [1], exits: {137: 1}}
  hangs: {from: registered, next: hung, delay: 300ms, weight: 1e9, profiles: [2]}
  pauses: {from: hung, next: registered, delay: 1s, weight: 1e9}
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the state of a process is read from /proc")
def test_processes_are_killed_and_stand_still_as_the_file_says(tmp_path: Path, spark: LocalSpark) -> None:
    description = of_processes(understand(FAULTS, beyond=process_problems), 1, 4)
    with played(tmp_path, spark, description) as play:
        stays, killed, stopped = (play.executor(number, tmp_path, profile=number - 1) for number in (1, 2, 3))
        play.reaches(killed, "Failed")
        state = play.pod(killed)["status"]["containerStatuses"][0]["state"]["terminated"]
        assert state["exitCode"] == 137
        until(lambda: process_state(tmp_path / "3") == "T", 20, every_s=0.01)
        assert play.phase(stopped) == "Running"
        until(lambda: process_state(tmp_path / "3") != "T", 20, every_s=0.01)  # it goes on
        assert play.phase(stays) == "Running"


def process_state(pids: Path) -> str:
    """R, S, T (stopped), ..."""
    if not pids.exists():
        return ""
    return Path(f"/proc/{int(pids.read_text())}/stat").read_text().rpartition(")")[2].split()[0]


@pytest.mark.parametrize("what", ["take back", "crash"])
def test_a_node_goes_with_its_processes_and_another_takes_those_who_wait(
    what: str, tmp_path: Path, spark: LocalSpark
) -> None:
    group = "{name: spot, count: 1, pods: 1, arrives: 100ms, notice: 1s}"
    nodes = f"groups: [{group}], orphaned: 200ms, events: [{{at: 2s, what: {what}, group: spot}}]"
    description = of_processes(understand(f"nodes: {{{nodes}}}", beyond=process_problems), 9, 9)
    with played(tmp_path, spark, description) as play:
        first = play.executor(1, tmp_path)
        play.reaches(first, "Running")
        until((tmp_path / "1").exists, 20)
        second = play.executor(2, tmp_path)
        play.reaches(first, "gone")
        assert not runs(tmp_path / "1")
        play.reaches(second, "Running")
        assert play.pod(second)["spec"]["nodeName"] == "spot-2"
        until(lambda: list(play.nodes()) == ["spot-2"], 20, every_s=0.01)


def test_an_executor_is_a_process(tmp_path: Path, spark: LocalSpark) -> None:
    with played(tmp_path, spark) as play:
        first, second = play.executor(1, tmp_path), play.executor(2, tmp_path)
        until(lambda: (tmp_path / "1").exists() and (tmp_path / "2").exists(), 20)
        for name in (first, second):
            play.reaches(name, "Running")
        addresses = {play.pod(name)["status"]["podIP"] for name in (first, second)}
        assert len(addresses) == 2  # each has its own ports
        text = play.call("get", f"/{first}/log").decode()
        assert f"ip {play.pod(first)['status']['podIP']} dirs {folder(play, tmp_path, first)}/local" in text
        assert "args -Dnine -Dten -Xms64m -Xmx512m" in text
        assert "--driver-url spark://here --executor-id 1 --cores 1 --app-id app" in text
        assert play.call("get", f"/{first}/log?tailLines=1").decode() == text.splitlines(keepends=True)[-1]

        assert play.kubelet.crash("2")
        play.reaches(second, "Failed")
        state = play.pod(second)["status"]["containerStatuses"][0]["state"]["terminated"]
        assert (state["exitCode"], state["reason"]) == (137, "Error")
        play.delete(first, 30)
        play.reaches(first, "gone")
        assert play.kubelet.exits == {second: 137, first: 143}
        assert not [path for path in (tmp_path / "kubelet").iterdir() if path.is_dir()]
        pid = int((tmp_path / "1").read_text())
        assert not Path(f"/proc/{pid}").exists()


def test_how_a_process_ends_by_itself_by_its_hook_and_at_the_end_of_its_grace(
    tmp_path: Path, spark: LocalSpark
) -> None:
    with played(tmp_path, spark) as play:
        play.reaches(play.executor(7, tmp_path), "Failed")
        decommissioned = play.executor(8, tmp_path, hook=True)
        deaf = play.executor(9, tmp_path)
        until(lambda: (tmp_path / "8").exists() and (tmp_path / "9").exists(), 20)
        play.delete(decommissioned, 30)
        play.delete(deaf, 1)
        for name in (decommissioned, deaf):
            play.reaches(name, "gone")
        assert play.kubelet.exits == {"exec-7": 3, decommissioned: 0, deaf: 137}
        assert b"decommissioned" in (tmp_path / "kubelet" / f"{decommissioned}.spark.log").read_bytes()


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
def test_memory_above_the_limit_kills_all_processes_of_the_pod(tmp_path: Path, spark: LocalSpark) -> None:
    with played(tmp_path, spark) as play:
        lean = play.executor(1, tmp_path, memory="64Mi")
        fat = play.executor(10, tmp_path, memory="64Mi")  # by a process in a group of its own, as PySpark's daemon
        play.reaches(fat, "Failed")
        state = play.pod(fat)["status"]["containerStatuses"][0]["state"]["terminated"]
        assert (state["exitCode"], state["reason"]) == (137, "OOMKilled")
        until(lambda: not runs(tmp_path / "worker"), 20)
        assert play.phase(lean) == "Running"


def test_what_an_ended_process_leaves_ends_with_it(tmp_path: Path, spark: LocalSpark) -> None:
    with played(tmp_path, spark) as play:
        name = play.executor(10, tmp_path)
        until(lambda: runs(tmp_path / "worker"), 20)
        play.delete(name, 30)
        play.reaches(name, "gone")
        until(lambda: not runs(tmp_path / "worker"), 20)


@pytest.mark.skipif(sys.platform != "linux", reason="PR_SET_PDEATHSIG is Linux's")
def test_a_process_ends_with_a_podtide_that_was_killed(tmp_path: Path) -> None:
    pids = tmp_path / "pid"
    program = (
        "import sys, time; from pathlib import Path; from podtide.adapters.kubelet.processes import begin_session;"
        "begun = begin_session(['sleep', '600'], {'PATH': '/usr/bin:/bin'}, Path('/'), 2);"
        "Path(sys.argv[1]).write_text(str(begun.pid)); time.sleep(600)"
    )
    parent = subprocess.Popen([sys.executable, "-c", program, str(pids)], env={"PYTHONPATH": str(PROJECT / ".typing")})
    try:
        until(lambda: pids.exists() and command_of(pids) == b"sleep", 20)
    finally:
        parent.kill()
        parent.wait()
    until(lambda: not runs(pids), 20)


def folder(play: Played, tmp_path: Path, name: str) -> Path:
    """The folder of a pod that is there."""
    return tmp_path / "kubelet" / str(play.pod(name)["metadata"]["uid"])


def runs(pids: Path) -> bool:
    """Whether the process of a file runs."""
    try:
        return b") Z" not in Path(f"/proc/{int(pids.read_text() or 0)}/stat").read_bytes()
    except FileNotFoundError:
        return False


def command_of(pids: Path) -> bytes:
    """The program that a process is by now."""
    return Path(f"/proc/{int(pids.read_text() or 1)}/cmdline").read_bytes().split(b"\0")[0].rpartition(b"/")[2]


def test_a_driver_waits_for_its_config_map_and_submits_from_it(tmp_path: Path, spark: LocalSpark) -> None:
    with played(tmp_path, spark) as play:
        arguments = ["driver", "--properties-file", "/opt/spark/conf/spark.properties", "local:///app.py"]
        container = {
            "name": "spark", "image": "i", "args": arguments,
            "env": [{"name": "SPARK_CONF_DIR", "value": "/opt/spark/conf"}, {"name": "D", "value": "/var/d"}],
            "volumeMounts": [{"name": "conf", "mountPath": "/opt/spark/conf"}, {"name": "dir", "mountPath": "/var/d"}],
        }  # fmt: skip
        volumes: list[Any] = [{"name": "conf", "configMap": {"name": "settings"}}, {"name": "dir", "emptyDir": {}}]
        play.create("deleted", containers=[container], volumes=volumes)
        play.create("driver", containers=[container], volumes=volumes)
        until(lambda: play.pod("driver")["spec"].get("nodeName") and play.pod("deleted")["spec"].get("nodeName"), 20)
        play.delete("deleted", 30)  # while it waits for what it mounts
        play.reaches("deleted", "gone")
        assert play.phase("driver") == "Pending"
        play.config_map("settings", {"spark.properties": "spark.driver.host=svc\nplace=/opt/spark/conf/x\n"})
        play.reaches("driver", "Succeeded")
        ip = play.pod("driver")["status"]["podIP"]
        conf = folder(play, tmp_path, "driver") / "volumes" / "conf"
        args, where, *properties = play.call("get", "/driver/log").decode().splitlines()
        assert f"--conf spark.driver.bindAddress={ip} " in args
        assert args.endswith(f"--deploy-mode client --properties-file {conf}/spark.properties local:///app.py")
        assert where == f"conf {conf} kubeconfig {tmp_path / 'kubeconfig'}"
        assert properties[:2] == ["spark.driver.host=svc", f"place={conf}/x"]
        assert properties[-2:] == [f"spark.driver.host={ip}", f"spark.driver.bindAddress={ip}"]


def test_no_process_outlives_the_kubelet(tmp_path: Path, spark: LocalSpark) -> None:
    with played(tmp_path, spark) as play:
        play.executor(9, tmp_path)
        until((tmp_path / "9").exists, 20)
    assert not Path(f"/proc/{int((tmp_path / '9').read_text())}").exists()


def test_a_log_is_followed_to_its_end(tmp_path: Path, spark: LocalSpark) -> None:
    with played(tmp_path, spark) as play:
        name = play.executor(1, tmp_path)
        until((tmp_path / "1").exists, 20)
        stream = play.api.stream("pods/log", f"{PODS}/{name}/log", query=[("follow", "true")], silence_s=20)
        pieces = stream.chunks()
        assert b"args" in next(pieces)
        play.delete(name, 30)
        assert list(pieces) in ([], [b""])  # the end
        with pytest.raises(AssertionError, match="sinceSeconds"):
            play.executor(2, tmp_path)
            until((tmp_path / "2").exists, 20)
            play.call("get", "/exec-2/log?sinceSeconds=5")
