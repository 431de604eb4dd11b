r"""Reading and writing values as the JVM does, because Spark's configuration is text that Java parses.

Every ``parse_*`` function takes what the user wrote and returns the value, or raises ValueError where Spark's
reader throws; what is said about the failure is the caller's business. The rules (spark-common-utils and
spark-config 4.3.0, ``JavaUtils``, ``ConfigHelpers``; java.lang and java.math):

- Java's ``trim`` removes everything up to U+0020 at both ends, and nothing else.
- ints and decimals accept any Unicode digit of the basic plane, doubles and Spark's own suffixes ASCII ones.
- a time is ``-?digits`` and a suffix (us, ms, s, m, min, h, d; the entry's unit without one). No fraction.
  Conversion truncates towards zero and saturates at 64 bits, as TimeUnit does.
- a size is ``digits`` and a suffix (b, k, m, g, t, p, also with i, b or ib); a minus before it negates.
  Conversion truncates; what does not fit 64 bits is refused.

Numbers longer than ``NUMBER_CHARS_MAX`` are refused: no setting needs them, and Python's own conversion is
quadratic in their length.
"""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation
from typing import Final

INT_MAX: Final = 2**31 - 1
INT_MIN: Final = -(2**31)
LONG_MAX: Final = 2**63 - 1
LONG_MIN: Final = -(2**63)
NUMBER_CHARS_MAX: Final = 2_000

TIME_UNITS: Final = {
    "us": 1,
    "ms": 1_000,
    "s": 1_000_000,
    "m": 60_000_000,
    "min": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
}
"""Microseconds of each time suffix."""

BYTE_UNITS: Final[dict[str, int]] = {
    suffix: 1024**power
    for power, letter in enumerate("bkmgtp")
    for suffix in ([letter] if letter == "b" else [letter, letter + "i", letter + "b", letter + "ib"])
}
"""Bytes of each size suffix."""

BLANKS: Final = "".join(map(chr, range(0x21)))
"""What String.trim takes off: every character up to the space."""

_INTEGER: Final = re.compile(r"([+-]?)(\d+)")
_DECIMAL: Final = re.compile(r"([+-]?)(\d*)(?:\.(\d*))?(?:[eE]([+-]?\d{1,10}))?")
_DOUBLE: Final = re.compile(r"([+-]?)(?:(NaN|Infinity)|((?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[fFdD]?)")
_HEX_DOUBLE: Final = re.compile(r"([+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?")
_AMOUNT: Final = re.compile(r"(-?[0-9]+)([a-z]+)?")


def trim(text: str) -> str:
    """String.trim: without blanks and control characters at both ends."""
    return text.strip(BLANKS)


def parse_boolean(text: str) -> bool:
    """``true`` or ``false``, in any case, blanks around it allowed."""
    match trim(text).lower():
        case "true":
            return True
        case "false":
            return False
        case _:
            raise ValueError(text)


def parse_int(text: str) -> int:
    """Integer.parseInt: a sign and digits, within 32 bits. Does not trim."""
    return _integer(text, INT_MIN, INT_MAX)


def parse_long(text: str) -> int:
    """Long.parseLong: a sign and digits, within 64 bits. Does not trim."""
    return _integer(text, LONG_MIN, LONG_MAX)


def _integer(text: str, least: int, most: int) -> int:
    found = _INTEGER.fullmatch(text)
    if not found or len(text) > NUMBER_CHARS_MAX or _beyond_basic_plane(text):
        raise ValueError(text)
    number = int(found[0])
    if not least <= number <= most:
        raise ValueError(text)
    return number


def _beyond_basic_plane(text: str) -> bool:
    # Java looks at UTF-16 units; a digit outside the basic plane is two surrogates and no digit to it.
    return any(sign > "\uffff" for sign in text)


def parse_double(text: str) -> float:
    """Double.parseDouble: decimal or hexadecimal, NaN and Infinity, a suffix f or d; trims."""
    text = trim(text)
    if len(text) > NUMBER_CHARS_MAX:
        raise ValueError(text)
    if found := _DOUBLE.fullmatch(text):
        sign, named, digits = found.groups()
        value = float(named or digits)
        return -value if sign == "-" else value
    if found := _HEX_DOUBLE.fullmatch(text):
        try:
            return float.fromhex(found[1])
        except OverflowError:
            return float("-inf") if text.startswith("-") else float("inf")
    raise ValueError(text)


def parse_decimal(text: str) -> Decimal:
    """``new BigDecimal(String)``: digits with one point and an exponent that fits 32 bits. Does not trim."""
    found = _DECIMAL.fullmatch(text)
    if not found or len(text) > NUMBER_CHARS_MAX or _beyond_basic_plane(text):
        raise ValueError(text)
    _, whole, fraction, exponent = found.groups()
    if not whole and not fraction:
        raise ValueError(text)
    if not INT_MIN < len(fraction or "") - int(exponent or 0) <= INT_MAX:
        raise ValueError(text)
    try:
        return Decimal(text)
    except InvalidOperation as problem:  # an exponent beyond Python's own range
        raise ValueError(text) from problem


