"""What the listeners are to hear of tasks, in order.

Starts and ends of plain tasks need not be said one by one: they are summed up (``TasksMoved``) until something else is said.
Whoever wants every one of them by itself says so (``each``).
"""

from __future__ import annotations

from typing import ClassVar

from podtide.domain.base.units import ExecutorId, Millis
from podtide.domain.protocol.stimuli import MOVED_MAX, ExecutorTurn, ListenerEvent, Move, TasksMoved
from podtide.domain.scheduler.rows import ExecutorSlots, TaskSet


class ListenerNews:
    """``news``: what listeners hear, not taken yet. ``each``: each start of a task is said by itself, and each block.
    ``tracking``: it is said who holds map output."""

    each: ClassVar[bool] = False

    def __init__(self, *, tracking: bool) -> None:
        self.now: Millis = 0
        self.news: list[ListenerEvent] = []
        self.moved: list[TaskSet] = []
        self.turned: list[ExecutorSlots] = []
        self.outputs: list[tuple[ExecutorId, int]] = []
        self._tracking = tracking

    def say(self, event: ListenerEvent) -> None:
        """Tell the listeners, after all that happened before."""
        if self.moved or self.turned or self.outputs:
            self.tell_moves(self.now)
        self.news.append(event)

    def tell_moves(self, at: Millis) -> None:
        """Sum up the starts and ends of plain tasks for the listeners."""
        moves = []
        for run in self.moved:
            if run.first_unsent != run.next or run.ended:
                while run.next - run.first_unsent > MOVED_MAX or run.ended > MOVED_MAX:
                    some, ended = min(run.next, run.first_unsent + MOVED_MAX), min(run.ended, MOVED_MAX)
                    moves.append(Move(run.key[1], run.number, run.first_unsent, some, ended))
                    run.first_unsent, run.ended = some, run.ended - ended
                moves.append(Move(run.key[1], run.number, run.first_unsent, run.next, run.ended))
                run.first_unsent, run.ended = run.next, 0
        turns = []
        for executor in self.turned:
            executor.turned = False
            if executor.change or not executor.running:
                turns.append(ExecutorTurn(executor.id, executor.change, executor.ended))
                executor.change = 0
        outputs = tuple(self.outputs) if self._tracking else ()
        self.moved.clear()
        self.turned.clear()
        self.outputs.clear()
        if moves or turns or outputs:
            self.news.append(TasksMoved(at, tuple(moves), tuple(turns), outputs))

    def hear(self) -> list[ListenerEvent]:
        """What the listeners heard since the last time."""
        if self.moved or self.turned or self.outputs:
            self.tell_moves(self.now)
        news, self.news = self.news, []
        return news
