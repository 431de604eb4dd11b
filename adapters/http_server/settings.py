"""Where a server listens, and its bounds: whatever a client does, memory and connections stay below them."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import Final

MIB: Final = 1024 * 1024


class NotServed(Exception):
    """The server did not begin; says why in one line."""


@dataclass(frozen=True)
class HttpBounds:
    """``port`` 0: a free one. ``anywhere``: may listen on other addresses than loopback.

    ``body_max``: bytes of a request's body that is read as a whole. ``header_max``: bytes of a request line and of one
    header. ``idle_s``: how long a connection may be without a whole request; ``transfer_s``: how long a body, or a piece of
    one, may take to come, and a piece of an answer to be taken. ``end_s``: how long requests have to finish at the end.
    """

    address: str = "127.0.0.1"
    port: int = 0
    anywhere: bool = False
    body_max: int = 3 * MIB
    header_max: int = 16 * 1024
    connections_max: int = 1_000
    idle_s: float = 90.0
    transfer_s: float = 30.0
    end_s: float = 2.0

    def __post_init__(self) -> None:
        if not self.anywhere and not loopback(self.address):
            raise NotServed(f"{self.address} is no loopback address: other machines could reach the server")

    def url(self, port: int, *, tls: bool) -> str:
        """The server's address for clients."""
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"{'https' if tls else 'http'}://{host}:{port}"


def loopback(address: str) -> bool:
    """Whether only this machine can reach an address; names other than localhost count as reachable."""
    if address == "localhost":
        return True
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False
