"""The watch over stalls of a whole application on Kubernetes: an observer of its loop, live, simulated or decided again.

The loop shows every step (``step``), which costs what it says: events of tasks and stages, executors that came and went,
creations that were refused. Whenever time passes (``passed``) a look may be due (``run_stalls``); it is taken before the
step that ends that time, while the state is still how things stood.

Where dynamic allocation is off, tasks are not seen: a target above the executors stands for tasks that wait. Where none ever
registered - a shadow that does not ask the driver -, pods that run stand for executors.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Final

from podtide.adapters.recording.run_stalls import LOOK_MS, RunStalls
from podtide.domain.backend.registry import Registry
from podtide.domain.base.units import DEFAULT_PROFILE, ExecutorId, Millis, ProfileId
from podtide.domain.engine import EngineState
from podtide.domain.kubernetes.allocator.executor_index import profile_of
from podtide.domain.kubernetes.side import KubernetesState
from podtide.domain.protocol.application import AnyStimulus, Command, EngineConfig
from podtide.domain.protocol.commands import Step
from podtide.domain.protocol.executor_commands import AnswerRegistration, RemoveExecutor
from podtide.domain.protocol.pod_commands import CreatePod
from podtide.domain.protocol.pod_stimuli import Outcome, PodsReplaced, PodsUpdated
from podtide.domain.protocol.pods import EXECUTOR_LABEL, PodNumber, PodState, pod_number
from podtide.domain.protocol.reasons import Cause
from podtide.domain.recorded.application import Leave
from podtide.domain.recorded.executors import leave_of
from podtide.domain.stalls.causes import LEAST_MS, StallCause
from podtide.domain.stalls.facts import ExecutorCame, ExecutorWent, PodMade, PodRefused, StallConfig, StallInput
from podtide.domain.stalls.pods import with_pods
from podtide.domain.stalls.readings import REASON_MAX, profile_moments, target_moments
from podtide.domain.stalls.rules import FORBIDDEN
from podtide.domain.stalls.stalls import Stall, StallNews

LEFT_MAX: Final = 10_000
"""Executors that have left and are remembered: their pods may end later."""

QUIET_MS: Final[Millis] = 30_000
"""How long nothing is judged after the driver was silent: its next answers say what moved meanwhile."""


class AppStalls:
    """Watches an application. ``start``: when it began; ``listener``: told of each stall that begins or ends.

    ``blind``: whether the driver does not answer; nobody knows then whether tasks end.
    """

    def __init__(
        self,
        config: EngineConfig,
        start: Millis,
        listener: Callable[[StallNews], None] = lambda _news: None,
        blind: Callable[[], bool] = lambda: False,
    ) -> None:
        self.run = RunStalls(StallConfig(start), listener)
        self._config = config
        self._blind = blind
        self._quiet_until = start
        self._state: EngineState | None = None
        self._registered = False
        self._there: dict[ExecutorId, ProfileId] = {}
        self._counts: Counter[ProfileId] = Counter()
        self._left: dict[ExecutorId, None] = {}
        self._creations: set[int] = set()  # serials of those that are not answered
        self._full_ts: Millis | None = None
        self._lacked_at: Millis | None = None  # the last look that found executors missing
        self._quotas: deque[str | None] = deque()  # heard of them and not told yet

    def stalls(self) -> tuple[Stall, ...]:
        """The stalls that last. From any thread."""
        return self.run.state.stalls()

    def alarms(self) -> dict[str, int]:
        """How many alarms began, by cause. From any thread."""
        return {cause.value: self.run.began[cause] for cause in StallCause}

    def lacks_executors(self, now: Millis) -> bool:
        """Whether the last look found that executors are missing, a moment ago. From any thread."""
        lacked = self._lacked_at
        return lacked is not None and now - lacked <= 3 * LOOK_MS

    def hear_quota(self, used_up: str | None) -> None:
        """Somebody looked at the quotas: which one has no room, None where each has. From any thread."""
        self._quotas.append(used_up)

    def passed(self, now: Millis, *, last: bool = False) -> None:
        """Time has passed until ``now`` and nothing was heard meanwhile. ``last``: nothing will be."""
        if self._blind():
            self._quiet_until = now + QUIET_MS
            return
        state, run = self._state, self.run
        if state is None or now < self._quiet_until:
            return
        while self._quotas:
            used_up = self._quotas.popleft()
            run.tell([PodMade(now) if used_up is None else PodRefused(now, FORBIDDEN, used_up)], now)
        if last or run.due(now, tasks_known=self._config.dynamic):
            self._look(state, now)
        if self._config.dynamic and self._config.scaling.shuffle_tracking:
            run.look_at_kept(state.scaling, now, last=last)

    def step(self, now: Millis, stimuli: Sequence[AnyStimulus], taken: Step[EngineState, Command]) -> None:
        """See one step."""
        before, self._state = self._state, taken.state
        side = taken.state.kubernetes
        assert side is not None, "an application on a cluster"
        self.run.hear(stimuli, now)
        facts = self._answers(stimuli, now)
        facts += self._changes(taken.commands, None if before is None else before.kubernetes, side, now)
        if not (self._registered or self._config.dynamic):
            facts += self._running_pods(stimuli, side, now)
        if facts:
            self.run.tell(facts, now)

    def _look(self, state: EngineState, now: Millis) -> None:
        config, run = self._config, self.run
        self._lacked_at = None
        side = state.kubernetes
        assert side is not None
        if not config.dynamic:
            known = side.backend.requested if side.allocator is None else tuple(side.allocator.targets.items())
            moments = target_moments(known, self._counts, run.state, now)
            if any(one.missing for one in moments):
                self._lacked_at = now
            if all(now - since < LEAST_MS for since in run.state.short_since.values()):
                run.look(moments, now)  # no stall yet, so the pods need not be looked at
                return
        elif state.load.tasks_wait() or run.state.open:
            moments = profile_moments(state.load, state.scaling, config.scaling, dynamic=True)
            if any(one.missing for one in moments):
                self._lacked_at = now
        else:
            return
        run.look(with_pods(moments, side, config.kubernetes.allocation.pods_max), now)

    # ------------------------------------------------------------------------------------------------ what a step says

    def _answers(self, stimuli: Sequence[AnyStimulus], now: Millis) -> list[StallInput]:
        """The outcomes of creations."""
        found: list[StallInput] = []
        for stimulus in stimuli:
            if type(stimulus) is Outcome and stimulus.serial in self._creations:
                self._creations.discard(stimulus.serial)
                failure = stimulus.failure
                if failure is None:
                    if self.run.state.refused is not None:
                        found.append(PodMade(now))
                elif failure.status == FORBIDDEN:
                    found.append(PodRefused(now, FORBIDDEN, _line(failure.message)))
        return found

    def _changes(
        self, commands: Sequence[Command], before: KubernetesState | None, side: KubernetesState, now: Millis
    ) -> list[StallInput]:
        """Executors that came and went."""
        found: list[StallInput] = []
        registry = side.backend.registry
        for command in commands:
            match command:
                case CreatePod(serial=serial):
                    self._creations.add(serial)
                case AnswerRegistration(executor=executor, accepted=True):
                    found += self._came(executor, registry, now)
                case RemoveExecutor():
                    found += self._went(command, None if before is None else before.backend.registry, side, now)
                case _:
                    pass
        if registry.executors or self._registered:
            self._registered = True
            if len(self._there) != len(registry.executors):  # a state that was taken over, or a way out nobody told of
                for executor in [executor for executor in self._there if executor not in registry.executors]:
                    found += self._gone(executor, now)
                for executor in registry.executors:
                    found += self._came(executor, registry, now)
        return found

    def _came(self, executor: ExecutorId, registry: Registry, now: Millis) -> list[StallInput]:
        known = registry.executors.get(executor)
        if known is None or executor in self._there:
            return []
        return self._enter(executor, known.profile, now)

    def _enter(self, executor: ExecutorId, profile: ProfileId, now: Millis) -> list[StallInput]:
        self._there[executor] = profile
        self._counts[profile] += 1
        return [ExecutorCame(now, executor, profile)]

    def _went(
        self, command: RemoveExecutor, before: Registry | None, side: KubernetesState, now: Millis
    ) -> list[StallInput]:
        """One that is removed. What fails before it registered counts as well; what left before does not go again."""
        executor, reason = command.executor, command.reason
        failed = command.why.cause is not Cause.POD_SUCCEEDED
        if executor in self._there and self._registered:
            if before is not None and executor in before.executors:
                reason = before.effective_reason(executor, reason)
            failed = failed and leave_of(reason.message) is Leave.LOST
            return self._gone(executor, now, reason.message if failed else None)
        if executor in self._left:
            return []
        failed = command.why.cause is Cause.POD_FAILED
        if executor in self._there:
            return self._gone(executor, now, reason.message if failed else None)
        if not failed:
            return []
        number = pod_number(executor)
        pod = None if number is None else side.store.view.get(number)
        profile = DEFAULT_PROFILE if pod is None else profile_of(pod) or DEFAULT_PROFILE
        self._leave(executor)
        return [ExecutorWent(now, executor, True, _line(reason.message), profile)]

    def _gone(self, executor: ExecutorId, now: Millis, reason: str | None = None) -> list[StallInput]:
        """``reason``: None where somebody let it go. Where no tasks are seen, one that lived long worked, as it were."""
        profile = self._there.pop(executor)
        born, _ = self.run.state.born.get(executor, (now, profile))
        if not self._config.dynamic and now - born >= LEAST_MS:
            reason = None
        self._counts[profile] -= 1
        self._leave(executor)
        return [ExecutorWent(now, executor, reason is not None, _line(reason or ""), profile)]

    def _leave(self, executor: ExecutorId) -> None:
        self._left[executor] = None
        if len(self._left) > LEFT_MAX:
            del self._left[next(iter(self._left))]

    def _running_pods(self, stimuli: Sequence[AnyStimulus], side: KubernetesState, now: Millis) -> list[StallInput]:
        """Pods that began to run, where nobody registers; those that are gone from a full list."""
        view = side.store.view
        whole = view.full_ts != self._full_ts or any(type(stimulus) is PodsReplaced for stimulus in stimuli)
        self._full_ts = view.full_ts
        found: list[StallInput] = []
        if whole:
            for executor in list(self._there):
                number = pod_number(executor)
                if number is None or view.get(number) is None:
                    found += self._gone(executor, now)
            numbers = [pod.number for pod in view.pods()]
        else:
            labels = [
                pod.labels.get(EXECUTOR_LABEL, "") for one in stimuli if type(one) is PodsUpdated for pod in one.pods
            ]
            numbers = [PodNumber(int(label)) for label in labels if pod_number(ExecutorId(label)) is not None]
        for number in numbers:
            pod, executor = view.get(number), ExecutorId(str(number))
            if pod is not None and pod.state is PodState.RUNNING and executor not in self._there:
                found += self._enter(executor, profile_of(pod) or DEFAULT_PROFILE, now)
        return found


def _line(text: str) -> str:
    """On one line, without what Spark's client says before the server's own message."""
    start = text[: 8 * REASON_MAX]
    return " ".join((start.partition(" Message: ")[2] or start).split())[:REASON_MAX]
