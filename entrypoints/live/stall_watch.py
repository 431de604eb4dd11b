"""The watch over stalls of a live run: what it hears, and who is told.

Acting, the run hears itself what its creations are answered. A shadow does not hear what Spark's are answered, so it looks
at the quotas of the namespace while executors are missing. Without the driver it does not know: its target is then the pods
that there are.
"""

from __future__ import annotations

from contextlib import ExitStack
from decimal import Decimal
from typing import Final

from podtide.adapters.kubernetes.watch.quotas import QuotaWatch, executor_needs
from podtide.adapters.recording.app_stalls import AppStalls
from podtide.domain.base.units import Millis
from podtide.domain.conf.spark_conf import read
from podtide.domain.jvm.quantities import parse_quantity
from podtide.entrypoints.live.assembly import LiveSystem

CORES_KEY: Final = "spark.kubernetes.executor.request.cores"
MEMORY_KEY: Final = "spark.executor.memory"
MIB: Final = 1 << 20


def stalls_of(system: LiveSystem, now: Millis, resources: ExitStack) -> AppStalls:
    """The watch of a run that begins ``now``; the tracker shows what it finds, and ``resources`` ends what it began."""
    driver, audience = system.driver, system.audience
    blind = (lambda: False) if driver is None else (lambda: driver.blind)
    stalls = AppStalls(system.settings.config, now, audience.stalled, blind)
    audience.tracker.ask_for_stalls(stalls.stalls, stalls.alarms)
    if system.lease is None and not system.options.follows_pods:
        clock = system.clock
        quotas = QuotaWatch(
            system.writing, system.namespace, _needs(system), clock, audience.notify,
            lambda: stalls.lacks_executors(clock.now()), stalls.hear_quota,
        )  # fmt: skip
        quotas.start()
        resources.callback(quotas.stop)
    return stalls


def _needs(system: LiveSystem) -> dict[str, Decimal]:
    """What an executor of the default profile asks for at least: its cores, and its memory without overhead."""
    given = system.settings.conf.setting(CORES_KEY)
    cores = None if given is None else parse_quantity(given.value)
    memory = read(system.settings.conf, MEMORY_KEY).value_or(None)
    mib = memory.value if memory is not None and isinstance(memory.value, int) else 0
    rules = system.settings.config.scaling.profile_rules
    return executor_needs(Decimal(rules.executor_cores) if cores is None else cores, mib * MIB)
