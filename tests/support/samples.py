"""The two-sample Kolmogorov-Smirnov test."""

from __future__ import annotations

from collections.abc import Sequence
from math import comb


def indistinguishable(one: Sequence[float], other: Sequence[float]) -> float:
    """The probability that two samples of one distribution are at least as far apart as these (the exact p-value).

    The distance is the largest between the two empirical distributions. Of all orders in which the values can come, each
    a path over a grid, those are counted that never are as far apart; ties make the value larger, never smaller.
    """
    first, second = len(one), len(other)
    places = sorted({*one, *other})
    # As whole numbers: the share of one less the share of the other, times the sizes of both.
    distance = max(abs(sum(v <= x for v in one) * second - sum(v <= x for v in other) * first) for x in places)
    paths = [0] * (second + 1)
    for i in range(first + 1):
        for j in range(second + 1):
            if abs(i * second - j * first) >= distance:
                paths[j] = 0
            elif i or j:
                paths[j] = (paths[j] if i else 0) + (paths[j - 1] if j else 0)
            else:
                paths[j] = 1
    return 1 - paths[second] / comb(first + second, first)
