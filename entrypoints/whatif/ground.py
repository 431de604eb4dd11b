"""The settings with which every command studies logs before it answers a question about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from podtide.domain.conf.spark_conf import SparkConf
from podtide.domain.rerun.plan import AnyCluster
from podtide.domain.scheduler.rules import FairPool
from podtide.domain.whatif.summary import MAX_ERROR


@dataclass(frozen=True, slots=True)
class Ground:
    """``overrides``, ``spark_version``: what the user knows better than the log; ``cluster``: that of variants, None for one
    as in the log; ``seeds``: how many; ``max_error``: an own error beyond this share means that the model does not fit;
    ``pools``: of FAIR scheduling, by name."""

    overrides: Sequence[SparkConf] = ()
    spark_version: str | None = None
    cluster: AnyCluster | None = None
    seeds: int = 1
    max_error: float = MAX_ERROR
    pools: Mapping[str, FairPool] = field(default_factory=dict)
