"""The executors' volumes: their order against recorded answers of Spark, and what Spark throws."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from returns.pipeline import is_successful

from podtide.domain.conf.spark_conf import ConfError, from_mapping
from podtide.domain.conf.volumes import PREFIX, VOLUMES_MAX, claim_templates, executor_volumes
from podtide.domain.protocol.cluster_config import ClaimTemplate

ORDERS = json.loads((Path(__file__).parent / "volume_orders.json").read_text())
CLASSES = {
    "KubernetesHostPathVolumeConf": "hostPath",
    "KubernetesPVCVolumeConf": "persistentVolumeClaim",
    "KubernetesEmptyDirVolumeConf": "emptyDir",
    "KubernetesNFSVolumeConf": "nfs",
}
CLAIM = "persistentVolumeClaim.data."


@pytest.mark.parametrize("row", ORDERS, ids=range(len(ORDERS)))
def test_volumes_come_in_sparks_order(row: dict[str, Any]) -> None:
    volumes = executor_volumes(from_mapping(dict(row["conf"]), "test")).unwrap()
    assert [(v.kind, v.name) for v in volumes] == [(CLASSES[kind], name) for kind, name in row["volumes"]]


def failure(settings: dict[str, str]) -> ConfError:
    read = executor_volumes(from_mapping({PREFIX + name: text for name, text in settings.items()}, "test"))
    assert not is_successful(read)
    return read.failure()


PATH = {CLAIM + "mount.path": "/data", CLAIM + "options.claimName": "OnDemand"}


@pytest.mark.parametrize(
    ("settings", "key", "raised"),
    [
        (
            {CLAIM + "options.claimName": "OnDemand"},
            CLAIM + "mount.path",
            f"java.util.NoSuchElementException: key not found: {CLAIM}mount.path",
        ),
        (
            {CLAIM + "mount.path": "/data"},
            CLAIM + "options.claimName",
            f"java.util.NoSuchElementException: {CLAIM}options.claimName is required for persistentVolumeClaim",
        ),
        (
            {**PATH, CLAIM + "options.sizeLimit": "500"},
            CLAIM + "options.sizeLimit",
            "java.lang.IllegalArgumentException: Volume size `500` is smaller than 1KiB. Missing units?",
        ),
        (
            {**PATH, CLAIM + "options.sizeLimit": ""},
            CLAIM + "options.sizeLimit",
            'java.lang.NumberFormatException: For input string: ""',
        ),
        (
            {**PATH, CLAIM + "mount.readOnly": "yes"},
            CLAIM + "mount.readOnly",
            'java.lang.IllegalArgumentException: For input string: "yes"',
        ),
        (
            {**PATH, CLAIM + "mount.subPath": "a", CLAIM + "mount.subPathExpr": "b"},
            CLAIM + "mount.subPathExpr",
            "java.lang.IllegalArgumentException: These config options are mutually exclusive: "
            f"{CLAIM}mount.subPath, {CLAIM}mount.subPathExpr",
        ),
        (
            {**PATH, "emptyDir.other.mount.path": "/data"},
            CLAIM + "mount.path",  # the last of the two, in Spark's order
            "java.lang.IllegalArgumentException: requirement failed: Found duplicated mountPath: '/data'",
        ),
        (
            {"disk.d.mount.path": "/d"},
            "disk.d.mount.path",
            "java.lang.IllegalArgumentException: Kubernetes Volume type `disk` is not supported",
        ),
    ],
)
def test_what_spark_throws(settings: dict[str, str], key: str, raised: str) -> None:
    error = failure(settings)
    assert (error.key.removeprefix(PREFIX), str(error.raised)) == (key, raised)


def test_claims_have_their_place_among_all_volumes() -> None:
    settings = {
        "spark.kubernetes.executor.volumes.persistentVolumeClaim.data.mount.path": "/data",
        "spark.kubernetes.executor.volumes.persistentVolumeClaim.data.options.claimName": "OnDemand",
        "spark.kubernetes.executor.volumes.persistentVolumeClaim.data.options.storageClass": "gp",
        "spark.kubernetes.executor.volumes.persistentVolumeClaim.data.options.sizeLimit": "10Gi",
        "spark.kubernetes.executor.volumes.hostPath.logs.mount.path": "/logs",
        "spark.kubernetes.executor.volumes.hostPath.logs.options.path": "/var/logs",
    }
    volumes = executor_volumes(from_mapping(settings, "test")).unwrap()
    place = [v.name for v in volumes].index("data")
    assert claim_templates(volumes) == (ClaimTemplate("data", "OnDemand", place, "gp", "10Gi"),)


@pytest.mark.parametrize("name", ["", "data", "data.", "..", "hostPath"])
def test_keys_without_type_and_name_are_no_volumes(name: str) -> None:
    assert executor_volumes(from_mapping({PREFIX + name: "x"}, "test")).unwrap() == ()


def test_far_too_many_volumes_are_refused() -> None:
    settings = {f"{PREFIX}emptyDir.v{n}.mount.path": f"/{n}" for n in range(VOLUMES_MAX + 1)}
    assert "at most" in executor_volumes(from_mapping(settings, "test")).failure().expected
