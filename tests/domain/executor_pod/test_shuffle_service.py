"""What an external shuffle service needs of executor pods. Ids S3 and S4: scenarios of the shuffle service's specification
(auxiliary, 4.1): refused before there is any pod, and the key is named."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from returns.pipeline import is_successful

from podtide.domain.base.units import DEFAULT_PROFILE
from podtide.domain.conf.spark_conf import ConfError, from_mapping
from podtide.domain.executor_pod.builder import PodFacts, executor_pods
from podtide.domain.executor_pod.shuffle_service import (
    ShuffleWishes,
    TemplateRefused,
    service_labels,
    shuffle_settings,
    shuffle_template,
)

ROOT = "/var/lib/spark-shuffle"
WISHES = ShuffleWishes((ROOT, "/disk2/"), {"app": "shuffle"}, "infra")
VOLUME = "spark.kubernetes.executor.volumes.hostPath.spark-local-dir-node"
DIRS = "spark.executorEnv.SPARK_EXECUTOR_DIRS"
LABELS = "spark.kubernetes.shuffle.labels"
TEMPLATE = "spark.kubernetes.executor.podTemplateFile"
BLOCKS = "spark.blockManager.port"
OTHERS = {"spark.kubernetes.container.image": "i", "spark.driver.host": "d"}
GIVEN = shuffle_template({}, WISHES)


def errors(change: Mapping[str, str | None], template: Mapping[str, Any] | None = GIVEN) -> tuple[ConfError, ...]:
    """What is wrong with the settings that are pasted, changed; None: without that key."""
    settings = {**OTHERS, **shuffle_settings(WISHES, "template.yaml"), **change}
    conf = from_mapping({key: text for key, text in settings.items() if text is not None}, "test")
    made = executor_pods(conf, PodFacts("spark-1", "me", config_map="map", template=template))
    return () if is_successful(made) else made.failure()


NO_VOLUMES = {f"{VOLUME}{n}.{key}": None for n in ("", "1") for key in ("mount.path", "options.path", "options.type")}


@pytest.mark.parametrize(
    ("change", "key", "expected"),
    [
        pytest.param({LABELS: None}, LABELS, "the labels of the shuffle service's pods", id="S3"),
        pytest.param({LABELS: "app=shuffle,"}, LABELS, "the labels of the shuffle service's pods", id="S3-no-labels"),
        pytest.param(
            {DIRS: None, **NO_VOLUMES}, "spark.local.dir", "a hostPath that is mounted at its own path", id="S4"
        ),
        pytest.param(NO_VOLUMES, DIRS, "mounted at its own path", id="S4-no-volume"),
        pytest.param({f"{VOLUME}1.mount.path": "/elsewhere"}, DIRS, "mounted at its own path", id="S4-another-path"),
        pytest.param({f"{VOLUME}.mount.readOnly": "true"}, DIRS, "mounted at its own path", id="S4-read-only"),
        pytest.param({f"{VOLUME}.mount.subPath": "a"}, DIRS, "mounted at its own path", id="S4-sub-path"),
        pytest.param({DIRS: "/tmp/SPARK_APPLICATION_ID"}, DIRS, "mounted at its own path", id="S4-not-shared"),
        pytest.param({DIRS: "SPARK_APPLICATION_ID"}, DIRS, "mounted at its own path", id="S4-relative"),
        ({DIRS: f"{ROOT}/$(SPARK_APPLICATION_ID)"}, DIRS, "Kubernetes leaves $(spark-1) as it is"),
        ({DIRS: f"{ROOT}/shared"}, DIRS, "ROOT/SPARK_APPLICATION_ID; others are never cleaned"),
        ({DIRS: None}, DIRS, "ROOT/SPARK_APPLICATION_ID; others are never cleaned"),
        ({BLOCKS: "7079"}, BLOCKS, "one executor run on a node"),
        ({BLOCKS: None}, BLOCKS, "one executor run on a node"),
    ],
)
def test_what_cannot_work_is_refused(change: dict[str, str | None], key: str, expected: str) -> None:
    (error,) = errors(change)
    assert error.key == key
    assert expected in error.expected
    assert errors({**change, "spark.shuffle.service.enabled": "false"}) == ()
    assert errors({**change, "spark.podtide.oneMachine": "true"}) == (), "the service is at the address of every pod"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"hostNetwork": False}, "hostNetwork: true: executors look for the shuffle service at their own address"),
        ({"hostNetwork": None}, "hostNetwork: true"),
        ({"dnsPolicy": None}, "dnsPolicy: ClusterFirstWithHostNet"),
        ({"dnsPolicy": "ClusterFirst"}, "dnsPolicy: ClusterFirstWithHostNet"),
    ],
)
def test_a_pod_on_another_network_than_the_service_is_refused(change: dict[str, Any], expected: str) -> None:
    spec = {key: value for key, value in {**GIVEN["spec"], **change}.items() if value is not None}
    (error,) = errors({}, {**GIVEN, "spec": spec})
    assert error.key == TEMPLATE
    assert expected in error.expected


def test_what_is_pasted_is_a_pod_that_a_service_can_serve() -> None:
    assert errors({}) == ()
    assert errors({DIRS: f"{ROOT}//SPARK_APPLICATION_ID/"}) == ()
    step = "org.apache.spark.deploy.k8s.features.BasicExecutorFeatureStep"
    assert errors({"spark.kubernetes.executor.pod.excludedFeatureSteps": step}) == ()
    settings = {**OTHERS, **shuffle_settings(WISHES, "template.yaml")}
    facts = PodFacts("spark-1", "me", config_map="map", template=GIVEN)
    pod = executor_pods(from_mapping(settings, "test"), facts).unwrap().pod("1", DEFAULT_PROFILE)
    (container,) = pod["spec"]["containers"]
    dirs = next(one["value"] for one in container["env"] if one["name"] == "SPARK_EXECUTOR_DIRS")
    assert dirs == f"{ROOT}/spark-1:/disk2/spark-1"
    assert "ports" not in container


def test_a_template_keeps_what_it_had_and_says_nothing_else() -> None:
    term = {"topologyKey": "zone"}
    rule = "requiredDuringSchedulingIgnoredDuringExecution"
    affinity = {"nodeAffinity": {}, "podAffinity": {rule: [term], "preferred": []}}
    given = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "s"}], "affinity": affinity}}
    made = shuffle_template(given, WISHES._replace(namespace=None))
    own = {"labelSelector": {"matchLabels": {"app": "shuffle"}}, "topologyKey": "kubernetes.io/hostname"}
    assert made["spec"]["affinity"] == {"nodeAffinity": {}, "podAffinity": {rule: [term, own], "preferred": []}}
    assert (made["metadata"], made["spec"]["containers"]) == (given["metadata"], [{"name": "s"}])
    with pytest.raises(TemplateRefused, match="dnsPolicy: Default"):
        shuffle_template({"spec": {"dnsPolicy": "Default"}}, WISHES)


@pytest.mark.parametrize("text", ["", "a", "a=", "=b", "a=b,a=c", "a=b;c=d", "a=b\nc", "a b=c", "/a=b", "A/b=c"])
def test_labels_that_are_none(text: str) -> None:
    assert service_labels(text) is None


def test_labels() -> None:
    assert service_labels("x.io/a=b, c=D_1.2") == {"x.io/a": "b", "c": "D_1.2"}
