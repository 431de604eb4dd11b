"""The API server, as bytes: the official client's configuration, identity and transport, and nothing of its models.

The kubernetes client reads kubeconfigs and the identity of a pod, refreshes tokens, verifies TLS and knows about proxies;
its models cost two hundred times what a partial decode costs. So its pool of connections is used as it is and every
answer comes back as bytes. This is the only module that imports the package, when a connection is made: everything
else of podtide runs without it.

A call that reached the server has an ``ApiAnswer``, whatever its status; one that did not raises ``Unreachable``. Neither
ever carries a header, a token or a request body in its text. Retries are nobody's business here: whoever calls knows
whether a call may be made twice.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol, TypeAlias
from urllib.parse import urlencode

from podtide.adapters.clock import Clock, SystemClock
from podtide.adapters.text.safe import innermost
from podtide.domain.base.units import Millis

CONNECT_TIMEOUT_S: Final = 5.0
READ_TIMEOUT_S: Final = 30.0
HEADERS_TIMEOUT_S: Final = 10.0
"""How long the head of a watch may take: on a connection that is dead in truth it never comes."""

AUTH_KEPT_S: Final = 1.0
"""How long the headers that say who we are serve for further calls. Asking the client for them costs a third of a call, one
thread at a time; it refreshes a token minutes before it expires."""

UNAUTHORIZED: Final = 401

CONNECTIONS_MAX: Final = 64
BODY_MAX: Final = 1024**3
"""Bytes of the longest answer that is read: a list of 100,000 pods with room to spare."""

AGENT: Final = "podtide"
"""The User-Agent: who changed what, to an API server, and whom the faults of an embedded one meet."""

JSON: Final = "application/json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"

Query: TypeAlias = Sequence[tuple[str, str]]


class ConnectionRefused(Exception):
    """There is no API to talk to: a kubeconfig that cannot be read, no identity, an address that is none."""


class Unreachable(Exception):
    """A call got no answer: refused, timed out, cut off in the middle, TLS that does not verify.

    ``sent``: the request may have reached the server, so it may have taken effect.
    """

    def __init__(self, why: str, *, sent: bool = True) -> None:
        super().__init__(why)
        self.why = why
        self.sent = sent


class ApiAnswer(NamedTuple):
    """What the server said. ``retry_after_ms``: how long it asked to be left alone."""

    status: int
    body: bytes
    retry_after_ms: Millis | None = None

    @property
    def ok(self) -> bool:
        """Whether it did what it was asked."""
        return 200 <= self.status < 300


class CallSeen(NamedTuple):
    """One call, for those who count: its verb, resource, how it ended and what it cost.

    ``verb``: get, list, watch, create, update, patch, delete, deletecollection. ``resource``: pods, pods/scale, ... .
    ``status``: None where no answer came. Bytes are those of the bodies.
    """

    verb: str
    resource: str
    status: int | None
    seconds: float
    sent: int
    received: int


Watcher: TypeAlias = Callable[[CallSeen], None]


class Stream(Protocol):
    """An answer that goes on: its status, and its lines as they come."""

    status: int

    def chunks(self) -> Iterator[bytes]:
        """The body as it arrives. Raises Unreachable when the connection ends unexpectedly or stays silent too long."""
        ...

    def close(self) -> None:
        """End it from any thread; ``chunks`` then ends."""
        ...


class ApiClient(Protocol):
    """What adapters need of an API server; a fake one has the same two methods."""

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
        """Make one call and read its whole answer. ``verb`` and ``resource`` as in ``CallSeen``. Raises Unreachable."""
        ...

    def stream(self, resource: str, path: str, *, query: Query = (), silence_s: float) -> Stream:
        """Begin to watch; nothing may stay silent for longer than ``silence_s``. Raises Unreachable."""
        ...


METHODS: Final = {
    "get": "GET", "list": "GET", "watch": "GET", "create": "POST", "update": "PUT", "patch": "PATCH",
    "delete": "DELETE", "deletecollection": "DELETE",
}  # fmt: skip
"""The HTTP method of each verb of RBAC."""


class KubernetesApi:
    """The API of a cluster through the official client's transport. Thread-safe.

    ``host``: its address, for people. ``namespace``: that of the context or of the pod's identity, if there is one.
    """

    def __init__(self, client: Any, host: str, namespace: str | None, clock: Clock, watcher: Watcher | None) -> None:
        """Use ``connect``."""
        self._client = client
        self._pool = client.rest_client.pool_manager
        self._auth_lock = threading.Lock()
        self._auth_headers: dict[str, str] = {}
        self._auth_until = float("-inf")
        self._clock = clock
        self._watcher = watcher
        self.host = host
        self.namespace = namespace

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
        """Make one call and read its whole answer. Raises Unreachable."""
        began = self._clock.monotonic()
        status: int | None = None
        received = 0
        try:
            with _reachable(self.host):
                response = self._request(verb, path, query, body, content_type, timeout_s)
                with suppress_close(response):
                    data = response.read(BODY_MAX + 1, decode_content=True)
                    response.release_conn()
                if len(data) > BODY_MAX:
                    raise Unreachable(f"the answer of {self.host} is longer than {BODY_MAX} bytes")
                status, received = response.status, len(data)
                if status == UNAUTHORIZED:
                    self._auth_until = float("-inf")  # the token may have been replaced: it is asked for again
                return ApiAnswer(response.status, data, _retry_after(response.headers))
        finally:
            self._seen(verb, resource, status, began, 0 if body is None else len(body), received)

    def stream(self, resource: str, path: str, *, query: Query = (), silence_s: float) -> Stream:
        """Begin to watch. Raises Unreachable."""
        began = self._clock.monotonic()
        with _reachable(self.host):
            response = self._request("watch", path, query, None, JSON, min(silence_s, HEADERS_TIMEOUT_S))
            with suppress_close(response):  # from here on the server may be silent for longer
                connection_of(response).sock.settimeout(silence_s)
        return _Stream(self, resource, response, began)

    def _request(
        self,
        verb: str,
        path: str,
        query: Query,
        body: bytes | None,
        content_type: str,
        read_timeout_s: float,
    ) -> Any:
        import urllib3  # noqa: PLC0415 - the client's own; nothing without it gets here

        headers = {"Accept": JSON, "Accept-Encoding": "gzip" if verb == "list" else "identity", "User-Agent": AGENT}
        if body is not None:
            headers["Content-Type"] = content_type
        headers.update(self._identity())
        url = self.host + path + ("?" + urlencode(query) if query else "")
        return self._pool.urlopen(
            METHODS[verb],
            url,
            body=body,
            headers=headers,
            retries=False,
            redirect=False,
            preload_content=False,
            timeout=urllib3.Timeout(connect=CONNECT_TIMEOUT_S, read=read_timeout_s),
        )

    def _identity(self) -> dict[str, str]:
        """The headers that say who we are. Raises Unreachable, which never repeats them."""
        with self._auth_lock:  # reading a token may refresh it: files, plugins and identity providers are asked
            now = self._clock.monotonic()
            if now < self._auth_until:
                return self._auth_headers
            fresh: dict[str, str] = {}
            try:
                known = list(self._client.configuration.auth_settings())
                self._client.update_params_for_auth(fresh, None, known, "/", "GET", None)
            except Exception as problem:
                # Its class alone: nobody knows what of the credential its text holds.
                why = f"the credential for {self.host} cannot be had: {type(problem).__name__}"
                raise Unreachable(why, sent=False) from None
            fresh = {name: value.strip() if isinstance(value, str) else value for name, value in fresh.items()}
            if not all(isinstance(value, str) and value.isascii() and value.isprintable() for value in fresh.values()):
                # http.client would say so, too, and repeat the token in its message.
                why = f"the credential for {self.host} holds what no header can: one line was expected"
                raise Unreachable(why, sent=False)
            self._auth_headers, self._auth_until = fresh, now + AUTH_KEPT_S
            return fresh

    def _seen(self, verb: str, resource: str, status: int | None, began: float, sent: int, received: int) -> None:
        if self._watcher is not None:
            self._watcher(CallSeen(verb, resource, status, self._clock.monotonic() - began, sent, received))

    def close(self) -> None:
        """Let go of the connections."""
        with suppress(Exception):
            self._pool.clear()


class _Stream:
    """A watch under way."""

    def __init__(self, api: KubernetesApi, resource: str, response: Any, began: float) -> None:
        self._api = api
        self._resource = resource
        self._response = response
        self._began = began
        self._received = 0
        self._closed = threading.Event()
        self.status: int = response.status

    def chunks(self) -> Iterator[bytes]:
        """The body as it arrives."""
        try:
            with _reachable(self._api.host):
                while not self._closed.is_set():
                    data = self._response.read1(65_536)
                    if not data:
                        return
                    self._received += len(data)
                    yield data
        except Unreachable:
            if not self._closed.is_set():
                raise
        except AttributeError:  # closed under the reader's hands
            if not self._closed.is_set():
                raise
        finally:
            self._api._seen("watch", self._resource, self.status, self._began, 0, self._received)
            with suppress(Exception):
                self._response.close()

    def close(self) -> None:
        """End it from any thread: the socket is shut down, which wakes a reader that waits for it."""
        self._closed.set()
        with suppress(Exception):
            connection_of(self._response).sock.shutdown(socket.SHUT_RDWR)


def connect(
    kubeconfig: str | None = None,
    context: str | None = None,
    *,
    clock: Clock | None = None,
    watcher: Watcher | None = None,
    connections: int = CONNECTIONS_MAX,
) -> KubernetesApi:
    """The API of a cluster: by a kubeconfig, or, without one, by $KUBECONFIG, by the identity of the pod that this runs
    in, or by ~/.kube/config, in this order. Raises ConnectionRefused.

    TLS is verified unless the kubeconfig itself says ``insecure-skip-tls-verify``.
    """
    try:
        from kubernetes import client, config  # noqa: PLC0415 - half a second, for those who need it
    except ImportError:
        raise ConnectionRefused(
            "the kubernetes package is not installed; install podtide[kubernetes] to talk to a cluster"
        ) from None
    settings = client.Configuration()
    namespace = _load(config, settings, kubeconfig, context)
    settings.connection_pool_maxsize = connections
    settings.retries = False
    settings.socket_options = keepalive_options()
    try:
        made = client.ApiClient(settings)
    except Exception as problem:
        raise ConnectionRefused(f"the cluster's certificates cannot be used: {_cause(problem)}") from None
    return KubernetesApi(made, settings.host.rstrip("/"), namespace, clock or SystemClock(), watcher)


def _load(config: Any, settings: Any, kubeconfig: str | None, context: str | None) -> str | None:
    if kubeconfig is None and not os.environ.get("KUBECONFIG") and os.environ.get("KUBERNETES_SERVICE_HOST"):
        try:
            config.load_incluster_config(client_configuration=settings)
        except Exception as problem:
            raise ConnectionRefused(f"the identity of this pod cannot be used: {_cause(problem)}") from None
        with suppress(OSError):
            return Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace").read_text().strip() or None
        return None
    named = kubeconfig or os.environ.get("KUBECONFIG") or "~/.kube/config"
    try:
        config.load_kube_config(kubeconfig, context, client_configuration=settings, persist_config=False)
        _, active = config.list_kube_config_contexts(kubeconfig)
        if context is not None:
            contexts, _ = config.list_kube_config_contexts(kubeconfig)
            active = next(one for one in contexts if one["name"] == context)
        found: str | None = (active.get("context") or {}).get("namespace")
    except Exception as problem:  # the loader raises whatever its parts raise: YAML, base64, key and type errors
        raise ConnectionRefused(f"{named} cannot be used as a kubeconfig: {_cause(problem)}") from None
    return found


def keepalive_options() -> list[tuple[int, int, int]]:
    """Socket options by which a connection whose other end is gone is found dead in about ten seconds."""
    options = [(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1), (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]
    for name, value in (("TCP_KEEPIDLE", 4), ("TCP_KEEPINTVL", 2), ("TCP_KEEPCNT", 3), ("TCP_USER_TIMEOUT", 10_000)):
        if hasattr(socket, name):  # not everywhere
            options.append((socket.IPPROTO_TCP, getattr(socket, name), value))
    return options


def connection_of(response: Any) -> Any:
    """The connection that a response is read from."""
    return response.connection or response._connection


@contextmanager
def _reachable(host: str) -> Iterator[None]:
    """Turns what the transport raises into Unreachable."""
    import urllib3  # noqa: PLC0415

    try:
        yield
    except (urllib3.exceptions.NewConnectionError, urllib3.exceptions.ConnectTimeoutError) as problem:
        raise Unreachable(f"{host} cannot be reached: {_cause(problem)}", sent=False) from None
    except urllib3.exceptions.SSLError as problem:
        raise Unreachable(f"{host} cannot be trusted: {_cause(problem)}", sent=False) from None
    except urllib3.exceptions.ReadTimeoutError:
        raise Unreachable(f"{host} did not answer in time") from None
    except (urllib3.exceptions.HTTPError, OSError) as problem:
        raise Unreachable(f"the connection to {host} broke: {_cause(problem)}") from None
    except (ValueError, TypeError) as problem:
        # Of http.client: a request that cannot be written. Its text may repeat a header.
        raise Unreachable(f"the call to {host} cannot be made: {type(problem).__name__}", sent=False) from None


@contextmanager
def suppress_close(response: Any) -> Iterator[None]:
    """Close a response whose reading failed: its connection cannot be used again."""
    try:
        yield
    except BaseException:
        with suppress(Exception):
            response.close()
        raise


def _retry_after(headers: Mapping[str, str]) -> Millis | None:
    text = headers.get("Retry-After", "")
    return int(text) * 1000 if text.isascii() and text.isdigit() and len(text) < 6 else None


def _cause(problem: BaseException) -> str:
    """The innermost reason, in one line."""
    inner = innermost(problem)
    text = str(inner).replace("\n", " ").strip() or type(inner).__name__
    return text[:300]
