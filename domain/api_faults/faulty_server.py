"""The API server with the faults of a cluster file: what to answer to a stimulus, when, and what to cut.

The same ``Description`` as the fake cluster's (its parts ``api`` and ``watch``, ``seed`` and ``calm_ms``). A front end holds
one ``FaultyState`` in place of an ``ApiState`` and calls this ``step`` in place of the server's:

- ``answer`` is sent at ``at`` (latency). Where it is None to a request, nothing is sent and the connection is cut at ``at``:
  the request was lost, or took effect and its answer was lost;
- each event has its own ``at`` too, and is sent then, in the order of (at, place in the tuple). ``WatchCut``: the watch's
  connection is cut, without the end of its body. Events of a watch that are still to be sent are thrown away with it;
- ``due`` says when to come with a ``ClockTick``, as the server's own.

Who is ``spared`` (the cluster's own parts: kubelets, set-up) meets no faults and no latency, and neither do its watches.

A request takes effect when it arrives; only its answer is late. Faults are asked in the order of the file and the first that
hits decides, as in the fake cluster. A watch that breaks with ``expired`` compacts the history: who goes on from where it
was is told 410. While a watch is broken, and in an outage, new watches are cut. The same seed and the same requests in the
same order have the same faults. Of the file's ``api``, ``serial``, ``retries`` and ``backoff_ms`` are the client's,
as is ``watch.relists``; ``quota_pods`` is a ResourceQuota that somebody creates.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple, TypeAlias

from podtide.domain.api_server import server
from podtide.domain.api_server.hash_trie import HashTrie
from podtide.domain.api_server.messages import (
    ApiResponse,
    ApiStimulus,
    HttpRequest,
    WatchEnded,
    WatchEvent,
    WatchOver,
    WatchSent,
)
from podtide.domain.api_server.state import ApiConfig, ApiState
from podtide.domain.api_server.statuses import failure
from podtide.domain.base.randomness import Stream, chance, draw, draw_active_ms, split, stream
from podtide.domain.base.units import NEVER, Millis
from podtide.domain.fakes.kubernetes.api_errors import REASONS
from podtide.domain.fakes.kubernetes.description import Description, Fault, Lost, Verb

_CALLS: Final = 1
_EVENTS: Final = 2
_BREAKS: Final = 3
_SAMPLE_MS: Final[Millis] = 250
_SAMPLES_MAX: Final = 240
_MESSAGES: Final = {
    403: "forbidden by a fault of the cluster file",
    429: "the server has received too many requests and has asked us to try again later",
    500: "Internal error occurred: a fault of the cluster file",
}


class WatchCut(NamedTuple):
    """The connection of a watch breaks."""

    watch: int


class TimedEvent(NamedTuple):
    """What a watch is sent, and when."""

    at: Millis
    event: WatchEvent | WatchCut


class WatchFortune(NamedTuple):
    """An open watch: when it breaks (NEVER: not by itself), when its last event is sent, how many it had."""

    breaks_at: Millis
    last_at: Millis
    events: int = 0


Answer: TypeAlias = server.Answer


class FaultyStep(NamedTuple):
    """The state after a step, the answer and when it is sent, and events; ``fault``: what hit, for whoever counts."""

    state: FaultyState
    answer: Answer | None
    at: Millis
    events: tuple[TimedEvent, ...]
    fault: str = ""


@dataclass(frozen=True)
class FaultyState:
    """The server and its luck. ``past``: states that a stale list may show, (time, state), the oldest first."""

    api: ApiState
    description: Description
    began: Millis
    luck: Stream
    calls: int = 0
    watches: HashTrie[int, WatchFortune] = field(default_factory=HashTrie)
    next_break: Millis = NEVER
    broken_until: Millis = 0
    past: tuple[tuple[Millis, ApiState], ...] = ()


def begin(config: ApiConfig, description: Description, now: Millis, seed: int | None = None) -> FaultyState:
    """A server of a cluster file; ``seed``: instead of the file's."""
    luck = stream(description.seed if seed is None else seed)
    return FaultyState(server.begin(config, now), description, now, luck)


def due(state: FaultyState) -> Millis:
    """The earliest time at which a tick does something."""
    return min(server.due(state.api), state.next_break)


def step(state: FaultyState, stimulus: ApiStimulus, now: Millis, *, spared: bool = False) -> FaultyStep:
    """Take one request, or what else happened; a request of who is ``spared`` meets no fault."""
    state, cuts = _broken(state, now)
    if isinstance(stimulus, HttpRequest) and not spared:
        made = _called(state, stimulus, now)
    else:
        if isinstance(stimulus, WatchEnded):
            state = replace(state, watches=state.watches.discard(stimulus.watch))
        api, answer, events = server.step(state.api, stimulus, now)
        made = _delivered(replace(state, api=api), answer, events, now, now)
    return made._replace(state=_sampled(made.state, now), events=(*cuts, *made.events))


