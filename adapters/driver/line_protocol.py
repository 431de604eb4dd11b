"""The line protocol by which executors are asked for: what one line means.

A line is ``target N``, ``target PROFILE N``, ``kill ID...``, ``decommission ID...``, ``status`` or ``stop``; or the same as
a JSON object, such as ``{"target": 5, "profile": 1}``. Empty lines and lines that begin with ``#`` mean nothing. It is
described in docs/reference/live.md. Everything is bounded: numbers by what Spark can hold, ids by what a label can.
"""

from __future__ import annotations

import re
from typing import Annotated, Final, NamedTuple, TypeAlias

import msgspec
from msgspec import Meta, Struct

from podtide.adapters.driver.schedule import EXECUTORS_MAX, PROFILE_MAX
from podtide.domain.base.units import DEFAULT_PROFILE, ExecutorId, ProfileId
from podtide.domain.protocol.executor_stimuli import DecommissionRequested, KillRequested

IDS_MAX: Final = 10_000

DECOMMISSION_MESSAGE: Final = "asked for by a line"

_Profile: TypeAlias = Annotated[int, Meta(ge=0, le=PROFILE_MAX)]
_Executors: TypeAlias = Annotated[int, Meta(ge=0, le=EXECUTORS_MAX)]
_Id: TypeAlias = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?\Z")]
_Ids: TypeAlias = Annotated[list[_Id], Meta(min_length=1, max_length=IDS_MAX)]


class _Object(Struct, frozen=True, forbid_unknown_fields=True):
    """A line that is a JSON object: exactly one of its words, and what goes with it."""

    target: _Executors | None = None
    profile: _Profile | None = None
    kill: _Ids | None = None
    force: bool = False
    decommission: _Ids | None = None
    status: bool = False
    stop: bool = False


class LineRefused(Exception):
    """A line that means nothing; the message says what was expected."""


class StatusAsked:
    """Somebody asks how things are."""


class StopAsked:
    """Somebody asks for the end."""


class TargetAsked(NamedTuple):
    """A target of one profile."""

    profile: ProfileId
    executors: int


Order: TypeAlias = TargetAsked | KillRequested | DecommissionRequested | StatusAsked | StopAsked

COMMANDS: Final = (
    "target N, target PROFILE N, kill ID..., decommission ID..., status or stop, or a JSON object such as "
    '{"target": 5, "profile": 0}'
)


def understand(line: str) -> Order | None:
    """What a line asks for; None for an empty one and a comment. Raises LineRefused."""
    text = line.strip()
    if not text or text.startswith("#"):
        return None
    if text.startswith("{"):
        return _object(text)
    word, *rest = text.split()
    match word:
        case "target" if len(rest) == 1:
            return TargetAsked(DEFAULT_PROFILE, _number(rest[0], EXECUTORS_MAX, "executors"))
        case "target" if len(rest) == 2:
            profile = _number(rest[0], PROFILE_MAX, "a profile")
            return TargetAsked(ProfileId(profile), _number(rest[1], EXECUTORS_MAX, "executors"))
        case "target":
            raise LineRefused("expected target N or target PROFILE N")
        case "kill":
            return KillRequested(0, _ids(rest, "kill"), force=True)
        case "decommission":
            return DecommissionRequested(0, _ids(rest, "decommission"), DECOMMISSION_MESSAGE)
        case "status" | "stop" if rest:
            raise LineRefused(f"expected {word} alone")
        case "status":
            return StatusAsked()
        case "stop":
            return StopAsked()
        case _:
            raise LineRefused(f"expected {COMMANDS}, got {word[:40]!r}")


def _number(text: str, most: int, what: str) -> int:
    number = int(text) if _COUNT.fullmatch(text) is not None and int(text) <= most else None
    if number is None:
        raise LineRefused(f"expected {what} from 0 to {most}, got {text[:40]!r}")
    return number


def _ids(words: list[str], word: str) -> tuple[ExecutorId, ...]:
    try:
        return tuple(map(ExecutorId, dict.fromkeys(msgspec.convert(words, _Ids))))
    except msgspec.ValidationError:
        wrong = next((one[:40] for one in words if _ID.fullmatch(one) is None), None)
        got = f"got {wrong!r}" if wrong is not None else f"got {len(words)}"
        raise LineRefused(f"expected {word} and 1 to {IDS_MAX} executor ids, {got}") from None


_COUNT: Final = re.compile(r"[0-9]{1,10}")
_ID: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
_decoder = msgspec.json.Decoder(_Object)


def _object(text: str) -> Order:
    try:
        order = _decoder.decode(text)
    except (msgspec.DecodeError, RecursionError) as problem:
        raise LineRefused(f"not understood as JSON: {str(problem).splitlines()[0][:200]}") from None
    words = [
        name
        for name, given in (
            ("target", order.target is not None),
            ("kill", order.kill is not None),
            ("decommission", order.decommission is not None),
            ("status", order.status),
            ("stop", order.stop),
        )
        if given
    ]
    if len(words) != 1:
        raise LineRefused(
            f"expected one of target, kill, decommission, status and stop, got {' and '.join(words) or 'none'}"
        )
    if order.profile is not None and order.target is None:
        raise LineRefused("profile: expected beside target alone")
    if order.target is not None:
        return TargetAsked(ProfileId(order.profile or 0), order.target)
    if order.kill is not None:
        return KillRequested(0, tuple(map(ExecutorId, dict.fromkeys(order.kill))), force=True)
    if order.decommission is not None:
        return DecommissionRequested(0, tuple(map(ExecutorId, dict.fromkeys(order.decommission))), DECOMMISSION_MESSAGE)
    return StatusAsked() if order.status else StopAsked()
