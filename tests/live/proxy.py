"""A TCP proxy before the API server, to cut, to freeze and to refuse: TLS goes through it unread.

    with Proxy(cluster.address) as proxy:
        api = cluster.api(kubeconfig=cluster.via(proxy.port))
        proxy.cut()        # every connection ends, at once, on both sides
        proxy.freeze()     # nothing is forwarded any more, in either direction; nothing is closed (half-open)
        proxy.refuse()     # new connections are refused, as by a machine on which nobody listens
        proxy.resume()     # all is well again; what piled up while frozen is forwarded

``connections``: how many go through it now. ``accepted``: how many ever did. ``sent``, ``received``: bytes to the server and
from it.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from types import TracebackType
from typing import Self

PIECE = 65_536


class Proxy:
    """Forwards to one address from the moment it is made."""

    def __init__(self, target: tuple[str, int], host: str = "127.0.0.1") -> None:
        self._target, self._host = target, host
        self._lock = threading.Lock()
        self._pairs: set[tuple[socket.socket, socket.socket]] = set()
        self._flowing = threading.Event()
        self._flowing.set()
        self._listener: socket.socket | None = None
        self._closed = False
        self.accepted = self.sent = self.received = 0
        self.port = self._listen(0)

    # commands

    def cut(self) -> int:
        """End every connection at once (RST); new ones are taken. Returns how many there were."""
        with self._lock:
            pairs, self._pairs = self._pairs, set()
        for pair in pairs:
            _end(pair)
        return len(pairs)

    def freeze(self) -> None:
        """Forward nothing any more, of old connections and new ones, and close nothing."""
        self._flowing.clear()

    def refuse(self) -> None:
        """Take no new connections; those that are there live on."""
        listener, self._listener = self._listener, None
        if listener is not None:
            # shutdown wakes the thread in accept(); close alone does not.
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()

    def resume(self) -> None:
        """Forward and take connections as at the beginning."""
        self._flowing.set()
        if self._listener is None:
            self._listen(self.port)

    @property
    def connections(self) -> int:
        """How many go through it now."""
        with self._lock:
            return len(self._pairs)

    def close(self) -> None:
        """End everything."""
        self._closed = True
        self.refuse()
        self.cut()
        self._flowing.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # how it goes

    def _listen(self, port: int) -> int:
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((self._host, port))
        listener.listen(128)
        self._listener = listener
        threading.Thread(target=self._accept, args=(listener,), name="proxy", daemon=True).start()
        taken: int = listener.getsockname()[1]
        return taken

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), name="proxy-connection", daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        self._flowing.wait()
        try:
            server = socket.create_connection(self._target, timeout=10)
        except OSError:
            client.close()
            return
        server.settimeout(None)
        pair = (client, server)
        with self._lock:
            if self._closed:
                _end(pair)
                return
            self._pairs.add(pair)
            self.accepted += 1
        back = threading.Thread(target=self._forward, args=(server, client, pair), daemon=True)
        back.start()
        self._forward(client, server, pair)

    def _forward(self, source: socket.socket, sink: socket.socket, pair: tuple[socket.socket, socket.socket]) -> None:
        inward = source is pair[0]
        with contextlib.suppress(OSError):
            while data := source.recv(PIECE):
                self._flowing.wait()
                sink.sendall(data)
                if inward:
                    self.sent += len(data)
                else:
                    self.received += len(data)
        # An end is news, too: a frozen connection does not pass it on.
        self._flowing.wait()
        with self._lock:
            self._pairs.discard(pair)
        for side in pair:
            with contextlib.suppress(OSError):
                side.shutdown(socket.SHUT_RDWR)


def _end(pair: tuple[socket.socket, socket.socket]) -> None:
    for side in pair:
        with contextlib.suppress(OSError):
            # No lingering: RST, as from a machine that was switched off and on again.
            side.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
            side.shutdown(socket.SHUT_RDWR)
            side.close()
