"""Waiting for a condition, by asking: no test sleeps for as long as somebody guessed."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def until(found: Callable[[], T], timeout_s: float = 15.0, what: str = "the condition", every_s: float = 0.05) -> T:
    """Ask until the answer is true and return it; fails after ``timeout_s`` seconds, with the last answer."""
    end = time.monotonic() + timeout_s
    while not (answer := found()):
        if time.monotonic() > end:
            raise AssertionError(f"{what} was not reached within {timeout_s:g} s; last: {str(answer)[:500]}")
        time.sleep(every_s)
    return answer
