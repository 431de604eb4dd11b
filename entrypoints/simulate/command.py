"""``podtide simulate``: an application against a fake cluster, in virtual time.

Dynamic allocation, allocator, lifecycle manager and backend are the real ones, from the same code that replays and runs
live. What they ask for is answered by a model of a cluster (docs/reference/fake-cluster.md), and the demand comes from
targets over time or from a workload whose tasks run on the executors that come (docs/reference/workload.md). The same
seed gives the same result.
"""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import Any, Final

import click

from podtide.adapters.files.schema import FileError
from podtide.adapters.files.workload import read as read_workload, targets as read_targets
from podtide.adapters.files.yarn_cluster import read_cluster
from podtide.adapters.recording.header import RecordingError, header_of
from podtide.adapters.recording.recorder import Recorder, whole_recording
from podtide.adapters.recording.records.decision_file import STDOUT, DecisionFileError, DecisionWriter
from podtide.adapters.text.documents import schema_name
from podtide.adapters.text.format import count, lasting
from podtide.adapters.text.page import Page
from podtide.adapters.text.safe import escaped
from podtide.adapters.views.recording import RowPrinter
from podtide.adapters.views.simulation import SimulationView
from podtide.adapters.views.sparklog.log import SparkLog, SparkLogObserver
from podtide.adapters.views.stats.kubernetes import KubernetesStats
from podtide.adapters.views.stats.yarn import YarnStats
from podtide.adapters.views.timeline.kubernetes import PodTimeline
from podtide.adapters.views.timeline.yarn import YarnTimeline
from podtide.domain.base.units import Millis
from podtide.domain.conf.redaction import redaction_of
from podtide.domain.conf.settings import NoticeLevel
from podtide.domain.conf.spark_conf import ConfError, SparkConf, from_mapping, layered
from podtide.domain.fakes.driver.script import Jobs, Targets, Workload
from podtide.domain.fakes.kubernetes.description import KIND
from podtide.domain.fakes.yarn import description as yarn_description
from podtide.domain.fakes.yarn.description import YarnDescription, racks
from podtide.entrypoints.common.app_config import FIXES, OF_PODS, AppSettings, app_settings
from podtide.entrypoints.common.app_loop import Observer, Stuck
from podtide.entrypoints.common.conf_options import given_conf
from podtide.entrypoints.common.log_config import SettingsError
from podtide.entrypoints.common.option_groups import SectionedCommand, configured, decided, in_json
from podtide.entrypoints.common.output import (
    Misused,
    UnreadableInput,
    check_replaceable,
    check_streams,
    print_object,
    printed,
    refused_as,
)
from podtide.entrypoints.common.platform import MASTER_KEY, YARN, of_no_side, on_yarn, side_name
from podtide.entrypoints.common.policies import PolicyError, given_policies
from podtide.entrypoints.common.types import YEARS, DurationType
from podtide.entrypoints.simulate.driver_scripts import ScriptError, WorkloadScript
from podtide.entrypoints.simulate.run import AnyDescription, Script, Setup, Simulation

START: Final[Millis] = 1_767_225_600_000
"""2026-01-01T00:00:00Z: when virtual time begins, so that a story does not depend on the day on which it is told."""

DURATION: Final = "24h"
HEAD_ROWS: Final = 14
TAIL_ROWS: Final = 10
"""Rows of the timeline at its beginning and at its end."""

ASSUMED: Final = "assumed: a simulation"


