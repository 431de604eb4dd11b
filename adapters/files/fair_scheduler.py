"""Spark's ``fairscheduler.xml`` as a user gives it: the pools of the FAIR scheduler with weights and minimum shares.

An element ``pool`` with a ``name`` holds ``schedulingMode`` (FIFO or FAIR, of the task sets in it), ``weight`` and
``minShare``; each may be left out (FairSchedulableBuilder.buildFairSchedulerPool: FIFO, 1, 0). Where Spark logs a warning
and takes the default, the value is refused here with the line and what was expected: a forecast is to be of the pools that
are meant. Elements outside of pools mean nothing, as in Spark.

The file is not trusted. It is read by expat up to ``SIZE_MAX`` bytes, and a document type is refused: so no entity can be
declared.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final
from xml.parsers import expat

from podtide.adapters.files.bounded_file import FileNotUsable, bytes_of
from podtide.adapters.text.safe import display, escaped
from podtide.domain.jvm.values import parse_int
from podtide.domain.scheduler.rules import FairPool

SIZE_MAX: Final = 1 << 20
"""Bytes of a file; a pool has a hundred."""

_POOL: Final = "pool"
_MODE: Final = "schedulingMode"
_WEIGHT: Final = "weight"
_SHARE: Final = "minShare"
_VALUES: Final = (_MODE, _WEIGHT, _SHARE)


class FairSchedulerError(Exception):
    """A file that cannot be used; one line that names it, the line and what was expected."""


def read_pools(path: Path) -> dict[str, FairPool]:
    """The pools of a file, by name. Raises FairSchedulerError."""
    name = display(str(path))
    what = "a fairscheduler.xml"
    try:
        data = bytes_of(path, what, SIZE_MAX, f"cannot be read: {{why}}; expected {what}")
    except FileNotUsable as fault:
        raise FairSchedulerError(fault.of(name)) from None
    reading = _Reading()
    try:
        reading.parser.Parse(data, True)
    except expat.ExpatError as fault:
        line, why = fault.lineno, expat.errors.messages.get(fault.code, "not well-formed")
        raise FairSchedulerError(f"{name}:{line}: {escaped(why)}: expected XML") from None
    except _BadValue as fault:
        raise FairSchedulerError(f"{name}:{fault.line}: {fault}") from None
    if not reading.pools:
        raise FairSchedulerError(f'{name}: no pool in it: expected elements such as <pool name="production">')
    return reading.pools


class _BadValue(Exception):
    def __init__(self, line: int, why: str) -> None:
        super().__init__(why)
        self.line = line


class _Reading:
    """A file while it is read. ``pools``: those that are complete."""

    def __init__(self) -> None:
        self.pools: dict[str, FairPool] = {}
        self.parser = expat.ParserCreate()
        self.parser.StartElementHandler = self._begin
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._text
        self.parser.StartDoctypeDeclHandler = self._doctype
        self._name: str | None = None  # of the pool that is open
        self._values: dict[str, str] = {}
        self._key: str | None = None  # the value that is open, where it began, and its text so far
        self._line = 0
        self._pieces: list[str] = []

    def _refuse(self, why: str, line: int | None = None) -> _BadValue:
        return _BadValue(self.parser.CurrentLineNumber if line is None else line, why)

    def _doctype(self, *_: object) -> None:
        raise self._refuse("a document type: expected none")

    def _begin(self, element: str, attributes: dict[str, str]) -> None:
        if self._name is None:
            if element == _POOL:
                name = attributes.get("name", "")
                if not name:
                    raise self._refuse("a pool without a name: expected <pool name=...>")
                if name in self.pools:
                    raise self._refuse(f"pool {escaped(name, 60)}: expected once")
                self._name, self._values = name, {}
        elif self._key is not None or element not in _VALUES:
            raise self._refuse(
                f"pool {escaped(self._name, 60)}: element {escaped(element, 60)}: expected {', '.join(_VALUES)}"
            )
        elif element in self._values:
            raise self._refuse(f"pool {escaped(self._name, 60)}: {element}: expected once")
        else:
            self._key, self._line = element, self.parser.CurrentLineNumber
            self._pieces = []

    def _text(self, text: str) -> None:
        if self._key is not None:
            self._pieces.append(text)
        elif self._name is not None and not text.isspace():
            raise self._refuse(f"pool {escaped(self._name, 60)}: {escaped(text, 60)!r}: expected {', '.join(_VALUES)}")

    def _end(self, element: str) -> None:
        if self._key is not None:
            self._check(self._key, "".join(self._pieces).strip())
            self._key = None
        elif self._name is not None and element == _POOL:
            values = self._values
            self.pools[self._name] = FairPool(
                int(values.get(_WEIGHT, "1")),
                int(values.get(_SHARE, "0")),
                values.get(_MODE, "").upper() == "FAIR",
            )
            self._name = None

    def _check(self, key: str, text: str) -> None:
        assert self._name is not None
        if key == _MODE:
            good, expected = text.upper() in ("FAIR", "FIFO"), "FIFO or FAIR"
        else:
            least = 1 if key == _WEIGHT else 0
            good, expected = _is_number(text, least), f"a whole number, {least} or more"
        if not good:
            shown = escaped(text, 60)
            raise self._refuse(f"pool {escaped(self._name, 60)}: {key} = {shown!r}: expected {expected}", self._line)
        self._values[key] = text


def _is_number(text: str, least: int) -> bool:
    """Whether Scala's toInt reads it, as a number that means something."""
    try:
        return parse_int(text) >= least
    except ValueError:
        return False
