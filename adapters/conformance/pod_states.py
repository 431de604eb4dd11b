"""Tables of pods and their states: real Spark's ExecutorPodsSnapshot read them, and so does the core.

Each row is a pod, or several as one list, with the two settings that matter, and carries its own answer: ``states`` by
executor id, or what Spark ``threw``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from podtide.adapters.conformance.manifests import java_bool, java_text, manifest
from podtide.adapters.conformance.store import states
from podtide.domain.jvm.exceptions import SparkFault
from podtide.domain.kubernetes import snapshots
from podtide.domain.protocol.pods import SPARK_CONTAINER, PodRules

APP_ID: Final = "app-1"
ANSWERS: Final = frozenset({"states", "threw"})


def answers(lines: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The rows with the core's answers in place of their own. Raises ShapeError."""
    for row in lines:
        rules = PodRules(
            java_bool(row.get("checkAllContainers", True)), java_text(row.get("sparkContainerName", SPARK_CONTAINER))
        )
        pods = row["pods"] if "pods" in row else [row["pod"]]
        taken = snapshots.replace(snapshots.empty(), [manifest(pod, APP_ID) for pod in pods], rules, 1)
        answer: dict[str, Any] = {key: value for key, value in row.items() if key not in ANSWERS}
        if isinstance(taken, SparkFault):
            answer["threw"] = taken.exception_class
        else:
            answer["states"] = states(taken.view.pods())
        yield answer
