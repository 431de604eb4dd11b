"""One pod's life, in a thread of its own: bound, prepared, its containers led to their end, gone.

Init containers run one after the other; one with restartPolicy Always is a sidecar, which the next one does not wait for and
which ends after the others. Then all containers run together. What ends is begun again as the pod's restartPolicy says. The
pod has ended when all its containers have, its sidecars apart: they are stopped then, the last one first.

A deleted pod gets what a kubelet gives it: for each container its preStop hook, SIGTERM and, at the end of the grace,
SIGKILL; then a terminal phase, and the last delete with grace 0. A pod that cannot be run ends as Failed and says why.
"""

from __future__ import annotations

import base64
import json
import queue
import shutil
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Literal, Protocol, TypeAlias

from podtide.adapters.kubelet.claims import ClaimFolders
from podtide.adapters.kubelet.container import ContainerExit, KubeletContainer
from podtide.adapters.kubelet.led_pods import NamespaceCalls
from podtide.adapters.kubelet.pod_facts import CannotRun, PlacedPod, Pod
from podtide.adapters.kubelet.pod_logs import PodLogs
from podtide.adapters.kubelet.pod_status import (
    CREATING,
    FAILED,
    PENDING,
    RUNNING,
    SUCCEEDED,
    WAITING,
    ContainerReport,
    PodReport,
    now_text,
    pod_status,
    refused_status,
    same_but_times,
)
from podtide.adapters.kubelet.sandbox import ContainerStart, refuse_left_out, sandbox
from podtide.adapters.kubelet.sources import CLAIMS, CONFIG_MAPS, SECRETS, Data, PodSources, data_of, sources_of
from podtide.adapters.kubelet.spark_process import LocalSpark, spark_container
from podtide.domain.protocol.pods import EXECUTOR_LABEL

GRACE_S: Final = 30.0
MOUNT_AGAIN_S: Final = 0.2
TERMINATED: Final = 143

PodNews: TypeAlias = ContainerExit | Literal["deleted", "gone", "end"]


class PodHost(Protocol):
    """Where a life stands, and who hears of it."""

    calls: NamespaceCalls
    folder: Path
    logs: PodLogs
    claims: ClaimFolders
    spark: LocalSpark
    back_off_s: float
    kubeconfig: Path | None

    def began(self, life: PodLife) -> None:
        """A pod runs."""
        ...

    def ended(self, life: PodLife, code: int | None) -> None:
        """A pod needs its room no more; None: it is gone, or never ran."""
        ...


