"""The seven feature steps of KubernetesExecutorBuilder 4.3.0, in its order, over a pod template or an empty pod.

Each step adds to what the template has: lists grow at their end, maps are merged with the conf winning, single values are
replaced. What no setting speaks of - affinity, tolerations, priority class, side-cars, init containers - survives from the
template. The Spark container is held apart and joins the others last, so side-cars come first.

The pod's host name, its restart policy and grace period, the image and its pull policy, memory and cpu, the privilege flag
and, with decommissioning, the whole lifecycle are Spark's, whatever the template says. A profile other than the default one
also takes the template's resources away.

Where Spark draws an order by lot - local directories - the one of the conf is kept. Where it lets a hash decide (secret
volumes, when there are more than four), the hash is computed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from podtide.domain.base.units import DEFAULT_PROFILE, ProfileId
from podtide.domain.conf.kubernetes_sections import REPLICA_KINDS
from podtide.domain.conf.volumes import CLAIM, Volume
from podtide.domain.executor_pod.blueprint import ClaimHole, Hostname, JoinedText, Text
from podtide.domain.executor_pod.facts import PodFacts
from podtide.domain.executor_pod.resources import ContainerShape
from podtide.domain.executor_pod.settings import (
    BASIC,
    CREDENTIALS,
    ENV_SECRETS,
    HADOOP_CONF,
    LOCAL_DIRS,
    MOUNT_SECRETS,
    MOUNT_VOLUMES,
    PodSettings,
)
from podtide.domain.jvm.hash_order import SMALL, map_order, trie_order
from podtide.domain.jvm.values import string_hash
from podtide.domain.protocol.pods import DEPLOYMENT, SPARK_CONTAINER

CONF_DIR: Final = "/opt/spark/conf"
CONF_VOLUME: Final = "spark-conf-volume-exec"
CONF_FILE_MODE: Final = 0o644
HADOOP_DIR: Final = "/opt/hadoop/conf"
HADOOP_VOLUME: Final = "hadoop-properties"
LOCAL_DIR_VOLUME: Final = "spark-local-dir-"
POD_GROUP_ANNOTATION: Final = "scheduling.k8s.io/group-name"
AUTH_SECRET_ENV: Final = "_SPARK_AUTH_SECRET"  # noqa: S105 - a name
JAVA_OPTION_ENV: Final = "SPARK_JAVA_OPT_"


class PodDraft(NamedTuple):
    """A pod under construction, and its Spark container; both are changed in place."""

    pod: dict[str, Any]
    container: dict[str, Any]

    @property
    def metadata(self) -> dict[str, Any]:
        """The pod's metadata."""
        found: dict[str, Any] = self.pod.setdefault("metadata", {})
        return found

    @property
    def spec(self) -> dict[str, Any]:
        """The pod's spec."""
        found: dict[str, Any] = self.pod.setdefault("spec", {})
        return found


def build(
    settings: PodSettings, facts: PodFacts, profile: ProfileId, shape: ContainerShape, *, single_task: bool
) -> dict[str, Any]:
    """The tree of an executor's pod, with holes. ``single_task``: it announces cores for one task only."""
    draft = _initial(facts.template, settings.container)
    cores = settings.single_task_cores if single_task else shape.cores
    if BASIC not in settings.excluded:
        _basic(draft, settings, facts, profile, shape, cores)
    if CREDENTIALS not in settings.excluded:
        _credentials(draft, settings)
    if MOUNT_SECRETS not in settings.excluded:
        _mount_secrets(draft, settings)
    if ENV_SECRETS not in settings.excluded:
        _env_secrets(draft, settings)
    if MOUNT_VOLUMES not in settings.excluded:
        _mount_volumes(draft, settings)
    if HADOOP_CONF not in settings.excluded:
        _hadoop_conf(draft, settings)
    if LOCAL_DIRS not in settings.excluded:
        _local_dirs(draft, settings)
    if settings.volcano:
        draft.metadata.setdefault("annotations", {})[POD_GROUP_ANNOTATION] = f"{facts.app_id}-podgroup"
    _add(draft.spec, "containers", _ordered(draft.container))
    ordered = {key: _ordered(draft.pod[key]) for key in ("metadata", "spec") if key in draft.pod}
    return _ordered(draft.pod | ordered)


