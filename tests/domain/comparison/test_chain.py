"""The chain of stages that the run waited for."""

from __future__ import annotations

from hypothesis import given, strategies as st

from podtide.domain.comparison.account import Piece, PieceKind
from podtide.domain.comparison.chain import ChainStage, chain_of


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 100), st.integers(0, 100)), max_size=12),
    st.dictionaries(st.integers(0, 5), st.lists(st.integers(0, 5), max_size=2), max_size=5),
    st.integers(1, 120),
    st.data(),
)
def test_the_pieces_fill_the_run(
    drawn: list[tuple[int, int, int]], after: dict[int, list[int]], runtime: int, data: st.DataObject
) -> None:
    """Whatever a log claims: jobs that wait for one another, parents that end after their children."""
    stages = [
        ChainStage(number, job, begin, begin + length, tuple(data.draw(st.lists(st.integers(0, 12), max_size=2))))
        for number, (job, begin, length) in enumerate(drawn)
    ]
    at = 0
    for piece in chain_of(stages, after, runtime):
        assert piece.began_ms == at < piece.ended_ms
        at = piece.ended_ms
    assert at == runtime


def test_stages_that_wait_for_one_another_end() -> None:
    stages = [ChainStage(0, 0, 5, 5, (1,)), ChainStage(1, 0, 5, 5, (0,))]
    assert chain_of(stages, {}, 9) == (Piece(PieceKind.STARTING, 0, 5, 0), Piece(PieceKind.ENDING, 5, 9))


def test_of_two_sides_the_later_one_is_waited_for() -> None:
    """A stage reads two others; the driver's program thinks between two jobs."""
    stages = [
        ChainStage(0, 0, 1_000, 5_000),
        ChainStage(1, 0, 1_000, 9_000),
        ChainStage(2, 0, 9_100, 12_000, (0, 1)),
        ChainStage(3, 1, 15_000, 18_000),
    ]
    assert chain_of(stages, {1: (0,)}, 20_000) == (
        Piece(PieceKind.STARTING, 0, 1_000, 1),
        Piece(PieceKind.STAGE, 1_000, 9_000, 1),
        Piece(PieceKind.DRIVER, 9_000, 9_100, 2),
        Piece(PieceKind.STAGE, 9_100, 12_000, 2),
        Piece(PieceKind.DRIVER, 12_000, 15_000, 3),
        Piece(PieceKind.STAGE, 15_000, 18_000, 3),
        Piece(PieceKind.ENDING, 18_000, 20_000),
    )