class PodLife:
    """A pod under way."""

    def __init__(self, host: PodHost, pod: Pod, node: str, ip: str) -> None:
        metadata, spec = pod["metadata"], pod["spec"]
        self.name: str = metadata["name"]
        self.uid: str = metadata["uid"]
        self.executor: str = (metadata.get("labels") or {}).get(EXECUTOR_LABEL, "")
        self.node = node
        self.runs = False
        self.thread = threading.Thread(target=self._live, name=self.name, daemon=True)
        self.containers = [KubeletContainer(one, self.name, init=True) for one in spec.get("initContainers", ())]
        self.containers += [KubeletContainer(one, self.name, init=False) for one in spec["containers"]]
        self._pod = pod
        self._ip = ip
        self._host = host
        self._calls = host.calls
        self._folder = host.folder / self.uid
        self._starts: Mapping[str, ContainerStart] = {}
        self._deleted = threading.Event()
        self._grace_s = float(spec.get("terminationGracePeriodSeconds", GRACE_S))
        self._deadline: float | None = None
        self._news: queue.SimpleQueue[PodNews] = queue.SimpleQueue()
        self._started = now_text()
        self._phase = PENDING
        self._last_status: dict[str, Any] = {}

    # from outside

    def delete(self, grace_s: float) -> None:
        """The pod was deleted; once counts."""
        if not self._deleted.is_set():
            self._grace_s = grace_s
            self._deleted.set()
            self._news.put("deleted")

    def gone(self) -> None:
        """The pod's object is gone, behind the kubelet's back."""
        self._leave("gone")

    def give_up(self) -> None:
        """End the processes at once; the pod is left as it is."""
        self._leave("end")

    def _leave(self, news: Literal["gone", "end"]) -> None:
        self._deleted.set()
        self._news.put(news)
        for container in self.containers:
            container.kill()

    def crash(self) -> bool:
        """SIGKILL to Spark's process, as the kernel does when memory runs out. Whether there was one."""
        named = spark_container(self._pod)
        return any(one.kill() for one in self.containers if named is not None and one.name == named["name"])

    def pause(self, stopped: bool) -> None:
        """Have its processes stand still, or go on."""
        for container in self.containers:
            container.pause(stopped)

    # inside

    def _live(self) -> None:
        code: int | None = None
        try:
            # An unscheduled pod that is deleted is gone at once.
            if self._deleted.is_set() or not self._calls.bind(self.name, self.node):
                return
            code = self._run()
        finally:
            self.runs = False
            self._clean()
            self._host.ended(self, code)
        if code is None:
            return
        self._deleted.wait()
        if not self._calls.ending.is_set():
            self._calls.delete(self.name, self.uid)

    def _run(self) -> int | None:
        """From the start to the terminal phase; the exit code, None if nobody is to hear of the end."""
        try:
            if not self._prepare(self._host.spark):
                return TERMINATED
        except (CannotRun, OSError, KeyError) as problem:
            self._calls.status(self.name, self.uid, refused_status(f"podtide's process kubelet: {problem}"))
            return 1
        while True:
            code = self._advance(time.monotonic())
            self._say()
            if code is not None:
                return code
            try:
                news = self._news.get(timeout=self._patience(time.monotonic()))
            except queue.Empty:
                continue
            match news:
                case ContainerExit(container, process, hook):
                    if hook:
                        container.hook_ended(time.monotonic())
                    elif process is container.process:
                        container.ended(self._host.logs)
                case "deleted":
                    self._deadline = time.monotonic() + self._grace_s
                case _:
                    return None

    def _begin_to_run(self) -> None:
        self._phase, self.runs = RUNNING, True
        self._host.began(self)

    # before it runs

    def _prepare(self, spark: LocalSpark) -> bool:
        """Make what the containers need; whether the pod is still wanted. Raises CannotRun, OSError, KeyError."""
        refuse_left_out(self._pod)
        sources = self._sources()
        if sources is None:
            return False
        facts = PlacedPod(self._pod, self._ip, self.node)
        self._folder.mkdir(parents=True)
        self._starts = sandbox(spark, facts, self._folder, sources, self._host.kubeconfig)
        return True

    def _sources(self) -> PodSources | None:
        """What the pod names, waited for. None: the pod was deleted meanwhile."""
        kinds: dict[str, dict[str, Data]] = {CONFIG_MAPS: {}, SECRETS: {}}
        claims: dict[str, Path] = {}
        for ref in sorted(sources_of(self._pod)):
            while True:
                document = self._calls.document(ref.resource, ref.name)
                if document is not None and ref.resource != CLAIMS:
                    kinds[ref.resource][ref.name] = data_of(document)
                    break
                if document is not None and (place := self._host.claims.taken(document, self.uid)) is not None:
                    claims[ref.name] = place
                    break
                if ref.optional:
                    break
                self._report_waiting(f"{ref.resource} {ref.name} {'not found' if document is None else 'is in use'}")
                if self._deleted.wait(MOUNT_AGAIN_S):
                    return None
        token, authority = service_account(self._host.kubeconfig)
        return PodSources(kinds[CONFIG_MAPS], kinds[SECRETS], claims, token, authority)

    def _report_waiting(self, why: str) -> None:
        creating = {"waiting": {**CREATING["waiting"], "message": why}}
        reports = tuple(ContainerReport(one.spec, creating) for one in self.containers if not one.init)
        inits = tuple(ContainerReport(one.spec, WAITING) for one in self.containers if one.init)
        self._say(pod_status(PodReport(PENDING, self._ip, self._started, inits, reports)))

    # while it runs

    def _advance(self, now: float) -> int | None:
        """Begin and stop what is due; the exit code of a pod that has ended."""
        for one in self.containers:
            one.late(now)
        if self._deadline is not None:
            return self._wind_down(now, TERMINATED)
        for one in filter(self._is_to_run_again, self.containers):
            if one.again_at is None:
                one.begin_again_later(now, self._host.back_off_s)
            if one.again_at is not None and one.again_at <= now:
                self._begin(one, now)
        for one in (one for one in self.containers if one.init):
            if not one.begun:
                self._begin(one, now)
            if one.sidecar or one.code == 0:
                continue
            if one.code is not None and not self._is_to_run_again(one):
                return self._end_early(now, one.code)
            return None
        if not self.runs:
            self._begin_to_run()
        mains = [one for one in self.containers if not one.init]
        for one in mains:
            if not one.begun:
                self._begin(one, now)
        if any(one.runs or self._is_to_run_again(one) for one in mains):
            return None
        return self._wind_down(now, 0)

    def _begin(self, container: KubeletContainer, now: float) -> None:
        container.begin(self._starts[container.name], self._host.logs, self._news.put, now)

    def _is_to_run_again(self, one: KubeletContainer) -> bool:
        """Whether a container that ended is begun again."""
        if not one.begun or one.runs:
            return False
        policy = self._pod["spec"].get("restartPolicy", "Always")
        if one.sidecar:
            return True
        if one.init:
            return one.code != 0 and policy != "Never"
        return policy == "Always" or (policy == "OnFailure" and one.code != 0)

    def _wind_down(self, now: float, unbegun: int) -> int | None:
        """Stop what still runs, sidecars after the others; the pod's code once nothing runs.

        ``unbegun``: the code of a pod whose containers never began.
        """
        deadline = self._deadline = self._deadline or now + self._grace_s
        mains = [one for one in self.containers if one.runs and not one.sidecar]
        sidecars = [one for one in self.containers if one.runs and one.sidecar]
        for one in mains or sidecars[-1:]:
            one.stop(self._starts[one.name], self._news.put, now, deadline)
        if mains or sidecars:
            return None
        codes = [one.code for one in self.containers if not one.sidecar and one.code is not None]
        code = next(filter(None, codes), 0 if codes and self.runs else unbegun)
        self._phase = FAILED if code else SUCCEEDED
        return code

    def _end_early(self, now: float, code: int) -> int | None:
        """An init container failed for good."""
        ended = self._wind_down(now, code)
        if ended is not None:
            self._phase = FAILED
        return ended

    def _patience(self, now: float) -> float | None:
        dues = [one.due for one in self.containers if one.due is not None]
        return max(0.0, min(dues) - now) if dues else None

    def _say(self, status: dict[str, Any] | None = None) -> None:
        if status is None:
            reports = list(self._reports())
            inits = tuple(report for one, report in reports if one.init)
            mains = tuple(report for one, report in reports if not one.init)
            status = pod_status(PodReport(self._phase, self._ip, self._started, inits, mains))
        if not self._calls.ending.is_set() and not same_but_times(status, self._last_status):
            self._last_status = status
            self._calls.status(self.name, self.uid, status)

    def _reports(self) -> Iterator[tuple[KubeletContainer, ContainerReport]]:
        return ((one, one.report()) for one in self.containers)

    def _clean(self) -> None:
        for one in self.containers:
            one.kill()
            if one.process is not None:
                one.ended(self._host.logs)
        self._host.claims.left(self.uid)
        shutil.rmtree(self._folder, ignore_errors=True)


def service_account(kubeconfig: Path | None) -> tuple[str | None, bytes | None]:
    """The token and the CA of a kubeconfig as podtide writes it; None for what it does not have."""
    if kubeconfig is None:
        return None, None
    try:
        document = json.loads(kubeconfig.read_bytes())
        user, cluster = document["users"][0]["user"], document["clusters"][0]["cluster"]
    except (OSError, ValueError, LookupError):
        return None, None
    encoded = cluster.get("certificate-authority-data")
    return user.get("token"), None if encoded is None else base64.b64decode(encoded)
