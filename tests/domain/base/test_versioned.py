"""Values whose newest version owns the books: older ones are rebuilt, in whatever order they are asked."""

from __future__ import annotations

from itertools import permutations

import pytest

from podtide.domain.base.versioned import JournalEntry, Versioned


class Shelf:
    """The smallest books: a list, and its sum."""

    def __init__(self, items: list[int] | None = None) -> None:
        self.items = items or []
        self.total = 0
        self.recount()

    def copy(self) -> Shelf:
        return Shelf(list(self.items))

    def undo(self, journal: list[JournalEntry]) -> None:
        for _ in journal:
            self.items.pop()

    def recount(self) -> None:
        self.total = sum(self.items)


class Stack(Versioned[Shelf]):
    """A stack of numbers."""

    __slots__ = ()

    def push(self, *numbers: int) -> Stack:
        books = self.books
        books.items.extend(numbers)
        books.total += sum(numbers)
        successor = Stack(books)
        self.hand_over(successor, [(number,) for number in numbers])
        return successor

    def read(self) -> tuple[list[int], int]:
        return self.books.items, self.books.total


WHOLE = [([], 0), ([1], 1), ([1, 2, 3], 6), ([1, 2, 3, 4], 10)]


def chain() -> list[Stack]:
    stacks = [Stack(Shelf())]
    for numbers in ([1], [2, 3], [4]):
        stacks.append(stacks[-1].push(*numbers))
    return stacks


@pytest.mark.parametrize("order", list(permutations(range(4))), ids=str)
def test_every_version_answers_for_itself(order: tuple[int, ...]) -> None:
    stacks = chain()
    for place in order:
        assert stacks[place].read() == WHOLE[place]
    assert [stack.read() for stack in stacks] == WHOLE


def test_going_forward_copies_nothing() -> None:
    stacks = chain()
    shelf = stacks[-1].books
    assert stacks[-1].push(5).books is shelf


def test_two_successors_of_one_version() -> None:
    first, *_ = chain()
    left, right = first.push(7), first.push(8, 9)
    assert left.read() == ([7], 7)
    assert right.read() == ([8, 9], 17)
    assert first.read() == ([], 0)
