"""Exceptions of the JVM as values: what Spark throws, by the name of its class and its message."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

SPARK_EXCEPTION: Final = "org.apache.spark.SparkException"
ASSERTION_ERROR: Final = "java.lang.AssertionError"
ILLEGAL_ARGUMENT: Final = "java.lang.IllegalArgumentException"
SPARK_ILLEGAL_ARGUMENT: Final = "org.apache.spark.SparkIllegalArgumentException"
NUMBER_FORMAT: Final = "java.lang.NumberFormatException"
NULL_POINTER: Final = "java.lang.NullPointerException"
NO_SUCH_ELEMENT: Final = "java.util.NoSuchElementException"
REJECTED_EXECUTION: Final = "java.util.concurrent.RejectedExecutionException"
"""What a pool of threads throws that is shut down."""


@dataclass(frozen=True, slots=True)
class SparkFault:
    """What real Spark would have thrown: the class and its message."""

    exception_class: str
    message: str

    def __str__(self) -> str:
        return f"{self.exception_class}: {self.message}"


def illegal(message: str) -> SparkFault:
    """An IllegalArgumentException."""
    return SparkFault(ILLEGAL_ARGUMENT, message)
