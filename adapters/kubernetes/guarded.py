"""The API server for one that holds a lease: nothing is written while the lease is not certainly ours.

A write that comes while the lease is in doubt waits for it to be renewed, for a while; then it is refused as a call that
was never sent, so whoever made it may try again or give up. Reads pass.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from podtide.adapters.kubernetes.api import JSON, READ_TIMEOUT_S, ApiAnswer, ApiClient, Query, Stream, Unreachable

WRITES: Final = frozenset({"create", "update", "patch", "delete", "deletecollection"})
PATIENCE_S: Final = 15.0
LOOK_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class GuardedApi:
    """An ``ApiClient`` that writes only while ``valid()``. ``pause``: waits that many seconds. ``lost()``: do not even wait.

    ``write_max_s``: how long a write may take; it should end before somebody else could hold the lease.
    """

    api: ApiClient
    valid: Callable[[], bool]
    lost: Callable[[], bool]
    pause: Callable[[float], object]
    write_max_s: float = READ_TIMEOUT_S
    patience_s: float = PATIENCE_S

    def call(
        self,
        verb: str,
        resource: str,
        path: str,
        *,
        query: Query = (),
        body: bytes | None = None,
        content_type: str = JSON,
        timeout_s: float = READ_TIMEOUT_S,
    ) -> ApiAnswer:
        """Make one call; a write only under the lease. Raises Unreachable."""
        if verb in WRITES:
            self._permitted(verb, resource)
            timeout_s = min(timeout_s, self.write_max_s)
        return self.api.call(
            verb,
            resource,
            path,
            query=query,
            body=body,
            content_type=content_type,
            timeout_s=timeout_s,
        )

    def stream(self, resource: str, path: str, *, query: Query = (), silence_s: float) -> Stream:
        """Begin to watch. Raises Unreachable."""
        return self.api.stream(resource, path, query=query, silence_s=silence_s)

    def _permitted(self, verb: str, resource: str) -> None:
        waited = 0.0
        while not self.valid():
            if self.lost() or waited >= self.patience_s:
                raise Unreachable(f"no {verb} of {resource}: the lease of this application is not held", sent=False)
            self.pause(LOOK_S)
            waited += LOOK_S
