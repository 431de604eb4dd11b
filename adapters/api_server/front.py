"""HTTP to steps and back: who may ask, what a body may be, and how an answer goes out.

A request becomes a step once its body is there; nothing waits between looking at the state and replacing it, so the event
loop is the lock. What cannot be a request is answered with a Status, as the real server does, and the state stays as it was.
With a ``FaultyState`` answers and events may be late, and connections are cut; kubelets are spared.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, Final, NamedTuple, Protocol, TypeVar
from urllib.parse import parse_qsl, unquote

import msgspec
from aiohttp import WSMsgType, web

from podtide.adapters.api_server.settings import LogSource, LogUnavailable, ServingConfig
from podtide.adapters.api_server.watches import OpenWatches, WatchQueue
from podtide.adapters.clock import Clock
from podtide.domain.api_faults import faulty_server
from podtide.domain.api_faults.faulty_server import FaultyState, TimedEvent
from podtide.domain.api_server.json_values import FrozenObject
from podtide.domain.api_server.messages import ApiResponse, ApiStimulus, ClockTick, HttpRequest, LogRequest, WatchEnded
from podtide.domain.api_server.server import Answer, due, step
from podtide.domain.api_server.state import ApiState
from podtide.domain.api_server.statuses import ApiRefusal, bad_request, failure, unsupported
from podtide.domain.base.units import NEVER, Millis

JSON: Final = "application/json"
_FREE: Final = frozenset({"/healthz", "/livez", "/readyz", "/version"})
"""Paths that need no token, as on the real server."""
_STREAMED: Final = frozenset({"attach", "exec", "portforward", "proxy"})
_BODIES: Final = frozenset({JSON, "application/json-patch+json", "application/merge-patch+json",
                            "application/strategic-merge-patch+json", "application/apply-patch+yaml"})  # fmt: skip
_PARAMETERS_MAX: Final = 100
_CHUNK_LINES: Final = 256
_SHORT_WAIT_MS: Final = 5

_Read = TypeVar("_Read")

log: Final = logging.getLogger(__name__)


class ServedStep(NamedTuple):
    """A step that was taken, for a ``user``, or for nobody (``""``) where it was no request.

    ``answer`` None to a request: the connection is cut. ``at``: when the answer is sent. ``fault``: what hit, ``""``: none.
    """

    user: str
    stimulus: ApiStimulus
    before: ApiState
    after: ApiState
    answer: Answer | None
    events: tuple[TimedEvent, ...]
    now: Millis
    at: Millis
    fault: str = ""


class StepObserver(Protocol):
    """Whoever counts what happens; called in the server's thread after each step."""

    def __call__(self, step: ServedStep) -> None:
        """A step was taken."""
        ...


