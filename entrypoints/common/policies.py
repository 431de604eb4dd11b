"""Allocation policies of the user's own: ``--policy CHOICE=MODULE:NAME`` imports a function because the user asks for it."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Any, Final

from podtide.adapters.text.safe import cause, escaped
from podtide.domain.protocol.allocation_policies import SPARK_POLICIES, Batch, Policies, Retired
from podtide.entrypoints.common.app_config import policies_with

SPARK: Final = "spark"
CHOICES: Final = ("retire", "split", "size")
"""Policies that are functions and can be given by name."""

ANSWERS: Final[dict[str, type]] = {"retire": Retired, "size": Batch}


class PolicyError(ValueError):
    """A policy cannot be used; the message is one line that says why and what was expected."""


def given_policies(fixes: tuple[str, ...], given: Sequence[str]) -> Policies:
    """Spark's policies with these fixes and functions. Raises PolicyError, or ValueError for a fix that is none."""
    own, chosen = own_policies(given)
    functions: dict[str, Any] = {
        choice: _guarded(choice, word, own[word]) for choice, word in chosen.items() if word in own
    }
    return replace(policies_with(fixes), **functions)


def _guarded(choice: str, word: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function under its own name; what it raises, or answers that is no answer, is a PolicyError that names it."""

    @wraps(function)
    def guarded(first: Any, *rest: Any) -> Any:
        try:
            found = function(first, *rest)
        except Exception as problem:  # whatever somebody else's function raises
            raise PolicyError(f"--policy {choice}={word}: {type(problem).__name__}: {cause(problem)}") from None
        if choice == "split":
            fits = (
                isinstance(found, Sequence)
                and len(found) == len(first)
                and all(isinstance(share, int) for share in found)
            )
            expected = f"a whole number for each of {len(first)} profiles"
        else:
            fits = isinstance(found, ANSWERS[choice])
            expected = f"a {ANSWERS[choice].__name__}"
        if not fits:
            raise PolicyError(f"--policy {choice}={word} answered {escaped(repr(found), 80)}: expected {expected}")
        return found

    return guarded


def own_policies(given: Sequence[str]) -> tuple[dict[str, Callable[..., Any]], dict[str, str]]:
    """Functions by name, and which is chosen for what. Raises PolicyError."""
    own: dict[str, Callable[..., Any]] = {}
    chosen: dict[str, str] = {}
    for pair in given:
        choice, separator, word = pair.partition("=")
        if not separator or choice not in CHOICES:
            expected = f"CHOICE={SPARK} or CHOICE=MODULE:NAME, CHOICE one of {', '.join(CHOICES)}"
            raise PolicyError(f"--policy {escaped(pair)}: expected {expected}")
        if word == SPARK:
            chosen[choice] = getattr(SPARK_POLICIES, choice).__name__
            continue
        own[word] = _imported(pair, word)
        chosen[choice] = word
    return own, chosen


def _imported(pair: str, word: str) -> Callable[..., Any]:
    """A function of the user's own; modules of the folder where the command runs are found too. Raises PolicyError."""
    module, separator, name = word.partition(":")
    if not (separator and module and name):
        raise PolicyError(f"--policy {escaped(pair)}: {escaped(word)} is no MODULE:NAME")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except Exception as problem:  # whatever somebody else's module raises while it is imported
        raise PolicyError(f"--policy {escaped(pair)}: {type(problem).__name__}: {cause(problem)}") from None
    if not callable(found):
        raise PolicyError(f"--policy {escaped(pair)}: {escaped(word)} cannot be called")
    function: Callable[..., Any] = found
    return function
