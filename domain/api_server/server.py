"""The API server's one function: ``step(state, request, now) -> ApiStep``.

A request is routed by its path and method, as kube-apiserver's, and runs on a working copy of the state. What it changes is
followed by the controllers' work (``controllers.settle``). A refusal throws all of it away and becomes the answer; so does a
dry run, but for the answer. Query parameters that are not known are refused, for they would be ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeAlias, assert_never

from podtide.domain.api_server import reads, scales, writes
from podtide.domain.api_server.controllers.settle import retry_due, settle
from podtide.domain.api_server.discovery import discovered
from podtide.domain.api_server.json_values import FrozenObject, Json, at, drop, frozen, put, words
from podtide.domain.api_server.kinds import BY_RESOURCE, NAMESPACES, PODS, ApiKind
from podtide.domain.api_server.messages import (
    ApiResponse,
    ApiStimulus,
    ClockTick,
    HttpRequest,
    LogRequest,
    WatchEnded,
    WatchEvent,
    WatchSent,
)
from podtide.domain.api_server.patches import request_patches as patches
from podtide.domain.api_server.patches.apply import APPLY_PATCH, FieldManager, applied, check_config
from podtide.domain.api_server.state import EVERYWHERE, ApiConfig, ApiState, Books
from podtide.domain.api_server.statuses import (
    ApiRefusal,
    bad_request,
    failure,
    invalid,
    no_such_method,
    no_such_path,
    not_allowed,
    not_found,
    not_one_of,
    required,
    success,
    unsupported,
    wrong,
)
from podtide.domain.api_server.table_views import row_of, table, wants_table
from podtide.domain.base.units import NEVER, Millis

_READ: Final = frozenset({"pretty", "resourceVersion", "resourceVersionMatch", "timeoutSeconds"})
_SELECT: Final = frozenset({"labelSelector", "fieldSelector"})
_LIST: Final = _READ | _SELECT | {"limit", "continue"}
_WATCH: Final = _READ | _SELECT | {"watch", "allowWatchBookmarks", "sendInitialEvents", "limit"}
_INCLUDES: Final = ("None", "Metadata", "Object")
_WRITE: Final = frozenset({"pretty", "dryRun", "fieldManager", "fieldValidation"})
_DELETE: Final = frozenset({"pretty", "dryRun", "gracePeriodSeconds", "propagationPolicy", "orphanDependents"})
_LOG: Final = words(
    "pretty container follow previous sinceSeconds sinceTime timestamps tailLines limitBytes "
    "insecureSkipTLSVerifyBackend"
)
_VALIDATIONS: Final = ("Ignore", "Strict", "Warn")
_TRUE: Final = frozenset({"true", "1"})
_MEDIA: Final = (patches.JSON_PATCH, patches.MERGE_PATCH, patches.STRATEGIC_PATCH, APPLY_PATCH)

Answer: TypeAlias = ApiResponse | LogRequest


class ApiStep(NamedTuple):
    """The state after a step, the answer (None to what is no request), and what watches are sent, in order."""

    state: ApiState
    response: Answer | None
    events: tuple[WatchEvent, ...]


class RequestTarget(NamedTuple):
    """What a path names; ``namespace`` is EVERYWHERE for all of them, ``name`` empty for a collection."""

    kind: ApiKind
    namespace: str
    name: str = ""
    subresource: str = ""


def begin(config: ApiConfig, now: Millis) -> ApiState:
    """A server with the namespaces that every cluster has, and nothing else."""
    books = Books(ApiState(config), now)
    for name in ("default", "kube-system", "kube-public", "kube-node-lease"):
        writes.create(books, NAMESPACES, "", {"metadata": {"name": name}})
    return books.state()


def step(state: ApiState, request: ApiStimulus, now: Millis) -> ApiStep:
    """Take one request, or what else happened."""
    books = Books(state, now)
    match request:
        case HttpRequest():
            return _answered(state, books, request)
        case WatchEnded():
            if request.watch in books.watches:
                books.close_watch(request.watch)
            return ApiStep(books.state(), None, ())
        case ClockTick():
            settle(books)
            reads.tick(books)
            return ApiStep(books.state(), None, tuple(books.sent))
        case _:
            assert_never(request)


def due(state: ApiState) -> Millis:
    """The earliest time at which a tick does something."""
    moments = [min(row.ends, row.bookmark_at if row.bookmarks else NEVER) for row in state.watches.values()]
    return min(*moments, retry_due(state), NEVER)


def event_json(event: WatchSent, state: ApiState, now: Millis) -> FrozenObject:
    """The line of a watch that a client reads."""
    item = event.item
    row = state.watches.get(event.watch)
    if event.as_table and event.type != "ERROR" and "uid" in item["metadata"]:
        kind = row.kind if row is not None else BY_RESOURCE[_resource_of(item)]
        item = row_of(kind, item, now)
    return FrozenObject(type=event.type, object=item)


def _resource_of(item: FrozenObject) -> str:
    return next(
        name
        for name, kind in BY_RESOURCE.items()
        if (kind.kind, kind.api_version) == (item["kind"], item["apiVersion"])
    )


def _answered(state: ApiState, books: Books, request: HttpRequest) -> ApiStep:
    try:
        answer, dry = _route(books, request)
    except ApiRefusal as refusal:
        return ApiStep(state, ApiResponse(refusal.code, refusal.status), ())
    if dry:
        return ApiStep(state, answer, ())
    settle(books)
    return ApiStep(books.state(), answer, tuple(books.sent))


def _route(books: Books, request: HttpRequest) -> tuple[Answer, bool]:
    """The answer, and whether the request only wanted to know it."""
    if request.method == "GET":
        found = discovered(request.path, books.config.version)
        if found is not None:
            return ApiResponse(200, found), False
    target = _target(request.path)
    query = dict(request.query)
    dry = books.dry = _dry(request)
    # As apiserver's managerOrUserAgent: the first word of the agent, without its version.
    books.manager = query.get("fieldManager") or request.agent.partition("/")[0][:128] or "unknown"
    if target.subresource in {"binding", "eviction", "log"}:
        return _special(books, target, request, query), dry
    match request.method, bool(target.name):
        case "GET", True:
            return _get(books, target, request, query), dry
        case "GET", False:
            return _collection(books, target, request, query), dry
        case "POST", False if target.namespace != EVERYWHERE:
            _known(query, _WRITE)
            return ApiResponse(201, writes.create(books, target.kind, target.namespace, request.body)), dry
        case "PUT", True:
            _known(query, _WRITE)
            return _put(books, target, request), dry
        case "PATCH", True:
            return _patch(books, target, request, query), dry
        case "DELETE", True if not target.subresource:
            _known(query, _DELETE)
            item = writes.existing(books, target.kind, target.namespace, target.name)
            options = writes.delete_options(request.body, query)
            return ApiResponse(200, writes.delete(books, target.kind, item, options)), dry
        case "DELETE", False if target.namespace != EVERYWHERE:
            return _delete_collection(books, target, request, query), dry
    raise no_such_method()


def _target(path: str) -> RequestTarget:
    """What a path names, or 404."""
    parts = path.strip("/").split("/")
    if parts[:2] == ["api", "v1"]:
        group, parts = "", parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, version, parts = parts[1], parts[2], parts[3:]
        if version != "v1":
            raise no_such_path()
    else:
        raise no_such_path()
    namespace = EVERYWHERE
    if len(parts) > 2 and parts[0] == "namespaces" and (parts[2] not in NAMESPACES.subresources):
        namespace, parts = parts[1], parts[2:]
    kind = BY_RESOURCE.get(f"{parts[0]}.{group}" if group else parts[0])
    if kind is None or len(parts) > 3 or not all(parts):
        raise no_such_path()
    if not kind.namespaced:
        if namespace != EVERYWHERE:
            raise no_such_path()
        namespace = ""
    target = RequestTarget(kind, namespace, *parts[1:])
    if target.name and namespace == EVERYWHERE:
        raise no_such_path()
    if target.subresource and target.subresource not in kind.subresources:
        raise no_such_path()
    return target


def _known(query: Mapping[str, str], names: frozenset[str]) -> None:
    """Refuse parameters that this server does not know, or cannot keep the promise of."""
    for name in query:
        if name not in names:
            raise unsupported(f"the query parameter {name} here")
    # What is not known is always refused (``rules.shapes``), so that all of them mean the same.
    check = query.get("fieldValidation")
    if check and check not in _VALIDATIONS:
        raise invalid("meta.k8s.io", "CreateOptions", "", [not_one_of("fieldValidation", check, _VALIDATIONS)])


def _dry(request: HttpRequest) -> bool:
    wanted = {value for name, value in request.query if name == "dryRun"}
    body = request.body
    if request.method == "DELETE" and isinstance(body, dict):
        stages = body.get("dryRun") or []
        if not isinstance(stages, list | tuple) or not all(isinstance(stage, str) for stage in stages):
            raise bad_request("dryRun is no list of texts")
        wanted |= set(stages)
    for value in sorted(wanted - {"All"}):
        fault = not_one_of("dryRun", value, ["All"])
        raise invalid("meta.k8s.io", "CreateOptions", "", [fault])
    return bool(wanted)


# reading


def _get(books: Books, target: RequestTarget, request: HttpRequest, query: dict[str, str]) -> ApiResponse:
    _known(query, _READ | {"includeObject"})
    reads.check_version(books, query)
    if target.subresource == "scale":
        return ApiResponse(200, scales.read_scale(books, target.kind, target.namespace, target.name))
    item = writes.existing(books, target.kind, target.namespace, target.name)
    if wants_table(request.accept):
        item = row_of(target.kind, item, books.now, _included(query))
    return ApiResponse(200, item)


def _collection(books: Books, target: RequestTarget, request: HttpRequest, query: dict[str, str]) -> ApiResponse:
    scope = reads.scope_of(target.kind, target.namespace, query)
    as_table = wants_table(request.accept)
    if query.get("watch", "").lower() in _TRUE:
        _known(query, _WATCH)
        return reads.open_watch(books, scope, query, as_table=as_table)
    # A plain list may say watch=false, and be asked for bookmarks that it has no use for.
    _known(query, _LIST | {"watch", "allowWatchBookmarks", "includeObject"})
    answer = reads.read_list(books, scope, query)
    if not as_table:
        return answer
    assert isinstance(answer.body, FrozenObject)
    body = answer.body
    return ApiResponse(200, table(target.kind, body["items"], body["metadata"], books.now, _included(query)))


def _included(query: dict[str, str]) -> str:
    """What of each object a Table is to hold."""
    wanted = query.get("includeObject") or "Metadata"
    if wanted not in _INCLUDES:
        raise bad_request(f"includeObject {wanted}: one of {', '.join(_INCLUDES)}")
    return wanted


# writing


def _put(books: Books, target: RequestTarget, request: HttpRequest) -> ApiResponse:
    kind, namespace, name = target.kind, target.namespace, target.name
    if target.subresource == "scale":
        old = writes.existing(books, kind, namespace, name)
        return ApiResponse(200, scales.change_scale(books, kind, old, request.body))
    item = writes.readable(kind, request.body)
    writes.check_place(item, namespace, name)
    old_or_none = books.find(kind, namespace, name)
    if old_or_none is None and kind.put_creates:
        return ApiResponse(201, writes.create(books, kind, namespace, drop(item, ("metadata", "resourceVersion"))))
    old = writes.existing(books, kind, namespace, name)
    return ApiResponse(200, writes.change(books, kind, old, item, target.subresource))


def _patch(books: Books, target: RequestTarget, request: HttpRequest, query: dict[str, str]) -> ApiResponse:
    if request.content_type == APPLY_PATCH:
        return _apply(books, target, request, query)
    if "force" in query:
        fault = not_allowed("force", "may not be specified for non-apply patch")
        raise invalid("meta.k8s.io", "PatchOptions", "", [fault])
    _known(query, _WRITE)
    old = writes.existing(books, target.kind, target.namespace, target.name)
    patch = frozen(request.body)
    if request.content_type not in _MEDIA:
        message = "the body of the request was in an unknown format - accepted media types include: " + ", ".join(
            _MEDIA
        )
        raise failure(415, "UnsupportedMediaType", message, {})
    if request.content_type != patches.JSON_PATCH and not isinstance(patch, FrozenObject):
        raise bad_request("error decoding patch: json: cannot unmarshal into Go value of type map[string]interface {}")
    shown = scales.scale_of(old) if target.subresource == "scale" else old
    match request.content_type:
        case patches.JSON_PATCH:
            made = patches.patched(shown, patch)
        case patches.MERGE_PATCH:
            made = patches.merged(shown, patch)
        case _:
            made = patches.strategically_merged(shown, patch)
    if target.subresource == "scale":
        return ApiResponse(200, scales.change_scale(books, target.kind, old, made))
    item = writes.readable(target.kind, made)
    if item["metadata"].get("uid") != old["metadata"]["uid"]:
        raise _immutable_uid(target, item)
    return ApiResponse(200, writes.change(books, target.kind, old, item, target.subresource))


def _apply(books: Books, target: RequestTarget, request: HttpRequest, query: dict[str, str]) -> ApiResponse:
    """Server-side apply: makes the object where there is none."""
    _known(query, _WRITE | {"force"})
    kind = target.kind
    if not query.get("fieldManager"):
        raise invalid("meta.k8s.io", "PatchOptions", "", [required("fieldManager", "is required for apply patch")])
    if target.subresource not in {"", "status"}:
        raise unsupported(f"server-side apply of {kind.plural}/{target.subresource}")
    config = writes.readable(kind, check_config(frozen(request.body), kind.api_version))
    name = config["metadata"].get("name", target.name)
    writes.check_place(put(config, ("metadata", "name"), name), target.namespace, target.name)
    if kind.has_status:
        # Of the object itself the status is left alone, of its status all else.
        mine = {"apiVersion", "kind", "metadata", "status"} if target.subresource else config.keys() - {"status"}
        config = FrozenObject({field: value for field, value in config.items() if field in mine})
    old = books.find(kind, target.namespace, target.name)
    if old is None and target.subresource:
        raise not_found(kind, target.name)
    if old is None and not at(config, ("metadata", "name")):
        why = f"the name of the object ({target.name} based on URL) was undeterminable: name must be provided"
        raise bad_request(why)
    manager = FieldManager(query["fieldManager"], "Apply", kind.api_version, target.subresource)
    force = query.get("force", "").lower() in _TRUE
    made, managers = applied(old, put(config, ("metadata", "name"), name), manager, books.time, force=force)
    if old is None:
        return ApiResponse(201, writes.create(books, kind, target.namespace, made, managers))
    if made["metadata"].get("uid") != old["metadata"]["uid"]:
        raise _immutable_uid(target, made)
    return ApiResponse(200, writes.change(books, kind, old, made, target.subresource, managers))


def _immutable_uid(target: RequestTarget, item: FrozenObject) -> ApiRefusal:
    fault = wrong("metadata.uid", item["metadata"].get("uid", ""), "field is immutable")
    return invalid(target.kind.group, target.kind.kind, target.name, [fault])


def _delete_collection(books: Books, target: RequestTarget, request: HttpRequest, query: dict[str, str]) -> ApiResponse:
    _known(query, _DELETE | _LIST)
    if query.get("limit") or query.get("continue"):
        raise unsupported("pages of a collection delete")
    scope = reads.scope_of(target.kind, target.namespace, query)
    options = writes.delete_options(request.body, query)
    items = list(reads.selected(books.tables, scope))
    for item in items:
        writes.delete(books, target.kind, item, options)
    metadata: dict[str, Any] = {"resourceVersion": str(books.revision)}
    return ApiResponse(200, reads.list_of(target.kind, items, metadata))


# what pods can do besides


def _special(books: Books, target: RequestTarget, request: HttpRequest, query: dict[str, str]) -> Answer:
    if target.subresource == "log":
        if request.method != "GET":
            raise no_such_method()
        return _log(books, target, query)
    if request.method != "POST":
        raise no_such_method()
    _known(query, _WRITE)
    if target.subresource == "binding":
        return ApiResponse(201, writes.bind(books, target.namespace, target.name, request.body))
    # There are no disruption budgets here, so an eviction is a deletion that answers otherwise.
    pod = writes.existing(books, PODS, target.namespace, target.name)
    body: Json = frozen(request.body)
    if at(body, ("metadata", "name")) != target.name:
        raise bad_request("name in URL does not match name in Eviction object")
    options = writes.delete_options(at(body, ("deleteOptions",)), {})
    writes.delete(books, PODS, pod, options)
    return ApiResponse(201, success(code=201))


def _log(books: Books, target: RequestTarget, query: dict[str, str]) -> Answer:
    _known(query, _LOG)
    pod = writes.existing(books, PODS, target.namespace, target.name)
    names = [one["name"] for field in ("initContainers", "containers") for one in pod["spec"].get(field) or ()]
    choices = [one["name"] for one in pod["spec"]["containers"]]
    container = query.get("container", "")
    if not container and len(choices) > 1:
        raise bad_request(
            f"a container name must be specified for pod {target.name}, choose one of: [{' '.join(choices)}]"
        )
    container = container or choices[0]
    if container not in names:
        raise bad_request(f"container {container} is not valid for pod {target.name}")
    node = at(pod, ("spec", "nodeName"))
    if not node:
        return ApiResponse(200, "")
    options = tuple((name, value) for name, value in query.items() if name not in {"container", "pretty"})
    return LogRequest(node, target.namespace, target.name, container, options)
