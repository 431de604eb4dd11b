"""Calls as they are counted: how they ended, how long they took, and what strange servers cannot do to it."""

from __future__ import annotations

import pytest

from podtide.adapters.kubernetes.api import CallSeen
from podtide.adapters.views.live import api_calls
from tests.support.live_play import HandClock


def call(verb: str = "create", status: int | None = 201, seconds: float = 0.01, resource: str = "pods") -> CallSeen:
    return CallSeen(verb, resource, status, seconds, 100, 200)


@pytest.mark.parametrize(
    ("verb", "status", "failed"),
    [
        ("create", 201, False), ("create", 409, True), ("create", None, True), ("get", 404, False), ("delete", 404, False),
        ("deletecollection", 404, False), ("patch", 404, True), ("delete", 409, True), ("list", 410, True),
        ("watch", 200, False), ("list", 500, True), ("list", 301, False),
    ],
)  # fmt: skip
def test_what_has_failed(verb: str, status: int | None, failed: bool) -> None:
    assert api_calls.has_failed(call(verb, status)) is failed


def test_calls_are_counted_by_what_they_were_and_how_they_ended() -> None:
    calls = api_calls.Calls(HandClock())
    for status in (201, 201, 429, None, 9_999):
        calls.take(call(status=status))
    calls.take(call("watch", 200, 300.0))
    figures = calls.figures()
    assert figures.totals == {
        ("create", "pods", "201"): 2, ("create", "pods", "429"): 1, ("create", "pods", "none"): 1,
        ("create", "pods", "other"): 1, ("watch", "pods", "200"): 1,
    }  # fmt: skip
    assert (figures.calls, figures.failed, figures.throttled, figures.sent, figures.received) == (6, 3, 1, 600, 1_200)
    assert figures.last_failure is not None
    assert figures.last_failure.code == "other"


def test_a_watch_is_no_latency() -> None:
    calls = api_calls.Calls(HandClock())
    calls.take(call("watch", 200, 300.0))
    figures = calls.figures()
    assert (figures.latencies, figures.median) == ((), None)
    assert figures.histograms["watch", "pods"].count == 0


def test_latencies_are_of_the_window_alone() -> None:
    clock = HandClock()
    calls = api_calls.Calls(clock)
    for hundredths in range(100):
        calls.take(call(seconds=hundredths / 100))
    (latency,) = calls.figures().latencies
    assert (latency.calls, latency.median, latency.slowest) == (100, 0.5, 0.99)
    clock.at += 301_000
    calls.take(call(seconds=2.0))
    (latency,) = calls.figures().latencies
    assert (latency.calls, latency.median, latency.slowest) == (1, 2.0, 2.0)
    assert calls.figures().histograms["create", "pods"].count == 101


def test_what_is_recent_ends() -> None:
    clock = HandClock()
    calls = api_calls.Calls(clock)
    calls.take(call(status=429))
    clock.at += 100_000
    calls.take(call())
    assert (calls.figures().recent, calls.figures().recent_failed, calls.figures().recent_throttled) == (2, 1, 1)
    clock.at += 250_000
    assert (calls.figures().recent, calls.figures().recent_failed, calls.figures().recent_throttled) == (1, 0, 0)
    clock.at += 3_600_000
    assert calls.figures().recent == 0


def test_memory_is_bounded_whatever_is_called() -> None:
    calls = api_calls.Calls(HandClock())
    for number in range(2_000):
        calls.take(call(f"verb{number}", 200 + number % 300, resource=f"r{number}"))
    for _ in range(3 * api_calls.LATENCIES_MAX):
        calls.take(call())
    figures = calls.figures()
    assert len(figures.histograms) <= api_calls.KINDS_MAX + 1
    assert len(figures.totals) <= api_calls.ENDINGS_MAX + 1
    assert max(latency.calls for latency in figures.latencies) <= api_calls.LATENCIES_MAX
    assert sum(figures.totals.values()) == figures.calls == 2_000 + 3 * api_calls.LATENCIES_MAX


def test_a_histogram_counts_up_to_each_edge() -> None:
    counter = api_calls.HistogramCounter((0.1, 1.0))
    for seconds in (0.05, 0.1, 0.5, 1.0, 2.0):
        counter.add(seconds)
    taken = counter.taken()
    assert (taken.cumulative, taken.count) == ((2, 4, 5), 5)
    assert taken.seconds == pytest.approx(3.65)
