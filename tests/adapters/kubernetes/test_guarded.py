"""Nothing is written while the lease is not ours."""

from __future__ import annotations

from typing import Any

import pytest

from podtide.adapters.kubernetes.api import METHODS, ApiAnswer, Unreachable
from podtide.adapters.kubernetes.guarded import WRITES, GuardedApi


class Server:
    """An API server that remembers what it was asked."""

    def __init__(self) -> None:
        self.verbs: list[str] = []

    def call(self, verb: str, resource: str, path: str, **_: Any) -> ApiAnswer:
        self.verbs.append(verb)
        return ApiAnswer(200, f"{resource} {path}".encode())

    def stream(self, resource: str, path: str, **_: Any) -> Any:
        self.verbs.append("watch")
        return f"{resource} {path}"


def guarded(server: Server, *, valid_after: int | None, lost: bool = False) -> tuple[GuardedApi, list[float]]:
    """``valid_after``: how many looks it takes until the lease is ours; None: for ever."""
    pauses: list[float] = []
    api = GuardedApi(
        server,
        lambda: valid_after is not None and len(pauses) >= valid_after,
        lambda: lost,
        pauses.append,
        patience_s=1.0,
    )
    return api, pauses


@pytest.mark.parametrize("verb", sorted(set(METHODS) - {"watch"}))
@pytest.mark.parametrize("held", [True, False])
def test_reads_pass_and_writes_need_the_lease(verb: str, held: bool) -> None:
    server = Server()
    api, _ = guarded(server, valid_after=0 if held else None)
    if held or verb not in WRITES:
        assert api.call(verb, "pods", "/").ok
        assert server.verbs == [verb]
    else:
        with pytest.raises(Unreachable) as refused:
            api.call(verb, "pods", "/")
        assert not refused.value.sent
        assert server.verbs == []


def test_a_write_waits_for_the_renewal() -> None:
    server = Server()
    api, pauses = guarded(server, valid_after=3)
    assert api.call("create", "pods", "/").ok
    assert len(pauses) == 3


def test_a_lost_lease_is_not_waited_for() -> None:
    api, pauses = guarded(Server(), valid_after=None, lost=True)
    with pytest.raises(Unreachable):
        api.call("delete", "pods", "/")
    assert pauses == []


def test_watches_pass() -> None:
    server = Server()
    watching: Any = guarded(server, valid_after=None)[0].stream("pods", "/", silence_s=1)
    assert watching == "pods /"
    assert server.verbs == ["watch"]
