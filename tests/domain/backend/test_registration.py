"""Who is let in, and decommissions that wait for executors not seen yet (Guava's cache, entry by entry)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from podtide.domain.backend import scheduler_backend as backend
from podtide.domain.backend.registry import Leaving, Parked, Parking, empty_parking
from podtide.domain.backend.state import BackendState
from podtide.domain.base.units import ExecutorId, Millis, ProfileId
from podtide.domain.protocol.backend_messages import (
    ActiveChanged,
    BackendCommand,
    BackendInput,
    Excluded,
    HostsExcluded,
    KnownChanged,
    LossReported,
    RequestTotals,
    TargetsForwarded,
)
from podtide.domain.protocol.cluster_config import BackendConfig
from podtide.domain.protocol.executor_commands import AnswerRegistration, DecommissionExecutors, ExitReason
from podtide.domain.protocol.executor_stimuli import DecommissionRequested, RegisterExecutor
from podtide.domain.protocol.pod_commands import MarkPods
from podtide.domain.protocol.pod_stimuli import CallFailure, Outcome
from podtide.domain.protocol.reasons import Cause
from podtide.domain.protocol.stimuli import ExecutorAdded

CONFIG = BackendConfig(unknown_decommissions_max=10)
ENTRY = Parked(Leaving("bye"), adjust_target=False, triggered_by_executor=False)


def hear(
    state: BackendState, *items: BackendInput, config: BackendConfig = CONFIG, now: Millis = 0
) -> tuple[BackendState, list[BackendCommand]]:
    step = backend.manage(state, items, config, now)
    return step.state, list(step.commands)


def arriving(executor: str = "1", host: str = "h1", profile: int = 0) -> RegisterExecutor:
    return RegisterExecutor(0, ExecutorId(executor), ProfileId(profile), host, f"{host}:1")


def reply(commands: list[BackendCommand]) -> tuple[bool, str, Cause]:
    (answer,) = (c for c in commands if isinstance(c, AnswerRegistration))
    return answer.accepted, answer.message, answer.why.cause


@pytest.mark.parametrize(
    ("before", "arrives", "answer"),
    [
        ((), arriving(), (True, "", Cause.REGISTERED)),
        ((arriving(),), arriving(), (False, "Duplicate executor ID: 1", Cause.DUPLICATE)),
        (
            (Excluded(0, added=(ExecutorId("1"),)),),
            arriving(),
            (False, "Executor is excluded due to failures: 1", Cause.EXCLUDED),
        ),
        (
            (HostsExcluded(0, frozenset({"h1"})),),
            arriving(),
            (False, "Executor is excluded due to failures: 1", Cause.EXCLUDED),
        ),
        (
            (HostsExcluded(0, frozenset({"h1"})), HostsExcluded(0, frozenset())),
            arriving(),
            (True, "", Cause.REGISTERED),
        ),
        (
            (Excluded(0, added=(ExecutorId("1"),)), Excluded(0, gone=(ExecutorId("1"),))),
            arriving(),
            (True, "", Cause.REGISTERED),
        ),
        ((), arriving("driver"), (False, 'For input string: "driver"', Cause.ILLEGAL_ARGUMENT)),
        ((), arriving(""), (False, 'For input string: ""', Cause.ILLEGAL_ARGUMENT)),
        ((), arriving("2147483648"), (False, 'For input string: "2147483648"', Cause.ILLEGAL_ARGUMENT)),
        ((), arriving("-1"), (True, "", Cause.REGISTERED)),
    ],
)
def test_who_is_let_in(
    before: tuple[BackendInput, ...], arrives: RegisterExecutor, answer: tuple[bool, str, Cause]
) -> None:
    state, _ = hear(backend.begin(CONFIG, 0), *before)
    _, commands = hear(state, arrives)
    assert reply(commands) == answer


@pytest.mark.parametrize(
    ("allocator", "name", "taken_in"),
    [
        ("direct", "x", False),  # isDeleted reads the id, before anything else is done
        ("direct", "9223372036854775808", False),
        ("direct", "2147483648", True),
        ("statefulset", "x", True),
        ("deployment", "x", True),
    ],
)
def test_an_executor_without_a_number_is_turned_away(allocator: str, name: str, taken_in: bool) -> None:
    config = replace(CONFIG, allocator=allocator)
    state, commands = hear(
        backend.begin(config, 0), RegisterExecutor(0, ExecutorId(name), ProfileId(0), "h1"), config=config
    )
    assert reply(commands)[0] is False
    assert not any(isinstance(c, ExecutorAdded) for c in commands)
    assert any(isinstance(c, KnownChanged) for c in commands) is taken_in
    assert state.is_active(ExecutorId(name)) is taken_in  # as in Spark, which threw half-way


# ---------------------------------------------------------------------------------------------------------- parked


def parked(*executors: str, adjust: bool = False, by_executor: bool = False) -> DecommissionRequested:
    ids = tuple(map(ExecutorId, executors))
    return DecommissionRequested(0, ids, "bye", None, adjust, by_executor)


def test_a_parked_decommission_meets_its_executor() -> None:
    config = replace(CONFIG, decommission_label="decom")
    state, _ = hear(backend.begin(config, 0), parked("1"), config=config)
    state, commands = hear(state, arriving(), config=config)
    assert [type(c).__name__ for c in commands] == [
        "KnownChanged", "ActiveChanged", "ExecutorAdded", "ActiveChanged", "DecommissionExecutors", "AnswerRegistration",
        "MarkPods",
    ]  # fmt: skip
    assert reply(commands)[0]
    assert not state.is_active(ExecutorId("1"))
    _, commands = hear(state, LossReported(0, ExecutorId("1"), ExitReason("X", "gone")), arriving(), config=config)
    assert not any(isinstance(c, DecommissionExecutors) for c in commands)  # it was kept for one meeting


def test_a_parked_decommission_of_its_own_tells_nobody() -> None:
    state, _ = hear(backend.begin(CONFIG, 0), parked("1", by_executor=True))
    _, commands = hear(state, arriving())
    (told,) = (c for c in commands if isinstance(c, DecommissionExecutors))
    assert not told.notify_executors
    assert not any(isinstance(c, MarkPods) for c in commands)


@pytest.mark.parametrize("refused", [False, True])
def test_registration_waits_for_the_target_of_a_parked_decommission(refused: bool) -> None:
    config = replace(CONFIG, allocator="statefulset")
    state, _ = hear(backend.begin(config, 0), parked("1", adjust=True), config=config)
    state, commands = hear(state, arriving(), config=config)
    (forwarded,) = (c for c in commands if isinstance(c, TargetsForwarded))
    failure = CallFailure(403, "no") if refused else None
    state, commands = hear(state, Outcome(0, forwarded.serial, failure), config=config)
    expected = (False, "no", Cause.DECOMMISSIONED) if refused else (True, "", Cause.REGISTERED)
    assert reply(commands) == expected
    assert (state.registry.parking.get(ExecutorId("1")) is not None) == refused


def test_a_parked_decommission_that_throws_turns_away() -> None:
    state, _ = hear(backend.begin(CONFIG, 0), parked("1", adjust=True), RequestTotals(0, ((ProfileId(0), 1),)))
    state, commands = hear(state, arriving(profile=3))
    assert reply(commands) == (False, "key not found: Profile: id = 3", Cause.DECOMMISSIONED)
    assert ActiveChanged(0, inactive=(ExecutorId("1"),)) in commands


# Written by Guava itself: (size, written and "-"invalidated keys in order, what is left).
GUAVA = [
    (0, "1 2", ""),
    (1, "1 2 3", "3"),
    (2, "1 2 1 3", "1 3"),
    (3, "1 2 3 -2 4 5", "3 4 5"),
]


@pytest.mark.parametrize(("size", "written", "left"), GUAVA)
def test_what_the_cache_keeps(size: int, written: str, left: str) -> None:
    assert kept(fill(empty_parking(size), written)) == left.split()


def fill(parking: Parking, written: str) -> Parking:
    for key in written.split():
        removed = ExecutorId(key.removeprefix("-"))
        parking = parking.discard(removed) if key.startswith("-") else parking.put(removed, ENTRY)
    return parking


def kept(parking: Parking) -> list[str]:
    return sorted((e for segment in parking.segments for e in segment.numbers), key=int)


# Guava's own answer for the keys 1 to 24 written in order: 20 places are two segments of ten each, and a full one forgets
# though the other still has room.
SEGMENTED = [1, 5, 7, 8, *range(10, 25)]


def test_from_twenty_places_on_the_cache_has_segments() -> None:
    parking = fill(empty_parking(20), " ".join(map(str, range(1, 25))))
    assert list(map(int, kept(parking))) == SEGMENTED
    assert [len(empty_parking(size).segments) for size in (0, 19, 20, 39, 40, 1_000)] == [1, 1, 2, 2, 4, 4]


def test_another_size_keeps_the_latest() -> None:
    parking = fill(empty_parking(5), "1 2 3 4 5").resized(2)
    assert kept(parking) == ["4", "5"]
    assert parking.resized(2) is parking


def test_another_configuration_sizes_the_cache_anew() -> None:
    state, _ = hear(backend.begin(CONFIG, 0), parked("1", "2", "3"))
    state, _ = hear(state, arriving("9"), config=replace(CONFIG, unknown_decommissions_max=1))
    assert [state.registry.parking.get(ExecutorId(e)) is not None for e in "123"] == [False, False, True]
