"""A timer at a fixed rate whose every run looks at the world: the beat of the executor plugins.

Spark's plugins run on a thread of their own (scheduleAtFixedRate, first after one interval) and look around when they
run: at the status store, the metrics server, the API server. Here somebody else looks. A ``Sampler`` says when its run
is ``due`` and whether it ``wants`` a sample now; the run takes place when both the time and a sample are there:

- a sample that arrives at or after the due time is used at once;
- where time passes first (a wake), the last sample that arrived since the run before is used; if there is none the run
  waits for one, and nothing is due meanwhile;
- a sample is used once.

Spark makes up for runs that its thread missed, one right after the other. They would see the same world, so one run
stands for all of them here; the beat stays the same.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from podtide.domain.base.units import NEVER, Millis
from podtide.domain.protocol.executor_stimuli import Stopping, Wake

S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Sampler(Generic[S]):
    """``next_at``: when the next run should take place; NEVER once stopped. ``waiting``: that time came without a
    sample.
    """

    next_at: Millis
    sample: S | None = None
    waiting: bool = False

    @property
    def due(self) -> Millis:
        """When a wake would change something."""
        return NEVER if self.waiting else self.next_at

    def wants(self, now: Millis) -> bool:
        """Whether a sample taken now would be used at once."""
        return now >= self.next_at

    def after(self, item: S | Wake | Stopping, at: Millis, interval_ms: Millis) -> tuple[Sampler[S], S | None]:
        """The sampler after a sample, a wake or the end of the application, and the sample of a run that takes place."""
        if isinstance(item, Stopping):
            return Sampler(NEVER), None
        return self._woken(at, interval_ms) if isinstance(item, Wake) else self._sampled(item, at, interval_ms)

    def _sampled(self, sample: S, at: Millis, interval_ms: Millis) -> tuple[Sampler[S], S | None]:
        """A sample arrived: the sampler after it, and the sample if the run takes place with it."""
        if at < self.next_at:
            return replace(self, sample=sample), None
        return self._next(at, interval_ms), sample

    def _woken(self, at: Millis, interval_ms: Millis) -> tuple[Sampler[S], S | None]:
        """Time passed: the sampler after it, and the sample that the run takes place with, if it does."""
        if at < self.next_at or self.waiting:
            return self, None
        if self.sample is None:
            return replace(self, waiting=True), None
        return self._next(at, interval_ms), self.sample

    def _next(self, at: Millis, interval_ms: Millis) -> Sampler[S]:
        missed = (at - self.next_at) // interval_ms
        return Sampler(self.next_at + (missed + 1) * interval_ms)
