"""The view over a document made by hand: every part of it, and every kind of text that a log may hold."""

from __future__ import annotations

import io
from typing import Any

import pytest
from hypothesis import given, strategies as st

from podtide.adapters.recording.records.decisions import SCHEMA_VERSION
from podtide.adapters.recording.records.expectation import Expectation, Unexpected, departures
from podtide.adapters.text import format as wording
from podtide.adapters.text.page import Page
from podtide.adapters.text.progress import ByteProgress
from podtide.adapters.views.expectation import verdict
from podtide.adapters.views.replay import ReplayView
from podtide.adapters.views.timeline.scaling import Timeline
from tests.support.terminal import Terminal

T0 = 1_700_000_000_000
EVIL = "\x1b[2J[red]\x9b\u202e\u2028\ud800x"


def lane(**more: int) -> dict[str, Any]:
    return {
        "decisions": 9, "peak_target": 4, "peak_target_ms": T0 + 5000, "target_changes": 6, "kills_proposed": 3,
        "kills_confirmed": 1, "kills_disproved": 1, "kills_unconfirmed": 1, "schedule_threw": 0,
        "by_cause": {"backlog": 7, "idle": 1}, "held": {}, **more,
    }  # fmt: skip


def document(name: str | None = "etl", **more: Any) -> dict[str, Any]:
    app = {
        "id": name, "name": name, "attempt": name, "spark_version": name, "started_ms": T0, "ended_ms": None,
        "first_ms": T0, "last_ms": T0 + 60_000, "tasks": 1, "stages": 2, "jobs": 3000,
    }  # fmt: skip
    text = name or "plain"
    return {
        "podtide": SCHEMA_VERSION,
        "app": app,
        "log": {
            "name": text, "files": [text, text], "codecs": ["zstd"], "in_progress": True, "rolled": True,
            "compacted": True,
        },
        "events": {
            "read": 10, "skipped": 1, "malformed": 8, "cut": 1,
            "malformed_lines": [{"file": text, "line": 3, "why": text}] * 8,
            "faults": [{"file": text, "line": 9, "kind": "cut off", "why": text}] * 7,
        },
        "conf": {
            "spark.dynamicAllocation.maxExecutors": {"value": "8", "origin": "--conf"},
            "spark.dynamicAllocation.minExecutors": {"value": text, "origin": "event log", "unusable": "a number"},
            "spark.dynamicAllocation.executorIdleTimeout": {"value": "60000ms", "origin": "default of Spark 3.5"},
            "spark.dynamicAllocation.cachedExecutorIdleTimeout": {"value": "2147483647000ms", "origin": "default of 3"},
            "spark.task.cpus": {"value": None, "origin": "default of Spark 3.5"},
            f"spark.{text}": {"value": text, "origin": f"file {text}:3"},
        },
        "behaviour": "4.3.0",
        "defaults": "Spark 3.5",
        "dynamic_allocation": True,
        "actual": {
            "added": 2, "removed": 1, "peak": 2, "peak_ms": T0 + 7000, "executor_seconds": 90.5,
            "idle_executor_seconds": 30.25, "backlog_s": 12.0, "backlog_waited_for_executors_s": 2.0,
        },
        "replayed": {
            **lane(), "peak_need": 24,
            "bounds": {"shuffles_never_cleaned": lane(), "shuffles_cleaned_at_once": lane(kills_proposed=4)},
        },
        "series": {"width_ms": 30_000, "mean": [[4, 24, 2, 2], [1, 1, 2, 0]], "peak": []},
        "notes": [f"A note about {text}."],
        "stalls": [],
        "stalls_left_out": 0,
        "limits": [f"What cannot be told of {text}."],
        **more,
    }  # fmt: skip


def shown(told: dict[str, Any], width: int = 80, encoding: str = "utf-8", timeline: Timeline | None = None) -> str:
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    if timeline is None:
        timeline = Timeline()
        timeline.finish(T0 + 60_000, ())
    ReplayView(Page(stream, width), told, {}).report(timeline)
    stream.flush()
    raw = stream.buffer
    assert isinstance(raw, io.BytesIO)
    return raw.getvalue().decode(encoding)


