"""What a kubelet sees of its namespace: every pod that comes, changes and goes, by a list and a watch, for ever."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

from podtide.adapters.kubernetes.api import ApiClient, Stream, Unreachable

Pod: TypeAlias = dict[str, Any]

WATCH_S: Final = 240
AGAIN_S: Final = 0.2
"""How long after a broken watch the next one begins."""


class PodWatch:
    """A watch that begins again until it is told to end. ``say``: takes what goes wrong, in one line."""

    def __init__(self, api: ApiClient, namespace: str, say: Callable[[str], None]) -> None:
        self._api = api
        self._path = f"/api/v1/namespaces/{namespace}/pods"
        self._say = say
        self._known: set[str] = set()
        self._ending = threading.Event()
        self._stream: Stream | None = None

    def run(self, take: Callable[[str, Pod], None]) -> None:
        """Hand over the kind of event and the pod, in a thread of the caller's. A pod that went unseen has a uid alone."""
        while not self._ending.is_set():
            try:
                for kind, pod in self._seen():
                    uid = pod["metadata"]["uid"]
                    (self._known.discard if kind == "DELETED" else self._known.add)(uid)
                    take(kind, pod)
            except (Unreachable, ValueError) as problem:
                if not self._ending.is_set():
                    self._say(f"watch again: {problem}")
                    self._ending.wait(AGAIN_S)

    def stop(self) -> None:
        """End it, from any thread."""
        self._ending.set()
        if (stream := self._stream) is not None:
            stream.close()

    def _seen(self) -> Iterator[tuple[str, Pod]]:
        listed = self._api.call("list", "pods", self._path)
        if not listed.ok:
            raise ValueError(f"list of pods: {listed.status}")
        document = json.loads(listed.body)
        there = {pod["metadata"]["uid"] for pod in document["items"]}
        for uid in self._known - there:
            yield "DELETED", {"metadata": {"uid": uid}}
        for pod in sorted(document["items"], key=lambda pod: pod["metadata"]["creationTimestamp"]):
            yield "ADDED", pod
        version = document["metadata"]["resourceVersion"]
        query = [("watch", "1"), ("resourceVersion", version), ("timeoutSeconds", str(WATCH_S))]
        self._stream = self._api.stream("pods", self._path, query=query, silence_s=WATCH_S + 10)
        if self._ending.is_set():  # it was told to end before there was a stream to close
            self._stream.close()
            return
        rest = b""
        for chunk in self._stream.chunks():
            *lines, rest = (rest + chunk).split(b"\n")
            for line in filter(None, lines):
                event = json.loads(line)
                if event["type"] == "ERROR":
                    return
                yield event["type"], event["object"]
