"""HTTP to steps and back, and the commands that steps give.

The state lives in one event loop; nothing waits between looking at it and replacing it. Bytes go between socket and disk in
pieces, one at a time for each connection, so memory does not depend on sizes. Entries of bundles are written and deleted in
one thread, in the order of the commands. Who may not is refused before a byte of a body is read.

- ``POST /v1/bundles?namespace=NS&label=KEY%3DVALUE``, the token of uploads: 201 and the id and secret, once.
- ``GET /v1/bundles/ID``, the secret of the bundle: its bytes.
- ``POST /v1/passes``, the token of uploads: a pass now, and what came of it.
- ``GET /v1/ping``: pong.

Token and secret come as ``Authorization: Bearer ...``. Everything else is refused with a line of text.
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
import hmac
import logging
import secrets
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar, assert_never

import msgspec
from aiohttp import web

from podtide.adapters.clock import Clock
from podtide.adapters.http_server.settings import HttpBounds
from podtide.adapters.notices import Level, Notice, Notify, Topic
from podtide.adapters.staging.owner_pods import OwnerPods
from podtide.adapters.staging.store import BundleStore, IncomingBundle
from podtide.adapters.text.safe import cause
from podtide.domain.base.units import NEVER, Millis
from podtide.domain.staging.bundles import (
    Bundle,
    BundleId,
    BundlePublished,
    BundleRemoved,
    CollectionAsked,
    DiscardUpload,
    DownloadAsked,
    FindOwners,
    OwnersFound,
    OwnersUnknown,
    PassReport,
    PublishBundle,
    ReceiveBundle,
    RecordUse,
    RefusalStatus,
    RefuseClient,
    RemovalFailed,
    RemoveBundle,
    SendBundle,
    StagingCommand,
    StagingConfig,
    StagingStimulus,
    StagingTick,
    UploadArrived,
    UploadAsked,
    UploadBroken,
)
from podtide.domain.staging.staging import StagingState, StagingStep, advance, due

PIECE: Final = 256 * 1024
"""Bytes that are read and written at once."""

SECRET_BYTES: Final = 32
LABELS_READ_MAX: Final = 32
_SHORT_WAIT_MS: Final = 5
_NO_SPACE: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})

T = TypeVar("T")

log: Final = logging.getLogger(__name__)


class _Refused(Exception):
    """Ends a request with a status and a line."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status
        self.why = why


