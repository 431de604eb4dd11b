"""A server between podtide and the API server that answers what an API server under stress answers.

It listens on loopback over plain HTTP, forwards every request to the real server as its administrator, and does to some of
them what its ``Fault``s say: answer 429, 500 or 503 instead; forward and then cut the connection, so that what was done is
never heard of; cut before anything was forwarded; answer late. Which requests are hit is drawn from a seed. Watches are
forwarded as they come.

    with FaultServer(cluster.admin, seed=7) as server:
        server.inject(Fault("POST", r"/pods$", status=429, retry_after_s=1, chance=0.3))
        server.inject(Fault("POST", r"/pods$", lost=True, count=5))
        kubeconfig = server.kubeconfig(folder)
        server.clear()
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import random
import re
import socket
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import yaml

PASSED_ON = ("accept", "accept-encoding", "content-type")
PIECE = 65_536


@dataclass
class Fault:
    """What happens to which requests. ``method`` and ``path`` (a regular expression) choose them, ``chance`` how often.

    ``count``: how many times at most. One of: ``status`` (answered instead of forwarded), ``lost`` (forwarded, never
    answered), ``cut`` (neither); ``slow_s`` beside any of these or alone. ``then``: called when the request was
    forwarded and before its answer is lost, with the request's path and the answer's body.
    """

    method: str
    path: str
    chance: float = 1.0
    count: int = 10**9
    status: int | None = None
    retry_after_s: int | None = None
    lost: bool = False
    cut: bool = False
    slow_s: float = 0.0
    then: Callable[[str, bytes], None] | None = None

    @property
    def name(self) -> str:
        """For counting."""
        if self.status is not None:
            return str(self.status)
        return "lost" if self.lost else "cut" if self.cut else "slow"


class FaultServer:
    """``injected``: how many requests were hit, by the fault's name; ``forwarded``: how many got there."""

    def __init__(self, admin: Path, seed: int = 0) -> None:
        config = yaml.safe_load(admin.read_text())
        target = config["clusters"][0]["cluster"]
        address = urlsplit(target["server"])
        self.host, self.port = address.hostname or "", address.port or 443
        authority = base64.b64decode(target["certificate-authority-data"]).decode()
        self.tls = ssl.create_default_context(cadata=authority)
        self.tls.verify_flags &= ~ssl.VERIFY_X509_STRICT  # throwaway certificates
        self.token: str = config["users"][0]["user"]["token"]
        self.injected: Counter[str] = Counter()
        self.forwarded: Counter[tuple[str, int]] = Counter()
        self._random = random.Random(seed)
        self._faults: list[Fault] = []
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), self._handler())
        threading.Thread(target=self._server.serve_forever, args=(0.1,), name="fault server", daemon=True).start()

    def inject(self, *faults: Fault) -> None:
        """Do this from now on; of several that fit the first counts."""
        with self._lock:
            self._faults.extend(faults)

    def clear(self) -> None:
        """Forward everything from now on."""
        with self._lock:
            self._faults.clear()

    def fault(self, method: str, path: str) -> Fault | None:
        """What shall happen to a request."""
        with self._lock:
            for fault in self._faults:
                fits = fault.count > 0 and fault.method == method and re.search(fault.path, path)
                if fits and self._random.random() < fault.chance:
                    fault.count -= 1
                    self.injected[fault.name] += 1
                    return fault
        return None

    def arrived(self, method: str, status: int) -> None:
        """Count a request that was forwarded."""
        with self._lock:
            self.forwarded[method, status] += 1

    def kubeconfig(self, folder: Path) -> Path:
        """A kubeconfig that leads here."""
        path = folder / "kubeconfig-faults"
        address = f"http://127.0.0.1:{self._server.server_address[1]}"
        path.write_text(
            yaml.safe_dump(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "current-context": "c",
                    "clusters": [{"name": "c", "cluster": {"server": address}}],
                    "users": [{"name": "u", "user": {}}],
                    "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u", "namespace": "default"}}],
                }
            )
        )
        return path

    def close(self) -> None:
        """Listen no longer."""
        self._server.shutdown()
        self._server.server_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        outer = self

        class Handler(_Handler):
            server_of_faults = outer

        return Handler


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that was killed, or that has had enough: nobody's concern."""


class _Handler(BaseHTTPRequestHandler):
    server_of_faults: FaultServer
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def setup(self) -> None:
        super().setup()
        self._upstream: http.client.HTTPSConnection | None = None

    def finish(self) -> None:
        with contextlib.suppress(OSError):
            super().finish()
        if self._upstream is not None:
            self._upstream.close()

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""

    def _forward(self) -> None:
        outer = self.server_of_faults
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        fault = outer.fault(self.command, self.path)
        if fault is not None:
            time.sleep(fault.slow_s)
            if fault.status is not None:
                return self._refuse(fault.status, fault.retry_after_s)
            if fault.cut:
                return self._cut()
        try:
            answer = self._ask(body)
        except (OSError, http.client.HTTPException):
            return self._cut()
        outer.arrived(self.command, answer.status)
        if fault is not None and fault.lost:
            data = answer.read()
            if fault.then is not None:
                fault.then(self.path, data)
            return self._cut()
        return self._answer(answer)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _forward  # noqa: N815 - the names of http.server

    def _ask(self, body: bytes) -> http.client.HTTPResponse:
        outer = self.server_of_faults
        headers = {key: value for key, value in self.headers.items() if key.lower() in PASSED_ON}
        headers["Authorization"] = f"Bearer {outer.token}"
        for fresh in (False, True):
            if self._upstream is None or fresh:
                self._upstream = http.client.HTTPSConnection(outer.host, outer.port, context=outer.tls, timeout=400)
            try:
                self._upstream.request(self.command, self.path, body or None, headers)
                return self._upstream.getresponse()
            except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
                if fresh or self.command == "POST":  # kept alive for too long; a creation is not repeated here
                    raise
        raise AssertionError

    def _answer(self, answer: http.client.HTTPResponse) -> None:
        self.send_response(answer.status)
        for name in ("Content-Type", "Content-Encoding", "Retry-After"):
            if (value := answer.getheader(name)) is not None:
                self.send_header(name, value)
        if "watch=" in self.path:
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.close_connection = True
            with contextlib.suppress(OSError, http.client.HTTPException):
                while data := answer.read1(PIECE):
                    self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
                self.wfile.write(b"0\r\n\r\n")
            if self._upstream is not None:
                self._upstream.close()
                self._upstream = None
            return
        data = answer.read()
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _refuse(self, status: int, retry_after_s: int | None) -> None:
        said = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": status, "message": "injected"}
        data = json.dumps(said).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        if retry_after_s is not None:
            self.send_header("Retry-After", str(retry_after_s))
        self.end_headers()
        self.wfile.write(data)

    def _cut(self) -> None:
        """End the connection as a machine that was switched off does."""
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
        with contextlib.suppress(OSError):
            self.connection.close()
