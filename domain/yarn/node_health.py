"""Which nodes not to use: YarnAllocatorNodeHealthTracker.

Three lists make one: spark.yarn.exclude.nodes, the task scheduler's hosts, and hosts on which containers failed too often.
The resource manager hears of differences only, and only when the list is looked at again (``refreshed``): at a changed
target, when nothing is wanted any more, at an exclusion of our own. So a host whose time is over stays excluded until then,
and what fails there is not counted at all, not even for the application. An exclusion does not reset the host's count.

Source: YarnAllocatorNodeHealthTracker and ExecutorFailureTracker of 4.3.0 (spec: yarn, section 9; quirks 58-62).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from pyrsistent import PMap, pmap

from podtide.domain.backend.failure_tracker import NO_FAILURES, Failures
from podtide.domain.base.units import Millis
from podtide.domain.jvm.values import to_long
from podtide.domain.protocol.cluster_config import ExclusionConfig

NODES_UNKNOWN: Final = 2**31 - 1
"""How many nodes a cluster has before the resource manager said anything (Int.MaxValue)."""


class ExclusionDifference(NamedTuple):
    """What the resource manager is told."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Health:
    """What is known of nodes. ``own``: host to the moment until which it is excluded; ``sent``: the list as last told.

    ``failures``: of the application; ``by_host``: those with a host, where exclusion is on. ``nodes``: in the cluster.
    """

    own: PMap[str, Millis] = field(default_factory=pmap)
    scheduler: frozenset[str] = frozenset()
    sent: frozenset[str] = frozenset()
    failures: Failures = NO_FAILURES
    by_host: PMap[str, Failures] = field(default_factory=pmap)
    nodes: int = NODES_UNKNOWN

    def refreshed(self, config: ExclusionConfig, now: Millis) -> tuple[Health, ExclusionDifference]:
        """refreshExcludedNodes: drop own exclusions that are over and say what is different."""
        own = self.own
        for host, until in self.own.items():
            if until <= now:
                own = own.remove(host)
        wanted = config.always | self.scheduler | frozenset(own)
        difference = ExclusionDifference(tuple(sorted(wanted - self.sent)), tuple(sorted(self.sent - wanted)))
        return replace(self, own=own, sent=wanted), difference

    def failed(self, host: str | None, config: ExclusionConfig, now: Millis) -> tuple[Health, ExclusionDifference]:
        """handleResourceAllocationFailure: a container failed, on this host (None: nobody knows where)."""
        if host is None or not config.enabled:
            return replace(self, failures=self._one_more(config, now)), ExclusionDifference()
        if host in self.scheduler or host in self.own:
            return self, ExclusionDifference()
        here = self.by_host.get(host, NO_FAILURES).registered(now).within(config.window_ms, now)
        health = replace(self, failures=self._one_more(config, now), by_host=self.by_host.set(host, here))
        if here.count <= config.failures_per_node_max:
            return health, ExclusionDifference()
        return replace(health, own=self.own.set(host, to_long(now + config.timeout_ms))).refreshed(config, now)

    def _one_more(self, config: ExclusionConfig, now: Millis) -> Failures:
        """The application's failures and this one; those that no longer count are forgotten on the way."""
        return self.failures.registered(now).within(config.window_ms, now)

    def failures_at(self, config: ExclusionConfig, now: Millis) -> int:
        """numFailedExecutors: failures of the application that count now."""
        return self.failures.within(config.window_ms, now).count

    @property
    def all_excluded(self) -> bool:
        """isAllNodeExcluded: the list is as long as the cluster has nodes (names of no real node count, too)."""
        return 0 < self.nodes <= len(self.sent)
