"""What an API server says when it does not do what it was asked: its Status, and the failure that the core is given.

A refusal is a Status object with an HTTP status. ``call_failure`` makes of it the ``CallFailure`` that the core knows,
with the text that the exception of Spark's client would carry (fabric8 7.6: OperationSupport.requestFailure), because
that text ends in Spark's log and in ours. A call that got no answer fails in that client's words too (launderThrowable).

Nothing here raises: a body that is no Status (a proxy's page, nothing at all) still is a failure with its HTTP status.
"""

from __future__ import annotations

from http.client import responses
from typing import Annotated, Final, NamedTuple, TypeAlias, TypeVar
from urllib.parse import urlencode

import msgspec
from msgspec import Meta, Struct, field

from podtide.adapters.kubernetes.api import METHODS, ApiAnswer, Query
from podtide.adapters.text.safe import escaped
from podtide.domain.base.units import Millis
from podtide.domain.protocol.pod_stimuli import CallFailure

TEXT_MAX: Final = 8_000
"""Characters of a failure's text; the message of an admission webhook may be anything."""

WHY_MAX: Final = 300
_RETRY_MAX_S: Final = 99_999

_Int32: TypeAlias = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
_T = TypeVar("_T")


class UnreadableBody(NamedTuple):
    """What came is not what was expected: which thing it was, and what is wrong where."""

    why: str


def decoded(decoder: msgspec.json.Decoder[_T], body: bytes, what: str) -> _T | UnreadableBody:
    """A body by its decoder. ``what`` it is meant to be, for people: "a pod"."""
    try:
        return decoder.decode(body)
    except (ValueError, RecursionError) as problem:  # msgspec's errors and UnicodeDecodeError are ValueErrors
        return UnreadableBody(f"{what} cannot be read: {escaped(str(problem), WHY_MAX)}")


class _Part(Struct, gc=False, rename="camel"):
    """An object of which only some fields are looked at."""


class _ListMeta(_Part):
    resource_version: str | None = None
    more: str | None = field(name="continue", default=None)
    remaining_item_count: int | None = None


class _Cause(_Part):
    field: str | None = None
    message: str | None = None
    reason: str | None = None


class _Details(_Part):
    causes: list[_Cause] | None = None
    group: str | None = None
    kind: str | None = None
    name: str | None = None
    retry_after_seconds: int | None = None
    uid: str | None = None


class StatusWire(_Part):
    """A Status object as it is on the wire; for decoders of what may hold one."""

    api_version: str | None = None
    kind: str | None = None
    metadata: _ListMeta | None = None
    status: str | None = None
    message: str | None = None
    reason: str | None = None
    details: _Details | None = None
    code: _Int32 | None = None


_STATUS: Final = msgspec.json.Decoder(StatusWire)


class ApiStatus(NamedTuple):
    """What a Status object says: a refusal, or how a collection was deleted.

    ``code``: the HTTP status that it stands for. ``reason``: one word, as NotFound or AlreadyExists. ``causes``: reason,
    field and message of each. ``more``: the fresh continue token that comes with an expired one.
    """

    code: int | None
    reason: str
    message: str
    retry_after_ms: Millis | None = None
    causes: tuple[tuple[str, str, str], ...] = ()
    more: str = ""


def read_status(body: bytes) -> ApiStatus | UnreadableBody:
    """What a Status body says."""
    wire = decoded(_STATUS, body, "a Status")
    return wire if isinstance(wire, UnreadableBody) else api_status(wire)


def api_status(wire: StatusWire) -> ApiStatus:
    """What a Status says that was decoded already."""
    details = wire.details or _Details()
    seconds = details.retry_after_seconds
    return ApiStatus(
        wire.code,
        escaped(wire.reason or "", WHY_MAX),
        escaped(wire.message or "", TEXT_MAX),
        seconds * 1000 if seconds is not None and 0 < seconds <= _RETRY_MAX_S else None,
        tuple(
            [
                (escaped(cause.reason or ""), escaped(cause.field or ""), escaped(cause.message or "", TEXT_MAX))
                for cause in details.causes or ()
            ]
        ),
        (wire.metadata.more if wire.metadata is not None else None) or "",
    )


