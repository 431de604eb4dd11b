"""A submitter's calls to a staging server.

An upload waits for the server's word (100-continue) before it sends the archive, so a refusal costs nothing and is read.
What may help a second time is tried again until the deadline: no connection, a connection that broke, a busy server. An
answer that got lost leaves a bundle that nobody fetches; the server removes it after a while. TLS is verified, redirects are
not followed.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple, TypeVar
from urllib.parse import urlsplit

import aiohttp
import msgspec

from podtide.adapters.staging.archive import BundleArchive
from podtide.adapters.text.safe import cause, display, escaped

SILENCE_S: Final = 60.0
CONNECT_S: Final = 10.0
PAUSE_S: Final = 0.5
PAUSE_MAX_S: Final = 5.0
ANSWER_MAX: Final = 1024 * 1024
_AGAIN: Final = frozenset({408, 429, 502, 503, 504})

T = TypeVar("T")


class PushFailed(Exception):
    """A call to the staging server came to nothing; says why in one line."""


class StagedBundle(NamedTuple):
    """What the server says of a bundle, once."""

    id: str
    secret: str


class RemovedBundle(msgspec.Struct):
    """A bundle that went."""

    id: str
    why: str


class UnknownPods(msgspec.Struct):
    """A namespace whose pods the API server did not tell of."""

    namespace: str
    why: str


class PassAnswer(msgspec.Struct):
    """What came of a pass. ``doubted``: bundles without pods, which go if the next pass sees none either."""

    bundles: int
    stored_bytes: int
    removed: list[RemovedBundle]
    doubted: int
    unknown: list[UnknownPods]


class StagingAddress(NamedTuple):
    """A server. ``url`` without a path of ours; ``ca``: the certificate to trust, None for those of this machine."""

    url: str
    token: str
    ca: Path | None = None


class _TryAgain(Exception):
    """It may work later."""


class _Accepted(msgspec.Struct):
    id: str
    secret: str
    sha256: str


def check_url(url: str) -> str:
    """The URL without its last slash. Raises PushFailed."""
    try:
        parts = urlsplit(url)
        plain = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        plain = False
        parts = urlsplit("")
    if not plain or parts.query or parts.fragment or parts.username or "@" in parts.netloc or not url.isprintable():
        raise PushFailed(f"{display(url)} is no address of a staging server: http(s)://HOST:PORT is expected")
    return url.rstrip("/")


def push_bundle(
    server: StagingAddress,
    archive: Path,
    made: BundleArchive,
    namespace: str,
    labels: Sequence[tuple[str, str]],
    within_s: float,
) -> StagedBundle:
    """Leave an archive for the pods with these labels. Raises PushFailed."""
    query = [("namespace", namespace), *(("label", f"{key}={value}") for key, value in labels)]

    async def upload(session: aiohttp.ClientSession) -> StagedBundle:
        with archive.open("rb") as body:
            async with session.post("/v1/bundles", params=query, data=body, expect100=True) as answer:
                accepted = msgspec.json.decode(await _text(answer, 201), type=_Accepted)
        if accepted.sha256 != made.sha256:
            raise _TryAgain("the archive was damaged on its way")
        return StagedBundle(accepted.id, accepted.secret)

    return asyncio.run(_called(server, upload, within_s))


def ask_for_pass(server: StagingAddress, within_s: float) -> PassAnswer:
    """Have the server look for bundles that can go now; what it says of that. Raises PushFailed."""

    async def ask(session: aiohttp.ClientSession) -> PassAnswer:
        async with session.post("/v1/passes") as answer:
            return msgspec.json.decode(await _text(answer, 200), type=PassAnswer)

    return asyncio.run(_called(server, ask, within_s))


async def _text(answer: aiohttp.ClientResponse, wanted: int) -> bytes:
    """The body of the answer that is wanted."""
    body = await answer.content.read(ANSWER_MAX)
    if answer.status == wanted:
        return body
    text = f"the server answers {answer.status}: {escaped(body.decode('utf-8', 'replace').strip())}"
    if answer.status in _AGAIN:
        raise _TryAgain(text)
    raise PushFailed(text)


async def _called(server: StagingAddress, call: Callable[[aiohttp.ClientSession], Awaitable[T]], within_s: float) -> T:
    """Call until it works, cannot work, or the time is over."""
    url = check_url(server.url)
    try:
        context: ssl.SSLContext | bool = True if server.ca is None else ssl.create_default_context(cafile=server.ca)
    except (OSError, ValueError) as problem:
        raise PushFailed(f"{escaped(str(server.ca))} is no certificate: {cause(problem)}") from None
    loop = asyncio.get_running_loop()
    deadline, pause_s = loop.time() + within_s, PAUSE_S
    headers = {"Authorization": f"Bearer {server.token}"}
    while True:
        limits = aiohttp.ClientTimeout(
            total=max(0.1, deadline - loop.time()), sock_connect=CONNECT_S, sock_read=SILENCE_S
        )
        try:
            async with aiohttp.ClientSession(
                url,
                headers=headers,
                timeout=limits,
                connector=aiohttp.TCPConnector(ssl=context),
            ) as session:
                return await call(session)
        except aiohttp.ClientConnectorCertificateError as problem:
            why = cause(problem.certificate_error)
            raise PushFailed(f"{display(url)} cannot be trusted: {why}") from None
        except (aiohttp.ClientError, TimeoutError, OSError, _TryAgain) as problem:
            if loop.time() + pause_s >= deadline:
                raise PushFailed(f"{display(url)}: nothing within {within_s:g} s: {cause(problem)}") from None
        except msgspec.DecodeError:
            raise PushFailed(f"{display(url)} is no staging server: its answer makes no sense") from None
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, PAUSE_MAX_S)
