"""Which nodes not to use: the health tracker's scenarios (H) and the failures that count."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, strategies as st

from podtide.domain.backend.failure_tracker import Failures
from podtide.domain.protocol.cluster_config import ExclusionConfig
from podtide.domain.yarn.node_health import NODES_UNKNOWN, ExclusionDifference, Health

ON = ExclusionConfig(enabled=True, timeout_ms=100)
OFF = ExclusionConfig()
NOTHING = ExclusionDifference()

Told = tuple[Sequence[str], Sequence[str]]


def listed(told: ExclusionDifference) -> Told:
    return list(told.added), list(told.removed)


def scheduler(
    health: Health, *hosts: str, config: ExclusionConfig = ON, now: int = 0
) -> tuple[Health, ExclusionDifference]:
    """setSchedulerExcludedNodes."""
    return Health(
        health.own, frozenset(hosts), health.sent, health.failures, health.by_host, health.nodes
    ).refreshed(config, now)  # fmt: skip


def failing(health: Health, host: str | None, *moments: int, config: ExclusionConfig = ON) -> tuple[Health, list[Told]]:
    """Containers fail on a host; what was told."""
    all_told = []
    for now in moments:
        health, told = health.failed(host, config, now)
        if told != NOTHING:
            all_told.append(listed(told))
    return health, all_told


def test_h1_a_third_failure_excludes_and_a_refresh_after_the_timeout_includes() -> None:
    health, told = failing(Health(), "h1", 0, 1)
    assert told == []
    health, told = failing(health, "h1", 10)
    assert told == [(["h1"], [])]
    health, early = health.refreshed(ON, 109)
    assert (early, health.sent) == (NOTHING, frozenset({"h1"}))
    health, late = health.refreshed(ON, 110)
    assert (listed(late), health.sent, dict(health.own)) == (([], ["h1"]), frozenset(), {})


def test_h2_the_schedulers_hosts_do_not_expire() -> None:
    health, told = scheduler(Health(), "h1", "h2")
    assert listed(told) == (["h1", "h2"], [])
    health, told = health.refreshed(ON, 10**9)
    assert (told, health.sent) == (NOTHING, frozenset({"h1", "h2"}))


def test_h3_configured_hosts_are_told_at_once_and_stay() -> None:
    config = ExclusionConfig(always=frozenset({"b", "a"}), enabled=True)
    health, told = Health().refreshed(config, 0)
    assert listed(told) == (["a", "b"], [])
    health, told = scheduler(health, "c", config=config)
    assert listed(told) == (["c"], [])
    _, told = scheduler(health, config=config)
    assert listed(told) == ([], ["c"])


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (["h2", "h3"], ["h3", "h4"], (["h4"], ["h2"])),
        ([], ["h2", "h1"], (["h1", "h2"], [])),
        (["h2", "h1"], [], ([], ["h1", "h2"])),
        (["h1"], ["h1"], ([], [])),
    ],
)
def test_h4_only_differences_are_told_sorted(before: list[str], after: list[str], told: Told) -> None:
    health, _ = scheduler(Health(), *before)
    assert listed(scheduler(health, *after)[1]) == told


@pytest.mark.parametrize(
    ("sent", "nodes", "all_of_them"),
    [
        pytest.param(4, 4, True, id="H5 three of the scheduler's and one of our own"),
        pytest.param(3, 4, False, id="one is left"),
        pytest.param(5, 4, True, id="62 names of no node count, too"),
        pytest.param(9, NODES_UNKNOWN, False, id="62 nobody has said how many there are"),
        pytest.param(9, 0, False, id="62 no nodes"),
        pytest.param(9, -1, False, id="less than none"),
        pytest.param(0, 4, False, id="none is excluded"),
    ],
)
def test_h5_all_nodes_are_excluded(sent: int, nodes: int, all_of_them: bool) -> None:
    health, _ = scheduler(Health(nodes=nodes), *(f"h{number}" for number in range(sent - 1)) if sent else ())
    if sent:
        health, told = failing(health, "bad", 0, 0, 0)
        assert told == [(["bad"], [])]
    assert health.all_excluded is all_of_them


def test_h6_failures_leave_the_window() -> None:
    config = ExclusionConfig(enabled=True, failures_per_node_max=9, window_ms=100)
    health = Health()
    for now, host in ((0, "h1"), (10, "h2"), (20, "h1"), (30, "h2")):
        health, _ = health.failed(host, config, now)
    assert health.failures_at(config, 30) == 4
    assert health.failures_at(config, 101) == 3
    assert health.by_host["h1"].within(100, 101).count == 1
    assert health.failures_at(config, 231) == 0
    assert health.failures_at(ExclusionConfig(enabled=True), 10**12) == 4


@given(
    st.lists(st.tuples(st.sampled_from(["h1", "h2", "h3", None]), st.integers(0, 120), st.booleans()), max_size=40),
    st.sampled_from([None, 0, 90]),
    st.integers(0, 2),
)
def test_the_list_that_was_told_is_the_list_that_is_kept(
    story: list[tuple[str | None, int, bool]], window: int | None, limit: int
) -> None:
    """Who adds and removes what is told has what ``sent`` has; older states still answer."""
    config = ExclusionConfig(
        frozenset({"h9"}), enabled=True, failures_per_node_max=limit, timeout_ms=70, window_ms=window
    )
    health, told = Health().refreshed(config, 0)
    heard, now = set(told.added), 0
    moments: list[int] = []
    kept: list[tuple[Health, int, int]] = []
    for host, later, refresh in story:
        now += later
        kept.append((health, now, health.failures_at(config, now)))
        if host is None or host not in health.own:
            moments.append(now)
        if refresh:
            health, told = health.refreshed(config, now)
            assert not any(until <= now for until in health.own.values())
        else:
            health, told = health.failed(host, config, now)
        if refresh and moments and (host is None or host not in kept[-1][0].own):
            moments.pop()
        assert not heard & set(told.added)
        assert set(told.removed) <= heard
        heard = heard - set(told.removed) | set(told.added)
        assert heard == health.sent
        assert health.failures_at(config, now) == sum(not window or moment >= now - window for moment in moments)
    for older, then, count in kept:
        assert older.failures_at(config, then) == count


def test_failures_of_one_moment_are_one_entry() -> None:
    failures = Failures()
    for _ in range(1_000):
        failures = failures.registered(7)
    assert (len(failures.moments), failures.count) == (1, 1_000)
