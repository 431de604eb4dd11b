"""The Status bodies of the real server: what it refuses, in its own words (kube-apiserver 1.20; see the differential test).

A refusal is raised where the fault is known and becomes the answer in ``server.step``; the state stays as it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from podtide.domain.api_server.json_values import FrozenObject, Json, frozen
from podtide.domain.api_server.kinds import ApiKind


class FieldFault(NamedTuple):
    """One cause of a 422: the reason's name, the message that follows the field, the field's path."""

    reason: str
    message: str
    field: str


class ApiRefusal(Exception):
    """A request was refused; ``status`` is the body of the answer."""

    def __init__(self, status: FrozenObject) -> None:
        super().__init__(status["message"])
        self.status = status

    @property
    def code(self) -> int:
        """The HTTP status."""
        code: int = self.status["code"]
        return code


def failure(code: int, reason: str, message: str, details: Json = None, **metadata: str) -> ApiRefusal:
    """A refusal of any kind; ``details`` are left out when None."""
    body: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": metadata, "status": "Failure"}
    body["message"] = message
    if reason:
        body["reason"] = reason
    if details is not None:
        body["details"] = details
    return ApiRefusal(frozen(body | {"code": code}))


def success(details: Json = None, code: int | None = None) -> FrozenObject:
    """What a delete or a binding answers."""
    body: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    if details is not None:
        body["details"] = details
    if code is not None:
        body["code"] = code
    made: FrozenObject = frozen(body)
    return made


def details_of(kind: ApiKind, name: str) -> dict[str, str]:
    """The details that name an object."""
    named = {"name": name} if name else {}
    return named | ({"group": kind.group} if kind.group else {}) | {"kind": kind.plural}


def not_found(kind: ApiKind, name: str) -> ApiRefusal:
    """404: no such object."""
    return failure(404, "NotFound", f'{kind.resource} "{name}" not found', details_of(kind, name))


def no_such_path() -> ApiRefusal:
    """404: nothing is served there."""
    return failure(404, "NotFound", "the server could not find the requested resource", {})


def no_such_method() -> ApiRefusal:
    """405."""
    message = "the server does not allow this method on the requested resource"
    return failure(405, "MethodNotAllowed", message, {})


def bad_request(message: str) -> ApiRefusal:
    """400: what was asked cannot be understood."""
    return failure(400, "BadRequest", message)


def unsupported(what: str) -> ApiRefusal:
    """400: the real server knows this, this one does not."""
    return failure(400, "BadRequest", f"podtide's API server does not support {what}")


def already_exists(kind: ApiKind, name: str, *, ending: bool = False) -> ApiRefusal:
    """409 of a create; ``ending``: what is there is on its way out."""
    message = f'{"object is being deleted: " if ending else ""}{kind.resource} "{name}" already exists'
    return failure(409, "AlreadyExists", message, details_of(kind, name))


def conflict(kind: ApiKind, name: str, why: str = "") -> ApiRefusal:
    """409 of a change; without a reason of its own the object was changed by somebody else."""
    why = why or "the object has been modified; please apply your changes to the latest version and try again"
    message = f'Operation cannot be fulfilled on {kind.resource} "{name}": {why}'
    return failure(409, "Conflict", message, details_of(kind, name))


def forbidden(kind: ApiKind, name: str, why: str, causes: Json = None) -> ApiRefusal:
    """403."""
    details = details_of(kind, name) | ({} if causes is None else {"causes": causes})
    return failure(403, "Forbidden", f'{kind.resource} "{name}" is forbidden: {why}', details)


def invalid(group: str, kind: str, name: str, faults: Sequence[FieldFault]) -> ApiRefusal:
    """422: values that cannot be."""
    texts = [f"{fault.field}: {fault.message}" for fault in faults]
    listing = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    qualified = f"{kind}.{group}" if group else kind
    details = ({"name": name} if name else {}) | ({"group": group} if group else {}) | {"kind": kind}
    causes = [{"reason": fault.reason, "message": fault.message, "field": fault.field} for fault in faults]
    return failure(422, "Invalid", f'{qualified} "{name}" is invalid: {listing}', details | {"causes": causes})


def too_large(revision: int, current: int) -> ApiRefusal:
    """504: a version of the future."""
    causes = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
    message = f"Timeout: Too large resource version: {revision}, current: {current}"
    return failure(504, "Timeout", message, {"causes": causes, "retryAfterSeconds": 1})


def gone(revision: int, oldest: int) -> ApiRefusal:
    """410: a version that is no longer known."""
    return failure(410, "Expired", f"too old resource version: {revision} ({oldest})")


def required(field: str, more: str = "") -> FieldFault:
    """A field that is missing."""
    return FieldFault("FieldValueRequired", f"Required value{': ' if more else ''}{more}", field)


def wrong(field: str, value: Json, why: str) -> FieldFault:
    """A value that cannot be."""
    shown = f'"{value}"' if isinstance(value, str) else str(value)
    return FieldFault("FieldValueInvalid", f"Invalid value: {shown}: {why}", field)


def duplicate(field: str, value: str) -> FieldFault:
    """A value that is there twice."""
    return FieldFault("FieldValueDuplicate", f'Duplicate value: "{value}"', field)


def not_one_of(field: str, value: str, choices: Sequence[str]) -> FieldFault:
    """A value outside of a closed choice."""
    listing = ", ".join(f'"{choice}"' for choice in choices)
    return FieldFault("FieldValueNotSupported", f'Unsupported value: "{value}": supported values: {listing}', field)


def not_allowed(field: str, why: str) -> FieldFault:
    """A change that may not be made."""
    return FieldFault("FieldValueForbidden", f"Forbidden: {why}", field)
