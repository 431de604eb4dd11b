"""What goes into the API server and what comes out of it, as values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from podtide.domain.api_server.json_values import FrozenObject, Json


@dataclass(frozen=True)
class HttpRequest:
    """An HTTP request, decoded. ``query``: pairs as they came; ``content_type`` without parameters; ``body`` parsed JSON.

    ``agent``: the User-Agent, which names the manager of fields where the query does not.
    """

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    body: Json = None
    content_type: str = "application/json"
    accept: str = "application/json"
    agent: str = ""


@dataclass(frozen=True)
class WatchEnded:
    """A client hung up."""

    watch: int


@dataclass(frozen=True)
class ClockTick:
    """Time went on: bookmarks are sent, old watches end."""


ApiStimulus: TypeAlias = HttpRequest | WatchEnded | ClockTick


class ApiResponse(NamedTuple):
    """A status and a body (JSON, or text as ``/healthz`` has). With a ``watch`` the answer goes on with its events."""

    code: int
    body: FrozenObject | str | None
    watch: int | None = None


class LogRequest(NamedTuple):
    """The answer to a request for logs is with the kubelet of ``node``: the front end asks it."""

    node: str
    namespace: str
    pod: str
    container: str
    options: tuple[tuple[str, str], ...]


class WatchSent(NamedTuple):
    """One line of a watch: type is ADDED, MODIFIED, DELETED, BOOKMARK, ERROR. ``as_table``: the client wants a Table."""

    watch: int
    type: str
    item: FrozenObject
    as_table: bool = False


class WatchOver(NamedTuple):
    """The server ends a watch after what it was sent."""

    watch: int


WatchEvent: TypeAlias = WatchSent | WatchOver
