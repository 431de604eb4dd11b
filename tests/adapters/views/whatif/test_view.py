"""The terminal view of a what-if: it tells what the document holds, in any width and encoding, and nothing escapes it."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from podtide.adapters.text.page import Page
from podtide.adapters.views.whatif.model import read
from podtide.adapters.views.whatif.view import BINS, WhatIfView, binned
from podtide.domain.rerun.plan import Faults, Variant
from podtide.domain.whatif.prices import Prices
from tests.adapters.views.whatif.test_document import answered, made
from tests.support.whatif_play import application, outcome


def shown(document: dict[str, Any], width: int = 100, encoding: str = "utf-8") -> str:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding, newline="\n")
    WhatIfView(Page(stream, width), read(document)).report()
    stream.flush()
    return raw.getvalue().decode(encoding)


def a_document(**rest: Any) -> dict[str, Any]:
    app = application()
    changes: dict[str, str | None] = {"spark.dynamicAllocation.maxExecutors": "40", "spark.executor.cores": None}
    variants = (
        answered(app, Variant("wide", changes), outcome(12_000)),
        answered(app, Variant("static 2", static=2), outcome(26_000, 40_000)),
        answered(app, Variant("faults", {}, None, Faults(0.5)), replace(outcome(), executors_lost=3, tasks_again=9)),
    )  # fmt: skip
    return made(app, *variants, **rest)


def test_the_sections_in_the_order_of_the_questions() -> None:
    text = shown(a_document())
    order = [
        "nightly  app-1", "What happened", "Executors  as simulated", "How sure", "Variants",
        "Where the executor-seconds went", "What tasks waited for", "What the log does not tell", "Notes",
    ]  # fmt: skip
    places = [text.index(words) for words in order]
    assert places == sorted(places)


@pytest.mark.parametrize(
    "words",
    [
        "Ran 20 s on up to 2 executors",
        "as recorded",
        "as simulated",
        "12 s −40%",
        "26 s +30%",
        "dynamicAllocation.maxExecutors 40",
        "executor.cores unset",
        "2 executors from the start, no dynamic allocation",
        "executors lost",
        "tasks run again",
        "running",
        "start-up",
        "Tasks waited 2.5 s for executors",
        "block updates: what is cached where is a guess",
        "wide: spark.executor.cores",
    ],
)
def test_what_is_told(words: str) -> None:
    assert words in shown(a_document())


def test_money_is_told_where_there_are_prices() -> None:
    assert "money" not in shown(a_document())
    assert "€" in shown(a_document(prices=Prices(0.04, 0.005, currency="EUR")))


def test_a_difference_within_the_range_is_marked() -> None:
    app = application()
    close = answered(app, Variant("close", static=2), outcome(19_900), outcome(20_100))
    row = next(line for line in shown(made(app, close)).split("\n") if line.startswith("  run time"))
    assert row.endswith("19.9 s −0.5% ~")


def test_without_variants_it_says_what_happened() -> None:
    text = shown(made())
    assert "Variants" not in text
    assert "Where the executor-seconds went" in text


def test_a_variant_that_does_not_end() -> None:
    app = application()
    stuck = answered(app, Variant("stuck", static=1), outcome(unfinished="no executor came"))
    assert "stuck does not come to its end: no executor came" in shown(made(app, stuck))


def test_why_it_is_refused() -> None:
    assert "! stage 7 is farthest off" in shown(made(refused=("stage 7 is farthest off",)))


def test_many_variants_stand_in_blocks() -> None:
    app = application()
    many = [answered(app, Variant(f"static {count}", static=count)) for count in range(1, 20)]
    text = shown(made(app, *many), 80)
    assert text.count("run time") > 3
    assert all(f"static {count}" in text for count in range(1, 20))


def test_nothing_that_waited_and_nothing_billed() -> None:
    calm = replace(outcome(), waited_ms=0, waiting={}, billed_ms=0, ledger={}, billed_by_profile={}, curve=())
    text = shown(made(replay=calm))
    assert "What tasks waited for" not in text
    assert "Where the executor-seconds went" not in text


@settings(max_examples=50)
@given(
    st.lists(
        st.tuples(st.integers(0, 100_000), st.integers(0, 50)), min_size=1, max_size=60, unique_by=lambda one: one[0]
    ),
    st.integers(1, 120_000),
)
def test_binned_curves_keep_their_area(moves: list[tuple[int, int]], span_ms: int) -> None:
    moves.sort()
    curve = [(at / 1000, 0.0, 0.0, 0.0, float(count), 0.0) for at, count in moves]
    series = binned(curve, span_ms)
    ends = [at for at, _ in moves[1:]] + [span_ms]
    area = sum(
        count * max(0, min(end, span_ms) - min(at, span_ms)) for (at, count), end in zip(moves, ends, strict=True)
    )
    width, bins = series["width_ms"], series["mean"]
    lengths = [min(width, span_ms - place * width) for place in range(len(bins))]
    assert len(bins) <= BINS + 1
    assert sum(one[2] * length for one, length in zip(bins, lengths, strict=True)) == pytest.approx(area)
