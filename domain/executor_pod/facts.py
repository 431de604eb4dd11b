"""What a SparkConf does not say about executor pods: facts of the run, given by whoever builds them.

Spark takes them from its surroundings - the driver's pod, its environment, a random number, files - and the domain reads
none of those. Two values are random in Spark and plain inputs here: the name of the config map and the last part of the
local directory (Spark draws another for each pod; the directory is an emptyDir of the pod's own, so one for all does no
harm).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pyrsistent import pmap

from podtide.domain.base.units import ProfileId

SPARK_VERSION: Final = "4.3.0"
NO_UUID: Final = "00000000-0000-0000-0000-000000000000"


@dataclass(frozen=True, slots=True)
class Owner:
    """Whom an object belongs to: it goes when its owner goes."""

    api_version: str
    kind: str
    name: str
    uid: str

    def reference(self) -> dict[str, Any]:
        """The owner reference, with controller=true as Spark always has it."""
        return {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "controller": True,
            "name": self.name,
            "uid": self.uid,
        }


@dataclass(frozen=True, slots=True)
class DriverPod:
    """The pod that the driver runs in."""

    name: str
    uid: str

    @property
    def owner(self) -> Owner:
        """It as an owner."""
        return Owner("v1", "Pod", self.name, self.uid)


@dataclass(frozen=True, slots=True)
class PodFacts:
    """The facts of a run.

    ``spark_user``: who runs the driver. ``config_map``: the name of the executors' config map; None: there is none, as
    with spark.kubernetes.executor.disableConfigMap. ``config_items``: names of the files of SPARK_CONF_DIR in it.
    ``template``: the pod template as a tree of plain values, in the types of the Kubernetes API, without empty lists and
    maps (``adapters/kubernetes/executor_pod/template.py`` reads one so). ``local_dirs_id``: the end of
    /var/data/spark-<uuid>.
    ``pod_name_prefix``: for a conf without spark.kubernetes.executor.podNamePrefix. ``local_dirs``: SPARK_LOCAL_DIRS of the
    driver's environment. ``driver_host``: for a conf without spark.driver.host; Spark asks the network. ``auth_secret``:
    what the driver made up or found for spark.authenticate, if the conf does not hold it. ``vendors``: of the custom
    resources of profiles, by name.
    """

    app_id: str
    spark_user: str
    driver: DriverPod | None = None
    config_map: str | None = None
    config_items: tuple[str, ...] = ()
    template: Mapping[str, Any] | None = None
    local_dirs_id: str = NO_UUID
    pod_name_prefix: str = ""
    spark_version: str = SPARK_VERSION
    local_dirs: str | None = None
    driver_host: str | None = None
    auth_secret: str | None = field(default=None, repr=False)
    vendors: Mapping[ProfileId, Mapping[str, str]] = field(default_factory=pmap)
