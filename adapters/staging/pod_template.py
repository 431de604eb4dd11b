"""What a submitter pastes: a Secret, a pod template for driver and executors, and settings.

The template has an init container that fetches the bundle into an empty directory, which Spark's own container mounts; the
label by which the bundle lives; and PYTHONPATH where there are Python modules. Spark takes jars by ``local://`` paths, which
mean the same in each pod (SparkContext.addJar); it does not hand ``local://`` files and Python files on to executors
(SparkContext.addFile), so these are found by their path and by PYTHONPATH.

``in_secret``: files small enough go into the Secret itself, which is mounted in the place of the bundle; no server then.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from podtide.adapters.staging import fetch_bundle
from podtide.adapters.staging.archive import FilesRefused, StagedFile
from podtide.adapters.text.safe import cause, escaped

LABEL: Final = "podtide.io/stage"
NAME: Final = "podtide-stage"
FOLDER: Final = "/var/podtide/stage"
TEMPLATE: Final = "pod-template.yaml"
SECRET: Final = "secret.yaml"  # noqa: S105 - a file's name

SECRET_MAX: Final = 10_240
"""Bytes of files in a Secret, as in the fork (spec: auxiliary, 2.3)."""

_MODULES: Final = frozenset({".zip", ".egg"})


class TemplateConflict(Exception):
    """A template that cannot take the init container; says why in one line."""


class BundleSource(NamedTuple):
    """Where pods fetch the bundle, and how. ``url``: that of the bundle; ``ca``: PEM text. ``image``: has python3."""

    url: str
    secret: str
    sha256: str
    unpacked: int
    image: str
    timeout_s: float
    ca: str | None = None


class Pasted(NamedTuple):
    """Manifests as trees, and settings."""

    secret: dict[str, Any]
    template: dict[str, Any]
    conf: dict[str, str]


def of_bundle(
    files: Sequence[StagedFile],
    source: BundleSource,
    owner: str,
    namespace: str,
    template: Mapping[str, Any],
    place: Path,
) -> Pasted:
    """For files on a staging server. ``owner``: the label's value; ``place``: where the template will be.

    Raises TemplateConflict.
    """
    name = f"{NAME}-{owner}"
    env = {
        "PODTIDE_STAGE_URL": source.url,
        "PODTIDE_STAGE_SHA256": source.sha256,
        "PODTIDE_STAGE_UNPACKED_MAX": str(source.unpacked),
        "PODTIDE_STAGE_TIMEOUT_S": f"{source.timeout_s:g}",
        "PODTIDE_STAGE_FOLDER": FOLDER,
    }
    if source.ca is not None:
        env["PODTIDE_STAGE_CA"] = source.ca
    secret = {"name": "PODTIDE_STAGE_SECRET", "valueFrom": {"secretKeyRef": {"name": name, "key": "secret"}}}
    init = {
        "name": NAME,
        "image": source.image,
        "command": ["python3", "-c", program()],
        "env": [{"name": key, "value": value} for key, value in env.items()] + [secret],
        "volumeMounts": [{"name": NAME, "mountPath": FOLDER}],
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    data = {"secret": base64.b64encode(source.secret.encode()).decode()}
    made = _template(template, owner, {"name": NAME, "emptyDir": {}}, init, files)
    return Pasted(_secret(name, namespace, owner, data), made, _conf(files, namespace, place))


def in_secret(
    files: Sequence[StagedFile], owner: str, namespace: str, template: Mapping[str, Any], place: Path
) -> Pasted:
    """For small files without a server. Raises FilesRefused, TemplateConflict."""
    jars = [
        f"{escaped(str(file.path))} is a jar: without --server only small files can be pushed"
        for file in files
        if _is_jar(file)
    ]
    if jars:
        raise FilesRefused(*jars)
    size = sum(file.size for file in files)
    if size >= SECRET_MAX:
        raise FilesRefused(f"the files have {size} bytes; without --server a Secret takes less than {SECRET_MAX}")
    data = {}
    for file in files:
        try:
            data[file.name] = base64.b64encode(file.path.read_bytes()).decode()
        except OSError as problem:
            raise FilesRefused(f"{escaped(str(file.path))} cannot be read: {cause(problem)}") from None
    name = f"{NAME}-{owner}"
    made = _template(template, owner, {"name": NAME, "secret": {"secretName": name}}, None, files)
    return Pasted(_secret(name, namespace, owner, data), made, _conf(files, namespace, place))


def program() -> str:
    """The text of the program that fetches."""
    return Path(fetch_bundle.__file__).read_text(encoding="utf-8")


def _secret(name: str, namespace: str, owner: str, data: Mapping[str, str]) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace, "labels": {LABEL: owner}}
    return {"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": metadata, "data": dict(data)}


def _template(
    given: Mapping[str, Any],
    owner: str,
    volume: Mapping[str, Any],
    init: Mapping[str, Any] | None,
    files: Sequence[StagedFile],
) -> dict[str, Any]:
    """A template with what is needed besides what was in it."""
    metadata = dict(given.get("metadata") or {})
    spec = dict(given.get("spec") or {})
    volumes, inits = list(spec.get("volumes") or ()), list(spec.get("initContainers") or ())
    # Without a name Spark gives its container the usual one, another for drivers than for executors.
    containers = list(spec.get("containers") or ({},))
    if any(one.get("name") == NAME for one in (*volumes, *inits)):
        raise TemplateConflict(f"the pod template has a {NAME} already")
    if LABEL in (labels := dict(metadata.get("labels") or {})):
        raise TemplateConflict(f"the pod template has the label {LABEL} already")
    container = dict(containers[0])
    mount = {"name": NAME, "mountPath": FOLDER, "readOnly": True}
    container["volumeMounts"] = [*(container.get("volumeMounts") or ()), mount]
    if modules := _python_path(files):
        container["env"] = _with_python_path(container.get("env") or (), modules)
    spec["containers"] = [container, *containers[1:]]
    spec["volumes"] = [*volumes, dict(volume)]
    if init is not None:
        spec["initContainers"] = [dict(init), *inits]
    metadata["labels"] = {**labels, LABEL: owner}
    return {**given, "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _with_python_path(env: Sequence[Mapping[str, Any]], modules: str) -> list[dict[str, Any]]:
    made = [dict(one) for one in env]
    for one in made:
        if one.get("name") == "PYTHONPATH":
            if "value" not in one:
                raise TemplateConflict("the pod template takes PYTHONPATH from elsewhere; it has to be a value")
            one["value"] = f"{modules}:{one['value']}"
            return made
    return [*made, {"name": "PYTHONPATH", "value": modules}]


def _python_path(files: Sequence[StagedFile]) -> str:
    """Where Python finds the modules; "" where there are none."""
    folder = [FOLDER] if any(file.name.endswith(".py") for file in files) else []
    return ":".join([*folder, *(f"{FOLDER}/{file.name}" for file in files if Path(file.name).suffix in _MODULES)])


def _is_jar(file: StagedFile) -> bool:
    return file.name.endswith(".jar")


def _conf(files: Sequence[StagedFile], namespace: str, place: Path) -> dict[str, str]:
    """Settings."""
    settings = {"spark.kubernetes.namespace": namespace}
    settings |= {f"spark.kubernetes.{role}.podTemplateFile": str(place) for role in ("driver", "executor")}
    if jars := [path_of(file) for file in files if _is_jar(file)]:
        settings["spark.jars"] = ",".join(jars)
    return settings


def path_of(file: StagedFile) -> str:
    """A file as Spark is told of it: at the same place in each pod."""
    return f"local://{FOLDER}/{file.name}"
