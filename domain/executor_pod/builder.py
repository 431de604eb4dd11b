"""Executor pods of an application: KubernetesExecutorBuilder 4.3.0 as a function from conf and facts to manifests.

``executor_pods`` reads the conf once (``executor_pod.settings``), builds the tree of a pod for each profile
(``executor_pod.feature_steps``) and answers with what is wrong, or with ``ExecutorPods``, which fills in one
executor after the other at the cost of a few small copies. Manifests are plain dicts and lists in the types of the
Kubernetes API; they share parts with one another and are to be read, not changed.

Around the pod: the claims that are created for it, the StatefulSet or Deployment that the scaling allocators make of it
(spec: allocation, sections 11 to 13), and the config map with SPARK_CONF_DIR. Every object is owned as in Spark: pods, sets
and the config map by the driver's pod, a claim by whom the caller says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from returns.result import Failure, Result, Success

from podtide.domain.base.units import DEFAULT_PROFILE, Millis, ProfileId
from podtide.domain.conf.kubernetes_sections import K
from podtide.domain.conf.reader import Reads
from podtide.domain.conf.settings import ConfNotice, NoticeLevel
from podtide.domain.conf.spark_conf import ConfError, SparkConf
from podtide.domain.conf.volumes import CLAIM, PREFIX, Volume
from podtide.domain.executor_pod.blueprint import Blueprint, Filling, pod_name
from podtide.domain.executor_pod.facts import DriverPod, Owner, PodFacts
from podtide.domain.executor_pod.feature_steps import build, container_missing
from podtide.domain.executor_pod.resources import ContainerShape, executor_shape
from podtide.domain.executor_pod.settings import BASIC, MOUNT_VOLUMES, TEMPLATE_KEY, PodSettings, pod_settings
from podtide.domain.executor_pod.shuffle_service import shuffle_errors
from podtide.domain.jvm.exceptions import NO_SUCH_ELEMENT, SparkFault
from podtide.domain.jvm.instants import format_instant
from podtide.domain.kubernetes.allocator.replicas_allocator import CLAIMS_REFUSED, NO_DRIVER_POD
from podtide.domain.protocol.cluster_config import ClaimTemplate, claim_name
from podtide.domain.protocol.pod_commands import ClaimSpec, CreateSet
from podtide.domain.protocol.pods import DEPLOYMENT, STATEFULSET, UNNAMED_EXECUTOR
from podtide.domain.protocol.resource_profiles import ResourceProfile

__all__ = ["CannotBuild", "DriverPod", "ExecutorPods", "Owner", "PodFacts", "executor_pods"]

APP_LABEL: Final = "spark-app-selector"
ROLE_LABEL: Final = "spark-role"
PROFILE_LABEL: Final = "spark-exec-resourceprofile-id"
EXECUTOR_ROLE: Final = "executor"
DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
PROPERTIES_FILE: Final = "spark.properties"
NAMESPACE_KEY: Final = K + "namespace"

_DAYS: Final = ("Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed")  # the epoch began on a Thursday
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_DAY_MS: Final = 86_400_000


class CannotBuild(Exception):
    """A manifest that cannot be: what Spark would throw, or that the profile is not known."""

    def __init__(self, fault: SparkFault) -> None:
        super().__init__(str(fault))
        self.fault = fault


def executor_pods(
    conf: SparkConf, facts: PodFacts, profiles: Mapping[ProfileId, ResourceProfile] | None = None
) -> Result[ExecutorPods, tuple[ConfError, ...]]:
    """The pods of an application, or everything that keeps Spark from building one.

    ``profiles``: the resource profiles besides the default one; a mapping that grows is looked up when a pod asks for it.
    """
    reads = Reads(conf)
    settings = pod_settings(reads, facts)
    pods = ExecutorPods(conf, facts, settings, {} if profiles is None else profiles)
    errors = list(reads.errors)
    for profile in dict.fromkeys((DEFAULT_PROFILE, *pods.profiles)):
        problem = pods.problem(profile)
        if problem is not None and problem not in errors:
            errors.append(problem)
    if settings.allocator == DEPLOYMENT:
        errors.extend(_claims_of_deployment(conf, settings, facts))
    if not errors:
        errors.extend(shuffle_errors(conf, pods.pod(UNNAMED_EXECUTOR, DEFAULT_PROFILE), facts.app_id))
    return Failure(tuple(errors)) if errors else Success(pods)


def _claims_of_deployment(conf: SparkConf, settings: PodSettings, facts: PodFacts) -> list[ConfError]:
    """A Deployment's pods can have no claims, be they of the conf or of the template."""
    if settings.claims:
        key = f"{PREFIX}{CLAIM}.{settings.claims[0].volume}.options.claimName"
        return [conf.refused(key, "no claims with the deployment allocator", CLAIMS_REFUSED)]
    if facts.template is not None and any(CLAIM in volume for volume in facts.template["spec"].get("volumes", ())):
        return [conf.refused(TEMPLATE_KEY, "a pod without claims with the deployment allocator", CLAIMS_REFUSED)]
    return []


