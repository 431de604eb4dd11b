"""From manifests to states: a pure ExecutorPodsSnapshot, and the view of all pods that snapshots are made of.

Which state a manifest is in (spec: snapshots, sections 1, 2 and 7), the rules in their order:

1. A pod with a deletionTimestamp is deleted, unless its phase is Running or Terminating: a pod that is being deleted
   but still runs counts as running.
2. The phase decides, in any case of its letters. A Running pod is looked into: under ``check_all_containers`` and
   restartPolicy Never, any container that ended otherwise than with 0 (no exit code included) fails it; then the
   first container with Spark's name decides, if it ended with an exit code. A phase that Spark does not know is
   PodUnknown, and a warning.

What cannot be read is thrown in Spark and loses the whole update or list: an executor id that is no number, no status
or no phase without a deletionTimestamp, no spec or a container without a state object where all containers are
checked. Here it is a ``SparkFault``. A pod without an executor id, or with the id EXECID, is passed over.

Spark builds a whole map of pods per snapshot. A ``View`` is that map, and a ``Snapshot`` what is new in it: an update
touches one pod, a full list is compared in one pass, where a pod with a known uid and resource version is known
without reading it again (unless the rules have changed since). Nothing ever leaves a view but by a full list. Spark's
map iterates in insertion order up to four pods and in hash order above; a view lists pods by number.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from podtide.domain.base.tables import Table, Tables
from podtide.domain.base.units import Millis
from podtide.domain.base.versioned import Versioned
from podtide.domain.jvm.exceptions import NULL_POINTER, NUMBER_FORMAT, SparkFault
from podtide.domain.jvm.values import LONG_MAX, LONG_MIN
from podtide.domain.protocol.pods import (
    EXECUTOR_LABEL,
    TERMINATED,
    UNNAMED_EXECUTOR,
    Pod,
    PodManifest,
    PodNumber,
    PodRules,
    PodState,
    Snapshot,
)

_NUMBER: Final = re.compile(r"([+-]?)(\d+)")
_LONG_DIGITS: Final = 19

_STATES: Final = {
    "pending": PodState.PENDING,
    "failed": PodState.FAILED,
    "succeeded": PodState.SUCCEEDED,
    "terminating": PodState.TERMINATING,
}
"""The phases that say all; "running" is looked into."""

_MODEL: Final = "io.fabric8.kubernetes.api.model"
_NO_STATUS: Final = SparkFault(
    NULL_POINTER,
    f'Cannot invoke "{_MODEL}.PodStatus.getPhase()" because the return value of "{_MODEL}.Pod.getStatus()" is null',
)
_NO_PHASE: Final = SparkFault(
    NULL_POINTER,
    'Cannot invoke "String.toLowerCase(java.util.Locale)" because the return value of '
    f'"{_MODEL}.PodStatus.getPhase()" is null',
)
_NO_SPEC: Final = SparkFault(
    NULL_POINTER,
    f'Cannot invoke "{_MODEL}.PodSpec.getRestartPolicy()" because the return value of "{_MODEL}.Pod.getSpec()" is null',
)
NO_CONTAINER_STATE: Final = SparkFault(
    NULL_POINTER,
    f'Cannot invoke "{_MODEL}.ContainerState.getTerminated()" because the return value of '
    f'"{_MODEL}.ContainerStatus.getState()" is null',
)


def read(manifest: PodManifest, rules: PodRules) -> Pod | SparkFault | None:
    """The pod of a manifest; None if it has no executor id to be known by; a fault where Spark throws."""
    label = manifest.labels.get(EXECUTOR_LABEL)
    if label is None or label == UNNAMED_EXECUTOR:
        return None
    number = _executor_number(label)
    if number is None:
        return SparkFault(NUMBER_FORMAT, f'For input string: "{label}"')
    state = _state(manifest, rules)
    return state if isinstance(state, SparkFault) else Pod(number, state, manifest)


def _executor_number(label: str) -> PodNumber | None:
    """Long.parseLong: a sign and digits of the basic plane, within 64 bits; None where it throws."""
    if label.isascii() and label.isdigit() and len(label) < _LONG_DIGITS:  # as Spark itself writes it
        return PodNumber(int(label))
    found = _NUMBER.fullmatch(label)
    if found is None or any(sign > "\uffff" for sign in label):
        return None
    sign, digits = found.groups()
    if len(digits) > _LONG_DIGITS:
        # Any number of leading zeros is fine with Java; Python's conversion is quadratic, so they go first.
        digits = _without_leading_zeros(digits)
        if len(digits) > _LONG_DIGITS:
            return None
    number = -int(digits) if sign == "-" else int(digits)
    return PodNumber(number) if LONG_MIN <= number <= LONG_MAX else None


def _without_leading_zeros(digits: str) -> str:
    for place, digit in enumerate(digits):
        if int(digit):
            return digits[place:]
    return "0"


def _state(manifest: PodManifest, rules: PodRules) -> PodState | SparkFault:
    phase = manifest.phase.lower() if manifest.has_status and manifest.phase is not None else None
    if manifest.deleted_at is not None and phase not in ("terminating", "running"):
        return PodState.DELETED
    if phase is None:
        return _NO_PHASE if manifest.has_status else _NO_STATUS
    if phase == "running":
        return _state_of_running(manifest, rules)
    return _STATES.get(phase, PodState.UNKNOWN)


def _state_of_running(manifest: PodManifest, rules: PodRules) -> PodState | SparkFault:
    if rules.check_all_containers:
        if not manifest.has_spec:
            return _NO_SPEC
        if manifest.restart_policy == "Never":
            for container in manifest.containers:  # one that failed hides a later one without a state
                if container.state is None:
                    return NO_CONTAINER_STATE
                if container.state.kind == TERMINATED and container.state.exit_code != 0:
                    return PodState.FAILED
    for container in manifest.containers:
        if container.name == rules.spark_container:
            ended = container.state is not None and container.state.kind == TERMINATED
            code = container.state.exit_code if container.state is not None and ended else None
            if code is None:
                return PodState.RUNNING
            return PodState.FAILED if code else PodState.SUCCEEDED
    return PodState.RUNNING


class _ViewTables(Tables):
    """The pods of a view, by number, and the resource version of each by its uid (None for none).

    ``versions`` is derived. While every uid is some pod's own, it has as many entries as there are pods; only then
    can it tell which pods of a list are known.
    """

    def __init__(self, pods: Mapping[PodNumber, Pod]) -> None:
        self.pods: Table[PodNumber, Pod] = Table(pods)
        super().__init__()

    def recount(self) -> None:
        """Derive the resource versions."""
        manifests = [pod.manifest for pod in self.pods.values()]
        self.versions = {m.uid: m.version or None if m.uid else None for m in manifests}

    def put(self, pod: Pod) -> None:
        """Show a pod, in the place of one with its number."""
        known = self.pods.get(pod.number)
        if known is not None:
            self.versions.pop(known.manifest.uid, None)
        self.pods.put(pod.number, pod)
        self.versions[pod.manifest.uid] = _stamp(pod)

    def drop(self, number: PodNumber) -> None:
        """Show a pod no longer."""
        known = self.pods.drop(number)
        if known is not None:
            self.versions.pop(known.manifest.uid, None)


def _stamp(pod: Pod) -> str | None:
    """The version by which a pod is known, if it has both uid and version."""
    return pod.manifest.version if pod.manifest.uid and pod.manifest.version else None


class View(Versioned[_ViewTables]):
    """All executor pods at a moment, each as it was last seen. Immutable: an older view answers as before.

    ``full_ts``: the time of the last full list, 0 before the first. ``rules``: by which the pods were read.
    """

    __slots__ = ("full_ts", "rules")

    def __init__(self, tables: _ViewTables, full_ts: Millis, rules: PodRules | None) -> None:
        super().__init__(tables)
        self.full_ts = full_ts
        self.rules = rules

    def __len__(self) -> int:
        return len(self._tables.pods)

    def __contains__(self, number: object) -> bool:
        return number in self._tables.pods

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, View):
            return NotImplemented
        return self is other or (self.full_ts == other.full_ts and self._tables.pods == other._tables.pods)

    def __hash__(self) -> int:
        return hash((self.full_ts, len(self)))

    def get(self, number: PodNumber) -> Pod | None:
        """The pod of an executor, if it has been seen."""
        return self._tables.pods.get(number)

    def pods(self) -> tuple[Pod, ...]:
        """All pods, by number. Costs one pass."""
        known = self._tables.pods
        return tuple(known[number] for number in sorted(known))

    def whole(self) -> Snapshot:
        """This view as a snapshot for somebody who has seen nothing yet. Costs one pass."""
        return Snapshot(self.full_ts, self.pods())


def empty() -> View:
    """The view before anything was seen."""
    return View(_ViewTables({}), 0, None)


def of(pods: Iterable[Pod], full_ts: Millis, rules: PodRules | None = None) -> View:
    """A view of these pods, as stored; the last of several with one number counts.

    ``rules``: by which they were read, if that is known; else every pod is read again with the next list.
    """
    return View(_ViewTables({pod.number: pod for pod in pods}), full_ts, rules)


class Taken(NamedTuple):
    """A view one update or list further, and what is new in it: the snapshot that Spark would queue now."""

    view: View
    snapshot: Snapshot


def update(view: View, manifest: PodManifest, rules: PodRules) -> Taken | SparkFault:
    """Take one pod as it is now (withUpdate). O(1).

    A pod without an executor id and a pod that has not changed give a snapshot too, with nothing in it. On a fault
    nothing happens: there is no snapshot.
    """
    pod = read(manifest, rules)
    if isinstance(pod, SparkFault):
        return pod
    if pod is None or view.get(pod.number) == pod:
        return Taken(view, Snapshot(view.full_ts))
    # A pod that was read by other rules stays as it was read; only a list reads it again.
    rules_of_all = rules if view.rules == rules or not len(view) else None
    successor = _successor(view, (pod,), (), view.full_ts, rules_of_all)
    return Taken(successor, Snapshot(view.full_ts, (pod,)))


class _Difference(NamedTuple):
    """What a list changes."""

    changed: tuple[Pod, ...]
    gone: tuple[PodNumber, ...]


def replace(view: View, manifests: Sequence[PodManifest], rules: PodRules, now: Millis) -> Taken | SparkFault:
    """Take a full list: what is not in it is gone. One pass; the last of several pods with one number counts.

    Where Spark could not read a pod the list is lost: the fault, and nothing happens.
    """
    difference = _by_version(view, manifests, rules) if view.rules == rules else None
    if difference is None:
        difference = _by_value(view, manifests, rules)
    if isinstance(difference, SparkFault):
        return difference
    changed, gone = difference
    return Taken(_successor(view, changed, gone, now, rules), Snapshot(now, changed, gone))


def _by_version(view: View, manifests: Sequence[PodManifest], rules: PodRules) -> _Difference | SparkFault | None:
    """Compare a list by uid and resource version; read only what is not known by them.

    None where uids do not tell pods apart, or where a number goes from one pod of the list to another: then the
    order of the list matters.
    """
    tables = view._tables
    known, versions = tables.pods, tables.versions
    listed = {manifest.uid: manifest.version for manifest in manifests}
    if len(listed) != len(manifests) or len(versions) != len(known):
        return None
    changed: dict[PodNumber, Pod] = {}
    for manifest in [m for m in manifests if versions.get(m.uid) != m.version]:
        pod = read(manifest, rules)
        if isinstance(pod, SparkFault):
            return pod
        before = None if pod is None else known.get(pod.number)
        was_listed = before is not None and before.manifest.uid in listed
        is_same = before is not None and before.manifest.uid == manifest.uid
        if (was_listed or manifest.uid in versions) and not is_same:
            return None
        if pod is None:
            continue
        if pod.number in changed:
            return None
        # Other versions are other pods; comparing the whole of them first would only take time.
        if before is None or before.manifest.version != manifest.version or before != pod:
            changed[pod.number] = pod
    gone: tuple[PodNumber, ...] = ()
    if not versions.keys() <= listed.keys():
        gone = _sorted(n for n, pod in known.items() if pod.manifest.uid not in listed and n not in changed)
    return _Difference(tuple(changed.values()), gone)


def _by_value(view: View, manifests: Sequence[PodManifest], rules: PodRules) -> _Difference | SparkFault:
    """Read every pod of a list and compare what came of it."""
    pods: dict[PodNumber, Pod] = {}
    for manifest in manifests:
        pod = read(manifest, rules)
        if isinstance(pod, SparkFault):
            return pod
        if pod is not None:
            pods[pod.number] = pod
    known = view._tables.pods
    changed = tuple(pod for number, pod in pods.items() if known.get(number) != pod)
    return _Difference(changed, _sorted(number for number in known if number not in pods))


def _sorted(numbers: Iterable[PodNumber]) -> tuple[PodNumber, ...]:
    """In an order of their own: a view that was rebuilt lists its pods in another one."""
    return tuple(sorted(numbers))


def _successor(
    view: View, changed: Sequence[Pod], gone: Sequence[PodNumber], full_ts: Millis, rules: PodRules | None
) -> View:
    """The next version of a view; where more changes than stays, a view of its own: cheaper than to log every change."""
    if len(changed) + len(gone) > len(view) // 2:
        pods = dict(view._tables.pods)
        for number in gone:
            del pods[number]
        pods.update((pod.number, pod) for pod in changed)
        return View(_ViewTables(pods), full_ts, rules)
    with view.step() as tables:
        for pod in changed:
            tables.put(pod)
        for number in gone:
            tables.drop(number)
        return view.hand_over(View(tables, full_ts, rules))
