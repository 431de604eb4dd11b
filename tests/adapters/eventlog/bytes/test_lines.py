"""Blocks in, whole lines out: nothing lost, nothing split, line numbers right, long lines measured but not held."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, strategies as st

from podtide.adapters.eventlog.bytes.lines import Chunk, FaultKind, LineFault, Piece, count_lines, cut_lines


def cut(text: bytes, step: int = 7, chunk_bytes: int = 20, line_max: int = 1000) -> list[Piece]:
    blocks = (text[at : at + step] for at in range(0, len(text), step))
    return list(cut_lines(blocks, "log", chunk_bytes=chunk_bytes, line_max=line_max))


def numbered(pieces: list[Piece]) -> list[tuple[int, bytes | FaultKind]]:
    """Every line with its number, a fault in the place of its line."""
    lines: list[tuple[int, bytes | FaultKind]] = []
    for piece in pieces:
        if isinstance(piece, LineFault):
            lines.append((piece.line, piece.kind))
        else:
            lines.extend((piece.line + at, line) for at, line in enumerate(piece.data.splitlines(keepends=True)))
    return lines


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"", []),
        (b"a\n", [Chunk(b"a\n", "log", 1, 1)]),
        (b"a\nb", [Chunk(b"a\n", "log", 1, 1), Chunk(b"b", "log", 2, 1, unterminated=True)]),
        (b"a", [Chunk(b"a", "log", 1, 1, unterminated=True)]),
        (b"\n\na\n", [Chunk(b"\n\na\n", "log", 1, 3)]),
        (b"a\r\nb\r\n", [Chunk(b"a\r\nb\r\n", "log", 1, 2)]),
        (b"\xef\xbb\xbf{}\n", [Chunk(b"{}\n", "log", 1, 1)]),
        (b"\n", [Chunk(b"\n", "log", 1, 1)]),
    ],
)
def test_small_logs(text: bytes, expected: list[Piece]) -> None:
    assert cut(text) == expected


@pytest.mark.parametrize("step", [1, 2, 3, 10, 11, 12, 100])
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"ab\n" + b"x" * 11 + b"\ncd\n", [(1, b"ab\n"), (2, FaultKind.LONG_LINE), (3, b"cd\n")]),
        (b"x" * 10 + b"\n", [(1, b"x" * 10 + b"\n")]),
        (b"x" * 50, [(1, FaultKind.LONG_LINE)]),
        (b"x" * 11 + b"\n" + b"y" * 11 + b"\n", [(1, FaultKind.LONG_LINE), (2, FaultKind.LONG_LINE)]),
        (b"x" * 30 + b"\nrest", [(1, FaultKind.LONG_LINE), (2, b"rest")]),
        (b"x" * 30 + b"\n", [(1, FaultKind.LONG_LINE)]),
    ],
)
def test_a_line_over_the_limit_is_a_fault_in_its_place(
    text: bytes, step: int, expected: list[tuple[int, bytes | FaultKind]]
) -> None:
    assert numbered(cut(text, step, line_max=10)) == expected


def test_what_came_before_a_failure_is_delivered_first() -> None:
    def blocks() -> Iterator[bytes]:
        yield b"a\nb\nhalf"
        raise OSError("gone")

    pieces: list[Piece] = []
    with pytest.raises(OSError, match="gone"):
        pieces.extend(cut_lines(blocks(), "log"))
    # extend keeps what arrived before the exception
    assert [piece.data for piece in pieces if isinstance(piece, Chunk)] == [b"a\nb\n", b"half"]


@given(
    st.lists(st.sampled_from([b"", b"a", b"bc", b"d" * 9, b"e" * 10, b"f" * 11, b"g" * 40]), max_size=20),
    st.booleans(),
    st.integers(1, 60),
    st.integers(1, 60),
)
def test_every_line_arrives_once_with_its_number(lines: list[bytes], ends: bool, step: int, chunk_bytes: int) -> None:
    text = b"\n".join(lines) + (b"\n" if ends else b"")
    expected = [
        (at + 1, FaultKind.LONG_LINE if len(line.rstrip(b"\n")) > 10 else line)
        for at, line in enumerate(text.splitlines(keepends=True))
    ]
    pieces = cut(text, step, chunk_bytes, line_max=10)
    assert numbered(pieces) == expected
    assert all(piece.lines == len(piece.data.splitlines()) for piece in pieces if isinstance(piece, Chunk))
    flags = [piece.unterminated for piece in pieces if isinstance(piece, Chunk)]
    assert not any(flags[:-1])


@given(st.lists(st.sampled_from([b"\n", b"a", b"b\n\n"])).map(b"".join))
def test_both_ways_of_counting_agree(data: bytes) -> None:
    assert count_lines(data, long_lines=True) == count_lines(data, long_lines=False) == data.count(b"\n")