class ExecutorPods:
    """Manifests of one application's executors. Made by ``executor_pods``; knows nothing of what was built before.

    ``notices``: what Spark logs about the conf. ``claims``: the volumes that mount claims, in Spark's order.
    """

    def __init__(
        self,
        conf: SparkConf,
        facts: PodFacts,
        settings: PodSettings,
        profiles: Mapping[ProfileId, ResourceProfile],
    ) -> None:
        """Use ``executor_pods``."""
        self._conf = conf
        self._facts = facts
        self._settings = settings
        self.profiles: Final = profiles
        self._blueprints: dict[tuple[ProfileId, bool], Blueprint] = {}
        self.notices: Final = _notices(settings, facts)
        self.claims: Final[tuple[ClaimTemplate, ...]] = settings.claims

    @property
    def namespace(self) -> str:
        """Where the application's objects live (spark.kubernetes.namespace)."""
        return self._settings.namespace

    @property
    def allocator(self) -> str:
        """What makes the pods: direct, statefulset, deployment or a class's name."""
        return self._settings.allocator

    @property
    def app_id(self) -> str:
        """The application's id."""
        return self._facts.app_id

    @property
    def driver(self) -> DriverPod | None:
        """The pod that owns pods, sets and the config map."""
        return self._facts.driver

    def pod_name(self, executor: str) -> str:
        """The name of an executor's pod."""
        return pod_name(self._settings.prefix, executor)

    def problem(self, profile: ProfileId) -> ConfError | None:
        """What keeps pods of this profile from being built."""
        made = self._blueprint(profile, single_task=False)
        return None if isinstance(made, Blueprint) else made

    def pod(
        self,
        executor: str,
        profile: ProfileId,
        *,
        claims: Sequence[str] = (),
        reused: Sequence[str] = (),
        single_task: bool = False,
    ) -> dict[str, Any]:
        """The pod of an executor. Raises CannotBuild.

        ``claims``: what its volumes mount, one for each of ``self.claims``, taken-over ones (``reused``) among them;
        without, the claims of its own. ``single_task``: it announces cores for one task only (recovery mode).
        """
        if claims and len(claims) != len(self.claims):
            text = f"{len(claims)} claims for {len(self.claims)} volumes of executor {executor}"
            raise CannotBuild(SparkFault("java.lang.IllegalArgumentException", text))
        if any(claim not in claims for claim in reused):
            text = f"executor {executor} takes over a claim that none of its volumes mounts"
            raise CannotBuild(SparkFault("java.lang.IllegalArgumentException", text))
        made = self._blueprint(profile, single_task=single_task or self._settings.recovering)
        if isinstance(made, ConfError):
            raise CannotBuild(made.raised or SparkFault("java.lang.IllegalArgumentException", str(made)))
        return made.fill(Filling(executor, claims))

    def _blueprint(self, profile: ProfileId, *, single_task: bool) -> Blueprint | ConfError:
        found = self._blueprints.get((profile, single_task))
        if found is not None:
            return found
        described = ResourceProfile(DEFAULT_PROFILE) if profile == DEFAULT_PROFILE else self.profiles.get(profile)
        if described is None:
            fault = SparkFault(NO_SUCH_ELEMENT, f"key not found: {profile}")
            return ConfError(PROFILE_LABEL, str(profile), "unset", "a resource profile that is known", fault)
        vendors = self._facts.vendors.get(profile, {})
        shape = executor_shape(self._conf, self._settings.sizes, described, vendors)
        if isinstance(shape, ConfError):
            if BASIC not in self._settings.excluded:
                return shape
            shape = ContainerShape(0, 0, 0, {})  # nothing of it shows
        made = Blueprint(build(self._settings, self._facts, profile, shape, single_task=single_task))
        self._blueprints[profile, single_task] = made
        return made

    # claims

    def own_claims(self, executor: str) -> tuple[ClaimSpec, ...]:
        """The claims that are created for an executor, before any reuse: those with storage class and size."""
        if MOUNT_VOLUMES in self._settings.excluded:
            return ()
        return tuple(
            ClaimSpec(
                claim_name(template, self._settings.prefix, executor),
                template.storage_class or "",
                template.size or "",
                template.volume,
            )
            for template in self.claims
            if template.creates
        )

    def claim(self, spec: ClaimSpec, executor: str, owner: Owner | None) -> dict[str, Any]:
        """A claim to create. ``owner``: the executor's pod as it was created, or the driver's."""
        made = self._claim(spec)
        if owner is not None:
            made["metadata"]["ownerReferences"] = [owner.reference()]
        del executor  # the claim's name says whose it is
        return made

    def _claim(self, spec: ClaimSpec) -> dict[str, Any]:
        labels: dict[str, str] = {}
        annotations: dict[str, str] = {}
        for volume in self._settings.volumes:
            if volume.kind == CLAIM and volume.name == spec.volume:
                labels, annotations = _claim_marks(volume)
        metadata: dict[str, Any] = {"annotations": annotations} if annotations else {}
        metadata |= {"labels": {**labels, APP_LABEL: self._facts.app_id}, "name": spec.name}
        return {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": metadata,
            "spec": {
                "accessModes": [self._settings.access_mode],
                "resources": {"requests": {"storage": spec.size}},
                "storageClassName": spec.storage_class,
            },
        }

    # StatefulSets and Deployments

    def replica_set(self, command: CreateSet) -> dict[str, Any]:
        """The StatefulSet or Deployment of a profile, owned by the driver's pod. Raises CannotBuild.

        Claims that would be created become volumeClaimTemplates of the command's names, and their volumes leave the pod.
        """
        if self._facts.driver is None:
            raise CannotBuild(NO_DRIVER_POD)
        pod = self.pod(UNNAMED_EXECUTOR, command.profile)
        metadata, pod_spec = dict(pod.get("metadata", {})), dict(pod["spec"])
        selector = {APP_LABEL: self._facts.app_id, ROLE_LABEL: EXECUTOR_ROLE, PROFILE_LABEL: str(command.profile)}
        spec: dict[str, Any] = {"replicas": command.replicas, "selector": {"matchLabels": selector}}
        if command.kind == STATEFULSET:
            spec["podManagementPolicy"] = "Parallel"
            _without_claims(pod_spec, {claim.name for claim in self.own_claims(UNNAMED_EXECUTOR)})
            if command.claims:
                spec["volumeClaimTemplates"] = [self._claim(claim) for claim in command.claims]
        else:
            metadata["annotations"] = {DELETION_COST: "0", **metadata.get("annotations", {})}
        spec["template"] = {"metadata": metadata, "spec": pod_spec} if "metadata" in pod else {"spec": pod_spec}
        return {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet" if command.kind == STATEFULSET else "Deployment",
            "metadata": {
                "name": command.name,
                "namespace": self.namespace,
                "ownerReferences": [self._facts.driver.owner.reference()],
            },
            "spec": dict(sorted(spec.items())),
        }

    # the config map

    def config_map(self, files: Mapping[str, str], now: Millis | None = None) -> dict[str, Any]:
        """The executors' config map: the files of SPARK_CONF_DIR, and the namespace twice. Raises CannotBuild.

        ``files``: texts by file name; their names should be ``PodFacts.config_items``, or pods do not see them. ``now``:
        for the date that Java writes into a properties file; left out without.
        """
        if self._facts.config_map is None:
            raise CannotBuild(SparkFault("java.lang.IllegalArgumentException", "the config map has no name"))
        data = {
            **files,
            PROPERTIES_FILE: _properties({NAMESPACE_KEY: self.namespace}, self._facts.config_map, now),
            NAMESPACE_KEY: self.namespace,
        }
        metadata: dict[str, Any] = {
            "labels": {APP_LABEL: self._facts.app_id, ROLE_LABEL: EXECUTOR_ROLE},
            "name": self._facts.config_map,
            "namespace": self.namespace,
        }
        if self._facts.driver is not None:
            metadata["ownerReferences"] = [self._facts.driver.owner.reference()]
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data, "immutable": True}


