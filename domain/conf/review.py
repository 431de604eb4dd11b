"""What there is to say about a conf that is no error: mistakes Spark does not notice, and what it logs about itself.

Spark ignores keys that it does not know, so a misspelt one costs nothing but its effect. ``review`` finds keys that
look like mistakes, keys that the assumed Spark version does not have yet, deprecated names, references that cannot
be followed here, and settings that rule one another out.
"""

from __future__ import annotations

from typing import Final

from returns.pipeline import is_successful

from podtide.domain.conf.entries import KEYS, RENAMED, suspect
from podtide.domain.conf.redaction import redaction_of
from podtide.domain.conf.settings import ConfNotice, NoticeLevel
from podtide.domain.conf.spark_conf import ConfError, SparkConf, read, unresolved
from podtide.domain.jvm.exceptions import illegal
from podtide.domain.jvm.values import INT_MAX

NOTICES_MAX: Final = 100
"""A conf may come from a hostile log: a hundred mistakes are shown, the rest is counted."""

PENDING: Final = "spark.kubernetes.allocation.maxPendingPods"
PENDING_PER_PROFILE: Final = "spark.kubernetes.allocation.maxPendingPodsPerRp"

DEPRECATED: Final = {
    "spark.executor.port": ("2.0.0", "Not used anymore"),
    "spark.executor.plugins": ("3.0.0", "Feature replaced with new plugin API. See Monitoring documentation."),
    "spark.shuffle.service.index.cache.entries": (
        "2.3.0",
        "Not used anymore. Please use spark.shuffle.service.index.cache.size",
    ),
}
"""SparkConf.deprecatedConfigs, as far as executor allocation is near; the spark.blacklist keys are in the table."""


def review(conf: SparkConf) -> tuple[ConfNotice, ...]:
    """Everything worth saying, keys in alphabetical order."""
    notices: list[ConfNotice] = []
    if conf.version.remark:
        notices.append(ConfNotice(NoticeLevel.WARNING, conf.version.remark))
    for name in sorted(conf.settings):
        if len(notices) >= NOTICES_MAX:
            notices.append(
                ConfNotice(NoticeLevel.WARNING, f"More remarks than {NOTICES_MAX}: the others are not shown.")
            )
            return tuple(notices)
        notices += _about(conf, name)
    if redaction_of(conf).cautious:
        text = (
            "A redaction pattern is too involved to be run safely: only numbers, sizes, times and switches are shown."
        )
        notices.append(ConfNotice(NoticeLevel.WARNING, text))
    return tuple(notices)


def conflicts(conf: SparkConf) -> tuple[ConfError, ...]:
    """Settings that can be read one by one but not used together, outside of dynamic allocation's own checks."""
    each, total = (read(conf, name) for name in (PENDING_PER_PROFILE, PENDING))
    if not is_successful(each) or not is_successful(total):
        return ()
    limit, origin = each.unwrap().value, each.unwrap().origin
    most = total.unwrap().value
    if not isinstance(limit, int) or not isinstance(most, int) or limit in (INT_MAX, most) or limit < most:
        return ()
    message = (
        f"requirement failed: Maximum pending pods per resource profile ID ({limit}) must be less than or equal to "
        f"maximum pending pods ({most})."
    )
    expected = f"at most {PENDING} ({most})"
    return (ConfError(PENDING_PER_PROFILE, str(limit), origin, expected, illegal(message)),)


def _about(conf: SparkConf, name: str) -> list[ConfNotice]:
    notices = []
    version = conf.version
    guess = suspect(name)
    if guess is not None:
        hint = f"; did you mean {guess}?" if guess else ""
        notices.append(ConfNotice(NoticeLevel.WARNING, f"Spark does not know {name}{hint}"))
    row = KEYS.get(name)
    if row is not None and not row.known_to(version.release):
        since = ".".join(map(str, row.since))
        text = f"Spark {version.name} does not know {name} yet (it came with {since}); its effect is that of Spark 4.3"
        notices.append(ConfNotice(NoticeLevel.WARNING, text))
    if name in RENAMED:
        notices.append(_renamed(conf, name))
    elif name in DEPRECATED:
        since, advice = DEPRECATED[name]
        notices.append(ConfNotice(NoticeLevel.WARNING, _deprecation(name, since, advice), spark=True))
    if row is not None:
        references = unresolved(conf.settings[name].value)
        if references:
            text = f"{name} refers to {', '.join(references[:3])}, which only the driver's environment can resolve"
            notices.append(ConfNotice(NoticeLevel.WARNING, text))
    return notices


def _renamed(conf: SparkConf, name: str) -> ConfNotice:
    row = RENAMED[name]
    until = dict(row.alternatives)[name]
    if until is not None and conf.version.release >= until:
        text = f"Spark {conf.version.name} ignores {name}: it is {row.name} since Spark 3.1"
        return ConfNotice(NoticeLevel.WARNING, text)
    if row.name in conf.settings:
        return ConfNotice(NoticeLevel.WARNING, f"{name} has no effect beside {row.name}")
    return ConfNotice(
        NoticeLevel.WARNING,
        f"The configuration key '{name}' has been deprecated and may be removed in the future. Please use the new key "
        f"'{row.name}' instead.",
    )


def _deprecation(name: str, since: str, advice: str) -> str:
    return (
        f"The configuration key '{name}' has been deprecated as of Spark {since} and may be removed in the future. "
        f"{advice}"
    )
