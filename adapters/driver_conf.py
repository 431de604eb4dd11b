"""The conf of a running application, as its driver's REST API shows it: what a shadow decides under unless it is told more.

The driver redacts what ``spark.redaction.regex`` matches; such values are left out, because a hidden value is none. What is
left out never matters to a decision.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

import msgspec

from podtide.adapters.driver_rest_http import Get, NoAnswer
from podtide.domain.redaction import REDACTED

SETTINGS_MAX: Final = 10_000
OK: Final = 200


class NoConf(Exception):
    """The driver does not say under which conf its application runs; the message says why."""


class _Environment(msgspec.Struct):
    spark: list[tuple[str, str]] = msgspec.field(name="sparkProperties")


def driver_conf(get: Get, app_id: str) -> dict[str, str]:
    """The settings of an application by key, without those that are redacted. Raises NoConf."""
    try:
        reply = get(f"applications/{quote(app_id, safe='')}/environment")
    except NoAnswer as problem:
        raise NoConf(problem.why) from None
    if reply.status != OK:
        raise NoConf(f"the driver answers with status {reply.status} for the environment of {app_id}")
    try:
        settings = msgspec.json.decode(reply.body, type=_Environment).spark
    except (msgspec.MsgspecError, RecursionError) as problem:
        raise NoConf(f"the driver's answer for the environment cannot be read: {problem}") from None
    if len(settings) > SETTINGS_MAX:
        raise NoConf(f"the driver shows {len(settings)} settings; at most {SETTINGS_MAX} are read")
    return {key: value for key, value in settings if key.startswith("spark.") and REDACTED not in value}
