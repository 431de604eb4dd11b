"""Blocks in, whole lines out: nothing lost, nothing split, line numbers right, long lines measured but not held."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, strategies as st

from podtide.adapters.eventlog.bytes import lines as cutting
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
            lines.extend((piece.line + at, line) for at, line in enumerate(bytes(piece.data).splitlines(keepends=True)))
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
    assert all(piece.lines == len(bytes(piece.data).splitlines()) for piece in pieces if isinstance(piece, Chunk))
    flags = [piece.unterminated for piece in pieces if isinstance(piece, Chunk)]
    assert not any(flags[:-1])


@given(st.lists(st.sampled_from([b"\n", b"a", b"b\n\n"])).map(b"".join))
def test_both_ways_of_counting_agree(data: bytes) -> None:
    assert count_lines(data, long_lines=True) == count_lines(data, long_lines=False) == data.count(b"\n")


def test_large_blocks_are_not_copied_and_a_chunk_of_them_comes_in_parts() -> None:
    blocks = [b"a" * 9 + b"\nbb\nc", b"cc\n" + b"d" * 9 + b"\ne", b"e\n" + b"f" * 20 + b"\n"]
    pieces = [piece for piece in cut_lines(blocks, "log", chunk_bytes=25) if isinstance(piece, Chunk)]
    lines = [b"a" * 9 + b"\nbb\n", b"ccc\n", b"d" * 9 + b"\n", b"ee\n", b"f" * 20 + b"\n"]
    assert [bytes(piece.data) for piece in pieces] == lines
    assert [piece.line for piece in pieces] == [1, 3, 4, 5, 6]
    assert [piece.continues for piece in pieces] == [False, True, True, False, True]
    assert [piece.data.obj for piece in pieces if isinstance(piece.data, memoryview)] == blocks


@given(st.lists(st.sampled_from([b"", b"a", b"bc", b"d" * 9]), max_size=40), st.integers(1, 30), st.integers(1, 60))
def test_chunks_end_where_they_would_if_everything_were_copied(lines: list[bytes], step: int, chunk_bytes: int) -> None:
    text = b"\n".join(lines)
    blocks = [text[at : at + step] for at in range(0, len(text), step)]
    pieces = [piece for piece in cut_lines(blocks, "log", chunk_bytes=chunk_bytes) if isinstance(piece, Chunk)]
    begun = [piece.line for piece in pieces if not piece.continues]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cutting, "IN_PLACE", 0)
        copied = [piece for piece in cut_lines(blocks, "log", chunk_bytes=chunk_bytes) if isinstance(piece, Chunk)]
    assert not any(piece.continues for piece in copied)
    assert begun == [piece.line for piece in copied]
