"""Which Spark's defaults apply: a version text mapped to a release that the table of keys knows.

Defaults and the set of keys changed between minor releases from 2.4 to 4.3. A vendor's suffix or a snapshot
("3.3.0-amzn-0", "3.1.0-SNAPSHOT") counts as its release. Whatever is older takes 2.4's defaults, whatever is
newer 4.3's, and without a readable version 4.3.0 applies; each of these is said. Only *defaults* follow the
version: behaviour is that of Spark 4.3.0 throughout.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple, TypeAlias

Release: TypeAlias = tuple[int, int, int]
"""Major, minor, patch."""

OLDEST: Final[Release] = (2, 4, 0)
NEWEST: Final[Release] = (4, 3, 0)

_RELEASE: Final = re.compile(r"\s*v?([0-9]{1,4})\.([0-9]{1,4})(?:\.([0-9]{1,4}))?(?![0-9])")


class SparkVersion(NamedTuple):
    """``text``: what was read, if anything. ``release``: whose defaults apply. ``remark``: what to say about it."""

    text: str | None
    release: Release
    remark: str | None = None

    @property
    def name(self) -> str:
        """The release line as people name it: "3.5"."""
        return f"{self.release[0]}.{self.release[1]}"

    @property
    def written(self) -> Release | None:
        """The release that the text names, whether or not its defaults are known; None where it names none."""
        return _named(self.text)


def _named(text: str | None) -> Release | None:
    found = _RELEASE.match(text) if text else None
    return None if found is None else (int(found[1]), int(found[2]), int(found[3] or 0))


def parse_version(text: str | None) -> SparkVersion:
    """The version whose defaults apply. Never fails; anything out of the ordinary is in ``remark``."""
    release = _named(text)
    if text is None or not text.strip():
        return SparkVersion(None, NEWEST, "The Spark version is unknown: the defaults of Spark 4.3 apply.")
    if release is None:
        return SparkVersion(text, NEWEST, f"{text!r} is no Spark version: the defaults of Spark 4.3 apply.")
    if release < OLDEST:
        remark = f"Spark {text} is older than 2.4: the defaults of Spark 2.4 apply."
        return SparkVersion(text, OLDEST, remark)
    if release[:2] > NEWEST[:2]:
        remark = f"Spark {text} is newer than 4.3: the defaults of Spark 4.3 apply."
        return SparkVersion(text, NEWEST, remark)
    return SparkVersion(text, release)


DEFAULT_VERSION: Final = SparkVersion("4.3.0", NEWEST)
"""Spark 4.3.0, which applies unless something names another."""
