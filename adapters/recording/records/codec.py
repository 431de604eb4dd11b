"""Values of the domain as plain JSON data and back, derived from their types.

The records of the domain (named tuples and frozen dataclasses) are the vocabulary of every format here; a second list of
their fields, written by hand, could only disagree with the first. So a ``Record`` reads the annotations of a class once
and makes of them: a function to plain data, a strict msgspec type by which text is checked while it is decoded, and a
function back. What the formats look like is pinned by the JSON Schemas in docs/schema and by the tests that hold both
against each other, so that a change of a domain class is a visible change of a format.

The rules of the derived form:

- a record is an object; its keys are the names of the fields, renamed where the formats have a word of their own
  (``at`` is ``at_ms``; a ``Why`` is ``cause`` and ``facts`` in the object itself);
- a field that has its default value is left out, and so is None where a field without a default allows it;
- tuples are lists, enumerations their values, mappings objects;
- a double that JSON has no word for is the text "NaN", "Infinity" or "-Infinity", as Spark's JSON spells it.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from functools import cache, reduce
from math import isfinite
from operator import or_
from typing import (
    Any,
    Final,
    Literal,
    NamedTuple,
    NewType,
    TypeAlias,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

import msgspec
from msgspec import UNSET, Struct, UnsetType
from pyrsistent import pmap

from podtide.domain.protocol.reasons import Cause, Fact, Why

Plain: TypeAlias = dict[str, Any]
"""An object of JSON: text, numbers, booleans, null, lists and objects, nothing else."""

Double: TypeAlias = float | Literal["NaN", "Infinity", "-Infinity"]


class SpelledDouble(Struct, frozen=True, forbid_unknown_fields=True):
    """A fact that is a double without a word in JSON: an object, because the text alone could be a fact of its own."""

    double: Literal["NaN", "Infinity", "-Infinity"]


FactsWire: TypeAlias = dict[str, int | float | str | SpelledDouble | None]


class Form(NamedTuple):
    """How values of one annotation are written: the type to decode, and the ways there and back (None: as it is)."""

    wire: Any
    plain: Callable[[Any], Any] | None = None
    value: Callable[[Any], Any] | None = None


class RecordField(NamedTuple):
    """One field of a record: its name, its key, its default (``UNSET``: none), and its form."""

    name: str
    key: str
    default: Any
    form: Form


_AS_IT_IS: Final = frozenset({int, str, bool, type(None)})


class Record:
    """The plain form of one class of the domain.

    ``tag``: a key and a word that tell the class, where several may stand in one place. ``names``: keys that differ from
    the fields' names. ``optional``: fields that the wire may lack although they have no default; who decodes gives them.
    ``forms``: forms of annotations that are not to be derived. ``extra``: further keys of the wire, with their types.
    """

    __slots__ = ("_fields", "_implied", "_why", "kind", "tag", "wire")

    def __init__(
        self,
        kind: type,
        *,
        tag: tuple[str, str] | None = None,
        names: Mapping[str, str] | None = None,
        optional: frozenset[str] = frozenset(),
        forms: Mapping[Any, Form] | None = None,
        extra: tuple[tuple[str, Any], ...] = (),
    ) -> None:
        self.kind = kind
        self.tag = tag
        hints = get_type_hints(kind)
        defaults = _defaults(kind)
        names = {"at": "at_ms", **(names or {})}
        self._why = hints.pop("why", None) is Why
        self._fields = tuple(
            RecordField(
                name, names.get(name, name), _default(hint, defaults.get(name, UNSET)), _form(hint, forms or {})
            )
            for name, hint in hints.items()
        )
        self._implied = {
            field.name: None for field in self._fields if field.default is None and field.name not in defaults
        }
        columns: list[tuple[str, Any, Any]] = [
            (field.key, field.form.wire | UnsetType, UNSET)
            if field.default is not UNSET or field.name in optional
            else (field.key, field.form.wire, msgspec.NODEFAULT)
            for field in self._fields
        ]
        if self._why:
            columns += [("cause", Cause, msgspec.NODEFAULT), ("facts", FactsWire | UnsetType, UNSET)]
        columns += [(key, form | UnsetType, UNSET) for key, form in extra]
        self.wire = msgspec.defstruct(
            kind.__name__,
            columns,
            frozen=True,
            kw_only=True,
            forbid_unknown_fields=True,
            tag_field=tag[0] if tag else None,
            tag=tag[1] if tag else None,
        )

    def plain(self, value: Any) -> Plain:
        """The value as plain data; facts as they are (see ``spelled_facts``)."""
        plain: Plain = {self.tag[0]: self.tag[1]} if self.tag else {}
        for name, key, default, form in self._fields:
            found = getattr(value, name)
            if default is UNSET or found != default:
                plain[key] = form.plain(found) if form.plain and found is not None else found
        if self._why:
            plain["cause"] = value.why.cause.value
            plain["facts"] = dict(sorted(value.why.facts.items()))
        return plain

    def parts(self, before: Any, after: Any) -> Plain:
        """What of ``after`` differs from ``before``, field by field; a field that fell back to its default included."""
        plain: Plain = {}
        for name, key, _, form in self._fields:
            found = getattr(after, name)
            if found != getattr(before, name):
                plain[key] = form.plain(found) if form.plain and found is not None else found
        return plain

    def given(self, wire: Any) -> dict[str, Any]:
        """The fields that the decoded text names, as values of the domain."""
        values = {}
        for name, key, _, form in self._fields:
            found = getattr(wire, key)
            if found is not UNSET:
                values[name] = form.value(found) if form.value and found is not None else found
        if self._why:
            values["why"] = why_of(wire.cause, wire.facts)
        return values

    def value(self, wire: Any, **known: Any) -> Any:
        """The value that the decoded text stands for; ``known``: fields that it may lack."""
        return self.kind(**{**self._implied, **known, **self.given(wire)})

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of the plain form, in order."""
        why = ("cause", "facts") if self._why else ()
        return (*([self.tag[0]] if self.tag else []), *(field.key for field in self._fields), *why)


