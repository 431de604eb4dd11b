"""Pods of any commands as processes: containers in order, restarts, volumes, variables, the end of a pod."""

from __future__ import annotations

import json
import os
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from podtide.adapters.kubelet.container_paths import expanded, moved
from podtide.adapters.kubelet.spark_process import LocalSpark
from tests.adapters.kubelet.play import OBJECTS, Played, played
from tests.live.waiting import until

SPARK = LocalSpark(Path("/nowhere"))
DATA: dict[str, Any] = {"name": "data", "emptyDir": {}}
MOUNT = {"name": "data", "mountPath": "/data"}


def log(play: Played, pod: str, container: str, **options: str) -> str:
    query = [("container", container), *options.items()]
    answer = play.api.call("get", "pods/log", f"{OBJECTS}/pods/{pod}/log", query=query)
    assert answer.ok, answer
    return answer.body.decode()


def ended(play: Played, pod: str) -> dict[str, int]:
    """Exit codes by container, of those that have ended."""
    status = play.pod(pod)["status"]
    rows = [*status.get("initContainerStatuses", ()), *status["containerStatuses"]]
    return {row["name"]: row["state"]["terminated"]["exitCode"] for row in rows if "terminated" in row["state"]}


def test_init_containers_run_in_order_and_a_sidecar_beside_the_rest(tmp_path: Path) -> None:
    wait = "until [ -e /data/beside ]; do sleep 0.02; done"
    with played(tmp_path, SPARK) as play:
        inits = [
            play.shell("one", "echo 1 >>/data/order", volumeMounts=[MOUNT]),
            play.shell(
                "beside",
                "trap 'echo stopped >>/data/order; cat /data/order; exit 0' TERM; : >/data/beside; "
                "while :; do sleep 0.02; done",
                restartPolicy="Always",
                volumeMounts=[MOUNT],
            ),
            play.shell("two", f"{wait}; echo 2 >>/data/order", volumeMounts=[MOUNT]),
        ]
        main = play.shell("main", "echo 3 >>/data/order; exit 0", volumeMounts=[MOUNT])
        play.create("pod", initContainers=inits, containers=[main], volumes=[DATA])
        play.reaches("pod", "Succeeded")
        assert log(play, "pod", "beside").split() == ["1", "2", "3", "stopped"]
        assert ended(play, "pod") == {"one": 0, "beside": 0, "two": 0, "main": 0}


def test_a_pod_whose_init_container_fails_never_begins(tmp_path: Path) -> None:
    with played(tmp_path, SPARK) as play:
        play.create("pod", initContainers=[play.shell("one", "exit 4")], containers=[play.shell("main", "exit 0")])
        play.reaches("pod", "Failed")
        assert ended(play, "pod") == {"one": 4}
        until(lambda: play.kubelet.exits == {"pod": 4}, 20)


@pytest.mark.parametrize(("policy", "restarts", "phase"), [("OnFailure", 3, "Succeeded"), ("Never", 0, "Failed")])
def test_what_ends_is_begun_again_as_the_policy_says(tmp_path: Path, policy: str, restarts: int, phase: str) -> None:
    script = 'echo x >>/data/tries; n=$(wc -l </data/tries); echo "try $n"; [ "$n" -ge 4 ]'
    with played(tmp_path, SPARK, back_off_s=0.05) as play:
        container = play.shell("main", script, volumeMounts=[MOUNT])
        play.create("pod", containers=[container], volumes=[DATA], restartPolicy=policy)
        play.reaches("pod", phase)
        assert play.pod("pod")["status"]["containerStatuses"][0]["restartCount"] == restarts
        assert log(play, "pod", "main") == f"try {restarts + 1}\n"
        if restarts:
            assert log(play, "pod", "main", previous="true") == f"try {restarts}\n"


def test_a_crash_loop_waits_and_ends_with_the_pod(tmp_path: Path) -> None:
    with played(tmp_path, SPARK, back_off_s=600) as play:
        play.create("pod", containers=[play.shell("main", "exit 0")], restartPolicy="Always")
        row = until(lambda: looping(play.pod("pod")), 20, every_s=0.01)
        assert row["restartCount"] == 1  # the first time at once
        assert row["lastState"]["terminated"]["exitCode"] == 0
        assert play.phase("pod") == "Running"
        play.delete("pod", 30)
        play.reaches("pod", "gone")


