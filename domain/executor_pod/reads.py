"""Reading what the pod builder reads of a SparkConf, each setting the way Spark reads it, and in Spark's order.

Three ways: keys of the table through ``conf.reader.Reads`` (references replaced, converted, checked); entries that the table
lacks, as texts with references replaced (``entry_text``); and settings that Spark takes raw, by name or by prefix
(``raw``, ``family``), as they were written.

Families come in an order that shows in the pod (environment, secrets, Java options): that of SparkConf.getAll, a mutable
HashSet of all pairs of the conf, and for maps of more than four entries that of an immutable HashMap.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from returns.pipeline import is_successful

from podtide.domain.conf.reader import Reads
from podtide.domain.conf.spark_conf import ConfError, Setting, SparkConf, read
from podtide.domain.jvm.exceptions import ILLEGAL_ARGUMENT, NUMBER_FORMAT, SparkFault
from podtide.domain.jvm.hash_order import SMALL, bucket_order, immutable_map_order, product_hash
from podtide.domain.jvm.values import parse_int, string_hash

_CARRIER: Final = "spark.executor.defaultExtraClassPath"


def raw(conf: SparkConf, name: str) -> str | None:
    """SparkConf.getOption."""
    setting = conf.setting(name)
    return None if setting is None else setting.value


def entry_text(reads: Reads, name: str) -> str | None:
    """The text of an entry without default: None when unset, references in it replaced."""
    setting = reads.conf.setting(name)
    if setting is None or "${" not in setting.value:
        return None if setting is None else setting.value
    # The reader replaces references for the keys that it knows: this one stands in, with the other's text.
    reading = read(SparkConf(reads.conf.settings.set(_CARRIER, setting), reads.conf.version), _CARRIER)
    if is_successful(reading):
        return reading.unwrap().text
    reads.errors.append(replace(reading.failure(), key=name))
    return None


def prepended_text(reads: Reads, before: str, name: str, separator: str) -> str | None:
    """The text of an entry that another one is put before (ConfigBuilder.withPrepended)."""
    texts = [text for key in (before, name) if (text := entry_text(reads, key)) is not None]
    return separator.join(texts) if texts else None


def entry_flag(reads: Reads, name: str, *, default: bool) -> bool:
    """A switch that the table of keys lacks."""
    text = entry_text(reads, name)
    if text is None:
        return default
    word = text.strip().lower()
    if word not in ("true", "false"):
        message = (
            f"[INVALID_CONF_VALUE.TYPE_MISMATCH] The value '{text}' in the config \"{name}\" is invalid. It should be "
            "a/an 'boolean' value. SQLSTATE: 22022"
        )
        reads.refuse(name, "true or false", "org.apache.spark.SparkIllegalArgumentException", message)
        return default
    return word == "true"


def raw_int(reads: Reads, name: str, default: int) -> int:
    """SparkConf.getInt by name: the text itself, neither trimmed nor with references replaced."""
    text = raw(reads.conf, name)
    if text is None:
        return default
    try:
        return parse_int(text)
    except ValueError:
        message = f'Illegal value for config key {name}: For input string: "{text}"'
        reads.refuse(name, "a whole number of 32 bits", NUMBER_FORMAT, message)
        return default


def in_conf_order(conf: SparkConf, names: Iterable[str]) -> list[str]:
    """These keys in the order of SparkConf.getAll."""
    pairs = ((name, conf.settings[name].value) for name in names)
    codes = [(product_hash("Tuple2", map(string_hash, pair)), pair[0]) for pair in pairs]
    return bucket_order(codes, len(conf.settings))


def family(conf: SparkConf, prefix: str, fits: Callable[[str], bool] = lambda _: True) -> dict[str, Setting]:
    """KubernetesUtils.parsePrefixedKeyValuePairs: what begins with the prefix, without it, in the map's order.

    ``fits``: which names are put into the map.
    """
    names = in_conf_order(conf, [name for name in conf.settings if name.startswith(prefix)])
    kept = [rest for name in names if fits(rest := name.removeprefix(prefix))]
    return {name: conf.settings[prefix + name] for name in map_order(kept)}


def map_order(names: list[str]) -> list[str]:
    """How an immutable Map is walked that these were put into, in this order."""
    return names if len(names) <= SMALL else immutable_map_order(names)


def illegal(message: str) -> SparkFault:
    """An IllegalArgumentException."""
    return SparkFault(ILLEGAL_ARGUMENT, message)


def refused(conf: SparkConf, name: str, expected: str, raised: SparkFault | None) -> ConfError:
    """What is wrong with a setting, or with its absence."""
    setting = conf.setting(name) or Setting("", "unset")
    return ConfError(name, setting.value, setting.origin, expected, raised)
