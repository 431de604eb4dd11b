"""Metrics and health over HTTP: four paths, read only, for Prometheus and for the kubelet.

``/metrics``; ``/healthz``: whether this process should be started anew (its loop does not turn any more); ``/readyz``:
whether it does its work at the moment (the pods were listed, the watch is up or was until a moment ago, the lease is held
by who acts); ``/``: what is here. Health answers 200 and ``ok``, or 503 and why not, a line each.

It listens on loopback unless told otherwise, and trusts nobody there: GET and HEAD alone; paths are looked up in a table,
not in a file system; a request has at most ``LINE_MAX`` and ``HEADERS_MAX`` bytes, is read within ``DEADLINE_S`` however
slowly it drips, and gets one answer, after which the connection is closed; no more than ``CONNECTIONS_MAX`` at once, the
next ones are turned away. Nothing of a request is echoed or logged. The threads are daemons: they keep no process alive.
"""

from __future__ import annotations

import errno
import socket
import socketserver
import threading
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any, Final, NamedTuple, Self

from podtide.adapters.text.safe import cause, escaped
from podtide.adapters.views.live.metrics import LiveMetrics
from podtide.adapters.views.live.status import BEAT_MAX_S, LiveSnapshot, unhealthy, unready

LOOPBACK: Final = "127.0.0.1"
LINE_MAX: Final = 2_048
"""Bytes of the request line."""

HEADERS_MAX: Final = 16_384
"""Bytes of all headers."""

DEADLINE_S: Final = 10.0
"""Seconds that a connection lives, whatever it does."""

CONNECTIONS_MAX: Final = 16
"""Connections at once; Prometheus and the kubelet need one each."""

POLL_S: Final = 0.05
"""Seconds within which the server notices that it is closed."""

PORT_MAX: Final = 65_535
PLAIN: Final = "text/plain; charset=utf-8"

_INDEX: Final = """\
podtide
/metrics  what the run does, for Prometheus
/healthz  whether its loop turns
/readyz   whether it does its work
"""


class CannotServe(Exception):
    """The address or the port cannot be listened on; the message says which and why."""


class HttpReply(NamedTuple):
    """An answer: status, body and content type."""

    status: HTTPStatus
    body: bytes
    content_type: str = PLAIN


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
        if not 0 <= port <= PORT_MAX:
            raise CannotServe(f"{port} is no port: expected a number from 0 to {PORT_MAX}")
        self._server = _listening(self.reply, address, port)
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(POLL_S,), name="live http", daemon=True
        )
        self._closed = False
        self._thread.start()

    @property
    def port(self) -> int:
        """The port that is listened on."""
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        """Where it is, for people."""
        host = str(self._server.server_address[0])
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}"

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
        if not self._closed:
            self._closed = True
            self._server.shutdown()
            self._server.server_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _verdict(why_not: tuple[str, ...]) -> HttpReply:
    if not why_not:
        return HttpReply(HTTPStatus.OK, b"ok\n")
    return HttpReply(HTTPStatus.SERVICE_UNAVAILABLE, "".join(f"{line}\n" for line in why_not).encode())


