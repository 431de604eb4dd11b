"""What executor pods need of conf and template so that an external shuffle service serves them, and what cannot work.

Spark's Kubernetes module knows no shuffle service (spec: auxiliary, section 3); executors do as everywhere:

- they look for it at their own host name and spark.shuffle.service.port (BlockManager.initialize; there is no key for
  its host). That is the pod's address, so pod and service have to be on the network of the node;
- they register the absolute paths of their directories (DiskBlockManager.localDirsString), so the service has to see the
  same paths: a hostPath that is mounted at its own path. The directories are SPARK_EXECUTOR_DIRS, before the volumes named
  spark-local-dir-* (Utils.getConfiguredLocalDirs);
- in SPARK_EXECUTOR_DIRS Spark replaces SPARK_APPLICATION_ID by the id (BasicExecutorFeatureStep). So a directory can name
  its application, for the cleaner. ``$(SPARK_APPLICATION_ID)`` would become ``$(spark-...)``, which Kubernetes leaves as
  it is;
- the container announces spark.blockManager.port unless that is 0. On the node's network an announced port is the node's:
  one executor would fit on each node.

spark.kubernetes.shuffle.labels and .namespace say which pods the services are, as in apache-spark-on-k8s. Spark does not
read them; podtide does, and requires the labels (S3).
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from podtide.domain.conf.reader import Reads
from podtide.domain.conf.scaling_config import SERVICE
from podtide.domain.conf.spark_conf import ConfError, SparkConf
from podtide.domain.executor_pod.settings import TEMPLATE_KEY

PORT_KEY: Final = "spark.shuffle.service.port"
LABELS_KEY: Final = "spark.kubernetes.shuffle.labels"
SERVICES_NAMESPACE_KEY: Final = "spark.kubernetes.shuffle.namespace"
BLOCK_MANAGER_PORT: Final = "spark.blockManager.port"
EXECUTOR_DIRS: Final = "SPARK_EXECUTOR_DIRS"
EXECUTOR_DIRS_KEY: Final = f"spark.executorEnv.{EXECUTOR_DIRS}"
LOCAL_DIR_KEY: Final = "spark.local.dir"
ONE_MACHINE_KEY: Final = "spark.podtide.oneMachine"
"""Set where all pods have addresses of one machine, as on ``podtide cluster``: the service is at each of them."""

REGISTRATION_KEY: Final = "spark.shuffle.registration.maxAttempts"
REGISTRATIONS: Final = 12
"""Attempts of an executor to register, 5 s apart: a service that restarts has a minute; Spark's default gives it 15 s."""

HOST_DNS: Final = "ClusterFirstWithHostNet"
HOSTNAME: Final = "kubernetes.io/hostname"
_VOLUME: Final = "spark.kubernetes.executor.volumes.hostPath.spark-local-dir-node"
_APPLICATION: Final = "SPARK_APPLICATION_ID"
_NAME: Final = r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_LABEL: Final = re.compile(rf"((?:[a-z0-9](?:[-a-z0-9.]{{0,251}}[a-z0-9])?/)?{_NAME})=({_NAME})")


class TemplateRefused(Exception):
    """A pod template that says the opposite of what is needed; says so in one line."""


class ShuffleWishes(NamedTuple):
    """``roots``: folders of the node, absolute. ``labels``: of the services' pods, in ``namespace``; None: the pods' own."""

    roots: tuple[str, ...]
    labels: Mapping[str, str]
    namespace: str | None = None
    port: int = 7337


def service_labels(text: str) -> Mapping[str, str] | None:
    """``key=value,key=value``; None for what is none, or says a key twice."""
    found = [_LABEL.fullmatch(part.strip()) for part in text.split(",")]
    pairs = {match[1]: match[2] for match in found if match is not None}
    return pairs if len(pairs) == len(found) else None


def uses_shuffle_service(conf: SparkConf) -> bool:
    """Whether executors would look for a shuffle service at their pod's address."""
    return Reads(conf).flag(SERVICE) and conf.raw(ONE_MACHINE_KEY) != "true"


def shuffle_errors(conf: SparkConf, pod: Mapping[str, Any], app_id: str) -> tuple[ConfError, ...]:
    """Everything that keeps a service from serving an executor of this pod; nothing where none is asked for."""
    return tuple(_errors(conf, pod, app_id)) if uses_shuffle_service(conf) else ()


