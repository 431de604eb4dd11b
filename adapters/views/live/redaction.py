"""What a live run never shows: values under keys that Spark redacts, wherever they stand in a record, a line or news.

Spark redacts configuration, where any value may be a secret. Records of decisions hold none of it but labels and
annotations that the configuration names, and numbers; so here a text is hidden for its key (``spark.redaction.regex``), and
what ``spark.redaction.string.regex`` finds is hidden inside every text. Numbers are shown under any name: a refusal that
names the resource ``secrets`` must stay readable, or nobody could put it right.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from podtide.adapters.notices import News
from podtide.domain.conf.redaction import REDACTED, Redaction
from podtide.domain.protocol.commands import Command
from podtide.domain.protocol.pod_commands import MarkPods
from podtide.domain.protocol.reasons import Fact


class Veil:
    """Hides what ``redaction`` says; without one, what Spark hides by default."""

    def __init__(self, redaction: Redaction | None = None) -> None:
        redaction = redaction or Redaction()
        self._keys = Redaction(redaction.pattern)
        self._pattern = redaction.text_pattern

    def text(self, text: str) -> str:
        """A text without what must not be in it."""
        return text if self._pattern is None else self._pattern.sub(REDACTED, text)

    def value(self, key: str, value: Fact) -> Fact:
        """A value under a key."""
        if not isinstance(value, str):
            return value
        return REDACTED if self._keys.shown(key, "") == REDACTED else self.text(value)

    def command(self, command: Command) -> Command:
        """A command that can be told: a label's or annotation's value is under a key of the user's."""
        if isinstance(command, MarkPods):
            return replace(command, value=str(self.value(command.key, command.value)))
        return command

    def news(self, news: News) -> News:
        """News that can be told."""
        return news._replace(
            text=self.text(news.text), facts=tuple((key, self.value(key, value)) for key, value in news.facts)
        )

    def record(self, value: Any) -> Any:
        """A record of plain data, however deep, that can be told."""
        if isinstance(value, Mapping):
            return {
                key: self.value(str(key), one) if isinstance(one, str) else self.record(one)
                for key, one in value.items()
            }
        if isinstance(value, str):
            return self.text(value)
        return [self.record(one) for one in value] if isinstance(value, list | tuple) else value
