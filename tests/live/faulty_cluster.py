"""podtide's own API server under the faults of a cluster file, for one test.

``admin`` and everything that a test does by itself (its calls, its census, its kubelets) meet no faults; whoever takes the
kubeconfig ``driver`` meets them.
"""

from __future__ import annotations

import queue
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from podtide.adapters.api_server.front import ServedStep
from podtide.adapters.api_server.serving import serving
from podtide.adapters.clock import SystemClock
from podtide.adapters.files.cluster import understand
from podtide.domain.api_faults.checks import hollow_problems
from podtide.domain.api_faults.faulty_server import begin
from podtide.domain.api_server.messages import HttpRequest
from podtide.domain.api_server.state import ApiConfig
from tests.live.cluster import USER, Cluster
from tests.live.life import vanish

HEAD: Final = "seed: 7\napi:\n  timeout: 100ms\n  "
LOST: Final = "lost answer"


class FaultyCluster(Cluster):
    """``with FaultyCluster(folder, "faults: [...]") as cluster:``. ``met``: the faults that calls met, by kind."""

    def __init__(self, folder: Path, api: str) -> None:
        folder.mkdir()
        self.met: Counter[str] = Counter()
        self._lost: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._end = ExitStack()
        state = begin(
            ApiConfig(history_max=10_000), understand(HEAD + api.lstrip(), beyond=hollow_problems), SystemClock().now()
        )
        server = self._end.enter_context(serving(state, observer=self._see))
        spared = server.kubeconfig(folder / "kubeconfig-spared", kubelet=True)
        super().__init__(spared, server.kubeconfig(folder / "kubeconfig"), USER, folder, embedded=self._end)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _see(self, step: ServedStep) -> None:
        if not step.fault:
            return
        self.met[step.fault] += 1
        request = step.stimulus
        if step.fault == LOST and isinstance(request, HttpRequest) and request.method == "POST":
            change = step.after.history.get(step.after.revision)
            if change is not None and change.before is None and change.key.resource == "pods":
                self._lost.put(change.key.name)

    @contextmanager
    def taking_away_lost_pods(self, namespace: str) -> Iterator[list[str]]:
        """Pods whose creation was lost vanish before anybody can look for them; yields their names so far."""
        taken: list[str] = []

        def take_away() -> None:
            while (name := self._lost.get()) is not None:
                vanish(self, namespace, [name])
                taken.append(name)

        thread = threading.Thread(target=take_away, name="taking-away", daemon=True)
        thread.start()
        try:
            yield taken
        finally:
            self._lost.put(None)
            thread.join(20)
