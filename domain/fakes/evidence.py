"""What a fitted figure rests on, of every kind of cluster."""

from __future__ import annotations

from typing import NamedTuple


class Evidence(NamedTuple):
    """What a number of the description rests on. ``key``: its path in a cluster file."""

    key: str
    observations: int
    note: str = ""

    @property
    def text(self) -> str:
        """A remark for the file."""
        what = f"{self.observations} observation{'' if self.observations == 1 else 's'}"
        if not self.observations:
            what = "not seen: the default"
        return f"{what}; {self.note}" if self.note else what