def looping(pod: Any) -> Any:
    rows = pod["status"].get("containerStatuses") or [{"state": {}}]
    return rows[0] if rows[0]["state"].get("waiting", {}).get("reason") == "CrashLoopBackOff" else None


def test_a_program_that_is_not_there_is_told_of(tmp_path: Path) -> None:
    with played(tmp_path, SPARK) as play:
        play.create("pod", containers=[{"name": "main", "image": "i", "command": ["no-such-program"]}])
        play.reaches("pod", "Failed")
        over = play.pod("pod")["status"]["containerStatuses"][0]["state"]["terminated"]
        assert (over["exitCode"], over["reason"]) == (128, "StartError")
        assert "no-such-program: there is no such program" in over["message"]


def test_each_container_of_a_deleted_pod_has_its_hook_its_signal_and_its_grace(tmp_path: Path) -> None:
    obeys = "trap 'cat /data/hook; exit 7' TERM; : >/data/one; while :; do sleep 0.02; done"
    hook = {"preStop": {"exec": {"command": ["bash", "-c", "echo hook on $POD >/data/hook"]}}}
    deaf = "trap '' TERM; : >/data/two; while :; do sleep 0.02; done"
    pod = {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    slow = {"preStop": {"sleep": {"seconds": 600}}}
    with played(tmp_path, SPARK) as play:
        containers = [
            play.shell("obeys", obeys, lifecycle=hook, env=[pod], volumeMounts=[MOUNT]),
            play.shell("deaf", deaf, lifecycle=slow, volumeMounts=[MOUNT]),
        ]
        play.create("pod", containers=containers, volumes=[DATA])
        play.reaches("pod", "Running")
        folder = tmp_path / "kubelet" / play.pod("pod")["metadata"]["uid"] / "volumes" / "data"
        until(lambda: (folder / "one").exists() and (folder / "two").exists(), 20)
        play.delete("pod", 1)
        play.reaches("pod", "gone")
        assert (tmp_path / "kubelet" / "pod.obeys.log").read_text() == "hook on pod\n"
        assert play.kubelet.exits == {"pod": 7}


def test_variables_come_from_everywhere(tmp_path: Path) -> None:
    with played(tmp_path, SPARK) as play:
        play.config_map("settings", {"colour": "red", "size": "9"})
        play.make("secrets", "Secret", "keys", data={"word": b64encode(b"open sesame").decode()})
        env: list[dict[str, Any]] = [
            {"name": "COLOUR", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "colour"}}},
            {"name": "WORD", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "word"}}},
            {"name": "NONE", "valueFrom": {"secretKeyRef": {"name": "away", "key": "word", "optional": True}}},
            {"name": "TEAM", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['spark-exec-id']"}}},
            {"name": "MIB", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}}},
            {"name": "BOTH", "value": "$(COLOUR)/$(WORD)/$$(WORD)/$(NOWHERE)"},
        ]
        script = 'echo "$COLOUR|$WORD|${NONE-unset}|$TEAM|$MIB|$BOTH|$P_size|$HOSTNAME"'
        container = play.shell("main", script, env=env, resources={"limits": {"memory": "1500k"}})
        container["envFrom"] = [{"prefix": "P_", "configMapRef": {"name": "settings"}}]
        play.create("pod-5", containers=[container])
        play.reaches("pod-5", "Succeeded")
        told = "red|open sesame|unset|5|2|red/open sesame/$(WORD)/$(NOWHERE)|9|pod-5\n"
        assert log(play, "pod-5", "main") == told


