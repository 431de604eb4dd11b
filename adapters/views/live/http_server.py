"""Metrics and health over HTTP: four paths, read only, for Prometheus and for the kubelet.

``/metrics``; ``/healthz``: whether this process should be started anew (its loop does not turn any more); ``/readyz``:
whether it does its work at the moment (the pods were listed, the watch is up or was until a moment ago, the lease is held
by who acts); ``/``: what is here. Health answers 200 and ``ok``, or 503 and why not, a line each.

It listens on loopback unless told otherwise (``adapters.http_server.small_server``); paths are looked up in a table, not in
a file system.
"""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Final, Self

from podtide.adapters.http_server.small_server import (
    CONNECTIONS_MAX,
    DEADLINE_S,
    LOOPBACK,
    HttpAsked,
    HttpReply,
    ServerBounds,
    SmallServer,
)
from podtide.adapters.views.live.metrics import LiveMetrics
from podtide.adapters.views.live.status import BEAT_MAX_S, LiveSnapshot, unhealthy, unready

_INDEX: Final = """\
podtide
/metrics  what the run does, for Prometheus
/healthz  whether its loop turns
/readyz   whether it does its work
"""


class LiveHttp:
    """A server over ``snapshot`` (``LiveTracker.snapshot``) and ``metrics`` until it is closed; a context manager.

    Without metrics there is health alone. ``address``: an IP address or a name of this machine; ``port`` 0: any that is
    free. Raises CannotServe.
    """

    def __init__(
        self,
        snapshot: Callable[[], LiveSnapshot],
        metrics: LiveMetrics | None,
        port: int = 0,
        address: str = LOOPBACK,
        *,
        beat_max_s: float = BEAT_MAX_S,
    ) -> None:
        self._snapshot = snapshot
        self._metrics = metrics
        self._beat_max_s = beat_max_s
        bounds = ServerBounds(DEADLINE_S, CONNECTIONS_MAX)
        self._server = SmallServer(self._reply, port, address, name="live http", bounds=bounds)

    @property
    def port(self) -> int:
        """The port that is listened on."""
        return self._server.port

    @property
    def url(self) -> str:
        """Where it is, for people."""
        return self._server.url

    def _reply(self, asked: HttpAsked) -> HttpReply:
        return self.reply(asked.path, asked.accept)

    def reply(self, path: str, accept: str) -> HttpReply:
        """The answer to a path; ``accept`` as in the request."""
        match path:
            case "/":
                return HttpReply(HTTPStatus.OK, _INDEX.encode())
            case "/metrics" if self._metrics is not None:
                body, content_type = self._metrics.page(accept)
                return HttpReply(HTTPStatus.OK, body, content_type)
            case "/healthz":
                return _verdict(unhealthy(self._snapshot(), self._beat_max_s))
            case "/readyz":
                return _verdict(unready(self._snapshot(), self._beat_max_s))
            case _:
                return HttpReply(HTTPStatus.NOT_FOUND, b"there is nothing here\n")

    def close(self) -> None:
        """Listen no longer."""
        self._server.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _verdict(why_not: tuple[str, ...]) -> HttpReply:
    if not why_not:
        return HttpReply(HTTPStatus.OK, b"ok\n")
    return HttpReply(HTTPStatus.SERVICE_UNAVAILABLE, "".join(f"{line}\n" for line in why_not).encode())
