"""Exceptions of the JVM as values: what Spark throws, by the name of its class and its message."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

SPARK_EXCEPTION: Final = "org.apache.spark.SparkException"


ASSERTION_ERROR: Final = "java.lang.AssertionError"


ILLEGAL_ARGUMENT: Final = "java.lang.IllegalArgumentException"


@dataclass(frozen=True, slots=True)
class SparkFault:
    """What real Spark would have thrown: the class and its message."""

    exception_class: str
    message: str

    def __str__(self) -> str:
        return f"{self.exception_class}: {self.message}"
