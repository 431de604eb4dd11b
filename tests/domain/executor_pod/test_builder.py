"""Executor pods, against answers of the real KubernetesExecutorBuilder and of the set allocators of Spark 4.3.0.

executor_pods.json holds configurations, drawn by lot, with what real Spark made of them: pods with the claims that are
created for them, StatefulSets and Deployments, exceptions. executor_pod_examples.json are two worked examples.
"""

from __future__ import annotations

import json
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from podtide.domain.base.units import DEFAULT_PROFILE, ProfileId
from podtide.domain.conf.spark_conf import from_mapping
from podtide.domain.executor_pod.blueprint import Filling, Hostname, command_words, joined
from podtide.domain.executor_pod.builder import CannotBuild, DriverPod, PodFacts, executor_pods
from podtide.domain.executor_pod.driver import MODULE_OPTIONS, as_driver_has_it
from podtide.domain.protocol.pod_commands import ClaimSpec, CreateSet
from podtide.domain.protocol.reasons import Cause, Why
from podtide.domain.protocol.resource_profiles import ResourceProfile
from tests.support.executor_pod_play import (
    BASE,
    CLAIM,
    CLAIM_SETTINGS,
    FACTS,
    K,
    answered,
    compared,
    container,
    made,
    refused,
    variables,
)

FOLDER = Path(__file__).parent
CASES = json.loads((FOLDER / "executor_pods.json").read_text())
EXAMPLES = json.loads((FOLDER / "executor_pod_examples.json").read_text())
RUNNING = FOLDER.parents[2] / "shared" / "kubernetes" / "example-executor-pod-running.json"
FIRST = ProfileId(1)
VOLUME = CLAIM_SETTINGS | {
    CLAIM + "options.storageClass": "gp3",
    CLAIM + "label.team": "a",
    CLAIM + "annotation.note": "n",
}
DRIVER = replace(FACTS, driver=DriverPod("drv", "u-1"))
TEMPLATE = replace(FACTS, template={"apiVersion": "v1", "kind": "Pod", "spec": {"containers": []}})


def test_all_of_spark_s_answers_are_there() -> None:
    assert len(CASES) >= 40
    assert sum("threw" in case["answer"] for case in CASES) >= 5
    assert sum(case.get("what") == "set" for case in CASES) >= 7


@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_builds_what_spark_builds(case: dict[str, Any]) -> None:
    case = deepcopy(case)
    ours, answer = answered(case), case["answer"]
    if "threw" in answer:
        assert f"{answer['threw']}: {answer['message']}" in ours["threw"]
    else:
        assert compared(deepcopy(ours)) == compared(answer)


@pytest.mark.skipif(not RUNNING.exists(), reason="no pod of a real server beside the project")
def test_a_pod_that_a_server_gave_back_is_ours() -> None:
    """Built by real Spark in client mode, completed with a server's defaults: ours is all of it but those."""
    pod = json.loads(RUNNING.read_text())
    environment = variables(pod)
    port = environment["SPARK_DRIVER_URL"].rpartition(":")[2]
    conf = from_mapping(
        {
            "spark.app.name": "react",
            "spark.master": "k8s://https://127.0.0.1:26443",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.port": port,
            "spark.kubernetes.container.image": "dummy",
            "spark.kubernetes.namespace": "spark",
            "spark.executor.memory": "1g",
            "spark.executor.cores": "1",
        },
        "run",
    )
    application = environment["SPARK_APPLICATION_ID"]
    prefix = pod["metadata"]["name"].removesuffix("-exec-2")
    whole = as_driver_has_it(conf, application, prefix)
    facts = PodFacts(
        application,
        "root",
        config_map=pod["spec"]["volumes"][0]["configMap"]["name"],
        config_items=("log4j2.properties",),
        local_dirs_id=environment["SPARK_LOCAL_DIRS"].removeprefix("/var/data/spark-"),
    )
    ours = made({key: setting.value for key, setting in whole.settings.items()}, facts).pod("2", DEFAULT_PROFILE)
    assert _within(ours, pod) == []


