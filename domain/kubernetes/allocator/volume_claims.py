"""Volume claims of new executor pods: which ones a pod wants, and which left-over ones it can take instead.

A pod wants one claim per volume of kind persistentVolumeClaim; a claim object is made for it where storage class and size
limit are set. When the driver owns and reuses claims, a claim that no pod of the last delivery mounts and that is older than
the creation timeout may be taken instead, if it is of the same class and at least as large.

Source: MountVolumesFeatureStep, ExecutorPodsAllocator.getReusablePVCs and replacePVCsIfNeeded of Spark 4.3.0 (spec:
allocation, section 7).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from podtide.domain.base.units import Millis
from podtide.domain.jvm.exceptions import NULL_POINTER, SparkFault
from podtide.domain.jvm.instants import parse_instant
from podtide.domain.jvm.quantities import parse_quantity
from podtide.domain.protocol.cluster_config import ClaimTemplate, claim_name
from podtide.domain.protocol.pod_commands import ClaimSpec
from podtide.domain.protocol.pod_stimuli import Claim
from podtide.domain.protocol.pods import PodNumber


class PodClaims(NamedTuple):
    """``mounted``: the claim of each volume, in order; ``created``: the objects to make; ``reused``: taken over."""

    mounted: tuple[str, ...]
    created: tuple[ClaimSpec, ...]
    reused: tuple[str, ...]


def wanted_claims(templates: Sequence[ClaimTemplate], prefix: str, number: PodNumber) -> PodClaims:
    """The claims of a new executor's pod, before any reuse."""
    mounted, created = [], []
    for template in templates:
        name = claim_name(template, prefix, str(number))
        mounted.append(name)
        if template.storage_class is not None and template.size is not None:
            created.append(ClaimSpec(name, template.storage_class, template.size, template.volume))
    return PodClaims(tuple(mounted), tuple(created), ())


def reusable_claims(
    claims: Sequence[Claim], in_use: Callable[[str], bool], now: Millis, age_ms: Millis
) -> tuple[Claim, ...] | SparkFault:
    """The listed claims that may be taken over, in list order; what Spark throws for a creation time it cannot read."""
    found = []
    for claim in claims:
        if in_use(claim.name):
            continue
        if claim.created_at is None:
            return SparkFault(NULL_POINTER, "text")
        created = parse_instant(claim.created_at)
        if created is None:
            text = f"Text '{claim.created_at}' could not be parsed at index 0"
            return SparkFault("java.time.format.DateTimeParseException", text)
        if now - created > age_ms:
            found.append(claim)
    return tuple(found)


def reuse(claims: PodClaims, reusable: list[Claim]) -> PodClaims:
    """Take over what fits; ``reusable`` loses what is taken."""
    if not reusable:
        return claims
    mounted, reused = list(claims.mounted), []
    replaced: set[ClaimSpec] = set()
    for spec in claims.created:
        place = next((place for place, claim in enumerate(reusable) if _fits(claim, spec)), None)
        if place is None or spec.name not in mounted:
            continue
        fitting = reusable.pop(place)
        mounted[mounted.index(spec.name)] = fitting.name
        reused.append(fitting.name)
        replaced.add(spec._replace(volume=""))
    # Two volumes may want the same object; in Spark it is dropped for both as soon as one of them is served.
    created = tuple(spec for spec in claims.created if spec._replace(volume="") not in replaced)
    return PodClaims(tuple(mounted), created, tuple(reused))


def _fits(claim: Claim, spec: ClaimSpec) -> bool:
    if claim.storage_class != spec.storage_class:
        return False
    has, needs = parse_quantity(claim.size), parse_quantity(spec.size)
    return has is not None and needs is not None and has >= needs
