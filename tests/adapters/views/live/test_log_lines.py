"""Lines of a live run: columns that stay, one object a line, and readers that are slow, gone or full."""

from __future__ import annotations

import io
import json
import os
from typing import Any

import pytest

from podtide.adapters.kubernetes.api import CallSeen
from podtide.adapters.notices import Level, Topic
from podtide.adapters.views.live.log_lines import AT_ONCE_MAX, LiveLines
from podtide.adapters.views.live.tracker import LiveTracker
from podtide.domain.base.units import ExecutorId, ProfileId
from podtide.domain.conf.redaction import redaction_of
from podtide.domain.conf.spark_conf import from_mapping
from podtide.domain.protocol.application import EngineConfig
from podtide.domain.protocol.commands import Step
from podtide.domain.protocol.pod_commands import MarkPods
from podtide.domain.protocol.reasons import Bound, Cause, Held, Phase, Threw, Why
from tests.support.engine_play import S, config
from tests.support.live_play import START, HandClock, Seen, notice, tracker
from tests.support.project import PROJECT

SCHEMA = PROJECT / "docs" / "schema" / "record.json"


class Run:
    """An application, its story and its lines, on one clock. Nothing is written before ``written``."""

    def __init__(self, settings: EngineConfig | None = None, out: Any = None, **how: Any) -> None:
        self.clock = HandClock()
        self.tracker: LiveTracker = tracker(self.clock)
        self.out = io.StringIO() if out is None else out
        self.complaints: list[str] = []
        self.lines = LiveLines(self.tracker, self.out, self.clock, complain=self.complaints.append, **how)
        self.play = Seen(settings or config(initial=0), self.clock, self.tracker, self.lines)

    def written(self) -> list[str]:
        self.lines.pump()
        text: list[str] = self.out.getvalue().splitlines()
        self.out.seek(0)
        self.out.truncate()
        return text

    def records(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.written()]

    def say(self, *commands: Any, reports: tuple[Any, ...] = ()) -> None:
        self.lines.step(self.clock.at, (), Step(self.play.state, commands, reports))


# ------------------------------------------------------------------------------------------------------------ plain lines


def test_columns_of_plain_lines() -> None:
    run = Run()
    run.clock.at = run.play.now = START + 1_234
    run.play.want(500)
    target, create, *_ = run.written()
    assert (
        target == "2026-11-21T10:00:01.234Z info    report   target                 target 0 → 500 · set from outside"
    )
    assert create.startswith("2026-11-21T10:00:01.234Z info    decision createPod              create pods 1-")
    assert [len(line.split(maxsplit=4)) for line in (target, create)] == [5, 5]


def test_what_came_at_once_is_one_line() -> None:
    run = Run()
    run.play.want(5)
    run.play.up(1, 2, 3, 4, 5)
    registered = [line for line in run.written() if "answerRegistration" in line]
    assert len(registered) == 1
    assert "executors 1-5 registered · 5 in all · in 5 steps" in registered[0]


def test_bounds_are_told_when_they_begin_and_end() -> None:
    run = Run()
    for phase in (Phase.BEGAN, Phase.CHANGED, Phase.ENDED):
        run.say(reports=(Held(run.clock.at, phase, Bound.MAXIMUM, ProfileId(0), facts={"need": 9, "maximum": 4}),))
    began, ended = run.written()
    assert " held     maximum                held at 4 · began · by maxExecutors · need up to 9" in began
    assert " · ended · " in ended


def test_news_and_its_numbers() -> None:
    run = Run()
    run.lines.notify(notice(Topic.CALL_REFUSED, "pods is\n forbidden {x}", Level.ERROR, status=403))
    (line,) = run.written()
    assert line == (
        "2026-11-21T10:00:00.000Z error   news     call-refused           pods is forbidden {x} · status 403"
    )


def test_a_flood_of_news_is_counted() -> None:
    run = Run()
    for number in range(500):
        run.lines.notify(notice(text=f"no {number}"))
    lines = run.written()
    assert len(lines) == AT_ONCE_MAX + 1
    assert lines[-1].endswith("call-refused           and 495 more like these at once")


