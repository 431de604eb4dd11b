"""What the API server says when it refuses, in the words of the exception that Spark's client makes of it."""

from __future__ import annotations

from typing import Final

from podtide.domain.base.units import Millis
from podtide.domain.fakes.kubernetes.description import Fault, Verb
from podtide.domain.fakes.kubernetes.rows import Call
from podtide.domain.fakes.kubernetes.tables import ClusterTables
from podtide.domain.protocol import pod_commands
from podtide.domain.protocol.pod_stimuli import CallFailure, Outcome

_POD, _CLAIM, _CONFIG = "pods", "persistentvolumeclaims", "configmaps"
_WORDS: Final = {
    "pods": "Pod", "persistentvolumeclaims": "PersistentVolumeClaim", "configmaps": "ConfigMap",
    "services": "Service", "statefulsets": "StatefulSet", "deployments": "Deployment",
}  # fmt: skip
_METHODS: Final = {
    Verb.CREATE: "POST", Verb.DELETE: "DELETE", Verb.GET: "GET", Verb.LIST: "GET", Verb.PATCH: "PATCH",
    Verb.SCALE: "PUT",
}  # fmt: skip
REASONS: Final = {
    400: "BadRequest", 401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 409: "Conflict", 410: "Expired",
    422: "Invalid", 429: "TooManyRequests", 500: "InternalError", 503: "ServiceUnavailable", 504: "Timeout",
}  # fmt: skip


def request(command: Call) -> tuple[Verb, str]:
    """What a command asks of the API: the verb and the resource."""
    match command:
        case pod_commands.CreatePod():
            return Verb.CREATE, _POD
        case pod_commands.CreateClaim():
            return Verb.CREATE, _CLAIM
        case pod_commands.CreateSet():
            return Verb.CREATE, f"{command.kind}s"
        case pod_commands.CreateConfigMap():
            return Verb.CREATE, _CONFIG
        case pod_commands.DeletePods() | pod_commands.DeletePod():
            return Verb.DELETE, _POD
        case pod_commands.DeleteSet():
            return Verb.DELETE, f"{command.kind}s"
        case pod_commands.DeleteOwned():
            return Verb.DELETE, command.kind
        case pod_commands.ListClaims():
            return Verb.LIST, _CLAIM
        case pod_commands.ListPods():
            return Verb.LIST, _POD
        case pod_commands.GetDriverPod():
            return Verb.GET, _POD
        case pod_commands.ScaleSet():
            return Verb.SCALE, f"{command.kind}s"
        case pod_commands.ResizeClaim():
            return Verb.PATCH, _CLAIM
        case (
            pod_commands.MarkInactive()
            | pod_commands.MarkPods()
            | pod_commands.AssignExecutorId()
            | pod_commands.ResizePod()
        ):
            return Verb.PATCH, _POD


def pod_name(tables: ClusterTables, executor: object) -> str:
    """The name of an executor's pod under the direct allocator."""
    return f"{tables.plan.app.prefix}-exec-{executor}"


def absent(tables: ClusterTables, command: Call, name: str) -> Outcome:
    """404: what the call is about is not there."""
    verb, resource = request(command)
    message = f'{_qualified(resource)} "{name}" not found'
    return Outcome(0, command.serial, refusal(tables, 404, message, verb, resource, name))


def already_there(tables: ClusterTables, command: Call, name: str) -> Outcome:
    """409: the name is taken."""
    verb, resource = request(command)
    failure = refusal(
        tables, 409, f'{_qualified(resource)} "{name}" already exists', verb, resource, name, "AlreadyExists"
    )
    return Outcome(0, command.serial, failure)


def _qualified(resource: str) -> str:
    return f"{resource}.apps" if resource in {"statefulsets", "deployments"} else resource


def refusal(
    tables: ClusterTables, status: int, message: str, verb: Verb, resource: str, name: str, reason: str | None = None,
    retry_after_ms: Millis | None = None,
) -> CallFailure:  # fmt: skip
    """A refusal with the text of the exception that fabric8's client makes of a Status."""
    group = "apis/apps/v1" if resource in {"statefulsets", "deployments"} else "api/v1"
    path = f"https://kubernetes.default.svc/{group}/namespaces/{tables.plan.app.namespace}/{resource}"
    if verb is not Verb.CREATE and name:
        path += f"/{name}"
    if verb is Verb.SCALE:
        path += "/scale"
    reason = reason or REASONS.get(status, "Unknown")
    text = (
        f"Failure executing: {_METHODS[verb]} at: {path}. Message: {message}. Received status: Status(apiVersion=v1, "
        f"code={status}, details=null, kind=Status, message={message}, metadata=ListMeta(_continue=null, "
        "remainingItemCount=null, resourceVersion=null, selfLink=null, additionalProperties={}), "
        f"reason={reason}, status=Failure, additionalProperties={{}})."
    )
    return CallFailure(status, text, retry_after_ms=retry_after_ms)


def _target(tables: ClusterTables, command: Call) -> str:
    match command:
        case pod_commands.CreatePod():
            return pod_name(tables, command.executor)
        case pod_commands.CreateClaim():
            return command.claim.name
        case (
            pod_commands.CreateSet()
            | pod_commands.ScaleSet()
            | pod_commands.DeleteSet()
            | pod_commands.DeletePod()
            | pod_commands.MarkInactive()
            | pod_commands.GetDriverPod()
        ):
            return command.name
        case pod_commands.AssignExecutorId() | pod_commands.ResizePod():
            return command.pod
        case pod_commands.ResizeClaim():
            return command.claim
        case _:
            return ""


def failure_of(tables: ClusterTables, fault: Fault, command: Call, verb: Verb, resource: str) -> CallFailure:
    """How a call fails that a fault of the description hit."""
    name = _target(tables, command)
    if fault.status is None:
        word = _WORDS.get(resource, resource)
        text = (
            f"Operation: [{verb.value}]  for kind: [{word}]  with name: [{name or 'null'}]  "
            f"in namespace: [{tables.plan.app.namespace}]  failed."
        )
        return CallFailure(None, text)
    message = fault.message or _usual(tables, fault.status, verb, resource, name)
    return refusal(tables, fault.status, message, verb, resource, name, retry_after_ms=fault.retry_after_ms)


def _usual(tables: ClusterTables, status: int, verb: Verb, resource: str, name: str) -> str:
    """What an API server says when it refuses with this status."""
    namespace = tables.plan.app.namespace
    match status:
        case 403:
            who = f"system:serviceaccount:{namespace}:spark"
            what = f'{_qualified(resource)} "{name}" is forbidden' if name else f"{_qualified(resource)} is forbidden"
            return (
                f'{what}: User "{who}" cannot {verb.value} resource "{resource}" in API group "" '
                f'in the namespace "{namespace}"'
            )
        case 404:
            return f'{_qualified(resource)} "{name}" not found'
        case 409:
            # The quota controller wrote at the same moment: what creates run into on a busy namespace.
            what, whose = ("resourcequotas", "executors") if verb is Verb.CREATE else (_qualified(resource), name)
            return (
                f'Operation cannot be fulfilled on {what} "{whose}": the object has been modified; '
                "please apply your changes to the latest version and try again"
            )
        case 422:
            return f'{_WORDS.get(resource, resource)} "{name}" is invalid: spec: Invalid value'
        case 429:
            return "Too many requests, please try again later"
        case 500:
            return "Internal error occurred: etcdserver: request timed out"
        case 503:
            return "the server is currently unable to handle the request"
        case 504:
            return "Timeout: request did not complete within requested timeout"
        case _:
            return f"the server responded with the status code {status}"
