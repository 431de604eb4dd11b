"""The first line of a recording: whose it is, under which conf and choices, and where it comes from.

The conf is that of the application, without what Spark would not show (spark.redaction.regex; domain/redaction):
``redacted`` names the keys whose values were taken out, wherever the header came from. Whoever replays the recording
reads the conf with the defaults of ``spark`` and leaves those keys unset.

Policies are recorded by name. A reader knows Spark's own and those that it is given; a name is looked up, never imported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from types import FunctionType
from typing import Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Struct
from pyrsistent import pmap

from podtide.adapters.eventlog.bytes.errors import LogError
from podtide.adapters.recording.records.decisions import SCHEMA_VERSION
from podtide.adapters.recording.records.jsonl import encoded
from podtide.adapters.text.safe import display, escaped
from podtide.domain.base.units import Millis
from podtide.domain.conf.redaction import REDACTED, redaction_of
from podtide.domain.conf.spark_conf import SparkConf, from_mapping
from podtide.domain.conf.spark_versions import DEFAULT_VERSION, parse_version
from podtide.domain.protocol.allocation_policies import SPARK_POLICIES, BackOff, Policies

KIND: Final = "recording"
CLUSTER_KIND: Final = "cluster"
"""Of the record of an embedded cluster."""

Source: TypeAlias = Literal["live", "fake", "replay"]
NO_RACKS: Final[Mapping[str, str]] = pmap()

PolicyWord: TypeAlias = str | bool | dict[str, int] | None
"""How a choice is recorded: the name of a function, a switch, or the numbers of a back-off."""


class RecordingError(LogError):
    """A recording cannot be read or written. ``line``: where, from 1. The message is one printable line that names both.

    A LogError, because a recording stands wherever a log may stand.
    """

    def __init__(self, path: str, why: str, line: int | None = None) -> None:
        why = escaped(why)
        Exception.__init__(self, f"{display(path)}{'' if line is None else f':{line}'}: {why}")
        self.path = path
        self.why = why
        self.line = line


class NothingRecorded(RecordingError):
    """A recording that was cut off before its first line: nothing was recorded, nothing is lost."""


class UnknownPolicy(Exception):
    """A recording was made with a policy that is not at hand: ``choice`` (split, ...) and its ``name``."""

    def __init__(self, choice: str, name: str) -> None:
        super().__init__(f"the policy {escaped(name)} ({choice}) is not known here; give it, or choose another")
        self.choice = choice
        self.name = name


@dataclass(frozen=True, slots=True)
class RecordingHeader:
    """What a recording says of itself.

    ``conf``: the application's settings by key; ``spark``: whose defaults apply to the others. ``seed``: of a fake
    cluster. ``policies``: by choice, see ``policy_words``. ``redacted``: keys whose values are not in ``conf``.
    ``racks``: on YARN, where hosts are, as the topology script said; others are on the default rack.
    """

    app_id: str
    started_at: Millis
    source: Source
    conf: Mapping[str, str] = field(default_factory=pmap)
    spark: str = "4.3.0"
    policies: Mapping[str, PolicyWord] = field(default_factory=lambda: policy_words(SPARK_POLICIES))
    seed: int | None = None
    redacted: tuple[str, ...] = ()
    racks: Mapping[str, str] = field(default_factory=pmap)

    def spark_conf(self, origin: str = KIND) -> SparkConf:
        """The conf to read settings from: what was recorded, under the defaults of the recorded version."""
        return from_mapping(dict(self.conf), origin, parse_version(self.spark))

    def policies_used(self, own: Mapping[str, Callable[..., Any]] | None = None) -> Policies:
        """The policies by their names; ``own``: functions by name, besides Spark's. Raises UnknownPolicy."""
        chosen: dict[str, Any] = {}
        for choice, word in self.policies.items():
            usual = getattr(SPARK_POLICIES, choice) if choice in _CHOICES else None
            if isinstance(word, str) and callable(usual):
                if word != usual.__name__ and word not in (own or {}):
                    raise UnknownPolicy(choice, word)
                chosen[choice] = usual if word == usual.__name__ else (own or {})[word]
            elif isinstance(word, bool) and isinstance(usual, bool):
                chosen[choice] = word
            elif choice == "back_off" and (word is None or isinstance(word, dict)):
                chosen[choice] = _back_off(word)
            else:
                raise UnknownPolicy(choice, str(word))
        return Policies(**chosen)


