"""The API server of a cluster from the driver's calls: how long they take, which are refused or lost, what the quota leaves.

A call that stood behind another of its thread left when that one came back. Refusals are shares of the calls of their
kind. A quota is no fault: its limit is read from its message, less what others use of it. An answer that never came was
lost if the pod was seen all the same, else the request was.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

from podtide.domain.base.units import Millis
from podtide.domain.fakes.fitting import DurationSample, Evidence, share
from podtide.domain.fakes.kubernetes.api_errors import request
from podtide.domain.fakes.kubernetes.api_server import lane
from podtide.domain.fakes.kubernetes.description import KIND, Api, Fault, Lost, Verb
from podtide.domain.fakes.kubernetes.rows import Call
from podtide.domain.protocol.pod_commands import CreatePod
from podtide.domain.protocol.pod_stimuli import CallFailure, Outcome

_LIMITED: Final = re.compile(r"exceeded quota: .{0,200}?used: pods=([0-9]{1,9}), limited: pods=([0-9]{1,9})")


@dataclass(slots=True)
class AnsweredCall:
    """A call that came back. ``began``: when it left the client."""

    command: Call
    began: Millis


@dataclass(slots=True)
class CallSightings:
    """What was seen of the API. Memory: the calls under way, and kinds of calls."""

    latency: DurationSample = field(default_factory=DurationSample)
    quota: list[int] = field(default_factory=list)  # how many pods of this application it leaves room for
    _calls: Counter[tuple[Verb, str]] = field(default_factory=Counter)
    _refused: Counter[tuple[Verb, str, int]] = field(default_factory=Counter)
    _retry_after: dict[tuple[Verb, str, int], DurationSample] = field(default_factory=dict)
    _unanswered: Counter[tuple[Verb, str]] = field(default_factory=Counter)
    _unsure: list[str] = field(default_factory=list)  # executors whose creation was not answered
    _open: dict[int, Call] = field(default_factory=dict)
    _lanes: dict[int, Millis] = field(default_factory=dict)

    def ask(self, call: Call) -> None:
        """A call is made."""
        self._open[call.serial] = call

    def answer(self, outcome: Outcome, pods: int) -> AnsweredCall | None:
        """A call came back, while so many pods of the application had not ended; None of a call that was not seen."""
        call = self._open.pop(outcome.serial, None)
        if call is None:
            return None
        kind = request(call)
        self._calls[kind] += 1
        began = max(call.at, self._lanes.get(lane(call), call.at))
        self._lanes[lane(call)] = outcome.at
        if outcome.failure is None:
            self.latency.add(outcome.at - began)
        else:
            self._failed(call, kind, outcome.failure, pods)
        return AnsweredCall(call, began)

    def _failed(self, call: Call, kind: tuple[Verb, str], failure: CallFailure, pods: int) -> None:
        if failure.status is None:
            self._unanswered[kind] += 1
            if isinstance(call, CreatePod):
                self._unsure.append(str(call.executor))
            return
        limited = _LIMITED.search(failure.message[:2_000]) if failure.status == 403 else None
        if limited is not None:
            used, limit = int(limited[1]), int(limited[2])
            if len(self.quota) < 100_000:
                self.quota.append(max(0, limit - max(0, used - pods)))
        elif (
            400 <= failure.status <= 599
            and failure.status != 404
            and not (failure.status == 409 and "already exists" in failure.message)
        ):
            self._refused[(*kind, failure.status)] += 1
            if failure.retry_after_ms is not None:
                self._retry_after.setdefault((*kind, failure.status), DurationSample()).add(failure.retry_after_ms)

    def api(self, seen: Callable[[str], bool], evidence: list[Evidence]) -> Api:
        """What the API is like. ``seen``: whether an executor's pod was."""
        api = KIND.api
        if self.latency.count:
            api = replace(api, latency=self.latency.delay())
        evidence.append(Evidence("api.latency", self.latency.count))
        evidence.append(Evidence("api.quota", len(self.quota), "refusals that named it"))
        if self.quota:
            api = replace(api, quota_pods=sorted(self.quota)[len(self.quota) // 2])
        faults: list[Fault] = []
        left = Counter(self._calls)  # the first fault that hits decides: the next is asked only about the others

        def add(
            count: int, verb: Verb, resource: str, status: int | None, lost: Lost | None, after: Millis | None
        ) -> None:  # fmt: skip
            part = max(1e-6, share(count, left[verb, resource]))
            note = f"of {self._calls[verb, resource]} calls"
            evidence.append(Evidence(f"api.faults[{len(faults)}]", count, note))
            faults.append(Fault(status, lost, part, (verb,), (resource,), after))
            left[verb, resource] -= count

        for (verb, resource, status), count in sorted(self._refused.items(), key=_by_text):
            delay = self._retry_after.get((verb, resource, status))
            add(count, verb, resource, status, None, None if delay is None else delay.median())
        for (verb, resource), count in sorted(self._unanswered.items(), key=_by_text):
            done = sum(map(seen, self._unsure)) if (verb, resource) == (Verb.CREATE, "pods") else 0
            if done:
                add(done, verb, resource, None, Lost.ANSWER, None)
            if count > done:
                add(count - done, verb, resource, None, Lost.REQUEST, None)
        return replace(api, faults=tuple(faults))


def _by_text(item: tuple[tuple[Verb, str] | tuple[Verb, str, int], int]) -> tuple[str, ...]:
    verb, resource, *status = item[0]
    return verb.value, resource, *(str(s) for s in status)
