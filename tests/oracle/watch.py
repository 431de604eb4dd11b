"""What every kind of scenario counts: which of its rules the lines and their answers reached."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping
from typing import ClassVar

from tests.oracle.world import Answers, Line


class Watch(ABC):
    """Counts the rules that one scenario reaches."""

    rules: ClassVar[Mapping[str, str]]

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    @abstractmethod
    def see(self, line: Line, answers: Answers) -> None:
        """Count what one line of the scenario reached."""

    def _hit(self, rule: str, when: bool = True) -> None:
        assert rule in self.rules, rule
        if when:
            self.counts[rule] += 1
