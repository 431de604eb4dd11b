"""Lines of styled text for a terminal or a pipe: wrapped, in columns, escaped, in ASCII where it must be.

A ``Page`` knows the width, the encoding and the colours of where it prints. It takes plain text and names of styles,
never markup, and escapes whatever is not printable. Colours are the terminal's own sixteen, and
no information is in the colour alone. No line ends in blanks, so what a pipe gets can be compared and searched.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import IO, Final

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from podtide.adapters.text.safe import escaped

WIDTH_MAX: Final = 120
"""Columns that are used of a wide terminal; longer lines are hard to read."""

WIDTH_MIN: Final = 20

ROOM_MIN: Final = 12
"""Columns that a text needs beside what leads it; with fewer it goes below."""

INDENT: Final = 4
"""Columns by which it is indented there."""

STYLES: Final = {
    "raised": "green", "lowered": "cyan", "killed": "red", "proposed": "yellow", "held": "yellow", "threw": "bold red",
    "quiet": "dim", "target": "bold bright_green", "need": "magenta", "busy": "blue", "idle": "bright_black",
    "axis": "dim", "blank": "", "title": "bold", "bold": "bold", "dim": "dim", "good": "green", "bad": "bold red",
    "": "",
}  # fmt: skip
"""What each name of a style looks like."""

_ASCII: Final = str.maketrans(
    {"→": "->", "·": ";", "−": "-", "…": "...", "⋯": "...", "▲": "^", "▼": "v", "×": "x", "■": "#", "█": "#"}
)  # fmt: skip


class PipeConsole(Console):
    """A console that leaves a closed pipe to its caller."""

    def on_broken_pipe(self) -> None:
        """Raise what rich would end the process for."""
        raise BrokenPipeError


class Page:
    """Prints to one stream. ``width``: columns; ``unicode``: whether the encoding has more than ASCII."""

    def __init__(self, stream: IO[str], width: int | None = None) -> None:
        self._console = PipeConsole(file=stream, width=width, markup=False, highlight=False, emoji=False)
        self._encoding = (getattr(stream, "encoding", None) or "utf-8").lower()
        self.width = max(WIDTH_MIN, min(WIDTH_MAX, self._console.width))
        self.unicode = self._encoding.replace("-", "").startswith("utf")
        self.coloured = bool(self._console.color_system) and not self._console.no_color

    def plain(self, text: str) -> str:
        """Text in signs that the encoding has and that move no cursor, also where the caller did not escape it."""
        if not text.isprintable():
            text = escaped(text, len(text))
        if self.unicode:
            return text
        return text.translate(_ASCII).encode(self._encoding, "backslashreplace").decode(self._encoding)

    def text(self, text: str, style: str = "") -> Text:
        """Text in a style, in signs that the encoding has."""
        return Text(self.plain(text), STYLES.get(style, style))

    def lines(self, lines: Sequence[Text]) -> None:
        """Print lines as they are; what does not fit is cut."""
        if lines:
            for line in lines:
                line.rstrip()
            self._console.print(
                Text("\n").join(lines), width=max(self.width, 1), overflow="crop", no_wrap=True, crop=False
            )

    def line(self, *parts: Text) -> None:
        """Print one line, wrapped where it must be."""
        self.lines(self.wrapped(Text.assemble(*parts), self.width))

    def blank(self) -> None:
        """An empty line."""
        self._console.print()

    def title(self, title: str, remark: str = "") -> None:
        """The beginning of a section."""
        self.blank()
        self.line(self.text(title, "title"), self.text(f"  {remark}" if remark else "", "dim"))

    def say(self, text: str, style: str = "") -> None:
        """A line of text, wrapped."""
        self.line(self.text(text, style))

    def more(self, number: int, *, in_json: bool = False) -> None:
        """How many more there are than are shown, if there are any; ``in_json``: all are in the document."""
        if number > 0:
            self.say(f"  and {number:,} more{' (--json has them)' if in_json else ''}", "dim")

    def bullet(self, sign: str, text: Text | str, style: str = "") -> None:
        """A sign and a text that hangs beside it."""
        self.lines(
            list(self.hanging(self.text(f"  {sign} ", style), self.text(text) if isinstance(text, str) else text))
        )

    def hanging(self, lead: Text, text: Text) -> Iterator[Text]:
        """``lead``, and beside it ``text``, wrapped to what is left of the width."""
        indent = cell_len(lead.plain)
        room = self.width - indent
        if room < ROOM_MIN and lead.plain.strip():
            yield lead
            lead, indent = Text(" " * INDENT), INDENT
            room = self.width - indent
        for number, line in enumerate(self.wrapped(text, room)):
            yield Text.assemble(lead if not number else " " * indent, line)

    def packed(self, lead: Text, parts: Iterable[Text]) -> Iterator[Text]:
        """``lead``, and beside it ``parts`` with dots between them; lines break between two parts where they can."""
        dot = self.text(" · ", "dim")
        room = self.width - cell_len(lead.plain)
        if room < ROOM_MIN and lead.plain.strip():
            yield lead
            lead, room = Text(" " * INDENT), self.width - INDENT
        line = Text()
        for part in parts:
            if not line.plain:
                line = part.copy()
                continue
            if line.cell_len + dot.cell_len + part.cell_len > room:
                yield from self.hanging(lead, line)
                lead = Text(" " * cell_len(lead.plain))
                line = part.copy()
            else:
                line = Text.assemble(line, dot, part)
        yield from self.hanging(lead, line)

    def row(self, lead: Text | str, parts: Iterable[Text | str]) -> None:
        """Print ``lead`` (dim where it is a string), and beside it ``parts`` with dots between them."""
        if isinstance(lead, str):
            lead = self.text(lead, "dim" if lead.strip() else "")
        self.lines(list(self.packed(lead, (self.text(part) if isinstance(part, str) else part for part in parts))))

    def wrapped(self, text: Text, width: int) -> list[Text]:
        """The text in lines of at most ``width`` columns."""
        lines = list(text.wrap(self._console, max(1, width), tab_size=1))
        for line in lines:
            line.rstrip()
        return lines or [Text()]

    def table(self, rows: Iterable[Sequence[Text]], right: Sequence[bool], gap: int = 2, indent: int = 2) -> list[Text]:
        """Rows in columns as wide as their widest cell; ``right`` says which columns end flush."""
        listed = [list(row) for row in rows]
        widths = [max((cell_len(row[place].plain) for row in listed), default=0) for place in range(len(right))]
        if indent + sum(widths) + gap * (len(widths) - 1) > self.width:
            return [line for row in listed for line in self._stacked(row, indent)]
        lines = []
        for row in listed:
            line = Text(" " * indent)
            for place, cell in enumerate(row):
                blanks = " " * (widths[place] - cell_len(cell.plain))
                line = Text.assemble(line, *((blanks, cell) if right[place] else (cell, blanks)), " " * gap)
            line.rstrip()
            lines.append(line)
        return lines

    def grid(self, heads: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[bool]) -> None:
        """Print rows of plain texts in columns below their heads; ``right`` says which columns end flush."""
        head = [self.text(one, "dim") for one in heads]
        self.lines(self.table([head, *([self.text(cell) for cell in row] for row in rows)], right))

    def _stacked(self, row: Sequence[Text], indent: int) -> Iterator[Text]:
        """A row of a table that is too wide: its first cell, and the others below."""
        yield from self.hanging(Text(" " * indent), row[0])
        yield from self.packed(Text(" " * (indent + INDENT)), [cell for cell in row[1:] if cell.plain])

    def beside(self, left: Sequence[Text], right: Sequence[Text], gap: int = 3) -> list[Text] | None:
        """Two blocks of lines side by side; None where they do not fit."""
        width = max((cell_len(line.plain) for line in left), default=0)
        if width + gap + max((cell_len(line.plain) for line in right), default=0) > self.width:
            return None
        lines = []
        for number in range(max(len(left), len(right))):
            first = left[number] if number < len(left) else Text()
            second = right[number] if number < len(right) else Text()
            lines.append(Text.assemble(first, " " * (width + gap - cell_len(first.plain)), second))
        return lines
