"""Decisions in words, as marks and as rows."""

from __future__ import annotations

from typing import Any

import pytest

from podtide.adapters.views.report.decisions import MARKS, kept, marks, words_of
from podtide.adapters.views.whatif.model import DecisionEntry


def raised(at: float, before: int = 5, after: int = 10, **facts: Any) -> DecisionEntry:
    return DecisionEntry(
        at, "target", "backlog", {"pending_tasks": 35, "running_tasks": 10, "need": 12} | facts, 0, before, after
    )


def released(at: float, *executors: str, **facts: Any) -> DecisionEntry:
    return DecisionEntry(at, "release", "idle", {"timeout_ms": 60_000} | facts, executors=executors)


@pytest.mark.parametrize(
    ("decision", "what", "why"),
    [
        (raised(3), "target 5 → 10", "+5: backlog · 35 wait, 10 run · need 12"),
        (raised(3, 10, 4), "target 10 → 4", "−6: backlog · 35 wait, 10 run"),
        (released(90, "4", "7", idle_since_ms=25_000), "let go 2 executors: 4, 7", "idle 1m05s (timeout 1m00s)"),
        (released(90, "4", idle_since_ms=1_795_141_200_000), "let go 1 executor: 4", "idle (timeout 1m00s)"),
        (DecisionEntry(1, "spill\x1b", "why\u202e"), "spill\\x1b", "why\\u202e"),
        (
            DecisionEntry(3, "target", "lowered need", {"need": 2}, 1, 4, 2),
            "target 4 → 2",
            "−2: need fell to 2 · profile 1",
        ),
    ],
)
def test_words(decision: DecisionEntry, what: str, why: str) -> None:
    assert words_of(decision)[1:3] == (what, why)


def test_marks_tell_what_falls_together() -> None:
    many = [raised(at / 100, at, at + 1) for at in range(50)] + [released(0.3, "1", "2"), raised(99, 10, 3)]
    found = marks(many, 100.0)
    assert [mark.kind for mark in found] == ["up", "release", "down"]
    assert found[0].text.splitlines()[0] == "0:00.0 to 0:00.4: 50 decisions, target +50"
    assert found[0].text.splitlines()[-1] == "and 46 more"
    assert "2 executors" in found[1].text


def test_marks_are_bounded() -> None:
    many = [raised(at / 10) for at in range(5_000)] + [released(at / 10, "1") for at in range(5_000)]
    assert len(marks(many, 500.0)) <= 2 * MARKS
    assert marks(many, 0.0) == []


def test_the_rows_that_are_kept_moved_the_most() -> None:
    many = [raised(at, 0, at) for at in range(20)]
    assert [one.after for one in kept(many[::-1], 3)] == [17, 18, 19]
    assert kept(many[::-1], 50) == many


@pytest.mark.parametrize(
    "facts", [{"need": "x"}, {"pending_tasks": None}, {"bound": ["list"]}, {"idle_since_ms": "soon"}]
)
def test_odd_facts_are_no_trouble(facts: dict[str, Any]) -> None:
    assert words_of(raised(1, **facts)).what
    assert words_of(released(1, "1", **facts)).what