def _errors(conf: SparkConf, pod: Mapping[str, Any], app_id: str) -> Iterator[ConfError]:
    labels = conf.raw(LABELS_KEY)
    if labels is None or service_labels(labels) is None:
        example = "app.kubernetes.io/name=spark-shuffle-service"
        yield conf.refused(LABELS_KEY, f"the labels of the shuffle service's pods, such as {example}")
    spec = pod["spec"]
    if spec.get("hostNetwork") is not True:
        expected = (
            "a pod with hostNetwork: true: executors look for the shuffle service at their own address, not the node's"
        )
        yield conf.refused(TEMPLATE_KEY, expected)
    elif spec.get("dnsPolicy", "ClusterFirst") == "ClusterFirst":
        expected = (
            f"a pod with dnsPolicy: {HOST_DNS}: with hostNetwork alone executors do not find the driver's Service"
        )
        yield conf.refused(TEMPLATE_KEY, expected)
    if Reads(conf).raw_int(BLOCK_MANAGER_PORT, -1) != 0:
        expected = "0, any that is free: on the node's network another one lets one executor run on a node"
        yield conf.refused(BLOCK_MANAGER_PORT, expected)
    container = next((one for one in spec["containers"] if "executor" in one.get("args", ())), None)
    if container is None:  # the step that makes it is left out
        return
    variables = {one["name"]: one.get("value", "") for one in container.get("env", ())}
    key = EXECUTOR_DIRS_KEY if EXECUTOR_DIRS in variables else LOCAL_DIR_KEY
    for folder in _directories(variables):
        if "$(" in folder:
            expected = (
                f"{_APPLICATION} alone: Spark puts the id in its place, and Kubernetes leaves $({app_id}) as it is"
            )
            yield conf.refused(key, expected)
        elif not _on_node(folder, spec.get("volumes", ()), container.get("volumeMounts", ())):
            expected = (
                "directories on a hostPath that is mounted at its own path, where the service sees them "
                f"({_VOLUME}.mount.path and .options.path)"
            )
            yield conf.refused(key, expected)
        elif posixpath.basename(posixpath.normpath(folder)) != app_id:
            expected = (
                f"a directory for each application, named by its id: ROOT/{_APPLICATION}; others are never cleaned"
            )
            yield conf.refused(EXECUTOR_DIRS_KEY, expected)
        else:
            continue
        return


def _directories(variables: Mapping[str, str]) -> list[str]:
    """Utils.getConfiguredLocalDirs, on Kubernetes."""
    if EXECUTOR_DIRS in variables:
        return variables[EXECUTOR_DIRS].split(":")
    return variables.get("SPARK_LOCAL_DIRS", "").split(",")


def _on_node(folder: str, volumes: Sequence[Mapping[str, Any]], mounts: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a directory of the container is the same directory of the node."""
    wanted = posixpath.normpath(folder) + "/"
    found = [(posixpath.normpath(mount["mountPath"]), mount) for mount in mounts]
    over = [(path, mount) for path, mount in found if wanted.startswith(path.rstrip("/") + "/")]
    if not posixpath.isabs(folder) or not over:
        return False
    path, mount = max(over, key=lambda one: len(one[0]))
    if mount.get("subPath") or mount.get("subPathExpr") or mount.get("readOnly"):
        return False
    sources = [volume.get("hostPath", {}).get("path") for volume in volumes if volume["name"] == mount["name"]]
    return any(source is not None and posixpath.normpath(source) == path for source in sources)


# what to paste


def shuffle_settings(wishes: ShuffleWishes, template: str) -> dict[str, str]:
    """The settings of applications. ``template``: where their pod template is."""
    settings = {
        SERVICE: "true",
        PORT_KEY: str(wishes.port),
        REGISTRATION_KEY: str(REGISTRATIONS),
        LABELS_KEY: ",".join(f"{key}={value}" for key, value in wishes.labels.items()),
    }
    if wishes.namespace is not None:
        settings[SERVICES_NAMESPACE_KEY] = wishes.namespace
    settings |= {
        TEMPLATE_KEY: template,
        BLOCK_MANAGER_PORT: "0",
        EXECUTOR_DIRS_KEY: ":".join(f"{root.rstrip('/')}/{_APPLICATION}" for root in wishes.roots),
    }
    for number, root in enumerate(wishes.roots):
        volume = f"{_VOLUME}{number or ''}"
        settings |= {
            f"{volume}.mount.path": root,
            f"{volume}.options.path": root,
            f"{volume}.options.type": "Directory",
        }
    return settings


def shuffle_template(given: Mapping[str, Any], wishes: ShuffleWishes) -> dict[str, Any]:
    """A pod template with what is needed besides what was in it. Raises TemplateRefused.

    Executors run only on nodes that have a service's pod: one without is a node where they would fail.
    """
    spec = dict(given.get("spec") or {})
    for key, wanted in (("hostNetwork", True), ("dnsPolicy", HOST_DNS)):
        if spec.get(key, wanted) != wanted:
            raise TemplateRefused(f"the pod template has {key}: {spec[key]}; it has to be {wanted}")
        spec[key] = wanted
    affinity = dict(spec.get("affinity") or {})
    beside = dict(affinity.get("podAffinity") or {})
    term: dict[str, Any] = {"labelSelector": {"matchLabels": dict(wishes.labels)}, "topologyKey": HOSTNAME}
    if wishes.namespace is not None:
        term["namespaces"] = [wishes.namespace]
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    beside[required] = [*(beside.get(required) or ()), term]
    spec["affinity"] = {**affinity, "podAffinity": beside}
    spec["containers"] = list(spec.get("containers") or ({},))
    return {**given, "apiVersion": "v1", "kind": "Pod", "spec": spec}