def container_missing(template: Mapping[str, Any] | None, name: str | None) -> bool:
    """Whether the template has no container, or several, of the name that the conf says is Spark's."""
    if template is None or name is None:
        return False
    return [container.get("name") for container in template["spec"]["containers"]].count(name) != 1


def _initial(template: Mapping[str, Any] | None, name: str | None) -> PodDraft:
    """KubernetesUtils.selectSparkContainer: the named container of the template, else its first, else an empty one."""
    if template is None:
        return PodDraft({"apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": {}}, {})
    pod = _copied(template)
    containers = pod["spec"].pop("containers")
    if not containers:
        return PodDraft(pod, {})
    named = [container for container in containers if container.get("name") == name]
    chosen = named[0] if name is not None and len(named) == 1 else containers[0]
    if rest := [container for container in containers if container is not chosen]:
        pod["spec"]["containers"] = rest
    return PodDraft(pod, chosen)


def _copied(node: Any) -> Any:
    if isinstance(node, Mapping):
        return {key: _copied(child) for key, child in node.items()}
    return [_copied(child) for child in node] if isinstance(node, (list, tuple)) else node


def _ordered(node: dict[str, Any]) -> dict[str, Any]:
    """Fields in alphabetical order, as Kubernetes' own clients write them."""
    return dict(sorted(node.items()))


def _add(node: dict[str, Any], key: str, *items: Any) -> None:
    """Put items at the end of a list that may not be there yet; no list is made for none."""
    if items:
        node.setdefault(key, []).extend(items)


def _merge(node: dict[str, Any], key: str, entries: Mapping[str, Any]) -> None:
    if entries:
        node.setdefault(key, {}).update(entries)


# ------------------------------------------------------------------------------------------------ BasicExecutor


def _basic(
    draft: PodDraft, settings: PodSettings, facts: PodFacts, profile: ProfileId, shape: ContainerShape, cores: int
) -> None:
    metadata, spec = draft.metadata, draft.spec
    metadata["name"] = JoinedText((f"{settings.prefix}-exec-", ""))
    own = {
        "spark-version": facts.spark_version,
        "spark-exec-id": JoinedText(("", "")),
        "spark-app-selector": facts.app_id,
        "spark-app-name": settings.app_name,
        "spark-role": "executor",
        "spark-exec-resourceprofile-id": str(profile),
    }
    _merge(metadata, "labels", {**settings.labels, **own})
    _merge(metadata, "annotations", settings.annotations)
    if facts.driver is not None:
        _add(metadata, "ownerReferences", facts.driver.owner.reference())
    spec["hostname"] = Hostname(settings.prefix, lower=settings.allocator == DEPLOYMENT)
    spec["restartPolicy"] = "Always" if settings.allocator in REPLICA_KINDS else "Never"
    spec["terminationGracePeriodSeconds"] = settings.grace_s
    _merge(spec, "nodeSelector", settings.node_selector)
    _add(spec, "imagePullSecrets", *({"name": name} for name in settings.pull_secrets))
    if settings.config_map:
        source: dict[str, Any] = {"name": facts.config_map}
        if facts.config_items:
            source = {"items": [_key_to_path(name) for name in facts.config_items], **source}
        _add(spec, "volumes", {"configMap": source, "name": CONF_VOLUME})
    if settings.scheduler is not None:
        spec["schedulerName"] = settings.scheduler
    _container(draft.container, settings, facts, profile, shape, cores)


def _key_to_path(name: str) -> dict[str, Any]:
    return {"key": name, "mode": CONF_FILE_MODE, "path": name}


