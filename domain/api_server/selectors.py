"""Label and field selectors: parsed as apimachinery's labels.Parse and fields.ParseSelector, with their messages.

A label selector is a list of requirements that all have to hold. ``notin`` and ``!=`` hold where the label is missing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from podtide.domain.api_server.json_values import Json, JsonPath, at, text_at
from podtide.domain.api_server.kinds import ApiKind
from podtide.domain.api_server.statuses import bad_request

_TOKEN: Final = re.compile(r"\s*(==|!=|[=!<>(),]|[^\s=!<>(),]+)")
_NUMBER: Final = re.compile(r"-?[0-9]{1,18}")
_LABELS: Final = ("metadata", "labels")


class LabelRequirement(NamedTuple):
    """``operator``: in (``=`` too), notin (``!=`` too), exists, ``!``, ``<``, ``>``."""

    key: str
    operator: str
    values: frozenset[str]

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Whether labels satisfy this."""
        value = labels.get(self.key)
        match self.operator:
            case "in":
                return value is not None and value in self.values
            case "notin":
                return value is None or value not in self.values
            case "exists":
                return value is not None
            case "!":
                return value is None
        if value is None or not _NUMBER.fullmatch(value):
            return False
        bound = int(next(iter(self.values)))
        return int(value) > bound if self.operator == ">" else int(value) < bound


class FieldRequirement(NamedTuple):
    """The text at ``path`` is ``value``, or is not."""

    path: JsonPath
    equal: bool
    value: str


class Selection(NamedTuple):
    """What a list, watch or collection delete is about."""

    labels: tuple[LabelRequirement, ...] = ()
    fields: tuple[FieldRequirement, ...] = ()

    def matches(self, item: Json) -> bool:
        """Whether an object is selected."""
        labels = at(item, _LABELS) or {}
        return all(need.holds(labels) for need in self.labels) and all(
            (text_at(item, need.path) == need.value) == need.equal for need in self.fields
        )


def selection(kind: ApiKind, label_selector: str, field_selector: str) -> Selection:
    """Both selectors of a request; raises a refusal where one cannot be read."""
    return Selection(tuple(_labels(label_selector)), tuple(_fields(kind, field_selector)))


_OPERATORS: Final = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}


def label_selection(selector: Json) -> Selection:
    """A LabelSelector of an object: what it selects; nothing that it says is left out."""
    labels = at(selector, ("matchLabels",)) or {}
    needs = [LabelRequirement(key, "in", frozenset({value})) for key, value in labels.items()]
    needs += [
        LabelRequirement(one["key"], _OPERATORS[one["operator"]], frozenset(one.get("values") or ()))
        for one in at(selector, ("matchExpressions",)) or ()
    ]
    return Selection(tuple(needs))


def selector_text(selector: Json) -> str:
    """A LabelSelector of an object as a label selector of a query, as metav1.FormatLabelSelector writes it."""
    terms = []
    for need in sorted(label_selection(selector).labels, key=lambda need: need.key):
        values = ",".join(sorted(need.values))
        match need.operator:
            case "in" if need.key in (at(selector, ("matchLabels",)) or {}):
                terms.append(f"{need.key}={values}")
            case "exists":
                terms.append(need.key)
            case "!":
                terms.append(f"!{need.key}")
            case _:
                terms.append(f"{need.key} {need.operator} ({values})")
    return ",".join(terms)


def _labels(text: str) -> Iterable[LabelRequirement]:
    words = _TOKEN.findall(text)
    words.append("")
    place = 0
    while words[place]:
        requirement, place = _requirement(words, place)
        yield requirement
        if not words[place]:
            return
        if words[place] != ",":
            raise bad_request(f"found '{words[place]}', expected: ',' or 'end of string'")
        place += 1
        if not words[place]:
            raise bad_request("found '', expected: identifier after ','")


def _requirement(words: list[str], place: int) -> tuple[LabelRequirement, int]:
    key = words[place]
    if key == "!":
        return LabelRequirement(_word(words, place + 1), "!", frozenset()), place + 2
    _word(words, place)
    sign = words[place + 1]
    match sign:
        case "" | ",":
            return LabelRequirement(key, "exists", frozenset()), place + 1
        case "=" | "==" | "!=":
            value = words[place + 2]
            operator = "notin" if sign == "!=" else "in"
            if value in {"", ","}:
                return LabelRequirement(key, operator, frozenset({""})), place + 2
            return LabelRequirement(key, operator, frozenset({_word(words, place + 2)})), place + 3
        case "<" | ">":
            bound = _word(words, place + 2)
            if not _NUMBER.fullmatch(bound):
                raise bad_request("unable to parse requirement: for 'Gt', 'Lt' operators, the value must be an integer")
            return LabelRequirement(key, sign, frozenset({bound})), place + 3
        case "in" | "notin":
            values, after = _values(words, place + 2)
            return LabelRequirement(key, sign, values), after
    raise bad_request(f"unable to parse requirement: found '{sign}', expected: '=', '!=', '==', 'in', notin'")


def _values(words: list[str], place: int) -> tuple[frozenset[str], int]:
    if words[place] != "(":
        raise bad_request(f"unable to parse requirement: found '{words[place]}' expected: '('")
    values, place = [], place + 1
    if not words[place]:
        raise bad_request("unable to parse requirement: found '', expected: ',', ')' or identifier")
    while words[place] != ")":
        if words[place] == ",":
            values.append("")
        else:
            values.append(_word(words, place))
            place += 1
        if words[place] not in {",", ")"}:
            raise bad_request(f"unable to parse requirement: found '{words[place]}', expected: ',' or ')'")
        place += words[place] == ","
    return frozenset(values or [""]), place + 1


def _word(words: list[str], place: int) -> str:
    word = words[place]
    if not word or word in "==!=<>(),":
        raise bad_request(f"unable to parse requirement: found '{word}', expected: identifier")
    return word


def _fields(kind: ApiKind, text: str) -> Iterable[FieldRequirement]:
    for term in re.split(r"(?<!\\),", text):
        if not term:
            continue
        parts = re.match(r"((?:[^\\=!]|\\.)*)(==|!=|=)(.*)", term, re.DOTALL)
        if parts is None:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{term}'")
        name, sign, value = parts.groups()
        path = kind.selectors.get(name)
        if path is None:
            raise bad_request(f"field label not supported: {name}")
        yield FieldRequirement(path, sign != "!=", re.sub(r"\\(.)", r"\1", value))
