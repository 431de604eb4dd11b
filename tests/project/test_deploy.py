"""What is in deploy/: whole, safe by default, and in step with the program. The server's own view is in tests/live."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from podtide.adapters.files.spark_conf import parse_properties
from podtide.domain.shuffle_service.applications import application_id
from podtide.entrypoints.live.command import run
from podtide.entrypoints.shuffle.command import shuffle_service
from tests.adapters.staging.stage import api_server
from tests.support.project import PROJECT
from tests.support.rendering import render

DEPLOY = PROJECT / "deploy"
FOLDERS = ["base", "act", "example"]
ROLES = {one["metadata"]["name"]: one for one in yaml.safe_load_all((DEPLOY / "rbac.yaml").read_text())}


def one(folder: str, kind: str) -> dict[str, Any]:
    (found,) = [manifest for manifest in render(DEPLOY / "kustomize" / folder) if manifest["kind"] == kind]
    return found


def container(folder: str) -> dict[str, Any]:
    (found,) = one(folder, "Deployment")["spec"]["template"]["spec"]["containers"]
    return dict(found)


OPTIONS = {name for parameter in run.params for name in (*parameter.opts, *parameter.secondary_opts)}


@pytest.mark.parametrize(
    ("folder", "role"), [("base", "podtide-shadow"), ("act", "podtide-act"), ("example", "podtide-shadow")]
)
def test_the_role_is_that_of_the_list(folder: str, role: str) -> None:
    assert one(folder, "Role")["rules"] == ROLES[role]["rules"]


def test_a_shadow_cannot_write() -> None:
    assert {verb for rule in ROLES["podtide-shadow"]["rules"] for verb in rule["verbs"]} == {"get", "list", "watch"}


def test_no_role_takes_more_than_verbs_by_name() -> None:
    text = (DEPLOY / "rbac.yaml").read_text()
    assert "*" not in text.replace("# ", "")
    assert {role["kind"] for role in ROLES.values()} == {"Role"}, "nothing of the whole cluster"
    assert not any("secrets" in rule["resources"] for role in ROLES.values() for rule in role["rules"])


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_binding_binds_what_is_there(folder: str) -> None:
    binding = one(folder, "RoleBinding")
    assert binding["roleRef"]["name"] == one(folder, "Role")["metadata"]["name"]
    assert binding["subjects"][0]["name"] == one(folder, "ServiceAccount")["metadata"]["name"]
    assert one(folder, "Deployment")["spec"]["template"]["spec"]["serviceAccountName"] == binding["subjects"][0]["name"]


@pytest.mark.parametrize("folder", FOLDERS)
def test_it_runs_as_nobody_on_a_read_only_file_system(folder: str) -> None:
    pod = one(folder, "Deployment")["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] == 10001
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    security = container(folder)["securityContext"]
    assert security["readOnlyRootFilesystem"] is True
    assert security["allowPrivilegeEscalation"] is False
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert {"hostNetwork", "hostPID", "hostIPC"}.isdisjoint(pod)
    assert all({"emptyDir", "configMap"} & volume.keys() for volume in pod["volumes"])


@pytest.mark.parametrize("folder", FOLDERS)
def test_there_is_one_at_a_time(folder: str) -> None:
    spec = one(folder, "Deployment")["spec"]
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})
    labels = spec["template"]["metadata"]["labels"]
    assert spec["selector"]["matchLabels"].items() <= labels.items()


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_mount_and_every_setting_leads_somewhere(folder: str) -> None:
    pod = one(folder, "Deployment")["spec"]["template"]["spec"]
    maps = {m["metadata"]["name"]: m["data"] for m in render(DEPLOY / "kustomize" / folder) if m["kind"] == "ConfigMap"}
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    here = container(folder)
    assert {mount["name"] for mount in here["volumeMounts"]} == set(volumes)
    assert volumes["spark"]["configMap"]["name"] in maps
    given = set(maps[here["envFrom"][0]["configMapRef"]["name"]]) | {env["name"] for env in here["env"]}
    used = set(re.findall(r"\$\((\w+)\)", " ".join(here["args"])))
    assert used <= given
    mounts = [mount["mountPath"] for mount in here["volumeMounts"]]
    paths = re.findall(r"=(/[^ ]+)", " ".join(here["args"]))
    assert paths
    assert all(any(path.startswith(mount + "/") for mount in mounts) for path in paths)


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_command_line_is_one_that_podtide_understands(folder: str) -> None:
    command, *args = container(folder)["args"]
    assert command == "run"
    assert {argument.partition("=")[0] for argument in args} <= OPTIONS
    mode = next(argument for argument in args if argument.startswith("--mode="))
    assert mode == ("--mode=act" if folder == "act" else "--mode=shadow")
    assert any(argument.startswith("--driver-url=") for argument in args) is (folder == "act")


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_probes_ask_where_podtide_answers(folder: str) -> None:
    here = container(folder)
    (port,) = here["ports"]
    assert f"--metrics-port={port['containerPort']}" in here["args"]
    assert "--metrics-address=0.0.0.0" in here["args"], "a kubelet does not ask from inside the pod"
    probes = {name: here[name]["httpGet"] for name in ("startupProbe", "livenessProbe", "readinessProbe")}
    assert {probe["port"] for probe in probes.values()} == {port["name"]}
    assert (probes["livenessProbe"]["path"], probes["readinessProbe"]["path"]) == ("/healthz", "/readyz")


# ------------------------------------------------------------------------------------------ the shuffle service's DaemonSet

SHUFFLE = DEPLOY / "kustomize" / "shuffle-service"


def shuffle_objects() -> dict[str, dict[str, Any]]:
    files = yaml.safe_load((SHUFFLE / "kustomization.yaml").read_text())["resources"]
    assert sorted(files) == sorted(path.name for path in SHUFFLE.iterdir() if path.name != "kustomization.yaml")
    manifests = [yaml.safe_load((SHUFFLE / name).read_text()) for name in files]
    return {manifest["kind"]: manifest for manifest in manifests}


def test_the_shuffle_service_and_its_cleaner_see_the_same_folder_at_the_path_of_the_node() -> None:
    """Executors register absolute paths; what they registered is on the node, so a restart does not forget it (S12)."""
    objects = shuffle_objects()
    pod = objects["DaemonSet"]["spec"]["template"]["spec"]
    (root,) = [volume["hostPath"]["path"] for volume in pod["volumes"] if "hostPath" in volume]
    for each in (*pod["initContainers"], *pod["containers"]):
        assert [mount["mountPath"] for mount in each["volumeMounts"] if mount["name"] == "spark-shuffle"] == [root]
    service, cleaner = pod["containers"]
    assert f"--root={root}" in cleaner["args"]
    conf = parse_properties(objects["ConfigMap"]["data"]["spark-defaults.conf"], "conf").unwrap().conf.settings
    database, *roots = conf["spark.local.dir"].value.split(",")
    assert application_id(database.removeprefix(f"{root}/")) is None, "the cleaner leaves it alone"
    assert roots == [root], "the service refuses directories below none of its own"
    ports = {port["name"]: port["containerPort"] for port in service["ports"]}
    assert str(ports["shuffle"]) == conf["spark.shuffle.service.port"].value == "7337"
    assert service["readinessProbe"]["tcpSocket"]["port"] == "shuffle"
    users = {
        (each["securityContext"]["runAsUser"], each["securityContext"]["runAsGroup"]) for each in pod["containers"]
    }
    assert users == {(185, 185)}, "the user of Spark's image: files are deleted by whom they belong to"


def test_the_shuffle_service_is_found_at_the_address_of_its_node_and_by_its_labels() -> None:
    objects = shuffle_objects()
    spec = objects["DaemonSet"]["spec"]
    pod = spec["template"]["spec"]
    assert (pod["hostNetwork"], pod["dnsPolicy"]) == (True, "ClusterFirstWithHostNet")
    assert spec["selector"]["matchLabels"] == spec["template"]["metadata"]["labels"]
    assert spec["updateStrategy"]["rollingUpdate"] == {"maxUnavailable": 1}
    assert objects["Role"]["rules"] == ROLES["podtide-shuffle-service"]["rules"]
    assert {each["securityContext"]["allowPrivilegeEscalation"] for each in pod["containers"]} == {False}


def test_the_cleaner_is_started_as_podtide_understands() -> None:
    (_, cleaner) = shuffle_objects()["DaemonSet"]["spec"]["template"]["spec"]["containers"]
    group, command, *args = cleaner["args"]
    assert shuffle_service.name == group
    options = {name for parameter in shuffle_service.commands[command].params for name in parameter.opts}
    assert {argument.partition("=")[0] for argument in args} <= options
    used = set(re.findall(r"\$\((\w+)\)", " ".join(args)))
    assert used == {env["name"] for env in cleaner["env"]}


def test_a_node_runs_what_the_daemon_set_says(tmp_path: Path) -> None:
    """podtide's API server, which refuses what it does not know, takes the pod as its controller would make it."""
    objects = shuffle_objects()
    template = objects["DaemonSet"]["spec"]["template"]
    name = {"name": "shuffle-one", **template["metadata"]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": name, "spec": {**template["spec"], "nodeName": "one"}}
    with api_server(tmp_path) as api:
        for plural, manifest in (
            ("serviceaccounts", objects["ServiceAccount"]), ("configmaps", objects["ConfigMap"]), ("pods", pod)
        ):  # fmt: skip
            path = f"/api/v1/namespaces/default/{plural}"
            answer = api.call("create", plural, path, body=json.dumps(manifest).encode())
            assert answer.ok, answer.body
        stored = json.loads(answer.body)["spec"]
    assert [each["name"] for each in stored["containers"]] == ["service", "cleaner"]
    assert stored["hostNetwork"] is True


@pytest.mark.parametrize("folder", ["base", "example"])
def test_the_settings_are_settings(folder: str) -> None:
    text = (DEPLOY / "kustomize" / folder / "spark.properties").read_text()
    found = parse_properties(text, "spark.properties").unwrap()
    assert found.remarks == ()
    assert found.conf.settings


def test_the_example_has_a_namespace_and_names_of_its_own() -> None:
    objects = render(DEPLOY / "kustomize" / "example")
    assert {manifest["metadata"]["namespace"] for manifest in objects} == {"spark"}
    assert all(manifest["metadata"]["name"].endswith("-nightly") for manifest in objects)
    assert one("example", "RoleBinding")["subjects"][0]["namespace"] == "spark"


def test_the_image_is_built_from_what_there_is_and_runs_as_the_pod_does() -> None:
    text = (PROJECT / "Containerfile").read_text()
    for line in text.splitlines():
        if line.startswith("COPY ") and "--from" not in line:
            *sources, _target = line.split()[1:]
            assert all((PROJECT / source).exists() for source in sources), line
    last = text.rpartition("FROM ")[2]
    assert "USER 10001:10001" in last
    assert 'ENTRYPOINT ["podtide"]' in last
    assert "pip install" not in last, "what builds stays in the first stage"
    assert all("@" not in line for line in text.splitlines() if line.startswith("FROM"))
