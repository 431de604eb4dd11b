"""The report as a text: whole, small, escaped, and closed to everything outside."""

from __future__ import annotations

import base64
import copy
import hashlib
import json
import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from podtide.adapters.recording.records.decision_file import DecisionFileError, put_file
from podtide.adapters.views.report.markup import MARKS_MAX, data, element, name, pasted, visible
from podtide.adapters.views.report.notebook import SCOPE, WhatIf
from podtide.adapters.views.report.page import SIZE_MAX, render
from podtide.adapters.views.whatif.model import DocumentError
from tests.support import report_sample as sample

VOID = {"meta", "link", "br", "wbr"}
HOSTILE = (
    "<script>alert(1)</script>", "</title><script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "' onload='alert(1)",
    "</script><script>alert(1)//", "<!--", "]]>", "&lt;b&gt;", "\x00\x1b[2J\x7f", "\u202eevil\u2066",
    "\ud800", "a\u0301" * 3 + "\u0301" * 90,
    "x" * 5_000, "مرحبا", "${alert(1)}", "javascript:alert(1)", "\u2028\u2029",
)  # fmt: skip


class Page(HTMLParser):
    """What a parser finds: elements in balance, attributes, texts, scripts."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: Counter[str] = Counter()
        self.attributes: list[tuple[str, str, str]] = []
        self.scripts: list[tuple[dict[str, str], str]] = []
        self.headings: list[str] = []
        self.texts: list[str] = []
        self._held: dict[str, str] | None = None
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        values = {key: value or "" for key, value in attrs}
        self.attributes += [(tag, key, value) for key, value in values.items()]
        assert len(values) == len(attrs), f"an attribute twice: {attrs}"
        if tag not in VOID:
            self.open.append(tag)
        if tag == "script":
            self._held = values
            self.scripts.append((values, ""))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, text: str) -> None:
        if self.open and self.open[-1] == "script":
            held, before = self.scripts[-1]
            self.scripts[-1] = (held, before + text)
        elif self.open and self.open[-1] != "style":
            self.texts.append(text)
            if self.open[-1] in ("h1", "h2", "h3"):
                self.headings.append(text)

    def having(self, key: str) -> list[str]:
        return [value for _, one, value in self.attributes if one == key]


@pytest.fixture(scope="module")
def large() -> str:
    return render(sample.document())


@pytest.fixture(scope="module")
def small() -> dict[str, Any]:
    """A tune, which has every section; few points, so that it can be rendered often."""
    made = sample.tune_document(3)
    for run in (made["self_replay"], *made["variants"]):
        for key, most in (("curve", 20), ("decisions", 6), ("stages", 15)):
            run[key] = run.get(key, [])[:most]
    made["recorded"]["curve"] = made["recorded"]["curve"][:20]
    return made


def test_a_large_application_stays_below_the_limit(large: str) -> None:
    assert len(large.encode()) < SIZE_MAX
    assert "12 longest of 400 stages" in large
    assert "300 of 2,000" in large


def test_the_order_is_what_happened_what_it_cost_why_what_to_change(large: str) -> None:
    headings = Page(large).headings
    asked = ["What happened", "What it cost", "Why", "What to change", "How sure we are", "How it was computed"]
    places = [headings.index(one) for one in asked]
    assert places == sorted(places)
    assert headings[0] == "In short"


def test_nothing_comes_from_outside_and_only_its_own_script_runs(large: str) -> None:
    page = Page(large)
    policy = page.having("content")[0]
    assert policy == page.attributes[page.attributes.index(("meta", "http-equiv", "Content-Security-Policy")) + 1][2]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    running = [text for attributes, text in page.scripts if "type" not in attributes]
    assert len(running) == 1
    style = re.search(r"<style>(.*?)</style>", large, re.DOTALL)
    assert style is not None
    for kind, text in (("script", running[0]), ("style", style[1])):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    links = [value for key in ("src", "href", "action", "data", "poster", "xlink:href") for value in page.having(key)]
    assert all(link.startswith(("#", "data:image/svg+xml,")) for link in links)
    assert page.having("style") == []
    assert not [key for _, key, _ in page.attributes if key.startswith("on")]
    assert re.findall(r"url\((?!#)", large) == []
    assert "@import" not in large


def test_figures_for_the_script_are_json_that_is_never_run(large: str) -> None:
    figures = [(attributes, json.loads(text)) for attributes, text in Page(large).scripts if "type" in attributes]
    assert len(figures) == 6
    for attributes, one in figures:
        assert attributes["type"] == "application/json"
        assert all(len(values) == len(one["t"]) for _, values in one["s"])
        assert len(one["t"]) <= 600


def test_names_within_the_page_are_one_each_and_lead_somewhere(small: dict[str, Any]) -> None:
    page = Page(render(small))
    identities = page.having("id")
    assert len(identities) == len(set(identities))
    pointed = [value.removeprefix("#") for value in page.having("href") if value.startswith("#")]
    pointed += page.having("aria-labelledby") + page.having("data-chart") + page.having("data-copy")
    assert set(pointed) <= set(identities)


def test_tables_have_captions_and_marks_have_words(small: dict[str, Any]) -> None:
    page = Page(render(small))
    assert page.tags["caption"] == page.tags["table"] > 5
    assert page.tags["main"] == page.tags["h1"] == page.tags["header"] == page.tags["footer"] == 1
    images = sum(1 for value in page.having("role") if value == "img")
    assert images
    assert all(page.having("aria-label"))
    assert page.attributes[0] == ("html", "lang", "en")
    assert page.having("class").count("skip") == 1


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_no_name_does_harm(small: dict[str, Any], text: str) -> None:
    honest, hostile = Page(render(named(small, "honest"))), Page(render(named(small, text)))
    for page in (honest, hostile):
        del page.tags["text"], page.tags["wbr"]  # labels of a drawing that fit, and places where a name may break
    assert hostile.tags == honest.tags
    assert sorted({key for _, key, _ in hostile.attributes}) == sorted({key for _, key, _ in honest.attributes})
    assert len(hostile.scripts) == len(honest.scripts)
    shown = (*hostile.texts, *hostile.having("aria-label"), *hostile.having("data-label"))
    assert [one for one in shown if not one.replace("\n", "").isprintable()] == []


@settings(max_examples=25)
@given(st.text(max_size=60))
def test_no_text_does_harm(text: str) -> None:
    bare: dict[str, Any] = {"recorded": {"runtime_s": 1, "executor_seconds": 1, "peak_executors": 1}}
    bare["self_replay"] = {"name": "as simulated", "runtime_s": 1, "executor_seconds": 1, "error": {}}
    one = bare["self_replay"] | {
        "stages": [{"stage": 1, "name": text, "completed_s": 1}],
        "ledger": {text: 1.0, "running": 1.0},
    }
    made = bare | {
        "app": {"name": text, "id": text},
        "self_replay": one,
        "variants": [one | {"name": text, "conf": {text: text}}],
    }
    page = Page(render(made))
    assert page.tags["bdi"] >= 3
    assert len(page.scripts) == 1
    Page(f"<body>{WhatIf(made)._repr_html_()}</body>")


def named(document: dict[str, Any], text: str) -> dict[str, Any]:
    """The document with the text wherever a stranger could have put it."""
    made = copy.deepcopy(document)
    made["app"] |= {"name": text, "id": text, "spark_version": text, "log": text}
    made["unknowns"] = [{"what": text, "effect": text} for _ in made["unknowns"]]
    made["notes"] = [text + "!" for _ in made["notes"]]
    made["prices"]["currency"] = text
    for run in (made["self_replay"], *made["variants"]):
        run["conf"] = {f"{key}{text}": text for key in run["conf"]}
        for stage in run["stages"]:
            stage["name"] = text
        for decision in run["decisions"]:
            decision["executors"] = [text for _ in decision["executors"]]
            decision["facts"] = {**decision["facts"], text: text, "bound": text}
            decision["cause"] = text
        for amounts in (run["ledger"], run["waiting"]):
            amounts[text] = amounts.pop("other")
    picked = made["recommendation"]
    front = dict.fromkeys(made["frontier"])
    for index, run in enumerate(made["variants"]):
        new = f"{index}{text}"
        if run["name"] in front:
            front[run["name"]] = new
        if run["name"] == picked["name"]:
            picked["name"] = new
        run["name"] = new
    made["frontier"] = [new for new in front.values() if new]
    picked["text"] = text
    picked["lines"] = {f"{index}{text}": f"key {text}" for index, _ in enumerate(picked["lines"])}
    made["knee"] = {"name": made["frontier"][0], "text": text, "lines": {text: f"key {text}"}, "caveats": [text]}
    made["searched"]["space"] = {f"{index}{text}": [text] for index, _ in enumerate(made["searched"]["space"])}
    return made


def test_secrets_in_a_variant_are_not_shown(small: dict[str, Any]) -> None:
    made = copy.deepcopy(small)
    made["variants"][0]["conf"] = {"spark.my.password": "hunter2", "spark.x": None}
    text = render(made)
    assert "hunter2" not in text
    assert "(redacted)" in text
    assert "unset" in text


def test_the_least_document_makes_a_page() -> None:
    bare: dict[str, Any] = {"recorded": {"runtime_s": 0, "executor_seconds": 0, "peak_executors": 0}}
    bare["self_replay"] = {"name": "as simulated", "runtime_s": 0, "executor_seconds": 0, "error": {}}
    page = Page(render(bare))
    assert "In short" in page.headings
    assert "No other config was asked for." in "".join(page.texts)


def test_a_model_that_does_not_fit_says_so_first(small: dict[str, Any]) -> None:
    text = render(small | {"max_error": 0.01})
    assert "does not fit this run" in text
    assert "stage 3 is far off" in render(small | {"refused": ["stage 3 is far off"]})


def test_what_is_unfinished_is_not_drawn_on_the_frontier(small: dict[str, Any]) -> None:
    made = copy.deepcopy(small)
    made["variants"][0] |= {"unfinished": "stage 3 failed four times"}
    assert "1 config not drawn" in render(made)
    assert "Does not come to its end: stage 3 failed four times" in render(made)


def test_without_prices_there_is_no_money(small: dict[str, Any]) -> None:
    made = copy.deepcopy(small) | {"prices": None, "measure": "core_hours"}
    for one in (made["recorded"], made["self_replay"], *made["variants"]):
        one["cost"] = one["cost_range"] = None
    text = render(made)
    assert not re.search(r"[$]\d+[.]", text)
    assert "Run time against core-hours" in text


def test_many_variants_are_cut_and_counted() -> None:
    made = sample.tune_document(1_000)
    text = render(made)
    assert len(text.encode()) < SIZE_MAX
    assert "more in the JSON document" in text


def test_runs_of_a_tune_have_a_row_each(small: dict[str, Any]) -> None:
    run = {"id": "app-7", "runtime_s": 60, "executor_seconds": 90, "error": {"runtime": 0.02}}
    advised = run | {"recommended": {"runtime_share": 0.05, "price_share": -0.2}}
    text = render(small | {"runs": [advised, advised], "unusable": [{"log": "x.zstd", "why": "no tasks"}]})
    assert "Run by run" in text
    assert "x.zstd: no tasks" in text


def test_a_report_is_written_whole_or_not_at_all(tmp_path: Path, small: dict[str, Any]) -> None:
    place = tmp_path / "report.html"
    put_file(render(small).encode(), str(place))
    assert place.read_text(encoding="utf-8") == render(small)
    with pytest.raises(DecisionFileError, match=r"nowhere.*cannot be written"):
        put_file(render(small).encode(), str(tmp_path / "nowhere" / "report.html"))
    with pytest.raises(DocumentError):
        put_file(render({}).encode(), str(place))
    assert place.read_text(encoding="utf-8") == render(small)
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_a_notebook_shows_the_same_without_a_script(small: dict[str, Any]) -> None:
    found = WhatIf(small)
    html = found._repr_html_()
    page = Page(html)
    assert page.scripts == []
    assert page.having("id") == [one for one in page.having("id") if one.startswith("pt-")]
    assert page.having("tabindex") == []
    assert html.startswith(f'<div class="{SCOPE}">')
    for sentence in repr(found).splitlines()[1:]:
        assert sentence in "".join(page.texts)
    assert found.report() == render(small)


def test_markup_is_escaped_by_construction() -> None:
    assert element("p", "<b>", title='"<') == '<p title="&quot;&lt;"><b>'.replace("<b>", "&lt;b&gt;") + "</p>"
    assert (
        element("td", element("b", "x"), None, hidden=True, role=None, data_x=1.50)
        == '<td hidden="" data-x="1.5"><b>x</b></td>'
    )
    assert element("br") == "<br>"
    assert name("<\u202e") == "<bdi>&lt;\\u202e</bdi>"
    assert pasted("a\tb\r\n<c>\x1b") == "a    b\n&lt;c&gt;\\x1b"
    assert json.loads(
        data({"x": "</script><!--&"}, "d")[len('<script type="application/json" id="d">') : -len("</script>")]
    ) == {"x": "</script><!--&"}
    assert data(["</script>"], "d").count("</script>") == 1
    assert len(visible("e" + "\u0301" * 50)) == 1 + MARKS_MAX + 1
