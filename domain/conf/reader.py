"""Reading many keys in Spark's order, collecting what fails.

Spark stops at the first key that it cannot read; a user wants to hear of all. ``Reads`` goes on with the default in
the place of what failed and remembers the failures in the order in which Spark would have met them.
"""

from __future__ import annotations

from decimal import Decimal

from returns.pipeline import is_successful

from podtide.domain.conf.entries import KEYS
from podtide.domain.conf.entry_types import Value
from podtide.domain.conf.spark_conf import ConfError, Setting, SparkConf, read
from podtide.domain.jvm.exceptions import SparkFault


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

    def decimal(self, name: str) -> Decimal:
        """A decimal; 0 for what is unset."""
        value = self.value(name)
        return value if isinstance(value, Decimal) else Decimal(0)

    def refuse(self, name: str, expected: str, exception_class: str, message: str) -> None:
        """The value of a key that can be read but not used, or its absence."""
        setting = self.conf.setting(name)
        if setting is None:
            reading = read(self.conf, name) if name in KEYS else None
            known = reading.unwrap() if reading is not None and is_successful(reading) else None
            setting = Setting(known.text or "" if known else "", known.origin if known else "unset")
        self.refuse_setting(name, setting, expected, SparkFault(exception_class, message))

    def refuse_setting(self, name: str, setting: Setting, expected: str, raised: SparkFault) -> None:
        """A setting that can be read but not used."""
        self.errors.append(ConfError(name, setting.value, setting.origin, expected, raised))


def master_of(conf: SparkConf) -> str:
    """The master URL, as it was set; "" when nobody recorded one."""
    setting = conf.setting("spark.master")
    return setting.value if setting else ""
