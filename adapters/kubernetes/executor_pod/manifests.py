"""Manifests as the bodies of calls: what an actuator sends to create pods, claims, sets and the config map.

A body costs a few small copies and one encoding (about 20 µs): the tree of a profile's pod is built once, and the texts that
depend on the executor are filled in as values. Nothing here talks to anybody. A command that cannot be served raises
``CannotBuild`` with what Spark would have thrown; an actuator turns it into the failure of that call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from podtide.domain.base.units import Millis, ProfileId
from podtide.domain.executor_pod.builder import ExecutorPods, Owner
from podtide.domain.protocol.pod_commands import CreateClaim, CreatePod, CreateSet
from podtide.domain.protocol.pods import PodNumber
from podtide.domain.protocol.resource_profiles import ResourceProfile


class ExecutorManifests:
    """The manifests of one application, as JSON. Thread-safe.

    ``conf_files``: the files of SPARK_CONF_DIR by name (``kubernetes.executor_pod.spark_conf_dir``). ``now``: the time of
    day in milliseconds, for the date in the config map; without, there is none. ``profiles``: those that ``pods`` knows.
    """

    def __init__(
        self,
        pods: ExecutorPods,
        conf_files: Mapping[str, str] | None = None,
        now: Callable[[], Millis] | None = None,
        profiles: dict[ProfileId, ResourceProfile] | None = None,
    ) -> None:
        self.pods = pods
        self._conf_files = dict(conf_files or {})
        self._now = now
        self._profiles = {} if profiles is None else profiles

    def learn(self, profile: ResourceProfile) -> None:
        """Pods of this profile can be built from now on."""
        self._profiles.setdefault(profile.id, profile)

    def pod_name(self, executor: PodNumber) -> str:
        """The name of an executor's pod."""
        return self.pods.pod_name(str(executor))

    def pod(self, command: CreatePod) -> bytes:
        """The pod that the command asks for. Raises CannotBuild."""
        made = self.pods.pod(
            str(command.executor),
            command.profile,
            claims=command.claims,
            reused=command.reused,
            single_task=command.single_task,
        )
        return msgspec.json.encode(made)

    def claim(self, command: CreateClaim, owner: Owner | None) -> bytes:
        """The claim that the command asks for; ``owner``: the driver's pod or the executor's, as the command says."""
        return msgspec.json.encode(self.pods.claim(command.claim, str(command.executor), owner))

    def replica_set(self, command: CreateSet) -> bytes:
        """The StatefulSet or Deployment that the command asks for. Raises CannotBuild."""
        return msgspec.json.encode(self.pods.replica_set(command))

    def config_map(self) -> bytes:
        """The executors' config map. Raises CannotBuild for an application that has none."""
        return msgspec.json.encode(self.pods.config_map(self._conf_files, None if self._now is None else self._now()))