def why_of(cause: Cause, facts: FactsWire | UnsetType) -> Why:
    """A cause and its decoded facts."""
    return Why(cause, facts_of(facts))


def facts_of(facts: FactsWire | UnsetType) -> Mapping[str, Fact]:
    """Decoded facts."""
    if isinstance(facts, UnsetType):
        return pmap()
    return pmap({k: float(v.double) if isinstance(v, SpelledDouble) else v for k, v in facts.items()})


def spelled_facts(facts: Mapping[str, Fact]) -> Plain:
    """Facts such that JSON loses nothing of them: doubles without a word spelled, booleans as the numbers they are."""
    return {
        name: {"double": _spelled(fact)}
        if isinstance(fact, float) and not isfinite(fact)
        else (int(fact) if isinstance(fact, bool) else fact)
        for name, fact in sorted(facts.items())
    }


def one_of(forms: Iterable[Any]) -> Any:
    """The union of types that are known only now."""
    return reduce(or_, forms)


def _spelled(number: float) -> float | str:
    if isfinite(number):
        return number
    return "NaN" if number != number else ("Infinity" if number > 0 else "-Infinity")  # noqa: PLR0124 - NaN


def _defaults(kind: type) -> dict[str, Any]:
    if dataclasses.is_dataclass(kind):
        found: dict[str, Any] = {}
        for field in dataclasses.fields(kind):
            if field.default is not dataclasses.MISSING:
                found[field.name] = field.default
            elif field.default_factory is not dataclasses.MISSING:
                found[field.name] = field.default_factory()
        return found
    return dict(kind._field_defaults)  # type: ignore[attr-defined]


def _default(hint: Any, default: Any) -> Any:
    """The declared default; None for a field that may be None and declares nothing."""
    return None if default is UNSET and type(None) in get_args(hint) else default


