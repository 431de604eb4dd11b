"""Gates: what they mean, and what is said about those that cannot be read."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from podtide.domain.rerun.outcome import Decision
from podtide.domain.whatif.comparison import Metric, decisions_compared, share, total
from podtide.domain.whatif.gates import Bounded, Breach, Gate, GateError, Pair, breaches, parse


@pytest.mark.parametrize(
    ("text", "gate"),
    [
        ("cost>+2%", Gate("cost>+2%", Metric.COST, 0.02)),
        ("cost>2%", Gate("cost>2%", Metric.COST, 0.02)),
        (" any( runtime ) >= + 1.5 m ", Gate("any( runtime ) >= + 1.5 m", Metric.RUNTIME, 90.0, True, True, False)),
        ("cost>-10%", Gate("cost>-10%", Metric.COST, -0.1)),
        ("executor_seconds>1000", Gate("executor_seconds>1000", Metric.EXECUTOR_SECONDS, 1000.0, relative=False)),
        ("waited>1h", Gate("waited>1h", Metric.WAITED, 3600.0, relative=False)),
        ("peak_executors>+10", Gate("peak_executors>+10", Metric.PEAK, 10.0, relative=False)),
    ],
)
def test_a_gate_is_read(text: str, gate: Gate) -> None:
    assert parse(text) == gate


@pytest.mark.parametrize(
    ("text", "at", "expected"),
    [
        ("", 0, "one of runtime,"),
        ("money>1%", 0, "one of runtime,"),
        ("anyruntime>1%", 0, "one of runtime,"),
        ("any runtime>1%", 4, "'(' after any"),
        ("any(runtime>1%", 11, "')'"),
        ("cost", 4, "'>' or '>='"),
        ("cost<1%", 4, "'>' or '>='"),
        ("cost>", 5, "a number"),
        ("cost>+-2%", 6, "a number"),
        ("cost>1.2.3%", 5, "a number"),
        ("cost>.%", 5, "a number"),
        ("cost>2%%", 7, "the end"),
        ("cost>2s", 6, "the end"),
        ("runtime>2days", 9, "the end"),
        ("x" * 200, 100, "a gate of at most"),
        ("cost>" + "9" * 40, 5, "a number"),
        ("cost>\u0662%", 5, "a number"),
    ],
)
def test_what_cannot_be_read_says_where_and_what_was_expected(text: str, at: int, expected: str) -> None:
    with pytest.raises(GateError) as refused:
        parse(text)
    assert refused.value.at == at
    assert refused.value.expected.startswith(expected)


@given(st.text(max_size=30))
def test_any_text_is_read_or_refused(text: str) -> None:
    refused = None
    try:
        assert parse(text).text == text.strip()
    except GateError as wrong:
        refused = wrong
    assert refused is None or 0 <= refused.at <= len(text)


def pair(name: str, base: float, candidate: float, off: float = 0.0) -> Pair:
    takes = Bounded(candidate, candidate - off, candidate + off)
    return Pair(name, {Metric.RUNTIME: base}, {Metric.RUNTIME: takes})


@pytest.mark.parametrize(
    ("gate", "failed"),
    [
        ("runtime>+10%", []),
        ("runtime>=+10%", [None]),
        ("runtime>+9%", [None]),
        ("any(runtime)>+10%", ["b"]),
        ("any(runtime)>+29s", ["b"]),
        ("any(runtime)>+30s", []),
        ("any(runtime)>-99%", ["a", "b"]),
    ],
)
def test_together_or_each_by_itself(gate: str, failed: list[str | None]) -> None:
    pairs = [pair("a", 100, 90), pair("b", 100, 130)]
    assert [one.application for one in breaches(parse(gate), pairs)] == failed


@pytest.mark.parametrize(
    ("gate", "candidate", "fails"),
    [
        ("runtime>+2%", 104, False),  # one run in ten may be quicker
        ("runtime>+2%", 108, True),
        ("runtime>-10%", 88, True),  # one run in ten may gain less
        ("runtime>-10%", 84, False),
        ("any(runtime)>+3s", 109, True),
        ("any(runtime)>+3s", 107, False),
    ],
)
def test_a_loss_and_a_gain_have_to_be_there_in_nine_of_ten_runs(gate: str, candidate: float, fails: bool) -> None:
    assert bool(breaches(parse(gate), [pair("a", 100, candidate, off=5)])) is fails


def test_what_does_not_end_fails_every_gate() -> None:
    pairs = [pair("a", 100, 90), Pair("b", {}, {}, "its tasks wait")]
    assert breaches(parse("runtime>+100%"), pairs) == (Breach("b", why="its tasks wait"),)


def test_without_anything_to_compare_a_gate_over_all_holds() -> None:
    assert breaches(parse("runtime>+1%"), []) == ()


@pytest.mark.parametrize(("base", "candidate", "told"), [(2, 3, 0.5), (0, 0, 0.0), (0, 1, float("inf")), (4, 0, -1.0)])
def test_a_share_of_nothing(base: float, candidate: float, told: float) -> None:
    assert share(base, candidate) == told


def test_of_the_peak_the_largest_counts() -> None:
    sums = total([{Metric.PEAK: 4.0, Metric.RUNTIME: 1.0}, {Metric.PEAK: 9.0, Metric.RUNTIME: 2.0}])
    assert sums == {Metric.PEAK: 9.0, Metric.RUNTIME: 3.0}


def decided(at: int, before: int, after: int) -> Decision:
    return Decision(at, "target", "backlog", {}, 0, before, after)


def test_decisions_are_compared_by_what_and_not_by_when() -> None:
    base = [decided(1, 0, 1), decided(2, 1, 3), decided(3, 3, 7)]
    other = [decided(5, 0, 1), decided(6, 1, 2), decided(9, 3, 7), decided(9, 3, 7)]
    assert decisions_compared(base, base) == (3, 3, 0, None)
    found = decisions_compared(base, other)
    assert found[:3] == (3, 4, 3)
    assert found.first == (base[1], other[1])
    assert decisions_compared([], other[:1]).first == (None, other[0])
