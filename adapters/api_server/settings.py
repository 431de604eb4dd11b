"""How the server is reached, and its bounds: whatever a client does, memory and connections stay below them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from podtide.adapters.http_server.settings import MIB, HttpBounds, NotServed
from podtide.domain.api_server.messages import LogRequest


class LogUnavailable(Exception):
    """A kubelet has no such log; says why in one line. Clients read it as a 400."""


LogSource: TypeAlias = Callable[[LogRequest], Iterator[bytes]]
"""A container's log in pieces, from the kubelets, which also do what the options ask (follow, tailLines, limitBytes, ...).

It is called and read in a thread, one per log that is read. While it follows it yields ``b""`` every second or so: that is
when the thread sees that the reader hung up. Raises LogUnavailable.
"""


@dataclass(frozen=True)
class ServingConfig(HttpBounds):
    """The bounds of every server (``body_max``: kube-apiserver's own bound), and: ``token`` None: a new random one.

    ``unread_max``: bytes that a watch may leave unread; when more comes then, it is cut off. ``logs_max``: logs that are
    read at once.
    """

    tls: bool = False
    token: str | None = None
    unread_max: int = 64 * MIB
    logs_max: int = 32

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.token is not None and (
            len(self.token) < 16 or not self.token.isascii() or not self.token.isprintable()
        ):
            raise NotServed("a token has 16 printable ASCII characters or more")
