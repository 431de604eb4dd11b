"""``podtide.open(log)``: an application as its event log tells it, to be asked.

Nothing is read until something is asked; what was read is kept, so that a second question is quick. The answers are those of
the commands of the same names, made by the same code. A recording (``podtide simulate --record``) can be explained.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import datetime
from functools import cached_property
from typing import Final

from podtide.adapters.eventlog.bytes.reader import LogSource
from podtide.adapters.eventlog.bytes.source import open_log
from podtide.adapters.files.prices import prices_of
from podtide.adapters.recording.opening import is_recording
from podtide.adapters.recording.reader import Recording
from podtide.adapters.text.safe import display, escaped
from podtide.adapters.views.log_story import Explanation, executor_story, moment_story, run_story
from podtide.adapters.views.replay_document import as_run
from podtide.adapters.views.report.drawing import Picture, executors_drawing
from podtide.domain.conf.spark_conf import SparkConf, from_mapping
from podtide.domain.recorded.application import Application
from podtide.domain.rerun.plan import EXECUTORS_MAX, Variant
from podtide.domain.whatif.prices import Prices
from podtide.domain.whatif.summary import MAX_ERROR, SEEDS
from podtide.entrypoints.compare.accounts import AccountedLog, read_account
from podtide.entrypoints.compare.answer import AccountOf, comparison_document
from podtide.entrypoints.library.errors import ModelMisfit, UnreadableLog, WrongQuestion, answering
from podtide.entrypoints.library.results import (
    CompareResult,
    ExplainResult,
    LedgerResult,
    ReplayResult,
    TuneResult,
    WhatIfResult,
    settings_of,
)
from podtide.entrypoints.replay.answer import ReplayAnswer, replayed
from podtide.entrypoints.replay.overrides import ReplayWishes
from podtide.entrypoints.replay.recording import settled_terms
from podtide.entrypoints.replay.story import RecordingStory, moment_of
from podtide.entrypoints.whatif.answer import WhatIfTerms, whatif_document
from podtide.entrypoints.whatif.ground import Ground
from podtide.entrypoints.whatif.recorded_log import Loaded
from podtide.entrypoints.whatif.tune import BUDGET, BUDGET_MAX, SEEDS as TUNE_SEEDS, WITHIN, WORTH, TuneWish
from podtide.entrypoints.whatif.tune_answer import TuneTerms, tune_answer
from podtide.entrypoints.whatif.tune_space import edits_of

GIVEN: Final = "conf"
"""Where settings come from that are laid over the log's."""

SEEDS_MAX: Final = 1_000
OTHERS_MAX: Final = 10

Moment = float | str | datetime
"""Seconds since the start, a time as the command line takes it, or a datetime."""


