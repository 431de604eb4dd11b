"""How the YARN side stands at a moment, as plain data: containers by profile and host, failures, exclusions."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from podtide.domain.base.units import Millis
from podtide.domain.protocol.config import YarnConfig
from podtide.domain.protocol.container_requests import RequestTable, count_of
from podtide.domain.yarn.allocator_state import YarnState

if TYPE_CHECKING:
    from podtide.domain.yarn.side import YarnSideState

PROFILES_SHOWN: Final = 100
HOSTS_SHOWN: Final = 12
EXCLUDED_SHOWN: Final = 100


def yarn_standing(side: YarnSideState, config: YarnConfig, now: Millis) -> dict[str, Any]:
    """Targets, requests and containers by profile, hosts, executors, failures. Costs one pass over hosts and requests."""
    allocator, registry = side.allocator, side.backend.registry
    hosts: Counter[str] = Counter()
    for (_, host), containers in allocator.rows.host_counts.items():
        hosts[host] += containers
    first = sorted(hosts.items(), key=lambda item: (-item[1], item[0]))[:HOSTS_SHOWN]
    sent = sorted(allocator.health.sent)
    return {
        "profiles": {
            str(profile): _profile(allocator, profile) for profile in sorted(allocator.targets)[:PROFILES_SHOWN]
        },
        "hosts": [{"host": host, "containers": number} for host, number in first],
        "hosts_total": len(hosts),
        "executors": {
            "registered": len(registry.executors),
            "asked_to_go": len(registry.killed),
            "decommissioning": len(registry.leaving),
            "lost": len(registry.lost),
        },
        "failures": {
            "counted": allocator.health.failures_at(config.allocator.exclusion, now),
            "maximum": config.allocator.failures_max,
        },
        "excluded": sent[:EXCLUDED_SHOWN],
        "excluded_total": len(sent),
        "released": len(allocator.rows.released),
        "loss_reasons_asked": allocator.loss_requests,
        "cluster_nodes": allocator.health.nodes,
    }


def _profile(allocator: YarnState, profile: Any) -> dict[str, int]:
    """One profile: what runs, starts and waits, and what its requests are worth by the hints of now."""
    table = allocator.rows.requests.get(profile, RequestTable())
    parts = table.split(allocator.host_tasks.get(profile, {}).keys())
    return {
        "target": allocator.targets[profile],
        "running": allocator.rows.running_by.get(profile, 0),
        "starting": allocator.rows.starting.get(profile, 0),
        "pending": table.waiting,
        "local": sum(batch.size for batch in parts.local),
        "stale": count_of(parts.stale),
        "anywhere": count_of(parts.anywhere),
        "tasks_with_wishes": allocator.locality_tasks.get(profile, 0),
    }
