"""The account of the run that an event log tells of: read once, with the replay that says what was asked for when."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from podtide.adapters.eventlog.application import AccountLog
from podtide.adapters.eventlog.bytes.reader import LogSource
from podtide.adapters.text.safe import escaped
from podtide.domain.base.units import NEVER
from podtide.domain.comparison.account import RunAccount, RunStall
from podtide.domain.comparison.assembly import RunTerms, account_of
from podtide.domain.comparison.recorded_bill import Keeping
from podtide.domain.conf.redaction import redaction_of
from podtide.domain.conf.spark_conf import SparkConf
from podtide.domain.whatif.executor_shapes import shapes
from podtide.entrypoints.whatif.recorded_log import RecordedLog, read_application

VALUE_MAX: Final = 1_000
"""Characters of a setting that an account keeps."""


class AccountedLog(NamedTuple):
    """A log as read, for whoever wants more of it, and its account."""

    recorded: RecordedLog
    account: RunAccount


def read_account(
    source: LogSource,
    *,
    overrides: Sequence[SparkConf] = (),
    spark_version: str | None = None,
    progress: Callable[[], None] | None = None,
) -> AccountedLog:
    """Read a log that was opened; closing it is the caller's. ``overrides``, ``spark_version``: see ``read_application``.
    Raises LogError, SettingsError, NothingToRun."""
    account_log = AccountLog()
    recorded = read_application(
        source, overrides=overrides, spark_version=spark_version, progress=progress, account=account_log
    )
    return AccountedLog(recorded, _account(recorded, account_log))


def _account(recorded: RecordedLog, account_log: AccountLog) -> RunAccount:
    application, settled = recorded.application, recorded.settled
    config = settled.config
    made, _ = shapes(application, settled.conf, config.profile_rules, as_logged=True)
    redaction = redaction_of(settled.conf)
    conf = {
        escaped(key): escaped(redaction.shown(key, text))[:VALUE_MAX]
        for key, text in sorted(application.properties.items())
    }
    keeping = Keeping(config.idle_timeout_ms if settled.enabled else NEVER, settled.enabled and config.shuffle_tracking)
    terms = RunTerms(made, config.executors_max if settled.enabled else None, keeping, conf)
    account = account_of(application, account_log.tasks, recorded.targets, terms, account_log.plans)
    start, end = account.started_ms, application.ended_ms
    stalls = tuple(
        RunStall(one.cause, one.profile, one.since - start, (one.until or end) - start, one.until is None)
        for one in recorded.stalls
        if one.blocked
    )
    return replace(account, stalls=stalls)