def _container(
    container: dict[str, Any],
    settings: PodSettings,
    facts: PodFacts,
    profile: ProfileId,
    shape: ContainerShape,
    cores: int,
) -> None:
    default = profile == DEFAULT_PROFILE
    container.setdefault("name", SPARK_CONTAINER)
    container["image"] = settings.image
    container["imagePullPolicy"] = settings.pull_policy
    if not default and "resources" in container:
        container["resources"] = {}
    resources: dict[str, Any] = container.setdefault("resources", {})
    memory = f"{shape.total_mib}Mi"
    request = settings.cores_request if default and settings.cores_request is not None else str(shape.cores)
    limits = {"memory": memory, **shape.custom}
    if default and settings.cores_limit is not None:
        limits["cpu"] = settings.cores_limit
    _merge(resources, "limits", limits)
    _merge(resources, "requests", {"memory": memory, "cpu": request})
    for name in ("cpu", "memory"):
        _add(container, "resizePolicy", {"resourceName": name, "restartPolicy": "NotRequired"})
    _add(container, "env", _env("SPARK_USER", facts.spark_user), *_environment(settings, facts, profile, shape, cores))
    if settings.block_manager_port != 0:
        _add(container, "ports", {"containerPort": settings.block_manager_port, "name": "blockmanager"})
    _add(container, "args", "executor")
    container.setdefault("securityContext", {})["allowPrivilegeEscalation"] = settings.privilege_escalation
    if settings.config_map:
        _add(container, "volumeMounts", {"mountPath": CONF_DIR, "name": CONF_VOLUME})
    if settings.decommission_script is not None:
        container["lifecycle"] = {"preStop": {"exec": {"command": [settings.decommission_script]}}}


def _env(name: str, value: Text) -> dict[str, Any]:
    return {"name": name, "value": value}


def _environment(
    settings: PodSettings, facts: PodFacts, profile: ProfileId, shape: ContainerShape, cores: int
) -> list[dict[str, Any]]:
    entries: list[tuple[str, Text | None]] = [
        ("SPARK_DRIVER_URL", settings.driver_url),
        ("SPARK_EXECUTOR_CORES", str(cores)),
        ("SPARK_EXECUTOR_MEMORY", f"{shape.heap_mib}m"),
        ("SPARK_APPLICATION_ID", facts.app_id),
        ("SPARK_CONF_DIR", CONF_DIR),
        ("SPARK_EXECUTOR_ID", JoinedText(("", ""))),
        ("SPARK_RESOURCE_PROFILE_ID", str(profile)),
    ]
    if settings.executor_attributes:
        entries.append(("SPARK_EXECUTOR_ATTRIBUTE_APP_ID", facts.app_id))
        entries.append(("SPARK_EXECUTOR_ATTRIBUTE_EXECUTOR_ID", JoinedText(("", ""))))
    entries.extend(settings.environment)
    entries.append((AUTH_SECRET_ENV, settings.auth_secret))
    entries.append(("SPARK_CLASSPATH", settings.class_path))
    entries.append(("SPARK_EXECUTOR_LIBRARY_PATH", settings.library_path))
    options = {f"{JAVA_OPTION_ENV}{place}": option for place, option in enumerate(settings.java_options)}
    entries.extend((name, options[name]) for name in map_order(list(options)))
    variables = [_env(name, value) for name, value in entries if value is not None]
    _name_executor_dirs(variables, facts.app_id)
    variables.extend(
        {"name": name, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}}
        for name, path in (("SPARK_EXECUTOR_POD_IP", "status.podIP"), ("SPARK_EXECUTOR_POD_NAME", "metadata.name"))
    )
    return variables


def _name_executor_dirs(variables: list[dict[str, Any]], app_id: str) -> None:
    """In SPARK_EXECUTOR_DIRS the names of two other variables stand for their values."""
    for variable in variables:
        if variable["name"] == "SPARK_EXECUTOR_DIRS":
            parts = variable["value"].replace("SPARK_APPLICATION_ID", app_id).split("SPARK_EXECUTOR_ID")
            variable["value"] = parts[0] if len(parts) == 1 else JoinedText(tuple(parts))
            return


# --------------------------------------------------------------------------------------------- the other steps


def _credentials(draft: PodDraft, settings: PodSettings) -> None:
    spec = draft.spec
    if "serviceAccount" not in spec and settings.service_account is not None:
        spec["serviceAccount"] = spec["serviceAccountName"] = settings.service_account


def _mount_secrets(draft: PodDraft, settings: PodSettings) -> None:
    names = [name for name, _ in settings.secrets]
    if len(names) > SMALL:  # a Set of volumes: walked by the hash of a volume
        names = trie_order([(_secret_volume_hash(name), name) for name in names])
    _add(draft.spec, "volumes", *({"name": f"{name}-volume", "secret": {"secretName": name}} for name in names))
    mounts = [{"mountPath": path, "name": f"{name}-volume"} for name, path in settings.secrets]
    _add(draft.container, "volumeMounts", *mounts)


