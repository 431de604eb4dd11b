"""A line of Spark's log: what the words of every machine (``words_*``) produce."""

from __future__ import annotations

from typing import Literal, NamedTuple

Level = Literal["DEBUG", "INFO", "WARN", "ERROR"]


class SparkLine(NamedTuple):
    """One line as Spark's own logger would say it. ``logger``: the short class name; ``text``: without a newline."""

    level: Level
    logger: str
    text: str
