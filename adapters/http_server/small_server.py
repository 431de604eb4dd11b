"""A small HTTP server of the standard library: read only, for a page of metrics or a few pages of text.

It trusts nobody: GET and HEAD alone; a request has at most ``LINE_MAX`` and ``HEADERS_MAX`` bytes, is read and answered
within a deadline however slowly it drips, and gets one answer, after which the connection is closed; there is a bound on
connections at once, the next ones are turned away. Nothing of a request is echoed or logged. The threads are daemons: they
keep no process alive.
"""

from __future__ import annotations

import errno
import socket
import socketserver
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any, Final, NamedTuple, Self

from podtide.adapters.http_server.certificate import Certificate, tls_context
from podtide.adapters.text.safe import cause, escaped

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


class CannotServe(Exception):
    """The address or the port cannot be listened on; the message says which and why."""


class HttpAsked(NamedTuple):
    """A request: its path, and of its headers those that matter here; "" where it has none."""

    path: str
    accept: str = ""
    authorization: str = ""
    host: str = ""


class HttpReply(NamedTuple):
    """An answer: status, body, content type, and more headers."""

    status: HTTPStatus
    body: bytes
    content_type: str = PLAIN
    headers: tuple[tuple[str, str], ...] = ()


class ServerBounds(NamedTuple):
    """``deadline_s``: of a connection; ``connections_max``: at once."""

    deadline_s: float = DEADLINE_S
    connections_max: int = CONNECTIONS_MAX


class SmallServer:
    """A server that answers by ``reply`` until it is closed; a context manager.

    ``address``: an IP address or a name of this machine; ``port`` 0: any that is free; ``certificate``: HTTPS. ``reply`` is
    called in threads. Raises CannotServe.
    """

    def __init__(
        self,
        reply: Callable[[HttpAsked], HttpReply],
        port: int = 0,
        address: str = LOOPBACK,
        *,
        name: str = "http",
        bounds: ServerBounds | None = None,
        certificate: Certificate | None = None,
    ) -> None:
        if not 0 <= port <= PORT_MAX:
            raise CannotServe(f"{port} is no port: expected a number from 0 to {PORT_MAX}")
        self._tls = certificate is not None
        self._server = _listening(reply, address, port, bounds or ServerBounds(), certificate)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(POLL_S,), name=name, daemon=True)
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
        return f"{'https' if self._tls else 'http'}://{f'[{host}]' if ':' in host else host}:{self.port}"

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


def _listening(
    reply: Callable[[HttpAsked], HttpReply],
    address: str,
    port: int,
    bounds: ServerBounds,
    certificate: Certificate | None,
) -> _Server:
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
        return _Server(family, where, reply, bounds, _tls(certificate))
    except ssl.SSLError as problem:
        raise CannotServe(f"the certificate cannot be used: {cause(problem)}") from None
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


def _tls(certificate: Certificate | None) -> ssl.SSLContext | None:
    if certificate is None:
        return None
    try:
        return tls_context(certificate)
    except ssl.SSLError:
        raise
    except OSError as problem:
        raise CannotServe(f"the certificate cannot be read: {cause(problem)}") from None


class _Server(socketserver.ThreadingMixIn, socketserver.TCPServer):
    """A thread for each connection, not too many of them."""

    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True
    request_queue_size = CONNECTIONS_MAX

    def __init__(
        self,
        family: int,
        where: Any,
        reply: Callable[[HttpAsked], HttpReply],
        bounds: ServerBounds,
        tls: ssl.SSLContext | None,
    ) -> None:
        self.address_family = family
        self.reply = reply
        self.bounds = bounds
        self._tls = tls
        self._places = threading.BoundedSemaphore(bounds.connections_max)
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
        cut = threading.Timer(self.bounds.deadline_s, _cut, (request,))
        cut.daemon = True
        try:
            cut.start()
            if self._tls is not None:  # here, so that a client that says nothing holds up itself alone
                request.settimeout(self.bounds.deadline_s)
                request = self._tls.wrap_socket(request, server_side=True)
            super().process_request_thread(request, client_address)
        except OSError:  # no TLS, or cut off
            self.shutdown_request(request)
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
        line = self.raw_requestline.decode("latin-1").split()
        if len(line) != 3 or not line[2].startswith("HTTP/"):
            self._answer(HttpReply(HTTPStatus.BAD_REQUEST, b"this is no request\n"))
            return
        self.command, target, _ = line
        headers = self._headers()
        if headers is None:
            self._answer(HttpReply(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, b"the headers are too long\n"))
        elif self.command not in ("GET", "HEAD"):
            self._answer(HttpReply(HTTPStatus.METHOD_NOT_ALLOWED, b"only GET and HEAD\n"))
        else:
            known = {key: headers[key] for key in ("accept", "authorization", "host") if key in headers}
            self._answer(self._made(HttpAsked(target.partition("?")[0], **known)))

    def _headers(self) -> dict[str, str] | None:
        """The headers, in lower case; None if they are too long."""
        found: dict[str, str] = {}
        left = HEADERS_MAX
        while left > 0:
            line = self.rfile.readline(left + 1)
            left -= len(line)
            if line in (b"\r\n", b"\n", b""):
                return found
            name, _, value = line.partition(b":")
            found[name.strip().lower().decode("latin-1")] = value.strip().decode("latin-1")
        return None

    def _made(self, http_request: HttpAsked) -> HttpReply:
        try:
            return self.server.reply(http_request)
        except Exception:  # whoever asks must not end the thread with a traceback on the operator's terminal
            return HttpReply(HTTPStatus.INTERNAL_SERVER_ERROR, b"this could not be answered\n")

    def _answer(self, reply: HttpReply) -> None:
        with suppress(OSError):
            self.send_response_only(reply.status)
            self.send_header("Content-Type", reply.content_type)
            self.send_header("Content-Length", str(len(reply.body)))
            self.send_header("Connection", "close")
            self.send_header("Cache-Control", "no-store")
            self.send_header("X-Content-Type-Options", "nosniff")
            for name, value in reply.headers:
                self.send_header(name, value)
            if reply.status is HTTPStatus.METHOD_NOT_ALLOWED:
                self.send_header("Allow", "GET, HEAD")
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(reply.body)

    def log_message(self, *_: Any) -> None:
        """Say nothing: standard error belongs to the run."""
