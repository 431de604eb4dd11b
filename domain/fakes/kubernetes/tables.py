"""The inside of a fake Kubernetes cluster: tables of immutable rows (``fakes.tables``), and the indexes over its pods."""

from __future__ import annotations

from podtide.domain.base.randomness import Stream
from podtide.domain.base.tables import Field, Serial, Table
from podtide.domain.base.units import Millis
from podtide.domain.fakes.kubernetes.description import Description, Life, PodShape, PodStage
from podtide.domain.fakes.kubernetes.rows import (
    ApiCallRow,
    Change,
    ClaimRow,
    FakeApplication,
    NodeRow,
    PodAgenda,
    PodRow,
    SetRow,
    WatchState,
)
from podtide.domain.fakes.tables import FakeTables, discard_member
from podtide.domain.protocol.cluster_config import SourcesConfig
from podtide.domain.protocol.pod_stimuli import PodStimulus
from podtide.domain.protocol.pods import UNNAMED_EXECUTOR, PodManifest


class KubernetesPlan:
    """What follows from a description alone: computed once, shared by all versions of a cluster."""

    def __init__(self, description: Description, sources: SourcesConfig, app: FakeApplication, polls: bool) -> None:
        self.description = description
        self.sources = sources
        self.app = app
        self.polls = polls
        # By name, so that the order in which a file lists its stages changes nothing.
        self.stages = tuple(sorted(description.executors.stages, key=lambda stage: stage.name))
        self.weighted: dict[Life, list[tuple[int, PodStage]]] = {}
        self.rated: dict[Life, list[tuple[int, PodStage]]] = {}
        for place, stage in enumerate(self.stages):
            if stage.weight == 0 and stage.per_hour is None:
                continue
            by = self.weighted if stage.per_hour is None else self.rated
            by.setdefault(stage.source, []).append((place, stage))
        self.shapes = dict(description.executors.profiles)
        self.history_ms = description.api.stale_age.quantile(1.0) if description.api.stale else 0

    def shape(self, profile: int) -> PodShape:
        """What a pod of this profile requests."""
        return self.shapes.get(profile, self.description.executors.shape)


class ClusterTables(FakeTables[PodAgenda, PodStimulus]):
    """The inside of a fake Kubernetes cluster.

    ``poll_timer``, ``place_timer``, ``scan_timer``: what lies ahead of these (0: nothing; the poll's -1: stopped).
    ``forgotten_version``: up to which the history is gone. ``last_event_at``: when the last event of the watch is heard;
    ``mended_at``: when the watch is back after the break that lasts longest.
    """

    poll_timer = Field(0)
    polled_version = Field(0)
    config_maps = Field(0)
    service_deleted = Field(False)
    place_timer = Field(0)
    scan_timer = Field(0)
    watch = Field(WatchState.OPEN)
    forgotten_version = Field(0)
    last_event_at: Field[Millis] = Field(0)
    mended_at: Field[Millis] = Field(0)

    def __init__(self, plan: KubernetesPlan, seed: Stream, began: Millis) -> None:
        self.plan = plan
        self.pods: Table[int, PodRow] = Table()
        self.nodes: Table[int, NodeRow] = Table()
        self.coming: Table[int, int] = Table()
        self.calls: Table[int, ApiCallRow] = Table()
        self.lanes: Table[int, int] = Table()
        self.sets: Table[int, SetRow] = Table()
        self.claims: Table[str, ClaimRow] = Table()
        self.history: Table[int, Change] = Table()
        self.backlog: Table[int, PodManifest] = Table()
        self.uids, self.versions, self.tickets = Serial(), Serial(), Serial()
        self.node_numbers, self.call_numbers, self.set_numbers = Serial(), Serial(), Serial()
        self.claim_names, self.syncs = Serial(), Serial()
        self.break_draws, self.outage_draws, self.expiry_draws = Serial(), Serial(), Serial()
        super().__init__(seed, began, plan.description.calm_ms)

    def recount(self) -> None:
        """Make the heap, the indexes and the counts anew."""
        super().recount()
        self.names: dict[str, int] = {}
        self.labels: dict[str, dict[int, None]] = {}
        self.speakers: dict[str, dict[int, None]] = {}
        self.owned: dict[int, dict[int, None]] = {}
        self.aboard: dict[int, dict[int, None]] = {}
        self.waiting: dict[PodShape, dict[int, int]] = {}
        self.counts: dict[tuple[int, Life], int] = {}
        self.unfinished = 0
        for pod in self.pods.values():
            self._enter(pod)
        for shape, tickets in self.waiting.items():
            self.waiting[shape] = dict(sorted(tickets.items()))
        self.in_group = [0] * len(self.plan.description.groups)
        self.set_names = {row.name: number for number, row in self.sets.items()}
        for node in self.nodes.values():
            self.in_group[node.group] += 1
        for group in self.coming.values():
            self.in_group[group] += 1

    def say(self, stimulus: PodStimulus) -> None:
        """Something will reach the driver, at its time."""
        self.later(stimulus.at, PodAgenda.SAY, say=stimulus)

    # pods

    def put_pod(self, pod: PodRow) -> None:
        """Write a pod and keep the indexes."""
        old = self.pods.get(pod.uid)
        self.pods.put(pod.uid, pod)
        if old is not None:
            if (
                old.life is pod.life and old.node == pod.node and old.ticket == pod.ticket
                and old.label == pod.label and old.executor == pod.executor and old.manifest.phase == pod.manifest.phase
            ):  # fmt: skip
                return
            self._leave(old)
        self._enter(pod)

    def drop_pod(self, pod: PodRow) -> None:
        """Forget a pod."""
        self._leave(self.pods[pod.uid])
        self.pods.drop(pod.uid)

    def _enter(self, pod: PodRow) -> None:
        uid = pod.uid
        self.names[pod.name] = uid
        if pod.label != UNNAMED_EXECUTOR:
            self.labels.setdefault(pod.label, {})[uid] = None
        if pod.executor:
            self.speakers.setdefault(pod.executor, {})[uid] = None
        if pod.owner:
            self.owned.setdefault(pod.owner, {})[uid] = None
        if pod.node:
            self.aboard.setdefault(pod.node, {})[uid] = None
        if pod.ticket:
            self.waiting.setdefault(pod.shape, {})[pod.ticket] = uid
        key = (pod.profile, pod.life)
        self.counts[key] = self.counts.get(key, 0) + 1
        self.unfinished += not pod.finished

    def _leave(self, pod: PodRow) -> None:
        uid = pod.uid
        self.names.pop(pod.name, None)
        if pod.label != UNNAMED_EXECUTOR:
            discard_member(self.labels, pod.label, uid)
        if pod.executor:
            discard_member(self.speakers, pod.executor, uid)
        if pod.owner:
            discard_member(self.owned, pod.owner, uid)
        if pod.node:
            discard_member(self.aboard, pod.node, uid)
        if pod.ticket:
            discard_member(self.waiting, pod.shape, pod.ticket)
        key = (pod.profile, pod.life)
        self.counts[key] -= 1
        if not self.counts[key]:
            del self.counts[key]
        self.unfinished -= not pod.finished

    def labelled(self, label: str) -> list[PodRow]:
        """The pods with this label spark-exec-id, oldest first."""
        rows = self.pods
        return [rows[uid] for uid in sorted(self.labels.get(label, ()))]

    def speaking(self, executor: str) -> list[PodRow]:
        """The pods whose process goes by this executor id, oldest first."""
        rows = self.pods
        return [rows[uid] for uid in sorted(self.speakers.get(executor, ()))]
