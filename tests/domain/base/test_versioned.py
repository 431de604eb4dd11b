"""Values whose newest version owns the inside: older ones are rebuilt or stale, and a step that raises is rolled back."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

import pytest

from podtide.domain.base.tables import Field, Members, Serial, Table, Tables
from podtide.domain.base.versioned import Exclusive, Inside, Stale, UndoEntry, Versioned


class Shelf(Inside):
    """The smallest inside: a list, and its sum."""

    __slots__ = ("items", "total")

    def __init__(self, items: list[int] | None = None) -> None:
        self.undo_log = []
        self.items = items or []
        self.recount()

    def copy(self) -> Shelf:
        return Shelf(list(self.items))

    def undo(self, log: Sequence[UndoEntry]) -> None:
        for (size,) in reversed(log):
            del self.items[size:]

    def recount(self) -> None:
        self.total = sum(self.items)

    def push(self, *numbers: int) -> None:
        for number in numbers:
            self.undo_log.append((len(self.items),))
            self.items.append(number)
            assert number, "in the middle of a step"
            self.total += number


class Stack(Versioned[Shelf]):
    """A stack of numbers."""

    __slots__ = ()

    def push(self, *numbers: int) -> Stack:
        with self.step() as shelf:
            shelf.push(*numbers)
            return self.hand_over(Stack(shelf))

    def read(self) -> tuple[list[int], int]:
        return list(self._tables.items), sum(self._tables.items)


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
    shelf = stacks[-1]._tables
    assert stacks[-1].push(5)._tables is shelf


def test_two_successors_of_one_version() -> None:
    first, *_ = chain()
    left, right = first.push(7), first.push(8, 9)
    assert left.read() == ([7], 7)
    assert right.read() == ([8, 9], 17)
    assert first.read() == ([], 0)


@pytest.mark.parametrize("place", range(4))
def test_a_step_that_raises_leaves_its_version_as_it_was(place: int) -> None:
    stacks = chain()
    with pytest.raises(AssertionError, match="in the middle"):
        stacks[place].push(5, 6, 0, 7)
    assert [stack.read() for stack in stacks] == WHOLE
    assert stacks[place].push(5).read() == ([*WHOLE[place][0], 5], WHOLE[place][1] + 5)


class Rooms(Tables):
    """One of each."""

    open = Field(True)

    def __init__(self) -> None:
        self.beds: Table[str, int] = Table()
        self.taken: Members[str] = Members()
        self.keys = Serial()
        super().__init__()

    def recount(self) -> None:
        self.total = sum(self.beds.values())

    def change(self) -> None:
        self.beds.put("blue", 2)
        self.beds.put("blue", 3)
        self.beds.drop("red")
        self.beds.drop("none")
        self.taken.add("blue")
        self.taken.discard("red")
        self.open = False
        self.total = self.keys.next()

    def content(self) -> object:
        return dict(self.beds), set(self.taken), self.keys.last, self.open, self.total


class House(Exclusive[Rooms]):
    """Rooms of which only the newest answer."""

    __slots__ = ()


def rooms() -> Rooms:
    tables = Rooms()
    tables.beds.put("red", 1)
    tables.taken.add("red")
    tables.recount()
    tables.undo_log.clear()
    return tables


CHANGED = ({"blue": 3}, {"blue"}, 1, False, 1)


def test_tables_note_every_change_by_themselves() -> None:
    tables = rooms()
    before = tables.content()
    with pytest.raises(LookupError), tables:
        tables.change()
        assert tables.content() == CHANGED
        raise LookupError
    assert tables.content() == before
    assert tables.undo_log == []


def test_a_fork_of_tables_shares_nothing() -> None:
    tables = rooms()
    before, twin = tables.content(), tables.fork()
    twin.change()
    assert (tables.content(), twin.content()) == (before, CHANGED)
    assert tables.undo_log == []


def test_only_the_newest_version_of_an_exclusive_answers() -> None:
    first = House(rooms())
    with first.step() as tables:
        tables.change()
        second = first.hand_over(House(tables))
    assert second._tables.content() == CHANGED
    with pytest.raises(Stale, match="this House has been stepped on from"):
        first.step()


def test_a_table_of_nobody_is_not_written_to() -> None:
    with pytest.raises(AssertionError, match="no Tables"):
        Table[str, int]().put("a", 1)