def _within(ours: Any, theirs: Any, at: str = "") -> list[str]:
    """Where ours is not part of theirs; lists are compared item by item."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return [line for key in ours for line in _within(ours[key], theirs.get(key), f"{at}.{key}")]
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        return [line for place, item in enumerate(ours) for line in _within(item, theirs[place], f"{at}[{place}]")]
    return [] if ours == theirs else [f"{at}: {ours} is not {theirs}"]


# ------------------------------------------------------------------------------------------------ what cannot be built


@pytest.mark.parametrize(
    ("conf", "key", "expected", "raised"),
    [
        ({K + "executor.label.spark-role": "x"}, K + "executor.label.spark-role", "not Spark's own", "reserved"),
        ({K + "executor.limit.cores": "500m"}, K + "executor.limit.cores", "at least", "should be less than or equal"),
        ({K + "executor.limit.cores": ""}, K + "executor.limit.cores", "quantity", "Invalid quantity"),
        ({K + "executor.request.cores": "two"}, K + "executor.request.cores", "quantity", None),
        ({"spark.blockManager.port": "80"}, "spark.blockManager.port", "1024 to 65535", "port number must be"),
        ({"spark.driver.port": "x"}, "spark.driver.port", "whole number", "For input string"),
        ({"spark.driver.host": "1:2"}, "spark.driver.host", "IP address", "not an IP string literal"),
        ({K + "executor.podNamePrefix": "A"}, K + "executor.podNamePrefix", "must conform", "REQUIREMENT"),
        ({K + "executor.podNamePrefix": "a" * 238}, K + "executor.podNamePrefix", "237", "REQUIREMENT"),
        ({"spark.executor.resource.gpu.amount": "1"}, "spark.executor.resource.gpu.vendor", "vendor", "vendor was not"),
        ({K + "executor.secretKeyRef.E": "name"}, K + "executor.secretKeyRef.E", "name:key", "name:key"),
        ({"spark.authenticate": "true"}, "spark.authenticate.secret", "secret of the driver", "must be specified"),
        ({"spark.authenticate": "maybe"}, "spark.authenticate", "true or false", "TYPE_MISMATCH"),
        ({K + "executor.pod.featureSteps": "a.B"}, K + "executor.pod.featureSteps", "Java class", None),
        ({K + "executor.podTemplateFile": "x"}, K + "executor.podTemplateFile", "contents", None),
        (
            {**VOLUME, CLAIM + "options.sizeLimit": "10Gi5x"},
            CLAIM + "options.sizeLimit",
            "quantity",
            "Invalid quantity",
        ),
        ({**VOLUME, CLAIM + "options.sizeLimit": "10"}, CLAIM + "options.sizeLimit", "quantity", "Missing units"),
        ({"spark.executor.memory": "x"}, "spark.executor.memory", "512m", "TYPE_MISMATCH"),
        (
            {**VOLUME, K + "allocation.pods.allocator": "deployment"},
            CLAIM + "options.claimName",
            "no claims",
            "not supported with the deployment allocator",
        ),
    ],
)
def test_what_spark_would_throw_names_the_key(
    conf: dict[str, str], key: str, expected: str, raised: str | None
) -> None:
    errors = refused(conf)
    assert [error.key for error in errors] == [key]
    assert expected in errors[0].expected
    assert (errors[0].raised is None) if raised is None else (raised in str(errors[0].raised))


def test_everything_that_is_wrong_is_told_at_once() -> None:
    errors = refused({K + "executor.label.spark-role": "x", "spark.blockManager.port": "1", "spark.driver.port": "-"})
    assert [error.key for error in errors] == [
        "spark.blockManager.port",
        "spark.driver.port",
        K + "executor.label.spark-role",
    ]


def test_an_image_and_a_driver_s_address_have_to_be_known() -> None:
    bare = {key: value for key, value in BASE.items() if "image" not in key and "host" not in key}
    errors = executor_pods(from_mapping(bare, "test"), FACTS).failure()
    assert {error.key for error in errors} == {K + "executor.container.image", "spark.driver.host"}
    found = executor_pods(from_mapping({**bare, K + "container.image": "i"}, "test"), replace(FACTS, driver_host="h"))
    assert variables(found.unwrap().pod("1", DEFAULT_PROFILE))["SPARK_DRIVER_URL"].endswith("@h:7078")


@pytest.mark.parametrize(
    ("step", "asked"),
    [("org.apache.spark.deploy.k8s.features.VolcanoFeatureStep", True), ("a.B", False)],
)
def test_feature_steps_that_are_known_or_excluded_are_no_obstacle(step: str, asked: bool) -> None:
    conf = {K + "executor.pod.featureSteps": step} | ({} if asked else {K + "executor.pod.excludedFeatureSteps": step})
    annotations = made(conf).pod("1", DEFAULT_PROFILE)["metadata"].get("annotations", {})
    assert annotations == ({"scheduling.k8s.io/group-name": "app-1-podgroup"} if asked else {})


# --------------------------------------------------------------------------------------------------- pods of executors


def test_claims_that_were_taken_over_are_mounted() -> None:
    pods = made({**VOLUME, CLAIM.replace("data", "fixed") + "mount.path": "/f",
                 CLAIM.replace("data", "fixed") + "options.claimName": "fixed-SPARK_EXECUTOR_ID"})  # fmt: skip
    own = {v["name"]: v[k]["claimName"] for v in pods.pod("7", DEFAULT_PROFILE)["spec"]["volumes"]
           for k in v if k == "persistentVolumeClaim"}  # fmt: skip
    place = next(template.index for template in pods.claims if template.volume == "data")
    assert own == {"data": f"app-exec-7-pvc-{place}", "fixed": "fixed-7"}
    order = [template.volume for template in pods.claims]
    claims = ["old" if volume == "data" else "fixed-7" for volume in order]
    pod = pods.pod("7", DEFAULT_PROFILE, claims=claims, reused=("old",))
    assert {v["persistentVolumeClaim"]["claimName"] for v in pod["spec"]["volumes"] if len(v) == 2
            and "persistentVolumeClaim" in v} == {"old", "fixed-7"}  # fmt: skip
    with pytest.raises(CannotBuild, match="1 claims for 2 volumes"):
        pods.pod("7", DEFAULT_PROFILE, claims=("one",))
    with pytest.raises(CannotBuild, match="none of its volumes"):
        pods.pod("7", DEFAULT_PROFILE, claims=claims, reused=("other",))


def test_a_profile_that_is_learnt_later_has_pods_from_then_on() -> None:
    profiles: dict[ProfileId, ResourceProfile] = {}
    pods = made(facts=replace(FACTS, vendors={FIRST: {"gpu": "nvidia.com"}}), profiles=profiles)
    with pytest.raises(CannotBuild, match="key not found: 1"):
        pods.pod("1", FIRST)
    profiles[FIRST] = ResourceProfile(FIRST, (("cores", 3), ("memory", 2048), ("gpu", 2)))
    resources = container(pods.pod("1", FIRST))["resources"]
    assert resources == {
        "limits": {"memory": "2432Mi", "nvidia.com/gpu": "2"},
        "requests": {"memory": "2432Mi", "cpu": "3"},
    }


def test_a_profile_without_a_vendor_is_refused_when_it_is_known_and_thrown_at_when_it_is_learnt() -> None:
    gpu = {FIRST: ResourceProfile(FIRST, (("gpu", 1),))}
    assert [error.key for error in refused({}, profiles=gpu)] == ["spark.executor.resource.gpu.vendor"]
    profiles: dict[ProfileId, ResourceProfile] = {}
    pods = made(profiles=profiles)
    profiles |= gpu
    with pytest.raises(CannotBuild, match="vendor was not specified"):
        pods.pod("1", FIRST)


def test_a_container_that_is_not_there_is_spoken_of() -> None:
    template = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "a"}, {"name": "b"}]}}
    conf = {K + "executor.podTemplateContainerName": "main", K + "executor.podTemplateFile": "t"}
    pods = made(conf, replace(FACTS, template=template))
    assert "main not found on pod template" in pods.notices[0].text
    assert [one["name"] for one in pods.pod("1", DEFAULT_PROFILE)["spec"]["containers"]] == ["b", "a"]
    assert template["spec"] == {"containers": [{"name": "a"}, {"name": "b"}]}  # the template is nobody's to change


def test_variables_with_impossible_names_are_dropped_aloud() -> None:
    pods = made({"spark.executorEnv.1A": "x", "spark.executorEnv.B": "y"})
    assert [notice.text.partition(",")[0] for notice in pods.notices] == ["Invalid key: 1A"]
    assert {"1A", "B"} & variables(pods.pod("1", DEFAULT_PROFILE)).keys() == {"B"}


# ------------------------------------------------------------------------------------------------------------- holes


@given(st.lists(st.sampled_from(["{{EXECUTOR_ID}}", '"', "'", "\\", " ", "a", "\ue000", "{{", "}}", "é"]), max_size=25))
def test_an_id_in_java_options_is_never_split_and_no_mark_is_made_of_pieces(pieces: list[str]) -> None:
    text = "".join(pieces)
    words = [word if isinstance(word, str) else word.at(Filling("77")) for word in command_words(text)]
    # Spark substitutes first and splits then; an id has nothing in it that splits.
    assert words == list(command_words(text.replace("{{EXECUTOR_ID}}", "77")))


@given(st.text(max_size=40), st.text("0123456789", min_size=1, max_size=5))
def test_a_label_that_says_anything_is_filled_in_once(text: str, executor: str) -> None:
    filled = joined(text, "{{EXECUTOR_ID}}")
    assert (filled if isinstance(filled, str) else filled.at(Filling(executor))) == text.replace(
        "{{EXECUTOR_ID}}", executor
    )


@pytest.mark.parametrize(
    ("prefix", "executor", "lower", "host"),
    [
        ("app", "1", False, "app-exec-1"),
        ("a.b", "EXECID", False, "a_b-exec-EXECID"),
        ("a.b", "EXECID", True, "a_b-exec-execid"),
        ("x" * 100, "7", False, "x" * 56 + "-exec-7"),
        ("a" * 40 + "-" + "." * 20, "1", False, "a" * 35 + "-_-exec-1"),
    ],
)
def test_host_names(prefix: str, executor: str, lower: bool, host: str) -> None:
    assert Hostname(prefix, lower).at(Filling(executor)) == host


# ---------------------------------------------------------------------------------------- sets, config map, the driver


def _set(pods: Any, kind: Any) -> dict[str, Any]:
    why = Why(Cause.NEW_PROFILE)
    claims = (ClaimSpec("data", "gp3", "10Gi", "data"),) if kind == "statefulset" else ()
    made: dict[str, Any] = pods.replica_set(CreateSet(0, 1, kind, "set", DEFAULT_PROFILE, 2, why, claims))
    return made


def test_a_set_needs_somebody_to_own_it() -> None:
    with pytest.raises(CannotBuild, match=r"None\.get"):
        _set(made({K + "allocation.pods.allocator": "statefulset"}), "statefulset")


def test_claims_of_a_stateful_set_become_its_own() -> None:
    pods = made({K + "allocation.pods.allocator": "statefulset", **VOLUME}, DRIVER)
    spec = _set(pods, "statefulset")["spec"]
    assert [claim["metadata"]["name"] for claim in spec["volumeClaimTemplates"]] == ["data"]
    assert spec["volumeClaimTemplates"][0]["metadata"]["labels"]["team"] == "a"
    names = [volume["name"] for volume in spec["template"]["spec"]["volumes"]]
    assert names == ["spark-conf-volume-exec", "spark-local-dir-1"]
    assert spec["template"]["spec"]["restartPolicy"] == "Always"


def test_the_config_map_as_java_writes_it() -> None:
    found = made({K + "namespace": "ns"}, DRIVER).config_map({"a.txt": "x"}, now=1_795_275_425_000)
    assert found["data"] == {
        "a.txt": "x",
        "spark.properties": (
            "#Java properties built from Kubernetes config map with name: cm\n"
            "#Sat Nov 21 15:37:05 UTC 2026\n"
            "spark.kubernetes.namespace=ns\n"
        ),
        "spark.kubernetes.namespace": "ns",
    }
    assert found["immutable"] is True
    assert found["metadata"] == {
        "labels": {"spark-app-selector": "app-1", "spark-role": "executor"},
        "name": "cm",
        "namespace": "ns",
        "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "controller": True, "name": "drv", "uid": "u-1"}],
    }


def test_an_application_without_config_map_mounts_none() -> None:
    pods = made(facts=replace(FACTS, config_map=None))
    assert "/opt/spark/conf" not in str(container(pods.pod("1", DEFAULT_PROFILE)).get("volumeMounts"))
    with pytest.raises(CannotBuild, match="no name"):
        pods.config_map({})


def test_a_driver_adds_to_its_conf_once() -> None:
    conf = from_mapping({"spark.executor.extraJavaOptions": "-Dmine=1"}, "test")
    once = as_driver_has_it(conf, "app-1", "pre", driver_host="h")
    assert as_driver_has_it(once, "app-1", "pre", driver_host="h") == once
    text = once.settings["spark.executor.extraJavaOptions"].value
    assert text == f"-Djava.net.preferIPv6Addresses=false {' '.join(MODULE_OPTIONS)} -Dmine=1"
    assert once.settings["spark.driver.host"].value == "h"


def test_an_auth_secret_is_in_no_text_of_the_facts() -> None:
    facts = replace(FACTS, auth_secret="hush")
    assert "hush" not in repr(facts)
    assert variables(made({"spark.authenticate": "true"}, facts).pod("1", DEFAULT_PROFILE))["_SPARK_AUTH_SECRET"]