@click.command(cls=SectionedCommand)
@click.option("--schedule", metavar="TIME:N,...", help="Targets over time, such as 0:10,60:50,300:0 (seconds).")
@click.option(
    "--workload", metavar="FILE", help="Jobs and stages to run, or targets, as YAML (docs/reference/workload.md)."
)
@click.option(
    "--cluster",
    metavar="FILE",
    help="The cluster, as YAML (docs/reference/fake-cluster.md, docs/reference/fake-yarn.md). Default: an ideal cluster.",
)
@configured("A Spark setting; may be repeated.")
@decided(FIXES)
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), help="The seed of all chance (the cluster file's, or 0).")
@click.option(
    "--duration",
    type=DurationType(most=YEARS),
    default=DURATION,
    show_default=True,
    metavar="DURATION",
    help="Stop after this virtual time, such as 90s, 15m or 2h.",
)
@in_json
@click.option("--record", metavar="FILE", help="Record all that happens (.zst compresses), for replay and explain.")
@click.option("--spark-log", metavar="FILE", help="Write what Spark's own log would say; - for standard output.")
@click.option("--overwrite", is_flag=True, help="Let --record and --spark-log replace a file.")
def simulate(
    schedule: str | None,
    workload: str | None,
    cluster: str | None,
    conf: tuple[str, ...],
    properties_file: str | None,
    fixes: tuple[str, ...],
    policies: tuple[str, ...],
    seed: int | None,
    duration: Millis,
    as_json: bool,
    record: str | None,
    overwrite: bool,
    spark_log: str | None,
) -> int:
    """Run Spark's executor allocation against a fake cluster, in virtual time.

    The cluster is Kubernetes, or YARN with --conf spark.master=yarn or a --cluster file of YARN. Prints how the pods or
    containers followed the target, what happened, how long each target took, what it cost in them and in calls, and which
    limit held them back for how long. Without --schedule and --workload the application is static:
    spark.executor.instances executors. Exit code 0 also where the application was ended by too many failures (that is
    what happened); 2 usage or configuration, 3 a file that cannot be read.
    """
    if schedule is not None and workload is not None:
        raise click.UsageError("--schedule and --workload both say what is wanted; choose one.")
    if as_json and STDOUT in (spark_log, record):
        raise click.UsageError("--json and another output both write to standard output; choose one.")
    if spark_log is not None and record is not None and _same(spark_log, record):
        raise click.UsageError("--spark-log and --record name the same file; choose two.")
    check_streams()
    with (
        refused_as(UnreadableInput, FileError, ScriptError),
        refused_as(Misused, RecordingError, DecisionFileError, SettingsError, PolicyError),
        refused_as(Misused, Stuck, prefix="the simulation makes no progress: "),
        contextlib.ExitStack() as resources,
    ):
        run = _Run(resources, seed, duration, fixes, policies)
        run.prepare(schedule, workload, cluster, given_conf(conf, properties_file).layers)
        run.observe(record, overwrite, spark_log)
        run.go()
    with printed():  # the files are whole by now, whoever reads this
        run.tell(as_json, quiet=STDOUT in (spark_log, record))
    return 0


def _same(one: str, other: str) -> bool:
    """Whether two arguments name the same file, or both standard output."""
    return one == other or (STDOUT not in (one, other) and os.path.realpath(one) == os.path.realpath(other))


def tell_moments(page: Page, start: Millis, seconds: float, timeline: PodTimeline) -> None:
    """What happened, in order: the first moments and the last ones."""
    page.title("Timeline", "times since the start; runs are told as one")
    printer = RowPrinter(page, start, round(seconds * 1000))
    printer.ends(timeline, HEAD_ROWS, TAIL_ROWS, "nothing happened")  # two screens are read, twenty are not


def _described(cluster: str | None, given: SparkConf | None) -> AnyDescription:
    """The cluster, of the kind that the file or the conf says; both have to say the same.

    Raises FileError, SettingsError.
    """
    master = None if given is None else given.setting(MASTER_KEY)
    yarn = given is not None and on_yarn(given)
    if cluster is None:
        return yarn_description.YARN if yarn else KIND
    description = read_cluster(Path(cluster))
    there = isinstance(description, YarnDescription)
    if master is not None and yarn != there:
        expected = "yarn" if there else "k8s://..."
        where = f"{expected}, because {escaped(cluster)} is a cluster of {side_name(yarn=there)}"
        raise SettingsError([ConfError(MASTER_KEY, master.value, master.origin, where)])
    return description


