"""A stall as people and machines are told of it live: the news, the status, what is wrong now, the metrics."""

from __future__ import annotations

import io
import json
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from podtide.adapters.notices import Level, Topic
from podtide.adapters.views.live.log_lines import LiveLines, status_words
from podtide.adapters.views.live.metrics import LiveMetrics
from podtide.adapters.views.live.stall_notices import stall_notice
from podtide.adapters.views.live.status import alarms
from podtide.adapters.views.live.tracker import LiveTracker
from podtide.domain.base.units import ProfileId
from podtide.domain.protocol.reasons import Phase
from podtide.domain.stalls.causes import StallCause
from podtide.domain.stalls.stalls import Stall, StallNews
from tests.support.live_play import START, HandClock, tracker

M = 60_000
QUOTA = Stall(
    StallCause.QUOTA, ProfileId(0), START, True,
    {"refusals": 7, "message": "exceeded quota: \x1b[31mcompute", "waiting_tasks": 8, "executors": 0, "target": 4},
    attempts=((3, 1),),
)  # fmt: skip
MAXIMUM = Stall(StallCause.MAXIMUM, ProfileId(2), START + M, False, {"waiting_tasks": 5, "running_tasks": 2})
BEGAN = StallNews(START + 5 * M, Phase.BEGAN, QUOTA)
ENDED = StallNews(START + 9 * M, Phase.ENDED, QUOTA._replace(until=START + 8 * M))


def standing(*stalls: Stall) -> tuple[LiveTracker, HandClock]:
    clock = HandClock()
    found = tracker(clock)
    found.ask_for_stalls(lambda: stalls, lambda: {one.cause.value: 1 for one in stalls if one.blocked})
    clock.at = START + 6 * M
    return found, clock


def test_the_beginning_says_since_when_why_and_what_to_do_and_the_end_how_long() -> None:
    began, ended = stall_notice(BEGAN), stall_notice(ENDED)
    assert (began.level, began.topic) == (Level.WARNING, Topic.STALL)
    assert began.text.startswith(
        "quota: tasks wait and nothing moves for 5m 00s. The API server refuses new pods. Raise"
    )
    assert dict(began.facts) == {
        "cause": "quota", "profile": 0, "blocked": 1, "began_ms": START, **QUOTA.facts, "stage_attempts": "3.1",
    }  # fmt: skip
    assert (ended.level, ended.topic, ended.text) == (Level.INFO, Topic.STALL_ENDED, "quota: over after 8m 00s")
    assert dict(ended.facts)["ended_ms"] == START + 8 * M
    limit = stall_notice(StallNews(START + 11 * M, Phase.BEGAN, MAXIMUM))
    assert (limit.level, limit.text[:40]) == (Level.INFO, "maximum: limit, tasks wait for 10m 00s. ")


def test_what_lasts_is_in_every_status_an_alarm_among_what_is_wrong() -> None:
    found, _ = standing(QUOTA, MAXIMUM)
    snapshot = found.snapshot()
    (alarm,) = alarms(snapshot)
    assert alarm.startswith("nothing moves for 6m 00s: quota · waiting tasks: 8 · ")
    assert "\x1b" not in alarm
    words = status_words(snapshot)
    assert "tasks wait of profile 2 for 5m 00s: maximum · waiting tasks: 5 · running tasks: 2" in words
    assert alarm in words


def test_lines_tell_it_and_a_status_follows_though_nothing_else_is_different() -> None:
    stalls: list[Stall] = []
    clock, out = HandClock(), io.StringIO()
    found = tracker(clock)
    found.ask_for_stalls(lambda: tuple(stalls), dict)
    lines = LiveLines(found, out, clock, as_json=True, status_ms=1_000)
    clock.at += 1_000
    lines.pump()
    stalls.append(QUOTA)
    for listener in (found, lines):
        listener.notify(stall_notice(BEGAN))
    clock.at += 1_000
    lines.pump()
    records: list[dict[str, Any]] = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [(one["kind"], one.get("topic")) for one in records] == [
        ("status", None),
        ("news", "stall"),
        ("status", None),
    ]
    assert records[1]["facts"]["cause"] == "quota"
    assert records[0]["stalls"] == []
    (told,) = records[2]["stalls"]
    assert (told["cause"], told["began_ms"], told["ended_ms"], told["blocked"]) == ("quota", START, None, True)


def test_metrics_say_how_long_and_count_alarms_from_zero() -> None:
    found, _ = standing(QUOTA, MAXIMUM, QUOTA._replace(profile=ProfileId(-1), since=START + 2 * M))
    body, _ = LiveMetrics(found.snapshot).page()
    samples = {
        (sample.name, *(label for _, label in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(body.decode())
        for sample in family.samples
        if sample.name.startswith("podtide_stall")
    }
    assert {key: value for key, value in samples.items() if key[0] == "podtide_stall_seconds"} == {
        ("podtide_stall_seconds", "quota", "stall", "0"): 360.0,
        ("podtide_stall_seconds", "quota", "stall", "other"): 240.0,
        ("podtide_stall_seconds", "maximum", "limit", "2"): 300.0,
    }
    assert samples["podtide_stalls_total", "quota"] == 1
    assert samples["podtide_stalls_total", "maximum"] == 0
    assert len(samples) == 3 + len(StallCause)