def _listening(reply: Callable[[str, str], HttpReply], address: str, port: int) -> _Server:
    shown = escaped(address, 100)
    try:
        (family, _, _, _, where), *_ = socket.getaddrinfo(
            address, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except (OSError, UnicodeError):
        raise CannotServe(
            f"{shown} is no address of this machine: expected one such as {LOOPBACK} or 0.0.0.0"
        ) from None
    try:
        return _Server(family, where, reply)
    except OSError as problem:
        if problem.errno == errno.EADDRINUSE:
            why = f"port {port} of {shown} is in use: choose another, or 0 for any that is free"
        elif problem.errno == errno.EADDRNOTAVAIL:
            why = f"{shown} is no address of this machine: expected one such as {LOOPBACK} or 0.0.0.0"
        elif problem.errno in (errno.EACCES, errno.EPERM):
            why = f"port {port} of {shown} may not be listened on: choose one above 1023"
        else:
            why = f"port {port} of {shown} cannot be listened on: {cause(problem)}"
        raise CannotServe(why) from None


class _Server(socketserver.ThreadingMixIn, socketserver.TCPServer):
    """A thread for each connection, not too many of them."""

    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True
    request_queue_size = CONNECTIONS_MAX

    def __init__(self, family: int, where: Any, reply: Callable[[str, str], HttpReply]) -> None:
        self.address_family = family
        self.reply = reply
        self._places = threading.BoundedSemaphore(CONNECTIONS_MAX)
        super().__init__(where, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._places.acquire(blocking=False):
            with suppress(OSError):
                request.setblocking(False)
                request.send(b"HTTP/1.0 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # no more threads
            self._places.release()
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        cut = threading.Timer(DEADLINE_S, _cut, (request,))
        cut.daemon = True
        try:
            cut.start()
            super().process_request_thread(request, client_address)
        finally:
            cut.cancel()
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that breaks is nobody's business."""


def _cut(request: socket.socket) -> None:
    with suppress(OSError):
        request.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    """One request."""

    server: _Server
    timeout = DEADLINE_S
    protocol_version = "HTTP/1.0"

    def handle_one_request(self) -> None:
        """Read a request line and headers of bounded size, and answer once."""
        self.close_connection = True
        self.raw_requestline = self.rfile.readline(LINE_MAX + 1)
        if not self.raw_requestline:
            return
        self.requestline, self.request_version, self.command = "", "HTTP/1.0", ""
        if len(self.raw_requestline) > LINE_MAX:
            self._answer(HttpReply(HTTPStatus.REQUEST_URI_TOO_LONG, b"the request line is too long\n"))
            return
        words = self.raw_requestline.decode("latin-1").split()
        if len(words) != 3 or not words[2].startswith("HTTP/"):
            self._answer(HttpReply(HTTPStatus.BAD_REQUEST, b"this is no request\n"))
            return
        self.command, target, _ = words
        accept = self._accept()
        if accept is None:
            self._answer(HttpReply(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, b"the headers are too long\n"))
        elif self.command not in ("GET", "HEAD"):
            self._answer(HttpReply(HTTPStatus.METHOD_NOT_ALLOWED, b"only GET and HEAD\n"))
        else:
            self._answer(self._made(target.partition("?")[0], accept))

    def _accept(self) -> str | None:
        """Pass over the headers; what is accepted among them, None if they are too long."""
        accept, left = "", HEADERS_MAX
        while left > 0:
            line = self.rfile.readline(left + 1)
            left -= len(line)
            if line in (b"\r\n", b"\n", b""):
                return accept
            name, _, value = line.partition(b":")
            if name.strip().lower() == b"accept":
                accept = value.strip().decode("latin-1")
        return None

    def _made(self, path: str, accept: str) -> HttpReply:
        try:
            return self.server.reply(path, accept)
        except Exception:  # whoever scrapes must not end the thread with a traceback on the operator's terminal
            return HttpReply(HTTPStatus.INTERNAL_SERVER_ERROR, b"this could not be answered\n")

    def _answer(self, reply: HttpReply) -> None:
        with suppress(OSError):
            self.send_response_only(reply.status)
            self.send_header("Content-Type", reply.content_type)
            self.send_header("Content-Length", str(len(reply.body)))
            self.send_header("Connection", "close")
            self.send_header("Cache-Control", "no-store")
            self.send_header("X-Content-Type-Options", "nosniff")
            if reply.status is HTTPStatus.METHOD_NOT_ALLOWED:
                self.send_header("Allow", "GET, HEAD")
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(reply.body)

    def log_message(self, *_: Any) -> None:
        """Say nothing: standard error belongs to the run."""
