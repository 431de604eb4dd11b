"""The process that a Spark driver's pod becomes in cluster mode: the ``driver`` branch of the image's entrypoint.

That is ``spark-submit --deploy-mode client`` with the arguments of the container. Its config maps become files in a folder
of the pod, and what names their mount paths (arguments, environment, the mounted files) names that folder. The mounted
spark.properties say that the driver listens at its Service; there is no cluster DNS, so it is the pod's address. For the
API server the driver has the kubeconfig that it is given, in the place of a service account.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, TypeAlias

from podtide.adapters.kubelet.processes import begin_session
from podtide.adapters.kubelet.spark_process import LocalSpark, NoExecutor, Pod, pod_environment, spark_container

ConfigMaps: TypeAlias = Mapping[str, Mapping[str, str]]
"""The data of config maps, by name."""

PROPERTIES: Final = "spark.properties"


def config_maps(pod: Pod) -> frozenset[str]:
    """The config maps that have to be there before the driver can start. Raises NoExecutor for a volume of another kind."""
    return frozenset(volume["configMap"]["name"] for volume in _volumes(pod) if "configMap" in volume)


def _volumes(pod: Pod) -> Iterator[Pod]:
    """The volumes that the container mounts, but for the token of a service account, whose place the kubeconfig takes."""
    mounted = {mount["name"] for mount in spark_container(pod).get("volumeMounts", ())}
    for volume in pod["spec"].get("volumes", ()):
        if volume["name"] not in mounted or volume["name"].startswith("kube-api-access-"):
            continue
        if "configMap" not in volume and "emptyDir" not in volume:
            raise NoExecutor(f"volume {volume['name']}: only config maps and empty directories are mounted")
        yield volume


def begun_driver(
    spark: LocalSpark, pod: Pod, ip: str, folder: Path, log: int, maps: ConfigMaps, kubeconfig: Path | None
) -> subprocess.Popen[bytes]:
    """Start the process of a driver's pod; ``maps`` has those of ``config_maps``."""
    places = _mounted(pod, folder, maps)
    for place in places.values():
        for file in place.iterdir():
            text = _moved(file.read_text(encoding="utf-8"), places)
            if file.name == PROPERTIES:
                text += f"\nspark.driver.host={ip}\nspark.driver.bindAddress={ip}\n"  # the last line of a key counts
            file.write_text(text, encoding="utf-8")
    env = {name: _moved(value, places) for name, value in pod_environment(spark, pod, ip, folder).items()}
    if kubeconfig is not None:
        env["KUBECONFIG"] = str(kubeconfig)
    arguments = [_moved(argument, places) for argument in spark_container(pod)["args"][1:]]
    command = [
        str(spark.home / "bin" / "spark-submit"), "--conf", f"spark.driver.bindAddress={ip}",
        "--conf", f"spark.executorEnv.SPARK_DRIVER_POD_IP={ip}", "--deploy-mode", "client", *arguments,
    ]  # fmt: skip
    return begin_session(command, env, folder, log)


def _mounted(pod: Pod, folder: Path, maps: ConfigMaps) -> Mapping[str, Path]:
    """Make the volumes' folders; by mount path, the longest first."""
    volumes = {volume["name"]: volume for volume in _volumes(pod)}
    places: dict[str, Path] = {}
    mounts = [mount for mount in spark_container(pod).get("volumeMounts", ()) if mount["name"] in volumes]
    for mount in sorted(mounts, key=lambda mount: -len(mount["mountPath"])):
        if "subPath" in mount:
            raise NoExecutor(f"volume {mount['name']}: a subPath is not mounted")
        place = places[mount["mountPath"].rstrip("/")] = folder / "volumes" / mount["name"]
        place.mkdir(parents=True, exist_ok=True)
        if (source := volumes[mount["name"]].get("configMap")) is not None:
            data = maps[source["name"]]
            items = source.get("items") or [{"key": key, "path": key} for key in data]
            for item in items:
                if Path(item["path"]).name != item["path"]:
                    raise NoExecutor(f"volume {mount['name']}: {item['path']} is no plain file name")
                (place / item["path"]).write_text(data[item["key"]], encoding="utf-8")
    return places


def _moved(text: str, places: Mapping[str, Path]) -> str:
    for path, place in places.items():
        text = text.replace(path, str(place))
    return text
