"""The executors' volumes of a conf (spark.kubernetes.executor.volumes.TYPE.NAME.*), in the order in which Spark has them.

An on-demand claim is called ``<prefix>-exec-<id>-pvc-<i>``, where ``i`` is the place of its volume among all volumes of
the conf, claims or not. That order is nobody's choice but that of four hash tables in a row: a mutable HashSet of all
settings (SparkConf.getAll), an immutable Map of the volumes' properties, an immutable Set of (type, name) and an
immutable Set of the parsed volumes. Immutable ones keep the order of insertion up to four entries; a larger one is a
trie that is walked by the hash of its entries, for the last set the hash of everything that is said about a volume. All
four are here, so that the names of the claims are those that Spark would give.

``executor_volumes`` is KubernetesVolumeUtils.parseVolumesWithPrefix with MountVolumesFeatureStep's check for mount paths
that are used twice; what Spark throws, at every pod that it builds, is a ``ConfError``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from returns.result import Failure, Result, Success

from podtide.domain.conf.spark_conf import ConfError, SparkConf
from podtide.domain.jvm.exceptions import NO_SUCH_ELEMENT, NUMBER_FORMAT, SparkFault, illegal
from podtide.domain.jvm.hash_order import SMALL, map_hash, map_order, product_hash, trie_order
from podtide.domain.jvm.values import LONG_MAX, parse_boolean, string_hash
from podtide.domain.protocol.cluster_config import ClaimTemplate

PREFIX: Final = "spark.kubernetes.executor.volumes."
CLAIM: Final = "persistentVolumeClaim"

VOLUMES_MAX: Final = 1_000
"""Far more than Kubernetes takes in a pod; a conf with more of them is refused."""

T = TypeVar("T")


class Volume(NamedTuple):
    """One volume; ``details`` are the fields of its KubernetesVolumeSpecificConf, in Spark's order."""

    kind: str
    name: str
    mount_path: str
    sub_path: str
    sub_path_expr: str
    read_only: bool
    details: tuple[str | Mapping[str, str] | None, ...]


class _Unusable(Exception):
    """What Spark throws over a volume: the key to blame (after the prefix), what was expected, the exception."""

    def __init__(self, key: str, expected: str, raised: SparkFault) -> None:
        super().__init__(key)
        self.key, self.expected, self.raised = key, expected, raised


def executor_volumes(conf: SparkConf) -> Result[tuple[Volume, ...], ConfError]:
    """The volumes in Spark's order, or the first setting that keeps Spark from building a pod."""
    properties = {name: setting.value for name, setting in conf.family(PREFIX).items()}
    kinds = _set_order(_kinds_and_names(properties), lambda pair: product_hash("Tuple2", map(string_hash, pair)))
    if len(kinds) > VOLUMES_MAX:
        key = f"{PREFIX}{'.'.join(kinds[0])}"
        return Failure(ConfError(key, "", "one of many", f"at most {VOLUMES_MAX} volumes", None))
    try:
        volumes = _set_order([_volume(properties, kind, name) for kind, name in kinds], _volume_hash)
        _check_mount_paths(volumes)
    except _Unusable as problem:
        return Failure(conf.refused(f"{PREFIX}{problem.key}", problem.expected, problem.raised))
    return Success(tuple(volumes))


def claim_templates(volumes: Iterable[Volume]) -> tuple[ClaimTemplate, ...]:
    """The volumes that mount claims, each with its place among all of them."""
    templates = []
    for index, volume in enumerate(volumes):
        if volume.kind == CLAIM:
            claim, storage_class, size, *_ = volume.details
            assert isinstance(claim, str)
            assert not isinstance(storage_class, Mapping)
            assert not isinstance(size, Mapping)
            templates.append(ClaimTemplate(volume.name, claim, index, storage_class, size))
    return tuple(templates)


# ------------------------------------------------------------------------------------------------ what is said of them


def _kinds_and_names(properties: Iterable[str]) -> list[tuple[str, str]]:
    """getVolumeTypesAndNames: the first two parts of every property that has two."""
    pairs: dict[tuple[str, str], None] = {}
    for name in properties:
        parts = name.rstrip(".").split(".")  # Java drops empty parts at the end
        if len(parts) > 1:
            pairs[parts[0], parts[1]] = None
    return list(pairs)


def _volume(properties: Mapping[str, str], kind: str, name: str) -> Volume:
    at = f"{kind}.{name}."
    exclusive = [key for key in (f"{at}mount.subPath", f"{at}mount.subPathExpr") if key in properties]
    if len(exclusive) > 1:
        message = f"These config options are mutually exclusive: {', '.join(exclusive)}"
        raise _Unusable(exclusive[1], f"only one of {' and '.join(exclusive)}", illegal(message))
    labels, annotations = (_family(properties, f"{at}{family}.") for family in ("label", "annotation"))
    path = f"{at}mount.path"
    if path not in properties:
        raise _Unusable(path, "a path", SparkFault(NO_SUCH_ELEMENT, f"key not found: {path}"))
    read_only = _read_only(properties, f"{at}mount.readOnly")
    details = _details(properties, kind, at, labels, annotations)
    sub_path, expression = (properties.get(f"{at}mount.{key}", "") for key in ("subPath", "subPathExpr"))
    return Volume(kind, name, properties[path], sub_path, expression, read_only, details)


