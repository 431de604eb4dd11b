"""The pod template of a StatefulSet or Deployment, as far as the scenarios of the scaling allocators show it.

Spark builds the template of a set as it builds an executor's pod, for the executor id EXECID. The judge shows its labels,
annotations, names, owner, volumes (sorted by name), containers and a few variables of the first one. ``mini`` is the bare
pod of the judge's own builder; ``real`` is what KubernetesExecutorBuilder makes (``domain.executor_pod``).
"""

from __future__ import annotations

from typing import Any, Final

from returns.pipeline import is_successful

from podtide.adapters.conformance.manifests import ShapeError
from podtide.domain.base.units import ProfileId
from podtide.domain.conf.spark_conf import SparkConf
from podtide.domain.executor_pod.builder import DELETION_COST, DriverPod, PodFacts, executor_pods
from podtide.domain.protocol import pods
from podtide.domain.protocol.pod_commands import CreateSet
from podtide.domain.protocol.resource_profiles import ResourceProfile

VARIABLES: Final = ("SPARK_EXECUTOR_CORES", "SPARK_EXECUTOR_ID", "SPARK_RESOURCE_PROFILE_ID")
"""Variables of the first container that the judge shows."""

Template = dict[str, Any]


def set_labels(app_id: str, profile: ProfileId) -> dict[str, str]:
    """The labels that every executor pod of a profile carries, by which its set selects them."""
    return {pods.APP_LABEL: app_id, pods.ROLE_LABEL: pods.EXECUTOR_ROLE, pods.PROFILE_LABEL: str(profile)}


def mini(command: CreateSet, app_id: str) -> Template:
    """The bare pod of the judge's builder."""
    return {
        "labels": {pods.EXECUTOR_LABEL: pods.UNNAMED_EXECUTOR, **set_labels(app_id, command.profile)},
        "annotations": {DELETION_COST: "0"} if command.kind == pods.DEPLOYMENT else {},
        "name": f"exec-{pods.UNNAMED_EXECUTOR}",
        "podOwner": None,
        "volumes": [],
        "containers": [pods.SPARK_CONTAINER],
    }


def real(command: CreateSet, app_id: str, conf: SparkConf, driver: str | None) -> Template:
    """The pod of KubernetesExecutorBuilder. The judge's profiles have 1 to 4 cores. Raises ShapeError."""
    assert driver is not None, "without a driver's pod there is no set"
    profile = ResourceProfile(command.profile, (("cores", 1 + command.profile % 4),))
    facts = PodFacts(app_id, "judge", DriverPod(driver, "uid"), config_map="spark-exec-conf-map")
    built = executor_pods(conf, facts, {command.profile: profile})
    if not is_successful(built):
        raise ShapeError(f"Spark cannot build the pod of the set: {built.failure()[0]}")
    template = built.unwrap().replica_set(command)["spec"]["template"]
    metadata, spec = template["metadata"], template["spec"]
    variables = {one["name"]: one.get("value") for one in spec["containers"][0]["env"]}
    return {
        "labels": metadata["labels"],
        "annotations": metadata.get("annotations", {}),
        "name": metadata["name"],
        "podOwner": metadata["ownerReferences"][0]["name"] if "ownerReferences" in metadata else None,
        "volumes": sorted(volume["name"] for volume in spec.get("volumes", ())),
        "containers": [container["name"] for container in spec["containers"]],
        **{name: variables[name] for name in VARIABLES},
        "restartPolicy": spec["restartPolicy"],
        "hostname": spec["hostname"],
    }
