"""A pod's volumes as folders, and where each container finds them.

Each volume of a pod is a folder inside the pod's own, made before any container begins; a hostPath is the path itself, and a
claim's folder outlives the pod. Files of config maps, secrets and the downward API are written once, with their modes. They
do not follow later changes, nothing is read-only, and no size is enforced.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Final, NamedTuple

from podtide.adapters.kubelet.container_paths import expanded, names
from podtide.adapters.kubelet.pod_facts import CannotRun, PlacedPod, Pod, field_text, resource_text
from podtide.adapters.kubelet.sources import Data, PodSources, volumes_of

SERVICE_ACCOUNT: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
FILE_MODE: Final = 0o644


class VolumeFile(NamedTuple):
    """A file of a volume: its path below the volume, its bytes, its mode."""

    path: str
    content: bytes
    mode: int


def made_volumes(facts: PlacedPod, folder: Path, sources: PodSources) -> dict[str, Path]:
    """Make the folders of a pod's volumes; by the volume's name. Raises CannotRun, OSError."""
    places = {}
    for volume in volumes_of(facts.pod):
        name = volume["name"]
        place = folder / name
        if (host := volume.get("hostPath")) is not None:
            place = _host_path(name, host)
        elif (claim := volume.get("persistentVolumeClaim")) is not None:
            place = sources.claims[claim["claimName"]]
        else:
            place.mkdir(parents=True)
            for file in _files(facts, volume, sources):
                _write(place, name, file)
        places[name] = place
    return places


def made_service_account(folder: Path, namespace: str, sources: PodSources) -> Path:
    """Make the folder that stands for that of a service account. Raises OSError."""
    place = folder / "serviceaccount"
    place.mkdir(parents=True)
    parts = {"namespace": namespace.encode(), "token": (sources.token or "").encode(), "ca.crt": sources.ca or b""}
    for name, content in parts.items():
        if content:
            _write(place, "serviceaccount", VolumeFile(name, content, 0o600))
    return place


def _host_path(name: str, host: Pod) -> Path:
    place, kind = Path(host["path"]), host.get("type") or ""
    match kind:
        case "":
            pass
        case "DirectoryOrCreate":
            place.mkdir(parents=True, exist_ok=True)
        case "FileOrCreate":
            place.touch()
        case "Directory" | "File":
            if not (place.is_dir() if kind == "Directory" else place.is_file()):
                raise CannotRun(f"volume {name}: hostPath type check failed: {place} is not a {kind.lower()}")
        case _:
            raise CannotRun(f"volume {name}: a hostPath of type {kind} is not mounted")
    return place


def _files(facts: PlacedPod, volume: Pod, sources: PodSources) -> Iterator[VolumeFile]:
    name = volume["name"]
    if "emptyDir" in volume or len(volume) == 1:  # a volume that says nothing is an emptyDir
        return
    if (projected := volume.get("projected")) is not None:
        for source in projected.get("sources", ()):
            yield from _source_files(facts, name, source, sources, projected.get("defaultMode", FILE_MODE))
        return
    kind = next(key for key in volume if key != "name")
    if kind not in {"configMap", "secret", "downwardAPI"}:
        raise CannotRun(f"volume {name}: volumes of the kind {kind} are not mounted")
    yield from _source_files(facts, name, volume, sources, (volume[kind] or {}).get("defaultMode", FILE_MODE))


def _source_files(facts: PlacedPod, name: str, source: Pod, sources: PodSources, mode: int) -> Iterator[VolumeFile]:
    if (one := source.get("configMap")) is not None:
        yield from _items(name, one, sources.config_maps.get(one["name"], {}), mode)
    if (one := source.get("secret")) is not None:
        yield from _items(name, one, sources.secrets.get(one.get("secretName") or one["name"], {}), mode)
    if (one := source.get("downwardAPI")) is not None:
        for item in one.get("items", ()):
            if (ref := item.get("fieldRef")) is not None:
                text = field_text(facts, ref["fieldPath"])
            else:
                text = resource_text(facts, {}, item["resourceFieldRef"])
            yield VolumeFile(item["path"], text.encode(), item.get("mode", mode))
    if (one := source.get("serviceAccountToken")) is not None:
        if sources.token is None:
            raise CannotRun(f"volume {name}: this kubelet has no token of a service account")
        yield VolumeFile(one["path"], sources.token.encode(), 0o600)
    if rest := source.keys() & {"clusterTrustBundle", "podCertificate"}:
        raise CannotRun(f"volume {name}: sources of the kind {min(rest)} are not mounted")


def _items(name: str, one: Pod, data: Data, mode: int) -> Iterator[VolumeFile]:
    items = one.get("items") or [{"key": key, "path": key} for key in data]
    for item in items:
        if item["key"] in data:
            yield VolumeFile(item["path"], data[item["key"]], item.get("mode", mode))
        elif not one.get("optional"):
            raise CannotRun(f"volume {name}: references non-existent config key: {item['key']}")


def _write(place: Path, name: str, file: VolumeFile) -> None:
    target = _below(place, file.path, f"volume {name}")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.touch(mode=0o600)
    target.write_bytes(file.content)
    target.chmod(file.mode)


def _below(place: Path, path: str, what: str) -> Path:
    parts = PurePosixPath(path)
    if parts.is_absolute() or ".." in parts.parts:
        raise CannotRun(f"{what}: {path} leads out of the volume")
    return place / parts


# containers


def mount_places(container: Pod, volumes: Mapping[str, Path], environment: Mapping[str, str]) -> dict[str, Path]:
    """Where a container finds its volumes, by mount path. Raises CannotRun, OSError."""
    places = {}
    for mount in container.get("volumeMounts", ()):
        if mount["name"] not in volumes:
            continue  # the service account's
        place = volumes[mount["name"]]
        part = mount.get("subPath") or expanded(mount.get("subPathExpr") or "", environment)
        if part:
            place = _below(place, part, f"volume {mount['name']}")
            if not place.exists():
                place.mkdir(parents=True)
        places[mount["mountPath"].rstrip("/") or "/"] = place
    return places


def check_reached(container: Pod, places: Mapping[str, Path], texts: list[str]) -> None:
    """Raise CannotRun if a mount could not be found: nothing that the program is given names its path."""
    for path, place in places.items():
        if str(place) != path and not names(texts, path):
            raise CannotRun(
                f"container {container['name']}: nothing is mounted for a process, and neither command, arguments nor "
                f"environment name {path}; give the path in a variable, and let the program read it there"
            )
