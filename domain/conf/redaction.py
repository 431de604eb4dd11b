"""What Spark would not show: values under keys, or with contents, that spark.redaction.regex matches.

Spark replaces a value by a fixed text when its pattern is found in the key or in the value, and replaces what
spark.redaction.string.regex finds inside texts. The pattern comes with a log, that is from a stranger, and Python's
matcher can be sent on an endless search by a pattern that nests repetitions or options. So a pattern is used only when it
repeats nothing and has few options; with any other, every value is hidden but those of keys known to hold a number or a
switch. Spark's default pattern is searched for besides whatever a conf sets.

Spark's patterns miss secrets that are common: keys of Azure accounts, shared access signatures, passwords inside of URLs. So
some more names of keys hide a value, and inside of any text the credentials are hidden that can be told by their form
(``without_credentials``); what is around them stays. These patterns are ours; each takes time proportional to the text.
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
_SECRET_KEY: Final = re.compile(
    r"(?i)account[._-]?key(?!provider)|api[._-]?key|shared[._-]?key|(?:private|encryption)[._-]key$|[._-]sas[._-]|_pwd$"
    r"|passwd|passphrase"
)
"""Names of keys whose values are secrets besides those of Spark's default pattern."""

_CREDENTIALS: Final = (
    # The password of a URL: scheme://user:password@host, and of Oracle's and Go's ways to write one.
    re.compile(r"(?P<kept>://[^\s/:@?#]*+:)(?:[^\s/@]++@)*[^\s/@]++(?=@)"),
    re.compile(r"(?P<kept>\bjdbc:oracle:[a-z0-9]{1,9}:[^\s/@:]{0,128}+/)[^\s/@]++(?=@)"),
    re.compile(r"(?P<kept>(?<![\w.-])[\w.-]{1,128}+:)[^\s/@:]++(?=@(?:tcp|unix)\()"),
    # Named in the text: password=..., ;AccountKey=..., &sig=..., "password": "...".
    re.compile(
        r"(?i)(?P<kept>(?:password|passwd|passphrase|(?<![a-z])pwd(?!=/)|account_?key|shared_?access_?key|shared_?access_?signature"
        r"|api_?key|client_?secret|secret_?key|(?:access|auth|refresh|session|sas|bearer)_?token|(?<![a-z0-9_])sig"
        r"|x-amz-signature)\s*+(?:=|[\"']\s*+:)\s*+)(?:\"[^\"]*+\"?|'[^']*+'?|[^\s&;,\"']++)"
    ),
    # Told by their form: the key of an Azure account, a private key, a JSON web token.
    re.compile(r"(?P<kept>(?<![A-Za-z0-9+/]))[A-Za-z0-9+/]{86}==(?![A-Za-z0-9+/=])"),
    re.compile(r"(?P<kept>-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----)[^-]++"),
    re.compile(r"(?P<kept>\b)eyJ[\w-]{10,}+\.eyJ[\w-]++\.[\w-]++"),
)

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
        if any(pattern.search(key) or pattern.search(value) for pattern in patterns) or _SECRET_KEY.search(key):
            return REDACTED
        if self.cautious and not (key in KEYS and _harmless(KEYS[key].type.name)):
            return REDACTED
        return self.text(value)

    def text(self, text: str) -> str:
        """A text without what the pattern for texts finds, and without credentials."""
        shown = text if self.text_pattern is None else self.text_pattern.sub(REDACTED, text)
        return without_credentials(shown)


def without_credentials(text: str) -> str:
    """The text with the credentials hidden that it names or that can be told by their form."""
    for pattern in _CREDENTIALS:
        text = pattern.sub(_hide, text)
    return text


def _hide(found: re.Match[str]) -> str:
    return found["kept"] + REDACTED


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
