"""``podtide cluster`` from its options to its end: the cluster, the program on it, the summary."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from podtide.adapters.api_server.front import ServedStep, StepObserver
from podtide.adapters.api_server.settings import ServingConfig
from podtide.adapters.clock import SystemClock
from podtide.adapters.files.cluster import read
from podtide.adapters.files.schema import FileError
from podtide.adapters.http_server.settings import NotServed
from podtide.adapters.kubelet.hollow import HollowConfig, hollow_kubelet
from podtide.adapters.kubelet.kubelet import KubeletConfig, process_kubelet
from podtide.adapters.kubelet.pod_logs import PodLogs
from podtide.adapters.kubelet.shuffle_service import LOCAL, NoShuffleService, shuffle_service
from podtide.adapters.kubelet.spark_process import NoSpark, local_spark
from podtide.adapters.kubernetes.api import ConnectionRefused, connect
from podtide.adapters.recording.cluster_record import ClusterRecord
from podtide.adapters.shuffle_service.cleaning import DirectoryCleaner
from podtide.adapters.shuffle_service.directories import ApplicationDirectories
from podtide.adapters.text.safe import escaped
from podtide.adapters.views.live.cluster_frame import ClusterFrame, ClusterPicture
from podtide.adapters.views.live.terminal import TerminalView
from podtide.domain.api_faults.checks import hollow_problems, process_problems
from podtide.domain.fakes.kubernetes.description import KIND, Description
from podtide.domain.fakes.kubernetes.real_pods import of_processes, uniform
from podtide.domain.shuffle_service.applications import CleanerConfig
from podtide.entrypoints.cluster.embedded import EmbeddedCluster, Kubelets, embedded
from podtide.entrypoints.cluster.program import CannotStart, run_program
from podtide.entrypoints.cluster.spark_conf_dir import (
    ConfDirUnreadable,
    cluster_settings,
    own_conf_dir,
    program_environment,
    write_conf_dir,
)
from podtide.entrypoints.cluster.story import ClusterStory
from podtide.entrypoints.cluster.tally import ClusterTally
from podtide.entrypoints.common.output import ClusterRefused, Misused, UnreadableInput, refused_as
from podtide.entrypoints.common.serving import stay

SHUFFLE: Final = "shuffle-service"
CLEANED_MS: Final = 5_000
"""How long shuffle files outlive the driver's pod, and how often they are looked for."""

PROCESSES: Final = (1, 4)
HOLLOW: Final = (10, 100)
"""Nodes, and pods that run at once on each, where nobody says."""


@dataclass(frozen=True)
class ClusterOptions:
    """What the command line says. ``command`` empty: stay until told to end. ``nodes``, ``pods_per_node`` None: as usual.

    ``cluster``: a cluster file. ``record``: where a record goes. ``view``: where there is no command.
    """

    namespace: str = "default"
    port: int = 0
    tls: bool = True
    hollow: bool = False
    nodes: int | None = None
    pods_per_node: int | None = None
    cluster: str | None = None
    record: str | None = None
    shuffle_service: bool = False
    view: bool = False
    command: tuple[str, ...] = ()


def run_cluster(options: ClusterOptions) -> int:
    """Run it to its end; returns the exit code, the program's where there is one. Raises a Refusal."""
    config = ServingConfig(port=options.port, tls=options.tls)
    with (
        refused_as(ClusterRefused, NotServed, NoSpark, NoShuffleService, ConnectionRefused),
        refused_as(UnreadableInput, ConfDirUnreadable, FileError),
        ExitStack() as end,
    ):
        description = _described(options)
        tally = ClusterTally()
        kubelets = _kubelets(options, description)
        begun = end.enter_context(ExitStack())
        observers: list[StepObserver] = [tally]
        if options.record is not None:
            observers.append(begun.enter_context(_record(options.record, options.namespace)))
        cluster = end.enter_context(embedded(kubelets, options.namespace, config, _all(observers), description))
        begun.callback(_summary, tally, sys.stderr)  # after the server's end, if there was a beginning
        served: Mapping[str, str] = {}
        if options.shuffle_service:
            spark = local_spark(options.command, os.environ)
            served = end.enter_context(shuffle_service(spark, cluster.folder / SHUFFLE))
            end.enter_context(_cleaned(cluster))
        conf_dir = _conf_dir(cluster, served)
        if not options.command:
            _say_what_to_paste(cluster, conf_dir, sys.stdout)
            with _view(cluster, tally) if options.view else nullcontext():
                stay()
        environment = program_environment(os.environ, conf_dir, cluster.kubeconfig)
        try:
            return run_program(options.command, environment)
        except CannotStart as problem:
            print(f"podtide: {problem}", file=sys.stderr)
            return problem.code


