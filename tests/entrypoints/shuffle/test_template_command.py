"""``podtide shuffle-service template``, and ``podtide pod``, which takes what it prints and refuses what cannot work.

Id S3: a scenario of the shuffle service's specification (auxiliary, 4.1)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.commands import answer

IMAGE = ("--conf", "spark.kubernetes.container.image=img", "--app-id", "spark-1")
ROOT = "/var/lib/spark-shuffle"


def made(folder: Path, *options: str | Path) -> tuple[Path, Path]:
    given = answer("shuffle-service", "template", "--out", folder, *options)
    assert given.code == 0, given.err
    assert given.out == f"# add {folder}/spark-shuffle.conf to your spark-defaults.conf\n"
    return folder / "executor-template.yaml", folder / "spark-shuffle.conf"


def pod(conf: Path, *options: str | Path) -> dict[str, Any]:
    given = answer("pod", *IMAGE, "--properties-file", conf, *options)
    assert given.code == 0, given.err
    (found,) = yaml.safe_load_all(given.out)
    return dict(found)


def test_what_is_printed_makes_a_pod_that_a_service_can_serve(tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    own.write_text("spec: {priorityClassName: high, containers: [{name: spark, env: [{name: A, value: b}]}]}")
    _, conf = made(
        tmp_path / "out", "--root", ROOT, "--root", "/disk2/shuffle", "--template", own, "--namespace", "infra"
    )
    spec = pod(conf)["spec"]
    assert (spec["hostNetwork"], spec["dnsPolicy"], spec["priorityClassName"]) == (
        True,
        "ClusterFirstWithHostNet",
        "high",
    )
    (term,) = spec["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert term == {
        "labelSelector": {"matchLabels": {"app.kubernetes.io/name": "spark-shuffle-service"}},
        "namespaces": ["infra"],
        "topologyKey": "kubernetes.io/hostname",
    }
    (container,) = spec["containers"]
    env = {one["name"]: one.get("value") for one in container["env"]}
    assert env["SPARK_EXECUTOR_DIRS"] == f"{ROOT}/spark-1:/disk2/shuffle/spark-1"
    assert env["A"] == "b"
    assert "ports" not in container
    paths = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    shared = {volume["name"]: volume["hostPath"] for volume in spec["volumes"] if "hostPath" in volume}
    assert {name: source["path"] for name, source in shared.items()} == {name: paths[name] for name in shared}
    assert sorted(source["path"] for source in shared.values()) == ["/disk2/shuffle", ROOT]
    assert {source["type"] for source in shared.values()} == {"Directory"}, "who makes it is the service, which owns it"


def test_s3_what_cannot_work_is_refused_before_there_is_a_pod_and_every_key_is_named() -> None:
    given = answer("pod", *IMAGE, "--conf", "spark.shuffle.service.enabled=true")
    assert (given.code, given.out) == (2, "")
    keys = [line.split()[1] for line in given.err.splitlines() if "expected" in line]
    template = "spark.kubernetes.executor.podTemplateFile"
    assert keys == ["spark.kubernetes.shuffle.labels", template, "spark.blockManager.port", "spark.local.dir"]


@pytest.mark.parametrize(
    ("options", "code", "text"),
    [
        (("--labels", "a"), 2, "--labels a: expected KEY=VALUE"),
        (("--labels", "a=b,a=c"), 2, "no key twice"),
        (("--labels", "a=b\nc"), 2, "expected KEY=VALUE"),
        (("--root", "relative"), 2, "expected an absolute path"),
        (("--root", "/a/.."), 2, "expected an absolute path below /"),
        (("--root", "/a:/b"), 2, "without ':'"),
        (("--template", "/nobody/has/this"), 3, "/nobody/has/this"),
        (("--out", "/dev/null/out"), 2, "/dev/null/out cannot be written"),
    ],
)
def test_refusals(options: tuple[str, ...], code: int, text: str) -> None:
    given = answer("shuffle-service", "template", *options)
    assert (given.code, given.out) == (code, "")
    assert text in given.err


def test_a_template_that_says_the_opposite_is_refused(tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    own.write_text("spec: {hostNetwork: false, containers: [{name: spark}]}")
    given = answer("shuffle-service", "template", "--template", own)
    assert given.code == 3
    assert "the pod template has hostNetwork: False; it has to be True" in given.err
    assert "# --- spark-shuffle.conf\n" in answer("shuffle-service", "template").out
