"""What the staging server keeps, hears and has to do, as values.

A *bundle* is one archive with an id, the hash of its secret and an owner. The *owner* is the pods of a namespace that carry
certain labels: the bundle lives for them. Names are checked here, so that nothing that came from outside becomes a path or
a selector unchecked: ids are 32 hexadecimal digits, namespaces and labels are what Kubernetes allows.

Times are epoch milliseconds, sizes bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple, NewType, TypeAlias

from podtide.domain.base.units import Millis

BundleId = NewType("BundleId", str)
"""32 hexadecimal digits, chosen at random by whoever takes the upload."""

LABELS_MAX: Final = 8
MIB: Final = 1024 * 1024

_ID: Final = re.compile(r"[0-9a-f]{32}")
_NAMESPACE: Final = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")
_LABEL_NAME: Final = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_LABEL_PREFIX: Final = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")
_PREFIX_MAX: Final = 253


class BundleOwner(NamedTuple):
    """The pods of a namespace that carry all these labels. ``labels``: sorted by key, at least one."""

    namespace: str
    labels: tuple[tuple[str, str], ...]


class BadOwner(NamedTuple):
    """No owner can be made of that. ``why``, for people."""

    why: str


class Bundle(NamedTuple):
    """A bundle that is there as a whole. ``secret_hash``: SHA-256 of the secret. ``digest``: SHA-256 of the archive.

    ``used``: somebody with the secret has begun to fetch it.
    """

    id: BundleId
    owner: BundleOwner
    secret_hash: bytes
    digest: bytes
    size: int
    created_at: Millis
    used: bool = False


@dataclass(frozen=True)
class StagingConfig:
    """The bounds. ``bundle_max``, ``total_max``: bytes of one archive, and of all. ``free_min``: bytes of the disk to leave.

    ``unused_ms``: how long a bundle that nobody fetches stays (the fork's initialAccessExpirationTimeout). ``ended_ms``: how
    long one stays whose pods are there and have all ended. ``absent_ms``: the same where there are none, two passes at
    least. ``pass_ms``: from the end of a pass to the next.
    """

    bundle_max: int = 2048 * MIB
    total_max: int = 20 * 1024 * MIB
    free_min: int = 256 * MIB
    uploads_max: int = 16
    unused_ms: Millis = 1_800_000
    ended_ms: Millis = 3_600_000
    absent_ms: Millis = 0
    pass_ms: Millis = 30_000


# stimuli


class UploadAsked(NamedTuple):
    """Somebody who may wants to leave a bundle. ``size`` None: not told. ``free``: bytes free on the disk."""

    bundle: BundleId
    secret_hash: bytes
    namespace: str
    labels: tuple[tuple[str, str], ...]
    size: int | None
    free: int


class UploadArrived(NamedTuple):
    """All bytes are there."""

    bundle: BundleId
    digest: bytes


class UploadBroken(NamedTuple):
    """It ended early, or what came cannot be kept."""

    bundle: BundleId


class BundlePublished(NamedTuple):
    """The bundle is on the disk for good."""

    bundle: BundleId


class DownloadAsked(NamedTuple):
    """Somebody wants a bundle. ``secret_hash``: SHA-256 of the secret that was given; None: none was."""

    bundle: str
    secret_hash: bytes | None


class OwnersFound(NamedTuple):
    """The answer to a ``FindOwners``: by the values of its label keys, which pods are alive, and which have ended."""

    search: FindOwners
    alive: frozenset[tuple[str, ...]]
    ended: frozenset[tuple[str, ...]]


class OwnersUnknown(NamedTuple):
    """The API server did not say. ``why``, for people."""

    search: FindOwners
    why: str


class BundleRemoved(NamedTuple):
    """A removal has taken effect."""

    bundle: BundleId


class RemovalFailed(NamedTuple):
    """The disk refused a removal: the bundle is still there."""

    bundle: BundleId


class CollectionAsked(NamedTuple):
    """A pass is wanted now."""


class StagingTick(NamedTuple):
    """Time went on."""


StagingStimulus: TypeAlias = (
    UploadAsked
    | UploadArrived
    | UploadBroken
    | BundlePublished
    | DownloadAsked
    | OwnersFound
    | OwnersUnknown
    | BundleRemoved
    | RemovalFailed
    | CollectionAsked
    | StagingTick
)


# commands and reports


class RefusalStatus(Enum):
    """Why somebody is refused, as an HTTP status."""

    BAD_REQUEST = 400
    UNAUTHORIZED = 401
    NOT_FOUND = 404
    LENGTH_REQUIRED = 411
    TOO_LARGE = 413
    BUSY = 503
    NO_ROOM = 507


class RefuseClient(NamedTuple):
    """Tell whoever asked."""

    status: RefusalStatus
    why: str


class ReceiveBundle(NamedTuple):
    """Take exactly so many bytes, aside."""

    bundle: BundleId
    size: int


class PublishBundle(NamedTuple):
    """Make what was taken a bundle, on the disk for good; then the client may have its id and secret."""

    bundle: Bundle


class DiscardUpload(NamedTuple):
    """Delete what was taken."""

    bundle: BundleId


class RecordUse(NamedTuple):
    """Write down that the bundle is in use. May fail: it only keeps a bundle through a restart before its pods are seen."""

    bundle: Bundle


class SendBundle(NamedTuple):
    """Send it."""

    bundle: Bundle


class FindOwners(NamedTuple):
    """Which pods of a namespace carry all these label keys, with which values, and which of them have ended?"""

    namespace: str
    keys: tuple[str, ...]


class RemovalCause(Enum):
    """Why a bundle goes."""

    NEVER_USED = "nobody fetched it in time"
    PODS_ENDED = "its pods ended"
    PODS_GONE = "its pods are gone"


class RemoveBundle(NamedTuple):
    """Delete it. ``since``: since when the cause holds."""

    bundle: BundleId
    cause: RemovalCause
    since: Millis


StagingCommand: TypeAlias = (
    RefuseClient | ReceiveBundle | PublishBundle | DiscardUpload | RecordUse | SendBundle | FindOwners | RemoveBundle
)


class PassReport(NamedTuple):
    """What came of a pass. ``doubted``: bundles without pods that go if the next pass sees none either.

    ``unknown``: searches that the API server did not answer; their bundles stay.
    """

    bundles: int
    removed: tuple[RemoveBundle, ...]
    doubted: int
    unknown: tuple[OwnersUnknown, ...]


def owner_of(namespace: str, labels: Iterable[tuple[str, str]]) -> BundleOwner | BadOwner:
    """The owner, if Kubernetes could have such pods."""
    if _NAMESPACE.fullmatch(namespace) is None:
        return BadOwner("the namespace is no name of one: a-z, 0-9 and -, at most 63 characters")
    pairs = tuple(sorted(labels))
    if not pairs or len(pairs) > LABELS_MAX:
        return BadOwner(f"an owner has one label at least and {LABELS_MAX} at most")
    if len({key for key, _ in pairs}) < len(pairs):
        return BadOwner("a label is given twice")
    for key, value in pairs:
        prefix, slash, name = key.rpartition("/")
        fits = not slash or (len(prefix) <= _PREFIX_MAX and _LABEL_PREFIX.fullmatch(prefix) is not None)
        if not fits or _LABEL_NAME.fullmatch(name) is None:
            return BadOwner("a label's key is none that Kubernetes takes")
        if not value or _LABEL_NAME.fullmatch(value) is None:
            return BadOwner("a label's value is empty, or none that Kubernetes takes")
    return BundleOwner(namespace, pairs)


def bundle_id(text: str) -> BundleId | None:
    """The id, or None where it is none."""
    return BundleId(text) if _ID.fullmatch(text) is not None else None
