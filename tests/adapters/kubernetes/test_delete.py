"""Deleting many: pages, preconditions, what a sweep leaves and what it says; and whose leftovers are whose."""

from __future__ import annotations

from typing import Any

import pytest

from podtide.adapters.kubernetes.apply.delete import Cleaner, Deleted, DeleteFate, Swept
from podtide.adapters.kubernetes.calls import CallCounts, Caller, CallSettings, SeenPod
from podtide.adapters.kubernetes.cleanup import KINDS, USUAL, Leftovers, UseUnknown
from podtide.adapters.kubernetes.errors import Complaints, RefusedCall
from podtide.adapters.kubernetes.ratelimit import Backoff, RateLimiter
from tests.support.fake_kubernetes import APP, NAMESPACE, FakeApi, Fault, Heard, labels_of

LABELS = [("labelSelector", f"spark-app-selector={APP},spark-role=executor")]
FORBIDDEN = 'pods is forbidden: User "u" cannot delete resource "pods" in API group "" in the namespace "ns"'


def caller_of(api: FakeApi) -> Caller:
    heard, clock = Heard(), api.clock
    lane = RateLimiter("calls", clock, heard.notify, jitter=lambda: 0.0, wait=clock.wait)
    complaints = Complaints(clock, heard.notify)
    settings = CallSettings(repeats_max=2, backoff=Backoff(0.1, 1.0))
    return Caller(api, lane, clock, complaints, CallCounts(), jitter=lambda: 0.0, wait=clock.wait, settings=settings)


def cleaner_of(api: FakeApi, page: int = 100, workers: int = 4) -> Cleaner:
    return Cleaner(caller_of(api), NAMESPACE, workers=workers, page=page)


def some(api: FakeApi, count: int, *, node: str = "", app: str = APP) -> None:
    for one in range(count):
        spec = {"nodeName": node} if node else {}
        api.put("pods", f"p-{app}-{node}-{one}", labels_of(one, app), spec=spec, status={"phase": "Running"})


def far(api: FakeApi, seconds: float = 60.0) -> float:
    return api.clock.seconds + seconds


@pytest.mark.parametrize(
    ("uid", "version", "fate", "left"),
    [
        ("", "", DeleteFate.DELETED, 0),
        ("uid-1", "", DeleteFate.DELETED, 0),
        ("uid-9", "", DeleteFate.CHANGED, 1),
        ("uid-1", "0", DeleteFate.CHANGED, 1),
    ],
)
def test_one_delete_hits_what_was_meant(uid: str, version: str, fate: DeleteFate, left: int) -> None:
    api = FakeApi()
    api.put("pods", "p")
    assert cleaner_of(api).delete("pods", "p", far(api), uid=uid, version=version) is fate
    assert len(api.names()) == left


def test_what_is_gone_is_gone() -> None:
    api = FakeApi()
    assert cleaner_of(api).delete("pods", "p", far(api)) is DeleteFate.GONE


@pytest.mark.parametrize("workers", [1, 4])
def test_a_selection_is_deleted_page_by_page_and_terminating_ones_are_left_alone(workers: int) -> None:
    api = FakeApi()
    some(api, 250)
    some(api, 5, node="n")
    some(api, 5, app="another")
    cleaner = cleaner_of(api, workers=workers)
    assert cleaner.select("pods", LABELS, far(api)) == Deleted(255, 255)
    assert cleaner.select("pods", LABELS, far(api)) == Deleted(5, 0)
    assert len(api.calls("delete")) == 255
    assert len(api.names()) == 10


def test_a_selection_ends_at_a_missing_permission() -> None:
    api = FakeApi()
    some(api, 250)
    api.faults.append(Fault("delete", status=403, message=FORBIDDEN, times=1_000))
    done = cleaner_of(api, workers=1).select("pods", LABELS, far(api))
    assert done.deleted == 0
    assert done.refused is not None
    assert done.refused.text == "may not delete pods in namespace ns (RBAC: verb delete, resource pods)"
    assert len(api.calls("delete")) == 1


def test_what_never_stays_the_same_is_not_asked_for_for_ever() -> None:
    api = FakeApi()
    some(api, 1)

    def touched(made: Any) -> None:
        if made.verb == "delete":
            for one in api.objects.values():
                api._touch(one)

    api.before = touched
    assert cleaner_of(api).select("pods", LABELS, far(api), exact=True) == Deleted(1, 0)
    assert len(api.calls("list")) == 8


