"""Volume claims: which a pod wants, which left-over ones can be taken, and which fit."""

from __future__ import annotations

import pytest

from podtide.domain.jvm.exceptions import SparkFault
from podtide.domain.kubernetes.allocator.volume_claims import PodClaims, reusable_claims, reuse, wanted_claims
from podtide.domain.protocol.cluster_config import ClaimTemplate
from podtide.domain.protocol.pod_commands import ClaimSpec
from podtide.domain.protocol.pod_stimuli import Claim
from podtide.domain.protocol.pods import PodNumber

EPOCH = "1970-01-01T00:00:00Z"


def nobody(_name: str) -> bool:
    """No claim is in use."""
    return False


def claim(name: str, size: str = "10Gi", storage_class: str | None = "gp2", created_at: str | None = EPOCH) -> Claim:
    return Claim(name, storage_class, size, created_at)


def wanted(*sizes: str, storage_class: str = "gp2") -> PodClaims:
    specs = tuple(ClaimSpec(f"own-{place}", storage_class, size, f"v{place}") for place, size in enumerate(sizes))
    return PodClaims(tuple(spec.name for spec in specs), specs, ())


@pytest.mark.parametrize(
    ("storage_class", "size", "created"),
    [("gp2", "1Gi", True), (None, "1Gi", False), ("gp2", None, False), (None, None, False)],
)
def test_an_object_is_made_where_class_and_size_are_known(
    storage_class: str | None, size: str | None, *, created: bool
) -> None:
    template = ClaimTemplate("v", "OnDemand", 0, storage_class, size)
    found = wanted_claims((template,), "app", PodNumber(1))
    assert found.mounted == ("app-exec-1-pvc-0",)
    assert bool(found.created) is created
    assert template.creates is created


@pytest.mark.parametrize(
    ("created_at", "exception"),
    [(None, "java.lang.NullPointerException"), ("soon", "java.time.format.DateTimeParseException")],
)
def test_an_age_that_cannot_be_read_is_thrown(created_at: str | None, exception: str) -> None:
    fault = reusable_claims([claim("free"), claim("a", created_at=created_at)], nobody, 10**6, 1)
    assert isinstance(fault, SparkFault)
    assert fault.exception_class == exception


@pytest.mark.parametrize(
    ("listed", "sizes", "mounted", "left"),
    [
        ([], ["10Gi"], ["own-0"], []),
        ([claim("a")], ["10Gi"], ["a"], []),
        ([claim("a")], ["11Gi"], ["own-0"], ["a"]),
        ([claim("a", "11G")], ["10Gi"], ["a"], []),  # 11G are 10.24Gi
        ([claim("a", "10G")], ["10Gi"], ["own-0"], ["a"]),
        ([claim("a", storage_class="st1")], ["10Gi"], ["own-0"], ["a"]),
        ([claim("a", storage_class=None)], ["10Gi"], ["own-0"], ["a"]),
        ([claim("a", "20Gi"), claim("b")], ["10Gi"], ["a"], ["b"]),  # the first that fits, not the best
        ([claim("a"), claim("b", "20Gi")], ["15Gi", "5Gi"], ["b", "a"], []),
        ([claim("a")], ["5Gi", "5Gi"], ["a", "own-1"], []),
        ([claim("a", "ten")], ["10Gi"], ["own-0"], ["a"]),
    ],
)
def test_what_fits_is_taken_over(listed: list[Claim], sizes: list[str], mounted: list[str], left: list[str]) -> None:
    reusable = list(listed)
    found = reuse(wanted(*sizes), reusable)
    assert list(found.mounted) == mounted
    assert [c.name for c in reusable] == left
    assert {spec.name for spec in found.created} == {name for name in mounted if name.startswith("own")}
    assert list(found.reused) == [name for name in mounted if not name.startswith("own")]