def test_volumes_are_folders_with_files_and_modes(tmp_path: Path) -> None:
    (tmp_path / "host").mkdir()
    (tmp_path / "host" / "file").write_text("of the host")
    token = {"serviceAccountToken": {"path": "t"}}
    labels = {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}
    volumes: list[dict[str, Any]] = [
        {
            "name": "settings",
            "configMap": {"name": "settings", "items": [{"key": "a", "path": "deep/a", "mode": 0o640}]},
        },
        {"name": "keys", "secret": {"secretName": "keys", "defaultMode": 0o400}},
        {"name": "self", "downwardAPI": {"items": [labels]}},
        {"name": "all", "projected": {"sources": [token, {"configMap": {"name": "settings"}}]}},
        {"name": "host", "hostPath": {"path": str(tmp_path / "host"), "type": "Directory"}},
    ]
    mounts = [{"name": volume["name"], "mountPath": f"/mnt/{volume['name']}"} for volume in volumes]
    mounts.append({"name": "all", "mountPath": "/mnt/b", "subPath": "b"})
    script = (
        "stat -c %a /mnt/settings/deep/a; ls /mnt/settings; stat -c %a /mnt/keys/k; cat /mnt/keys/k; cat /mnt/self/labels; "
        "echo; cat /mnt/all/a /mnt/b; cat /mnt/host/file; echo; cmp /mnt/all/t $A/token && cat $A/namespace"
    )
    env = [{"name": "A", "value": "/var/run/secrets/kubernetes.io/serviceaccount"}]
    with played(tmp_path, SPARK) as play:
        play.config_map("settings", {"a": "1\n", "b": "2\n"})
        play.make("secrets", "Secret", "keys", stringData={"k": "hidden\n"})
        play.create("pod-3", containers=[play.shell("main", script, volumeMounts=mounts, env=env)], volumes=volumes)
        play.reaches("pod-3", "Succeeded")
        lines = log(play, "pod-3", "main").split("\n")
        assert lines == ["640", "deep", "400", "hidden", 'spark-exec-id="3"', "1", "2", "of the host", "default"]
        assert (tmp_path / "host" / "file").exists()  # it outlives the pod


def test_a_claim_keeps_what_pods_leave_and_goes_with_its_folder(tmp_path: Path) -> None:
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "kept"}}
    with played(tmp_path, SPARK) as play:
        play.create(
            "writer", containers=[play.shell("m", "echo left >/data/x", volumeMounts=[MOUNT])], volumes=[volume]
        )
        until(lambda: "kept not found" in json.dumps(play.pod("writer")["status"]), 20)  # it waits for it
        play.claim("kept", "ReadWriteOncePod")
        play.reaches("writer", "Succeeded")
        claim = claim_of(play)
        assert (claim["status"]["phase"], claim["status"]["capacity"]) == ("Bound", {"storage": "1Gi"})
        volumes = f"/api/v1/persistentvolumes/{claim['spec']['volumeName']}"
        bound = json.loads(play.api.call("get", "persistentvolumes", volumes).body)
        assert (bound["status"]["phase"], bound["spec"]["claimRef"]["name"]) == ("Bound", "kept")

        stays = play.shell("m", "cat /data/x; : >/data/here; while :; do sleep 0.02; done", volumeMounts=[MOUNT])
        play.create("reader", containers=[stays], volumes=[volume])
        place = Path(bound["spec"]["hostPath"]["path"])
        until((place / "here").exists, 20)
        assert log(play, "reader", "m") == "left\n"
        play.create("other", containers=[play.shell("m", "ls /data", volumeMounts=[MOUNT])], volumes=[volume])
        until(lambda: "kept is in use" in json.dumps(play.pod("other")["status"]), 20)
        play.delete("reader", 30)
        play.reaches("other", "Succeeded")

        play.api.call("delete", "persistentvolumeclaims", f"{OBJECTS}/persistentvolumeclaims/kept")
        for name in ("writer", "reader", "other"):
            play.delete(name, 0)
        until(lambda: not place.exists(), 20)
        until(lambda: play.api.call("get", "persistentvolumes", volumes).status == 404, 20)


