"""What Spark bears of failures under a conf: how often tasks and stages may fail, and how long a fetch goes on in vain.

The keys of the shuffle's transport are no ConfigEntry of Spark's: TransportConf reads them, with the defaults of Spark
4.3.0. Where the log's own conf has something unreadable there, the default counts; of a variant it is an error.

A task that failed more often in the log than its conf allows, and succeeded in the end, shows that more was allowed: logs
without an environment do not say how much.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from typing import Final, TypeVar

from podtide.domain.conf.reader import Reads
from podtide.domain.conf.scaling_config import DECOMMISSION
from podtide.domain.conf.spark_conf import ConfError, SparkConf
from podtide.domain.jvm.values import parse_boolean, parse_int, parse_time
from podtide.domain.recorded.application import Application
from podtide.domain.scheduler.rules import RETRIES, Retries

TASK_FAILURES: Final = "spark.task.maxFailures"
STAGE_ATTEMPTS: Final = "spark.stage.maxConsecutiveAttempts"
SPARED: Final = "spark.stage.ignoreDecommissionFetchFailure"
FETCHES: Final = "spark.shuffle.io.maxRetries"
FETCH_WAIT: Final = "spark.shuffle.io.retryWait"
RETRY_KEYS: Final = frozenset({TASK_FAILURES, STAGE_ATTEMPTS, SPARED, FETCHES, FETCH_WAIT})

_T = TypeVar("_T")


def retries_of(
    conf: SparkConf, reads: Reads, changed: Collection[str], application: Application
) -> tuple[Retries, list[ConfError]]:
    """What Spark bears, and what is wrong with it. ``changed``: keys that the variant sets."""
    errors: list[ConfError] = []

    def read(key: str, default: _T, parse: Callable[[str], _T], expected: str, least: int = 0) -> _T:
        text = conf.raw(key)
        try:
            value = default if text is None else parse(text)
            if not isinstance(value, int) or value >= least:
                return value
        except ValueError:
            pass
        if key in changed:
            errors.append(conf.refused(key, expected))
        return default

    spares = read(SPARED, True, parse_boolean, "true or false")
    retries = Retries(
        max(1, reads.int(TASK_FAILURES), 0 if TASK_FAILURES in changed else 1 + _failures_borne(application)),
        max(1, reads.int(STAGE_ATTEMPTS)),
        spares_decommissioned=spares and reads.flag(DECOMMISSION),
        fetches=read(FETCHES, RETRIES.fetches, parse_int, "a number of retries"),
        fetch_wait_ms=1_000 * read(FETCH_WAIT, RETRIES.fetch_wait_ms // 1_000, _seconds, "a time, as 5s"),
    )
    errors.extend(
        conf.refused(key, "1 or more")
        for key in (TASK_FAILURES, STAGE_ATTEMPTS)
        if reads.int(key) < 1 and key in changed and conf.setting(key) is not None
    )
    return retries, errors


def _failures_borne(application: Application) -> int:
    """The most failures of one task that succeeded in the end."""
    most = 0
    for stage in application.stages:
        counts = Counter(one.task for one in stage.failures if one.task < stage.tasks and stage.body_ms[one.task] >= 0)
        most = max(most, max(counts.values(), default=0))
    return most


def _seconds(text: str) -> int:
    """JavaUtils.timeStringAsSec."""
    return parse_time(text, "s")
