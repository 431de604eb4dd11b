"""Kubernetes quantities ("10Gi", "500m", "1e3") read and compared as Spark's client does (fabric8's Quantity).

A quantity is a decimal number and a suffix. The number ends where the first letter of a suffix begins. The suffix is
a binary one (Ki, Mi, Gi, Ti, Pi, Ei), a decimal one (n, u, m, k, M, G, T, P, E), a power of ten ("e3", "E-3"), or
nothing. Values are exact, with one exception that is the client's own: its powers of two carry 16 decimal digits, so
that an exbibyte ("1Ei") is 1152921504606847000 bytes and not ...6976.

What the client throws at is None here: the caller knows what that means where it stands.
"""

from __future__ import annotations

from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from typing import Final

from podtide.domain.jvm.values import NUMBER_CHARS_MAX, parse_decimal, parse_int

_SUFFIX_LETTERS: Final = frozenset("EGKMPTeikmnu")
_MULTIPLES: Final = {
    "": Decimal(1),
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "k": Decimal("1e3"),
    "M": Decimal("1e6"),
    "G": Decimal("1e9"),
    "T": Decimal("1e12"),
    "P": Decimal("1e15"),
    "E": Decimal("1e18"),
    "Ki": Decimal(2**10),
    "Mi": Decimal(2**20),
    "Gi": Decimal(2**30),
    "Ti": Decimal(2**40),
    "Pi": Decimal(2**50),
    "Ei": Decimal(1152921504606847000),  # 2**60 in 16 digits
}
_POWER_MAX: Final = 999_999_999  # BigDecimal.pow

# Wide enough for the product of any number that is read and any multiple: nothing is ever rounded.
_EXACT: Final = Context(prec=NUMBER_CHARS_MAX + 32, Emax=MAX_EMAX, Emin=MIN_EMIN)


def parse_quantity(text: str) -> Decimal | None:
    """The amount of a quantity (of bytes, for storage and memory); None for what the client cannot read."""
    if len(text) > NUMBER_CHARS_MAX:
        return None
    end = next((at for at, sign in enumerate(text) if sign in _SUFFIX_LETTERS), len(text))
    multiple = _multiple(text[end:])
    if multiple is None:
        return None
    try:
        number = parse_decimal(text[:end])
    except ValueError:
        return None
    return _EXACT.multiply(number, multiple)


def compare(left: str, right: str) -> int | None:
    """Quantity.compareTo: -1, 0 or 1; None where one of them cannot be read."""
    one, other = parse_quantity(left), parse_quantity(right)
    if one is None or other is None:
        return None
    return (one > other) - (one < other)


def _multiple(suffix: str) -> Decimal | None:
    """What the number is multiplied by."""
    known = _MULTIPLES.get(suffix)
    if known is not None:
        return known
    # Whatever letter stands first: with a digit in it, the rest is a power of ten.
    try:
        power = parse_int(suffix[1:])
    except ValueError:
        return None
    return Decimal((0, (1,), power)) if abs(power) <= _POWER_MAX else None