@pytest.mark.parametrize(("level", "seen"), [("debug", 4), ("info", 3), ("warning", 2), ("error", 1)])
def test_levels(level: str, seen: int) -> None:
    run = Run(level=level)
    run.lines.notify(notice(level=Level.INFO, text="i"))
    run.lines.notify(notice(level=Level.WARNING, text="w"))
    run.lines.notify(notice(level=Level.ERROR, text="e"))
    run.say(reports=(Held(run.clock.at, Phase.CHANGED, Bound.BATCH_SIZE, ProfileId(0), facts={"missing": 2}),))
    assert len([line for line in run.written() if "target" not in line and "createConfigMap" not in line]) == seen


def test_nothing_in_a_line_can_steer_a_terminal() -> None:
    run = Run()
    run.lines.notify(notice(text="a\x1b[2Jb\u202ec\x7f" + "d" * 5_000))
    run.say(reports=(Threw(run.clock.at, "m\x1b", "x\r\ny"),))
    for line in run.written():
        assert line.isprintable()
        assert len(line) < 2_200


def test_an_ascii_stream_gets_ascii() -> None:
    raw = io.BytesIO()
    run = Run(out=io.TextIOWrapper(raw, encoding="ascii"))
    run.play.want(2)
    run.lines.notify(notice(text="Köln"))
    run.lines.pump()
    assert b"target 0 -> 2" in raw.getvalue()
    assert b"K\\xf6ln" in raw.getvalue()


# -------------------------------------------------------------------------------------------------------------- JSON lines


def test_json_lines_hold_every_decision_as_its_record() -> None:
    run = Run(config(initial=0, allocation={"batch_size": 50}), as_json=True)
    run.play.want(30)
    records = run.records()
    creates = [record for record in records if record.get("command") == "createPod"]
    assert len(creates) == 30
    assert list(creates[0])[:4] == ["at_ms", "level", "kind", "command"]
    assert creates[0]["facts"] == {"counted": 0, "missing": 30, "profile": 0, "target": 30}
    assert {"at_ms": START, "level": "info", "kind": "report", "report": "target", "profile": 0, "before": 0,
            "after": 30, "cause": "set from outside"} in records  # fmt: skip


def test_decisions_of_json_lines_are_valid_records() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    run = Run(config(initial=3, dynamic=True), as_json=True)
    run.play.up(1, 2, 3)
    run.play.kill(2)
    run.play.wait(90 * S)
    schema = json.loads(SCHEMA.read_text())
    told = [record for record in run.records() if record["kind"] == "decision"]
    assert len(told) > 8
    for record in told:
        del record["level"], record["kind"]
        jsonschema.validate(record, schema)


def test_json_news() -> None:
    run = Run(as_json=True)
    run.lines.notify(notice(Topic.THROTTLED, "wait\x1b", ms=7))
    assert run.records() == [
        {
            "at_ms": START,
            "level": "warning",
            "kind": "news",
            "topic": "throttled",
            "text": "wait\x1b",
            "facts": {"ms": 7},
        }
    ]
    run.lines.notify(notice(text="é\x1b\x7f"))
    assert all(" " <= sign <= "~" for line in run.written() for sign in line)


# --------------------------------------------------------------------------------------------------------------- redaction


@pytest.mark.parametrize("as_json", [True, False])
def test_what_spark_redacts_is_redacted(as_json: bool) -> None:
    conf = from_mapping({"spark.redaction.regex": "fjord", "spark.redaction.string.regex": "s3cr.t"}, "test")
    run = Run(as_json=as_json, redaction=redaction_of(conf))
    for key in ("my.password", "the.fjord", "harmless"):
        run.say(MarkPods(1, 1, (ExecutorId("1"),), "label", key, f"value-of-{key}", Why(Cause.DECOMMISSIONED)))
    run.lines.notify(notice(text="it said s3cret", access_token="hunter2", count=5, why="s3crot"))
    run.lines.notify(notice(text="pod refused: DB=postgres://bob:hush@db/x", why="https://a/b?sig=hush"))
    text = "\n".join(run.written())
    assert "value-of-harmless" in text
    for hidden in ("value-of-my.password", "value-of-the.fjord", "s3cret", "s3crot", "hunter2", "hush"):
        assert hidden not in text
    assert "redacted" in text


def test_a_refusal_that_names_secrets_stays_readable() -> None:
    run = Run()
    run.lines.notify(notice(text='cannot list resource "secrets" in API group ""', status=403))
    assert 'cannot list resource "secrets"' in run.written()[-1]


