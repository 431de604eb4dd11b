"""Get, list and watch: at the newest version or an older one, whole or page by page.

A list goes through names in their order and stops at its limit. Where the selector asks for the value of a label, only those
that carry it are looked at. A continue token is the real server's: the version of the first page and the last name.
"""

from __future__ import annotations

import binascii
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from podtide.domain.api_server.json_values import FrozenObject
from podtide.domain.api_server.kinds import ApiKind
from podtide.domain.api_server.messages import ApiResponse, WatchOver, WatchSent
from podtide.domain.api_server.selectors import Selection, selection
from podtide.domain.api_server.state import EVERYWHERE, Books, ObjectTables, WatchRow, namespaces
from podtide.domain.api_server.statuses import (
    FieldFault,
    bad_request,
    failure,
    gone,
    invalid,
    not_allowed,
    not_one_of,
    too_large,
    unsupported,
)

_CONTINUE_VERSION: Final = "meta.k8s.io/v1"
_TOO_OLD_PAGE: Final = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without the "
    "continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing "
    "with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the "
    "time the first chunk was returned and now may show up in the list."
)
_INCONSISTENT: Final = -1


class Scope(NamedTuple):
    """What a request of a collection is about; ``namespace`` is EVERYWHERE for all, empty for kinds without."""

    kind: ApiKind
    namespace: str
    chosen: Selection


def scope_of(kind: ApiKind, namespace: str, query: dict[str, str]) -> Scope:
    """The collection that a query selects."""
    return Scope(kind, namespace, selection(kind, query.get("labelSelector", ""), query.get("fieldSelector", "")))


def selected(tables: ObjectTables, scope: Scope, start: tuple[str, str] = ("", "")) -> Iterator[FrozenObject]:
    """What a scope holds, in the order of lists, after the (namespace, name) ``start``."""
    places = namespaces(tables) if scope.namespace == EVERYWHERE else (scope.namespace,)
    for place in places:
        if place + "/" < start[0] + "/" and start[1]:
            continue
        names = tables.objects.get((scope.kind.resource, place))
        if names is None:
            continue
        for name in sorted(_candidates(tables, scope, place)):
            if place == start[0] and name <= start[1]:
                continue
            item = names[name]
            if scope.chosen.matches(item):
                yield item


def _candidates(tables: ObjectTables, scope: Scope, place: str) -> Any:
    """The fewest names that an index can tell; all where none can."""
    fewest = tables.objects[scope.kind.resource, place]
    name_wanted = next((f.value for f in scope.chosen.fields if f.path == ("metadata", "name") and f.equal), None)
    if name_wanted is not None:
        return (name_wanted,) if name_wanted in fewest else ()
    for need in scope.chosen.labels:
        if need.operator == "in":
            carriers = [tables.labels.get((scope.kind.resource, place, need.key, value), ()) for value in need.values]
            if sum(map(len, carriers)) < len(fewest):
                fewest = [name for names in carriers for name in names]  # type: ignore[assignment]
    return fewest


# lists


def read_list(books: Books, scope: Scope, query: dict[str, str]) -> ApiResponse:
    """The answer to a list."""
    limit = integer(query.get("limit", "")) or 0
    token = query.get("continue", "")
    version, exact = _asked_version(books, query)
    start = ("", "")
    revision = books.revision
    if token:
        if version:
            raise bad_request("specifying resource version is not allowed when using continue")
        revision, start = _opened(books, scope, token)
    elif exact and version:
        revision = version
        if revision != books.revision and revision not in books.history:
            raise gone(revision, books.oldest + 1)
    tables = books.tables if revision in {books.revision, _INCONSISTENT} else books.history[revision].tables
    revision = books.revision if revision == _INCONSISTENT else revision
    items: list[FrozenObject] = []
    more = False
    for item in selected(tables, scope, start):
        if limit and len(items) == limit:
            more = True
            break
        items.append(item)
    metadata: dict[str, Any] = {"resourceVersion": str(revision)}
    if more:
        metadata["continue"] = _token(revision, scope, items[-1]["metadata"])
        if not scope.chosen.labels and not scope.chosen.fields:
            whole = sum(1 for _ in selected(tables, scope, _place(items[-1]["metadata"])))
            metadata["remainingItemCount"] = whole
    return ApiResponse(200, list_of(scope.kind, items, metadata))


def list_of(kind: ApiKind, items: list[FrozenObject], metadata: dict[str, Any]) -> FrozenObject:
    """A list object; its items carry no kind, as the real server's do not."""
    return FrozenObject(
        {
            "kind": f"{kind.kind}List",
            "apiVersion": kind.api_version,
            "metadata": FrozenObject(metadata),
            "items": tuple(_bare(item) for item in items),
        }
    )


def _bare(item: FrozenObject) -> FrozenObject:
    return FrozenObject({name: value for name, value in item.items() if name not in {"kind", "apiVersion"}})


def check_version(books: Books, query: dict[str, str]) -> None:
    """Refuse a get at a version that is not there yet."""
    _asked_version(books, query)


def integer(text: str) -> int | None:
    """A number of a query; None where there is none."""
    if not text:
        return None
    digits = text[1:] if text[0] in "+-" else text
    if not digits.isascii() or not digits.isdigit() or len(digits) > 18:
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    return int(text)


