"""``--labels``: those of the shuffle service's pods."""

from __future__ import annotations

from collections.abc import Mapping

from podtide.adapters.text.safe import escaped
from podtide.domain.executor_pod.shuffle_service import service_labels
from podtide.entrypoints.common.output import Misused


def given_labels(text: str) -> Mapping[str, str]:
    """The labels. Raises Misused."""
    labels = service_labels(text)
    if labels is None:
        raise Misused(f"--labels {escaped(text)}: expected KEY=VALUE,..., as Kubernetes takes them, no key twice")
    return labels
