"""The state of the API server, and one request's work on it.

Every write makes one revision, and the history holds the last ``history_max`` of them: what changed, and the tables as they
were then. So a list at a version reads the tables of that version, and a watch from one replays what came after.

Objects are kept by kind and namespace, then by name. Two indexes keep a request from looking at what it does not touch: by
each label's value within a namespace, and by owner. ``Books`` is one step's working copy; it is thrown away where the step
ends in a refusal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Final, NamedTuple, TypeAlias

from podtide.domain.api_server.hash_trie import HashTrie
from podtide.domain.api_server.json_values import EMPTY, FrozenObject, at, drop, put
from podtide.domain.api_server.kinds import BY_RESOURCE, NAMESPACES, REPLICA_SETS, STATEFUL_SETS, ApiKind
from podtide.domain.api_server.messages import WatchEvent, WatchSent
from podtide.domain.api_server.selectors import Selection
from podtide.domain.base.units import Millis
from podtide.domain.jvm.instants import format_instant

EVERYWHERE: Final = "*"
"""All namespaces: no namespace has this name."""

_NAME_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"

CLAIM_MARK: Final = "claim of a volume"
SELECTOR_MARK: Final = "selector of pods"

_ENDED: Final = frozenset({"Succeeded", "Failed"})
_SELECTING: Final = frozenset({REPLICA_SETS.resource, STATEFUL_SETS.resource})

Names: TypeAlias = HashTrie[str, FrozenObject]
Shelf: TypeAlias = tuple[str, str]
"""A kind's resource and a namespace; the empty one for kinds without."""


class ObjectKey(NamedTuple):
    """Where an object stands."""

    resource: str
    namespace: str
    name: str


class ObjectTables(NamedTuple):
    """All objects of one revision, and the names that carry a label: (resource, namespace, key, value).

    Pods are found by their claims in the same way, under CLAIM_MARK, and sets by one label that their selector asks for
    (empty where it asks for none), under SELECTOR_MARK: no label can be called that.
    """

    objects: HashTrie[Shelf, Names] = HashTrie()
    labels: HashTrie[tuple[str, str, str, str], HashTrie[str, None]] = HashTrie()


NOTHING: Final = ObjectTables()


class ApiChange(NamedTuple):
    """One revision: ``before`` is None for a new object, ``after`` for one that went."""

    key: ObjectKey
    before: FrozenObject | None
    after: FrozenObject | None
    tables: ObjectTables
    """As they were after it."""


class WatchRow(NamedTuple):
    """An open watch: revisions up to ``after`` are not sent; it ends at ``ends``."""

    kind: ApiKind
    namespace: str
    selection: Selection
    after: int
    bookmarks: bool
    bookmark_at: Millis
    ends: Millis
    as_table: bool


class PodSetRow(NamedTuple):
    """What a controller knows of its set without looking at every pod; kept up to date change by change.

    ``created``: pods that are there; ``active``: of these the ones that neither ended nor are on their way out; ``ready``,
    ``labelled``: active ones that are ready, or carry the template's labels; ``staying``: those that are not on their
    way out. ``absent``: a StatefulSet's ordinals below ``wanted`` without a pod. ``child``: the name of a Deployment's
    ReplicaSet.
    """

    created: int = 0
    active: int = 0
    ready: int = 0
    labelled: int = 0
    staying: int = 0
    wanted: int = 0
    absent: HashTrie[int, None] = HashTrie()
    child: str = ""


@dataclass(frozen=True)
class ApiConfig:
    """``history_max``: revisions that are remembered, at least 1. ``version``: the version that clients are told.

    ``retry_ms``: when a controller tries again what was refused.
    """

    history_max: int = 1000
    bookmark_every_ms: Millis = 60_000
    watch_ms: Millis = 1_800_000
    version: str = "v1.32.0"
    retry_ms: Millis = 1_000


@dataclass(frozen=True)
class ApiState:
    """The server between two requests."""

    config: ApiConfig
    revision: int = 1
    tables: ObjectTables = NOTHING
    history: HashTrie[int, ApiChange] = field(default_factory=HashTrie)
    dependents: HashTrie[str, HashTrie[ObjectKey, None]] = field(default_factory=HashTrie)
    """By the owner's uid, which need not exist."""
    uids: HashTrie[str, ObjectKey] = field(default_factory=HashTrie)
    made: int = 0
    """Uids and names that were drawn."""
    watches: HashTrie[int, WatchRow] = field(default_factory=HashTrie)
    watching: HashTrie[Shelf, HashTrie[int, None]] = field(default_factory=HashTrie)
    """Watches of a kind in a namespace or EVERYWHERE."""
    watches_made: int = 0
    sets: HashTrie[str, PodSetRow] = field(default_factory=HashTrie)
    """By the uid of a ReplicaSet, StatefulSet or Deployment."""
    retries: HashTrie[str, Millis] = field(default_factory=HashTrie)
    """When a controller looks at a set again whose pods were refused, by its uid."""


