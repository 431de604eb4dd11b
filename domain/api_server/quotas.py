"""Resource quotas: what a namespace holds at most, refused at the create that would exceed it (403), and the books of it.

As the ResourceQuota admission and controller: ``status.used`` follows what is created, changed and removed; a pod that ended
counts for nothing but ``count/pods``. The whole namespace is looked at when a quota is made or its bounds change, never
afterwards. Bounds on anything else than the names below, and scopes, are refused: nobody would enforce them.
"""

from __future__ import annotations

from decimal import Decimal
from math import ceil
from typing import Final, TypeAlias

from podtide.domain.api_server.json_values import EMPTY, FrozenObject, Json, at, put
from podtide.domain.api_server.kinds import KINDS, PODS, QUOTAS, ApiKind
from podtide.domain.api_server.state import Books, ObjectKey, ended, kind_of
from podtide.domain.api_server.statuses import forbidden
from podtide.domain.jvm.quantities import parse_quantity

_COMPUTE: Final = {
    "cpu": ("requests", "cpu"),
    "memory": ("requests", "memory"),
    "requests.cpu": ("requests", "cpu"),
    "requests.memory": ("requests", "memory"),
    "limits.cpu": ("limits", "cpu"),
    "limits.memory": ("limits", "memory"),
}
_UNITS: Final = (("Ei", 2**60), ("Pi", 2**50), ("Ti", 2**40), ("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10))
_TENS: Final = (("E", 10**18), ("P", 10**15), ("T", 10**12), ("G", 10**9), ("M", 10**6), ("k", 10**3))

_COUNTED: Final = frozenset({"configmaps", "persistentvolumeclaims", "pods", "secrets", "services"})
BOUNDS: Final = (
    frozenset(_COMPUTE)
    | _COUNTED
    | {"requests.storage"}
    | {f"count/{kind.resource}" for kind in KINDS if kind.namespaced}
)
"""What a quota may bound."""

Usage: TypeAlias = dict[str, Decimal]


def check(books: Books, kind: ApiKind, item: FrozenObject) -> None:
    """Refuse a new object that one of its namespace's quotas has no room for."""
    quotas = books.names(QUOTAS, item["metadata"].get("namespace", ""))
    if not quotas:
        return
    name, wanted = item["metadata"]["name"], _usage(kind, item)
    for title in sorted(quotas):
        quota = quotas[title]
        hard, used = quota["spec"].get("hard") or EMPTY, at(quota, ("status", "used")) or EMPTY
        unsaid = sorted(bound for bound in hard if kind is PODS and bound in _COMPUTE and not _says(item, bound))
        if unsaid:
            raise forbidden(kind, name, f"failed quota: {title}: must specify {','.join(unsaid)}")
        over = [
            bound
            for bound in sorted(hard)
            if wanted.get(bound, 0) > 0 and _amount(used.get(bound)) + wanted[bound] > _amount(hard[bound])
        ]
        if over:
            requests = ",".join(f"{bound}={_text(wanted[bound], hard[bound])}" for bound in over)
            taken = ",".join(f"{bound}={used.get(bound, '0')}" for bound in over)
            limits = ",".join(f"{bound}={hard[bound]}" for bound in over)
            why = f"exceeded quota: {title}, requested: {requests}, used: {taken}, limited: {limits}"
            raise forbidden(kind, name, why)


def keep_books(books: Books) -> None:
    """Bring ``status.used`` of the quotas concerned up to date with what a step changed since the last time."""
    changes = books.changes[books.counted :]
    books.counted = len(books.changes)
    added: dict[str, Usage] = {}
    bounded: set[ObjectKey] = set()
    for change in changes:
        kind, namespace = kind_of(change.key), change.key.namespace
        if kind is QUOTAS and change.after is not None and _bounds(change.before) != _bounds(change.after):
            bounded.add(change.key)
        if not books.names(QUOTAS, namespace):
            continue
        sums = added.setdefault(namespace, {})
        for item, sign in ((change.before, -1), (change.after, 1)):
            for bound, amount in _usage(kind, item).items():
                sums[bound] = sums.get(bound, Decimal(0)) + sign * amount
    for namespace, sums in added.items():
        for name in sorted(books.names(QUOTAS, namespace)):
            key = ObjectKey(QUOTAS.resource, namespace, name)
            if key not in bounded:
                quota = books.names(QUOTAS, namespace)[name]
                used = {bound: _amount(text) for bound, text in (at(quota, ("status", "used")) or EMPTY).items()}
                _book(books, key, quota, {bound: amount + sums.get(bound, 0) for bound, amount in used.items()})
    for key in sorted(bounded):
        fresh = books.found(key)
        if fresh is not None:
            _book(books, key, fresh, _counted(books, key.namespace))


def _bounds(quota: FrozenObject | None) -> Json:
    return None if quota is None else at(quota, ("spec", "hard"))


def _counted(books: Books, namespace: str) -> Usage:
    """What a namespace holds, by a look at all of it."""
    sums: Usage = {}
    for kind in KINDS:
        if kind.namespaced:
            for item in books.names(kind, namespace).values():
                for bound, amount in _usage(kind, item).items():
                    sums[bound] = sums.get(bound, Decimal(0)) + amount
    return sums


def _book(books: Books, key: ObjectKey, quota: FrozenObject, sums: Usage) -> None:
    hard = quota["spec"].get("hard") or EMPTY
    used = FrozenObject({bound: _text(sums.get(bound, Decimal(0)), hard[bound]) for bound in sorted(hard)})
    status = FrozenObject(hard=hard, used=used)
    if quota.get("status") != status:
        books.write(key, put(quota, ("status",), status))


def _usage(kind: ApiKind, item: FrozenObject | None) -> Usage:
    """What an object takes, by the names of bounds."""
    if item is None:
        return {}
    taken: Usage = {f"count/{kind.resource}": Decimal(1)}
    if kind is PODS and ended(item):
        return taken
    if kind.plural in _COUNTED:
        taken[kind.plural] = Decimal(1)
    if kind is PODS:
        taken |= {bound: _of_pod(item, path) for bound, path in _COMPUTE.items()}
    if kind.plural == "persistentvolumeclaims":
        taken["requests.storage"] = _amount(at(item, ("spec", "resources", "requests", "storage")))
    return taken


def _of_pod(pod: FrozenObject, path: tuple[str, str]) -> Decimal:
    """Containers together, or the largest init container: they run one after the other."""
    side, name = path
    at_once = [_amount(at(one, ("resources", side, name))) for one in pod["spec"].get("containers") or ()]
    before = [_amount(at(one, ("resources", side, name))) for one in pod["spec"].get("initContainers") or ()]
    return max(sum(at_once, Decimal(0)), *before, Decimal(0))


def _says(pod: FrozenObject, bound: str) -> bool:
    side, name = _COMPUTE[bound]
    every = [one for field in ("containers", "initContainers") for one in pod["spec"].get(field) or ()]
    return all(at(one, ("resources", side, name)) is not None for one in every)


def _amount(text: Json) -> Decimal:
    amount = None if text is None else parse_quantity(str(text))
    return Decimal(0) if amount is None else amount


def _text(amount: Decimal, like: Json) -> str:
    """An amount as a quantity of the same kind as another: in powers of two if that is."""
    if amount == 0:
        return "0"
    if amount != amount.to_integral_value():
        return f"{ceil(amount * 1000)}m"
    whole = int(amount)
    for unit, size in _UNITS if str(like).endswith("i") else _TENS:
        if whole % size == 0:
            return f"{whole // size}{unit}"
    return str(whole)