def claim_of(play: Played) -> Any:
    return json.loads(play.api.call("get", "persistentvolumeclaims", f"{OBJECTS}/persistentvolumeclaims/kept").body)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        (
            {"volumeMounts": [MOUNT]},
            "neither command, arguments nor environment name /data; give the path in a variable",
        ),
        ({"command": None}, "container main: there is no image whose entrypoint could be run"),
        ({"livenessProbe": {"exec": {"command": ["x"]}}}, "container main: probes are not run"),
        ({"lifecycle": {"preStop": {"httpGet": {"port": 1}}}}, "only exec and sleep are run"),
        ({"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.x"}}}]}, "no field spec.x"),
        ({"env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "map", "key": "x"}}}]}, "has no key x"),
    ],
)
def test_what_cannot_be_run_as_it_says_fails_with_a_reason(tmp_path: Path, changes: dict[str, Any], why: str) -> None:
    with played(tmp_path, SPARK) as play:
        play.config_map("map", {})
        container = play.shell("main", ": >ran") | changes
        play.create("pod", containers=[{key: value for key, value in container.items() if value}], volumes=[DATA])
        play.reaches("pod", "Failed")
        assert why in play.pod("pod")["status"]["message"]
        assert not (tmp_path / "kubelet" / "pod.main.log").exists()


@pytest.mark.parametrize("volume", [{"nfs": {"server": "s", "path": "/"}}, {"configMap": {"items": "../../x"}}])
def test_volumes_that_cannot_be_made_fail_the_pod(tmp_path: Path, volume: dict[str, Any]) -> None:
    if "configMap" in volume:
        volume = {"configMap": {"name": "map", "items": [{"key": "a", "path": volume["configMap"]["items"]}]}}
    with played(tmp_path, SPARK) as play:
        play.config_map("map", {"a": "x"})
        play.create(
            "pod", containers=[play.shell("m", "ls /data", volumeMounts=[MOUNT])], volumes=[{"name": "data", **volume}]
        )
        play.reaches("pod", "Failed")
        message = play.pod("pod")["status"]["message"]
        assert "volume data: volumes of the kind nfs" in message or "../../x leads out of the volume" in message
        # Not rglob: the pod's folder may go while it is looked through.
        assert not [name for _, _, names in os.walk(tmp_path / "kubelet") for name in names if name == "x"]


def test_memory_is_each_containers_own(tmp_path: Path) -> None:
    """What one container may have is not taken from another: the one above its limit is killed and begun again."""
    script = "[ -e /data/twice ] || { : >/data/twice; x=$(head -c 99999999 /dev/zero | tr '\\0' x); }; sleep 600; true"
    # A last command would take the shell's place, and what it holds would be gone before it is looked at.
    with played(tmp_path, SPARK) as play:
        fat = play.shell("fat", script, resources={"limits": {"memory": "64Mi"}}, volumeMounts=[MOUNT])
        lean = play.shell("lean", "sleep 600", resources={"limits": {"memory": "64Mi"}})
        play.create("pod", containers=[fat, lean], volumes=[DATA], restartPolicy="OnFailure")
        until(lambda: [row["restartCount"] for row in rows(play)] == [1, 0], 30)
        over = rows(play)[0]["lastState"]["terminated"]
        assert (over["exitCode"], over["reason"]) == (137, "OOMKilled")
        play.delete("pod", 0)
        play.reaches("pod", "gone")


def rows(play: Played) -> Any:
    return play.pod("pod")["status"].get("containerStatuses", [])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("/data", "/x/v"),
        ("--in=/data/a --out=/data", "--in=/x/v/a --out=/x/v"),
        ("file:///data/a:/data/sub/b", "file:///x/v/a:/y/b"),
        ("/database /my/data data /data.old", "/database /my/data data /data.old"),
        ("/x/v", "/x/v"),
    ],
)
def test_paths_are_moved_where_they_stand_whole(text: str, said: str) -> None:
    places = {"/data": Path("/x/v"), "/data/sub": Path("/y"), "/x": Path("/data")}
    assert moved(text, {key: place for key, place in places.items() if key != "/x"}) == said
    assert moved("/data /x", places) == "/x/v /data"  # each once


def test_references_are_expanded_once() -> None:
    assert expanded("$(A) $$(A) $(B) $A $(", {"A": "$(B)", "B": "b"}) == "$(B) $(A) b $A $("


def test_no_folder_is_left(tmp_path: Path) -> None:
    with played(tmp_path, SPARK) as play:
        play.create("pod", containers=[play.shell("m", "exit 0")])
        play.reaches("pod", "Succeeded")
        uid = play.pod("pod")["metadata"]["uid"]
        until(lambda: not (tmp_path / "kubelet" / uid).exists(), 20)
        assert [path.name for path in (tmp_path / "kubelet").iterdir()] == ["pod.m.log"]
