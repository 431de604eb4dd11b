"""What the live view of an embedded cluster shows, taken from the server's state of the moment and the tally."""

from __future__ import annotations

from podtide.adapters.clock import Clock, SystemClock
from podtide.adapters.views.live.cluster_frame import ClusterPicture, nodes_and_pods
from podtide.domain.base.units import Millis
from podtide.entrypoints.cluster.embedded import EmbeddedCluster
from podtide.entrypoints.cluster.tally import ClusterTally


class ClusterStory:
    """A story for ``TerminalView``. The tally is written by the server's thread: only its numbers are read."""

    def __init__(self, cluster: EmbeddedCluster, tally: ClusterTally, clock: Clock | None = None) -> None:
        self._cluster = cluster
        self._tally = tally
        self._clock = clock or SystemClock()
        self._began = self._clock.now()

    @property
    def change(self) -> int:
        """Another number when anything is different."""
        return self._cluster.server.state.revision + self._tally.calls_made

    def now(self) -> Millis:
        """The time."""
        return self._clock.now()

    def snapshot(self) -> ClusterPicture:
        """How things stand."""
        change = self.change
        nodes, pods = nodes_and_pods(self._cluster.server.state)
        title = f"{self._cluster.server.url} {self._cluster.namespace}"
        return ClusterPicture(change, self.now(), self._began, title, nodes, pods, [self._tally.calls_line()])
