"""``podtide pod``."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.commands import answer

IMAGE = ("--conf", "spark.kubernetes.container.image=img")
VOLUME = "spark.kubernetes.executor.volumes.persistentVolumeClaim.data."
CLAIM = tuple(
    part
    for key, text in (
        ("mount.path", "/data"),
        ("options.claimName", "OnDemand"),
        ("options.storageClass", "gp3"),
        ("options.sizeLimit", "1Gi"),
    )
    for part in ("--conf", f"{VOLUME}{key}={text}")
)
OWNED = ("--driver-pod", "drv", "--driver-uid", "u-1")


run = partial(answer, "pod")


def documents(*arguments: str | Path) -> list[dict[str, Any]]:
    code, out, err = run(*IMAGE, *arguments)
    assert code == 0, err
    return list(yaml.safe_load_all(out))


def test_a_properties_file_and_settings_over_it(tmp_path: Path) -> None:
    file = tmp_path / "spark.conf"
    file.write_text("spark.executor.memory 4g\nspark.executor.cores 4\nspark.app.id app-1\n")
    (found,) = documents("--properties-file", file, "--conf", "spark.executor.cores=2", "--executor", "7")
    container = found["spec"]["containers"][0]
    assert container["resources"]["requests"] == {"memory": "4505Mi", "cpu": "2"}
    assert found["metadata"]["labels"]["spark-exec-id"] == "7"
    assert found["metadata"]["labels"]["spark-app-selector"] == "app-1"


def test_what_is_assumed_is_said() -> None:
    _, _, err = run(*IMAGE)
    assert "assumed: the application's id" in err
    assert "spark.driver.host (driver)" in err
    _, _, err = run(*IMAGE, "--app-id", "a", "--conf", "spark.driver.host=h",
                    "--conf", "spark.kubernetes.executor.podNamePrefix=p")  # fmt: skip
    assert err == ""


def test_claims_and_the_config_map_come_after_the_pod(tmp_path: Path) -> None:
    (tmp_path / "log4j2.properties").write_text("password=hush\n")
    found = documents(*CLAIM, *OWNED, "--claims", "--config-map", "--conf-dir", tmp_path)
    assert [document["kind"] for document in found] == ["Pod", "PersistentVolumeClaim", "ConfigMap"]
    assert [document["metadata"]["ownerReferences"][0]["uid"] for document in found] == ["u-1"] * 3
    assert found[0]["spec"]["volumes"][0]["configMap"]["items"][0]["key"] == "log4j2.properties"
    assert found[2]["data"]["log4j2.properties"] == "(14 characters, not shown)"


def test_json_is_one_object_or_a_list() -> None:
    code, out, _ = run(*IMAGE, "--format", "json")
    assert (code, json.loads(out)["kind"]) == (0, "Pod")
    _, out, _ = run(*IMAGE, "--format", "json", "--config-map")
    assert [item["kind"] for item in json.loads(out)["items"]] == ["Pod", "ConfigMap"]


@pytest.mark.parametrize(("kind", "name"), [("statefulset", "spark-s-a-0"), ("deployment", "spark-d-a-0")])
def test_the_set_of_a_scaling_allocator(kind: str, name: str) -> None:
    allocator = ("--conf", f"spark.kubernetes.allocation.pods.allocator={kind}", "--app-id", "a")
    (found,) = documents(*allocator, *OWNED, "--replicas", "3")
    assert (found["kind"].lower(), found["metadata"]["name"], found["spec"]["replicas"]) == (kind, name, 3)
    code, _, err = run(*IMAGE, *allocator)
    assert (code, "None.get" in err) == (2, True)


def test_a_resource_profile(tmp_path: Path) -> None:
    file = tmp_path / "profile.yaml"
    file.write_text("id: 3\nexecutor:\n  cores: 4\n  memory: 8g\n  gpu: {amount: 1, vendor: nvidia.com}\n")
    (found,) = documents("--profile-file", file)
    limits = found["spec"]["containers"][0]["resources"]["limits"]
    assert limits == {"memory": "8576Mi", "nvidia.com/gpu": "1"}
    assert found["metadata"]["labels"]["spark-exec-resourceprofile-id"] == "3"


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ("id: x\n", 1, "whole number"),
        ("ids: 1\n", 1, "expected id or executor"),
        ("executor: [a]\n", 1, "mapping of resources"),
        ("executor:\n  memory: lots\n", 2, "size such as 8g"),
        ("executor:\n  gpu: {amount: 0}\n", 2, "above 0"),
        ("executor:\n  gpu: {vendor: x}\n", 2, "expected an amount"),
        ("executor:\n  gpu: {amount: 1, sort: x}\n", 2, "amount or vendor"),
        ("- a\n", 1, "expected a resource profile"),
    ],
)
def test_a_profile_that_cannot_be_used(tmp_path: Path, text: str, line: int, why: str) -> None:
    file = tmp_path / "profile.yaml"
    file.write_text(text)
    code, _, err = run(*IMAGE, "--profile-file", file)
    assert (code, f"profile.yaml:{line}: " in err, why in err) == (3, True, True)


def test_secrets_are_shown_when_asked_for() -> None:
    conf = (*IMAGE, "--conf", "spark.executorEnv.MY_TOKEN=hush", "--conf", "spark.authenticate=true",
            "--conf", "spark.authenticate.secret=hush")  # fmt: skip
    _, out, err = run(*conf)
    assert "hush" not in out + err
    assert run(*conf, "--show-secrets")[1].count("hush") == 2


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ((), 2, "spark.kubernetes.executor.container.image"),
        ((*IMAGE, "--conf", "spark.blockManager.port=80"), 2, "spark.blockManager.port = 80 (--conf): expected 0, or"),
        ((*IMAGE, "--conf", "nonsense"), 2, "key=value"),
        ((*IMAGE, "--driver-pod", "d"), 2, "go together"),
        ((*IMAGE, "--executor", "a b"), 2, "no executor's id"),
        ((*IMAGE, "--conf", "spark.kubernetes.executor.pod.featureSteps=a.B"), 2, "Java class"),
        ((*IMAGE, "--properties-file", "/none"), 3, "/none"),
        ((*IMAGE, "--template", "/none.yaml"), 3, "/none.yaml: cannot be read"),
        ((*IMAGE, "--template", "hdfs://x/y"), 3, "local file only"),
        ((*IMAGE, "--profile-file", "/none"), 3, "/none: cannot be read"),
        ((*IMAGE, "--dry-run", "server", "--kubeconfig", "/none"), 2, "/none cannot be used as a kubeconfig"),
    ],
)
def test_exit_codes(arguments: tuple[str, ...], code: int, said: str) -> None:
    found, _, err = run(*arguments)
    assert (found, said in err) == (code, True), err


def test_a_secret_that_cannot_be_used_is_not_repeated() -> None:
    code, out, err = run(*IMAGE, "--conf", "spark.kubernetes.executor.secretKeyRef.PASSWORD=hush")
    assert (code, "hush" in out + err) == (2, False)


def test_a_template_by_the_conf_and_what_is_odd_about_it(tmp_path: Path) -> None:
    file = tmp_path / "pod.yaml"
    file.write_text(
        "kind: Pod\nspec:\n  nodName: x\n  containers:\n  - {name: main, env: [{name: PORT, value: 8080}]}\n"
    )
    conf = (*IMAGE, "--conf", f"spark.kubernetes.executor.podTemplateFile={file}",
            "--conf", "spark.kubernetes.executor.podTemplateContainerName=other")  # fmt: skip
    code, out, err = run(*conf)
    assert code == 0
    assert "pod.yaml:3: spec.nodName is no field" in err
    assert "specified container other not found" in err
    assert yaml.safe_load(out)["spec"]["containers"][0]["env"][0] == {"name": "PORT", "value": "8080"}


def test_a_driver_adds_java_s_module_options() -> None:
    assert "--add-opens" not in run(*IMAGE)[1]
    assert "--add-opens=java.base/java.nio=ALL-UNNAMED" in run(*IMAGE, "--as-driver")[1]