def parse_time(text: str, unit: str) -> int:
    """JavaUtils.timeStringAs: whole ``unit`` ("ms", "s", "min") as a 64-bit number; may be negative."""
    found = _AMOUNT.fullmatch(trim(text.lower()))
    if not found:
        raise ValueError(text)
    amount, suffix = _integer(found[1], LONG_MIN, LONG_MAX), found[2]
    if suffix is not None and suffix not in TIME_UNITS:
        raise ValueError(text)
    return convert_time(amount, suffix or unit, unit)


def convert_time(amount: int, source: str, target: str) -> int:
    """TimeUnit.convert: truncates towards zero, saturates at 64 bits."""
    micros = abs(amount) * TIME_UNITS[source]
    converted = micros // TIME_UNITS[target]
    return min(converted, LONG_MAX) if amount >= 0 else max(-converted, LONG_MIN)


def parse_bytes(text: str, unit: str) -> int:
    """ConfigHelpers.byteFromString: whole ``unit`` ("b", "m") as a 64-bit number; negative with a leading minus."""
    sign, rest = (-1, text[1:]) if text.startswith("-") else (1, text)
    return sign * parse_size(rest, unit)


def parse_size(text: str, unit: str) -> int:
    """JavaUtils.byteStringAs: whole ``unit``, never negative."""
    found = _AMOUNT.fullmatch(trim(text.lower()))
    if not found or found[1].startswith("-"):
        raise ValueError(text)
    amount, suffix = _integer(found[1], 0, LONG_MAX), found[2] or unit
    if suffix not in BYTE_UNITS:
        raise ValueError(text)
    converted: int = amount * BYTE_UNITS[suffix] // BYTE_UNITS[unit]
    if converted > LONG_MAX:
        raise ValueError(text)
    return converted


def double_text(value: float) -> str:
    """Double.toString: ``1.0``, ``1.0E10``, ``1.0E-4``, ``NaN``, ``Infinity``."""
    if value != value:  # noqa: PLR0124 - the one value that differs from itself is NaN
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0:
        return "-0.0" if str(value).startswith("-") else "0.0"
    sign = "-" if value < 0 else ""
    _, digits_tuple, exponent = Decimal(repr(abs(value))).as_tuple()
    digits = "".join(map(str, digits_tuple))
    assert isinstance(exponent, int)
    if len(digits.rstrip("0")) == 1:
        # Java looks for the nearest number of at least two digits: 4.9E-324, where one digit (5E-324) would do.
        _, digits_tuple, exponent = Decimal(f"{abs(value):.1e}").as_tuple()
        digits = "".join(map(str, digits_tuple))
        assert isinstance(exponent, int)
    point = len(digits) + exponent  # digits before the decimal point
    digits = digits.rstrip("0")
    if 1e-3 <= abs(value) < 1e7:
        if point <= 0:
            return f"{sign}0.{'0' * -point}{digits}"
        whole, fraction = digits[:point].ljust(point, "0"), digits[point:]
        return f"{sign}{whole}.{fraction or '0'}"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{point - 1}"


def decimal_text(value: Decimal) -> str:
    """How Spark writes a decimal setting: no trailing zeros, plain unless it has more than 100 places."""
    if not value:
        return "0"
    sign, digit_tuple, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    digits = "".join(map(str, digit_tuple))
    kept = digits.rstrip("0")
    exponent += len(digits) - len(kept)
    minus = "-" if sign else ""
    if -100 <= exponent <= 100:
        if exponent >= 0:
            return f"{minus}{kept}{'0' * exponent}"
        padded = kept.rjust(1 - exponent, "0")
        return f"{minus}{padded[:exponent]}.{padded[exponent:]}"
    mantissa = kept[0] + (f".{kept[1:]}" if len(kept) > 1 else "")
    return f"{minus}{mantissa}E{exponent + len(kept) - 1:+d}"


def to_int(value: int) -> int:
    """Long.toInt: the lower 32 bits."""
    return (value - INT_MIN) % 2**32 + INT_MIN


def to_long(value: int) -> int:
    """Arithmetic on Long: the lower 64 bits."""
    return (value - LONG_MIN) % 2**64 + LONG_MIN


def double_to_int(value: float) -> int:
    """Double.toInt: truncated, saturated at 32 bits; NaN is 0."""
    if value != value:  # noqa: PLR0124 - NaN
        return 0
    if value >= INT_MAX:
        return INT_MAX
    return INT_MIN if value <= INT_MIN else int(value)


def string_hash(text: str) -> int:
    """String.hashCode, over UTF-16 units, as a signed 32-bit number."""
    units = text.encode("utf-16-be", "surrogatepass")
    code = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        code = (code * 31 + (high << 8 | low)) & 0xFFFFFFFF
    return to_int(code)
