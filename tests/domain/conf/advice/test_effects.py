"""The table of what exists and has an effect where: complete, true of Spark's own registrations, and kept to."""

from __future__ import annotations

import ast
import json
import re

import pytest

from podtide.domain.conf.advice.effects import (
    ROWS,
    TABLE,
    ManagerKind,
    knob_line,
    left_out,
    place_of,
    static_settings,
    why_not,
)
from podtide.domain.conf.advice.platforms import PLATFORMS, Platform, platform_of
from podtide.domain.conf.entries import KEYS
from podtide.domain.conf.spark_conf import SparkConf, from_mapping
from podtide.domain.conf.spark_versions import parse_version
from podtide.domain.rerun.plan import Variant
from podtide.domain.whatif.search.in_effect import STATIC_COUNTS, in_effect, variant_in_effect
from podtide.domain.whatif.search.space import Axis, Space
from tests.support.project import PROJECT, SHARED

REGISTERED = {
    key: since
    for key, _, _, since, _, _ in json.loads((PROJECT / "tests/domain/conf/conf_entries.json").read_text())[1:]
}

DA = "spark.dynamicAllocation."
TRACKING = f"{DA}shuffleTracking.enabled"
SERVICE = "spark.shuffle.service.enabled"
OVERHEAD = "spark.executor.memoryOverhead"
BATCH = "spark.kubernetes.allocation.batch.size"
ON = {f"{DA}enabled": "true"}
K8S, YARN, STANDALONE = ({"spark.master": master} for master in ("k8s://https://api", "yarn", "spark://master:7077"))
DATABRICKS = {"spark.databricks.clusterUsageTags.clusterScalingType": "autoscaling", **STANDALONE}

ADVISING = (
    "domain/whatif/search/defaults.py", "domain/whatif/search/space.py", "domain/whatif/memory.py",
    "domain/conf/advice/effects.py", "entrypoints/fleet/candidates.py", "adapters/views/whatif/memory.py",
    "domain/conf/scaling_config.py",
)  # fmt: skip
"""The modules where the keys of recommendations, and of the checks at the start, are written."""

ONLY_READ = {
    "spark.memory.fraction", "spark.kubernetes.executor.request.cores", "spark.storage.decommission.enabled",
    "spark.shuffle.service.fetch.rdd.enabled", f"{DA}testing", "spark.testing.resourceProfileManager",
}  # fmt: skip
"""What these modules ask a conf for, or mention, and never tell anybody to set."""


def conf(settings: dict[str, str], version: str | None = "3.5.1") -> SparkConf:
    return from_mapping(settings, "event log", parse_version(version))


def test_rows_are_those_of_spark_s_own_registrations() -> None:
    assert len(TABLE) == len(ROWS)
    for row in ROWS:
        assert row.source.strip(), row.key
        assert row.on, row.key
        if row.key not in REGISTERED:
            assert row.key not in KEYS, f"{row.key}: not among the recorded registrations"
            continue
        assert row.since == parse_version(REGISTERED[row.key]).written, row.key
        assert set(row.moves) == {when for when, _ in KEYS[row.key].defaults[1:]}, f"{row.key}: moves of the default"


@pytest.mark.skipif(not (SHARED / "spec").is_dir(), reason="the specification is not here")
def test_rows_are_those_of_the_specification() -> None:
    page = (SHARED / "spec" / "config.md").read_text(encoding="utf-8")
    stated = {}
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) == 7 and re.fullmatch(r"[0-9.]+", cells[4]):
            stated[cells[0].split("`")[1]] = cells[4]
    compared = [row for row in ROWS if row.key in stated]
    assert len(compared) >= 20
    assert {row.key: row.since for row in compared} == {
        row.key: parse_version(stated[row.key]).written for row in compared
    }


