"""Pods of scenarios, in both dialects, as manifests; and the words of the store."""

from __future__ import annotations

from typing import Any

import pytest

from podtide.adapters.conformance.manifests import ShapeError, java_bool, java_text, manifest


@pytest.mark.parametrize(
    ("pod", "label", "value"),
    [
        ({}, "spark-exec-id", None),
        ({"id": None}, "spark-exec-id", None),
        ({"id": 7, "rp": None}, "spark-exec-resourceprofile-id", None),
        ({"id": 7, "rp": ""}, "spark-exec-resourceprofile-id", "0"),
        ({"id": 7, "inactive": True}, "spark-exec-inactive", "true"),
        ({"id": 7, "inactive": False}, "spark-exec-inactive", None),
        ({"id": 7, "labels": {"spark-role": "driver"}}, "spark-role", "driver"),
        ({"id": 7, "labels": {"x": None}}, "x", "null"),
        ({"id": 7, "labels": {"x": 1.5}}, "x", "1.5"),
    ],
)
def test_labels(pod: dict[str, Any], label: str, value: str | None) -> None:
    assert manifest(pod, "app").labels.get(label) == value


@pytest.mark.parametrize(
    "pod",
    [
        7,
        {"id": 1, "containers": 7},
        {"id": 1, "containers": [7]},
        {"id": 1, "labels": 7},
        {"id": 1, "createdAt": 1.5},
        {"id": 1, "pvcs": "a"},
        {"id": 1, "exitCode": "x"},
        {"id": 1, "containers": [{"exitCode": True}]},
    ],
)
def test_what_is_no_pod(pod: Any) -> None:
    with pytest.raises(ShapeError, match="expected"):
        manifest(pod, "app")


@pytest.mark.parametrize(
    ("value", "text"), [("a", "a"), (7, "7"), (1.0, "1.0"), (True, "true"), (False, "false"), (None, "null"), ([], "")]
)
def test_texts_as_jackson_makes_them(value: object, text: str) -> None:
    assert java_text(value) == text


@pytest.mark.parametrize(
    ("value", "truth"),
    [(True, True), (False, False), (0, False), (2, True), ("true", True), ("x", False), (None, False)],
)
def test_truth_as_jackson_has_it(value: object, truth: bool) -> None:
    assert java_bool(value) is truth