class Books:
    """One step's work on the state: writes go through ``write`` alone, which keeps every index and tells the watches."""

    def __init__(self, state: ApiState, now: Millis) -> None:
        self._given = state
        self.config = state.config
        self.now = now
        self.time = format_instant(now)
        self.revision = state.revision
        self.tables = state.tables
        self.history = state.history
        self.dependents = state.dependents
        self.uids = state.uids
        self.made = state.made
        self.watches = state.watches
        self.watching = state.watching
        self.watches_made = state.watches_made
        self.sets = state.sets
        self.retries = state.retries
        self.changes: list[ApiChange] = []
        self.manager = "unknown"
        """Who writes, for managedFields."""
        self.dry = False
        """Whether the books will be thrown away: nobody is told a version that never was."""
        self.counted = 0
        """Changes that quotas were told of."""
        self.sent: list[WatchEvent] = []

    def state(self) -> ApiState:
        """The state with everything that was done."""
        return replace(
            self._given,
            revision=self.revision,
            tables=self.tables,
            history=self.history,
            dependents=self.dependents,
            uids=self.uids,
            made=self.made,
            watches=self.watches,
            watching=self.watching,
            watches_made=self.watches_made,
            sets=self.sets,
            retries=self.retries,
        )

    @property
    def oldest(self) -> int:
        """The oldest revision that a watch can begin at; lists can be made at later ones, and at the newest."""
        return self.revision - len(self.history)

    # reading

    def find(self, kind: ApiKind, namespace: str, name: str) -> FrozenObject | None:
        """An object as it is now."""
        names = self.tables.objects.get((kind.resource, namespace))
        return None if names is None else names.get(name)

    def found(self, key: ObjectKey) -> FrozenObject | None:
        """The same by key."""
        names = self.tables.objects.get((key.resource, key.namespace))
        return None if names is None else names.get(key.name)

    def names(self, kind: ApiKind, namespace: str) -> Names:
        """All of a kind in a namespace."""
        return self.tables.objects.get((kind.resource, namespace), HashTrie())

    def dependents_of(self, uid: str) -> tuple[ObjectKey, ...]:
        """Who names this owner, in order."""
        return tuple(sorted(self.dependents.get(uid, HashTrie())))

    # drawing

    def new_uid(self) -> str:
        """A uid that no object ever had."""
        self.made += 1
        digits = sha256(f"uid {self.made}".encode()).hexdigest()
        return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-a{digits[17:20]}-{digits[20:32]}"

    def new_suffix(self) -> str:
        """Five letters for generateName."""
        self.made += 1
        number = int.from_bytes(sha256(f"name {self.made}".encode()).digest()[:8], "big")
        letters = []
        for _ in range(5):
            number, place = divmod(number, len(_NAME_LETTERS))
            letters.append(_NAME_LETTERS[place])
        return "".join(letters)

    # writing

    def write(self, key: ObjectKey, after: FrozenObject | None) -> FrozenObject:
        """Put, change or (None) remove an object; returns it with the new resourceVersion."""
        before = self.found(key)
        self.revision += 1
        path, version = ("metadata", "resourceVersion"), str(self.revision)
        if self.dry:
            version = "" if before is None else before["metadata"]["resourceVersion"]
        kept = None if after is None else put(after, path, version) if version else drop(after, path)
        if before is not None or kept is not None:
            self._shelve(key, before, kept)
            self._index_labels(key, before, kept)
            self._index_owners(key, before, kept)
        change = ApiChange(key, before, kept, self.tables)
        self.history = self.history.set(self.revision, change)
        if len(self.history) > self.config.history_max:
            self.history = self.history.remove(self.revision - self.config.history_max)
        self.changes.append(change)
        for watch in self._watches_of(key):
            self._tell(watch, self.revision, change)
        shown = kept if kept is not None else before
        assert shown is not None, f"a removal of what is not there: {key}"
        return shown if kept is not None else put(shown, path, version)

    def _shelve(self, key: ObjectKey, before: FrozenObject | None, after: FrozenObject | None) -> None:
        shelf = (key.resource, key.namespace)
        names: Names = self.tables.objects.get(shelf, HashTrie())
        names = names.remove(key.name) if after is None else names.set(key.name, after)
        objects = self.tables.objects
        objects = objects.set(shelf, names) if names else objects.discard(shelf)
        self.tables = self.tables._replace(objects=objects)
        if before is None and after is not None:
            self.uids = self.uids.set(after["metadata"]["uid"], key)
        elif after is None and before is not None:
            self.uids = self.uids.discard(before["metadata"]["uid"])

    def _index_labels(self, key: ObjectKey, before: FrozenObject | None, after: FrozenObject | None) -> None:
        old, new = _marks(key, before), _marks(key, after)
        if old == new:
            return
        index = self.tables.labels
        for label, value in old - new:
            entry = (key.resource, key.namespace, label, value)
            rest = index[entry].remove(key.name)
            index = index.set(entry, rest) if rest else index.remove(entry)
        for label, value in new - old:
            entry = (key.resource, key.namespace, label, value)
            index = index.set(entry, index.get(entry, HashTrie()).set(key.name, None))
        self.tables = self.tables._replace(labels=index)

    def _index_owners(self, key: ObjectKey, before: FrozenObject | None, after: FrozenObject | None) -> None:
        old, new = owners(before), owners(after)
        for uid in old - new:
            rest = self.dependents[uid].remove(key)
            self.dependents = self.dependents.set(uid, rest) if rest else self.dependents.remove(uid)
        for uid in new - old:
            self.dependents = self.dependents.set(uid, self.dependents.get(uid, HashTrie()).set(key, None))

    # watches

    def open_watch(self, row: WatchRow) -> int:
        """Keep a watch; what it has to hear first is told by ``replay``."""
        self.watches_made += 1
        shelf = (row.kind.resource, row.namespace)
        self.watches = self.watches.set(self.watches_made, row)
        self.watching = self.watching.set(shelf, self.watching.get(shelf, HashTrie()).set(self.watches_made, None))
        return self.watches_made

    def close_watch(self, number: int) -> None:
        """Forget a watch."""
        row = self.watches[number]
        shelf = (row.kind.resource, row.namespace)
        rest = self.watching[shelf].remove(number)
        self.watches = self.watches.remove(number)
        self.watching = self.watching.set(shelf, rest) if rest else self.watching.remove(shelf)

    def replay(self, number: int) -> None:
        """Tell a new watch what came after the revision that it began at."""
        row = self.watches[number]
        for revision in range(row.after + 1, self.revision + 1):
            change = self.history[revision]
            if change.key.resource == row.kind.resource and row.namespace in {EVERYWHERE, change.key.namespace}:
                self._tell(number, revision, change)

    def _watches_of(self, key: ObjectKey) -> Iterator[int]:
        yield from sorted(self.watching.get((key.resource, key.namespace), ()))
        yield from sorted(self.watching.get((key.resource, EVERYWHERE), ()))

    def _tell(self, number: int, revision: int, change: ApiChange) -> None:
        row = self.watches[number]
        if revision <= row.after:
            return
        before = change.before if change.before is not None and row.selection.matches(change.before) else None
        after = change.after if change.after is not None and row.selection.matches(change.after) else None
        if after is not None:
            self.sent.append(WatchSent(number, "ADDED" if before is None else "MODIFIED", after, row.as_table))
        elif before is not None:
            last = put(before, ("metadata", "resourceVersion"), str(revision))
            self.sent.append(WatchSent(number, "DELETED", last, row.as_table))


