"""What the library answers with: a typed document, a table, and a picture.

``rows`` is the table as plain dictionaries and needs nothing; ``to_pandas`` and ``to_arrow`` make it what other tools read,
where pandas or pyarrow is installed. ``plot`` draws what the report would draw, as SVG. In a notebook a result shows itself:
figures, picture and table, without a script, everything from the log escaped.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Final, Generic, TypeVar

import msgspec

from podtide.adapters.text.documents import with_plain_keys
from podtide.adapters.text.safe import escaped
from podtide.adapters.views.comparison import page as comparison_page
from podtide.adapters.views.comparison.document import ComparisonDocument
from podtide.adapters.views.comparison.words import evidence, headline, titled
from podtide.adapters.views.log_story import Explanation, bill_sentences
from podtide.adapters.views.replay_document import ReplayDocument, TimelineEntry, as_run, sentences
from podtide.adapters.views.report.bars import Amounts, Bar
from podtide.adapters.views.report.drawing import (
    Picture,
    amounts_drawing,
    counts_drawing,
    executors_drawing,
    frontier_drawing,
    waterfall_drawing,
)
from podtide.adapters.views.report.notebook import ResultCell, WhatIf
from podtide.adapters.views.report.sections import ledger as ledger_of
from podtide.adapters.views.whatif.figures import CAUSES, at, number, took, whole
from podtide.adapters.views.whatif.model import Document, RunEntry, builtins
from podtide.adapters.views.whatif.overview_entries import PointEntry
from podtide.domain.comparison.account import RunAccount
from podtide.domain.rerun.plan import AS_RECORDED
from podtide.entrypoints.library.errors import MissingExtra
from podtide.entrypoints.replay.answer import ReplayAnswer

D = TypeVar("D")

Row = dict[str, Any]


class Result(ABC, Generic[D]):
    """An answer. ``document``: all of it, as typed records."""

    def __init__(self, document: D) -> None:
        self.document: D = document

    @property
    @abstractmethod
    def rows(self) -> list[Row]:
        """The table: a dictionary for each row, the same keys in each, plain values."""

    @abstractmethod
    def plot(self) -> Picture:
        """The picture; a notebook shows it, ``save`` writes it to a file."""

    @property
    @abstractmethod
    def sentences(self) -> list[str]:
        """The answer in short."""

    @abstractmethod
    def _repr_html_(self) -> str: ...

    def __repr__(self) -> str:
        """The answer in short; texts from the log are escaped."""
        return "\n".join(escaped(line, 2_000) for line in self.sentences)

    def to_dict(self) -> dict[str, Any]:
        """The document as ``--json`` prints it."""
        made: dict[str, Any] = with_plain_keys(msgspec.to_builtins(self.document))
        return made

    def to_pandas(self) -> Any:
        """The table as a ``pandas.DataFrame``. Raises MissingExtra where pandas is not installed."""
        try:
            import pandas  # noqa: PLC0415 - only where it is asked for
        except ImportError:
            raise MissingExtra("pandas is not installed: pip install pandas (.rows needs nothing)") from None
        return pandas.DataFrame(self.rows)

    def to_arrow(self) -> Any:
        """The table as a ``pyarrow.Table``. Raises MissingExtra where pyarrow is not installed."""
        try:
            import pyarrow  # noqa: PLC0415 - only where it is asked for
        except ImportError:
            raise MissingExtra("pyarrow is not installed: pip install 'podtide[fleet]' (.rows needs nothing)") from None
        return pyarrow.Table.from_pylist(self.rows)


class _TimelineRows:
    """Decisions as rows, and as rows of a cell."""

    COLUMNS: Final = ("When", "Decision", "Why")

    def __init__(self, entries: Sequence[TimelineEntry]) -> None:
        self.entries = entries

    def plain(self) -> list[Row]:
        return [{**msgspec.structs.asdict(one), "executors": ", ".join(one.executors)} for one in self.entries]

    def shown(self) -> list[tuple[str, str, str]]:
        return [(at(one.at_s), one.what, one.why) for one in self.entries]


class ReplayResult(Result[ReplayDocument]):
    """Every decision that Spark would take over the log. The table has a row for each, as ``timeline``."""

    def __init__(self, answer: ReplayAnswer) -> None:
        super().__init__(answer.document)
        self.timeline: tuple[TimelineEntry, ...] = answer.timeline
        self.left_out = answer.left_out

    @property
    def rows(self) -> list[Row]:
        """A row for each decision, and for each bound that began or ceased to hold."""
        return _TimelineRows(self.timeline).plain()

    @property
    def sentences(self) -> list[str]:
        """How it went and what held it back."""
        return sentences(self.document)

    def plot(self) -> Picture:
        """Executors over time: needed, target, running and busy, with the decisions."""
        return executors_drawing(*as_run(self.document, self.timeline), "as replayed")

    def _repr_html_(self) -> str:
        app, actual, replayed = self.document.app, self.document.actual, self.document.replayed
        figures = [
            ("Ran", took((app.last_ms - app.first_ms) / 1000), f"{number(app.tasks)} tasks"),
            ("Peak target", number(replayed.peak_target), f"tasks could use {number(replayed.peak_need)}"),
            ("Peak executors", number(actual.peak), f"{number(actual.added)} came, {number(actual.removed)} went"),
            ("Executor-seconds", whole(actual.executor_seconds), f"{whole(actual.idle_executor_seconds)} idle"),
            ("Decisions", number(replayed.decisions), f"{number(replayed.kills_proposed)} kills proposed"),
        ]
        return ResultCell(
            app.name or app.id or "an application", self.sentences, figures, self.plot(),
            "Decisions with their reasons", _TimelineRows.COLUMNS, _TimelineRows(self.timeline).shown(),
        ).html()  # fmt: skip


class ExplainResult(Result[Explanation]):
    """A story: of the run, of an executor or of a moment. The table has the decisions that belong to it."""

    def __init__(self, document: Explanation, picture: Picture, title: str) -> None:
        super().__init__(document)
        self._picture = picture
        self._title = title

    @property
    def rows(self) -> list[Row]:
        """A row for each decision of the story."""
        return _TimelineRows(self.document.events).plain()

    @property
    def sentences(self) -> list[str]:
        """The story."""
        return list(self.document.sentences)

    def plot(self) -> Picture:
        """Executors over time, of the whole run."""
        return self._picture

    def _repr_html_(self) -> str:
        return ResultCell(
            f"{self._title}: {self.document.about}", self.sentences, (), self._picture,
            "Decisions", _TimelineRows.COLUMNS, _TimelineRows(self.document.events).shown(), opened=True,
        ).html()  # fmt: skip


class LedgerResult(Result[dict[str, float]]):
    """The bill of the run as recorded: executor-seconds, from request to end, by cause; each second has one cause."""

    def __init__(self, account: RunAccount) -> None:
        super().__init__({cause.value: ms / 1000 for cause, ms in account.bill.items() if ms})
        self._account = account

    @property
    def rows(self) -> list[Row]:
        """A row for each cause, the largest first."""
        whole_s = self._account.billed_ms / 1000
        return [
            {"cause": cause, "executor_seconds": seconds, "share": seconds / whole_s if whole_s else 0.0}
            for cause, seconds in sorted(self.document.items(), key=lambda item: -item[1])
        ]

    @property
    def sentences(self) -> list[str]:
        """The largest causes, and what tasks waited for."""
        return bill_sentences(self._account)

    def plot(self) -> Picture:
        """The bill as a bar."""
        bar = Bar(AS_RECORDED, self.document, f"{whole(self._account.billed_ms / 1000)} executor-seconds")
        title = "Where every executor-second went"
        return amounts_drawing(
            Amounts(title, title, "Executor-seconds by cause.", "Cause", [bar], [bar], CAUSES, CAUSES, whole)
        )

    def _repr_html_(self) -> str:
        rows = [(one["cause"], whole(one["executor_seconds"]), f"{one['share']:.1%}") for one in self.rows]
        title = self._account.name or self._account.id or "an application"
        columns = ("Cause", "Executor-seconds", "Share")
        return ResultCell(
            title, self.sentences, (), self.plot(), "The bill by cause", columns, rows, opened=True
        ).html()


_RUN_COLUMNS: Final = (
    "runtime_s", "executor_seconds", "billed_seconds", "core_hours", "gb_hours", "cost", "peak_executors", "waited_s",
)  # fmt: skip


class _SimulatedResult(Result[Document]):
    """What what-ifs and tunes share: a row for the record, for its simulation, and for each config."""

    @property
    def rows(self) -> list[Row]:
        """What happened, the same simulated, and each config; ranges are 90% prediction intervals."""
        recorded, own = self.document.recorded, self.document.self_replay
        first = {
            **_row_of(own),
            **{key: getattr(recorded, key, None) for key in _RUN_COLUMNS},
            "name": AS_RECORDED, "runtime_low_s": None, "runtime_high_s": None, "unfinished": None,
        }  # fmt: skip
        picked = self.document.recommendation.name if self.document.recommendation else None
        made = [first, *map(_row_of, (own, *self.document.variants))]
        return [{**row, "recommended": row["name"] == picked and picked is not None} for row in made]

    @property
    def sentences(self) -> list[str]:
        """What happened, what it cost, why, what to change, and how sure that is."""
        return repr(WhatIf(self.to_dict())).splitlines()

    def to_dict(self) -> dict[str, Any]:
        """The document as ``--json`` prints it."""
        made: dict[str, Any] = with_plain_keys(builtins(self.document))
        return made

    def report(self) -> str:
        """The whole report as one HTML page; write it to a file or show it in a frame."""
        return WhatIf(self.to_dict()).report()

    def _repr_html_(self) -> str:
        return WhatIf(self.to_dict())._repr_html_()


def _row_of(run: RunEntry) -> Row:
    low, high = run.runtime_range_s or (None, None)
    figures = {key: getattr(run, key) for key in _RUN_COLUMNS}
    conf = ", ".join(f"{key}={'' if value is None else value}" for key, value in run.conf.items())
    return {
        "name": run.name, "conf": conf, "static": run.static, **figures, "runtime_low_s": low, "runtime_high_s": high,
        "unfinished": run.unfinished,
    }  # fmt: skip


def _row_of_point(setting: str, point: PointEntry) -> Row:
    low, high = point.runtime_range_s or (None, None)
    static = setting == "static"
    return {
        **dict.fromkeys(("name", "conf", "static", *_RUN_COLUMNS)),
        "name": f"{'static' if static else setting.rpartition('.')[2]} {point.executors}",
        "conf": "" if static else f"{setting}={point.executors}",
        "static": point.executors if static else None,
        "runtime_s": point.runtime_s, "executor_seconds": point.executor_seconds, "cost": point.cost,
        "peak_executors": point.peak_executors, "runtime_low_s": low, "runtime_high_s": high,
        "unfinished": point.unfinished, "recommended": False,
    }  # fmt: skip


class WhatIfResult(_SimulatedResult):
    """The same application under other configs; without a variant, under other counts of executors."""

    @property
    def rows(self) -> list[Row]:
        """What happened, the same simulated, and each config or count; ranges are 90% prediction intervals."""
        curves = self.document.overview.curves if self.document.overview is not None else ()
        return super().rows + [_row_of_point(curve.setting, one) for curve in curves for one in curve.points]

    def plot(self) -> Picture:
        """The bill of each config by cause; without a variant, run time and price over counts of executors."""
        if self.document.overview is not None and self.document.overview.curves:
            return counts_drawing(self.document)
        return amounts_drawing(ledger_of(self.document))


class TuneResult(_SimulatedResult):
    """The settings that cost least within a time. ``settings``: what to set; None unsets, {} where nothing is worth it."""

    @property
    def settings(self) -> dict[str, str | None]:
        """What is recommended."""
        advice = self.document.recommendation
        return {} if advice is None or advice.name is None else dict(advice.conf)

    def plot(self) -> Picture:
        """Time against money, with the frontier."""
        return frontier_drawing(self.document)


class CompareResult(Result[ComparisonDocument]):
    """Why this run took longer, or less long, than the other one. The table has a row for each cause."""

    @property
    def rows(self) -> list[Row]:
        """The causes; their seconds sum to the difference of the run times."""
        return [
            {
                "cause": one.cause,
                "title": titled(one),
                "runtime_s": one.runtime_s,
                "share": one.share,
                "evidence": "; ".join(map(evidence, one.evidence)),
            }
            for one in self.document.causes
        ]

    @property
    def sentences(self) -> list[str]:
        """How much longer, and mostly why."""
        return [headline(self.document)]

    def plot(self) -> Picture:
        """From one run time to the other, a step for each cause."""
        return waterfall_drawing(self.document)

    def report(self) -> str:
        """The whole page as HTML; write it to a file or show it in a frame."""
        return comparison_page.render(self.document)

    def _repr_html_(self) -> str:
        document = self.document
        rows = [(one.title, one.seconds, "; ".join(one.seen)) for one in comparison_page.causes(document)]
        columns = ("Cause", "Seconds", "What is seen")
        title = document.second.name or document.second.id or "two runs"
        figures = comparison_page.key_figures(document)
        return ResultCell(
            title,
            self.sentences,
            figures,
            self.plot(),
            "The causes; they sum to the difference",
            columns,
            rows,
            opened=True,
        ).html()


def settings_of(given: Mapping[str, object]) -> dict[str, str | None]:
    """Settings as Spark writes them: True is ``true``, None unsets."""
    return {key: _written(value) for key, value in given.items()}


def _written(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return str(value).lower() if isinstance(value, bool) else str(value)