class StagingFront:
    """The state, its clock, and everything that may change it. ``token``: for uploads and passes."""

    def __init__(
        self,
        state: StagingState,
        config: StagingConfig,
        bounds: HttpBounds,
        store: BundleStore,
        pods: OwnerPods,
        token: str,
        clock: Clock,
        notify: Notify,
    ) -> None:
        self.state = state
        self._config, self._bounds = config, bounds
        self._store, self._pods = store, pods
        self._token = f"Bearer {token}".encode()
        self._clock, self._notify = clock, notify
        self._now = clock.now()
        self._tick: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ending = False
        self._entries = ThreadPoolExecutor(1, thread_name_prefix="podtide-stage-entries")
        self._pieces = ThreadPoolExecutor(4, thread_name_prefix="podtide-stage-pieces")
        self._searches = ThreadPoolExecutor(1, thread_name_prefix="podtide-stage-pods")
        self._work = set[asyncio.Task[None]]()
        self._passes: list[asyncio.Future[PassReport]] = []
        self._unknown = False

    # steps

    def take(self, stimulus: StagingStimulus) -> StagingStep:
        """One step; what it commands besides an answer to a client is begun."""
        now = self._now = max(self._now, self._clock.now())
        step = advance(self.state, stimulus, self._config, now)
        self.state = step.state
        for command in step.commands:
            self._carry_out(command)
        if step.report is not None:
            self._say(step.report)
            for waiting in self._passes:
                if not waiting.done():
                    waiting.set_result(step.report)
            self._passes.clear()
        self._set_clock(now)
        return step

    def _carry_out(self, command: StagingCommand) -> None:
        """Begin what nobody waits for; the rest is the request's that took the step."""
        match command:
            case FindOwners():
                self._spawn(self._find(command))
            case RemoveBundle():
                self._spawn(self._remove(command))
            case RecordUse(bundle):
                self._spawn(self._record(bundle))
            case RefuseClient() | ReceiveBundle() | PublishBundle() | DiscardUpload() | SendBundle():
                pass  # of a request
            case _:
                assert_never(command)

    def _spawn(self, work: Any) -> None:
        """Run it beside; it never raises but at the end."""
        if self._ending:
            work.close()
            return
        task = asyncio.ensure_future(work)
        self._work.add(task)
        task.add_done_callback(self._work.discard)

    async def _find(self, search: FindOwners) -> None:
        try:
            answer: OwnersFound | OwnersUnknown = await asyncio.get_running_loop().run_in_executor(
                self._searches, self._pods.find, search
            )
        except Exception as fault:  # a pass without an answer would be the last one
            log.exception("pods of %s", search.namespace)
            answer = OwnersUnknown(search, f"a fault of podtide itself, {type(fault).__name__}")
        self.take(answer)

    async def _remove(self, removal: RemoveBundle) -> None:
        text = f"bundle {removal.bundle}: {removal.cause.value}"
        try:
            await self._in(self._entries, self._store.remove, removal.bundle)
        except OSError as problem:
            self.take(RemovalFailed(removal.bundle))
            self._tell(Level.ERROR, Topic.LEFT_BEHIND, f"{text}, but it cannot be removed: {cause(problem)}")
            return
        self.take(BundleRemoved(removal.bundle))
        self._tell(Level.INFO, Topic.CLEANED_UP, f"{text}; removed")

    async def _record(self, bundle: Bundle) -> None:
        try:
            await self._in(self._entries, self._store.record, bundle)
        except OSError as problem:
            text = f"bundle {bundle.id} is in use, which cannot be written down: {cause(problem)}"
            self._tell(Level.WARNING, Topic.LEFT_BEHIND, text)

    def _say(self, report: PassReport) -> None:
        if report.unknown and not self._unknown:
            first = report.unknown[0]
            text = f"pods of {first.search.namespace} are not known, so no bundle of theirs is removed: {first.why}"
            self._tell(Level.WARNING, Topic.API_UNREACHABLE, text)
        elif self._unknown and not report.unknown:
            self._tell(Level.INFO, Topic.API_BACK, "the pods of all bundles are known again")
        self._unknown = bool(report.unknown)

    def _tell(self, level: Level, topic: Topic, text: str) -> None:
        self._notify(Notice(self._clock.now(), level, topic, text))

    def _set_clock(self, now: Millis) -> None:
        """Have the state told of the time when it wants to be."""
        wanted = due(self.state)
        if self._tick is not None:
            self._tick.cancel()
            self._tick = None
        if wanted < NEVER and not self._ending and self._loop is not None:
            # A little later rather than too early: a tick before its time would only be asked for again.
            self._tick = self._loop.call_later((max(0, wanted - now) + _SHORT_WAIT_MS) / 1000, self._on_tick)

    def _on_tick(self) -> None:
        self._tick = None
        self.take(StagingTick())

    def begin(self) -> None:
        """Begin the schedule."""
        self._loop = asyncio.get_running_loop()
        self._set_clock(self._now)

    def end(self) -> None:
        """End the schedule; requests still get their answers."""
        self._ending = True
        self._pods.end()
        if self._tick is not None:
            self._tick.cancel()
        for waiting in self._passes:
            waiting.cancel()
        self._searches.shutdown(wait=False, cancel_futures=True)

    def close(self) -> None:
        """After the last request: wait for what the disk does still."""
        for threads in (self._entries, self._pieces):
            threads.shutdown(wait=True)

    async def _in(self, threads: ThreadPoolExecutor, call: Callable[..., T], *arguments: Any) -> T:
        """Call in a thread; whoever is cancelled waits for it to come back all the same."""
        future = asyncio.get_running_loop().run_in_executor(threads, call, *arguments)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            await asyncio.wait({future})
            raise

    # requests

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """The whole of one request."""
        try:
            return await self._routed(request)
        except _Refused as refusal:
            if request.body_exists:
                request.protocol.close()  # once the answer is sent: what comes still is nobody's
            headers = {"Retry-After": "5"} if refusal.status == RefusalStatus.BUSY.value else None
            return web.Response(status=refusal.status, text=refusal.why + "\n", headers=headers)
        except (ConnectionError, asyncio.CancelledError):
            raise
        except Exception:
            log.exception("%s %s", request.method, request.path)
            return web.Response(status=500, text="a fault of podtide itself: see the server's log\n")

    async def _routed(self, request: web.BaseRequest) -> web.StreamResponse:
        path, method = request.path, request.method
        if path == "/v1/ping":
            _allow(method, "GET")
            return web.Response(text="pong")
        if path == "/v1/bundles":
            _allow(method, "POST")
            self._check_token(request)
            return await self._upload(request)
        if path == "/v1/passes":
            _allow(method, "POST")
            self._check_token(request)
            return await self._pass()
        if path.startswith("/v1/bundles/"):
            _allow(method, "GET")
            return await self._download(request, path.removeprefix("/v1/bundles/"))
        raise _Refused(404, "there is no such path")

    def _check_token(self, request: web.BaseRequest) -> None:
        if not hmac.compare_digest(_authorization(request), self._token):
            raise _Refused(401, "the token of uploads is wrong or missing")

    async def _pass(self) -> web.Response:
        waiting: asyncio.Future[PassReport] = asyncio.get_running_loop().create_future()
        self._passes.append(waiting)
        self.take(CollectionAsked())
        report = await waiting
        document = {
            "bundles": report.bundles,
            "stored_bytes": self.state.stored,
            "removed": [{"id": removal.bundle, "why": removal.cause.value} for removal in report.removed],
            "doubted": report.doubted,
            "unknown": [{"namespace": one.search.namespace, "why": one.why} for one in report.unknown],
        }
        return web.Response(body=msgspec.json.encode(document), content_type="application/json")

    # uploads

    async def _upload(self, request: web.BaseRequest) -> web.Response:
        bundle = BundleId(secrets.token_hex(16))
        secret = secrets.token_urlsafe(SECRET_BYTES)
        size = request.content_length if request.body_exists else 0
        upload = UploadAsked(bundle, _hashed(secret.encode()), *_owner(request), size, self._free())
        (command,) = self.take(upload).commands
        if isinstance(command, RefuseClient):
            raise _Refused(command.status.value, command.why)
        assert isinstance(command, ReceiveBundle)
        published = False
        try:
            digest = await self._received(request, command)
            # A client that hangs up now has a bundle that nobody fetches.
            await asyncio.shield(asyncio.ensure_future(self._publish(bundle, digest)))
            published = True
        except OSError as problem:
            if isinstance(problem, ConnectionError):
                raise
            status = 507 if problem.errno in _NO_SPACE else 500
            raise _Refused(status, f"the store cannot be written: {cause(problem)}") from None
        finally:
            if not published and bundle in self.state.uploads and not self._publishing(bundle):
                self._discard(bundle)
        document = {"id": bundle, "secret": secret, "sha256": digest.hex(), "size": command.size}
        headers = {"Cache-Control": "no-store"}
        return web.Response(
            status=201, body=msgspec.json.encode(document), content_type="application/json", headers=headers
        )

    def _publishing(self, bundle: BundleId) -> bool:
        return self.state.uploads[bundle].published is not None

    def _free(self) -> int:
        try:
            return self._store.free()
        except OSError as problem:
            raise _Refused(500, f"the store cannot be read: {cause(problem)}") from None

    async def _received(self, request: web.BaseRequest, command: ReceiveBundle) -> bytes:
        """Write the body aside; its SHA-256. Raises OSError, and _Refused where the body is not what was announced."""
        if request.headers.get("Expect", "").lower() == "100-continue":
            await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            request.writer.output_size = 0
        incoming: IncomingBundle = await self._in(self._pieces, self._store.receive, command.bundle)
        taken = 0
        try:
            while piece := await self._next_piece(request):
                taken += len(piece)
                if taken > command.size:
                    raise _Refused(400, "the body is longer than its Content-Length")
                await self._in(self._pieces, incoming.write, piece)
            if taken < command.size:
                raise _Refused(400, "the body is shorter than its Content-Length")
            await self._in(self._pieces, incoming.finish)
        finally:
            incoming.close()
        return incoming.digest

    async def _next_piece(self, request: web.BaseRequest) -> bytes:
        try:
            async with asyncio.timeout(self._bounds.transfer_s):
                return await request.content.read(PIECE)
        except TimeoutError:
            raise _Refused(408, "the body took too long to come") from None
        except web.RequestPayloadError as problem:
            raise _Refused(400, f"the body is damaged: {cause(problem)}") from None

    async def _publish(self, bundle: BundleId, digest: bytes) -> None:
        (command,) = self.take(UploadArrived(bundle, digest)).commands
        assert isinstance(command, PublishBundle)
        try:
            await self._in(self._entries, self._store.publish, command.bundle)
        except OSError:
            self._discard(bundle)
            raise
        self.take(BundlePublished(bundle))

    def _discard(self, bundle: BundleId) -> None:
        self.take(UploadBroken(bundle))
        self._store.discard(bundle)

    # downloads

    async def _download(self, request: web.BaseRequest, name: str) -> web.StreamResponse:
        scheme, _, secret = _authorization(request).partition(b" ")
        given = _hashed(secret) if scheme == b"Bearer" and secret else None
        command = self.take(DownloadAsked(name, given)).commands[-1]
        if isinstance(command, RefuseClient):
            raise _Refused(command.status.value, command.why)
        assert isinstance(command, SendBundle)
        bundle = command.bundle
        try:
            file = await self._in(self._pieces, self._store.reader, bundle.id)
        except OSError as problem:
            raise _Refused(500, f"the bundle cannot be read: {cause(problem)}") from None
        with file:
            headers = {"Content-Type": "application/octet-stream", "Content-Length": str(bundle.size)}
            response = web.StreamResponse(headers=headers)
            await response.prepare(request)
            left = bundle.size
            try:
                while left and (piece := await self._in(self._pieces, file.read, min(left, PIECE))):
                    left -= len(piece)
                    async with asyncio.timeout(self._bounds.transfer_s):
                        await response.write(piece)
            except (OSError, TimeoutError):
                left = left or 1
            if left:
                # Not the end of the body: the client shall see that something is missing.
                if request.transport is not None:
                    request.transport.abort()
                raise ConnectionResetError("the bundle was not sent to its end")
        return response


def _hashed(secret: bytes) -> bytes:
    return hashlib.sha256(secret).digest()


def _authorization(request: web.BaseRequest) -> bytes:
    return request.headers.get("Authorization", "").encode("utf-8", "surrogateescape")


def _allow(method: str, allowed: str) -> None:
    if method != allowed:
        raise _Refused(405, f"{allowed} alone is served here")


def _owner(request: web.BaseRequest) -> tuple[str, tuple[tuple[str, str], ...]]:
    """The owner that the query names, unchecked."""
    query = request.query
    if set(query) - {"namespace", "label"} or len(query.getall("label", [])) > LABELS_READ_MAX:
        raise _Refused(400, "an upload has the parameters namespace and label")
    pairs = [text.partition("=") for text in query.getall("label", [])]
    return query.get("namespace", ""), tuple((key, value) for key, _, value in pairs)
