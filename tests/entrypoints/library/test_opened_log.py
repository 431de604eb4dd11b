"""``podtide.open(log)`` as a script or a notebook meets it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import podtide
from podtide.entrypoints.library.errors import MissingExtra, ModelMisfit, PodtideError, UnreadableLog, WrongQuestion
from podtide.entrypoints.library.opened_log import OpenedLog
from podtide.entrypoints.library.results import Result
from scripts.make_compared_logs import APPLICATION, COMPARED
from tests.support import commands
from tests.support.project import DEMO
from tests.support.recordings import calm
from tests.support.whatif_log import write_log

ATTACK = '</style></svg><script>alert(1)</script><img src=x onerror="alert(2)">\u202e\x1b[2J'


@pytest.fixture(scope="module")
def demo() -> OpenedLog:
    return podtide.open(DEMO, processes=1)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> OpenedLog:
    conf = {"spark.master": "yarn", "spark.executor.instances": "2", "spark.executor.cores": "1"}
    log = write_log(tmp_path_factory.mktemp("logs") / "log", conf, name=ATTACK)
    return podtide.open(log, processes=1)


QUESTIONS: dict[str, Callable[[OpenedLog], Result[Any]]] = {
    "replay": lambda log: log.replay(),
    "explain": lambda log: log.explain(),
    "explain executor": lambda log: log.explain(executor=log.application.executors[0].executor),
    "explain moment": lambda log: log.explain(at=5),
    "ledger": lambda log: log.ledger(),
    "whatif": lambda log: log.whatif(static=1, seeds=1),
    "whatif without a variant": lambda log: log.whatif(seeds=1),
    "tune": lambda log: log.tune(budget=3, seeds=1),
    "compare": lambda log: log.compare(log),
}


class _Tags(HTMLParser):
    """The elements of a page, and the attributes that act."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.acting: set[str] = set()
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.acting |= {name for name, _ in attrs if name.startswith("on") or name in ("src", "href")}


@pytest.mark.parametrize("question", QUESTIONS)
def test_every_answer_has_a_table_a_picture_and_a_cell_that_nothing_breaks_out_of(
    hostile: OpenedLog, question: str
) -> None:
    found = QUESTIONS[question](hostile)
    keys = {tuple(row) for row in found.rows}
    assert len(keys) <= 1, "the same keys in each row"
    assert found.to_arrow().num_rows == len(found.to_pandas()) == len(found.rows)
    picture = ElementTree.fromstring(found.plot()._repr_svg_())
    assert not {one.tag.rpartition("}")[2] for one in picture.iter()} & {"script", "image", "img", "a", "foreignObject"}
    page = _Tags(found._repr_html_())
    assert not page.tags & {"script", "img", "link", "iframe"}
    assert not page.acting
    assert "\x1b" not in repr(found)
    assert "\x1b" not in found._repr_html_()
    assert found.to_dict()


def test_a_replay_decides_what_the_command_prints(demo: OpenedLog) -> None:
    printed = commands.document("replay", DEMO)
    found = demo.replay()
    assert found.document.replayed.decisions == printed["replayed"]["decisions"]
    assert found.document.replayed.peak_target == printed["replayed"]["peak_target"] == 5
    raised = [row["after"] for row in found.rows if row["kind"] == "raised" and row["cause"] != "initial"]
    assert raised[:3] == [2, 4, 5]
    assert demo.replay({"spark.dynamicAllocation.maxExecutors": 3}).document.replayed.peak_target == 3


def test_whatif_and_tune_answer_as_the_commands(demo: OpenedLog) -> None:
    price = "core-hour=0.04"
    found = demo.whatif({"spark.dynamicAllocation.executorIdleTimeout": "2s"}, static=[3], price=price, seeds=2)
    printed = commands.document(
        "whatif", DEMO, "--set", "spark.dynamicAllocation.executorIdleTimeout=2s", "--static", "3", "--price", price,
        "--seeds", "2",
    )  # fmt: skip
    assert json.loads(json.dumps(found.to_dict()["variants"])) == printed["variants"]
    names = [row["name"] for row in found.rows]
    assert names == ["as recorded", "as simulated", "set", "static 3"]
    tuned = demo.tune(budget=10, seeds=2)
    assert tuned.settings == tuned.document.recommendation.conf  # type: ignore[union-attr]
    assert [row["name"] for row in tuned.rows if row["recommended"]] == [tuned.document.recommendation.name]  # type: ignore[union-attr]