class OpenedLog:
    """An application as its log tells it.

    ``log``: a file (plain, .gz, .zstd, .lz4, .snappy, .lzf), the folder of a rolled log, the zip of a History Server, or a
    URL; ``conf``, ``spark_version``: what the application's config really was, where the log does not tell it;
    ``processes``: that simulate, None: as many as are worth it. Every method raises PodtideError where it cannot answer.
    """

    def __init__(
        self,
        log: str | os.PathLike[str],
        *,
        conf: Mapping[str, object] | None = None,
        spark_version: str | None = None,
        processes: int | None = None,
    ) -> None:
        self.log = os.fspath(log)
        self._overrides = _layers(conf or {})
        self._spark_version = spark_version
        self._processes = processes

    def __repr__(self) -> str:
        """The log."""
        return f"podtide.open({display(self.log)!r})"

    def replay(self, conf: Mapping[str, object] | None = None) -> ReplayResult:
        """Every decision that Spark would take, when and why; with ``conf``, under other settings."""
        if not conf:
            return ReplayResult(self._replayed)
        return ReplayResult(self._replay([*self._overrides, *_layers(conf)]))

    def ledger(self) -> LedgerResult:
        """Where every executor-second of the run went, as recorded."""
        return LedgerResult(self._accounted.account)

    def explain(self, *, executor: str | int | None = None, at: Moment | None = None) -> ExplainResult:
        """Why it went as it did: the whole run, one executor, or one moment.

        ``at``: seconds since the start, a datetime, or a text such as 2026-01-31T12:00:00Z, +30 or milliseconds since 1970.
        """
        if executor is not None and at is not None:
            raise WrongQuestion("explain: give executor or at, not both")
        with answering(display(self.log)):
            if is_recording(self.log):
                return self._recorded_story(executor, at)
        answer, accounted = self._replayed, self._accounted
        first, last = answer.document.app.first_ms, answer.document.app.last_ms
        application = accounted.recorded.application
        with answering(display(self.log)):
            if executor is not None:
                story = executor_story(application, answer.timeline, str(executor), first)
            elif at is not None:
                story = moment_story(application, answer.timeline, moment_of(_moment_text(at), first), first, last)
            else:
                story = run_story(answer.document, answer.timeline, accounted.account)
        drawing = executors_drawing(*as_run(answer.document, answer.timeline), "as replayed")
        return ExplainResult(story, drawing, application.name or application.id or "an application")

    def whatif(
        self,
        conf: Mapping[str, object] | None = None,
        *,
        variants: Mapping[str, Mapping[str, object]] | None = None,
        static: int | Sequence[int] = (),
        price: str | Prices | None = None,
        seeds: int = SEEDS,
        max_error: float = MAX_ERROR,
    ) -> WhatIfResult:
        """What it would have taken and cost under other settings; without any, what other counts of executors would do.

        ``conf``: one variant, None unsets a key; ``variants``: more of them, by name; ``static``: counts of executors
        without dynamic allocation; ``price``: as on the command line (``core-hour=0.04,gb-hour=0.005``); ``seeds``: runs of
        each variant; ``max_error``: ModelMisfit where the log's own config, run again, is further off than this share.
        """
        counts = (static,) if isinstance(static, int) else tuple(static)
        _in_bounds("seeds", seeds, 1, SEEDS_MAX)
        for one in counts:
            _in_bounds("static", one, 1, EXECUTORS_MAX)
        all_variants = (
            *((Variant("set", settings_of(conf)),) if conf else ()),
            *(Variant(name, settings_of(changes)) for name, changes in (variants or {}).items()),
            *(Variant(f"static {one}", {}, one) for one in counts),
        )
        with answering(display(self.log)):
            ground = Ground(self._overrides, self._spark_version, None, seeds, max_error)
            terms = WhatIfTerms(all_variants, _prices(price), ground, processes=self._processes)
            document = whatif_document(self.log, self._loaded, terms)
        if document.refused:
            raise ModelMisfit("\n".join(document.refused))
        return WhatIfResult(document)

    def tune(
        self,
        *others: OpenedLog,
        within: float = WITHIN,
        worth: float = WORTH,
        space: Sequence[str] = (),
        budget: int = BUDGET,
        seeds: int = TUNE_SEEDS,
        price: str | Prices | None = None,
        max_error: float = MAX_ERROR,
    ) -> TuneResult:
        """The settings that cost least, over this run and ``others`` of the same application.

        ``within``: how much longer any run may take, as a share; ``worth``: the least saving that is worth a change;
        ``space``: as ``--space`` on the command line; ``budget``: configs to consider; ``seeds``: runs of each.
        """
        _in_bounds("seeds", seeds, 1, SEEDS_MAX)
        _in_bounds("budget", budget, 1, BUDGET_MAX)
        runs = {one.log: one for one in (self, *others)}
        with answering(display(self.log)):
            ground = Ground(self._overrides, self._spark_version, None, seeds, max_error)
            wish = TuneWish(within, worth, budget, 0, _prices(price), self._processes)
            terms = TuneTerms(ground, wish, edits_of(space))
            return TuneResult(tune_answer(tuple(runs), terms, read=lambda log: runs[log].application))

    def compare(self, other: OpenedLog, *earlier: OpenedLog, price: str | Prices | None = None) -> CompareResult:
        """Why this run took longer or cost more than ``other``; with ``earlier`` runs, than the typical one of them all."""
        if len(earlier) >= OTHERS_MAX:
            raise WrongQuestion(f"compare: {len(earlier) + 1} other runs: expected at most {OTHERS_MAX}")
        runs = [AccountOf(one.log, one._accounted.account) for one in (*earlier, other, self)]
        with answering(display(self.log)):
            return CompareResult(comparison_document(runs, _prices(price)))

    @property
    def application(self) -> Application:
        """The application as recorded: jobs, stages, executors. Raises PodtideError."""
        return self._loaded.application

    @cached_property
    def _replayed(self) -> ReplayAnswer:
        return self._replay(self._overrides)

    def _replay(self, overrides: Sequence[SparkConf]) -> ReplayAnswer:
        with self._reading() as source:
            return replayed(source, overrides, self._spark_version)

    @cached_property
    def _accounted(self) -> AccountedLog:
        with self._reading() as source:
            return read_account(source, overrides=self._overrides, spark_version=self._spark_version)

    @contextmanager
    def _reading(self) -> Iterator[LogSource]:
        """The log, opened. Raises PodtideError for what goes wrong while it is read."""
        try:
            with answering(display(self.log)), closing(open_log(self.log)) as source:
                yield source
        except UnreadableLog:
            if not is_recording(self.log):
                raise
            which = "give executor or at to explain; podtide replay decides it again"
            raise WrongQuestion(f"{display(self.log)} is a recording, no event log: {which}") from None

    @property
    def _loaded(self) -> Loaded:
        recorded = self._accounted.recorded
        return Loaded(
            recorded.application, tuple(note for note in recorded.notes if note not in recorded.settled.notes)
        )

    def _recorded_story(self, executor: str | int | None, at: Moment | None) -> ExplainResult:
        """The story that a recording tells."""
        if executor is None and at is None:
            raise WrongQuestion("explain: of a recording, give executor or at")
        with closing(Recording(self.log)) as recording:
            telling = RecordingStory(recording, settled_terms(recording, ReplayWishes()))
            plain = telling.executor(str(executor)) if executor is not None else telling.moment(_moment_text(at or 0))
        text = _as_text(plain)
        moment = escaped(_moment_text(at or 0), 60)
        about = f"the moment {moment}" if executor is None else f"executor {escaped(str(executor), 60)}"
        story = Explanation(about=about, sentences=tuple(text), story=plain)
        return ExplainResult(story, Picture("Of a recording there is no drawing", []), str(plain["app"]["id"]))


def _as_text(document: dict[str, object]) -> list[str]:
    """What the terminal would show."""
    from podtide.adapters.text.page import Page  # noqa: PLC0415 - rich costs a tenth of a second
    from podtide.adapters.views.explain.view import ExplainView  # noqa: PLC0415 - the same

    out = io.StringIO()
    ExplainView(Page(out, width=120), document).report()
    return [line for line in out.getvalue().splitlines() if line.strip()]


def _layers(conf: Mapping[str, object]) -> list[SparkConf]:
    plain = {key: value for key, value in settings_of(conf).items() if value is not None}
    return [from_mapping(plain, GIVEN)] if plain else []


def _prices(price: str | Prices | None) -> Prices | None:
    return prices_of(price) if isinstance(price, str) else price


def _moment_text(at: Moment) -> str:
    if isinstance(at, datetime):
        return at.isoformat()
    return at if isinstance(at, str) else f"+{at:.3f}"


def _in_bounds(name: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise WrongQuestion(f"{name} = {value}: expected a whole number from {least} to {most:,}")
