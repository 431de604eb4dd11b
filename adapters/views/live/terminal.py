"""A live view in a terminal: drawn again when something changed, four times a second at most, and gone without a trace.

The view has the alternate screen, so that whatever stood in the terminal stands there again afterwards, and below it how
things stood at the end. It is drawn by a thread of its own from snapshots: a slow terminal, a stopped one or one that is
gone delays no decision. Size, colours and encoding are those of the terminal at every drawing, so it may be resized at will;
``NO_COLOR`` is respected. When the terminal cannot be written to any more, the view ends and the run goes on.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import IO, Final, Generic, Protocol, Self, TypeVar

from rich.live import Live
from rich.text import Text

from podtide.adapters.text.page import Page, PipeConsole
from podtide.adapters.views.live.dashboard import Frame
from podtide.adapters.views.live.status import LiveSnapshot
from podtide.adapters.views.live.tracker import LiveTracker
from podtide.domain.base.units import Millis

EVERY_S: Final = 0.25
"""Seconds between two drawings, at least."""

FAREWELL_ROWS: Final = 16
"""Rows that are left behind at the end."""

JOIN_S: Final = 2.0
"""Seconds that the end waits for a drawing under way: a terminal that was stopped must not stop the run."""


class Shown(Protocol):
    """How things stand at a moment. ``change`` is another one when anything is different; ``steps`` 0: nothing began."""

    @property
    def change(self) -> int:
        """A number."""
        ...

    @property
    def at(self) -> Millis:
        """The moment."""
        ...

    @property
    def steps(self) -> int:
        """How much has happened."""
        ...


S = TypeVar("S", bound=Shown)
S_co = TypeVar("S_co", bound=Shown, covariant=True)
S_contra = TypeVar("S_contra", bound=Shown, contravariant=True)


class Story(Protocol[S_co]):
    """What is told of, by another thread or of another's values."""

    @property
    def change(self) -> int:
        """That of a snapshot taken now."""
        ...

    def now(self) -> Millis:
        """The time."""
        ...

    def snapshot(self) -> S_co:
        """How things stand."""
        ...


class Drawing(Protocol[S_contra]):
    """Draws how things stand as lines."""

    def draw(self, snapshot: S_contra, width: int, height: int, /) -> list[Text]:
        """At most ``height`` lines of at most ``width`` columns."""
        ...


class TerminalView(Generic[S]):
    """A context manager that shows a story until it is left.

    ``drawing``: draws it for a page's encoding and colours. ``alternate``: on the alternate screen, else below what is
    there.
    ``every_s``: seconds between two drawings, at least.
    """

    def __init__(
        self,
        story: Story[S],
        drawing: Callable[[Page], Drawing[S]],
        stream: IO[str],
        *,
        alternate: bool = True,
        every_s: float = EVERY_S,
    ) -> None:
        self._story = story
        self._alternate = alternate
        self._every = max(EVERY_S, every_s)
        self._console = PipeConsole(file=stream, markup=False, highlight=False, emoji=False)
        self._page = Page(stream)
        self._page.coloured = bool(self._console.color_system) and not self._console.no_color
        self._frame = drawing(self._page)
        self._live = Live(
            console=self._console, screen=alternate, auto_refresh=False, redirect_stdout=False, redirect_stderr=False,
            vertical_overflow="crop",
        )  # fmt: skip
        self._shown: object = None
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="live view", daemon=True)
        self.gone = False

    def refresh(self) -> bool:
        """Draw if anything is different from what is shown; tells whether it was."""
        if self.gone:
            return False
        size = self._console.size
        snapshot = None if self._shown is None else self._story.change
        seen = (snapshot, size, self._story.now() // 1000)
        if seen == self._shown:
            return False
        taken = self._story.snapshot()
        self._shown = (taken.change, size, taken.at // 1000)
        height = size.height if self._alternate else size.height - 1
        lines = self._frame.draw(taken, size.width, height)
        try:
            self._live.update(Text("\n", no_wrap=True, overflow="crop").join(lines), refresh=True)
        except (OSError, ValueError):  # the terminal is gone, or its stream is closed
            self.gone = True
        return not self.gone

    def _run(self) -> None:
        while not self._end.wait(self._every) and not self.gone:
            self.refresh()

    def __enter__(self) -> Self:
        try:
            self._live.start()
        except (OSError, ValueError):
            self.gone = True
        self.refresh()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the terminal back, and leave behind how things stand."""
        if self._end.is_set():
            return
        self._end.set()
        if self._thread.is_alive():
            self._thread.join(JOIN_S)
            if self._thread.is_alive():  # the terminal is stopped in the middle of a drawing; nobody could write to it
                self.gone = True
                return
        with suppress(OSError, ValueError):
            self._live.stop()
            if not self.gone and self._alternate:
                self._farewell(self._story.snapshot())

    def _farewell(self, snapshot: S) -> None:
        if not snapshot.steps:
            return  # it did not even begin: whoever runs it says why
        size = self._console.size
        lines = self._frame.draw(snapshot, size.width, min(FAREWELL_ROWS, size.height - 1))
        self._console.print(Text("\n", no_wrap=True, overflow="crop").join(lines), crop=True)


class LiveTerminal(TerminalView[LiveSnapshot]):
    """The view of a live run."""

    def __init__(
        self, tracker: LiveTracker, stream: IO[str], *, alternate: bool = True, every_s: float = EVERY_S
    ) -> None:
        super().__init__(tracker, Frame, stream, alternate=alternate, every_s=every_s)
