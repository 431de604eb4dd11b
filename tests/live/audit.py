"""Who called the API server, and for what: its audit log, read for the figures.

The log is written behind the calls, in batches. So a reader first makes a call that nobody else makes and waits until it
stands in the log; what was called before then stands there too.
"""

from __future__ import annotations

import json
import secrets
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tests.live.cluster import Cluster

SETTLE_S = 45.0
"""A server that is not ours writes its batches as seldom as every 30 s."""


class Request(NamedTuple):
    """One call. ``at``, ``ended``: epoch seconds. ``verb``: as RBAC names it. ``resource``: with its subresource."""

    at: float
    ended: float
    verb: str
    resource: str
    namespace: str
    name: str
    user: str
    agent: str
    status: int
    uri: str


class AuditLog:
    """The log of one server."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def requests(
        self, cluster: Cluster, since: float = 0.0, *, namespace: str | None = None, agent: str = ""
    ) -> list[Request]:
        """All calls that ended until now and were received at or after ``since`` (epoch seconds), by when they came.

        A watch stands there when it has ended. ``agent``: what the caller's name for itself contains.
        """
        self._settle(cluster)
        found = [
            one
            for one in self._read()
            if one.at >= since and (namespace is None or one.namespace == namespace) and agent in one.agent
        ]
        return sorted(found)

    def counts(
        self, cluster: Cluster, since: float = 0.0, *, namespace: str | None = None, agent: str = ""
    ) -> Counter[tuple[str, str]]:
        """How many, by verb and resource."""
        return Counter(
            (one.verb, one.resource) for one in self.requests(cluster, since, namespace=namespace, agent=agent)
        )

    def _settle(self, cluster: Cluster) -> None:
        marker = f"podtide-marker-{secrets.token_hex(6)}"
        cluster.call("get", "namespaces", f"/api/v1/namespaces/{marker}")
        needle = marker.encode()
        end = time.monotonic() + SETTLE_S
        with self.path.open("rb") as log:
            log.seek(max(0, self.path.stat().st_size - 1_000_000))
            while needle not in log.read():
                assert time.monotonic() < end, "the audit log does not keep up"
                time.sleep(0.2)

    def _read(self) -> Iterator[Request]:
        with self.path.open("rb") as log:
            for line in log:
                if not line.endswith(b"\n"):
                    return
                event = json.loads(line)
                if event.get("stage") not in ("ResponseComplete", "Panic"):
                    continue
                of = event.get("objectRef") or {}
                resource = "/".join(part for part in (of.get("resource", ""), of.get("subresource", "")) if part)
                yield Request(
                    _seconds(event["requestReceivedTimestamp"]),
                    _seconds(event["stageTimestamp"]),
                    event["verb"],
                    resource,
                    of.get("namespace", ""),
                    of.get("name", ""),
                    event["user"].get("username", ""),
                    event.get("userAgent", ""),
                    (event.get("responseStatus") or {}).get("code", 0),
                    event["requestURI"],
                )


def _seconds(stamp: str) -> float:
    return datetime.strptime(stamp, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=UTC).timestamp()