@pytest.mark.parametrize(
    "told",
    [
        "etl  etl attempt etl",
        "Spark etl · 2023-11-14 22:13:20 UTC · 1m 00s · 3,000 jobs, 2 stages, 1 task",
        "Log: etl, zstd, 2 files, rolled, compacted, in progress, cut off at its end",
        "Decided as Spark 4.3.0 would; defaults (only) of Spark 3.5.",
        "--conf     maxExecutors 8",
        "executorIdleTimeout 1m00s · cachedExecutorIdleTimeout unlimited",
        "spark.task.cpus unset",
        "! A note about etl.",
        "nothing was decided",
        "peak target       4 at 0:05.0 · the tasks could use 24",
        "peak executors    2 at 0:07.0 · 2 came, 1 went",
        "executor-seconds  90.5 · 30.2 of them idle (33%)",
        "backlog           tasks waited 12 s, short of executors 2 s",
        "kills             3 proposed · 1 confirmed, 1 disproved, 1 open at the end",
        "kills proposed                           3        4",
        "· What cannot be told of etl.",
        "10 read, 1 of them without a role, 8 malformed",
        "! etl:3: etl",
        "and 3 more malformed lines",
        "! etl:9: cut off: etl",
        "and 2 more faults",
    ],
)
def test_the_report_says(told: str) -> None:
    assert told in shown(document())


def test_what_a_log_does_not_say_is_said_to_be_missing() -> None:
    told = shown(document(None, replayed={**lane(kills_proposed=0, schedule_threw=2), "peak_need": 0, "bounds": None}))
    assert "An application without a name\n" in told
    assert "Spark version not logged" in told
    assert "kills             none proposed" in told
    assert "schedule() threw  reported 2 times" in told


@pytest.mark.parametrize("width", range(20, 130, 7))
@pytest.mark.parametrize("name", ["etl", "長い名前" * 30, "a-name-without-any-break" * 20])
def test_every_width_will_do(width: int, name: str) -> None:
    told = shown(document(name), width)
    cells = [sum(2 if sign > "\u2fff" else 1 for sign in line) for line in told.splitlines()]
    assert max(cells) <= min(width, 120)


def test_the_narrow_report_says_no_less() -> None:
    narrow = shown(document(), 34)
    for told in ("kills proposed", "3 · 4", "maxExecutors 8", "them idle", "and 2 more faults"):
        assert told in narrow


# ---------------------------------------------------------------------------------------------------- verdicts


class _Reader:
    name = "expected.jsonl"

    def decisions(self) -> Any:
        return iter(())


def story(expected: Any, decided: Any) -> str:
    expectation = Expectation(_Reader())  # type: ignore[arg-type]  # all that is asked of a reader
    differing = departures(expected, decided) if expected and decided else []
    expectation.difference = Unexpected(7, expected, decided, differing, [], [], [], [])
    stream = io.StringIO()
    verdict(ReplayView(Page(stream, 80), document(), {}), expectation, document())
    return stream.getvalue()


DECIDED = {
    "at_ms": T0, "command": "requestTotalExecutors", "targets": {"0": 4}, "cause": "backlog",
    "facts": {"profile": 0, "before": 1, "after": 4, "need": 9},
}  # fmt: skip

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
facts = st.dictionaries(
    st.sampled_from(["profile", "before", "after", "need", "pending_tasks", "running_tasks", "speculative_tasks",
                     "unschedulable_task_sets", "tasks_per_executor", "executors", "increment", "bound", "minimum",
                     "idle_since_ms", "timeout_ms", "removed", "x"]),
    values, max_size=17,
)  # fmt: skip
expectations = st.fixed_dictionaries(
    {"at_ms": st.integers(), "command": st.sampled_from(["requestTotalExecutors", "killExecutors", "x", EVIL])},
    optional={
        "targets": st.dictionaries(st.text(max_size=3), values), "ids": st.lists(values, max_size=3), "facts": facts,
        "cause": values | st.sampled_from(["backlog", "initial", "lowered need", "idle", "minimum"]),
        "changes": st.lists(st.dictionaries(st.text(max_size=3), values), max_size=2),
    },
)  # fmt: skip