@pytest.mark.parametrize(
    ("bound", "gone", "swept"),
    [
        (0, False, Swept(250, 250)),
        (3, False, Swept(253, 253, 0, 3, ("p-spark-abc-n-0", "p-spark-abc-n-1", "p-spark-abc-n-2"))),
        (2, True, Swept(252, 252, 2, 2, ("p-spark-abc-n-0", "p-spark-abc-n-1"))),
    ],
)
def test_a_sweep_goes_on_until_a_list_shows_nothing(bound: int, gone: bool, swept: Swept) -> None:
    api = FakeApi()
    some(api, 250)
    some(api, bound, node="n")
    began = api.clock.seconds
    assert cleaner_of(api).sweep("pods", LABELS, SeenPod, far(api), gone=gone) == swept
    assert api.clock.seconds - began == (60.0 if gone else 0.0)  # no kubelet lets go of them


def test_a_sweep_waits_for_a_kubelet_and_finds_what_comes_later() -> None:
    api = FakeApi()
    some(api, 3, node="n")

    def later(made: Any) -> None:
        lists = len(api.calls("list"))
        if made.verb == "list" and lists == 3:
            api.put("pods", "late", labels_of(99))
        if made.verb == "list" and lists == 5:
            for key in [key for key in api.objects if key[1] != "late"]:
                del api.objects[key]

    api.before = later
    assert cleaner_of(api).sweep("pods", LABELS, SeenPod, far(api), gone=True) == Swept(4, 4)


def test_one_pod_that_will_not_go_does_not_keep_the_others() -> None:
    api = FakeApi()
    some(api, 30)
    api.faults.append(Fault("delete", status=422, message="no", times=1_000, name="p-spark-abc--7"))
    swept = cleaner_of(api).sweep("pods", LABELS, SeenPod, far(api))
    assert (swept.deleted, swept.left, swept.names) == (29, 1, ("p-spark-abc--7",))
    assert swept.refused is not None


def test_a_sweep_through_a_server_that_stumbles_leaves_nothing() -> None:
    api = FakeApi()
    some(api, 120)
    api.faults.extend(
        [
            Fault("delete", lost="answer", times=10),
            Fault("delete", status=429, retry_after_ms=1_000, times=5),
            Fault("list", status=500, times=2),
            Fault("delete", status=500, times=3),
        ]
    )
    swept = cleaner_of(api).sweep("pods", LABELS, SeenPod, far(api, 120))
    assert (swept.left, swept.refused, api.names()) == (0, None, [])


def test_a_list_whose_token_grew_too_old_is_begun_again() -> None:
    api = FakeApi()
    some(api, 250)
    pages = caller_of(api).pages("pods", NAMESPACE, LABELS, SeenPod, far(api), limit=100)
    first = next(pages)
    api.faults.append(Fault("list", status=410, message="The provided continue parameter is too old"))
    seen = [one.metadata.name for page in [first, *pages] if not isinstance(page, RefusedCall) for one in page]
    assert len(seen) == 350
    assert len(set(seen)) == 250


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b'{"items": 3}', b'{"items": [{"metadata": []}]}', b"\xff\xfe", b"[" * 9_999]
)
def test_an_answer_that_is_no_list_is_refused(body: bytes) -> None:
    from podtide.adapters.kubernetes.api import ApiAnswer  # noqa: PLC0415

    class Liar(FakeApi):
        def call(self, *_: Any, **__: Any) -> ApiAnswer:
            return ApiAnswer(200, body)

    api = Liar()
    [page] = caller_of(api).pages("pods", NAMESPACE, LABELS, SeenPod, far(api))
    assert isinstance(page, RefusedCall)
    assert "is no list of pods" in page.message


# ---------------------------------------------------------------------------------------------- an application's all


def leftovers(api: FakeApi) -> Leftovers:
    caller = caller_of(api)
    return Leftovers(caller, Cleaner(caller, NAMESPACE, page=100), NAMESPACE, APP, far(api))


def an_application(api: FakeApi, app: str = APP) -> None:
    """As Spark and podtide leave one behind."""
    labels = {"spark-app-selector": app}
    some(api, 150, app=app)
    api.put("pods", f"{app}-driver", {**labels, "spark-role": "driver"}, status={"phase": "Succeeded"})
    api.put("services", f"{app}-svc", labels)
    api.put("configmaps", f"{app}-conf", labels)
    api.put("persistentvolumeclaims", f"{app}-pvc", labels)
    api.put("statefulsets", f"spark-s-{app}-0", spec={"selector": {"matchLabels": labels}})  # Spark puts no label on it
    api.put("deployments", f"spark-d-{app}-0", spec={"selector": {"matchLabels": labels}})
    api.put("leases", f"podtide-{app}", labels, spec={"holderIdentity": "", "renewTime": "2026-11-21T00:00:00.000000Z"})


def untold(kind: str, deleted: int) -> None:
    del kind, deleted


