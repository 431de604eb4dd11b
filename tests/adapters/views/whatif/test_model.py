"""The document is read whole, or refused with the path of what is wrong."""

from __future__ import annotations

import math
from typing import Any

import pytest

from podtide.adapters.views.whatif.model import DocumentError, read

LEAST = {
    "recorded": {"runtime_s": 10, "executor_seconds": 20.5, "peak_executors": 2},
    "self_replay": {"name": "as simulated", "runtime_s": 10.5, "executor_seconds": 21, "error": {"runtime": 0.05}},
}


def changed(path: str, value: object) -> dict[str, object]:
    """The least document with one value changed."""

    def copy(node: object, keys: list[str]) -> object:
        if not keys:
            return value
        held = dict(node) if isinstance(node, dict) else {}
        held[keys[0]] = copy(held.get(keys[0]), keys[1:])
        return held

    made = copy(LEAST, path.split("."))
    assert isinstance(made, dict)
    return made


def test_what_may_be_missing_is_empty() -> None:
    document = read(LEAST)
    assert (document.variants, document.unknowns, document.prices, document.frontier) == ((), (), None, ())
    assert document.self_replay.runtime_range_s is None
    assert document.self_replay.error.worst == 0.05


def test_keys_that_nobody_shows_are_passed_over() -> None:
    assert read(LEAST | {"schema": "podtide/whatif/1", "more": {"deep": [1, {"x": None}]}}).app.name == ""


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("recorded.runtime_s", "long", "$.recorded.runtime_s"),
        ("recorded.runtime_s", math.nan, "$.'recorded'.'runtime_s'"),
        ("recorded.curve", [[0.0, math.inf]], "$.'recorded'.'curve'[0][1]"),
        ("recorded.curve", [[0.0, 1, 2]], "$.recorded.curve[0]"),
        ("self_replay.curve", [[0, 1]], "$.self_replay.curve[0]"),
        ("self_replay.ledger", {"running": None}, "$.self_replay.ledger"),
        ("variants", [{"name": "x"}], "$.variants[0]"),
        ("seeds", -1, "$.seeds"),
        ("unknowns", [{"effect": "?"}], "$.unknowns[0]"),
    ],
)
def test_what_is_wrong_is_named_by_its_path(path: str, value: Any, message: str) -> None:
    with pytest.raises(DocumentError) as refused:
        read(changed(path, value))
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("missing", ["recorded", "self_replay"])
def test_what_must_be_there_is_asked_for(missing: str) -> None:
    with pytest.raises(DocumentError, match=missing):
        read({key: value for key, value in LEAST.items() if key != missing})


def test_nesting_without_end_is_no_trouble() -> None:
    deep: list[object] = []
    for _ in range(5_000):
        deep = [deep]
    assert read(LEAST | {"more": deep}).seeds == 1


def test_the_bill_is_what_the_causes_sum_to() -> None:
    ledger = {"running": 5.25, "starting": 1.5}
    assert read(changed("self_replay.ledger", ledger)).self_replay.billed == 6.75
    assert read(changed("self_replay.billed_seconds", 3.0)).self_replay.billed == 3.0
