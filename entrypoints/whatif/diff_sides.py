r"""The two sides of a comparison, as the command line names them.

A side is what is laid over the config that a log tells of:

- ``recorded``: nothing; the config as it ran (what the base is, if nobody says otherwise);
- a list ``KEY=VALUE,KEY=VALUE``; ``KEY=`` unsets a key, ``static=N`` is so many executors without dynamic allocation, a
  comma inside a value is written ``\,``;
- ``spark:3.5``: the defaults of that Spark for all that the log does not set, alone or as the first of such a list. Defaults
  only: the behaviour is that of Spark 4.3.0 throughout;
- anything else names a file in the form of spark-defaults.conf.

Where both sides are files, a key that the base has and the candidate lacks was taken out: the candidate unsets it, unless
the log shows another value than the base's, which then came from elsewhere and stays.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from returns.pipeline import is_successful

from podtide.adapters.files.spark_conf import read_properties_file
from podtide.adapters.text.safe import display, escaped
from podtide.domain.conf.entries import KEYS, suspect
from podtide.domain.conf.redaction import redaction_of
from podtide.domain.conf.spark_conf import SparkConf, from_mapping, read
from podtide.domain.conf.spark_versions import parse_version
from podtide.domain.rerun.plan import Variant
from podtide.entrypoints.whatif.variants import VariantError, VariantWishes, split, variants_of

RECORDED: Final = "recorded"
VERSION_PREFIX: Final = "spark:"
_VERSION: Final = re.compile(r"v?[0-9]{1,4}\.[0-9]{1,4}(?:\.[0-9]{1,4})?")
_LIST: Final = re.compile(r"\s*(?:spark\.[^=,]*|static)\s*=")


class SideError(ValueError):
    """A side that cannot be understood; one line that names it and what was expected."""


@dataclass(frozen=True, slots=True)
class ConfigSide:
    """``name``: base or candidate; ``text``: as it was given; ``version``: whose defaults apply, None: those of the log."""

    name: str
    text: str
    changes: Mapping[str, str | None] = field(default_factory=dict)
    static: int | None = None
    version: str | None = None
    is_file: bool = False
    remarks: tuple[str, ...] = ()

    @property
    def as_recorded(self) -> bool:
        """Whether it is the config as it ran."""
        return not self.changes and self.static is None and self.version is None

    def conf(self, recorded: SparkConf) -> SparkConf:
        """The conf that the changes go over: the log's, with the defaults of the side's version."""
        return recorded if self.version is None else recorded.at(parse_version(self.version))

    def variant(self, recorded: SparkConf, base: ConfigSide | None = None) -> Variant:
        """The side for one log. ``base``: the other side, of the candidate."""
        changes = dict(self.changes)
        if base is not None and base.is_file and self.is_file:
            for key, text in base.changes.items():
                setting = recorded.setting(key)
                if key not in changes and setting is not None and setting.value == text:
                    changes[key] = None
        return Variant(self.name, changes, self.static)


def side_of(name: str, text: str) -> ConfigSide:
    """The side that a text names. Raises SideError."""
    option = f"--{name}"
    given = text.strip()
    if given == RECORDED:
        return ConfigSide(name, text)
    if given.startswith(VERSION_PREFIX):
        first, _, rest = given.partition(",")
        version = first.removeprefix(VERSION_PREFIX).strip()
        if _VERSION.fullmatch(version) is None:
            raise SideError(f"{option} {escaped(first, 60)!r}: expected spark: and a version, such as spark:3.5")
        return _listed(name, text, rest, version) if rest.strip() else ConfigSide(name, text, version=version)
    if _LIST.match(given):
        return _listed(name, text, given, None)
    result = read_properties_file(given)
    if not is_successful(result):
        expected = f"a properties file, spark.KEY=VALUE,..., spark:VERSION or {RECORDED}"
        raise SideError(f"{option} {result.failure()}; expected {expected}")
    file = result.unwrap()
    changes: dict[str, str | None] = {key: setting.value for key, setting in file.conf.settings.items()}
    check(f"{option} {display(given)}", changes)
    return ConfigSide(name, text, changes, is_file=True, remarks=file.remarks)


def _listed(name: str, text: str, pairs: str, version: str | None) -> ConfigSide:
    option = f"--{name}"
    try:
        (variant,) = variants_of(VariantWishes(sets=split(pairs)))
    except VariantError as wrong:
        raise SideError(str(wrong).replace("--set", option, 1)) from None
    if variant.faults != Variant("").faults:
        raise SideError(f"{option}: expected settings; faults are for podtide whatif")
    check(option, variant.changes)
    return ConfigSide(name, text, dict(variant.changes), variant.static, version)


def check(option: str, changes: Mapping[str, str | None]) -> None:
    """What is wrong with changes whatever the log: raises SideError for a key that Spark does not know, or a value."""
    for key, text in changes.items():
        if not key.startswith("spark."):
            raise SideError(f"{option}: {escaped(key, 100)}: expected a key that begins with spark.")
        guess = suspect(key)
        if guess is not None:
            hint = f"; did you mean {guess}?" if guess else ""
            raise SideError(f"{option}: {escaped(key, 100)}: expected a key that Spark 4.3.0 knows{hint}")
        if text is None or key not in KEYS:
            continue
        conf = from_mapping({key: text}, option)
        reading = read(conf, key)
        if not is_successful(reading):
            shown = redaction_of(conf).shown(key, text)
            raise SideError(f"{option}: {key} = {escaped(shown, 100)!r}: expected {reading.failure().expected}")
