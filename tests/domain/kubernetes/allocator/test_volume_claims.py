"""Volume claims: which a pod wants, which left-over ones can be taken, and which fit."""

from __future__ import annotations

import pytest

from podtide.domain.jvm.exceptions import SparkFault
from podtide.domain.kubernetes.allocator.volume_claims import Wanted, reusable_claims, reuse, wanted_claims
from podtide.domain.protocol.cluster_config import ClaimTemplate, claim_name
from podtide.domain.protocol.pod_commands import ClaimSpec
from podtide.domain.protocol.pod_stimuli import Claim
from podtide.domain.protocol.pods import PodNumber

EPOCH = "1970-01-01T00:00:00Z"


def nobody(_name: str) -> bool:
    """No claim is in use."""
    return False


def claim(name: str, size: str = "10Gi", storage_class: str | None = "gp2", created_at: str | None = EPOCH) -> Claim:
    return Claim(name, storage_class, size, created_at)


def wanted(*sizes: str, storage_class: str = "gp2") -> Wanted:
    specs = tuple(ClaimSpec(f"own-{place}", storage_class, size, f"v{place}") for place, size in enumerate(sizes))
    return Wanted(tuple(spec.name for spec in specs), specs, ())


@pytest.mark.parametrize(
    ("template", "name"),
    [
        (ClaimTemplate("v", "OnDemand", 0), "app-exec-7-pvc-0"),
        (ClaimTemplate("v", "OnDemand", 3), "app-exec-7-pvc-3"),
        (ClaimTemplate("v", "fixed", 1), "fixed"),
        (ClaimTemplate("v", "data-SPARK_EXECUTOR_ID", 1), "data-7"),
        (ClaimTemplate("v", "data-OnDemand", 1), "data-app-exec-7-pvc-1"),
        (ClaimTemplate("v", "SPARK_EXECUTOR_ID-SPARK_EXECUTOR_ID", 1), "7-7"),
        (ClaimTemplate("v", "ondemand", 0), "ondemand"),
    ],
)
def test_names(template: ClaimTemplate, name: str) -> None:
    assert claim_name(template, "app", "7") == name


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
    ("age", "taken"),
    [(-5_000, False), (0, False), (10_000, False), (10_001, True)],
    ids=["of tomorrow", "new", "edge", "old"],
)
def test_the_age_is_strict(age: int, *, taken: bool) -> None:
    found = reusable_claims([claim("a")], nobody, age, 10_000)
    assert found == ((claim("a"),) if taken else ())


def test_claims_in_use_are_not_looked_at() -> None:
    listed = [claim("used", created_at=None), claim("free"), claim("used too", created_at="?")]
    assert reusable_claims(listed, lambda name: "used" in name, 10**6, 1) == (claim("free"),)


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


def test_a_claim_that_two_volumes_share() -> None:
    """Once one of them mounts another claim the object is not made for the other either: in Spark they are equal."""
    spec = ClaimSpec("shared", "gp2", "10Gi", "a")
    found = reuse(Wanted(("shared", "shared"), (spec, spec._replace(volume="b")), ()), [claim("x")])
    assert found == Wanted(("x", "shared"), (), ("x",))


def test_nothing_is_taken_for_a_volume_that_the_pod_does_not_have() -> None:
    spec = ClaimSpec("own", "gp2", "10Gi")
    reusable = [claim("a")]
    assert reuse(Wanted((), (spec,), ()), reusable) == Wanted((), (spec,), ())
    assert reusable == [claim("a")]
