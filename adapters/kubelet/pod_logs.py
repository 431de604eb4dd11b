"""The logs of containers as files of one folder, and how they are read: whole, the last lines, as they grow.

What a kubelet writes and the API server's front asks for (``LogSource``). A container that is begun again has a new log; the
one before it stays until then (``previous``). Options that would need more than the bytes (times) are refused.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final

from podtide.adapters.api_server.settings import LogUnavailable
from podtide.domain.api_server.messages import LogRequest

PIECE: Final = 64 * 1024
LOOK_S: Final = 0.5
"""How often a log that is followed is looked at."""

_TRUE: Final = frozenset({"true", "1"})
_KNOWN: Final = frozenset(
    {"follow", "tailLines", "limitBytes", "previous", "timestamps", "insecureSkipTLSVerifyBackend"}
)


class PodLogs:
    """The folder. ``open`` and ``ended`` are a kubelet's; calling it reads. Thread-safe."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._running: dict[tuple[str, str], threading.Event] = {}

    def file(self, pod: str, container: str) -> Path:
        """Where a container's log is, or would be. That before it has ``.1`` at its end."""
        return self.folder / f"{pod}.{container}.log"

    def open(self, pod: str, container: str) -> IO[bytes]:
        """Begin a container's log."""
        self._running[pod, container] = threading.Event()
        file = self.file(pod, container)
        if file.exists():
            file.rename(_before(file))
        return file.open("wb")

    def ended(self, pod: str, container: str) -> None:
        """Nothing more comes: who follows may go."""
        if (running := self._running.pop((pod, container), None)) is not None:
            running.set()

    def __call__(self, request: LogRequest) -> Iterator[bytes]:
        """Read a log. Raises LogUnavailable."""
        options = dict(request.options)
        for name, value in options.items():
            if name not in _KNOWN or (name == "timestamps" and value in _TRUE):
                raise LogUnavailable(f"this kubelet does not support the option {name} of logs")
        path = self.file(request.pod, request.container)
        previous = options.get("previous") in _TRUE
        if previous:
            path = _before(path)
            if not path.exists():
                raise LogUnavailable(
                    f"previous terminated container {request.container} in pod {request.pod} not found"
                )
        if not path.exists():
            return iter(())
        follows = options.get("follow") in _TRUE and not previous
        running = self._running.get((request.pod, request.container)) if follows else None
        try:
            tail = int(options["tailLines"]) if "tailLines" in options else None
            limit = int(options["limitBytes"]) if "limitBytes" in options else None
        except ValueError:
            raise LogUnavailable("tailLines and limitBytes are numbers") from None
        return _pieces(path, running, tail, limit)


def _before(file: Path) -> Path:
    return file.with_name(f"{file.name}.1")


def _pieces(path: Path, running: threading.Event | None, tail: int | None, limit: int | None) -> Iterator[bytes]:
    with path.open("rb") as file:
        if tail is not None:
            _skip_to_tail(file, tail)
        while True:
            over = running is None or running.is_set()
            while piece := file.read(PIECE if limit is None else min(PIECE, limit)):
                yield piece
                if limit is not None:
                    limit -= len(piece)
            if over or limit == 0:
                return
            assert running is not None
            running.wait(LOOK_S)
            yield b""


def _skip_to_tail(file: IO[bytes], lines: int) -> None:
    """Go to the beginning of the last lines."""
    end = place = file.seek(0, 2)
    seen = 0
    while place > 0:
        start = max(0, place - PIECE)
        file.seek(start)
        piece = file.read(place - start)
        at = len(piece)
        while (at := piece.rfind(b"\n", 0, at)) >= 0:
            if start + at == end - 1:  # the end of the last line
                continue
            seen += 1
            if seen == lines:
                file.seek(start + at + 1)
                return
        place = start
    file.seek(0 if lines > 0 else end)
