"""The notices of a live run about stalls."""

from __future__ import annotations

from podtide.adapters.notices import Level, Notice, Topic
from podtide.adapters.recording.run_stalls import stall_document
from podtide.adapters.text.format import lasting
from podtide.domain.protocol.reasons import Phase
from podtide.domain.stalls.causes import ROWS
from podtide.domain.stalls.stalls import StallNews


def stall_notice(news: StallNews) -> Notice:
    """What is said when a stall begins or ends: an alarm is a warning, a limit is to know."""
    stall, row = news.stall, ROWS[news.stall.cause]
    document = stall_document(stall)
    facts = {
        "cause": stall.cause.value,
        "profile": stall.profile,
        "blocked": int(stall.blocked),
        "began_ms": stall.since,
        "ended_ms": stall.until,
        **stall.facts,
        "named": ", ".join(document["executors"]) or None,
        "stage_attempts": ", ".join(document["stage_attempts"]) or None,
    }
    end = news.at if stall.until is None else stall.until
    span = lasting(max(0, end - stall.since))
    if news.phase is Phase.ENDED:
        level, topic, text = Level.INFO, Topic.STALL_ENDED, f"{stall.cause.value}: over after {span}"
    else:
        level = Level.WARNING if stall.blocked else Level.INFO
        what = "tasks wait and nothing moves" if stall.blocked else "limit, tasks wait"
        topic, text = Topic.STALL, f"{stall.cause.value}: {what} for {span}. {row.meaning} {row.advice}"
    return Notice(news.at, level, topic, text, tuple((name, fact) for name, fact in facts.items() if fact is not None))