class ApiFront:
    """The state and everything that may change it; lives in one event loop. ``users``: by their tokens.

    ``spared``: users whose requests meet no faults.
    """

    def __init__(
        self,
        state: ApiState | FaultyState,
        config: ServingConfig,
        users: Mapping[str, str],
        clock: Clock,
        logs: LogSource | None,
        observer: StepObserver | None,
        spared: frozenset[str] = frozenset(),
    ) -> None:
        self._held = state
        self._spared = spared
        self._config = config
        self._users = {f"Bearer {token}".encode(): user for token, user in users.items()}
        self._clock = clock
        self._now = clock.now()
        self._logs = logs
        self._observer = observer
        self._watches = OpenWatches(config.unread_max)
        self._tick: asyncio.TimerHandle | None = None
        self._due = NEVER
        self._readers = ThreadPoolExecutor(config.logs_max, thread_name_prefix="podtide-log")
        self._reading = 0
        self._ending = False
        self._end = asyncio.Event()

    @property
    def state(self) -> ApiState:
        """The state of this moment."""
        return self._held.api if isinstance(self._held, FaultyState) else self._held

    # steps

    def begin(self) -> None:
        """Have the state told of the time from now on."""
        self._set_clock(self._now)

    def take(self, stimulus: ApiStimulus, user: str = "") -> ServedStep:
        """One step: the new state is in force, watches have their events, or will at their time."""
        now = self._now = max(self._now, self._clock.now())
        made = self._step(stimulus, user, now)
        queue: WatchQueue | None = None
        if isinstance(made.answer, ApiResponse) and made.answer.watch is not None:
            queue = self._watches.open(made.answer.watch)
        self._watches.deliver(made.events, made.after, now)
        if queue is not None and self._ending:
            queue.end()
        if self._observer is not None:
            self._observer(made)
        self._set_clock(now)
        return made

    def _step(self, stimulus: ApiStimulus, user: str, now: Millis) -> ServedStep:
        held, before = self._held, self.state
        if isinstance(held, FaultyState):
            met = faulty_server.step(held, stimulus, now, spared=user in self._spared)
            self._held = met.state
            return ServedStep(user, stimulus, before, met.state.api, met.answer, met.events, now, met.at, met.fault)
        made = step(held, stimulus, now)
        self._held = made.state
        events = tuple(TimedEvent(now, event) for event in made.events)
        return ServedStep(user, stimulus, before, made.state, made.response, events, now, now)

    def _set_clock(self, now: Millis) -> None:
        """Have the state told of the time when it wants to be."""
        held = self._held
        wanted = faulty_server.due(held) if isinstance(held, FaultyState) else due(held)
        if wanted == self._due and self._tick is not None:
            return
        if self._tick is not None:
            self._tick.cancel()
        self._due, self._tick = wanted, None
        if wanted < NEVER and not self._ending:
            # A little later rather than too early: a tick before its time would only be asked for again.
            wait_s = (max(0, wanted - now) + _SHORT_WAIT_MS) / 1000
            self._tick = asyncio.get_running_loop().call_later(wait_s, self._on_tick)

    def _on_tick(self) -> None:
        self._tick = None
        self.take(ClockTick())

    def end(self) -> None:
        """Let watches and logs end; requests still get their answers."""
        self._ending = True
        self._end.set()
        if self._tick is not None:
            self._tick.cancel()
        self._watches.end_all()
        self._readers.shutdown(wait=False, cancel_futures=True)

    # requests

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """The whole of one request."""
        try:
            http_request, user = await self._read(request)
            made = self._stepped(http_request, user)
            answer, late_ms = made.answer, made.at - made.now
            if isinstance(answer, ApiResponse) and answer.watch is not None:
                return await self._send_watch(request, answer.watch, self._watches.queue(answer.watch), late_ms)
            await self._wait(late_ms)
            if answer is None:
                _abort(request)
                raise ConnectionResetError("a fault cuts the connection")
            if isinstance(answer, LogRequest):
                return await self._send_log(request, answer)
        except ApiRefusal as refusal:
            return _response(ApiResponse(refusal.code, refusal.status))
        return _response(answer)

    async def _wait(self, late_ms: Millis) -> None:
        """Wait until an answer is to be sent, or the end."""
        if late_ms > 0 and not self._ending:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._end.wait(), late_ms / 1000)

    def _stepped(self, http_request: HttpRequest, user: str) -> ServedStep:
        try:
            return self.take(http_request, user)
        except RecursionError:
            raise bad_request("the body is nested too deeply") from None
        except Exception:
            log.exception("%s %s", http_request.method, http_request.path)
            raise failure(500, "InternalError", "Internal error occurred: see the server's log") from None

    async def _read(self, request: web.BaseRequest) -> tuple[HttpRequest, str]:
        """The request as a value, and whose it is; raises ApiRefusal."""
        raw_path, _, raw_query = request.raw_path.partition("?")
        path = unquote(raw_path)
        headers = request.headers
        given = headers.get("Authorization", "").encode("utf-8", "surrogateescape")
        user = "".join(name for token, name in self._users.items() if hmac.compare_digest(given, token))
        if not user and path not in _FREE:
            raise failure(401, "Unauthorized", "Unauthorized")
        parts = path.strip("/").split("/")
        if len(parts) > 6 and parts[4] == "pods" and parts[6] in _STREAMED:
            raise unsupported(f"{parts[6]} of pods")
        try:
            query = tuple(parse_qsl(raw_query, keep_blank_values=True, max_num_fields=_PARAMETERS_MAX))
        except ValueError:
            raise bad_request(f"more than {_PARAMETERS_MAX} query parameters") from None
        media = headers.get("Content-Type", JSON).partition(";")[0].strip().lower()
        body = await self._body(request, media) if request.body_exists else None
        agent = headers.get("User-Agent", "")
        return HttpRequest(request.method, path, query, body, media, headers.get("Accept", JSON), agent), user

    async def _body(self, request: web.BaseRequest, media: str) -> Any:
        """The body, decoded."""
        if request.headers.get("Content-Encoding", "identity") != "identity":
            raise failure(415, "UnsupportedMediaType", "bodies are read uncompressed only")
        try:
            if request.headers.get("Expect", "").lower() == "100-continue":
                await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                request.writer.output_size = 0
            async with asyncio.timeout(self._config.transfer_s):
                raw = await request.read()
        except web.HTTPRequestEntityTooLarge:
            message = f"Request entity too large: limit is {self._config.body_max}"
            request.protocol.close()
            raise failure(413, "RequestEntityTooLarge", message) from None
        except TimeoutError:
            request.protocol.close()
            raise failure(408, "Timeout", "the body took too long to come") from None
        except web.RequestPayloadError as problem:
            request.protocol.close()
            raise bad_request(f"the body is damaged: {problem}") from None
        if not raw:
            return None
        if media not in _BODIES:
            listing = ", ".join(sorted(_BODIES))
            message = f"the body of the request was in an unknown format - accepted media types include: {listing}"
            raise failure(415, "UnsupportedMediaType", message, {})
        try:
            return msgspec.json.decode(raw)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as problem:
            raise bad_request(f"the body is no JSON: {problem}") from None

    # answers that go on

    async def _send_watch(
        self, request: web.BaseRequest, watch: int, queue: WatchQueue, late_ms: Millis
    ) -> web.StreamResponse:
        # Not the end of a chunked body: the client shall see that something is missing.
        queue.on_cut = partial(_abort, request)
        try:
            await self._wait(late_ms)
            if request.headers.get("Upgrade", "").lower() == "websocket":
                return await self._send_frames(request, queue)
            return await self._send_lines(request, queue)
        finally:
            self._watches.close(watch)
            self.take(WatchEnded(watch))

    async def _send_lines(self, request: web.BaseRequest, queue: WatchQueue) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": JSON, "Cache-Control": "no-cache, private"})
        await response.prepare(request)
        while lines := await queue.take():
            for first in range(0, len(lines), _CHUNK_LINES):
                await self._in_time(request, response.write(b"".join(lines[first : first + _CHUNK_LINES])))
        return response

    async def _send_frames(self, request: web.BaseRequest, queue: WatchQueue) -> web.StreamResponse:
        socket = web.WebSocketResponse(max_msg_size=64 * 1024, timeout=self._config.end_s)
        await socket.prepare(request)
        hung_up = asyncio.ensure_future(_hung_up(socket))
        try:
            while True:
                news = asyncio.ensure_future(queue.take())
                await asyncio.wait({news, hung_up}, return_when=asyncio.FIRST_COMPLETED)
                if not news.done():
                    news.cancel()
                    break
                lines = news.result()
                if not lines:
                    break
                for line in lines:
                    await self._in_time(request, socket.send_str(line.decode().rstrip("\n")))
            await socket.close()
        finally:
            hung_up.cancel()
        return socket

    async def _in_time(self, request: web.BaseRequest, sending: Awaitable[None]) -> None:
        """Send a piece; who does not take it within the time is cut off."""
        try:
            async with asyncio.timeout(self._config.transfer_s):
                await sending
        except TimeoutError:
            _abort(request)
            raise ConnectionResetError("the client does not read") from None

    async def _send_log(self, request: web.BaseRequest, log_request: LogRequest) -> web.StreamResponse:
        if self._logs is None:
            raise failure(503, "ServiceUnavailable", f"no kubelet of the node {log_request.node} hands out logs")
        if self._reading >= self._config.logs_max or self._ending:
            raise failure(429, "TooManyRequests", "too many logs are read at once", {"retryAfterSeconds": 1})
        self._reading += 1
        try:
            try:
                # Up to the first piece a kubelet may refuse. What it yields is closed when nobody holds it any more.
                pieces = await self._in_thread(self._logs, log_request)
                piece = await self._in_thread(next, pieces, None)
            except LogUnavailable as refusal:
                raise bad_request(str(refusal)) from None
            response = web.StreamResponse(headers={"Content-Type": "text/plain"})
            await response.prepare(request)
            while piece is not None and not self._ending:
                if piece:
                    await self._in_time(request, response.write(piece))
                piece = await self._in_thread(next, pieces, None)
        finally:
            self._reading -= 1
        return response

    async def _in_thread(self, read: Callable[..., _Read], *arguments: Any) -> _Read:
        return await asyncio.get_running_loop().run_in_executor(self._readers, read, *arguments)


def _abort(request: web.BaseRequest) -> None:
    """Hang up without another byte, even if the client does not read what it was sent."""
    transport = request.transport
    if transport is not None:
        transport.abort()


async def _hung_up(socket: web.WebSocketResponse) -> None:
    """Return when the client closes its side; what it sends is of no use."""
    while (await socket.receive()).type in {WSMsgType.TEXT, WSMsgType.BINARY}:
        pass


def _response(answer: ApiResponse) -> web.Response:
    """An answer that is whole."""
    body = answer.body
    if isinstance(body, str):
        return web.Response(status=answer.code, text=body)
    headers = {"Content-Type": JSON, "Cache-Control": "no-cache, private"}
    if isinstance(body, FrozenObject) and answer.code >= 400:
        wait = (body.get("details") or {}).get("retryAfterSeconds")
        if wait:
            headers["Retry-After"] = str(wait)
    return web.Response(status=answer.code, body=msgspec.json.encode(body), headers=headers)