@given(expectations)
def test_any_expectation_can_be_told(expected: dict[str, Any]) -> None:
    told = story(expected, DECIDED)
    assert all(sign.isprintable() for sign in told.replace("\n", ""))
    assert "expected.jsonl:7 expects another decision" in " ".join(told.split())
    assert "expects a decision that did not come" in " ".join(story(expected, None).split())


def test_a_difference_names_every_value() -> None:
    told = story({**DECIDED, "targets": {"0": 5}, "facts": {"need": 3}}, DECIDED)
    assert "targets.0   expected 5, decided 4" in told
    assert "facts.need  expected 3, decided 9" in told


# ----------------------------------------------------------------------------------------------------- progress


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr("podtide.adapters.text.progress.time.monotonic", lambda: now[0])
    monkeypatch.setenv("TERM", "xterm")
    return now


def test_progress_appears_after_a_while_and_is_wiped(clock: list[float]) -> None:
    terminal = Terminal()
    with ByteProgress(terminal, 4_000_000) as shown_so_far:
        shown_so_far.show(1)
        assert terminal.getvalue() == ""
        clock[0] += 2
        shown_so_far.show(1_000_000)
        assert terminal.getvalue() == "\rreading   25%  1.0 MB of 4.0 MB, 500.0 kB/s, 6 s left\x1b[K"
        shown_so_far.show(2_000_000)
        assert terminal.getvalue().count("reading") == 1
    assert terminal.getvalue().endswith("\r\x1b[K")


def test_progress_of_unknown_length_tells_what_was_read(clock: list[float]) -> None:
    terminal = Terminal()
    with ByteProgress(terminal, None) as shown_so_far:
        clock[0] += 1
        shown_so_far.show(500)
    assert terminal.getvalue() == "\rreading  500 B, 500 B/s\x1b[K\r\x1b[K"


@pytest.mark.parametrize("stream", [io.StringIO(), Terminal()], ids=["pipe", "dumb terminal"])
def test_progress_is_quiet_elsewhere(clock: list[float], monkeypatch: pytest.MonkeyPatch, stream: io.StringIO) -> None:
    monkeypatch.setenv("TERM", "dumb")
    with ByteProgress(stream, 10) as shown_so_far:
        clock[0] += 9
        shown_so_far.show(5)
    assert stream.getvalue() == ""


# ------------------------------------------------------------------------------------------------------ wording


@pytest.mark.parametrize(
    ("span", "tenths", "told"),
    [
        (0, True, "0:00.0"), (61_230, True, "1:01.2"), (61_230, False, "1:01"), (3_723_000, False, "1:02:03"),
        (90_061_000, False, "1d 01:01:01"), (-1500, True, "-0:01.5"),
    ],
)  # fmt: skip
def test_clock(span: int, tenths: bool, told: str) -> None:
    assert wording.clock(span, tenths=tenths) == told


@pytest.mark.parametrize(
    ("span", "told"),
    [
        (0, "0 s"), (300, "300 ms"), (4_300, "4.3 s"), (15_000, "15 s"), (59_999, "60 s"), (125_000, "2m 05s"),
        (11_220_000, "3h 07m"), (10**9, "11d 13h"),
    ],
)  # fmt: skip
def test_lasting(span: int, told: str) -> None:
    assert wording.lasting(span) == told


def test_a_moment_beyond_the_calendar_is_a_number() -> None:
    assert wording.moment(0) == "1970-01-01 00:00:00 UTC"
    assert wording.moment(10**17) == "100,000,000,000,000,000 ms"
