"""From a SparkConf to the YarnConfig: every setting of the YARN side, as its classes would have it.

Spark reads these keys in two processes: the driver makes the default resource profile and its scheduler backend, the client
submits, and the application master makes its reporter thread and the allocator. ``yarn_config`` reads all of them in that
order, section by section (``conf.yarn_sections``), so that the first failure (``YarnRefused.construct``) is the one that an
application would meet first, and collects them all.

``oracle_yarn_config`` gives the config of a conformance scenario: only what the allocator's constructor reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from pyrsistent import pmap
from returns.result import Failure, Result, Success

from podtide.domain.conf.backend_config import executors_initial, first_raised
from podtide.domain.conf.default_profile import profile_rules
from podtide.domain.conf.reader import Reads
from podtide.domain.conf.scaling_config import ConstructFailure, Notice, dynamic_allocation_enabled, json_text
from podtide.domain.conf.spark_conf import ConfError, SparkConf, from_mapping
from podtide.domain.conf.spark_versions import SparkVersion
from podtide.domain.conf.yarn_sections import backend_config, check_resources, negotiation_config, reporter_config
from podtide.domain.protocol.config import NegotiationConfig, YarnConfig

NO_RACKS: Final[Mapping[str, str]] = pmap()


@dataclass(frozen=True, slots=True)
class YarnSettings:
    """What the conf amounts to on YARN.

    ``dynamic``: Spark would allocate executors dynamically. ``notices``: what Spark logs on the way.
    """

    config: YarnConfig
    dynamic: bool
    version: SparkVersion
    notices: tuple[Notice, ...] = ()


@dataclass(frozen=True, slots=True)
class YarnRefused:
    """Spark would fail with this conf, at its start or when it first reads the setting.

    ``errors`` in the order in which Spark would meet them, at least one; ``construct``: the exception of the first
    that Spark would throw; ``settings``: the best guess, with defaults in the place of what cannot be read.
    """

    errors: tuple[ConfError, ...]
    construct: ConstructFailure
    settings: YarnSettings


def yarn_config(
    conf: SparkConf, *, racks: Mapping[str, str] = NO_RACKS, remarks: bool = False
) -> Result[YarnSettings, YarnRefused]:
    """The configuration of all machines of the YARN side.

    ``racks``: where hosts are, as the topology script would say. ``remarks``: the machines also report what only logs say.
    """
    reads = Reads(conf)
    notices: list[Notice] = []
    dynamic = dynamic_allocation_enabled(reads)
    rules = profile_rules(reads, enabled=dynamic)
    executors = executors_initial(reads, notices)
    backend = backend_config(reads, executors, remarks=remarks)
    check_resources(reads)
    reporter = reporter_config(reads, remarks=remarks)
    allocator = negotiation_config(reads, notices, racks=pmap(racks), rules=rules, executors=executors, remarks=remarks)
    settings = YarnSettings(YarnConfig(allocator, reporter, backend), dynamic, conf.version, tuple(notices))
    if not reads.errors:
        return Success(settings)
    return Failure(YarnRefused(tuple(reads.errors), first_raised(reads), settings))


# ---------------------------------------------------------------------------------------------- conformance scenarios


class OracleYarn(NamedTuple):
    """The allocator's config in a conformance scenario, and what its constructor warns of."""

    config: NegotiationConfig
    notices: tuple[Notice, ...]


def oracle_yarn_config(
    conf: Mapping[str, object], racks: Mapping[str, str], *, awaited: bool, remarks: bool
) -> OracleYarn | ConstructFailure:
    """The config of a scenario, or the exception in which the allocator's constructor ends.

    ``awaited``: a launch ends before anything else happens. The judge's YARN knows no custom resources.
    """
    given = {"spark.master": "yarn", "spark.app.name": "oracle"}
    given.update({name: json_text(value) for name, value in conf.items()})
    reads = Reads(from_mapping(given, "scenario"))
    notices: list[Notice] = []
    config = negotiation_config(reads, notices, racks=pmap(racks), types=frozenset(), remarks=remarks)
    if reads.errors:
        return first_raised(reads)
    return OracleYarn(replace(config, launches_awaited=awaited), tuple(notices))