def message_of(answer: ApiAnswer) -> str:
    """What a refusal says, in one line: the message of its Status, or the HTTP status in words."""
    status = read_status(answer.body) if answer.body else UnreadableBody("")
    message = "" if isinstance(status, UnreadableBody) else status.message
    return message or f"{answer.status} {responses.get(answer.status, 'without a word')}"


def call_failure(answer: ApiAnswer, verb: str, path: str, query: Query = (), host: str = "") -> CallFailure:
    """The failure that an answer stands for which is not a success. ``verb``: of RBAC, as the call was made with.

    The text is that of the exception that Spark's client throws: what was asked, the server's message, and the Status as
    it prints it. A body that is no Status adds nothing but the HTTP status in words.
    """
    url = host + path + ("?" + urlencode(query) if query else "")
    text = f"Failure executing: {METHODS.get(verb, verb)} at: {url}."
    wire: StatusWire | UnreadableBody = UnreadableBody("")
    if answer.body:
        wire = decoded(_STATUS, answer.body, "a Status")
    if isinstance(wire, UnreadableBody):
        words = responses.get(answer.status, "")
        text = f"{text} Message: {words}." if words else text
        return CallFailure(answer.status, text, retry_after_ms=answer.retry_after_ms)
    if wire.message:
        text += f" Message: {wire.message}."
    text = escaped(f"{text} Received status: {_as_java(wire, answer.status)}.", TEXT_MAX)
    retry_after = answer.retry_after_ms if answer.retry_after_ms is not None else api_status(wire).retry_after_ms
    return CallFailure(answer.status, text, retry_after_ms=retry_after)


def no_answer(why: str, verb: str, kind: str, name: str | None, namespace: str) -> CallFailure:
    """The failure of a call without an answer, or without one that can be read, and why. ``kind``: as Pod."""
    operation = f"Operation: [{verb}]  for kind: [{kind}]  with name: [{name or 'null'}]  in namespace: [{namespace}]"
    return CallFailure(None, f"{operation}  failed. Reason: {escaped(why, WHY_MAX)}")


_NONE: Final = "additionalProperties={}"


def _as_java(status: StatusWire, code: int) -> str:
    """Status.toString() of fabric8's model; the code of the answer where the Status has none."""
    meta = "null"
    if status.metadata is not None:
        more, version = status.metadata.more, status.metadata.resource_version
        meta = (
            f"ListMeta(_continue={_or_null(more)}, remainingItemCount={_or_null(status.metadata.remaining_item_count)}, "
            f"resourceVersion={_or_null(version)}, selfLink=null, {_NONE})"
        )
    return (
        f"Status(apiVersion={status.api_version or 'v1'}, code={code if status.code is None else status.code}, "
        f"details={_details_as_java(status.details)}, kind={status.kind or 'Status'}, "
        f"message={_or_null(status.message)}, metadata={meta}, reason={_or_null(status.reason)}, "
        f"status={_or_null(status.status)}, {_NONE})"
    )


def _details_as_java(details: _Details | None) -> str:
    if details is None:
        return "null"
    causes = ", ".join(
        [
            f"StatusCause(field={_or_null(cause.field)}, message={_or_null(cause.message)}, "
            f"reason={_or_null(cause.reason)}, {_NONE})"
            for cause in details.causes or ()
        ]
    )
    return (
        f"StatusDetails(causes=[{causes}], group={_or_null(details.group)}, kind={_or_null(details.kind)}, "
        f"name={_or_null(details.name)}, retryAfterSeconds={_or_null(details.retry_after_seconds)}, "
        f"uid={_or_null(details.uid)}, {_NONE})"
    )


def _or_null(value: object) -> str:
    return "null" if value is None else str(value)
