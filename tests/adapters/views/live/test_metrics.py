"""Metrics: what a snapshot holds, under names that Prometheus likes, with few labels; dashboard and alerts use no others."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest
import yaml
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families

from podtide.adapters.kubernetes.api import CallSeen
from podtide.adapters.notices import Topic
from podtide.adapters.views.live.metrics import COUNTER, GAUGE, HISTOGRAM, METRICS, LiveMetrics
from podtide.adapters.views.live.status import About, HeldNow, LiveSnapshot, ProfileFigures, TotalFigures
from podtide.domain.base.units import DEFAULT_PROFILE
from podtide.domain.protocol.commands import Step
from podtide.domain.protocol.reasons import Threw
from podtide.domain.stalls.causes import StallCause
from podtide.domain.stalls.stalls import Stall
from tests.support.engine_play import config
from tests.support.live_play import ABOUT, START, HandClock, Seen, notice, tracker
from tests.support.project import PROJECT

DEPLOY = PROJECT / "deploy"
DASHBOARD: dict[str, Any] = json.loads((DEPLOY / "grafana" / "podtide.json").read_text())
ALERTS: dict[str, Any] = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yaml").read_text())
RULES = [rule for group in ALERTS["groups"] for rule in group["rules"]]

LABELS = {metric.name: set(metric.labels) for metric in METRICS}
EXPORTED = {
    name
    for metric in METRICS
    for name in (
        [f"{metric.name}_bucket", f"{metric.name}_sum", f"{metric.name}_count"]
        if metric.kind == HISTOGRAM
        else [metric.name]
    )
}

Values = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def scraped(snapshot: LiveSnapshot) -> Values:
    """A scrape, read as Prometheus reads it."""
    body, content_type = LiveMetrics(lambda: snapshot).page()
    assert content_type.startswith("text/plain")
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(body.decode())
        for sample in family.samples
    }


def value(values: Values, name: str, **labels: str) -> float | None:
    return values.get((name, tuple(sorted(labels.items()))))


def busy(about: About = ABOUT) -> LiveSnapshot:
    """A run of which everything is known."""
    clock = HandClock()
    told = tracker(clock, about)
    told.ask_for_stalls(lambda: (Stall(StallCause.DRIVER, DEFAULT_PROFILE, clock.at, True, {}),), dict)
    play = Seen(config(initial=0, allocation={"batch_size": 2}), clock, told)
    play.want(5, 1)
    play.show("Running", 1)
    play.register(1)
    for call in (
        CallSeen("create", "pods", 201, 0.02, 10, 20),
        CallSeen("create", "pods", 429, 0.3, 10, 20),
        CallSeen("list", "pods", None, 30.0, 0, 0),
    ):
        told.seen(call)
    for topic in (Topic.WATCHING, Topic.WATCH_BROKEN, Topic.LEASE_TAKEN, Topic.DRIVER_UNREACHABLE, Topic.DIFFERENCE):
        told.notify(notice(topic))
    told.roused()
    told.step(clock.at, (), _step(play))
    clock.at += 20
    told.resting()
    clock.at += 2_000
    return told.snapshot()


def _step(play: Seen) -> Any:
    return Step(play.state, (), (Threw(play.now, "ExecutorPodsAllocator", "x"),))


def test_what_the_run_does_is_exported() -> None:
    values = scraped(busy())
    assert value(values, "podtide_target_executors", profile="0") == 5
    assert value(values, "podtide_target_executors", profile="1") == 1
    assert value(values, "podtide_pods", profile="0", state="running") == 1
    assert value(values, "podtide_pods", profile="0", state="requested") == 1
    assert value(values, "podtide_pods", profile="0", state="failed") == 0
    assert value(values, "podtide_registered_executors", profile="0") == 1
    assert value(values, "podtide_decisions_total", command="createPod", cause="below target") == 3
    assert value(values, "podtide_held", bound="batch size", profile="0") == 3
    assert value(values, "podtide_rounds_threw_total", machine="ExecutorPodsAllocator") == 1
    assert value(values, "podtide_api_calls_total", verb="create", resource="pods", code="429") == 1
    assert value(values, "podtide_api_calls_total", verb="list", resource="pods", code="none") == 1
    assert value(values, "podtide_api_call_seconds_bucket", verb="create", resource="pods", le="0.025") == 1
    assert value(values, "podtide_api_call_seconds_count", verb="create", resource="pods") == 2
    assert value(values, "podtide_api_bytes_total", direction="sent") == 20
    assert value(values, "podtide_snapshot_age_seconds") == pytest.approx(2.02)
    assert value(values, "podtide_watch_alive") == 0
    assert value(values, "podtide_watch_breaks_total") == 1
    assert value(values, "podtide_step_seconds_count") == 1
    assert value(values, "podtide_step_seconds_sum") == pytest.approx(0.02)
    assert value(values, "podtide_last_turn_age_seconds") == pytest.approx(2.0)
    assert value(values, "podtide_lease_held") == 1
    assert value(values, "podtide_news_total", topic="watch broken") == 1
    assert value(values, "podtide_build_info", version="1.2.3") == 1
    assert value(values, "podtide_run_info", app_id="spark-1", app_namespace="data", mode="act") == 1
    assert value(values, "podtide_start_time_seconds") == START / 1000


def test_every_metric_that_is_listed_is_exported_and_no_other() -> None:
    acting, shadow = scraped(busy()), scraped(busy(About("a", "n", "shadow", "1", driver=True)))
    assert {name for name, _ in {**acting, **shadow}} == EXPORTED


def test_what_is_not_known_has_no_sample() -> None:
    snapshot = LiveSnapshot(at=START, change=0, started=START, about=ABOUT._replace(mode="shadow"))
    names = {name for name, _ in scraped(snapshot)}
    assert not names & {
        "podtide_snapshot_age_seconds", "podtide_lease_held", "podtide_watch_alive", "podtide_last_turn_age_seconds",
        "podtide_driver_reachable",
    }  # fmt: skip
    assert value(scraped(snapshot), "podtide_target_executors", profile="0") == 0
    assert value(scraped(snapshot), "podtide_differences_total") == 0


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_names_are_as_prometheus_likes_them(metric: Any) -> None:
    assert re.fullmatch(r"podtide_[a-z]+(_[a-z]+)*", metric.name)
    assert metric.name.endswith("_total") == (metric.kind == COUNTER)
    assert metric.kind in (GAUGE, COUNTER, HISTOGRAM)
    assert metric.help.endswith(".")
    if metric.kind == HISTOGRAM:
        assert metric.name.endswith("_seconds")
    assert not set(metric.labels) & {"job", "instance", "pod", "namespace", "executor", "le"}


def test_labels_stay_few_with_thousands_of_pods_profiles_and_bounds() -> None:
    profiles = tuple(ProfileFigures(n, 2, {"running": 1}, 1, 0) for n in range(50))
    held = tuple(HeldNow("batch size", n, START, 1, False) for n in range(-5, 200))
    total = TotalFigures(10_000, {"running": 5_000, "failed": 3}, 4_000, 7)
    snapshot = LiveSnapshot(
        at=START, change=0, started=START, about=ABOUT, profiles=profiles, total=total, held=held,
    )  # fmt: skip
    values = scraped(snapshot)
    assert value(values, "podtide_target_executors", profile="other") == 10_000 - 100
    assert value(values, "podtide_pods", profile="other", state="running") == 4_950
    assert value(values, "podtide_leaving_executors", profile="other") == 7
    assert value(values, "podtide_held", bound="batch size", profile="other") == 5
    assert len(values) < 1_000
    assert sum(number for (name, _), number in values.items() if name == "podtide_pods") == 5_003


def test_a_strange_name_cannot_break_a_scrape() -> None:
    snapshot = replace(busy(), about=About('a"\n\\x', "n\x1b", "act", "1"))
    values = scraped(snapshot)
    assert value(values, "podtide_run_info", app_id='a"\n\\x', app_namespace="n\x1b", mode="act") == 1


def test_openmetrics_is_valid() -> None:
    body, content_type = LiveMetrics(busy).page("application/openmetrics-text; version=1.0.0")
    assert content_type.startswith("application/openmetrics-text")
    families = list(parse_openmetrics(body.decode()))  # type: ignore[no-untyped-call]  # the package's own parser
    assert len(families) >= len(METRICS) - 3


# ------------------------------------------------------------------------------------------- the dashboard and the alerts


def used(expr: str) -> list[tuple[str, set[str]]]:
    """The metrics that an expression names, each with the labels that it is selected by."""
    found = []
    for name, selector in re.findall(r"\b(podtide_[a-z_]+)(?:\{([^}]*)\})?", expr):
        found.append((name, set(re.findall(r"([a-z_]+)\s*(?:=~|!~|!=|=)\s*\"", selector))))
    return found


def base(name: str) -> str:
    return name if name in LABELS else re.sub(r"_(bucket|sum|count)$", "", name)


def hold_to_registry(expr: str, extra: set[str]) -> None:
    names = used(expr)
    assert names, f"no metric in {expr}"
    for name, labels in names:
        assert name in EXPORTED, f"{name} of {expr} is not exported"
        assert labels <= LABELS[base(name)] | extra, expr
    for grouped in re.findall(r"\bby\s*\(([^)]*)\)", expr):
        allowed = {label for name, _ in names for label in LABELS[base(name)]} | extra | {"le"}
        assert {label.strip() for label in grouped.split(",")} <= allowed, expr


PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
TARGETS = [(panel["title"], target["expr"]) for panel in PANELS for target in panel["targets"]]


@pytest.mark.parametrize(("title", "expr"), TARGETS)
def test_the_dashboard_shows_what_is_exported(title: str, expr: str) -> None:
    hold_to_registry(expr, {"instance"})
    assert all("instance" in labels for _, labels in used(expr)), f"{title}: another run's numbers would be mixed in"
    assert expr.count("(") == expr.count(")")
    assert "rate(" not in expr or "$__rate_interval]" in expr


def test_legends_name_labels_that_are_there() -> None:
    for panel in PANELS:
        for target in panel["targets"]:
            named = set(re.findall(r"\{\{\s*(\w+)\s*\}\}", target["legendFormat"]))
            kept = re.findall(r"\bby\s*\(([^)]*)\)", target["expr"])
            allowed = (
                {label.strip() for group in kept for label in group.split(",")}
                if kept
                else {label for name, _ in used(target["expr"]) for label in LABELS[base(name)]}
            )
            assert named <= allowed, target


def test_every_metric_is_shown_somewhere() -> None:
    shown = {base(name) for _, expr in TARGETS for name, _ in used(expr)}
    shown |= {
        base(name) for annotation in DASHBOARD["annotations"]["list"] for name, _ in used(annotation.get("expr", ""))
    }
    assert shown == set(LABELS)


def test_variables_and_annotations_are_held_to_the_registry() -> None:
    variables = {variable["name"]: variable for variable in DASHBOARD["templating"]["list"]}
    assert list(variables) == ["datasource", "namespace", "app", "instance"]
    for name in ("namespace", "app", "instance"):
        query = variables[name]["query"]["query"]
        hold_to_registry(query, {"instance"})
        assert re.fullmatch(r"label_values\(.*, (\w+)\)", query)
    for annotation in DASHBOARD["annotations"]["list"]:
        if "expr" in annotation:
            hold_to_registry(annotation["expr"], {"instance"})


def test_the_dashboard_can_be_imported() -> None:
    assert DASHBOARD["schemaVersion"] >= 39
    assert DASHBOARD.get("id") is None
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids))
    for panel in PANELS:
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        refs = [target["refId"] for target in panel["targets"]]
        assert len(refs) == len(set(refs))


def test_no_two_panels_overlap() -> None:
    def cells(panel: dict[str, Any]) -> set[tuple[int, int]]:
        place = panel["gridPos"]
        assert place["x"] >= 0
        assert place["x"] + place["w"] <= 24
        return {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}

    for one, two in combinations(DASHBOARD["panels"], 2):
        assert not cells(one) & cells(two), (one["title"], two["title"])


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_alerts_are_about_what_is_exported(rule: dict[str, Any]) -> None:
    hold_to_registry(rule["expr"], {"instance", "job"})
    assert re.fullmatch(r"Podtide[A-Za-z]+", rule["alert"])
    assert rule["labels"]["severity"] in ("critical", "warning")
    assert set(rule["annotations"]) == {"summary", "description"}
    for named in re.findall(r"\$labels\.(\w+)", " ".join(rule["annotations"].values())):
        allowed = {label for name, _ in used(rule["expr"]) for label in LABELS[base(name)]} | {"instance", "job"}
        assert named in allowed


def test_there_are_enough_alerts_and_none_twice() -> None:
    names = [rule["alert"] for rule in RULES]
    assert len(names) == len(set(names)) >= 6


def test_the_scrape_example_reads_and_names_the_alerts() -> None:
    scrape = yaml.safe_load((DEPLOY / "prometheus" / "scrape.yaml").read_text())
    assert scrape["rule_files"] == ["alerts.yaml"]
    assert {job["job_name"] for job in scrape["scrape_configs"]} == {"podtide", "podtide-pods"}


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_every_metric_is_explained(metric: Any) -> None:
    text = (DEPLOY.parent / "docs" / "reference" / "live.md").read_text()
    (row,) = [line for line in text.splitlines() if line.startswith("|") and f"`{metric.name}`" in line]
    assert all(f"`{label}`" in row for label in metric.labels)