def _notices(settings: PodSettings, facts: PodFacts) -> tuple[ConfNotice, ...]:
    if not container_missing(facts.template, settings.container):
        return settings.notices
    text = f"specified container {settings.container} not found on pod template, falling back to taking the first container"
    return (ConfNotice(NoticeLevel.WARNING, text, spark=True), *settings.notices)


def _claim_marks(volume: Volume) -> tuple[dict[str, str], dict[str, str]]:
    """Labels and annotations of a claim."""
    *_, labels, annotations = volume.details
    assert isinstance(labels, Mapping)
    assert isinstance(annotations, Mapping)
    return dict(labels), dict(annotations)


def _without_claims(spec: dict[str, Any], names: set[str]) -> None:
    """Take the volumes away that mount these claims."""
    kept = [volume for volume in spec.get("volumes", ()) if volume.get(CLAIM, {}).get("claimName") not in names]
    if kept:
        spec["volumes"] = kept
    else:
        spec.pop("volumes", None)


def _properties(entries: Mapping[str, str], config_map: str, now: Millis | None) -> str:
    """What java.util.Properties writes, with Spark's comment."""
    lines = [f"#Java properties built from Kubernetes config map with name: {config_map}"]
    if now is not None:
        lines.append(f"#{_java_date(now)}")
    lines += [f"{_escaped(name, key=True)}={_escaped(text, key=False)}" for name, text in entries.items()]
    return "".join(f"{line}\n" for line in lines)


def _java_date(now: Millis) -> str:
    """java.util.Date.toString in UTC: Sat Nov 21 15:37:05 UTC 2026."""
    date, _, time = format_instant(now).partition("T")
    year, month, day = date.rsplit("-", 2)
    return f"{_DAYS[now // _DAY_MS % 7]} {_MONTHS[int(month) - 1]} {day} {time[:8]} UTC {year}"


def _escaped(text: str, *, key: bool) -> str:
    plain = text.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")
    plain = plain.replace("\f", "\\f")
    for sign in "=:#!":
        plain = plain.replace(sign, f"\\{sign}")
    return plain.replace(" ", "\\ ") if key else (f"\\{plain}" if plain.startswith(" ") else plain)
