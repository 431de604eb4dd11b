"""Reading many keys in Spark's order, collecting what fails.

Spark stops at the first key that it cannot read; a user wants to hear of all. ``Reads`` goes on with the default in
the place of what failed and remembers the failures in the order in which Spark would have met them.
"""

from __future__ import annotations

from decimal import Decimal

from returns.pipeline import is_successful

from podtide.domain.base.units import Millis
from podtide.domain.conf.entries import KEYS
from podtide.domain.conf.entry_types import Value
from podtide.domain.conf.spark_conf import ConfError, SparkConf, expanded, read
from podtide.domain.jvm.exceptions import NUMBER_FORMAT, SparkFault
from podtide.domain.jvm.values import parse_int, to_long


class Reads:
    """Reads keys in Spark's order and keeps what fails; a key that fails counts as unset from then on."""

    def __init__(self, conf: SparkConf) -> None:
        self.conf = conf
        self.errors: list[ConfError] = []
        self._failed: dict[str, Value | None] = {}

    def value(self, name: str) -> Value | None:
        """The key's value; its default in the place of what cannot be read."""
        if name in self._failed:
            return self._failed[name]
        reading = read(self.conf, name)
        if is_successful(reading):
            return reading.unwrap().value
        error = reading.failure()
        if all((error.key, error.origin) != (known.key, known.origin) for known in self.errors):
            self.errors.append(error)
        row = KEYS[name]
        default = row.default(self.conf.version.release)
        if default is not None:
            self._failed[name] = row.type.parse(default)
        else:
            self._failed[name] = self.value(row.fallback) if row.fallback is not None else None
        return self._failed[name]

    def raw_int(self, name: str, default: int) -> int:
        """SparkConf.getInt by name: the text itself, neither trimmed nor with references replaced."""
        text = self.conf.raw(name)
        if text is None:
            return default
        try:
            return parse_int(text)
        except ValueError:
            message = f'Illegal value for config key {name}: For input string: "{text}"'
            self.refuse(name, "a whole number of 32 bits", NUMBER_FORMAT, message)
            return default

    def flag(self, name: str) -> bool:
        """A switch."""
        return self.value(name) is True

    def int(self, name: str) -> int:
        """A whole number; 0 for what is unset."""
        value = self.value(name)
        return value if isinstance(value, int) else 0

    def double(self, name: str) -> float:
        """A double; 0 for what is unset."""
        value = self.value(name)
        return value if isinstance(value, float) else 0.0

    def text(self, name: str) -> str | None:
        """A text; None for what is unset."""
        value = self.value(name)
        return value if isinstance(value, str) else None

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of texts."""
        value = self.value(name)
        return value if isinstance(value, tuple) else ()

    def seconds(self, name: str) -> Millis:
        """A key in seconds as milliseconds, in 64 bits."""
        return to_long(1_000 * self.int(name))

    def decimal(self, name: str) -> Decimal:
        """A decimal; 0 for what is unset."""
        value = self.value(name)
        return value if isinstance(value, Decimal) else Decimal(0)

    def expanded(self, name: str) -> str | None:
        """The text of an entry without default: None when unset, references in it replaced."""
        text = expanded(self.conf, name)
        if is_successful(text):
            return text.unwrap()
        self.errors.append(text.failure())
        return None

    def prepended(self, before: str, name: str, separator: str) -> str | None:
        """The text of an entry that another one is put before (ConfigBuilder.withPrepended)."""
        texts = [text for key in (before, name) if (text := self.expanded(key)) is not None]
        return separator.join(texts) if texts else None

    def refuse(self, name: str, expected: str, exception_class: str, message: str) -> None:
        """The value of a key that can be read but not used, be it the default, or its absence."""
        fault = SparkFault(exception_class, message)
        reading = read(self.conf, name) if name in KEYS and self.conf.setting(name) is None else None
        if reading is not None and is_successful(reading):
            default = reading.unwrap()
            self.errors.append(ConfError(name, default.text or "", default.origin, expected, fault))
        else:
            self.refuse_setting(name, expected, fault)

    def refuse_setting(self, name: str, expected: str, raised: SparkFault | None = None) -> None:
        """A setting that cannot be used as it was written, or its absence."""
        self.errors.append(self.conf.refused(name, expected, raised))
