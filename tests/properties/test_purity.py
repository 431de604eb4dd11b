"""An older state answers as before whatever happened since, and can be gone on from; no input raises."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from hypothesis import example, given, strategies as st

from podtide.adapters.conformance.scaling import state_line
from podtide.domain.base.units import LAST_MS, NEVER, ExecutorId, ProfileId
from podtide.domain.protocol.config import ScalingConfig
from podtide.domain.protocol.stimuli import (
    Answer,
    BlockUpdated,
    ExecutorAdded,
    ExecutorRemoved,
    JobEnd,
    JobStage,
    JobStart,
    RddBlock,
    ResourceProfileAdded,
    ShuffleCleaned,
    ShuffleRegistered,
    ShuffleUnneeded,
    SpeculativeTaskSubmitted,
    StageCompleted,
    StageSubmitted,
    Stimulus,
    TaskEnd,
    TaskOutcome,
    TaskStart,
    Tick,
    UnpersistRDD,
)
from podtide.domain.scaling import dynamic_allocation
from podtide.domain.scaling.dynamic_allocation import State
from tests.properties.happenings import Changed, Happening, Moment, Run, Said, Stop, at, configs, happenings, news

Line = dict[str, Any]


@given(configs(), happenings, st.data())
def test_an_older_state_answers_as_before_and_can_be_gone_on_from(
    config: ScalingConfig, story: list[Happening], data: st.DataObject
) -> None:
    run = Run(config)
    kept: list[tuple[int, State, Line, Moment, int]] = []
    lines: list[Line] = []
    for place, happening in enumerate(story):
        kept.append((place, run.state, state_line(run.state, config), run.moment(), len(run.said)))
        run.happen(happening)
    lines = [line for _, _, line, _, _ in kept]
    # Look back in any order, between steps that go on from any of them.
    for chosen in data.draw(st.lists(st.integers(0, len(story) - 1), max_size=5)) if story else ():
        place, state, line, moment, said = kept[chosen]
        assert state_line(state, config) == line
        fork = Run.resumed(state, moment)
        for further, happening in enumerate(story[place:], start=place):
            assert state_line(fork.state, config) == lines[further]
            fork.happen(happening)
        assert news(fork.said) == news(run.said[said:])
        assert state_line(fork.state, config) == state_line(run.state, config)
        assert state_line(state, config) == line


@given(configs(), happenings, happenings)
def test_two_futures_of_one_state_know_nothing_of_each_other(
    config: ScalingConfig, story: list[Happening], other: list[Happening]
) -> None:
    half = len(story) // 2
    run = Run(config).live(story[:half])
    state, moment = run.state, run.moment()
    alone = Run(config).live(story)
    told = len(run.said)
    first, second = Run.resumed(state, moment), Run.resumed(state, moment)
    for place in range(max(len(story) - half, len(other))):
        for branch, tale in ((first, story[half:]), (second, other)):
            if place < len(tale):
                branch.happen(tale[place])
    assert news(first.said) == news(alone.said[told:])
    assert state_line(first.state, config) == state_line(alone.state, config)


@given(configs(), happenings)
def test_commands_do_not_change_after_they_were_given(config: ScalingConfig, story: list[Happening]) -> None:
    run = Run(config)
    then: list[Said] = deepcopy(run.said)
    for happening in story:
        run.happen(happening)
        then.extend(deepcopy(run.said[len(then) :]))
    assert run.said == then


@given(configs(), happenings, st.data())
def test_a_batch_decides_what_its_stimuli_decide_one_by_one(
    config: ScalingConfig, story: list[Happening], data: st.DataObject
) -> None:
    stimuli: list[Stimulus] = []
    now = 0
    for gap, what in story:
        now += gap
        if not isinstance(what, Changed):
            stimuli.append(at(now, what))
    single = batched = dynamic_allocation.start(config, 0).state
    said_single: list[Said] = []
    said_batched: list[Said] = []
    done = 0
    while done < len(stimuli):
        size = data.draw(st.integers(1, 12))
        batch = stimuli[done : done + size]
        done += size
        for stimulus in batch:
            single, commands, reports = dynamic_allocation.step(single, stimulus, config, stimulus.at)
            said_single.extend([*commands, *reports])
        batched, commands, reports = dynamic_allocation.step(batched, batch, config, batch[-1].at)
        said_batched.extend([*commands, *reports])
        assert state_line(batched, config) == state_line(single, config)
    # Within a batch the commands are told before the reports.
    assert sorted(map(repr, said_batched)) == sorted(map(repr, said_single))


@given(configs(), happenings)
def test_nothing_is_decided_after_the_stop(config: ScalingConfig, story: list[Happening]) -> None:
    run = Run(config).live(story)
    run.take(Stop(run.now))
    said = len(run.said)
    assert dynamic_allocation.due(run.state, config) == NEVER
    run.live(story)
    assert len(run.said) == said


ints = st.sampled_from([0, 1, 2, -1, -7, 2**31 - 1, -(2**31), 2**31, 2**63 - 1])
counts = st.sampled_from([0, 1, 2**31 - 1, 2**31 - 1, 10**6])
names = st.sampled_from(["", "driver", "1", "\x00", "é" * 40, "<driver>"]).map(ExecutorId)
amounts = st.sampled_from([0.0, -1.0, 0.5, 1e-300, 1.0, 2.0**62, 1e308, float("inf"), float("nan")])
requests = st.lists(st.tuples(st.sampled_from(["cores", "cpus", "gpu", ""]), amounts), max_size=3).map(tuple)
zero = st.just(0)
extreme: st.SearchStrategy[Stimulus] = st.one_of(
    st.builds(TaskStart, zero, ints, ints, ints, names, st.booleans()),
    st.builds(TaskEnd, zero, ints, ints, ints, names, st.booleans(), st.sampled_from(TaskOutcome)),
    st.builds(StageSubmitted, zero, ints, ints, counts, ints.map(ProfileId)),
    st.builds(StageCompleted, zero, ints, ints),
    st.builds(SpeculativeTaskSubmitted, zero, ints, ints, ints),
    st.builds(ExecutorAdded, zero, names, ints.map(ProfileId)),
    st.builds(ExecutorRemoved, zero, names, st.text(max_size=5)),
    st.builds(JobStart, zero, ints, st.lists(st.builds(JobStage, ints, ints | st.none()), max_size=4).map(tuple)),
    st.builds(JobEnd, zero, ints),
    st.builds(BlockUpdated, zero, names, st.builds(RddBlock, ints, ints), st.booleans(), st.booleans()),
    st.builds(UnpersistRDD, zero, ints),
    st.builds(ShuffleCleaned, zero, ints),
    st.builds(ShuffleRegistered, zero, ints, ints, ints),
    st.builds(ShuffleUnneeded, zero, ints),
    st.builds(ResourceProfileAdded, zero, ints.map(ProfileId), requests, requests),
    st.builds(Answer, zero, ints, st.booleans() | st.lists(names).map(tuple), st.none() | st.just("")),
    st.builds(Tick, zero),
)
leaps = st.sampled_from([0, 1, 1_000, 60_000, LAST_MS // 2])


@given(configs(), st.lists(st.tuples(leaps, extreme), max_size=40))
@example(ScalingConfig(), [(LAST_MS, Tick(0)), (LAST_MS, Tick(0)), (0, Tick(0))])
def test_no_input_raises(config: ScalingConfig, story: list[Happening]) -> None:
    state = dynamic_allocation.start(config, 0).state
    now = 0
    for leap, what in story:
        assert not isinstance(what, Changed)
        now += leap
        for stimulus in (at(now, what), Tick(now)):
            state, _, _ = dynamic_allocation.step(state, stimulus, config, now)
            dynamic_allocation.due(state, config)
    state_line(state, config)
