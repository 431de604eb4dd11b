"""States as bytes: whole, versioned, and refused with a reason where they are damaged."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from hashlib import sha256
from math import inf, isnan, nan
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from podtide.domain.base.units import DEFAULT_PROFILE, ExecutorId, ProfileId
from podtide.domain.protocol.config import ProfileRules, ScalingConfig
from podtide.domain.protocol.stimuli import (
    Answer,
    BlockUpdated,
    ExecutorAdded,
    RddBlock,
    ResourceProfileAdded,
    StageSubmitted,
    Stimulus,
    Stop,
    Tick,
)
from podtide.domain.scaling import dynamic_allocation
from podtide.domain.scaling.dynamic_allocation import State
from podtide.domain.scaling.state import Removing, Resyncing, Updating
from tests.support.stored_state import STATE_VERSION, StateError, decode, encode

CONFIG = ScalingConfig(
    executors_max=9,
    idle_timeout_ms=3_000,
    shuffle_tracking=False,
    profile_rules=ProfileRules(2, True, Decimal("0.5"), (("gpu", 2),), (("gpu", 0.5),)),
)


def state_after(*stimuli: Stimulus, config: ScalingConfig = CONFIG) -> State:
    state = dynamic_allocation.start(config, 0).state
    for stimulus in stimuli:
        state = dynamic_allocation.step(state, stimulus, config, stimulus.at).state
    return state


BUSY = (
    ResourceProfileAdded(0, ProfileId(1), (("cores", 4.0), ("gpu", 2.0**62)), (("cpus", 1.0), ("gpu", 0.25))),
    ExecutorAdded(0, ExecutorId("é\n1"), DEFAULT_PROFILE),
    ExecutorAdded(0, ExecutorId("2"), ProfileId(1)),
    BlockUpdated(0, ExecutorId("2"), RddBlock(1, 2), True, False),
    StageSubmitted(0, 1, 0, 5, DEFAULT_PROFILE, (("a", "b"), ())),
)


def awaiting(kind: type) -> State:
    """A state that waits: for moved targets, for a kill, for the request after it."""
    if kind is Updating:
        return state_after(*BUSY, Tick(1_000))
    state = state_after(ExecutorAdded(0, ExecutorId("1"), DEFAULT_PROFILE), Tick(3_000))
    if kind is Removing:
        return state
    return dynamic_allocation.step(state, Answer(3_000, 2, (ExecutorId("1"),)), CONFIG, 3_000).state


@pytest.mark.parametrize("kind", [Updating, Removing, Resyncing])
def test_a_round_that_waits_comes_back(kind: type) -> None:
    state = awaiting(kind)
    assert isinstance(state.scaling.awaiting, kind)
    again = decode(encode(state))
    assert again.scaling.awaiting == state.scaling.awaiting


def test_every_field_of_the_scaling_comes_back() -> None:
    scaling = state_after(*BUSY, Tick(1_000), Answer(1_000, 2), Stop(1_001)).scaling._replace(
        thrown="java.lang.Exception: \x00 \ud800".encode("utf-8", "replace").decode(),
        initializing=True,
        sustained=True,
    )
    again = decode(encode(State(state_after(*BUSY).load, scaling))).scaling
    assert again == scaling._replace(idleness=again.idleness)
    assert again.stopped
    assert again.rules == CONFIG.profile_rules
    assert again.slots


@pytest.mark.parametrize("amount", [0.5, inf, -inf, nan, 1e-300])
def test_doubles_come_back_to_the_letter(amount: float) -> None:
    config = replace(CONFIG, profile_rules=ProfileRules(task_resources=(("gpu", amount),)))
    added = ResourceProfileAdded(0, ProfileId(1), (), (("gpu", amount),))
    again = decode(encode(state_after(added, config=config)))
    (profile,) = again.load.resource_profiles(ProfileId(1))
    rules = again.scaling.rules
    assert rules is not None
    for read in (profile.task[0][1], rules.task_resources[0][1]):
        assert isnan(read) if isnan(amount) else read == amount


def test_the_form_names_its_version() -> None:
    assert json.loads(encode(state_after()))["podtide_state"] == STATE_VERSION == 1


def forged(change: Callable[[dict[str, Any]], object], state: State | None = None) -> bytes:
    """A stored state, edited, under a digest that fits."""
    whole = json.loads(encode(state or state_after(*BUSY)))
    change(whole["state"])
    body = json.dumps(whole["state"], separators=(",", ":"))
    digest = sha256(body.encode()).hexdigest()
    return f'{{"podtide_state":1,"sha256":"{digest}","state":{body}}}'.encode()


def test_an_edit_under_a_digest_that_fits_is_read() -> None:
    assert decode(forged(lambda state: state["scaling"].update(serial=77))).scaling.serial == 77


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"", "a stored state: expected JSON"),
        (b"\xff\xfe", "a stored state: expected JSON"),
        (b"[]", "a stored state: Expected `object`, got `array`"),
        (b"{}", "a stored state: Object missing required field `podtide_state`"),
        (b"[" * 100_000, "a stored state: "),
        (encode(state_after())[:-1], "a stored state: expected JSON that podtide wrote"),
        (encode(state_after()) + b"{}", "a stored state: expected JSON that podtide wrote"),
        (encode(state_after()).replace(b'_state":1', b'_state":2'), "podtide_state: expected version 1, got 2"),
        (encode(state_after()).replace(b'"serial":1', b'"serial":2'), "damaged or edited"),
    ],
)
def test_damage(data: bytes, complaint: str) -> None:
    with pytest.raises(StateError) as refused:
        decode(data)
    assert complaint in str(refused.value)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda s: s.pop("load"), "state: Object missing required field `load`"),
        (lambda s: s.update(more=1), "state: Object contains unknown field `more`"),
        (lambda s: s["scaling"].update(serial="1"), "Expected `int`, got `str` - at `$.scaling.serial`"),
        (lambda s: s["scaling"].update(serial=1.5), "Expected `int`, got `float` - at `$.scaling.serial`"),
        (lambda s: s["scaling"].update(holds=[["hope", 0, []]]), "Invalid enum value 'hope'"),
        (lambda s: s["scaling"].update(awaiting={"stage": "sleeping"}), "Invalid value 'sleeping'"),
        (lambda s: s["scaling"].update(targets=[]), "state.scaling.targets: expected at least one profile"),
        (lambda s: s["scaling"].update(to_add=[]), "state.scaling.to_add: expected an increment for profile 0"),
        (lambda s: s["scaling"].update(targets=[[0, 1], [0, 2]]), "state.scaling.targets: expected every key once"),
        (lambda s: s["load"]["attempts"].append(s["load"]["attempts"][0]), "state.load.attempts: expected every key"),
        (lambda s: s["load"]["attempts"][0].pop(), "Expected `array` of length 9 - at `$.load.attempts[0]`"),
        (lambda s: s["load"]["attempts"][0].__setitem__(3, -1), "state.load.attempts: expected running tasks from 0"),
        (
            lambda s: s["scaling"]["idleness"]["trackers"][0].__setitem__(2, -1),
            "state.scaling.idleness.trackers: expected running tasks from 0 on, got -1",
        ),
        (
            lambda s: s["scaling"]["idleness"]["trackers"].append(s["scaling"]["idleness"]["trackers"][0]),
            "state.scaling.idleness.trackers: expected every key once",
        ),
        (lambda s: s["scaling"]["idleness"].update(limits=[1, 2, 3]), "Expected `array` of length 5"),
        (lambda s: s["scaling"]["rules"].update(task_cpus="many"), "Invalid decimal string"),
        (lambda s: s["scaling"]["rules"].update(task_cpus="NaN"), "state.scaling.rules.task_cpus: expected a number"),
        (lambda s: s["load"]["profiles"][0][2].append(["gpu", "lots"]), "at `$.load.profiles[0][2]"),
    ],
)
def test_parts_that_are_not_a_state(change: Callable[[dict[str, Any]], object], complaint: str) -> None:
    with pytest.raises(StateError) as refused:
        decode(forged(change))
    assert complaint in str(refused.value)


def test_a_waiting_round_must_fit_the_targets() -> None:
    waiting = awaiting(Updating)

    def elsewhere(state: dict[str, Any]) -> None:
        state["scaling"]["awaiting"]["updates"][0]["profile"] = 9

    def nothing(state: dict[str, Any]) -> None:
        state["scaling"]["awaiting"]["updates"] = []

    with pytest.raises(StateError, match="expected profiles with a target, got 9"):
        decode(forged(elsewhere, waiting))
    with pytest.raises(StateError, match="updates: expected at least one"):
        decode(forged(nothing, waiting))


GOOD = encode(awaiting(Updating))


@settings(max_examples=300, derandomize=True, deadline=None, database=None)
@given(st.integers(0, len(GOOD) - 1), st.integers(0, 255))
def test_a_changed_byte_is_found(place: int, byte: int) -> None:
    data = GOOD[:place] + bytes([byte]) + GOOD[place + 1 :]
    try:
        read = decode(data)
    except StateError:
        return
    assert encode(read) == GOOD  # the byte was the same, or white space where it means nothing


@settings(max_examples=200, derandomize=True, deadline=None, database=None)
@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_no_bytes_raise_anything_else(data: bytes) -> None:
    with pytest.raises(StateError):
        decode(data)
