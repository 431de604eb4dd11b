"""What Spark bears of failures under a conf: how often tasks and stages may fail, and how long a fetch goes on in vain.

The keys of the shuffle's transport are no ConfigEntry of Spark's: TransportConf reads them, with the defaults of Spark
4.3.0. Where the log's own conf has something unreadable there, the default counts; of a variant it is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final, TypeVar

from podtide.domain.conf.reader import Reads
from podtide.domain.conf.scaling_config import DECOMMISSION
from podtide.domain.conf.spark_conf import ConfError, SparkConf
from podtide.domain.jvm.values import parse_boolean, parse_int, parse_time
from podtide.domain.rerun.plan import RETRIES, Retries

TASK_FAILURES: Final = "spark.task.maxFailures"
STAGE_ATTEMPTS: Final = "spark.stage.maxConsecutiveAttempts"
SPARED: Final = "spark.stage.ignoreDecommissionFetchFailure"
FETCHES: Final = "spark.shuffle.io.maxRetries"
FETCH_WAIT: Final = "spark.shuffle.io.retryWait"
RETRY_KEYS: Final = frozenset({TASK_FAILURES, STAGE_ATTEMPTS, SPARED, FETCHES, FETCH_WAIT})

_T = TypeVar("_T")


def retries_of(conf: SparkConf, reads: Reads, changed: Collection[str]) -> tuple[Retries, list[ConfError]]:
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
        max(1, reads.int(TASK_FAILURES)),
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


def _seconds(text: str) -> int:
    """JavaUtils.timeStringAsSec."""
    return parse_time(text, "s")
