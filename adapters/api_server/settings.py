"""How the server is reached, and its bounds: whatever a client does, memory and connections stay below them."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from podtide.domain.api_server.messages import LogRequest

MIB: Final = 1024 * 1024


class ApiNotServed(Exception):
    """The server did not begin; says why in one line."""


class LogUnavailable(Exception):
    """A kubelet has no such log; says why in one line. Clients read it as a 400."""


LogSource: TypeAlias = Callable[[LogRequest], Iterator[bytes]]
"""A container's log in pieces, from the kubelets, which also do what the options ask (follow, tailLines, limitBytes, ...).

It is called and read in a thread, one per log that is read. While it follows it yields ``b""`` every second or so: that is
when the thread sees that the reader hung up. Raises LogUnavailable.
"""


@dataclass(frozen=True)
class ServingConfig:
    """``port`` 0: a free one. ``token`` None: a new random one. ``anywhere``: may listen on other addresses than loopback.

    ``body_max``: bytes of a request's body (kube-apiserver's own bound). ``header_max``: bytes of a request line and of one
    header. ``unread_max``: bytes that a watch may leave unread; when more comes then, it is cut off. ``idle_s``: how long a
    connection may be without a whole request; ``transfer_s``: how long a body may take to come, and a piece of an answer to
    be taken. ``end_s``: how long requests have to finish at the end. ``logs_max``: logs that are read at once.
    """

    address: str = "127.0.0.1"
    port: int = 0
    anywhere: bool = False
    tls: bool = False
    token: str | None = None
    body_max: int = 3 * MIB
    header_max: int = 16 * 1024
    connections_max: int = 1_000
    unread_max: int = 64 * MIB
    idle_s: float = 90.0
    transfer_s: float = 30.0
    end_s: float = 2.0
    logs_max: int = 32

    def __post_init__(self) -> None:
        if not self.anywhere and not loopback(self.address):
            raise ApiNotServed(f"{self.address} is no loopback address: other machines could reach the server")
        if self.token is not None and (
            len(self.token) < 16 or not self.token.isascii() or not self.token.isprintable()
        ):
            raise ApiNotServed("a token has 16 printable ASCII characters or more")


def loopback(address: str) -> bool:
    """Whether only this machine can reach an address; names other than localhost count as reachable."""
    if address == "localhost":
        return True
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False