def owners(item: FrozenObject | None) -> frozenset[str]:
    """The uids that an object names as its owners."""
    return frozenset(reference["uid"] for reference in at(item, ("metadata", "ownerReferences")) or ())


def namespaces(tables: ObjectTables) -> Iterable[str]:
    """All namespaces, in the order in which lists go through them (etcd's keys: ``a-b/`` before ``a/``)."""
    return sorted(tables.objects.get((NAMESPACES.resource, ""), ()), key=lambda name: name + "/")


def kind_of(key: ObjectKey) -> ApiKind:
    """The kind of an object."""
    return BY_RESOURCE[key.resource]


def key_of(kind: ApiKind, item: FrozenObject) -> ObjectKey:
    """Where an object belongs."""
    metadata = item["metadata"]
    return ObjectKey(kind.resource, metadata.get("namespace", ""), metadata["name"])


def claims_of(pod: FrozenObject | None) -> frozenset[str]:
    """The claims that a pod's volumes name."""
    volumes = at(pod, ("spec", "volumes")) or ()
    return frozenset(name for one in volumes if (name := at(one, ("persistentVolumeClaim", "claimName"))))


def ended(pod: FrozenObject) -> bool:
    """Whether a pod's containers are done for good."""
    return at(pod, ("status", "phase")) in _ENDED


def controller_of(item: FrozenObject | None) -> str:
    """The uid of the owner that is an object's controller; empty where it has none."""
    references = at(item, ("metadata", "ownerReferences")) or ()
    return next((one["uid"] for one in references if one.get("controller")), "")


def _marks(key: ObjectKey, item: FrozenObject | None) -> frozenset[tuple[str, str]]:
    labels = frozenset((at(item, ("metadata", "labels")) or EMPTY).items())
    if key.resource == "pods":
        return labels | {(CLAIM_MARK, claim) for claim in claims_of(item)}
    if key.resource in _SELECTING and item is not None:
        wanted = at(item, ("spec", "selector", "matchLabels")) or EMPTY
        return labels | {(SELECTOR_MARK, min((f"{name}={value}" for name, value in wanted.items()), default=""))}
    return labels
