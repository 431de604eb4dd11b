r"""A config as lines to paste: into spark-defaults.conf, a spark-submit command, or a SparkApplication manifest.

All three say the same: which settings are set to what, and which are to be taken out (a comment, since none of the three
can unset what another place sets). A static count is what its cluster manager knows it as (``effects.static_settings``).

- spark-defaults.conf is read by ``java.util.Properties``: a backslash is doubled, line breaks and what is not ASCII are
  ``\n`` and ``\uXXXX``, blanks at the ends of a value do not survive Spark's own trimming.
- spark-submit takes ``--conf key=value``, quoted for a POSIX shell.
- A SparkApplication (``sparkoperator.k8s.io/v1beta2``) has fields of its own for dynamic allocation's bounds and for the
  executor's shape, which win over ``spec.sparkConf``; everything else goes there, as strings. With
  ``spec.dynamicAllocation.enabled`` the operator switches shuffle tracking on by itself.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from podtide.adapters.files.yaml_writer import quoted
from podtide.domain.conf.advice.effects import Place, static_settings
from podtide.domain.conf.entries import KEYS
from podtide.domain.conf.scaling_config import ENABLED, INITIAL, INSTANCES, MAX, MIN, TRACKING

DEFAULTS: Final = "spark-defaults.conf"
SUBMIT: Final = "spark-submit"
MANIFEST: Final = "SparkApplication"

TRACKING_TIMEOUT: Final = "spark.dynamicAllocation.shuffleTracking.timeout"
_DYNAMIC: Final = {
    ENABLED: "enabled",
    INITIAL: "initialExecutors",
    MIN: "minExecutors",
    MAX: "maxExecutors",
    TRACKING: "shuffleTrackingEnabled",
    TRACKING_TIMEOUT: "shuffleTrackingTimeout",
}
_EXECUTOR: Final = {
    "spark.executor.cores": "cores",
    INSTANCES: "instances",
    "spark.executor.memory": "memory",
    "spark.executor.memoryOverhead": "memoryOverhead",
    "spark.kubernetes.executor.request.cores": "coreRequest",
}
_TEXTS: Final = frozenset({"memory", "memoryOverhead", "coreRequest"})
"""Fields that are strings; the others are numbers or switches."""


class PasteLines(NamedTuple):
    """The three forms; each ends in a line break unless it is empty."""

    defaults: str
    submit: str
    manifest: str

    def document(self, *, operator: bool) -> dict[str, str]:
        """By the names of the places, as ``--json`` has them. ``operator``: there may be a Kubernetes operator to read a
        manifest.
        """
        if not self.defaults:
            return {}
        forms = {DEFAULTS: self.defaults, SUBMIT: self.submit}
        return {**forms, MANIFEST: self.manifest} if operator else forms


def lines_for(
    changes: Mapping[str, str | None], static: int | None, places: Sequence[Place], cores: int
) -> dict[str, str]:
    """The lines for these changes and, if any, a static count of executors of so many cores, by the names of where they go:
    none that has no effect in one of ``places``, at least one."""
    settings = dict(changes)
    operator = all(place.operated for place in places)
    if static is None:
        return paste_lines(settings).document(operator=operator)
    place_settings = [static_settings(place, static, cores) for place in places]
    first = place_settings[0]
    if first is None or any(one != first for one in place_settings):
        return {}
    if isinstance(first, str):
        assert places[0].platform is not None
        return {places[0].platform.name: f"{first}\n"}
    return paste_lines({**settings, **first}).document(operator=operator)


def paste_lines(settings: Mapping[str, str | None]) -> PasteLines:
    """The lines for these settings (None: the key is to be taken out)."""
    if not settings:
        return PasteLines("", "", "")
    given = {key: text for key, text in sorted(settings.items()) if text is not None}
    removed = sorted(key for key, text in settings.items() if text is None)
    return PasteLines(_defaults(given, removed), _submit(given, removed), _manifest(given, removed))


def _defaults(given: Mapping[str, str], removed: list[str]) -> str:
    lines = [f"# take out: {_comment(key)}" for key in removed]
    width = max((len(_property(key, key=True)) for key in given), default=0)
    lines += [f"{_property(key, key=True):<{width}}  {_property(text)}".rstrip() for key, text in given.items()]
    return "".join(f"{line}\n" for line in lines)


def _submit(given: Mapping[str, str], removed: list[str]) -> str:
    lines = [f"# take out: --conf {_comment(key)}=..." for key in removed]
    if given:
        options = [f"  --conf {shlex.quote(f'{key}={text}')}" for key, text in given.items()]
        lines.append(" \\\n".join(["spark-submit", *options, "  ..."]))
    return "".join(f"{line}\n" for line in lines)


def _manifest(given: Mapping[str, str], removed: list[str]) -> str:
    dynamic = {_DYNAMIC[key]: _scalar(key, _DYNAMIC[key], text) for key, text in given.items() if key in _DYNAMIC}
    if dynamic and dynamic.get("enabled") != "false":
        dynamic["enabled"] = "true"
    if dynamic.get("enabled") == "true" and dynamic.get("shuffleTrackingEnabled") == "true":
        del dynamic["shuffleTrackingEnabled"]  # it is, and earlier operators do not know the field
    executor = {_EXECUTOR[key]: _scalar(key, _EXECUTOR[key], text) for key, text in given.items() if key in _EXECUTOR}
    others = {
        _string(key): _string(text) for key, text in given.items() if key not in _DYNAMIC and key not in _EXECUTOR
    }
    lines = ["apiVersion: sparkoperator.k8s.io/v1beta2", "kind: SparkApplication", "spec:"]
    for name, fields in (("dynamicAllocation", dynamic), ("executor", executor), ("sparkConf", others)):
        if fields:
            lines.append(f"  {name}:")
            lines += [f"    {field}: {text}" for field, text in _first("enabled", fields)]
    if lines[-1] == "spec:":
        lines[-1] = "spec: {}"
    lines += [f"# take out: {_place(key)}" for key in removed]
    return "".join(f"{line}\n" for line in lines)


def _first(name: str, fields: Mapping[str, str]) -> list[tuple[str, str]]:
    return sorted(fields.items(), key=lambda field: (field[0] != name, field[0]))


def _place(key: str) -> str:
    if key in _DYNAMIC:
        return f"spec.dynamicAllocation.{_DYNAMIC[key]}"
    if key in _EXECUTOR:
        return f"spec.executor.{_EXECUTOR[key]}"
    return f"spec.sparkConf {_string(key)}"


def _scalar(key: str, field: str, text: str) -> str:
    """A value as the field of the manifest has it: numbers and switches plain, the rest as strings."""
    if field in _TEXTS or key not in KEYS:
        return _string(text)
    try:
        value = KEYS[key].type.parse(text)
    except ValueError:
        return _string(text)
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int) else _string(text)


def _string(text: str) -> str:
    """A YAML string in double quotes, whatever it looks like."""
    made = quoted(text) if text else '""'
    return made if made.startswith('"') else f'"{made}"'


def _comment(key: str) -> str:
    return _property(key)


def _property(text: str, *, key: bool = False) -> str:
    r"""A key or value as java.util.Properties reads it back."""
    parts = []
    for place, sign in enumerate(text):
        code = ord(sign)
        if sign == "\\" or (key and (sign in "=: \t" or (place == 0 and sign in "#!"))):
            parts.append("\\" + sign if sign != "\t" else "\\t")
        elif 0x20 <= code < 0x7F:
            parts.append(sign)
        elif sign in "\n\r\t\f":
            parts.append({"\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f"}[sign])
        else:
            units = sign.encode("utf-16-be", "surrogatepass")
            parts += [f"\\u{units[at] << 8 | units[at + 1]:04x}" for at in range(0, len(units), 2)]
    made = "".join(parts)
    if not key and made.startswith((" ", "=", ":")):
        made = "\\" + made  # else it would count as what separates it from its key
    return made
