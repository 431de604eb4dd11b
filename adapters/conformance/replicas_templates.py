"""The pod template of a StatefulSet or Deployment, as far as the scenarios of the scaling allocators show it.

Spark builds the template of a set as it builds an executor's pod, for the executor id EXECID. The judge shows its labels,
annotations, names, owner, volumes (sorted by name), containers and a few variables of the first one. ``mini`` is the bare
pod of the judge's own builder; ``real`` follows KubernetesExecutorBuilder (spec: backend, section 5) where these parts are
concerned: BasicExecutorFeatureStep, MountSecrets, MountVolumes, HadoopConfExecutor, LocalDirs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from podtide.domain.base.units import DEFAULT_PROFILE, ProfileId
from podtide.domain.protocol.pod_commands import CreateSet
from podtide.domain.protocol.pods import (
    APP_LABEL,
    DEPLOYMENT,
    EXECUTOR_LABEL,
    EXECUTOR_ROLE,
    PROFILE_LABEL,
    ROLE_LABEL,
    SPARK_CONTAINER,
    UNNAMED_EXECUTOR,
)

DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
SPARK_VERSION: Final = "4.3.0"
HOSTNAME_MAX: Final = 63
LABEL_MAX: Final = 63
CONF_VOLUME: Final = "spark-conf-volume-exec"
LOCAL_DIR: Final = "spark-local-dir-"
CLAIM: Final = "persistentVolumeClaim"
EXECUTOR: Final = "spark.kubernetes.executor."

Template = dict[str, Any]


def set_labels(app_id: str, profile: ProfileId) -> dict[str, str]:
    """The labels that every executor pod of a profile carries, by which its set selects them."""
    return {APP_LABEL: app_id, ROLE_LABEL: EXECUTOR_ROLE, PROFILE_LABEL: str(profile)}


def mini(command: CreateSet, app_id: str) -> Template:
    """The bare pod of the judge's builder."""
    return {
        "labels": {EXECUTOR_LABEL: UNNAMED_EXECUTOR, **set_labels(app_id, command.profile)},
        "annotations": {DELETION_COST: "0"} if command.kind == DEPLOYMENT else {},
        "name": f"exec-{UNNAMED_EXECUTOR}",
        "podOwner": None,
        "volumes": [],
        "containers": [SPARK_CONTAINER],
    }


def real(command: CreateSet, app_id: str, conf: Mapping[str, str], *, driver: str | None) -> Template:
    """The pod of KubernetesExecutorBuilder. ``conf``: the application's, every value as text."""
    name = f"{conf.get(EXECUTOR + 'podNamePrefix', 'exec')}-exec-{UNNAMED_EXECUTOR}"
    labels = {
        **_family(conf, EXECUTOR + "label.", app_id),
        EXECUTOR_LABEL: UNNAMED_EXECUTOR,
        "spark-app-name": label_text(conf.get("spark.app.name", "")),
        "spark-version": SPARK_VERSION,
        **set_labels(app_id, command.profile),
    }
    annotations = _family(conf, EXECUTOR + "annotation.", app_id)
    if command.kind == DEPLOYMENT:
        annotations.setdefault(DELETION_COST, "0")
    return {
        "labels": labels,
        "annotations": annotations,
        "name": name,
        "podOwner": driver,
        "volumes": sorted(_volumes(conf, frozenset(claim.volume for claim in command.claims))),
        "containers": [conf.get(EXECUTOR + "podTemplateContainerName", SPARK_CONTAINER)],
        "SPARK_EXECUTOR_CORES": str(_cores(conf, command.profile)),
        "SPARK_EXECUTOR_ID": UNNAMED_EXECUTOR,
        "SPARK_RESOURCE_PROFILE_ID": str(command.profile),
        "restartPolicy": "Always",
        "hostname": hostname(name, lower=command.kind == DEPLOYMENT),
    }


def hostname(name: str, *, lower: bool) -> str:
    """The host name of a pod: the end of its name, without what a host name may not hold."""
    end = name[-HOSTNAME_MAX:]
    cleaned = re.sub(r"[^A-Za-z0-9_-]", "_", re.sub(r"^[^A-Za-z0-9_]+", "", end))
    return cleaned.lower() if lower else cleaned


def label_text(text: str) -> str:
    """The application's name as a label: KubernetesConf.getAppNameLabel."""
    collapsed = re.sub(r"-+", "-", re.sub(r"[^a-z0-9-]", "-", text.strip().lower()))
    return collapsed[:LABEL_MAX].strip("-")


def _family(conf: Mapping[str, str], prefix: str, app_id: str) -> dict[str, str]:
    """The keys after a prefix, with Spark's two placeholders filled in."""
    placeholders = {"{{APP_ID}}": app_id, "{{EXECUTOR_ID}}": UNNAMED_EXECUTOR}
    family = {}
    for key, value in conf.items():
        if key.startswith(prefix):
            for placeholder, meaning in placeholders.items():
                value = value.replace(placeholder, meaning)  # noqa: PLW2901 - the text on its way
            family[key.removeprefix(prefix)] = value
    return family


def _volumes(conf: Mapping[str, str], templated: frozenset[str]) -> list[str]:
    """The names of the pod's volumes, but for the claims that became volumeClaimTemplates."""
    prefix = EXECUTOR + "volumes."
    parts = (key.removeprefix(prefix).split(".") for key in conf if key.startswith(prefix))
    mounted = {(part[0], part[1]) for part in parts if len(part) > 2}  # TYPE.NAME.what
    names = [name for kind, name in mounted if not (kind == CLAIM and name in templated)]
    if not any(name.startswith(LOCAL_DIR) for _, name in mounted):
        directories = conf.get("spark.local.dir", "default").split(",")
        names += [f"{LOCAL_DIR}{place}" for place, _ in enumerate(directories, start=1)]
    secrets = EXECUTOR + "secrets."
    names += [f"{key.removeprefix(secrets)}-volume" for key in conf if key.startswith(secrets)]
    if conf.get(EXECUTOR + "disableConfigMap", "false").lower() != "true":
        names.append(CONF_VOLUME)
    if conf.get(EXECUTOR + "hadoopConfigMapName"):
        names.append("hadoop-properties")
    return names


def _cores(conf: Mapping[str, str], profile: ProfileId) -> int:
    """The cores that an executor announces; the judge's profiles have 1 to 4."""
    return int(conf.get("spark.executor.cores", "1")) if profile == DEFAULT_PROFILE else 1 + profile % 4
