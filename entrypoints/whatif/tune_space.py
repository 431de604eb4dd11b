r"""The space of a search as a user changes it: ``--space``, any number of times, each over what came before.

- ``KEY=V1,V2,...``: these values of a setting, in the place of those that the application would get by itself. ``unset`` is
  the setting without a value; a comma inside a value is written ``\,``.
- ``KEY=keep``: leave the setting as it ran.
- ``static=4,8,16`` and ``static=none``: the static counts to compare with.
- ``none``: forget everything that the application would get by itself.
- anything else names a YAML file of the same: a mapping of settings to lists of values (null unsets), to one value, or to
  ``keep``; ``static`` to a list of counts or ``none``; ``defaults: false`` for ``none``.

Keys have to be known to executor allocation and every value readable as Spark would read it. A setting whose values Spark
redacts cannot be searched: they would stand in the answer.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from podtide.adapters.files import yaml_reader as yaml_nodes
from podtide.adapters.text.safe import cause, display, escaped
from podtide.domain.conf.entries import KEYS
from podtide.domain.conf.redaction import REDACTED, Redaction, redaction_of
from podtide.domain.rerun.plan import EXECUTORS_MAX
from podtide.domain.whatif.search.space import AXES_MAX, VALUES_MAX, Axis, Space, in_order, refusal
from podtide.entrypoints.whatif.variants import split

NONE: Final = "none"
KEEP: Final = "keep"
UNSET: Final = "unset"
STATIC: Final = "static"
DEFAULTS: Final = "defaults"

_COUNT: Final = re.compile(r"[0-9]{1,7}")


class SpaceError(ValueError):
    """A space that cannot be understood; one line that names the place and what was expected."""


class Edit(NamedTuple):
    """One change of the space. ``key``: a setting, ``static``, or "" for everything; ``values``: None keeps it."""

    where: str
    key: str
    values: tuple[str | None, ...] | None


def edits_of(texts: Iterable[str]) -> tuple[Edit, ...]:
    """What ``--space`` says, in its order. Raises SpaceError."""
    found: list[Edit] = []
    for text in texts:
        if text.strip() == NONE:
            found.append(Edit("--space", "", None))
        elif "=" in text and not os.path.isfile(text):  # noqa: PTH113 - unlike Path's, it takes any text for no file
            found.append(_pair(text))
        else:
            found.extend(_file(Path(text)))
    return tuple(found)


def edited(space: Space, edits: Sequence[Edit]) -> Space:
    """The space with the edits, its redacted settings left out. Raises SpaceError."""
    redactions = [redaction_of(conf) for conf in space.confs]
    axes = {axis.key: axis for axis in space.axes if not _secret(axis, redactions)}
    statics = space.statics
    for edit in edits:
        if not edit.key:
            axes, statics = {}, ()
        elif edit.key == STATIC:
            statics = tuple(sorted({int(value) for value in edit.values or () if value is not None}))
        elif edit.values is None:
            axes.pop(edit.key, None)
        else:
            axis = Axis(edit.key, in_order(edit.key, edit.values))
            _check(edit, axis, space)
            if _secret(axis, redactions):
                raise SpaceError(f"{edit.where}: {escaped(edit.key)}: a setting that is not redacted was expected")
            axes[edit.key] = axis
    if len(axes) > AXES_MAX:
        raise SpaceError(f"--space: {len(axes)} settings: expected at most {AXES_MAX}")
    if not axes and not statics:
        raise SpaceError("--space: nothing is left to try: expected a setting with values, or static counts")
    return replace(space, axes=tuple(axes.values()), statics=statics)


def _check(edit: Edit, axis: Axis, space: Space) -> None:
    if axis.key not in KEYS:
        expected = "a setting that executor allocation knows, static, or none"
        raise SpaceError(f"{edit.where}: {escaped(axis.key, 100)}: expected {expected}")
    if not 1 <= len(axis.values) <= VALUES_MAX:
        count = f"1 to {VALUES_MAX} values"
        raise SpaceError(f"{edit.where}: {axis.key}: {len(axis.values)} values: expected {count}, or keep")
    for value in axis.values:
        wanted = None if value is None else refusal(axis.key, value, space.confs[0].version)
        if value is not None and wanted is not None:
            raise SpaceError(f"{edit.where}: {axis.key} = {escaped(value, 100)!r}: expected {wanted}")


def _secret(axis: Axis, redactions: Sequence[Redaction]) -> bool:
    values = [value for value in axis.values if value is not None]
    return any(each.shown(axis.key, value) == REDACTED for each in redactions for value in values)


def _pair(text: str) -> Edit:
    key, _, rest = text.partition("=")
    key, values = key.strip(), split(rest)
    if not key or not values:
        shape = "KEY=V1,V2 such as spark.dynamicAllocation.maxExecutors=8,16, or a file"
        raise SpaceError(f"--space {escaped(text, 100)!r}: expected {shape}")
    return _edit("--space", key, values)


def _edit(where: str, key: str, values: Sequence[str | None]) -> Edit:
    if key == STATIC:
        if list(values) == [NONE]:
            return Edit(where, STATIC, ())
        for value in values:
            if value is None or _COUNT.fullmatch(value) is None or not 1 <= int(value) <= EXECUTORS_MAX:
                shown = escaped("null" if value is None else value, 60)
                raise SpaceError(f"{where}: static {shown!r}: expected counts from 1 to {EXECUTORS_MAX:,}, or none")
        if len(values) > VALUES_MAX:
            raise SpaceError(f"{where}: static: {len(values)} counts: expected at most {VALUES_MAX}")
        return Edit(where, STATIC, tuple(values))
    if list(values) == [KEEP]:
        if key not in KEYS:
            raise SpaceError(f"{where}: {escaped(key, 100)}: expected a setting that executor allocation knows")
        return Edit(where, key, None)
    return Edit(where, key, tuple(None if value == UNSET else value for value in values))


def _file(path: Path) -> list[Edit]:
    name = display(str(path))
    try:
        with path.open("rb") as file:
            data = file.read(yaml_nodes.SIZE_MAX * 4 + 1)
    except (OSError, ValueError) as fault:
        hint = "a YAML file, KEY=V1,V2, or none"
        raise SpaceError(f"--space {name}: cannot be read: {cause(fault)}; expected {hint}") from None
    try:
        root = yaml_nodes.parse(data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise SpaceError(f"{name}: not UTF-8: expected a YAML file of settings and values") from None
    except yaml_nodes.YamlError as fault:
        raise SpaceError(f"{name}:{fault.line}: {escaped(fault.why)}") from None
    if root is None:
        return []
    if not isinstance(root, yaml_nodes.Mapping):
        raise SpaceError(f"{name}:{root.line}: expected a mapping of settings to lists of values")
    found: list[Edit] = []
    for key, (line, node) in root.items.items():
        where = f"{name}:{line}"
        if key == DEFAULTS:
            if not isinstance(node, yaml_nodes.Scalar) or node.text not in ("true", "false"):
                raise SpaceError(f"{where}: defaults: expected true or false")
            if node.text == "false":
                found.insert(0, Edit(where, "", None))
            continue
        found.append(_edit(where, key, _values(where, key, node)))
    return found


def _values(where: str, key: str, node: yaml_nodes.Node) -> list[str | None]:
    items = node.items if isinstance(node, yaml_nodes.Sequence) else [node]
    values: list[str | None] = []
    for item in items[: VALUES_MAX + 1]:
        if not isinstance(item, yaml_nodes.Scalar):
            raise SpaceError(f"{where}: {escaped(key, 100)}: expected a list of values, or keep")
        values.append(None if item.null else item.text)
    if not values:
        raise SpaceError(f"{where}: {escaped(key, 100)}: expected at least one value, or keep")
    return values
