"""GET requests to one driver: kept alive, bounded in time and size, and never answered by another host.

Redirects are followed on the same scheme, host and port only (a proxy adds a slash, say): credentials, and trust in
what an answer says, must not wander off. TLS is verified. A credential is read from the environment variable that the
settings name, sent, and never part of any text. Proxies of the environment (HTTP_PROXY) are not used: a driver is
near.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol
from urllib.parse import urljoin, urlsplit

from podtide.adapters.clock import Clock
from podtide.adapters.text.safe import innermost

BODY_MAX: Final = 128 * 1024**2
"""Bytes of the longest answer, unpacked: the environment is large, ten thousand executors are 15 MB."""
REDIRECTS_MAX: Final = 3
CONNECT_TIMEOUT_S: Final = 3.0
_PIECE: Final = 256 * 1024


class DriverRefused(Exception):
    """A driver cannot be asked at all: an address that is none, a credential that is not there."""


class NoAnswer(Exception):
    """A request got no answer. ``refused``: the host is there, and no process listens."""

    def __init__(self, why: str, *, refused: bool = False) -> None:
        super().__init__(why)
        self.why = why
        self.refused = refused


class DriverReply(NamedTuple):
    """An answer, whatever its status."""

    status: int
    body: bytes


class Get(Protocol):
    """What the sensor needs; a fake is a function."""

    def __call__(self, path: str) -> DriverReply:
        """The answer to GET ``/api/v1/<path>``. Raises NoAnswer."""
        ...


@dataclass(frozen=True, slots=True)
class Access:
    """How to get there. ``timeout_s``: for a whole answer. ``ca_file``: certificates to trust instead of the system's.

    ``credential_env``: an environment variable that holds ``USER:PASSWORD``, or a bearer token, which has no colon.
    """

    timeout_s: float = 5.0
    credential_env: str | None = None
    ca_file: str | None = None

    def authorization(self, environment: Mapping[str, str]) -> str | None:
        """The header's value. Raises DriverRefused where the variable that is named holds none."""
        if self.credential_env is None:
            return None
        credential = _variable(self.credential_env, environment)
        if ":" not in credential:
            return f"Bearer {credential}"
        return "Basic " + base64.b64encode(credential.encode()).decode("ascii")


def _variable(name: str, environment: Mapping[str, str]) -> str:
    text = environment.get(name, "")
    if not text:
        raise DriverRefused(f"the environment variable {name} is not set: a credential is expected in it")
    if not text.isprintable() or (":" not in text and not (text.isascii() and " " not in text)):
        raise DriverRefused(f"the environment variable {name} holds what cannot be a credential")
    return text


class DriverHttp:
    """One driver's API. ``base``: its address, for people."""

    def __init__(self, url: str, access: Access, clock: Clock, environment: Mapping[str, str]) -> None:
        """``url``: as ``http://host:4040``, with the path of a proxy if there is one. Raises DriverRefused."""
        try:
            import urllib3  # noqa: PLC0415 - as above
        except ImportError:
            raise DriverRefused("urllib3 is not installed; install podtide[kubernetes] to ask a driver") from None
        self.base: Final = _base(url)
        self._clock, self._timeout_s = clock, access.timeout_s
        headers = {"Accept": "application/json", "Accept-Encoding": "gzip", "User-Agent": "podtide"}
        authorization = access.authorization(environment)
        if authorization is not None:
            headers["Authorization"] = authorization
        try:
            self._pool = urllib3.PoolManager(
                num_pools=2,
                maxsize=1,
                headers=headers,
                retries=False,
                ca_certs=access.ca_file,
                cert_reqs="CERT_REQUIRED",
            )
        except OSError as problem:
            raise DriverRefused(f"{access.ca_file}: {problem.strerror or problem}") from None

    def __call__(self, path: str) -> DriverReply:
        """The answer to GET ``/api/v1/<path>``. Raises NoAnswer."""
        url = f"{self.base}/api/v1/{path}"
        end = self._clock.monotonic() + self._timeout_s
        for _ in range(REDIRECTS_MAX + 1):
            reply, location = self._get(url, end)
            if location is None:
                return reply
            url = urljoin(url, location)
            if _origin(url) != _origin(self.base):
                raise NoAnswer(f"{self.base} redirects to another host, which is not followed")
        raise NoAnswer(f"{self.base} redirects more than {REDIRECTS_MAX} times")

    def _get(self, url: str, end: float) -> tuple[DriverReply, str | None]:
        import urllib3  # noqa: PLC0415 - as above

        errors = urllib3.exceptions
        left = max(0.1, end - self._clock.monotonic())
        timeout = urllib3.Timeout(connect=min(CONNECT_TIMEOUT_S, left), read=left)
        response: Any = None
        try:
            response = self._pool.request("GET", url, redirect=False, preload_content=False, timeout=timeout)
            body = self._body(response, end)
            location = response.headers.get("Location") if 300 <= response.status < 400 else None
            return DriverReply(response.status, body), location
        except NoAnswer:
            _close(response)
            raise
        except errors.NewConnectionError as problem:  # a ConnectTimeoutError to urllib3; unknown names are among them
            _close(response)
            # Only a host that is there and has no listener says something of the driver: a name server that is
            # away, a network without a way, say nothing.
            refused = isinstance(problem.__cause__ or problem.__context__, ConnectionRefusedError)
            raise NoAnswer(f"{self.base} cannot be reached: {_cause(problem)}", refused=refused) from None
        except (errors.ConnectTimeoutError, errors.ReadTimeoutError):
            _close(response)
            raise NoAnswer(f"{self.base} does not answer in time") from None
        except errors.SSLError as problem:
            _close(response)
            raise NoAnswer(f"{self.base} cannot be trusted: {_cause(problem)}") from None
        except (errors.HTTPError, OSError, ValueError) as problem:
            _close(response)
            raise NoAnswer(f"the connection to {self.base} broke: {_cause(problem)}") from None

    def _body(self, response: Any, end: float) -> bytes:
        body = bytearray()
        while piece := response.read(_PIECE, decode_content=True):
            body += piece
            if len(body) > BODY_MAX:
                raise NoAnswer(f"an answer of {self.base} is longer than {BODY_MAX} bytes")
            if self._clock.monotonic() > end:
                raise NoAnswer(f"{self.base} does not answer in time")
        response.release_conn()
        return bytes(body)

    def close(self) -> None:
        """Let go of the connection."""
        self._pool.clear()


def _close(response: Any) -> None:
    """A connection whose answer was not read to its end cannot be used again."""
    if response is not None:
        with suppress(Exception):
            response.close()


def _base(url: str) -> str:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise DriverRefused("the driver's address: expected http://HOST:PORT or https://HOST:PORT") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise DriverRefused("the driver's address: expected http://HOST:PORT or https://HOST:PORT")
    if parts.username is not None or parts.password is not None:
        raise DriverRefused(
            "the driver's address holds a credential: name an environment variable that holds it instead"
        )
    if parts.query or parts.fragment:
        raise DriverRefused("the driver's address: expected no query and no fragment")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return (
        f"{parts.scheme}://{host}{'' if port is None else f':{port}'}{parts.path.rstrip('/').removesuffix('/api/v1')}"
    )


def _origin(url: str) -> tuple[str, str | None, int | None]:
    try:
        parts = urlsplit(url)
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:
        return "", None, None
    return parts.scheme, parts.hostname, port


def _cause(problem: BaseException) -> str:
    """The innermost reason, in one line."""
    inner = innermost(problem)
    text = str(inner).replace("\n", " ").strip()
    return text.rpartition(": ")[2][:200] or type(inner).__name__
