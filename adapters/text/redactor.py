"""Secrets hidden in what people and machines read: texts, commands, records; by the rules of ``domain.conf.redaction``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from podtide.domain.conf.redaction import REDACTED, Redaction
from podtide.domain.protocol.application import Command
from podtide.domain.protocol.pod_commands import MarkPods
from podtide.domain.protocol.reasons import Fact


class Redactor:
    """Hides secrets in texts, commands and records as ``redaction`` says; without one, what Spark hides by default.

    Spark redacts configuration, where any value may be a secret. Records of decisions hold none of it but numbers, and the
    labels and annotations that the configuration names. So a text is hidden for its key (``spark.redaction.regex``), and
    what ``spark.redaction.string.regex`` finds is hidden inside every text, as are credentials. A number is shown under any
    name: an error that names the resource ``secrets`` must stay readable, or nobody could correct it.
    """

    def __init__(self, redaction: Redaction | None = None) -> None:
        redaction = redaction or Redaction()
        self._keys = Redaction(redaction.pattern)
        self._texts = redaction

    def text(self, text: str) -> str:
        """A text without what must not be in it."""
        return self._texts.text(text)

    def value(self, key: str, value: Fact) -> Fact:
        """A value under a key."""
        if not isinstance(value, str):
            return value
        return REDACTED if self._keys.shown(key, "") == REDACTED else self.text(value)

    def command(self, command: Command) -> Command:
        """The command without secrets: the value of a label or annotation is under a key of the user's."""
        if isinstance(command, MarkPods):
            return replace(command, value=str(self.value(command.key, command.value)))
        return command

    def record(self, value: Any) -> Any:
        """A record of plain data, however deep, without secrets."""
        if isinstance(value, Mapping):
            return {
                key: self.value(str(key), one) if isinstance(one, str) else self.record(one)
                for key, one in value.items()
            }
        if isinstance(value, str):
            return self.text(value)
        return [self.record(one) for one in value] if isinstance(value, list | tuple) else value