def _form(hint: Any, forms: Mapping[Any, Form]) -> Form:  # one branch for each kind of annotation
    if hint in forms:
        return forms[hint]
    if isinstance(hint, NewType):
        return _form(hint.__supertype__, forms)
    if hint in _AS_IT_IS or get_origin(hint) is Literal:
        return Form(hint)
    if hint is float:
        return Form(Double, _spelled, float)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return Form(hint, lambda value: value.value)
    if _is_record(hint):
        return _record_form(hint)
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is tuple:
        return _tuple_form(arguments, forms)
    if origin in (Union, types.UnionType):
        return _union_form(arguments, forms)
    if origin is Mapping and arguments[0] is str:
        if set(get_args(arguments[1])) == set(get_args(Fact)):
            return Form(FactsWire, lambda facts: dict(sorted(facts.items())), facts_of)
        return Form(dict.__class_getitem__((str, _form(arguments[1], forms).wire)), dict)
    raise TypeError(f"no plain form for {hint!r}")


def _is_record(hint: Any) -> bool:
    if not isinstance(hint, type) or is_typeddict(hint):
        return False
    return dataclasses.is_dataclass(hint) or (issubclass(hint, tuple) and hasattr(hint, "_fields"))


def _record_form(kind: type, tag: tuple[str, str] | None = None) -> Form:
    record = _nested(kind, tag)
    return Form(record.wire, record.plain, record.value)


@cache
def _nested(kind: type, tag: tuple[str, str] | None) -> Record:
    return Record(kind, tag=tag, names={"added_at": "added_at_ms"})


def _tuple_form(arguments: tuple[Any, ...], forms: Mapping[Any, Form]) -> Form:
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        item = _form(arguments[0], forms)
        plain, value = item.plain, item.value
        return Form(
            list[item.wire],  # type: ignore[name-defined]
            list if plain is None else lambda items: [plain(one) for one in items],
            tuple if value is None else lambda items: tuple(value(one) for one in items),
        )
    each = [_form(argument, forms) for argument in arguments]
    return Form(
        tuple.__class_getitem__(tuple(form.wire for form in each)),
        lambda items: [form.plain(one) if form.plain else one for form, one in zip(each, items, strict=True)],
        lambda items: tuple(form.value(one) if form.value else one for form, one in zip(each, items, strict=True)),
    )


def _union_form(arguments: tuple[Any, ...], forms: Mapping[Any, Form]) -> Form:
    """One kind or None; or several kinds of records, told apart by ``kind``; or tuples of texts or numbers, or a scalar."""
    present = [one for one in arguments if one is not type(None)]
    nothing: Any = None if type(None) in arguments else ...
    if len(present) == 1:
        only = _form(present[0], forms)
        wire = only.wire
        return Form(wire if nothing is ... else wire | None, only.plain, only.value)
    if all(map(_is_record, present)):
        records = {one: _nested(one, ("kind", one.__name__)) for one in present}
        by_wire = {record.wire: record for record in records.values()}
        wires = [record.wire for record in records.values()]
        return Form(
            one_of(wires if nothing is ... else [*wires, None]),
            lambda value: records[type(value)].plain(value),
            lambda value: by_wire[type(value)].value(value),
        )
    return _mixed_form(present, nothing)


def _mixed_form(present: list[Any], nothing: Any) -> Form:
    tuples = [one for one in present if get_origin(one) is tuple]
    items = [_form(get_args(one)[0], {}).wire for one in tuples]
    wires = [_form(one, {}).wire for one in present if one not in tuples]
    if tuples:
        wires.append(list[one_of(items)])  # type: ignore[misc]
    if nothing is None:
        wires.append(None)

    def value(found: Any) -> Any:
        if isinstance(found, list):
            if len(set(map(type, found))) > 1:
                raise ValueError("a list of numbers or of texts was expected, not of both")
            return tuple(found)
        return found

    return Form(one_of(wires), lambda found: list(found) if isinstance(found, tuple) else found, value)