def header_of(
    app_id: str,
    conf: SparkConf,
    started_at: Millis,
    source: Source,
    *,
    policies: Policies = SPARK_POLICIES,
    seed: int | None = None,
    racks: Mapping[str, str] = NO_RACKS,
) -> RecordingHeader:
    """The header for an application under this conf; what is to be hidden is left out at once."""
    settings = {key: setting.value for key, setting in conf.settings.items()}
    version = conf.version.text or conf.version.name
    header = RecordingHeader(app_id, started_at, source, settings, version, policy_words(policies), seed, racks=racks)
    return _hidden(header)


def policy_words(policies: Policies) -> dict[str, PolicyWord]:
    """Each choice by name: Spark's functions by their own, others by module and name; switches; the back-off's numbers."""
    words: dict[str, PolicyWord] = {}
    for choice in _CHOICES:
        value = getattr(policies, choice)
        if value is None or isinstance(value, bool):
            words[choice] = value
        elif isinstance(value, BackOff):
            words[choice] = asdict(value)
        elif value is getattr(SPARK_POLICIES, choice):
            words[choice] = value.__name__
        else:
            named = value if isinstance(value, FunctionType) else type(value)
            words[choice] = f"{named.__module__}:{named.__qualname__}"
    return words


def header_line(header: RecordingHeader) -> bytes:
    """The header as the first line of a file."""
    header = _hidden(header)
    record: dict[str, Any] = {
        "podtide": SCHEMA_VERSION,
        "kind": KIND,
        "app_id": header.app_id,
        "source": header.source,
        **({} if header.seed is None else {"seed": header.seed}),
        "started_at_ms": header.started_at,
        "spark": header.spark,
        "policies": dict(header.policies),
        "conf": dict(sorted(header.conf.items())),
        **({"redacted": list(header.redacted)} if header.redacted else {}),
        **({"racks": dict(sorted(header.racks.items()))} if header.racks else {}),
    }
    return encoded(record)


class _HeaderWire(Struct, frozen=True):
    """The header as text; keys that a later podtide added are passed over."""

    app_id: str
    source: Source
    started_at: int = msgspec.field(name="started_at_ms")
    spark: str
    conf: dict[str, str]
    policies: dict[str, str | bool | dict[str, int] | None]
    seed: int | None = None
    redacted: list[str] = []
    racks: dict[str, str] = {}


def read_header(line: bytes) -> RecordingHeader:
    """The header in the first line of a file. Raises ValueError: what was found, and what was expected."""
    try:
        first = msgspec.json.decode(line)
    except (ValueError, RecursionError):  # msgspec's errors and UnicodeDecodeError are ValueErrors
        raise ValueError("no JSON; the header of a recording was expected") from None
    if not isinstance(first, dict) or "podtide" not in first:
        raise ValueError('no header; {"podtide": 1, "kind": "recording", ...} was expected')
    if first["podtide"] != SCHEMA_VERSION or isinstance(first["podtide"], bool):
        raise ValueError(f"version {first['podtide']} of the format; {SCHEMA_VERSION} is understood")
    if first.get("kind") == CLUSTER_KIND:
        raise ValueError(
            "the record of a cluster (podtide cluster --record), which holds no decisions; a recording was expected "
            "(podtide run --record)"
        )
    if first.get("kind") != KIND:
        raise ValueError(f"a file of kind {first.get('kind')!r}; kind '{KIND}' was expected")
    try:
        wire = msgspec.convert(first, _HeaderWire)
    except msgspec.ValidationError as problem:
        raise ValueError(f"a damaged header: {problem}") from None
    known = msgspec.structs.asdict(wire)
    return RecordingHeader(**{**known, "redacted": tuple(wire.redacted), "racks": pmap(wire.racks)})


def _hidden(header: RecordingHeader) -> RecordingHeader:
    """The header without the values that Spark would not show; parts of texts are replaced where Spark would."""
    conf = from_mapping(dict(header.conf), KIND, DEFAULT_VERSION)
    redaction = redaction_of(conf)
    shown = {key: redaction.shown(key, value) for key, value in header.conf.items()}
    hidden = {key for key, value in shown.items() if value == REDACTED}
    kept = {key: value for key, value in shown.items() if key not in hidden}
    redacted = tuple(sorted(hidden.union(header.redacted)))
    return replace(header, conf=pmap(kept), redacted=redacted)


def _back_off(word: dict[str, int] | None) -> BackOff | None:
    try:
        return None if word is None else BackOff(**word)
    except TypeError:
        raise UnknownPolicy("back_off", str(word)) from None


_CHOICES: Final = tuple(choice.name for choice in fields(Policies))
