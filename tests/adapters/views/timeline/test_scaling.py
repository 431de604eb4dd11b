"""Records told as moments: what is merged, what is kept, and that neither memory nor any sequence matters."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from podtide.adapters.views.timeline.scaling import (
    COUNTED,
    HEAD,
    PROPOSED_MIN,
    TAIL,
    WEIGHTY,
    Moment,
    MomentKind,
    Timeline,
    between,
    single,
)
from podtide.adapters.views.timeline.scaling_rows import Rows, TimelineRow

Record = dict[str, Any]
WAITS = {"backlog": 1000, "sustained backlog": 2000}


def request(at: int, before: int, after: int, cause: str, profile: int = 0, **facts: Any) -> Record:
    return {
        "at_ms": at,
        "command": "requestTotalExecutors",
        "targets": {str(profile): after},
        "cause": cause,
        "facts": {"profile": profile, "before": before, "after": after, **facts},
    }


def resync(at: int) -> Record:
    facts = {"asked": 1, "removed": 1}
    return {
        "at_ms": at,
        "command": "requestTotalExecutors",
        "targets": {"0": 1},
        "cause": "resync after removal",
        "facts": facts,
    }


def kill(at: int, *ids: str, cause: str = "idle", command: str = "killExecutors") -> Record:
    facts = {"executors": len(ids), "idle_since_ms": at - 5000, "timeout_ms": 5000}
    return {
        "at_ms": at,
        "command": command,
        "ids": list(ids),
        "cause": cause,
        "facts": facts,
        "causes": [cause] * len(ids),
    }


def held(at: int, phase: str, bound: str, *ids: str, profile: int = 0, **facts: Any) -> Record:
    facts = facts or {"executors": len(ids)}
    return {
        "at_ms": at,
        "report": "held",
        "phase": phase,
        "bound": bound,
        "profile": profile,
        "ids": list(ids),
        "facts": facts,
    }


def disproved(at: int, *ids: str) -> Record:
    return {"at_ms": at, "report": "kill disproved", "ids": list(ids)}


def threw(at: int, what: str = "boom", *, repeated: bool = False) -> Record:
    return {"at_ms": at, "report": "schedule threw", "what": what, "repeated": repeated}


def told(*records: Record, end: int = 100_000, proposed: tuple[str, ...] = ()) -> tuple[Timeline, list[Moment]]:
    timeline = Timeline()
    for record in records:
        timeline.take(record)
    timeline.finish(end, proposed)
    return timeline, timeline.moments()


def rows(*records: Record, proposed: tuple[str, ...] = ()) -> list[TimelineRow]:
    timeline, moments = told(*records, proposed=proposed)
    return [row for moment in moments for row in Rows(WAITS, timeline.profiles).of(moment, steps=True)]


def test_a_ramp_is_one_moment_and_can_be_told_step_by_step() -> None:
    ramp = [
        request(1000, 0, 1, "backlog"),
        request(2000, 1, 3, "sustained backlog"),
        request(3000, 3, 7, "sustained backlog"),
    ]
    _, (moment,) = told(*ramp)
    assert (moment.kind, moment.before, moment.after, moment.moves, moment.end) == (MomentKind.RAISED, 0, 7, 3, 3000)
    assert [row.what for row in rows(*ramp)] == ["target 0 → 1", "target 1 → 3", "target 3 → 7"]
    assert [row.why[0] for row in rows(*ramp)] == [
        "+1: backlog for 1 s",
        "+2: backlog 2 s more",
        "+4: backlog 2 s more",
    ]


def test_a_new_backlog_is_a_new_ramp() -> None:
    _, moments = told(request(1, 0, 1, "backlog"), request(9, 1, 2, "backlog"))
    assert [moment.moves for moment in moments] == [1, 1]


def test_a_falling_target_is_one_moment_though_executors_go_meanwhile() -> None:
    fall = [request(at, 9 - at, 8 - at, "lowered need", need=8 - at) for at in range(5)]
    _, moments = told(*fall[:3], kill(3, "1"), resync(3), *fall[3:])
    assert [(m.kind, m.before, m.after, m.moves) for m in moments] == [
        (MomentKind.LOWERED, 9, 4, 5),
        (MomentKind.KILLED, 0, 0, 1),
    ]
    assert rows(*fall)[0].why == ["−5: need fell to 4", "5 steps in 4 ms"]


def test_profiles_are_told_apart_and_named() -> None:
    found = rows(request(1, 0, 1, "backlog"), request(2, 0, 4, "backlog", profile=3), request(3, 1, 0, "lowered need"))
    assert [row.what for row in found] == ["profile 0: 0 → 1", "profile 3: 0 → 4", "profile 0: 1 → 0"]


def test_one_request_may_move_several_profiles() -> None:
    change = {"before": 2, "after": 1, "cause": "lowered need", "facts": {}}
    record = {
        **request(1, 0, 0, "backlog"),
        "changes": [{"profile": 0, **change}, {"profile": 1, **change}],
        "facts": {},
    }
    _, moments = told(record)
    assert [moment.profile for moment in moments] == [0, 1]
    assert [moment.profile for moment in single(record)] == [0, 1]


@pytest.mark.parametrize(
    ("records", "proposed", "said"),
    [
        ([kill(9000, "4", "1")], (), ["kill 4, 1", "idle 5 s (timeout 5 s)", "confirmed"]),
        (
            [kill(9000, "4")],
            ("4",),
            ["kill 4", "idle 5 s (timeout 5 s)", "only proposed", "1 still there when the log ends"],
        ),
        (
            [kill(9000, "4", "1"), disproved(9500, "4")],
            (),
            ["kill 4, 1", "idle 5 s (timeout 5 s)", "1 confirmed", "1 disproved: 4 ran another task"],
        ),
        (
            [kill(9000, "4"), kill(9600, "5")],
            (),
            ["kill 4, 5", "idle 5 s (timeout 5 s), within 600 ms", "confirmed"],
        ),
        (
            [kill(9000, "4", cause="shuffle idle", command="decommissionExecutors")],
            (),
            ["decommission 4", "idle 5 s with shuffle data (timeout 5 s)", "confirmed"],
        ),
    ],
)
def test_what_the_log_knows_of_a_kill(records: list[Record], proposed: tuple[str, ...], said: list[str]) -> None:
    (row,) = rows(*records, proposed=proposed)
    assert [row.what, *row.why] == said
    assert (row.mark == "killed") == (said[-1] == "confirmed")


def test_kills_far_apart_or_for_another_cause_are_told_apart() -> None:
    _, moments = told(kill(0, "1"), kill(40_000, "2"), kill(41_000, "3", cause="cached idle"))
    assert [moment.ids for moment in moments] == [["1"], ["2"], ["3"]]


def test_a_bound_is_told_from_when_it_held_to_when_it_let_go() -> None:
    (row,) = rows(
        held(1000, "began", "maximum", maximum=8, need=24),
        held(3000, "changed", "maximum", maximum=8, need=30),
        held(9000, "ended", "maximum", maximum=8, need=30),
    )
    assert (row.at, row.what, row.why) == (1000, "held at 8", ["by maxExecutors", "need up to 30", "for 8 s"])


def test_a_bound_that_never_let_go_lasts_to_the_end() -> None:
    (row,) = rows(held(90_000, "began", "minimum", executors=2, minimum=3, target=1))
    assert (row.what, row.why) == ("kept 2 idle", ["by minExecutors 3", "to the end, 10 s"])


def test_executors_kept_by_data_are_counted_in_and_out() -> None:
    timeline, (moment,) = told(
        held(0, "began", "shuffle data", "1", "2"),
        held(10_000, "began", "shuffle data", "3"),
        held(20_000, "ended", "shuffle data", "1"),
        held(30_000, "ended", "shuffle data", "2", "3"),
    )
    assert (moment.peak, moment.at, moment.end) == (3, 0, 30_000)
    assert moment.executor_ms == 10_000 * 2 + 10_000 * 3 + 10_000 * 2
    assert timeline.held["shuffle data"].times == 1


def test_an_executor_may_pass_from_one_bound_to_another() -> None:
    timeline, _ = told(held(0, "began", "cached data", "1"), held(10_000, "changed", "shuffle data", "1"), end=15_000)
    assert {bound: total.held_ms for bound, total in timeline.held.items()} == {
        "cached data": 10_000,
        "shuffle data": 5_000,
    }


def test_what_schedule_threw_is_told_once_while_it_lasts() -> None:
    (row,) = rows(threw(1000), threw(1100, repeated=True), threw(6000, repeated=True))
    assert (row.what, row.why) == ("schedule() threw", ["boom", "for 5 s"])
    assert len(rows(threw(1000), threw(2000), threw(3000, "bang"))) == 3


def test_every_single_record_has_a_row() -> None:
    records = [
        request(1, 0, 0, "initial"),
        request(1, 0, 2, "backlog"),
        request(1, 2, 1, "lowered need"),
        resync(1),
        kill(1, "1"),
        held(1, "began", "cached data", "1"),
        held(1, "ended", "target", executors=1, target=2),
        disproved(1, "1"),
        threw(1),
    ]
    found = [row for record in records for one in single(record) for row in Rows(WAITS, {0}).of(one, steps=True)]
    assert [row.what for row in found] == [
        "target 0", "target 0 → 2", "target 2 → 1", "asked again", "kill 1", "kept 1 idle", "kept 1 idle", "1 lives",
        "schedule() threw",
    ]  # fmt: skip


def test_a_long_story_keeps_its_ends_and_its_weightiest_and_counts_the_rest() -> None:
    records = []
    for number in range(500):
        size = 900 if number == 250 else 1 + number % 7
        records += [
            request(number * 100_000, 0, size, "backlog"),
            request(number * 100_000 + 9, size, 0, "lowered need"),
        ]
        records.append(kill(number * 100_000 + 50_000, str(number)))
    timeline, moments = told(*records)
    assert not timeline.kept_all
    assert HEAD + TAIL <= len(moments) <= HEAD + TAIL + WEIGHTY + 3
    assert [m.number for m in moments[:HEAD]] == list(range(HEAD))
    assert moments[-1].number == 1499
    assert 900 in {m.after for m in moments}
    hidden = [between(a, b, timeline) for a, b in zip([None, *moments], [*moments, None], strict=True)]
    for kind in COUNTED:
        assert sum(one[kind] for one in hidden) + sum(m.kind is kind for m in moments) == 500
    assert Rows(WAITS, {0}).left_out(hidden[0]) == ""
    assert "raise" in Rows(WAITS, {0}).left_out(next(one for one in hidden if one))


def test_confirmed_kills_are_forgotten() -> None:
    timeline = Timeline()
    for number in range(3 * PROPOSED_MIN):
        timeline.take(kill(number, str(number)))
        if not number % 100:
            timeline.prune({str(number)})
    assert len(timeline._proposed) <= PROPOSED_MIN + 101


names = st.sampled_from(["1", "2", "3"])
times = st.integers(0, 1000)
causes = st.sampled_from(["initial", "backlog", "sustained backlog", "lowered need", "minimum", "reset"])
phases = st.sampled_from(["began", "changed", "ended"])
records = st.one_of(
    st.builds(request, times, times, times, causes, st.integers(0, 2)),
    st.builds(resync, times),
    st.builds(kill, times, names, names, cause=st.sampled_from(["idle", "shuffle idle"])),
    st.builds(held, times, phases, st.sampled_from(["shuffle data", "cached data"]), names, names),
    st.builds(held, times, phases, st.sampled_from(["maximum", "minimum"])),
    st.builds(disproved, times, names),
    st.builds(threw, times, repeated=st.booleans()),
)


@given(st.lists(records, max_size=120), st.sets(names))
def test_any_sequence_can_be_told(sequence: list[Record], proposed: set[str]) -> None:
    sequence.sort(key=lambda record: record["at_ms"])
    timeline, moments = told(*sequence, proposed=tuple(proposed))
    assert [m.number for m in moments] == sorted({m.number for m in moments})
    assert timeline._holding == {}
    for moment in moments:
        assert moment.now == 0
        assert moment.disproved + moment.unconfirmed <= max(moment.executors, moment.moves * 2)
        assert Rows(WAITS, timeline.profiles).of(moment, steps=True)
    if timeline.kept_all:
        hidden = between(None, None, timeline)
        assert sum(hidden.values()) == sum(m.kind in COUNTED for m in moments)
