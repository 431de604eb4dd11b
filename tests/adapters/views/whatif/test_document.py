"""The document of a what-if: its schema, its figures, its bounds."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings, strategies as st
from returns.pipeline import is_successful

from podtide.adapters.views.whatif import document as document_module
from podtide.adapters.views.whatif.document import DECISIONS_MAX, WhatIfRequest, document
from podtide.adapters.views.whatif.model import Document, builtins, read
from podtide.domain.recorded.application import Application
from podtide.domain.rerun.outcome import CurvePoint, Decision, RerunOutcome
from podtide.domain.rerun.plan import AS_SIMULATED, Faults, Variant
from podtide.domain.whatif.planning import plan, recorded_conf
from podtide.domain.whatif.prediction import Certainty, Factors
from podtide.domain.whatif.prices import Prices
from podtide.domain.whatif.summary import VariantAnswer, answer, own_error
from tests.support.project import PROJECT
from tests.support.whatif_play import YARN, application, outcome

SCHEMA = json.loads((PROJECT / "docs" / "schema" / "whatif.json").read_text())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
PRICES = Prices(0.04, 0.005, spot_share=0.5, spot_discount=0.5, currency="EUR")


def answered(app: Application, variant: Variant, *outcomes: RerunOutcome) -> VariantAnswer:
    made = plan(app, recorded_conf(app).unwrap().conf, variant)
    assert is_successful(made), made.failure()
    sure = Factors(0.9, 0.95, 1.1, 1.2)
    return replace(answer(variant, made.unwrap(), outcomes or (outcome(),)), certainty=Certainty(sure, sure))


def printed(document: Document) -> dict[str, Any]:
    found = json.loads(json.dumps(builtins(document)))
    assert isinstance(found, dict)
    return found


def made(
    app: Application | None = None,
    *answers: VariantAnswer,
    prices: Prices | None = None,
    replay: RerunOutcome | None = None,
    **asked: Any,
) -> dict[str, Any]:
    app = application() if app is None else app
    again = answered(app, Variant(AS_SIMULATED), replay or outcome())
    conf = recorded_conf(app).unwrap().conf
    error = own_error(app, again.typical)
    found = printed(document(app, conf, again, error, answers, WhatIfRequest("a.log", prices, **asked)))
    VALIDATOR.validate(found)
    assert printed(read(found)) == found, "what is printed can be read again"
    return found


def test_money_only_where_there_are_prices() -> None:
    app = application()
    found = made(app, answered(app, Variant("v", static=2)))
    assert found["prices"] is None
    assert (found["recorded"]["cost"], found["variants"][0]["cost"], found["variants"][0]["cost_range"]) == (None,) * 3
    paid = made(app, answered(app, Variant("v", static=2)), prices=PRICES)
    used = paid["recorded"]
    assert used["cost"] == pytest.approx((used["core_hours"] * 0.04 + used["gb_hours"] * 0.005) * 0.75, abs=1e-6)
    low, high = paid["variants"][0]["cost_range"]
    assert low <= paid["variants"][0]["cost"] <= high


def test_what_a_variant_is_made_of() -> None:
    app = application()
    changes: dict[str, str | None] = {"spark.dynamicAllocation.minExecutors": None, "spark.executor.cores": "4"}
    one = answered(app, Variant("v", changes, None, Faults(0.5, 30_000, 7)))
    other = answered(app, Variant("w", static=3))
    found = made(app, one, other)["variants"]
    assert found[0]["conf"] == changes
    assert found[0]["faults"] == {"spot_per_hour": 0.5, "start_extra_s": 30.0, "quota": 7}
    assert (found[1]["static"], found[1]["faults"]) == (3, None)
    assert any("unsetting it changes nothing" in note for note in found[0]["notes"])


def test_secrets_are_not_shown() -> None:
    app = application({**YARN, "spark.redaction.regex": "(?i)private"})
    found = made(app, answered(app, Variant("v", {"spark.my.private.key": "hush", "spark.my.password": "hush"})))
    assert "hush" not in json.dumps(found)


def test_the_log_is_shown_without_its_signature() -> None:
    app = application()
    again = answered(app, Variant(AS_SIMULATED))
    conf = recorded_conf(app).unwrap().conf
    asked = WhatIfRequest("https://me:secret@host/log?sig=abc")
    found = document(app, conf, again, own_error(app, again.typical), (), asked)
    assert "secret" not in found.app.log
    assert "abc" not in found.app.log


CURVE_MAX = 100  # as the document's own bound of 2,000, which takes a second to hold against the schema


@settings(max_examples=20)
@given(st.integers(CURVE_MAX + 1, 3 * CURVE_MAX), st.lists(st.integers(0, 3 * CURVE_MAX), max_size=9))
def test_a_long_curve_is_thinned_and_keeps_its_peak_and_its_end(length: int, spikes: list[int]) -> None:
    running = [5 + 100 * spikes.count(place) for place in range(length)]
    points = tuple(CurvePoint(at, 0, 0, 0, count, 0) for at, count in enumerate(running))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(document_module, "CURVE_MAX", CURVE_MAX)
        curve = made(replay=replace(outcome(), curve=points))["self_replay"]["curve"]
    assert len(curve) <= CURVE_MAX + 2
    assert max(point[4] for point in curve) == max(running)
    assert curve[-1][0] == round((len(running) - 1) / 1000, 3)
    assert [point[0] for point in curve] == sorted(point[0] for point in curve)


def test_facts_are_in_an_order_that_no_hash_decides() -> None:
    assert list(made(replay=outcome())["self_replay"]["decisions"][0]["facts"]) == ["need", "pending_tasks"]


def test_decisions_beyond_the_bound_are_counted() -> None:
    many = tuple(Decision(at, "target", "backlog", {}, 0, at, at + 1) for at in range(DECISIONS_MAX + 7))
    found = made(replay=replace(outcome(), decisions=many))["self_replay"]
    assert (len(found["decisions"]), found["decisions_left_out"]) == (DECISIONS_MAX, 7)


def test_a_run_that_does_not_end_says_so() -> None:
    app = application()
    found = made(app, answered(app, Variant("v", static=1), outcome(unfinished="no executor came")))
    assert found["variants"][0]["unfinished"] == "no executor came"