class _Run:
    """One simulation, from its options to its report."""

    def __init__(
        self,
        resources: contextlib.ExitStack,
        seed: int | None,
        until: Millis,
        fixes: tuple[str, ...],
        policies: tuple[str, ...],
    ) -> None:
        self.resources = resources
        self.given_seed = seed
        self.until = until
        with refused_as(Misused, ValueError):
            self.policies = given_policies(fixes, policies)
        self.all_fixes = "all" in fixes
        self.fixes = sorted(FIXES if "all" in fixes else set(fixes))
        self.notes: list[str] = []
        self.lines: DecisionWriter | None = None

    def prepare(self, targets: str | None, workload: str | None, cluster: str | None, given: list[SparkConf]) -> None:
        """Read what is to be simulated. Raises what the readers raise."""
        self.cluster = "without a file, one that behaves" if cluster is None else cluster
        self.description = _described(cluster, layered(*given) if given else None)
        yarn = isinstance(self.description, YarnDescription)
        self.seed = self.description.seed if self.given_seed is None else self.given_seed
        wanted: Workload = Targets()
        if targets is not None:
            with refused_as(Misused, FileError):
                wanted = read_targets(targets, "--schedule")
        elif workload is not None:
            wanted = read_workload(Path(workload))
        assumed = {"spark.app.id": "simulated", "spark.app.name": "simulated"}
        if yarn:
            assumed[MASTER_KEY] = YARN
        else:
            assumed |= {
                "spark.kubernetes.container.image": "spark", "spark.kubernetes.executor.podNamePrefix": "simulated",
                "spark.kubernetes.driver.pod.name": "simulated-driver",
            }  # fmt: skip
            if given and (stray := of_no_side(layered(*given))) is not None:
                self.notes.append(stray)
        forced: dict[str, str] = {}
        if isinstance(wanted, Jobs):
            assumed["spark.dynamicAllocation.enabled"] = "true"
        elif wanted.steps:
            # The script takes the place of dynamic allocation; the settings that only matter under it stay.
            assumed["spark.executor.instances"] = "0"
            forced["spark.dynamicAllocation.enabled"] = "false"
        conf = layered(from_mapping(assumed, ASSUMED), *given, from_mapping(forced, ASSUMED))
        if forced and any(layer.setting("spark.dynamicAllocation.enabled") for layer in given):
            self.notes.append("Targets are given: dynamic allocation is off, whatever the configuration says.")
        self.racks = racks(self.description) if isinstance(self.description, YarnDescription) else {}
        self.settings: AppSettings = app_settings(conf, self.policies, racks=self.racks)
        if yarn and (idle := [fix for fix in self.fixes if fix in OF_PODS and not self.all_fixes]):
            self.notes.append(f"{', '.join(idle)}: about pods; nothing changes on YARN.")
        for notice in self.settings.notices:
            if notice.level is NoticeLevel.WARNING:
                self.notes.append(f"Spark warns: {notice.text}" if notice.spark else notice.text)
        rules = self.settings.config.scaling.profile_rules
        yarn_side = self.settings.config.yarn
        containers = None if yarn_side is None else yarn_side.allocator.containers
        self.script: Script = WorkloadScript(wanted, self.seed, START, rules, containers)
        self.conf = layered(*given) if given else None
        self.stats: KubernetesStats | YarnStats = YarnStats(START) if yarn else KubernetesStats(START)
        self.timeline = YarnTimeline() if yarn else PodTimeline()
        self.observers: list[Observer] = [self.stats, self.timeline]

    def observe(self, record: str | None, overwrite: bool, spark_log: str | None) -> None:
        """Open the outputs. Raises RecordingError, DecisionFileError."""
        settings = self.settings
        app_id = settings.backend.app_id
        if record is not None:
            header = header_of(
                app_id, settings.conf, START, "fake", policies=self.policies, seed=self.seed, racks=self.racks
            )
            writer = whole_recording(record, header, overwrite=overwrite)
            self.observers.append(Recorder(self.resources.enter_context(writer)))
        if spark_log is not None:
            check_replaceable("--spark-log", spark_log, overwrite=overwrite)
            self.settings = app_settings(settings.conf, self.policies, remarks=True, racks=self.racks)
            self.lines = self.resources.enter_context(DecisionWriter(spark_log))
            self.observers.append(SparkLogObserver(SparkLog(self.lines.write)))

    def go(self) -> None:
        """Simulate."""
        config = self.settings.config
        setup = Setup(config, self.description, self.seed, START, START + self.until, self.settings.backend.app_id)
        self.simulation = Simulation(setup, self.script, self.observers)
        end = self.simulation.run()
        self.stats.finish(end)
        self.timeline.finish(end)
        if self.lines is not None:
            self.lines.commit()
        self._remark(end >= setup.end)

    def _remark(self, stopped: bool) -> None:
        """What is to be known about the end."""
        if stopped and not self.script.done():
            self.notes.append("Stopped at --duration, before the demand was over.")
        elif stopped and not self.simulation.reached():
            self.notes.append("Stopped at --duration, before the last target was reached.")
        if self.simulation.out_of_patience:
            waited = lasting(self.simulation.setup.patience_ms)
            self.notes.append(f"Given up {waited} after the last demand: the target was not reached.")
        config = self.settings.config
        if not config.dynamic and config.kubernetes.replicas is None and (above := self.stats.above_target):
            lowers = "cancel requests that wait" if config.yarn else "delete pods that have not started"
            who = "application master" if config.yarn else "pods allocator"
            self.notes.append(
                f"{count(above, 'executor')} beyond the target at the end: a lower target makes the {who} {lowers}; "
                "executors are let go by dynamic allocation, when they are idle (--workload)."
            )
        if config.kubernetes.resize is not None or config.kubernetes.claim_resize is not None:
            self.notes.append("Nothing is measured in a fake cluster: the resize plugins have nothing to go by.")

    def tell(self, as_json: bool, *, quiet: bool) -> None:
        """Print the answer."""
        document = self.document()
        if as_json:
            print_object(document)
        elif not quiet:
            page = Page(sys.stdout)
            SimulationView(page, document).report(
                lambda: tell_moments(page, START, document["duration_s"], self.timeline)
            )

    def document(self) -> dict[str, Any]:
        """The answer as plain data."""
        redaction = redaction_of(self.settings.conf)
        conf = {} if self.conf is None else self.conf.settings
        return {
            "schema": schema_name("simulate"),
            "app_id": self.settings.backend.app_id,
            "cluster": escaped(self.cluster),
            "seed": self.seed,
            "start_ms": START,
            "steps": self.simulation.loop.steps,
            "conf": {key: redaction.shown(key, setting.value) for key, setting in sorted(conf.items())},
            "fixes": self.fixes,
            "notes": self.notes,
            **self.stats.document(),
            "cluster_tally": self.simulation.tally,
            "workload": self.script.summary(),
        }