def _family(properties: Mapping[str, str], prefix: str) -> dict[str, str]:
    # Spark removes the prefix as a regular expression, wherever it occurs; at the beginning alone makes no difference
    # to anything but a name that repeats it.
    return {name.removeprefix(prefix): text for name, text in properties.items() if name.startswith(prefix)}


def _read_only(properties: Mapping[str, str], key: str) -> bool:
    text = properties.get(key)
    if text is None:
        return False
    if text.strip() != text:  # Scala's toBoolean does not trim
        raise _Unusable(key, "true or false", illegal(f'For input string: "{text}"'))
    try:
        return parse_boolean(text)
    except ValueError as problem:
        raise _Unusable(key, "true or false", illegal(f'For input string: "{text}"')) from problem


def _details(
    properties: Mapping[str, str], kind: str, at: str, labels: dict[str, str], annotations: dict[str, str]
) -> tuple[str | Mapping[str, str] | None, ...]:
    """parseVolumeSpecificConf."""

    def needed(option: str) -> str:
        key = f"{at}options.{option}"
        if key not in properties:
            raise _Unusable(
                key, f"a value: {kind} volumes need it", SparkFault(NO_SUCH_ELEMENT, f"{key} is required for {kind}")
            )
        return properties[key]

    size_key = f"{at}options.sizeLimit"
    size = properties.get(size_key)
    match kind:
        case "hostPath":
            return needed("path"), properties.get(f"{at}options.type", "")
        case "persistentVolumeClaim":
            claim = needed("claimName")
            _check_size(size_key, size)
            return claim, properties.get(f"{at}options.storageClass"), size, labels, annotations
        case "emptyDir":
            _check_size(size_key, size)
            return properties.get(f"{at}options.medium"), size
        case "nfs":
            return needed("path"), needed("server")
        case _:
            message = f"Kubernetes Volume type `{kind}` is not supported"
            raise _Unusable(f"{at}mount.path", "hostPath, persistentVolumeClaim, emptyDir or nfs", illegal(message))


def _check_size(key: str, size: str | None) -> None:
    """verifySize: a bare number below 1024 has lost its unit."""
    if size is None or not all(sign.isdecimal() for sign in size):
        return
    if not size or len(size.lstrip("0")) > len(str(LONG_MAX)) or int(size) > LONG_MAX:
        fault = SparkFault(NUMBER_FORMAT, f'For input string: "{size}"')
        raise _Unusable(key, "a quantity such as 10Gi", fault)
    if int(size) < 1024:
        message = f"Volume size `{size}` is smaller than 1KiB. Missing units?"
        raise _Unusable(key, "a quantity such as 10Gi", illegal(message))


def _check_mount_paths(volumes: Sequence[Volume]) -> None:
    paths = [volume.mount_path for volume in volumes]
    twice = [path for path in map_order(list(dict.fromkeys(paths))) if paths.count(path) > 1]
    if twice:
        last = next(volume for volume in reversed(volumes) if volume.mount_path == twice[0])
        quoted = ", ".join(f"'{path}'" for path in twice)
        message = f"requirement failed: Found duplicated mountPath: {quoted}"
        raise _Unusable(f"{last.kind}.{last.name}.mount.path", "a path of its own", illegal(message))


# ------------------------------------------------------------------------------------------------------ whose order it is


def _set_order(items: list[T], hash_of: Callable[[T], int]) -> list[T]:
    """How Scala walks an immutable Set of these, given in order of insertion."""
    if len(items) <= SMALL:
        return items
    return trie_order([(hash_of(item), item) for item in items])


# MurmurHash3 as Scala hashes case classes, tuples, options and maps with it.

_NONE: Final = string_hash("None")
_CLASSES: Final = {
    "hostPath": "KubernetesHostPathVolumeConf",
    CLAIM: "KubernetesPVCVolumeConf",
    "emptyDir": "KubernetesEmptyDirVolumeConf",
    "nfs": "KubernetesNFSVolumeConf",
}
_OPTIONAL: Final = {CLAIM: (1, 2, 3, 4), "emptyDir": (0, 1)}  # the fields that are Options


def _volume_hash(volume: Volume) -> int:
    """KubernetesVolumeSpec.hashCode."""
    options = _OPTIONAL.get(volume.kind, ())
    details = [_detail_hash(detail, optional=at in options) for at, detail in enumerate(volume.details)]
    texts = (volume.name, volume.mount_path, volume.sub_path, volume.sub_path_expr)
    codes = [*map(string_hash, texts), 1231 if volume.read_only else 1237, product_hash(_CLASSES[volume.kind], details)]
    return product_hash("KubernetesVolumeSpec", codes)


def _detail_hash(detail: str | Mapping[str, str] | None, *, optional: bool) -> int:
    if detail is None:
        return _NONE
    code = string_hash(detail) if isinstance(detail, str) else map_hash(detail)
    return product_hash("Some", [code]) if optional else code