def _view(cluster: EmbeddedCluster, tally: ClusterTally) -> TerminalView[ClusterPicture]:
    return TerminalView(ClusterStory(cluster, tally), ClusterFrame, sys.stdout, alternate=False)


@contextmanager
def _cleaned(cluster: EmbeddedCluster) -> Iterator[None]:
    """Shuffle files go with their applications for the time of the block."""
    config = CleanerConfig(frozenset({cluster.namespace}), scan_ms=CLEANED_MS, ended_ms=CLEANED_MS)
    directories = ApplicationDirectories([cluster.folder / SHUFFLE / LOCAL])
    with closing(connect(str(cluster.kubeconfig))) as api:
        cleaner = DirectoryCleaner(api, directories, config, SystemClock(), lambda _: None)
        thread = threading.Thread(target=cleaner.run, name="podtide-cleaner", daemon=True)
        thread.start()
        try:
            yield
        finally:
            cleaner.end()
            thread.join()


@contextmanager
def _record(path: str, namespace: str) -> Iterator[ClusterRecord]:
    """The record, until the server's end. Raises Misused."""
    try:
        record = ClusterRecord(path, namespace, SystemClock().now())
    except OSError as problem:
        raise Misused(f"{escaped(path)} cannot be written: {problem.strerror or problem}") from None
    with record:
        yield record
    if record.problem:
        print(f"podtide: {escaped(record.problem)}", file=sys.stderr)


def _all(observers: Sequence[StepObserver]) -> StepObserver:
    def observe(step: ServedStep) -> None:
        for observer in observers:
            observer(step)

    return observe


@contextmanager
def hollow_cluster(namespace: str) -> Iterator[Path]:
    """A cluster with hollow pods for the time of the block; its kubeconfig. Raises a Refusal."""
    options = ClusterOptions(namespace, tls=False, hollow=True)
    with (
        refused_as(ClusterRefused, NotServed, ConnectionRefused),
        embedded(_kubelets(options, None), namespace, ServingConfig()) as cluster,
    ):
        yield cluster.kubeconfig


def _described(options: ClusterOptions) -> Description | None:
    """What the cluster file says. Raises FileError, Misused."""
    if options.cluster is None:
        return None
    description = read(Path(options.cluster), hollow_problems if options.hollow else process_problems)
    if (options.hollow or description.groups != KIND.groups) and (options.nodes or options.pods_per_node):
        raise Misused("the cluster file says which nodes there are, not --nodes or --pods-per-node")
    return description


def _kubelets(options: ClusterOptions, description: Description | None) -> Kubelets:
    """What starts the kubelets. Raises NoSpark."""
    nodes, room = HOLLOW if options.hollow else PROCESSES
    nodes, room = options.nodes or nodes, options.pods_per_node or room
    if options.hollow:
        return _hollow(HollowConfig(options.namespace, description or uniform(nodes, room)))
    spark = local_spark(options.command, os.environ)

    @contextmanager
    def started(kubeconfig: Path, logs: PodLogs, users: Path) -> Iterator[None]:
        config = KubeletConfig(
            options.namespace,
            logs.folder,
            uniform(nodes, room) if description is None else of_processes(description, nodes, room),
            logs=logs,
            kubeconfig=users,
        )
        with closing(connect(str(kubeconfig))) as api, process_kubelet(api, config, spark):
            yield

    return started


def _hollow(config: HollowConfig) -> Kubelets:
    @contextmanager
    def started(kubeconfig: Path, _logs: PodLogs, _users: Path) -> Iterator[None]:
        with closing(connect(str(kubeconfig))) as api, hollow_kubelet(api, config):
            yield

    return started


def _conf_dir(cluster: EmbeddedCluster, more: Mapping[str, str]) -> Path:
    server = cluster.server
    settings = cluster_settings(server.url, cluster.namespace, server.token, server.ca)
    return write_conf_dir(cluster.folder / "conf", own_conf_dir(os.environ), {**settings, **more})


def _say_what_to_paste(cluster: EmbeddedCluster, conf_dir: Path, out: IO[str]) -> None:
    environment = program_environment({}, conf_dir, cluster.kubeconfig)
    for key, value in environment.items():
        print(f"export {key}={value}", file=out)
    print(f"# {cluster.server.url}, namespace {cluster.namespace}; Ctrl-C ends it", file=out, flush=True)


def _summary(tally: ClusterTally, out: IO[str]) -> None:
    print(f"podtide cluster: {tally.closed(SystemClock().now()).line()}", file=out)
