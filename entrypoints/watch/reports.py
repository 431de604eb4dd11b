"""A worker's work: the report of one run (``adapters.views.report``), with the setting that its history says saves most."""

from __future__ import annotations

import json

from returns.pipeline import is_successful

from podtide.adapters.eventlog.bytes.errors import LogError
from podtide.adapters.eventlog.bytes.source import open_log
from podtide.adapters.history.site.shelf import FAILED, MADE
from podtide.adapters.views.report.page import render
from podtide.adapters.views.whatif.document import WhatIfRequest, document
from podtide.domain.rerun.plan import Variant
from podtide.domain.whatif.prices import Prices
from podtide.domain.whatif.summary import SEEDS
from podtide.entrypoints.whatif.recorded_log import NothingToRun, read_application
from podtide.entrypoints.whatif.run import ask, refusal, study


def report(prices: Prices | None, request: bytes) -> bytes:
    """``MADE`` and the page, or ``FAILED`` and why there is none. ``request``: the log's place, and the name, the settings
    and the static count of the setting to compare with (null without one), as JSON."""
    place, best, conf, static = json.loads(request)
    try:
        with open_log(place) as source:
            application = read_application(source).application
    except (LogError, NothingToRun) as problem:
        return FAILED + str(problem).encode("utf-8", "replace")
    made = study(application, seeds=SEEDS)
    if not is_successful(made):
        return FAILED + "; ".join(map(str, made.failure())).encode("utf-8", "replace")
    found = made.unwrap()
    refused = refusal(found)
    answers = []
    if best is not None and not refused:
        answer = ask(found, Variant(best, {} if static is not None else conf or {}, static))
        answers = [answer.unwrap()] if is_successful(answer) else []
    wish = WhatIfRequest(place, prices, seeds=SEEDS, notes=found.conf.notes, refused=refused)
    whole = document(application, found.conf.conf, found.replay, found.error, answers, wish)
    return MADE + render(whole).encode("utf-8", "backslashreplace")
