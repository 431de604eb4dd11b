"""What Spark would not show: values under keys, or with contents, that spark.redaction.regex matches.

Spark replaces a value by a fixed text when its pattern is found in the key or in the value, and replaces what
spark.redaction.string.regex finds inside texts. The pattern comes with a log, that is from a stranger, and Python's
matcher can be sent on an endless search by a pattern that nests repetitions or options. So a pattern is used only when it
repeats nothing and has few options; with any other, every value is hidden but those of keys known to hold a number or a
switch. Spark's default pattern is searched for besides whatever a conf sets.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from returns.pipeline import is_successful

from podtide.domain.conf.entries import KEYS
from podtide.domain.conf.spark_conf import SparkConf, read
from podtide.domain.conf.spark_versions import NEWEST

REDACTED: Final = "*********(redacted)"
"""Utils.REDACTION_REPLACEMENT_TEXT."""

PATTERN_KEY: Final = "spark.redaction.regex"
TEXT_PATTERN_KEY: Final = "spark.redaction.string.regex"

_UNBOUNDED: Final = re.compile(r"[*+{]|\(\?[^:i)]|\\[1-9]")
_OPTIONS: Final = re.compile(r"(?<!\()\?")
_OPTIONS_MAX: Final = 4
_DEFAULT: Final = re.compile(KEYS[PATTERN_KEY].default(NEWEST) or "(?!)")
_HARMLESS: Final = frozenset({"boolean", "int", "long", "double", "decimal", "time", "size", "bytes"})


@dataclass(frozen=True, slots=True)
class Redaction:
    """Patterns by which values are hidden; None for a pattern that is not set, or not safe to use (``cautious``)."""

    pattern: re.Pattern[str] | None = None
    text_pattern: re.Pattern[str] | None = None
    cautious: bool = False

    def shown(self, key: str, value: str) -> str:
        """The value, or what is shown in its place."""
        patterns = (_DEFAULT,) if self.pattern is None else (_DEFAULT, self.pattern)
        if any(pattern.search(key) or pattern.search(value) for pattern in patterns):
            return REDACTED
        if self.cautious and not (key in KEYS and _harmless(KEYS[key].type.name)):
            return REDACTED
        return value if self.text_pattern is None else self.text_pattern.sub(REDACTED, value)


def _harmless(type_name: str) -> bool:
    return any(type_name.startswith(kind) for kind in _HARMLESS)


def redaction_of(conf: SparkConf) -> Redaction:
    """The redaction that a conf asks for; Spark's default patterns where it asks for none."""
    pattern, unsafe = _compiled(conf, PATTERN_KEY)
    text_pattern, unsafe_text = _compiled(conf, TEXT_PATTERN_KEY)
    return Redaction(pattern, text_pattern, unsafe or unsafe_text)


def _compiled(conf: SparkConf, key: str) -> tuple[re.Pattern[str] | None, bool]:
    reading = read(conf, key)
    if not is_successful(reading):
        return None, True
    text = reading.unwrap().text
    if not text:
        return None, False
    if _UNBOUNDED.search(text) or len(_OPTIONS.findall(text)) > _OPTIONS_MAX:
        return None, True
    try:
        return re.compile(text), False
    except re.error:
        return None, True
