"""What carries the commands of a live run out: its command sinks.

Acting, that is the actuator, behind the mark of executor ids on the Lease. A shadow's sink reads what the core asks to be
read, and answers everything else as done: nothing is ever written.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol, cast

from podtide.adapters.kubernetes.lease.record import ID_MAX
from podtide.domain.base.units import Millis
from podtide.domain.protocol.application import Command
from podtide.domain.protocol.commands import Decommission, Kill, RequestTotal
from podtide.domain.protocol.pod_commands import (
    AwaitDriverReady,
    CreatePod,
    GetDriverPod,
    ListClaims,
    ListPods,
    PodCommand,
)
from podtide.domain.protocol.pod_stimuli import CallFailure, Outcome
from podtide.domain.protocol.pods import PodNumber
from podtide.entrypoints.live.loop import Hear, PodActuator


@dataclass(frozen=True, slots=True)
class ShadowSink:
    """Reads what the core asks to be read, and answers everything else as done: nothing is ever written."""

    reader: PodActuator
    lister: Callable[[int, str | None], None]
    hear: Hear

    def apply(self, command: Command, now: Millis) -> None:
        """Read, or answer at once."""
        if isinstance(command, ListPods):
            self.lister(command.serial, command.resource_version)
        elif isinstance(command, ListClaims | GetDriverPod | AwaitDriverReady):
            self.reader.apply(command)
        elif (serial := getattr(command, "serial", None)) is not None:
            self.hear(Outcome(now, serial))


class ExecutorIds(Protocol):
    """The mark of executor ids that is kept on the cluster."""

    @property
    def reserved(self) -> int:
        """Ids up to this one are marked as given out."""
        ...

    def reserve(self, last: int) -> bool:
        """Make sure that ids up to this one are marked; False if that could not be done in time. May block for seconds."""
        ...


STOP_WITHIN_S: Final = 10.0
"""How long the thread that marks ids is waited for: one attempt to mark takes five seconds."""


MARK_AGAIN_S: Final = 0.2


class ActingSink:
    """The actuator, behind the mark of executor ids: no pod is asked for before its id is on the cluster.

    Ids are marked in blocks, so most creations go straight on. Those whose block is not marked yet wait in a queue that a
    thread of its own works off (``start``, ``stop``); the loop never waits. ``on_request``: gets the number of every
    executor whose pod is asked for.
    """

    def __init__(
        self,
        actuator: PodActuator,
        lister: Callable[[int, str | None], None],
        ids: ExecutorIds,
        hear: Hear,
        on_request: Callable[[PodNumber], None],
        pause: Callable[[float], object] | None = None,
    ) -> None:
        """``pause``: lets seconds pass between attempts; without one real ones, cut short by ``stop``."""
        self._actuator = actuator
        self._lister = lister
        self._ids = ids
        self._hear = hear
        self._on_request = on_request
        self._lock = threading.Lock()
        self._waiting: deque[CreatePod] = deque()
        self._news = threading.Event()
        self._ended = threading.Event()
        self._pause = pause or self._ended.wait
        self._thread: threading.Thread | None = None

    def apply(self, command: Command, now: Millis) -> None:
        """Begin to carry a command out."""
        del now
        if isinstance(command, ListPods):
            self._lister(command.serial, command.resource_version)
        elif isinstance(command, CreatePod):
            self._create(command)
        elif not isinstance(command, RequestTotal | Kill | Decommission):  # answered inside, by the scheduler backend
            self._actuator.apply(cast(PodCommand, command))  # live is Kubernetes alone

    def _create(self, command: CreatePod) -> None:
        with self._lock:
            if self._waiting or command.executor > self._ids.reserved:
                self._waiting.append(command)
                self._news.set()
                return
        self._ask(command)

    def _ask(self, command: CreatePod) -> None:
        self._on_request(command.executor)
        self._actuator.apply(command)

    def start(self) -> None:
        """Begin to work the queue off."""
        self._thread = threading.Thread(target=self._run, name="podtide-ids", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Mark nothing more. What still waits is never asked for, and never answered."""
        self._ended.set()
        self._news.set()
        if self._thread is not None:
            self._thread.join(STOP_WITHIN_S)

    def _run(self) -> None:
        while not self._ended.is_set():
            self._news.wait()
            self._news.clear()
            try:
                self.turn()
            except Exception:  # a thread that dies here would leave every creation unanswered
                self._pause(MARK_AGAIN_S)
                self._news.set()

    def turn(self) -> None:
        """Work the queue off, as far as ids can be marked."""
        while self._waiting and not self._ended.is_set():
            first = self._waiting[0]
            if first.executor > ID_MAX:
                failure = CallFailure(
                    None, f"executor id {first.executor} is beyond {ID_MAX}: none are left to give out"
                )
                with self._lock:
                    self._waiting.popleft()
                self._hear(Outcome(0, first.serial, failure))
            elif self._ids.reserve(first.executor):
                with self._lock:
                    self._waiting.popleft()
                self._ask(first)
            else:
                # The server is away, or the lease is lost, which ends the run. Neither is a failure of this executor.
                self._pause(MARK_AGAIN_S)