def _version(text: str) -> int:
    if not text:
        return 0
    if not (text.isascii() and text.isdigit()) or len(text) > 19:
        why = f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": invalid syntax'
        raise failure(500, "", why)
    return int(text)


def _asked_version(books: Books, query: dict[str, str]) -> tuple[int, bool]:
    """The version that a request asks for (0 for none), and whether it wants exactly that."""
    text, match = query.get("resourceVersion", ""), query.get("resourceVersionMatch", "")
    field, faults = "resourceVersionMatch", list[FieldFault]()
    if match and not text:
        faults.append(not_allowed(field, f"{field} is forbidden unless resourceVersion is provided"))
    elif match and query.get("continue"):
        faults.append(not_allowed(field, f"{field} is forbidden when continue is provided"))
    elif match not in {"", "Exact", "NotOlderThan"}:
        faults.append(not_one_of(field, match, ["Exact", "NotOlderThan", ""]))
    elif match == "Exact" and text == "0":
        faults.append(not_allowed(field, f'{field} "exact" is forbidden for resourceVersion "0"'))
    if faults:
        raise invalid("meta.k8s.io", "ListOptions", "", faults)
    revision = _version(text)
    if revision > books.revision:
        raise too_large(revision, books.revision)
    # As the real server: with a limit and no match, a version other than 0 is taken as exact.
    legacy = not match and bool(integer(query.get("limit", ""))) and revision > 0
    return revision, match == "Exact" or legacy


def _token(revision: int, scope: Scope, last: FrozenObject) -> str:
    namespace, name = _place(last)
    start = f"{namespace}/{name}\0" if scope.namespace == EVERYWHERE else f"{name}\0"
    text = json.dumps({"v": _CONTINUE_VERSION, "rv": revision, "start": start}, separators=(",", ":"))
    return urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _place(metadata: FrozenObject) -> tuple[str, str]:
    return metadata.get("namespace", ""), metadata["name"]


def _opened(books: Books, scope: Scope, token: str) -> tuple[int, tuple[str, str]]:
    """A token's version and place; 410 with a fresh token where the version is gone."""
    try:
        fields = json.loads(urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        revision, place, version = fields["rv"], fields["start"], fields["v"]
        known = version == _CONTINUE_VERSION and isinstance(revision, int) and isinstance(place, str)
    except (binascii.Error, ValueError, KeyError, TypeError):
        known = False
    if not known:
        raise bad_request("invalid continue token: continue key is not valid")
    namespace, _, name = place.removesuffix("\0").rpartition("/")
    if scope.namespace != EVERYWHERE:
        namespace = scope.namespace
    if revision not in {_INCONSISTENT, books.revision} and revision not in books.history:
        metadata = FrozenObject({"namespace": namespace, "name": name})
        raise failure(410, "Expired", _TOO_OLD_PAGE, **{"continue": _token(_INCONSISTENT, scope, metadata)})
    return revision, (namespace, name)


# watches


def open_watch(books: Books, scope: Scope, query: dict[str, str], *, as_table: bool) -> ApiResponse:
    """Begin a watch: without a version or at 0 it hears of everything that is there first."""
    if query.get("sendInitialEvents"):
        raise unsupported("sendInitialEvents; list first and watch from the list's resourceVersion")
    if query.get("resourceVersionMatch"):
        fault = not_allowed("resourceVersionMatch", "resourceVersionMatch is forbidden for watch")
        raise invalid("meta.k8s.io", "ListOptions", "", [fault])
    revision = _version(query.get("resourceVersion", ""))
    lasts = 1000 * (integer(query.get("timeoutSeconds", "")) or 0) or books.config.watch_ms
    row = WatchRow(
        kind=scope.kind,
        namespace=scope.namespace,
        selection=scope.chosen,
        after=revision or books.revision,
        bookmarks=query.get("allowWatchBookmarks", "").lower() in {"true", "1"},
        bookmark_at=books.now + books.config.bookmark_every_ms,
        ends=books.now + lasts,
        as_table=as_table,
    )
    number = books.open_watch(row)
    if revision and revision < books.oldest:
        books.sent.append(WatchSent(number, "ERROR", gone(revision, books.oldest).status))
        books.sent.append(WatchOver(number))
        books.close_watch(number)
    elif revision:
        books.replay(number)
    else:
        for item in selected(books.tables, scope):
            books.sent.append(WatchSent(number, "ADDED", item, as_table))
    return ApiResponse(200, None, number)


def tick(books: Books) -> None:
    """Send bookmarks that are due and end watches whose time is over."""
    for number, row in sorted(books.watches.items()):
        if row.ends <= books.now:
            if row.bookmarks:
                books.sent.append(_bookmark(books, number, row))
            books.sent.append(WatchOver(number))
            books.close_watch(number)
        elif row.bookmarks and row.bookmark_at <= books.now:
            books.sent.append(_bookmark(books, number, row))
            books.watches = books.watches.set(
                number, row._replace(bookmark_at=books.now + books.config.bookmark_every_ms)
            )


def _bookmark(books: Books, number: int, row: WatchRow) -> WatchSent:
    # A watch of the future is never told an older version than it asked for.
    version = str(max(books.revision, row.after))
    body = {
        "kind": row.kind.kind,
        "apiVersion": row.kind.api_version,
        "metadata": FrozenObject(resourceVersion=version, creationTimestamp=None),
    }
    return WatchSent(number, "BOOKMARK", FrozenObject(body), row.as_table)