_NULL_HASH: Final = 43
_VOLUME_FIELDS: Final = 31  # of the client's class Volume; "name" is the 20th, "secret" the 29th


def _secret_volume_hash(name: str) -> int:
    """hashCode of the client's Volume with a secret and nothing else: 59 times what was, plus each field's."""
    secret = _fields_hash((_NULL_HASH, _NULL_HASH, 1, string_hash(name), 0))
    codes = [_NULL_HASH] * _VOLUME_FIELDS
    codes[19], codes[28] = string_hash(f"{name}-volume"), secret
    return _fields_hash((*codes, 0))


def _fields_hash(codes: tuple[int, ...]) -> int:
    total = 1
    for code in codes:
        total = (total * 59 + code) & 0xFFFFFFFF
    return total


def _env_secrets(draft: PodDraft, settings: PodSettings) -> None:
    refs = [
        {"name": variable, "valueFrom": {"secretKeyRef": {"key": key, "name": name}}}
        for variable, name, key in settings.secret_refs
    ]
    _add(draft.container, "env", *refs)


def _mount_volumes(draft: PodDraft, settings: PodSettings) -> None:
    mounts = [
        {
            "mountPath": volume.mount_path,
            "name": volume.name,
            "readOnly": volume.read_only,
            "subPath": volume.sub_path,
            "subPathExpr": volume.sub_path_expr,
        }
        for volume in settings.volumes
    ]
    holes = (ClaimHole(place, template, settings.prefix) for place, template in enumerate(settings.claims))
    claims = {template.index: hole for template, hole in zip(settings.claims, holes, strict=True)}
    volumes = [_volume(volume, claims.get(index)) for index, volume in enumerate(settings.volumes)]
    _add(draft.spec, "volumes", *volumes)
    _add(draft.container, "volumeMounts", *mounts)


def _volume(volume: Volume, claim: ClaimHole | None) -> dict[str, Any]:
    first, second, *_ = volume.details
    match volume.kind:
        case "hostPath":
            return {"hostPath": {"path": first, "type": second}, "name": volume.name}
        case "nfs":
            return {"name": volume.name, "nfs": {"path": first, "server": second}}
        case "emptyDir":
            source = {"medium": first or ""} | ({} if second is None else {"sizeLimit": second})
            return {"emptyDir": source, "name": volume.name}
        case _:
            assert volume.kind == CLAIM
            return {"name": volume.name, CLAIM: {"claimName": claim, "readOnly": volume.read_only}}


def _hadoop_conf(draft: PodDraft, settings: PodSettings) -> None:
    if settings.hadoop_config_map is not None:
        _add(draft.spec, "volumes", {"configMap": {"name": settings.hadoop_config_map}, "name": HADOOP_VOLUME})
        _add(draft.container, "volumeMounts", {"mountPath": HADOOP_DIR, "name": HADOOP_VOLUME})
        _add(draft.container, "env", _env("HADOOP_CONF_DIR", HADOOP_DIR))


def _local_dirs(draft: PodDraft, settings: PodSettings) -> None:
    """Volumes named spark-local-dir-* are the local directories; without any, emptyDirs are made for them."""
    mounts = draft.container.get("volumeMounts", ())
    paths = [mount["mountPath"] for mount in mounts if mount["name"].startswith(LOCAL_DIR_VOLUME)]
    if not paths:
        paths = list(settings.local_dirs)
        source = {"medium": "Memory"} if settings.local_dirs_in_memory else {}
        names = [f"{LOCAL_DIR_VOLUME}{number}" for number, _ in enumerate(paths, 1)]
        _add(draft.spec, "volumes", *({"emptyDir": source, "name": name} for name in names))
        own = [{"mountPath": path, "name": name} for path, name in zip(paths, names, strict=True)]
        _add(draft.container, "volumeMounts", *own)
    _add(draft.container, "env", _env("SPARK_LOCAL_DIRS", ",".join(paths)))
