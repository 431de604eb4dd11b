"""From a SparkConf to the YarnConfig: every setting of the YARN side, as its classes would have it.

Spark reads these keys in two processes: the driver makes the default resource profile and its scheduler backend, the client
submits, and the application master makes its reporter thread and the allocator. ``yarn_config`` reads all of them in that
order, section by section (``conf.yarn_sections``), so that the first failure (``Refused.construct``) is the one that an
application would meet first, and collects them all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from pyrsistent import pmap
from returns.result import Result

from podtide.domain.conf.backend_config import executors_initial, heartbeat_config
from podtide.domain.conf.default_profile import profile_rules
from podtide.domain.conf.reader import Reads
from podtide.domain.conf.scaling_config import dynamic_allocation_enabled
from podtide.domain.conf.settings import ConfNotice, Refused, Settings, result_of
from podtide.domain.conf.spark_conf import SparkConf
from podtide.domain.conf.yarn_sections import backend_config, check_resources, negotiation_config, reporter_config
from podtide.domain.protocol.cluster_config import YarnConfig

NO_RACKS: Final[Mapping[str, str]] = pmap()
YarnSettings: TypeAlias = Settings[YarnConfig]


def yarn_config(
    conf: SparkConf, *, racks: Mapping[str, str] = NO_RACKS, remarks: bool = False
) -> Result[YarnSettings, Refused[YarnSettings]]:
    """The configuration of all machines of the YARN side.

    ``racks``: where hosts are, as the topology script would say. ``remarks``: the machines also report what only logs say.
    """
    reads = Reads(conf)
    notices: list[ConfNotice] = []
    heartbeats = heartbeat_config(reads, remarks=remarks)
    dynamic = dynamic_allocation_enabled(reads)
    rules = profile_rules(reads, enabled=dynamic)
    executors = executors_initial(reads, notices)
    backend = backend_config(reads, executors, remarks=remarks)
    check_resources(reads)
    reporter = reporter_config(reads, remarks=remarks)
    allocator = negotiation_config(reads, notices, racks=pmap(racks), rules=rules, executors=executors, remarks=remarks)
    settings = Settings(YarnConfig(allocator, reporter, backend, heartbeats), dynamic, conf.version, tuple(notices))
    return result_of(reads, settings)