@pytest.mark.parametrize("module", ADVISING)
def test_every_key_that_is_recommended_or_checked_has_a_row(module: str) -> None:
    texts = {
        node.value
        for node in ast.walk(ast.parse((PROJECT / module).read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    keys = {
        key for text in texts for key in re.findall(r"\bspark\.[A-Za-z]+\.[A-Za-z.-]*[A-Za-z]", text) if key in KEYS
    }
    # The rest of a key that begins with a name of its own, such as f"{_DYNAMIC}.executorIdleTimeout".
    keys |= {f"{DA}{text.lstrip('.')}" for text in texts if f"{DA}{text.lstrip('.')}" in KEYS}
    assert keys - set(TABLE) - ONLY_READ == set()


@pytest.mark.parametrize("platform", PLATFORMS, ids=lambda one: one.name)
def test_platforms_say_what_to_turn_and_where_that_stands(platform: Platform) -> None:
    assert platform.knob
    assert platform.scales
    assert platform.source.startswith("https://")
    assert (platform.workers is not None) == platform.own_rules


@pytest.mark.parametrize(
    ("properties", "version", "name"),
    [
        (DATABRICKS, None, "Databricks"),
        ({"spark.databricks.delta.optimizeWrite.enabled": "true", **YARN}, "3.5.1", None),
        ({"spark.emr.default.executor.cores": "3", **YARN}, "3.3.0-amzn-0", "EMR"),
        (YARN, "3.3.0-amzn-0", "EMR"),
        (K8S, "3.3.0-amzn-0", "EMR on EKS"),
        ({"spark.master": "custom:emr-serverless"}, "3.5.0-amzn-0", "EMR Serverless"),
        ({"spark.glue.GLUE_VERSION": "4.0", "spark.master": "jes"}, "3.3.0-amzn-1", "AWS Glue"),
        ({"spark.dataproc.lineage.enabled": "true", **YARN}, "3.5.1", "Dataproc"),
        ({"spark.dataproc.engine": "default", "spark.master": "dataproc"}, "3.5.1", "Dataproc Serverless"),
        ({"spark.trident.pbienv": "prod", "spark.synapse.vhd.name": "x", **YARN}, "3.4.1", "Microsoft Fabric"),
        ({"spark.synapse.vhd.name": "x", **YARN}, "3.4.1", "Azure Synapse"),
        (YARN, "3.5.1", None),
    ],
)
def test_a_log_shows_its_platform(properties: dict[str, str], version: str | None, name: str | None) -> None:
    shown = platform_of(properties, version)
    assert (None if shown is None else shown.name) == name


@pytest.mark.parametrize(
    ("key", "settings", "version", "why"),
    [
        (TRACKING, YARN, "2.4.8", "it came with Spark 3.0, and this is 2.4"),
        (TRACKING, YARN, "3.0.0", None),
        (TRACKING, {**YARN, SERVICE: "true"}, "3.5.1", "an external shuffle service keeps shuffle data"),
        (f"{DA}executorAllocationRatio", {**YARN, **ON}, "2.3.0", "it came with Spark 2.4, and this is 2.3"),
        (f"{DA}enabled", YARN, "2.4.8", "before Spark 3.0 dynamic allocation needs an external shuffle service"),
        (f"{DA}enabled", {**YARN, SERVICE: "true"}, "2.4.8", None),
        (f"{DA}enabled", K8S, "2.4.8", "works on Kubernetes from Spark 3.0 on, and this is 2.4"),
        (f"{DA}enabled", K8S, "3.1.1", None),
        (f"{DA}maxExecutors", K8S, None, "from Spark 3.0 on, and the log does not say its version"),
        (f"{DA}maxExecutors", {**K8S, **ON}, None, None),
        (TRACKING, YARN, None, "it came with Spark 3.0, and the log does not say its version"),
        (BATCH, YARN, "4.3.0", "YARN does not read it"),
        (BATCH, {}, "4.3.0", "the log does not say its master"),
        (f"{DA}maxExecutors", {}, "4.3.0", None),
        (OVERHEAD, STANDALONE, "4.3.0", "a standalone master does not read it"),
        ("spark.executor.instances", STANDALONE, "4.3.0", "a standalone master does not read it"),
        (f"{DA}maxExecutors", {"spark.master": "mesos://zk", **ON}, "3.5.1", None),
        (f"{DA}maxExecutors", {"spark.master": "local[4]"}, "3.5.1", "a local master does not read it"),
        (f"{DA}maxExecutors", {**DATABRICKS, **ON}, "3.5.0", "Databricks decides on executors by rules of its own"),
        ("spark.executor.memory", DATABRICKS, "3.5.0", "Databricks decides on executors by rules of its own"),
        ("spark.sql.shuffle.partitions", DATABRICKS, "3.5.0", None),
        (f"{DA}maxExecutors", {"spark.emr.x": "y", **YARN, **ON}, "3.5.0-amzn-0", None),
        ("spark.no.such.key", YARN, "4.3.0", "not among the settings"),
    ],
)
def test_a_setting_exists_and_has_an_effect_or_has_none(
    key: str, settings: dict[str, str], version: str | None, why: str | None
) -> None:
    reason = why_not(key, place_of(conf(settings, version)))
    assert (reason is None) == (why is None), reason
    assert (why or "") in (reason or "")


def test_what_was_left_out_is_one_line_by_reason() -> None:
    assert left_out({}) is None
    line = left_out({"b": "too old", "a": "too old", "c": "not read"})
    assert line == "Not recommended: a, b (too old); c (not read)."


def test_a_space_keeps_what_can_be_pasted() -> None:
    axes = (Axis(f"{DA}maxExecutors", ("1", "4")), Axis(BATCH, ("5",)), Axis("spark.executor.cores", ("1", "2")))
    on_yarn = Space((conf({**YARN, **ON}),), axes, (1, 4))
    kept, notes = in_effect(on_yarn)
    assert [axis.key for axis in kept.axes] == [f"{DA}maxExecutors", "spark.executor.cores"]
    assert kept.statics == (1, 4)
    assert notes == (f"Not recommended: {BATCH} (YARN does not read it).",)
    serverless = {"spark.dataproc.engine": "default", "spark.master": "dataproc", **ON}
    kept, notes = in_effect(Space((conf(serverless),), axes, (1, 4)))
    assert (kept.axes[0].values, kept.statics) == (("4",), (4,)), "fewer than two executors are refused there"
    assert notes[0].startswith("On Dataproc Serverless: what to set is ")


def test_without_a_way_to_switch_dynamic_allocation_on_nothing_of_it_is_tried() -> None:
    axes = (Axis(f"{DA}maxExecutors", ("1", "4")), Axis("spark.executor.cores", ("1", "2")))
    always = ((f"{DA}enabled", "true"), (TRACKING, "true"), ("spark.executor.instances", None))
    kept, notes = in_effect(Space((conf(YARN, "2.4.8"),), axes, (2, 4), always))
    assert (kept.axes, kept.always, kept.statics) == ((), (), (2, 4))
    assert "before Spark 3.0 dynamic allocation needs an external shuffle service" in notes[0]
    kept, notes = in_effect(Space((conf({"spark.master": "local[4]"}),), axes, (2, 4), always))
    assert (kept.axes, kept.statics) == ((), ())
    assert STATIC_COUNTS in notes[0]


def test_a_variant_keeps_what_has_an_effect() -> None:
    data = Variant("data 2m", {f"{DA}cachedExecutorIdleTimeout": "2m", f"{DA}shuffleTracking.timeout": "2m"})
    kept = variant_in_effect(data, conf({**YARN, **ON, SERVICE: "true"}, "2.4.8"))
    assert kept.variant == Variant("data 2m", {f"{DA}cachedExecutorIdleTimeout": "2m"})
    assert list(kept.reasons) == [f"{DA}shuffleTracking.timeout"]
    dynamic = Variant("dynamic", {f"{DA}enabled": "true", f"{DA}maxExecutors": "4"})
    assert variant_in_effect(dynamic, conf(DATABRICKS)).variant is None
    assert variant_in_effect(Variant("static 2", static=2), conf(DATABRICKS)).variant == Variant("static 2", static=2)


def test_platforms_with_rules_of_their_own_have_a_knob_and_no_settings() -> None:
    place = place_of(conf(DATABRICKS))
    assert static_settings(place, 4, 8) == '"num_workers": 4'
    assert (knob_line(place) or "").startswith(
        "Databricks decides on executors itself: what to set is the cluster's autoscale"
    )
    assert knob_line(place_of(conf(YARN))) is None
    assert place_of(conf({"spark.master": "*********(redacted)"})).manager is ManagerKind.UNKNOWN
    assert static_settings(place_of(conf({})), 4, 8) is None
