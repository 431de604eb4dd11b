"""Executor pods as tests want them: of a few settings, or of a case that the real builder answered."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from returns.pipeline import is_successful

from podtide.adapters.kubernetes.executor_pod.spark_conf_dir import _ARCHIVE, _OF_SPARK
from podtide.adapters.kubernetes.executor_pod.template import template_of
from podtide.domain.base.units import DEFAULT_PROFILE, ProfileId
from podtide.domain.conf.spark_conf import ConfError, from_mapping
from podtide.domain.executor_pod.builder import DriverPod, ExecutorPods, PodFacts, executor_pods
from podtide.domain.kubernetes.allocator.replicas_allocator import claim_specs
from podtide.domain.protocol.pod_commands import CreateSet
from podtide.domain.protocol.reasons import Cause, Why
from podtide.domain.protocol.resource_profiles import ResourceProfile

K: Final = "spark.kubernetes."
CLAIM: Final = K + "executor.volumes.persistentVolumeClaim.data."
CLAIM_SETTINGS: Final = {
    CLAIM + "mount.path": "/data",
    CLAIM + "options.claimName": "OnDemand",
    CLAIM + "options.storageClass": "gp",
    CLAIM + "options.sizeLimit": "10Gi",
}
"""A volume claim for each executor, made on demand."""

BASE: Final = {
    "spark.app.name": "app",
    "spark.driver.host": "driver",
    K + "container.image": "img",
    K + "executor.podNamePrefix": "app",
}
FACTS: Final = PodFacts("app-1", "spark", config_map="cm")
_LOCAL_DIR: Final = re.compile(r"/var/data/spark-([0-9a-f-]{36})")


def made(conf: Mapping[str, str] | None = None, facts: PodFacts = FACTS, **profiles: Any) -> ExecutorPods:
    """The pods of the base settings and these."""
    result = executor_pods(from_mapping({**BASE, **(conf or {})}, "test"), facts, **profiles)
    assert is_successful(result), result.failure()
    return result.unwrap()


def refused(conf: Mapping[str, str], facts: PodFacts = FACTS, **profiles: Any) -> tuple[ConfError, ...]:
    """What is wrong with the base settings and these."""
    result = executor_pods(from_mapping({**BASE, **conf}, "test"), facts, **profiles)
    assert not is_successful(result)
    return result.failure()


def container(pod: Mapping[str, Any]) -> dict[str, Any]:
    """The Spark container: the last one."""
    last: dict[str, Any] = pod["spec"]["containers"][-1]
    return last


def variables(pod: Mapping[str, Any]) -> dict[str, Any]:
    """The Spark container's plain environment."""
    return {variable["name"]: variable["value"] for variable in container(pod)["env"] if "value" in variable}


def answered(case: Mapping[str, Any]) -> dict[str, Any]:
    """Our answer to a case that real Spark was asked, in the same shape: manifests, or what is wrong."""
    conf, answer = dict(case["conf"]), case["answer"]
    driver, of_set = case.get("driver"), case.get("what") == "set"
    environment = {} if of_set else case.get("env") or {}
    if of_set:  # as the allocators were driven
        driver = {"name": "driver", "uid": "uid-driver"}
        conf |= {
            K + "driver.pod.name": "driver",
            K + "allocation.pods.allocator": case["kind"],
            K + "driver.service.publishNotReadyAddresses": "true",
        }
    template = None
    if case.get("template"):
        template = template_of(case["template"], "template").tree
        conf[K + "executor.podTemplateFile"] = "template"
    files = [name for name in case.get("confFiles") or () if not _ARCHIVE.fullmatch(name)]
    found = _LOCAL_DIR.search(str(answer))
    profile = case.get("profile")
    identifier = ProfileId(profile["id"]) if profile else DEFAULT_PROFILE
    facts = PodFacts(
        case["appId"],
        "spark",
        driver=DriverPod(**driver) if driver else None,
        config_map=answer.get("configMap", "cm"),
        config_items=() if of_set else tuple(sorted(name for name in files if not _OF_SPARK.fullmatch(name))),
        template=template,
        local_dirs_id=found[1] if found else "",
        pod_name_prefix=answer.get("prefix") or "",
        local_dirs=environment.get("SPARK_LOCAL_DIRS"),
        auth_secret=environment.get("_SPARK_AUTH_SECRET"),
        vendors={identifier: {e[0]: e[2] for e in profile["executor"] if len(e) > 2}} if profile else {},
    )
    requests = tuple((e[0], e[1]) for e in profile["executor"]) if profile else ()
    profiles = {identifier: ResourceProfile(identifier, requests)} if profile else {}
    result = executor_pods(from_mapping(conf, "case"), facts, profiles)
    if not is_successful(result):
        return {"threw": [str(error.raised) for error in result.failure()]}
    pods = result.unwrap()
    if of_set:
        name = f"spark-{case['kind'][0]}-{case['appId']}-{identifier}"
        why = Why(Cause.NEW_PROFILE)
        return {
            "object": pods.replica_set(
                CreateSet(0, 1, case["kind"], name, identifier, 3, why, claim_specs(pods.claims))
            )
        }
    executor = case["executor"]
    return {
        "pod": pods.pod(executor, identifier),
        "resources": [pods.claim(claim, executor, None) for claim in pods.own_claims(executor)],
    }


def compared(answer: Mapping[str, Any]) -> dict[str, Any]:
    """The part of an answer that is compared. Spark draws the order of the local directories by lot: sorted here."""
    kept = {key: answer[key] for key in ("pod", "resources", "object") if key in answer}
    pod = kept["pod"] if "pod" in kept else kept["object"]["spec"]["template"]
    for variable in container(pod).get("env", ()):
        if variable["name"] == "SPARK_LOCAL_DIRS":
            variable["value"] = ",".join(sorted(variable["value"].split(",")))
    return kept
