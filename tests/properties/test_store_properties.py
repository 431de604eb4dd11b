"""The snapshot store and its views, whatever comes: nothing lost, nothing twice, nobody run twice at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import given, strategies as st

from podtide.domain.jvm.exceptions import SparkFault
from podtide.domain.kubernetes import snapshots, snapshots_store as store
from podtide.domain.kubernetes.snapshots import View
from podtide.domain.kubernetes.snapshots_store import Delivered, StopStore, StoreConfig, StoreState, Subscribe
from podtide.domain.protocol.executor_stimuli import Wake
from podtide.domain.protocol.pod_commands import Deliver, NotifySubscribers
from podtide.domain.protocol.pod_stimuli import PodsReplaced, PodsUpdated
from podtide.domain.protocol.pods import EXECUTOR_LABEL, Pod, PodManifest, PodRules, Snapshot

RULES = PodRules()
CONFIG = StoreConfig(RULES)
NAMES = ("allocator", "lifecycle")

MANIFESTS = st.builds(
    lambda label, phase, uid, version: PodManifest(
        f"exec-{label}", {} if label is None else {EXECUTOR_LABEL: label}, phase=phase, uid=uid, version=version
    ),
    st.sampled_from(["1", "2", "3", "4", "5", "05", "EXECID", None]),
    st.sampled_from(["Pending", "Running", "Failed", "Odd"]),
    st.sampled_from(["", "u1", "u2", "u3", "u4", "u5"]),
    st.just(""),
)
BAD = st.sampled_from(
    [PodManifest("bad", {EXECUTOR_LABEL: "x"}, phase="Running"), PodManifest("worse", {EXECUTOR_LABEL: "1"})]
)


def with_versions(manifests: Sequence[PodManifest]) -> list[PodManifest]:
    """As the API does it: one version of a uid is one text, whoever asks; some pods have none."""
    return [
        m._replace(version="" if m.phase == "Odd" else f"{m.labels.get(EXECUTOR_LABEL)}-{m.phase}") for m in manifests
    ]


LISTS = st.lists(MANIFESTS, max_size=6).map(with_versions)
CHANGES = st.lists(st.one_of(st.tuples(st.just("update"), LISTS), st.tuples(st.just("list"), LISTS)), max_size=12)

Model = dict[int, Pod]


def modelled(model: Model, kind: str, manifests: Sequence[PodManifest]) -> Model:
    """Spark's own way: a new map every time."""
    pods = {} if kind == "list" else dict(model)
    for manifest in manifests:
        pod = snapshots.read(manifest, RULES)
        if isinstance(pod, Pod):
            pods[pod.number] = pod
    return pods


def content(view: View) -> Model:
    return {pod.number: pod for pod in view.pods()}


def applied(model: Model, snapshot: Snapshot) -> Model:
    kept = {number: pod for number, pod in model.items() if number not in snapshot.gone}
    return kept | {pod.number: pod for pod in snapshot.changed}


@given(CHANGES, st.randoms(use_true_random=False))
def test_views_are_sparks_maps_and_deltas_add_up_to_them(changes: list[tuple[str, Any]], random: Any) -> None:
    view = snapshots.empty()
    model: Model = {}
    followed: Model = {}
    history: list[tuple[View, Model]] = [(view, {})]
    for now, (kind, manifests) in enumerate(changes, start=1):
        model = modelled(model, kind, manifests)
        if kind == "list":
            taken = snapshots.replace(view, manifests, RULES, now)
            assert not isinstance(taken, SparkFault)
            assert taken.snapshot.full_ts == taken.view.full_ts == now
            view, followed = taken.view, applied(followed, taken.snapshot)
        else:
            for manifest in manifests:
                taken = snapshots.update(view, manifest, RULES)
                assert not isinstance(taken, SparkFault)
                view, followed = taken.view, applied(followed, taken.snapshot)
        assert content(view) == model == followed
        history.append((view, model))
    random.shuffle(history)
    for older, expected in history:
        assert content(older) == expected


@given(LISTS, LISTS, st.booleans())
def test_a_snapshot_names_what_changed_and_nothing_else(before: Any, after: Any, fork: bool) -> None:
    first = snapshots.replace(snapshots.empty(), before, RULES, 1)
    assert not isinstance(first, SparkFault)
    if fork:  # somebody else went on from the same view
        snapshots.replace(first.view, [], RULES, 2)
    known = content(first.view)
    second = snapshots.replace(first.view, after, RULES, 2)
    assert not isinstance(second, SparkFault)
    listed = content(second.view)
    assert {p.number: p for p in second.snapshot.changed} == {n: p for n, p in listed.items() if known.get(n) != p}
    assert set(second.snapshot.gone) == known.keys() - listed.keys()
    assert len(set(second.snapshot.gone)) == len(second.snapshot.gone)


