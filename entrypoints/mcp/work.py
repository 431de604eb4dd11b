"""How a question is answered: in a process of its own, which is ended when it takes too long or needs too much memory.

``Clerk`` is what such a process runs; a request and its answer are JSON. Everything that reads is here, and opens nothing
but what ``Places`` lets it. ``Desk`` is the server's side: it hands a question to a process and waits. A fleet is
found by one process and worked on by all.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final, TypeAlias, cast

import msgspec

from podtide.adapters.eventlog.bytes.errors import LogError
from podtide.adapters.eventlog.bytes.source import open_log
from podtide.adapters.eventlog.bytes.store import is_url
from podtide.adapters.files.prices import PriceError, from_pairs
from podtide.adapters.fleet.discovery import Finder, FoundLog, begins_like_log
from podtide.adapters.fleet.rows import FleetRow, RowStatus, row_of
from podtide.adapters.process_pool import Ended, Workers, WorkersError
from podtide.adapters.text.format import size
from podtide.adapters.text.safe import display, escaped
from podtide.domain.whatif.prices import Prices
from podtide.entrypoints.fleet.assess import assess
from podtide.entrypoints.fleet.work import FleetOptions, answer as fleet_answer, request as fleet_request
from podtide.entrypoints.library.errors import PodtideError
from podtide.entrypoints.library.opened_log import OpenedLog
from podtide.entrypoints.mcp.answers import (
    LOGS_MAX,
    FoundEntry,
    LogsAnswer,
    bounded,
    compare_brief,
    explain_brief,
    fleet_brief,
    forecast_brief,
    replay_brief,
)
from podtide.entrypoints.mcp.places import NotAllowed, Places
from podtide.entrypoints.mcp.questions import (
    QUESTIONS,
    CompareQuestion,
    ExplainQuestion,
    FleetQuestion,
    LogsQuestion,
    Question,
    ReplayQuestion,
    TuneQuestion,
    WhatIfQuestion,
)

FOUND_MAX: Final = 10_000
"""Logs that a place is searched for."""

KEPT: Final = 2
"""Logs that a process keeps in memory for the next question about them."""

ERROR_MAX: Final = 2_000

_FIND: Final = "find"
_ASSESS: Final = "assess"

Stamp: TypeAlias = tuple[tuple[str, int, int], ...]


class QuestionError(Exception):
    """A question that has no answer; the text says why, for the assistant."""


@dataclass(frozen=True, slots=True)
class Clerk:
    """Answers requests in a process. ``bytes_max``: of one log as stored; None without a bound."""

    places: Places
    bytes_max: int | None

    def __call__(self, request: bytes) -> bytes:
        """The answer to a request, or why there is none. Nothing is raised but MemoryError."""
        _stay_on_the_host()
        kind, question = json.loads(request)
        try:
            return json.dumps({"answer": self._answer(kind, question)}).encode()
        except (NotAllowed, QuestionError, PriceError, PodtideError) as refused:
            why = str(refused)
        except LogError as problem:
            why = str(problem)
        except MemoryError:
            raise
        except Exception as problem:
            why = f"podtide failed: {type(problem).__name__}: {problem}"
        return json.dumps({"error": escaped(why, ERROR_MAX)}).encode()

    def _answer(self, kind: str, question: Any) -> Any:
        if kind == _FIND:
            found, more = self._found(question["place"], question["most"])
            return {"logs": [msgspec.to_builtins(one) for one in found], "more": more}
        if kind == _ASSESS:
            return self._assessed(question)
        return bounded(self._asked(msgspec.convert(question, QUESTIONS[kind])))

    def _asked(self, question: Question) -> msgspec.Struct:
        match question:
            case LogsQuestion():
                found, more = self._found(question.place, LOGS_MAX)
                return LogsAnswer([FoundEntry(one.place, one.stamp.size, one.stamp.modified_ms) for one in found], more)
            case ReplayQuestion():
                return replay_brief(self._opened(question.log).replay(question.settings))
            case ExplainQuestion():
                return explain_brief(self._opened(question.log).explain(executor=question.executor, at=question.at))
            case WhatIfQuestion():
                opened = self._opened(question.log)
                return forecast_brief(
                    opened.whatif(
                        question.settings,
                        variants=question.variants,
                        static=question.static,
                        price=_prices(question.price),
                    )
                )
            case TuneQuestion():
                first, *others = (self._opened(log) for log in question.logs)
                return forecast_brief(
                    first.tune(*others, within=question.within, budget=question.budget, price=_prices(question.price))
                )
            case CompareQuestion():
                *earlier, last = (self._opened(log) for log in question.before)
                return compare_brief(self._opened(question.log).compare(last, *earlier, price=_prices(question.price)))
            case FleetQuestion():
                raise QuestionError("a fleet is asked for log by log")

    def _opened(self, log: str) -> OpenedLog:
        """A log that may be read and is not too large; of the last ones what was read is kept."""
        place = self.places.log(log)
        self._check_size(log, place)
        key = (place, _stamp(place))
        if key[1] is None:
            return OpenedLog(place, processes=1)
        if key not in _KEPT:
            while len(_KEPT) >= KEPT:
                del _KEPT[next(iter(_KEPT))]
            _KEPT[key] = OpenedLog(place, processes=1)
        return _KEPT[key]

    def _check_size(self, log: str, place: str) -> None:
        if self.bytes_max is None:
            return
        try:
            with closing(open_log(place)) as source:
                stored = source.size
        except LogError:
            return  # whoever reads it says so in better words; a recording is one
        if stored is not None and stored > self.bytes_max:
            raise QuestionError(
                f"{display(log)} is larger ({size(stored)}) than this server's limit ({size(self.bytes_max)})"
            )

    def _found(self, place: str | None, most: int) -> tuple[list[FoundLog], int]:
        """The newest logs of a place, and how many more there may be. Raises NotAllowed, LogError."""
        finder = Finder(self.places.holds)
        found: list[FoundLog] = []
        for where in self.places if place is None else [self.places.folder(place)]:
            found += islice(finder.argument(where), FOUND_MAX - len(found))
        order = sorted(found, key=lambda one: (-(one.stamp.modified_ms or 0), one.place))
        logs: list[FoundLog] = []
        for seen, one in enumerate(order):
            if len(logs) == most:
                return logs, len(order) - seen
            if self._is_log(one):
                logs.append(one)
        return logs, 0

    def _is_log(self, found: FoundLog) -> bool:
        try:
            return found.problem is None and (found.named or begins_like_log(self.places.log(found.place)))
        except (NotAllowed, LogError):
            return False

    def _assessed(self, question: Any) -> Any:
        """The row of one log of a fleet."""
        found, options = msgspec.convert(question["log"], FoundLog), FleetOptions(prices=_prices(question["price"]))
        try:
            place = self.places.log(found.place)
            self._check_size(found.place, place)
        except (NotAllowed, QuestionError) as refused:
            return msgspec.to_builtins(FleetRow(log=found.place, status=RowStatus.UNREADABLE, reason=str(refused)))
        return msgspec.to_builtins(row_of(fleet_answer(assess, options, fleet_request(found, place))))


_KEPT: Final[dict[tuple[str, Stamp | None], OpenedLog]] = {}
"""Of one process."""


class Desk:
    """Hands questions to processes and waits for the answers; one question after another."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._lock = threading.Lock()

    def ask(self, name: str, question: Question) -> dict[str, Any]:
        """The answer as plain data. Raises QuestionError."""
        with self._lock:
            if isinstance(question, FleetQuestion):
                return self._fleet(question)
            return cast("dict[str, Any]", self._one(name, msgspec.to_builtins(question)))

    def _fleet(self, question: FleetQuestion) -> dict[str, Any]:
        if question.price is not None:
            _prices_or_error(question.price)
        found = self._one(_FIND, {"place": question.place, "most": question.most})
        requests = [{"log": log, "price": question.price} for log in found["logs"]]
        answers = self._all(_ASSESS, requests)
        rows = [
            msgspec.convert(one, FleetRow)
            if not isinstance(one, QuestionError)
            else FleetRow(log=assess_request["log"]["place"], status=RowStatus.FAILED, reason=str(one))
            for assess_request, one in zip(requests, answers, strict=True)
        ]
        return cast("dict[str, Any]", bounded(fleet_brief(rows, found["more"])))

    def _one(self, kind: str, question: Any) -> Any:
        answer = self._all(kind, [question])[0]
        if isinstance(answer, QuestionError):
            raise answer
        return answer

    def _all(self, kind: str, questions: Sequence[Any]) -> list[Any]:
        """The answers in order; a QuestionError where there is none."""
        answers: list[Any] = [QuestionError("no answer came")] * len(questions)
        requests = ((place, json.dumps([kind, one]).encode()) for place, one in enumerate(questions))
        try:
            for place, reply in self._workers.run(requests):
                if isinstance(reply, Ended):
                    answers[place] = QuestionError(f"no answer: {reply.why}")
                    continue
                made = json.loads(reply)
                answers[place] = made["answer"] if "answer" in made else QuestionError(made["error"])
        except WorkersError as problem:
            raise QuestionError(str(problem)) from None
        return answers


def _prices(price: str | None) -> Prices | None:
    """Prices as pairs; a file is not read for them. Raises PriceError."""
    return None if price is None else from_pairs(price)


def _prices_or_error(price: str) -> None:
    try:
        from_pairs(price)
    except PriceError as wrong:
        raise QuestionError(str(wrong)) from None


def _stamp(place: str) -> Stamp | None:
    """By what a log of this machine is known to be the same; None for a URL."""
    if is_url(place):
        return None
    path = Path(place.partition("!")[0])
    try:
        parts = sorted(path.rglob("*")) if path.is_dir() else [path]
        return tuple((str(one), (found := one.stat()).st_size, found.st_mtime_ns) for one in parts)
    except OSError:
        return None


def _stay_on_the_host() -> None:
    """A web server must not send this process elsewhere: redirects are answers without a log."""
    try:
        from fsspec.config import conf  # noqa: PLC0415 - only where it is installed
    except ImportError:
        return
    for scheme in ("http", "https"):
        conf[scheme] = {"allow_redirects": False}