def test_compare_tells_why_this_run_took_longer_than_the_other() -> None:
    folder = COMPARED / APPLICATION
    before, after = (podtide.open(folder / kind / "run1" / "log") for kind in ("base", "skewed_key"))
    found = after.compare(before)
    assert "longer (+85%), because of skew" in repr(found)
    assert found.rows[0]["cause"] == "skew"
    assert sum(row["runtime_s"] for row in found.rows) == pytest.approx(found.document.change.runtime_s, abs=1e-3)


def test_the_ledger_sums_to_the_bill(demo: OpenedLog) -> None:
    found = demo.ledger()
    assert sum(row["share"] for row in found.rows) == pytest.approx(1.0)
    assert sum(found.document.values()) == pytest.approx(demo.compare(demo).document.first.billed_seconds)


def test_a_story_of_an_executor_and_of_a_moment(demo: OpenedLog) -> None:
    story = demo.explain(executor=7)
    assert "It registered 0:48.9 after the start" in repr(story)
    assert "killed by driver" in repr(story)
    assert all("7" in row["executors"].split(", ") for row in story.rows)
    by_seconds, by_time = demo.explain(at=45), demo.explain(at=datetime(2026, 11, 21, 9, 45, 8, 463_000, tzinfo=UTC))
    assert "the target was 5" in repr(by_seconds)
    assert by_time.sentences == by_seconds.sentences


def test_a_recording_is_explained(tmp_path: Path) -> None:
    opened = podtide.open(calm(tmp_path / "recording.jsonl"))
    story = opened.explain(executor=7)
    assert "registers from 10.0.0." in " ".join(repr(story).split())
    with pytest.raises(WrongQuestion, match="is a recording, no event log: give executor or at"):
        opened.replay()


def test_errors_are_the_librarys_own(demo: OpenedLog, tmp_path: Path) -> None:
    wrong: list[tuple[type[PodtideError], str, Callable[[], object]]] = [
        (UnreadableLog, "nowhere: there is no such file", lambda: podtide.open("nowhere").replay()),
        (WrongQuestion, "names no executor 99; it names 0, 1, 2", lambda: demo.explain(executor=99)),
        (WrongQuestion, "is not in the log", lambda: demo.explain(at=1e6)),
        (WrongQuestion, "give executor or at", lambda: demo.explain(executor=1, at=1)),
        (WrongQuestion, "spark.executor.cores", lambda: demo.whatif({"spark.executor.cores": "many"})),
        (WrongQuestion, "static = 0: expected a whole number from 1", lambda: demo.whatif(static=0)),
        (WrongQuestion, "cheap: unknown key", lambda: demo.whatif(price="cheap=1")),
        (WrongQuestion, "maxExecutors", lambda: demo.replay({"spark.dynamicAllocation.maxExecutors": "-1"})),
        (ModelMisfit, "", lambda: demo.whatif(static=2, seeds=1, max_error=0.0)),
    ]
    for kind, text, question in wrong:
        with pytest.raises(kind) as refused:
            question()
        assert text in str(refused.value)
        assert refused.value.__cause__ is None


@pytest.mark.parametrize(("package", "method"), [("pandas", "to_pandas"), ("pyarrow", "to_arrow")])
def test_without_pandas_and_pyarrow_there_are_rows(
    demo: OpenedLog, package: str, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)  # what Python does where a package is not there
    found = demo.ledger()
    with pytest.raises(MissingExtra, match="pip install"):
        getattr(found, method)()
    assert found.rows


def test_a_picture_is_saved(demo: OpenedLog, tmp_path: Path) -> None:
    demo.replay().plot().save(tmp_path / "executors.svg")
    assert ElementTree.parse(tmp_path / "executors.svg").getroot().tag == "{http://www.w3.org/2000/svg}svg"