def _faulty(state: FaultyState, now: Millis) -> bool:
    calm = state.description.calm_ms
    return calm is None or now - state.began < calm


# calls


def _called(state: FaultyState, request: HttpRequest, now: Millis) -> FaultyStep:
    api = state.description.api
    rng = split(split(state.luck, _CALLS), state.calls)
    state = replace(state, calls=state.calls + 1)
    latency, rng = draw(rng, api.latency)
    at = now + latency
    verb, resource = verb_of(request)
    if verb is None:  # discovery, the version and the server's health have no faults
        return _carried_out(state, state.api, request, now, at)
    fault, rng = _fault(state, rng, verb, resource, request.agent, now)
    if fault is not None and fault.status is not None:
        return FaultyStep(state, _refusal(fault, fault.status), at, (), f"{fault.status}")
    if fault is not None and fault.lost is Lost.REQUEST:
        return FaultyStep(state, None, max(at, now + api.timeout_ms), (), "lost request")
    if _watches(request) and _closed(state, now):
        return FaultyStep(state, None, at, (), "no watches")
    shown, rng = _shown(state, verb, request, rng, now)
    made = _carried_out(state, shown, request, now, at)
    if fault is None:
        return made if shown is state.api else made._replace(fault="stale list")
    made = _hung_up(made, now)
    return made._replace(answer=None, at=max(at, now + api.timeout_ms), fault="lost answer")


def verb_of(request: HttpRequest) -> tuple[Verb | None, str]:
    """What a request is in the words of a cluster file; no verb where it is about no object."""
    parts = request.path.strip("/").split("/")
    parts = parts[2:] if parts[0] == "api" else parts[3:] if parts[0] == "apis" else []
    if len(parts) > 2 and parts[0] == "namespaces" and parts[2] not in {"status", "finalize"}:
        parts = parts[2:]
    if not parts:
        return None, ""
    named = len(parts) > 1
    match request.method:
        case "POST":
            return Verb.CREATE, parts[0]
        case "DELETE":
            return Verb.DELETE, parts[0]
        case "PUT" | "PATCH":
            return Verb.SCALE if parts[-1] == "scale" and named else Verb.PATCH, parts[0]
    return Verb.GET if named else Verb.LIST, parts[0]


def _fault(
    state: FaultyState, rng: Stream, verb: Verb, resource: str, agent: str, now: Millis
) -> tuple[Fault | None, Stream]:
    """The first fault of the file that hits a call."""
    for fault in state.description.api.faults:
        if not fault.concerns(verb, resource, agent):
            continue
        if not fault.during.active(now - state.began) or not _faulty(state, now):
            continue
        hit, rng = chance(rng, fault.probability)
        if hit:
            return fault, rng
    return None, rng