FAULTS = st.sampled_from(
    [
        None,
        None,
        SparkFault("java.lang.IllegalStateException", ""),
        SparkFault("java.lang.IllegalArgumentException", ""),
        SparkFault("java.lang.LinkageError", ""),
    ]
)
ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("update"), st.lists(st.one_of(MANIFESTS, BAD), max_size=3)),
        st.tuples(st.just("list"), st.lists(st.one_of(MANIFESTS, BAD), max_size=3)),
        st.tuples(st.just("notify"), st.none()),
        st.tuples(st.just("pass"), st.sampled_from([0, 1, 300, 1_000, 5_000])),
        st.tuples(st.just("end"), st.tuples(st.sampled_from(NAMES), FAULTS)),
        st.tuples(st.just("subscribe"), st.sampled_from(NAMES)),
        st.tuples(st.just("stop"), st.none()),
    ),
    max_size=40,
)


class Story:
    """A store, what it queued and what it handed out."""

    def __init__(self) -> None:
        self.now = 0
        self.state: StoreState = store.start()
        self.due: dict[str, list[Snapshot]] = {}
        self.handed: dict[str, list[Snapshot]] = {}
        self.busy: set[str] = set()

    def happening(self, kind: str, what: Any) -> Any:
        match kind:
            case "update":
                return PodsUpdated(self.now, tuple(what))
            case "list":
                return PodsReplaced(self.now, tuple(what))
            case "notify":
                return NotifySubscribers(self.now)
            case "end":
                self.busy.discard(what[0])
                return Delivered(self.now, *what)
            case "subscribe":
                return Subscribe(self.now, what, 1_000)
            case _:
                return StopStore(self.now)

    def take(self, happening: Any) -> None:
        known = {subscriber.name for subscriber in self.state.subscribers}
        before = self.state
        step = store.distribute(before, (happening,), CONFIG, self.now)
        assert store.distribute(before, (happening,), CONFIG, self.now) == step  # the older state still answers
        self.state = step.state
        for subscriber in self.state.subscribers:
            name = subscriber.name
            if name not in known:
                self.due[name] = [self.state.view.whole()]
                self.handed[name] = []
        for command in step.commands:
            if isinstance(command, Deliver):
                assert command.subscriber not in self.busy
                self.busy.add(command.subscriber)
                self.handed[command.subscriber] += command.snapshots

    def expect(self, kind: str, manifests: Sequence[PodManifest], before: View) -> None:
        """What everybody is to get for an update or a list, from the rules of snapshots alone."""
        queued: list[Snapshot] = []
        if kind == "list":
            taken = snapshots.replace(before, manifests, RULES, self.now)
            queued += [] if isinstance(taken, SparkFault) else [taken.snapshot]
        else:
            for manifest in manifests:
                taken = snapshots.update(before, manifest, RULES)
                if not isinstance(taken, SparkFault):
                    before = taken.view
                    queued.append(taken.snapshot)
        for snapshots_due in self.due.values():
            snapshots_due.extend(queued)

    def run(self, actions: Sequence[tuple[str, Any]]) -> None:
        for kind, what in actions:
            if kind == "pass":
                self.now += what
                for _ in range(20):
                    if store.due(self.state) > self.now:
                        break
                    self.take(Wake(self.now))
                assert store.due(self.state) > self.now
                continue
            before = self.state.view
            self.take(self.happening(kind, what))
            if kind in ("update", "list"):
                self.expect(kind, what, before)
            for subscriber in self.state.subscribers:
                assert subscriber.notifications >= 0
                assert (subscriber.busy is not None) == (subscriber.name in self.busy)


@given(ACTIONS)
def test_every_snapshot_reaches_everybody_once_and_in_order(actions: list[tuple[str, Any]]) -> None:
    story = Story()
    story.run([("subscribe", "allocator"), *actions])
    for subscriber in story.state.subscribers:
        assert story.handed[subscriber.name] + list(subscriber.queue) == story.due[subscriber.name]


@given(st.integers(0, 6), st.integers(0, 5))
def test_k_notifications_of_a_busy_subscriber_are_k_runs(notifications: int, updates: int) -> None:
    story = Story()
    story.run([("subscribe", "allocator"), ("pass", 0)])
    assert story.busy == {"allocator"}
    story.run([("update", [PodManifest("p", {EXECUTOR_LABEL: "1"}, phase="Running")] * updates)])
    story.run([("notify", None), ("pass", 0)] * notifications)
    runs = 0
    while story.busy:
        story.run([("end", ("allocator", None)), ("pass", 0)])
        runs += 1
    assert runs == 1 + notifications
