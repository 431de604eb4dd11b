"""What a volume claim of an executor is called: the one rule that the allocator and the pod's manifest share.

The claim name of a conf is a text in which every ``OnDemand``, wherever it stands, becomes ``<prefix>-exec-<id>-pvc-<i>``
(``i``: the volume's place among all volumes) and then every ``SPARK_EXECUTOR_ID`` the executor's id: Spark replaces both
as parts of the text (MountVolumesFeatureStep 4.3.0), so ``data-OnDemand`` is on demand too.
"""

from __future__ import annotations

from typing import Final

from podtide.domain.protocol.config import ClaimTemplate

ON_DEMAND: Final = "OnDemand"
EXECUTOR_ID: Final = "SPARK_EXECUTOR_ID"


def claim_name(template: ClaimTemplate, prefix: str, executor: str) -> str:
    """The name of an executor's claim of this volume. ``prefix``: that of the pods' names."""
    own = f"{prefix}-exec-{executor}-pvc-{template.index}"
    return template.claim.replace(ON_DEMAND, own).replace(EXECUTOR_ID, executor)