# ------------------------------------------------------------------------------------------------------------------ status


def statuses(run: Run) -> list[str]:
    return [line for line in run.written() if " status " in line]


def test_a_status_line_comes_every_thirty_seconds_if_something_changed() -> None:
    run = Run()
    run.play.want(3)
    assert statuses(run) == []
    run.clock.at += 30_000
    (line,) = statuses(run)
    assert " · ".join(line.split(maxsplit=4)[4:]).startswith(
        "target 3 · running 0 · asked for 3 · registered 0 · calls 0"
    )
    run.clock.at += 30_000
    run.tracker.seen(CallSeen("list", "pods", 200, 0.1, 0, 0))
    assert statuses(run) == [], "a list by the clock is no change"
    run.play.show("Running", 1)
    assert statuses(run) == [], "too early"
    run.clock.at += 30_000
    assert len(statuses(run)) == 1


def test_a_status_says_what_holds_back_and_what_is_wrong() -> None:
    run = Run(config(initial=0, allocation={"batch_size": 2}))
    run.play.want(9)
    run.tracker.notify(notice(Topic.WATCH_BROKEN))
    run.clock.at += 30_000
    (line,) = statuses(run)
    assert "holds back 7: allocation.batch.size for 30 s" in line
    assert "the watch is broken, for 30 s" in line


def test_a_status_as_json() -> None:
    run = Run(as_json=True, status_ms=1_000)
    run.play.want(2)
    run.play.show("Running", 1)
    run.clock.at += 1_000
    status = run.records()[-1]
    assert list(status)[:3] == ["at_ms", "level", "kind"]
    assert (status["kind"], status["target"], status["pods"]) == ("status", 2, {"requested": 1, "running": 1})
    assert status["profiles"] == [
        {"profile": 0, "target": 2, "pods": {"requested": 1, "running": 1}, "registered": 0, "leaving": 0}
    ]


# ---------------------------------------------------------------------------------------------- readers that do not read


class Failing(io.StringIO):
    """A stream that fails as told."""

    def __init__(self, problem: Exception) -> None:
        super().__init__()
        self.problem: Exception | None = problem

    def write(self, text: str) -> int:
        if self.problem is not None:
            raise self.problem
        return super().write(text)


@pytest.mark.parametrize("problem", [BrokenPipeError(32, "Broken pipe"), ValueError("I/O operation on closed file")])
def test_a_reader_that_has_gone_ends_the_lines_and_is_said_once(problem: Exception) -> None:
    gone: list[bool] = []
    run = Run(out=Failing(problem), on_gone=lambda: gone.append(True))
    run.play.want(3)
    run.lines.pump()
    run.play.want(5)
    run.lines.pump()
    assert run.lines.gone
    assert len(run.complaints) == 1
    assert "the run goes on" in run.complaints[0]
    assert gone == [True]


def test_a_real_pipe_that_is_closed() -> None:
    reading, writing = os.pipe()
    with os.fdopen(writing, "w", encoding="utf-8") as out:
        run = Run(out=out)
        run.play.want(2)
        run.lines.pump()
        assert b"create pods 1-2" in os.read(reading, 65_536)
        os.close(reading)
        run.play.want(4)
        run.lines.pump()
        assert run.complaints == ["nobody reads the output any more; the run goes on, its lines are dropped"]


def test_a_full_disk_is_tried_again() -> None:
    out = Failing(OSError(28, "No space left on device"))
    run = Run(out=out)
    run.play.want(1)
    run.lines.pump()
    run.play.want(2)
    run.lines.pump()
    assert run.complaints == ["the output cannot be written: No space left on device; the run goes on, lines are lost"]
    out.problem = None
    run.play.want(3)
    assert any("target 2 → 3" in line for line in run.written())


def test_a_slow_reader_costs_lines_and_nothing_else() -> None:
    run = Run(queue_max=3)
    for number in range(10):
        run.lines.notify(notice(text=f"n{number}"))
    lines = run.written()
    assert lines[-1].endswith("steps or news were not written: the reader is slower than the run · dropped 7")
    assert run.written() == []


def test_the_end_is_written_with_how_things_stand() -> None:
    run = Run()
    with run.lines:
        run.play.want(2)
    lines = run.out.getvalue().splitlines()
    assert "create pods 1-2" in "\n".join(lines)
    assert " status " in lines[-1]
    run.lines.close()
