"""The executors of a live run, counted by profile and state as they change.

Three sources are brought together, none of which knows all: the view of the cluster (which pods are there, in which state),
the pods allocator (which were asked for and have not been seen), and the scheduler backend (which executors are registered,
and which of them are on their way out). A step costs the pods and executors that it concerns; a full list costs one pass.

*Leaving* is an executor that is registered and not active: it was asked to go, decommissions, or its connection was lost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final

from podtide.adapters.views.live.status import REQUESTED, STATES, ProfileFigures, TotalFigures
from podtide.domain.backend.registry import Registry
from podtide.domain.base.units import DEFAULT_PROFILE, ExecutorId, Millis
from podtide.domain.kubernetes.allocator.executor_index import profile_of
from podtide.domain.kubernetes.allocator.state import AllocatorState
from podtide.domain.kubernetes.side import KubernetesState
from podtide.domain.kubernetes.snapshots import View
from podtide.domain.protocol import (
    executor_commands as ec,
    executor_stimuli as es,
    pod_commands as pc,
    pod_stimuli as ps,
)
from podtide.domain.protocol.application import AnyStimulus, Command
from podtide.domain.protocol.commands import Decommission, Kill
from podtide.domain.protocol.pods import EXECUTOR_LABEL, Labels, Pod, PodNumber, PodState

NUMBER_DIGITS_MAX: Final = 18
RUNNING: Final = STATES[PodState.RUNNING]


class PodCounts:
    """Counts what every step changes. ``running``: pods that run; ``registered``: executors known to the driver."""

    def __init__(self) -> None:
        self.running = 0
        self._full_ts: Millis | None = None
        self._places: dict[PodNumber, tuple[int, str]] = {}  # profile and state of every pod that was seen
        self._pods: Counter[tuple[int, str]] = Counter()
        self._requests: Counter[int] = Counter()
        self._fresh: set[PodNumber] = set()  # pods seen in this step for the first time
        self._ahead: dict[PodNumber, int] = {}  # pods that were seen, which the allocator still waits for
        self._ahead_of: Counter[int] = Counter()
        self._allocator: AllocatorState | None = None
        self._calls: dict[int, PodNumber] = {}  # creations that are not answered, by serial
        self._flying: dict[PodNumber, int] = {}  # their pods, unless seen already, and their profiles
        self._flying_of: Counter[int] = Counter()
        self._there: dict[str, int] = {}  # registered executors, and their profiles
        self._there_of: Counter[int] = Counter()
        self._leaving: dict[str, int] = {}
        self._leaving_of: Counter[int] = Counter()

    @property
    def registered(self) -> int:
        """Executors known to the driver."""
        return len(self._there)

    def step(self, stimuli: Sequence[AnyStimulus], commands: Sequence[Command], side: KubernetesState) -> bool:
        """Count what changed; tells whether the cluster showed anything."""
        view, registry = side.store.view, side.backend.registry
        touched: set[str] = set()
        shown: list[PodNumber] = []
        news = False
        whole = view.full_ts != self._full_ts
        for stimulus in stimuli:
            match stimulus:
                case ps.PodsUpdated(pods=pods):
                    news = True
                    shown += [PodNumber(int(label)) for pod in pods if (label := _label(pod.labels))]
                case ps.PodsReplaced():
                    whole = True
                case ps.Outcome(serial=serial, pods=pods):
                    whole = whole or bool(pods)
                    self._answered(serial)
                case es.KillRequested(executors=executors) | es.DecommissionRequested(executors=executors):
                    touched.update(executors)
                case es.ExecutorDisconnected(address=address):
                    touched.add(registry.addresses.get(address, ""))
                case _:
                    pass
        if whole:
            self._recount(view)
            news = news or view.full_ts > 0
        else:
            for number in shown:
                self._show(number, view.get(number))
        self._full_ts = view.full_ts
        for command in commands:
            match command:
                case pc.CreatePod(serial=serial, executor=number, profile=profile):
                    self._calls[serial] = number
                    if number in self._places:
                        self._fresh.add(number)
                    elif number not in self._flying:
                        self._flying[number] = profile
                        self._flying_of[profile] += 1
                case ec.AnswerRegistration(executor=executor):
                    touched.add(executor)
                case ec.RemoveExecutor(executor=executor):
                    touched.add(executor)
                case Kill(executors=executors) | Decommission(executors=executors):
                    touched.update(executors)
                case ec.DecommissionExecutors(executors=executors):
                    touched.update(executors)
                case pc.DeletePods(executors=gone) if gone is not None:
                    touched.update(str(one) for one in gone)
                case _:
                    pass
        self._settle(touched, registry)
        if len(self._there) != len(registry.executors):  # a state that was taken over, or a way out nobody told of
            self._settle({*self._there, *registry.executors}, registry)
        self._await(side)
        return news

    def _recount(self, view: View) -> None:
        """A full list: count all pods anew, in one pass."""
        known, self._places = self._places, {}
        self._pods.clear()
        self.running = 0
        for pod in view.pods():
            self._show(pod.number, pod)
        self._fresh.difference_update(known)

    def _show(self, number: PodNumber, pod: Pod | None) -> None:
        before = self._places.pop(number, None)
        if before is not None:
            _less(self._pods, before)
            self.running -= before[1] == RUNNING
        elif pod is not None:
            self._fresh.add(number)
            self._landed(number)
        if pod is not None:
            profile = profile_of(pod)
            place = self._places[number] = (DEFAULT_PROFILE if profile is None else profile, STATES[pod.state])
            self._pods[place] += 1
            self.running += place[1] == RUNNING

    def _answered(self, serial: int) -> None:
        """A call came back; if it was a creation that went well, the allocator waits for the pod from now on."""
        number = self._calls.pop(serial, None)
        if number is not None:
            self._landed(number)
            if number in self._places:
                self._fresh.add(number)

    def _landed(self, number: PodNumber) -> None:
        profile = self._flying.pop(number, None)
        if profile is not None:
            _less(self._flying_of, profile)

    def _await(self, side: KubernetesState) -> None:
        """Pods that were asked for and that nobody has seen yet: creations under way, and those that the allocator awaits.

        The allocator hears of a pod with its next round only, the view at once; whoever counted both would count the pods
        in between twice. ``_ahead`` holds those.
        """
        if side.allocator is None:
            self._fresh.clear()
            return
        index = side.allocator.fleet
        for number in self._fresh:
            profile = index.awaited(number)
            if profile is not None and number not in self._ahead:
                self._ahead[number] = profile
                self._ahead_of[profile] += 1
        self._fresh.clear()
        if side.allocator is not self._allocator:
            self._allocator = side.allocator
            # A round hears of all pods that were seen before it: if the oldest is awaited still, so are the others.
            oldest = next(iter(self._ahead), None)
            if oldest is not None and index.awaited(oldest) is None:
                for number in [number for number in self._ahead if index.awaited(number) is None]:
                    _less(self._ahead_of, self._ahead.pop(number))
        requests: Counter[int] = Counter(index.awaited_by_profile())
        requests.update(self._flying_of)
        requests.subtract(self._ahead_of)
        self._requests = +requests

    def _settle(self, touched: Iterable[str], registry: Registry) -> None:
        """Executors that may have come, gone, or been asked to go."""
        for executor in touched:
            known = registry.executors.get(ExecutorId(executor))
            self._move(self._there, self._there_of, executor, None if known is None else known.profile)
            leaving = known is not None and not registry.active(ExecutorId(executor))
            self._move(self._leaving, self._leaving_of, executor, known.profile if known and leaving else None)

    def _move(self, table: dict[str, int], counts: Counter[int], executor: str, profile: int | None) -> None:
        before = table.pop(executor, None)
        if before is not None:
            _less(counts, before)
        if profile is not None:
            table[executor] = profile
            counts[profile] += 1

    def profiles(self) -> set[int]:
        """The profiles of which there is anything."""
        return {*self._there_of, *self._requests, *(profile for profile, _ in self._pods)}

    def figures(self, profile: int, target: int) -> ProfileFigures:
        """The executors of one profile."""
        pods = {state: number for state in STATES.values() if (number := self._pods.get((profile, state), 0))}
        if requests := self._requests.get(profile, 0):
            pods[REQUESTED] = requests
        return ProfileFigures(profile, target, pods, self._there_of[profile], self._leaving_of[profile])

    def total(self, target: int) -> TotalFigures:
        """The executors of all profiles."""
        pods: Counter[str] = Counter()
        for (_, state), number in self._pods.items():
            pods[state] += number
        if requests := self._requests.total():
            pods[REQUESTED] = requests
        return TotalFigures(target, dict(pods), len(self._there), len(self._leaving))


def _label(labels: Labels) -> str:
    """The executor id of a pod, where it is a number that a view may know."""
    label = labels.get(EXECUTOR_LABEL, "")
    return label if label.isascii() and label.isdigit() and len(label) < NUMBER_DIGITS_MAX else ""


def _less(counts: Counter[Any], key: object) -> None:
    counts[key] -= 1
    if not counts[key]:
        del counts[key]
