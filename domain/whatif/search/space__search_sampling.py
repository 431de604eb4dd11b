"""Points spread evenly over a grid that is too large to be walked.

An additive recurrence in as many dimensions as the grid has axes: the n-th point is (offset + n * alpha) modulo 1 in each,
with alpha the negative powers of the root of x**(d + 1) = x + 1 (Roberts' generalisation of the golden ratio). Such points
leave gaps and clusters far smaller than random ones, every beginning of the sequence is as even as the whole, and it takes
nothing but multiplication. The offsets come from a seed. A coordinate chooses the value of its axis.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Final

from podtide.domain.base.randomness import stream, unit
from podtide.domain.whatif.search.space import Place, Space

NEWTON_STEPS: Final = 64


def spread_out(space: Space, seed: int) -> Iterator[Place]:
    """Points without end, evenly spread; they repeat when the grid is small."""
    offsets, state = [], stream(seed)
    for _ in space.axes:
        offset, state = unit(state)
        offsets.append(offset)
    steps = _steps(len(space.axes))
    for number in count():
        yield tuple(
            int(((offset + number * step) % 1.0) * len(axis.values))
            for offset, step, axis in zip(offsets, steps, space.axes, strict=True)
        )


def _steps(dimensions: int) -> list[float]:
    """The negative powers of the root of x**(d + 1) = x + 1, by Newton's method from above."""
    root = 2.0
    for _ in range(NEWTON_STEPS):
        power = 1.0
        for _ in range(dimensions):
            power *= root
        root -= (power * root - root - 1.0) / ((dimensions + 1) * power - 1.0)
    steps, step = [], 1.0
    for _ in range(dimensions):
        step /= root
        steps.append(step)
    return steps
