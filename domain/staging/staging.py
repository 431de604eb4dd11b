"""Who may leave a bundle and fetch it, and when a bundle goes.

*Uploads* reserve their size before the first byte is taken: what is too large for a bundle, for the store or for the disk is
refused at once, and a bundle exists only when the disk has it for good. *Downloads* need the bundle's own secret; hashes of
secrets are compared in constant time. The first one makes the bundle used.

*Passes* ask which pods there are, one question per namespace and set of label keys. A bundle is judged only by an answer
to a question that was asked when the bundle was there, in this order:

- one of its pods is alive: it stays, used or not (a driver may wait for a node longer than ``unused_ms``);
- nobody fetched it for ``unused_ms``: it goes;
- it was used and its pods are there and have all ended: it goes after ``ended_ms``;
- it was used and has no pods: it goes when the next pass finds none either, and after ``absent_ms``.

An API server that does not answer, or refuses, says nothing about pods: nothing goes, marks stay, and the next pass comes as
usual. A pass ends when all its questions are answered; the next begins ``pass_ms`` later (the fork's schedule ended with the
first exception for good).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from hmac import compare_digest
from typing import Final, NamedTuple, assert_never

from pyrsistent import PMap, PSet, pmap, pset

from podtide.domain.base.units import NEVER, Millis
from podtide.domain.staging.bundles import (
    BadOwner,
    Bundle,
    BundleId,
    BundleOwner,
    BundlePublished,
    BundleRemoved,
    CollectionAsked,
    DiscardUpload,
    DownloadAsked,
    FindOwners,
    OwnersFound,
    OwnersUnknown,
    PassReport,
    PublishBundle,
    ReceiveBundle,
    RecordUse,
    RefusalStatus,
    RefuseClient,
    RemovalCause,
    RemovalFailed,
    RemoveBundle,
    SendBundle,
    StagingCommand,
    StagingConfig,
    StagingStimulus,
    StagingTick,
    UploadArrived,
    UploadAsked,
    UploadBroken,
    bundle_id,
    owner_of,
)

NO_BUNDLE: Final = "no such bundle: it never was, nobody fetched it in time, or its pods are gone"
_NO_HASH: Final = bytes(32)


class BundleUpload(NamedTuple):
    """An upload under way, or one whose bundle is being published."""

    owner: BundleOwner
    secret_hash: bytes
    size: int
    published: Bundle | None = None


class RemovalMark(NamedTuple):
    """Why a used bundle may go soon, and since when that was seen."""

    cause: RemovalCause
    since: Millis


class Collection(NamedTuple):
    """A pass under way: the bundles that each open question is about, and what has come of it so far."""

    began: Millis
    open: PMap[FindOwners, tuple[BundleId, ...]]
    removed: tuple[RemoveBundle, ...] = ()
    unknown: tuple[OwnersUnknown, ...] = ()


@dataclass(frozen=True)
class StagingState:
    """Everything that is known. ``stored``: bytes of the bundles, also of those that are being removed.

    ``used_at``: when a bundle was first fetched, of those where that was since this state began.
    """

    bundles: PMap[BundleId, Bundle]
    uploads: PMap[BundleId, BundleUpload]
    removing: PSet[BundleId]
    marks: PMap[BundleId, RemovalMark]
    used_at: PMap[BundleId, Millis]
    stored: int
    reserved: int
    collection: Collection | None
    pass_at: Millis


class StagingStep(NamedTuple):
    """The new state, what to do, in this order, and what a pass that just ended came to."""

    state: StagingState
    commands: tuple[StagingCommand, ...] = ()
    report: PassReport | None = None


def begin(bundles: tuple[Bundle, ...], config: StagingConfig, now: Millis) -> StagingState:
    """A server that finds these bundles in its store. The first pass comes after one interval."""
    return StagingState(
        bundles=pmap({bundle.id: bundle for bundle in bundles}),
        uploads=pmap(),
        removing=pset(),
        marks=pmap(),
        used_at=pmap(),
        stored=sum(bundle.size for bundle in bundles),
        reserved=0,
        collection=None,
        pass_at=now + config.pass_ms,
    )


def due(state: StagingState) -> Millis:
    """When a tick could change anything; NEVER while a pass waits for answers."""
    return state.pass_at if state.collection is None else NEVER


def advance(state: StagingState, stimulus: StagingStimulus, config: StagingConfig, now: Millis) -> StagingStep:
    """One step."""
    match stimulus:
        case UploadAsked():
            return _begun(state, stimulus, config)
        case UploadArrived(bundle, digest):
            upload = state.uploads[bundle]
            made = Bundle(bundle, upload.owner, upload.secret_hash, digest, upload.size, now)
            uploads = state.uploads.set(bundle, upload._replace(published=made))
            return StagingStep(replace(state, uploads=uploads), (PublishBundle(made),))
        case UploadBroken(bundle):
            upload = state.uploads[bundle]
            left = replace(state, uploads=state.uploads.remove(bundle), reserved=state.reserved - upload.size)
            return StagingStep(left, (DiscardUpload(bundle),))
        case BundlePublished(bundle):
            return StagingStep(_published(state, bundle))
        case DownloadAsked():
            return _fetched(state, stimulus, now)
        case OwnersFound():
            return _judged(state, stimulus, config, now)
        case OwnersUnknown():
            return _answered(state, stimulus.search, (), (stimulus,), config, now)
        case BundleRemoved(bundle):
            return StagingStep(_without(state, bundle))
        case RemovalFailed(bundle):
            return StagingStep(replace(state, removing=state.removing.discard(bundle)))
        case CollectionAsked():
            return _collect(state, config, now) if state.collection is None else StagingStep(state)
        case StagingTick():
            return _collect(state, config, now) if now >= due(state) else StagingStep(state)
        case _:
            assert_never(stimulus)


def _refused(state: StagingState, status: RefusalStatus, why: str) -> StagingStep:
    return StagingStep(state, (RefuseClient(status, why),))


# uploads


def _begun(state: StagingState, request: UploadAsked, config: StagingConfig) -> StagingStep:
    """Take an upload, if it can be kept."""
    assert request.bundle not in state.bundles
    assert request.bundle not in state.uploads
    owner = owner_of(request.namespace, request.labels)
    if isinstance(owner, BadOwner):
        return _refused(state, RefusalStatus.BAD_REQUEST, owner.why)
    size = request.size
    if size is None:
        return _refused(state, RefusalStatus.LENGTH_REQUIRED, "an upload has a Content-Length")
    if size <= 0:
        return _refused(state, RefusalStatus.BAD_REQUEST, "the bundle is empty")
    if size > config.bundle_max:
        why = f"a bundle has at most {config.bundle_max} bytes, this one has {size}"
        return _refused(state, RefusalStatus.TOO_LARGE, why)
    if len(state.uploads) >= config.uploads_max:
        return _refused(state, RefusalStatus.BUSY, f"{len(state.uploads)} uploads are under way; try again")
    if state.stored + state.reserved + size > config.total_max:
        why = f"the store has at most {config.total_max} bytes; {state.stored + state.reserved} are taken"
        return _refused(state, RefusalStatus.NO_ROOM, why)
    # What is under way is partly on the disk already: counted twice rather than not at all.
    if request.free - state.reserved - size < config.free_min:
        return _refused(state, RefusalStatus.NO_ROOM, f"the disk of the store has {request.free} bytes left")
    uploads = state.uploads.set(request.bundle, BundleUpload(owner, request.secret_hash, size))
    taken = replace(state, uploads=uploads, reserved=state.reserved + size)
    return StagingStep(taken, (ReceiveBundle(request.bundle, size),))


def _published(state: StagingState, bundle: BundleId) -> StagingState:
    upload = state.uploads[bundle]
    assert upload.published is not None
    return replace(
        state,
        bundles=state.bundles.set(bundle, upload.published),
        uploads=state.uploads.remove(bundle),
        stored=state.stored + upload.size,
        reserved=state.reserved - upload.size,
    )


# downloads


def _fetched(state: StagingState, request: DownloadAsked, now: Millis) -> StagingStep:
    """Send a bundle to who has its secret."""
    name = bundle_id(request.bundle)
    bundle = state.bundles.get(name) if name is not None and name not in state.removing else None
    if bundle is None:
        return _refused(state, RefusalStatus.NOT_FOUND, NO_BUNDLE)
    if not compare_digest(bundle.secret_hash, request.secret_hash or _NO_HASH):
        return _refused(state, RefusalStatus.UNAUTHORIZED, "that is not the secret of this bundle")
    if bundle.used:
        return StagingStep(state, (SendBundle(bundle),))
    used = bundle._replace(used=True)
    known = replace(state, bundles=state.bundles.set(used.id, used), used_at=state.used_at.set(used.id, now))
    return StagingStep(known, (RecordUse(used), SendBundle(used)))


# passes


def _collect(state: StagingState, config: StagingConfig, now: Millis) -> StagingStep:
    """Begin a pass: one question for all bundles of a namespace whose owners have the same label keys."""
    questions: dict[FindOwners, list[BundleId]] = {}
    for bundle in state.bundles.values():
        if bundle.id not in state.removing:
            keys = tuple(key for key, _ in bundle.owner.labels)
            questions.setdefault(FindOwners(bundle.owner.namespace, keys), []).append(bundle.id)
    if not questions:
        return StagingStep(replace(state, pass_at=now + config.pass_ms), (), PassReport(0, (), 0, ()))
    searches = tuple(sorted(questions))
    collection = Collection(now, pmap({search: tuple(questions[search]) for search in searches}))
    return StagingStep(replace(state, collection=collection), searches)


def _judged(state: StagingState, found: OwnersFound, config: StagingConfig, now: Millis) -> StagingStep:
    """Judge the bundles that a question was about."""
    collection = state.collection
    assert collection is not None
    removals: list[RemoveBundle] = []
    marks = state.marks.evolver()
    for name in collection.open[found.search]:
        bundle = state.bundles.get(name)
        if bundle is None or state.used_at.get(name, collection.began - 1) >= collection.began:
            continue  # fetched since the question was asked: its pods may be younger than the answer
        values = tuple(value for _, value in bundle.owner.labels)
        seen = None if values in found.alive else _mark(state, bundle, config, now, ended=values in found.ended)
        if seen is None:
            if name in state.marks:
                marks.remove(name)
            continue
        mark, goes = seen
        marks[name] = mark
        if goes:
            removals.append(RemoveBundle(name, mark.cause, mark.since))
    removing = state.removing.update(removal.bundle for removal in removals)
    known = replace(state, marks=marks.persistent(), removing=removing)
    return _answered(known, found.search, tuple(removals), (), config, now)


def _mark(
    state: StagingState, bundle: Bundle, config: StagingConfig, now: Millis, *, ended: bool
) -> tuple[RemovalMark, bool] | None:
    """Why a bundle without living pods may go, and whether it goes now; None: it stays without a reason to go."""
    if not bundle.used:
        expired = now >= bundle.created_at + config.unused_ms
        return (RemovalMark(RemovalCause.NEVER_USED, bundle.created_at), True) if expired else None
    cause = RemovalCause.PODS_ENDED if ended else RemovalCause.PODS_GONE
    before = state.marks.get(bundle.id)
    if before is None or before.cause is not cause:
        # Pods that are gone are believed when two passes say so.
        return RemovalMark(cause, now), ended and config.ended_ms <= 0
    return before, now >= before.since + (config.ended_ms if ended else config.absent_ms)


def _answered(
    state: StagingState,
    search: FindOwners,
    removals: tuple[RemoveBundle, ...],
    unknown: tuple[OwnersUnknown, ...],
    config: StagingConfig,
    now: Millis,
) -> StagingStep:
    """One question of the pass is answered; with the last one the pass ends."""
    assert state.collection is not None
    collection = state.collection._replace(
        open=state.collection.open.remove(search),
        removed=state.collection.removed + removals,
        unknown=state.collection.unknown + unknown,
    )
    if collection.open:
        return StagingStep(replace(state, collection=collection), removals)
    doubted = sum(
        mark.cause is RemovalCause.PODS_GONE and name not in state.removing for name, mark in state.marks.items()
    )
    report = PassReport(len(state.bundles), collection.removed, doubted, collection.unknown)
    return StagingStep(replace(state, collection=None, pass_at=now + config.pass_ms), removals, report)


def _without(state: StagingState, name: BundleId) -> StagingState:
    return replace(
        state,
        bundles=state.bundles.remove(name),
        removing=state.removing.discard(name),
        marks=state.marks.discard(name),
        used_at=state.used_at.discard(name),
        stored=state.stored - state.bundles[name].size,
    )