def _refusal(fault: Fault, status: int) -> ApiResponse:
    details = None
    if fault.retry_after_ms is not None:
        details = {"retryAfterSeconds": max(1, -(-fault.retry_after_ms // 1000))}
    message = fault.message or _MESSAGES.get(status, "a fault of the cluster file")
    body = failure(status, REASONS.get(status, "Unknown"), message, details).status
    return ApiResponse(status, body)


def _carried_out(state: FaultyState, shown: ApiState, request: HttpRequest, now: Millis, at: Millis) -> FaultyStep:
    api, answer, events = server.step(shown, request, now)
    if shown is not state.api:
        return FaultyStep(state, answer, at, ())
    state = replace(state, api=api)
    if isinstance(answer, ApiResponse) and answer.watch is not None:
        state = _opened(state, answer.watch, now, at)
    return _delivered(state, answer, events, now, at)


def _watches(request: HttpRequest) -> bool:
    return any(name == "watch" and value.lower() in {"1", "true"} for name, value in request.query)


# stale lists


def _shown(state: FaultyState, verb: Verb, request: HttpRequest, rng: Stream, now: Millis) -> tuple[ApiState, Stream]:
    """The state that a request meets: an older one for the share of lists that are stale."""
    api = state.description.api
    exact = any(name in {"continue", "resourceVersionMatch", "watch"} for name, _ in request.query)
    if verb is not Verb.LIST or not api.stale or exact or not _faulty(state, now):
        return state.api, rng
    stale, rng = chance(rng, api.stale)
    if not stale:
        return state.api, rng
    age, rng = draw(rng, api.stale_age)
    older = [then for moment, then in state.past if moment <= now - age]
    return (older[-1] if older else state.past[0][1] if state.past else state.api), rng


def _sampled(state: FaultyState, now: Millis) -> FaultyState:
    """Remember the state for stale lists, four times a second at most and a minute of them."""
    if not state.description.api.stale or (state.past and now - state.past[-1][0] < _SAMPLE_MS):
        return state
    return replace(state, past=(*state.past[-_SAMPLES_MAX + 1 :], (now, state.api)))


# watches


def _opened(state: FaultyState, watch: int, now: Millis, at: Millis) -> FaultyState:
    """A new watch, with the moment at which it breaks."""
    described = state.description.watch
    breaks_at = NEVER
    if described.breaks_per_hour and _faulty(state, now):
        active_ms, _ = draw_active_ms(split(split(state.luck, _BREAKS), watch), described.breaks_per_hour)
        after = described.during.after(now - state.began, active_ms)
        breaks_at = NEVER if after is None else state.began + after
    for window in described.outages:
        start = window.next_start(now - state.began)
        breaks_at = breaks_at if start is None else min(breaks_at, state.began + start)
    watches = state.watches.set(watch, WatchFortune(breaks_at, at))
    return replace(state, watches=watches, next_break=min(state.next_break, breaks_at))


def _closed(state: FaultyState, now: Millis) -> bool:
    """Whether no watch can be opened now."""
    outage = any(window.active(now - state.began) for window in state.description.watch.outages)
    return _faulty(state, now) and (outage or now < state.broken_until)


def _broken(state: FaultyState, now: Millis) -> tuple[FaultyState, list[TimedEvent]]:
    """Break the watches whose moment has come."""
    if state.next_break > now:
        return state, []
    cuts = []
    for watch, row in sorted(state.watches.items()):
        if row.breaks_at > now:
            continue
        if not _faulty(state, now):
            state = replace(state, watches=state.watches.set(watch, row._replace(breaks_at=NEVER)))
            continue
        described = state.description.watch
        rng = split(split(split(state.luck, _BREAKS), watch), 1)
        lasts, rng = draw(rng, described.broken)
        expired, rng = chance(rng, described.expired)
        api = server.step(state.api, WatchEnded(watch), now).state
        if expired:
            api = replace(api, history=HashTrie())
        until = max(state.broken_until, now + lasts)
        state = replace(state, api=api, watches=state.watches.remove(watch), broken_until=until)
        cuts.append(TimedEvent(now, WatchCut(watch)))
    left = min((row.breaks_at for row in state.watches.values()), default=NEVER)
    return replace(state, next_break=left), cuts


def _hung_up(made: FaultyStep, now: Millis) -> FaultyStep:
    """A watch whose answer is lost has nobody who listens."""
    answer = made.answer
    if not isinstance(answer, ApiResponse) or answer.watch is None:
        return made
    watch = answer.watch
    api = server.step(made.state.api, WatchEnded(watch), now).state
    state = replace(made.state, api=api, watches=made.state.watches.discard(watch))
    return made._replace(state=state, events=tuple(one for one in made.events if one.event.watch != watch))


def _delivered(
    state: FaultyState, answer: Answer | None, events: tuple[WatchEvent, ...], now: Millis, at: Millis
) -> FaultyStep:
    """The events of a step, each with its moment; some are lost, come twice or late."""
    described = state.description.watch
    faulty = _faulty(state, now) and described.during.active(now - state.began)
    timed: list[TimedEvent] = []
    for event in events:
        row = state.watches.get(event.watch)
        if row is None:
            timed.append(TimedEvent(now, event))  # of one who is spared
            continue
        if isinstance(event, WatchOver):
            timed.append(TimedEvent(row.last_at, event))
            state = replace(state, watches=state.watches.remove(event.watch))
            continue
        rng = split(split(split(state.luck, _EVENTS), event.watch), row.events)
        delay, rng = draw(rng, described.delay)
        moment = max(now + delay, row.last_at)
        last = moment
        if faulty and event.type in {"ADDED", "MODIFIED", "DELETED"}:
            last, sent = _misfortune(state, event, rng, moment, row.last_at)
            timed += sent
        else:
            timed.append(TimedEvent(moment, event))
        state = replace(
            state, watches=state.watches.set(event.watch, row._replace(last_at=last, events=row.events + 1))
        )
    return FaultyStep(state, answer, at, tuple(timed))


def _misfortune(
    state: FaultyState, event: WatchSent, rng: Stream, moment: Millis, last: Millis
) -> tuple[Millis, list[TimedEvent]]:
    """When the last event in order is sent, and what is sent of this one."""
    described = state.description.watch
    lost, rng = chance(rng, described.loss)
    twice, rng = chance(rng, described.duplicates)
    late, rng = chance(rng, described.reordered)
    sent = []
    if twice:
        more, rng = draw(rng, described.late)
        sent.append(TimedEvent(moment + more, event))
    if lost:
        return last, sent
    if late:
        more, rng = draw(rng, described.late)
        return last, [*sent, TimedEvent(moment + more, event)]
    return moment, [TimedEvent(moment, event), *sent]
