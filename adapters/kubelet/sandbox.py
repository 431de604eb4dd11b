"""What a pod has before its containers begin: its folder, its volumes, and of each container the command and environment.

All of it is settled before anything runs, so that a pod that cannot be run as its manifest says fails whole, with a reason,
and not in the middle. A container's command is its ``command`` and ``args``; without a ``command`` it is what the entrypoint
of Spark's image makes of the ``args``: an executor, a driver, or the ``args`` themselves. There is no other image.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from podtide.adapters.kubelet.container_paths import expanded, moved
from podtide.adapters.kubelet.pod_facts import CannotRun, PlacedPod, Pod, containers_of, field_text, resource_text
from podtide.adapters.kubelet.sources import PodSources, value_of
from podtide.adapters.kubelet.spark_process import (
    DRIVER,
    LocalSpark,
    base_environment,
    config_files,
    decommissions,
    driver_command,
    executor_command,
    settle_driver_files,
    spark_role,
    with_sources,
)
from podtide.adapters.kubelet.volumes import (
    SERVICE_ACCOUNT,
    check_reached,
    made_service_account,
    made_volumes,
    mount_places,
)

_LEFT_OUT: Final = {
    "livenessProbe": "probes are not run",
    "readinessProbe": "probes are not run",
    "startupProbe": "probes are not run",
    "volumeDevices": "block devices are not mounted",
}


class ContainerStart(NamedTuple):
    """How a container begins: its command, environment and working directory; the command of its preStop hook.

    ``hook`` None: there is none, or Spark's own (``decommissions``), which needs no program.
    """

    command: list[str]
    env: dict[str, str]
    folder: Path
    hook: list[str] | None


def refuse_left_out(pod: Pod) -> None:
    """Raise CannotRun for a pod of which something would be left out."""
    if pod["spec"].get("activeDeadlineSeconds") is not None:
        raise CannotRun("activeDeadlineSeconds is not kept")
    for container in containers_of(pod):
        name = container["name"]
        for field, why in _LEFT_OUT.items():
            if container.get(field):
                raise CannotRun(f"container {name}: {why}")
        lifecycle = container.get("lifecycle") or {}
        if lifecycle.get("postStart"):
            raise CannotRun(f"container {name}: postStart hooks are not run")
        if (hook := lifecycle.get("preStop")) and not hook.keys() <= {"exec", "sleep"}:
            raise CannotRun(f"container {name}: of preStop hooks only exec and sleep are run")
        if not container.get("command") and not container.get("args"):
            raise CannotRun(f"container {name}: there is no image whose entrypoint could be run; give it a command")


def sandbox(
    spark: LocalSpark, facts: PlacedPod, folder: Path, sources: PodSources, kubeconfig: Path | None
) -> Mapping[str, ContainerStart]:
    """Make what a pod needs in its folder; how each container begins, by name. Raises CannotRun, OSError, KeyError."""
    volumes = made_volumes(facts, folder / "volumes", sources)
    account = None
    if kubeconfig is not None and facts.pod["spec"].get("automountServiceAccountToken") is not False:
        account = made_service_account(folder, facts.pod["metadata"]["namespace"], sources)
    return {
        container["name"]: _start(spark, facts, container, folder, sources, volumes, account, kubeconfig)
        for container in containers_of(facts.pod)
    }


def _start(
    spark: LocalSpark,
    facts: PlacedPod,
    container: Pod,
    folder: Path,
    sources: PodSources,
    volumes: Mapping[str, Path],
    account: Path | None,
    kubeconfig: Path | None,
) -> ContainerStart:
    name, role = container["name"], spark_role(container)
    env = base_environment(spark) | {"HOSTNAME": str(facts.pod["spec"].get("hostname") or facts.name)}
    given = _variables(facts, container, sources)
    command = [expanded(text, given) for text in container.get("command") or ()]
    arguments = [expanded(text, given) for text in container.get("args") or ()]
    places = mount_places(container, volumes, given)
    if role == DRIVER:
        settle_driver_files(facts.pod, container, places, facts.ip)
    texts = [*command, *arguments, *given.values()]
    if role:
        files = config_files(facts.pod, container, places)
        texts += [file.read_text(encoding="utf-8", errors="replace") for file in files]
        # What those of a driver named was moved already.
        texts += [path for path, place in places.items() if any(str(place) in text for text in texts)]
    check_reached(container, places, texts)
    if account is not None:
        places = {SERVICE_ACCOUNT: account, **places}
        env["KUBECONFIG"] = str(kubeconfig)
    env |= {key: moved(value, places) for key, value in given.items()}
    if "SPARK_LOCAL_DIRS" not in given:
        env["SPARK_LOCAL_DIRS"] = str(folder / "local")
    env = with_sources(spark, env)
    arguments = [moved(text, places) for text in arguments]
    match role:
        case "executor":
            command = executor_command(spark, facts.name, env, facts.ip)
        case "driver":
            command = driver_command(spark, arguments[1:], facts.ip)
        case _:
            command = [*(moved(text, places) for text in command), *arguments]
    working = folder / "containers" / name
    working.mkdir(parents=True)
    if container.get("workingDir"):
        working = Path(moved(container["workingDir"], places))
    return ContainerStart(command, env, working, _hook(container, given, places))


def _hook(container: Pod, given: Mapping[str, str], places: Mapping[str, Path]) -> list[str] | None:
    hook = (container.get("lifecycle") or {}).get("preStop") or {}
    if not hook or decommissions(container):
        return None
    if (sleep := hook.get("sleep")) is not None:
        return ["sleep", str(sleep["seconds"])]
    return [moved(expanded(text, given), places) for text in hook["exec"].get("command") or ()] or None


def _variables(facts: PlacedPod, container: Pod, sources: PodSources) -> dict[str, str]:
    """The variables of a manifest; a later one may name an earlier one."""
    found: dict[str, str] = {}
    for entry in container.get("envFrom", ()):
        found |= _all_of(entry, sources)
    for entry in container.get("env", ()):
        origin = entry.get("valueFrom") or {}
        if not origin:
            found[entry["name"]] = expanded(entry.get("value", ""), found)
        elif (value := _origin(facts, container, origin, sources)) is not None:
            found[entry["name"]] = value
    return found


def _all_of(entry: Pod, sources: PodSources) -> Iterator[tuple[str, str]]:
    for key, data in (("configMapRef", sources.config_maps), ("secretRef", sources.secrets)):
        if (ref := entry.get(key)) is not None:
            for name, value in data.get(ref["name"], {}).items():
                yield f"{entry.get('prefix', '')}{name}", value.decode(errors="surrogateescape")


def _origin(facts: PlacedPod, container: Pod, origin: Pod, sources: PodSources) -> str | None:
    if (ref := origin.get("fieldRef")) is not None:
        return field_text(facts, ref["fieldPath"])
    if (ref := origin.get("resourceFieldRef")) is not None:
        return resource_text(facts, container, ref)
    if (ref := origin.get("configMapKeyRef")) is not None:
        value = value_of(sources.config_maps, ref, "config map")
    elif (ref := origin.get("secretKeyRef")) is not None:
        value = value_of(sources.secrets, ref, "secret")
    else:
        raise CannotRun(f"container {container['name']}: a variable from {min(origin)} is not known")
    return None if value is None else value.decode(errors="surrogateescape")
