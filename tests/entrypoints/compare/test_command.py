"""``podtide compare`` as its user meets it."""

from __future__ import annotations

from pathlib import Path

import pytest

from podtide.domain.comparison.causes import ChangeCause
from scripts.make_compared_logs import APPLICATION, COMPARED
from tests.support import commands
from tests.support.event_log_lines import START, begun, executor, line, written
from tests.support.schemas import validate
from tests.support.stall_logs import M, S, ghost, nothing_starts

BASE = COMPARED / APPLICATION / "base" / "run1" / "log"
AGAIN = COMPARED / APPLICATION / "base_again" / "run1" / "log"
MORE = COMPARED / APPLICATION / "more_data" / "run1" / "log"
SKEWED = COMPARED / APPLICATION / "skewed_key" / "run1" / "log"
PRICE = ("--price", "core-hour=0.04,gb-hour=0.005")


def asked(*arguments: str | Path) -> commands.Answer:
    return commands.answer("compare", *arguments)


def test_the_first_lines_answer() -> None:
    found = asked(BASE, SKEWED)
    assert found.code == 0
    assert "longer (+85%), because of skew (+" in found.words
    assert "records read by the longest task" in found.words
    assert "spark.nightly.skew unset → yes" in found.words
    assert not found.err


def test_the_document_is_what_the_schema_says_and_sums() -> None:
    found = commands.document("compare", BASE, MORE, *PRICE)
    validate(found, "compare")
    change = found["change"]
    assert sum(one["runtime_s"] for one in found["causes"]) == pytest.approx(change["runtime_s"], abs=1e-3)
    assert sum(one["cost"] for one in found["bill"]) == pytest.approx(change["cost"])
    assert change["unit"] == "USD"
    assert found["causes"][0]["cause"] == ChangeCause.INPUT.value
    for run, ledger in (("first", "before_s"), ("second", "after_s")):
        assert sum(one[ledger] for one in found["ledger"]) == pytest.approx(found[run]["billed_seconds"])


def test_more_than_two_logs_are_a_baseline_and_its_noise() -> None:
    found = commands.document("compare", AGAIN, BASE, AGAIN, BASE, AGAIN, SKEWED)
    assert found["baseline"]["runs"] == 5
    assert found["change"]["noise"] == pytest.approx(0.19, abs=0.05)  # the base's two runs are so far apart
    assert not found["change"]["within_noise"]
    assert "this may be noise" in asked(AGAIN, BASE, AGAIN, BASE, AGAIN, BASE).words


@pytest.mark.parametrize(
    ("gate", "code"), [("runtime>+20%", 1), ("runtime>+2h", 0), ("cost>+1%", 1), ("peak_executors>+1", 0)]
)
def test_gates(gate: str, code: int) -> None:
    found = asked(BASE, MORE, "--fail-if", gate, *PRICE)
    assert found.code == code
    assert f"{'fails' if code else 'holds'} {gate}" in found.words


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ((BASE,), 2, "1 logs: expected 2 to 11"),
        ((BASE, MORE, "--fail-if", "cost>+2%"), 2, "asks for money: expected --price"),
        ((BASE, MORE, "--fail-if", "requests>2"), 2, "expected one of billed_seconds, cost"),
        ((BASE, MORE, "--fail-if", "time>2"), 2, "--fail-if '⟨here⟩time>2': expected one of"),
        (("-", "-"), 2, "standard input (-) can only be one of the logs"),
        ((BASE, "nowhere"), 3, "podtide: nowhere: there is no such file or folder"),
        ((BASE, MORE, "--report", "/nowhere/at/all.html"), 2, "expected a file in a folder that exists"),
    ],
)
def test_refusals(arguments: tuple[str | Path, ...], code: int, message: str) -> None:
    found = asked(*arguments)
    assert found.code == code
    assert message in found.err
    assert not found.out


def test_a_log_in_which_no_task_ended_is_refused(tmp_path: Path) -> None:
    log = written(tmp_path, [*begun(), executor("1", 10), line("ApplicationEnd", Timestamp=START + 100)])
    found = asked(BASE, log)
    assert found.code == 3
    assert "no task in it" in found.err
    (tmp_path / "hung").mkdir()
    found = asked(BASE, written(tmp_path / "hung", ghost(20 * S)))
    assert "no task in it: there is nothing to run again; nothing moved for 19m 59s: ghost executor" in found.err


def test_a_stall_is_a_cause_with_what_to_do(tmp_path: Path) -> None:
    for name, pause in (("fast", S), ("hung", 6 * M)):
        (tmp_path / name).mkdir()
        written(tmp_path / name, nothing_starts(pause))
    fast, hung = (next((tmp_path / name).iterdir()) for name in ("fast", "hung"))
    page = tmp_path / "page.html"
    found = commands.document("compare", fast, hung, "--report", page)
    validate(found, "compare")
    assert found["causes"][0]["cause"] == ChangeCause.STALL.value
    assert found["causes"][0]["details"] == {"driver does nothing": 359.0}
    (stall,) = found["second"]["stalls"]
    assert (stall["cause"], stall["began_s"], stall["ended_s"], stall["lasts"]) == (
        "driver does nothing",
        4.0,
        365.0,
        False,
    )
    words = asked(fast, hung).words
    assert "because of nothing moved: driver does nothing (+5m59s)" in words
    assert "second run: driver does nothing at 0:04 for 6m01s Tasks wait, executors are free" in words
    assert "thread dump of the driver" in page.read_text()


def test_the_page_loads_nothing_and_escapes_what_logs_say(tmp_path: Path) -> None:
    report = tmp_path / "compare.html"
    assert asked(BASE, SKEWED, "--report", report).code == 0
    page = report.read_text(encoding="utf-8")
    assert 'content="default-src &#x27;none&#x27;' in page.replace("&#39;", "&#x27;")
    assert "src=" not in page
    assert page.count("skew") > 2