@pytest.mark.parametrize(
    ("kinds", "left"),
    [
        (USUAL, ["persistentvolumeclaims spark-abc-pvc", "pods spark-abc-driver"]),
        (KINDS, []),
        (
            ("services", "pods"),
            [
                "configmaps spark-abc-conf", "deployments spark-d-spark-abc-0", "leases podtide-spark-abc",
                "persistentvolumeclaims spark-abc-pvc", "pods spark-abc-driver", "statefulsets spark-s-spark-abc-0",
            ],
        ),
    ],
)  # fmt: skip
def test_leftovers_of_one_application_go_and_of_no_other(kinds: tuple[str, ...], left: list[str]) -> None:
    api = FakeApi()
    an_application(api)
    an_application(api, "spark-abcd")
    others = {key for key in api.objects if "spark-abcd" in key[1]}
    found = leftovers(api).look(kinds)
    assert {one.kind: one.swept.found for one in found} == {kind: 150 if kind == "pods" else 1 for kind in kinds}
    assert not api.calls("delete")
    done = leftovers(api).delete(kinds, untold)
    assert all(one.clean for one in done)
    assert {one.kind: one.swept.deleted for one in done} == {kind: 150 if kind == "pods" else 1 for kind in kinds}
    assert sorted(" ".join(key) for key in api.objects if key not in others) == left
    assert others <= set(api.objects)
    assert all(one.swept.found == 0 for one in leftovers(api).look(kinds))


def test_a_controllers_last_pods_are_found() -> None:
    api = FakeApi()
    an_application(api)

    def controller(made: Any) -> None:
        if made.verb == "delete" and made.resource == "configmaps":  # after the first sweep of the pods
            api.put("pods", "last", labels_of(999))

    api.before = controller
    leftovers(api).delete(USUAL, untold)
    assert api.names() == ["spark-abc-driver"]


@pytest.mark.parametrize("status", [403, 404])
def test_a_kind_that_may_not_be_listed_is_named_and_one_that_the_server_lacks_is_not(status: int) -> None:
    api = FakeApi()
    an_application(api)
    message = 'deployments.apps is forbidden: User "u" cannot list resource "deployments" in API group "apps"'
    api.faults.append(
        Fault("list", "deployments", 99, status, message if status == 403 else "the server could not find it")
    )
    refusals = {one.kind: one.refusal for one in leftovers(api).delete(USUAL, untold) if one.refusal is not None}
    lacking = 'may not list deployments in namespace ns (RBAC: verb list, resource deployments, API group "apps")'
    assert refusals == ({"deployments": lacking} if status == 403 else {})


@pytest.mark.parametrize(
    ("phase", "deletion", "in_use"),
    [
        ("Running", None, True),
        ("Pending", None, True),
        ("Succeeded", None, False),
        ("Failed", None, False),
        ("Running", "x", False),
    ],
)
def test_a_driver_pod_that_is_not_over_uses_the_application(phase: str, deletion: str | None, in_use: bool) -> None:
    api = FakeApi()
    driver = api.put("pods", "d", {"spark-app-selector": APP, "spark-role": "driver"}, status={"phase": phase})
    if deletion:
        driver["metadata"]["deletionTimestamp"] = deletion
    use = leftovers(api).in_use(USUAL)
    assert use == ((f"driver pod d is {phase}",) if in_use else ())


@pytest.mark.parametrize(
    ("holder", "renewed", "in_use"),
    [
        ("me", "1970-01-01T00:16:30.000000Z", True),  # ten seconds ago
        ("me", "1970-01-01T00:12:00.000000Z", True),  # it may be this clock that is wrong
        ("me", "1970-01-01T00:11:00.000000Z", False),
        ("", "1970-01-01T00:16:40.000000Z", False),
        ("me", "yesterday", True),
        ("me", None, True),
    ],
)
def test_a_lease_that_is_renewed_uses_the_application(holder: str, renewed: str | None, in_use: bool) -> None:
    api = FakeApi()
    spec = {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": renewed}
    api.put("leases", "podtide-spark-abc", {"spark-app-selector": APP}, spec=spec)
    use = leftovers(api).in_use(USUAL)
    assert use == (("me holds the lease podtide-spark-abc",) if in_use else ())


@pytest.mark.parametrize(
    ("resource", "kinds", "unknown"), [("pods", USUAL, True), ("leases", USUAL, True), ("leases", ("pods",), False)]
)
def test_whether_it_is_in_use_may_be_unknown(resource: str, kinds: tuple[str, ...], unknown: bool) -> None:
    api = FakeApi()
    message = f'{resource} is forbidden: User "u" cannot list resource "{resource}"'
    api.faults.append(Fault("list", resource, 9, 403, message))
    use = leftovers(api).in_use(kinds)
    assert isinstance(use, UseUnknown) == unknown
