"""The record of an embedded cluster: each call, each change of an object and each watch event as a line of JSON.

It is no recording: nobody's decisions are in it, and nothing can be decided again from it. Bodies are not written, so
neither are secrets; of a pod its phase, node and exit code. docs/reference/formats.md describes the lines.

Lines go to the operating system once 64 KiB of them have come, and at the end. A record that cannot be written any more
ends, is said to have, and the cluster goes on.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, Final, Self

from podtide.adapters.api_server.front import ServedStep
from podtide.adapters.recording.header import CLUSTER_KIND
from podtide.adapters.recording.records.jsonl import encoded
from podtide.domain.api_faults.faulty_server import WatchCut
from podtide.domain.api_server.json_values import FrozenObject, at
from podtide.domain.api_server.messages import ApiResponse, HttpRequest, WatchOver
from podtide.domain.base.units import Millis

PRIVATE: Final = 0o600
_BUFFER: Final = 64 * 1024


class ClusterRecord:
    """An observer of steps (``StepObserver``) and a context manager. ``problem``: why it ended before its time.

    Raises OSError where the file is there already or cannot be made.
    """

    def __init__(self, path: str, namespace: str, now: Millis) -> None:
        self.path = path
        self.problem = ""
        self._lines = 0
        self._now = now
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE)
        self._file = os.fdopen(descriptor, "wb", buffering=_BUFFER)
        self._put({"podtide": 1, "kind": CLUSTER_KIND, "started_at_ms": now, "namespace": namespace})

    def __call__(self, step: ServedStep) -> None:
        """A step was taken."""
        self._now = step.now
        for line in _lines(step):
            self._put(line)

    def _put(self, line: dict[str, Any]) -> None:
        if self.problem:
            return
        try:
            self._file.write(encoded(line))
        except OSError as problem:
            self.problem = f"{self.path}: {problem.strerror or problem}; the record ends after {self._lines:,} lines"
            return
        self._lines += 1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._put({"at_ms": self._now, "end": {"lines": self._lines}})
        try:
            self._file.close()
        except OSError as problem:
            self.problem = self.problem or f"{self.path}: {problem.strerror or problem}; its last lines are lost"


def _lines(step: ServedStep) -> Iterator[dict[str, Any]]:
    now, request = step.now, step.stimulus
    if isinstance(request, HttpRequest):
        yield _call(step, request)
    for revision in range(step.before.revision + 1, step.after.revision + 1):
        change = step.after.history.get(revision)
        if change is not None:
            item = change.after if change.after is not None else change.before
            assert item is not None
            kind = "DELETED" if change.after is None else "ADDED" if change.before is None else "MODIFIED"
            yield {"at_ms": now, "change": kind, "resource": change.key.resource, **_object(item)}
    for moment, event in step.events:
        line: dict[str, Any] = {"at_ms": now, "watch": event.watch}
        if isinstance(event, WatchOver | WatchCut):
            line["event"] = "CUT" if isinstance(event, WatchCut) else "END"
        else:
            line |= {"event": event.type, **_named(event.item)}
        yield line | ({"late_ms": moment - now} if moment > now else {})


def _call(step: ServedStep, request: HttpRequest) -> dict[str, Any]:
    answer = step.answer
    code = answer.code if isinstance(answer, ApiResponse) else None if answer is None else 200
    line = {
        "at_ms": step.now, "call": request.method, "path": request.path, "user": step.user, "agent": request.agent,
        "code": code,
    }  # fmt: skip
    more = {
        "query": dict(request.query) or None,
        "watch": answer.watch if isinstance(answer, ApiResponse) else None,
        "late_ms": step.at - step.now or None,
        "fault": step.fault or None,
    }
    return line | {key: value for key, value in more.items() if value is not None}


def _named(item: FrozenObject) -> dict[str, Any]:
    metadata = item.get("metadata") or {}
    row = {
        "namespace": metadata.get("namespace"),
        "name": metadata.get("name"),
        "version": metadata.get("resourceVersion"),
    }
    return {key: value for key, value in row.items() if value is not None}


def _object(item: FrozenObject) -> dict[str, Any]:
    """What is written of an object: its name, and of a pod how it is."""
    row = {
        **_named(item),
        "phase": at(item, ("status", "phase")),
        "node": at(item, ("spec", "nodeName")),
        "reason": at(item, ("status", "reason")),
        "deleted_at": at(item, ("metadata", "deletionTimestamp")),
    }
    exits = [
        code
        for one in at(item, ("status", "containerStatuses")) or ()
        if (code := at(one, ("state", "terminated", "exitCode"))) is not None
    ]
    return {key: value for key, value in row.items() if value is not None} | ({"exit_codes": exits} if exits else {})
