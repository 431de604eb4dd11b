"""Lines to paste, read back by what they are pasted into."""

from __future__ import annotations

import shlex

import pytest
import yaml
from hypothesis import given, strategies as st
from returns.pipeline import is_successful

from podtide.adapters.files.spark_conf import parse_properties, properties
from podtide.adapters.views.whatif.conf_snippets import lines_for, paste_lines
from podtide.domain.conf.advice.effects import Place, place_of
from podtide.domain.conf.scaling_config import ENABLED, INITIAL, INSTANCES, MAX, TRACKING
from podtide.domain.conf.spark_conf import from_mapping

CHANGES: dict[str, str | None] = {
    MAX: "12",
    INITIAL: "2",
    "spark.executor.cores": "4",
    "spark.executor.memory": "8192m",
    "spark.dynamicAllocation.executorIdleTimeout": "20s",
    INSTANCES: None,
}


def test_spark_defaults() -> None:
    assert paste_lines(CHANGES).defaults == (
        "# take out: spark.executor.instances\n"
        "spark.dynamicAllocation.executorIdleTimeout  20s\n"
        "spark.dynamicAllocation.initialExecutors     2\n"
        "spark.dynamicAllocation.maxExecutors         12\n"
        "spark.executor.cores                         4\n"
        "spark.executor.memory                        8192m\n"
    )


def test_spark_submit() -> None:
    lines = paste_lines({MAX: "12", "spark.executor.extraJavaOptions": "-Da='b c' -Dd=$HOME"}).submit
    words = shlex.split(lines.replace("\\\n", " "))
    assert words == [
        "spark-submit", "--conf", "spark.dynamicAllocation.maxExecutors=12",
        "--conf", "spark.executor.extraJavaOptions=-Da='b c' -Dd=$HOME", "...",
    ]  # fmt: skip


def test_a_manifest_has_fields_of_its_own() -> None:
    assert yaml.safe_load(paste_lines(CHANGES).manifest) == {
        "apiVersion": "sparkoperator.k8s.io/v1beta2",
        "kind": "SparkApplication",
        "spec": {
            "dynamicAllocation": {"enabled": True, "initialExecutors": 2, "maxExecutors": 12},
            "executor": {"cores": 4, "memory": "8192m"},
            "sparkConf": {"spark.dynamicAllocation.executorIdleTimeout": "20s"},
        },
    }
    assert "# take out: spec.executor.instances" in paste_lines(CHANGES).manifest


def place(master: str, properties: dict[str, str] | None = None) -> Place:
    return place_of(from_mapping({"spark.master": master, **(properties or {})}, "test"))


@pytest.mark.parametrize(
    ("where", "lines"),
    [
        (place("yarn"), "spark.dynamicAllocation.enabled  false\nspark.executor.instances         4\n"),
        (
            place("spark://master:7077"),
            "spark.cores.max                  8\n"
            "spark.dynamicAllocation.enabled  false\n"
            "spark.executor.cores             2\n",
        ),
    ],
)
def test_a_static_count_is_what_its_cluster_manager_knows_it_as(where: Place, lines: str) -> None:
    assert lines_for({}, 4, [where], 2)["spark-defaults.conf"] == lines


def test_a_static_count_is_workers_where_the_platform_decides_on_executors() -> None:
    databricks = place("spark://10.0.0.1:7077", {"spark.databricks.workerNodeTypeId": "m5.4xlarge"})
    assert lines_for({}, 4, [databricks], 2) == {"Databricks": '"num_workers": 4\n'}
    glue = place("jes", {"spark.glue.GLUE_VERSION": "4.0"})
    assert lines_for({}, 4, [glue], 2) == {"AWS Glue": '"NumberOfWorkers": 5\n'}, "one of them is the driver"
    assert lines_for({}, 4, [databricks, place("yarn")], 2) == {}, "nothing is true of both"


def test_a_manifest_is_for_kubernetes_alone() -> None:
    kubernetes = place("k8s://https://api")
    spec = yaml.safe_load(lines_for({}, 4, [kubernetes], 2)["SparkApplication"])["spec"]
    assert spec == {"dynamicAllocation": {"enabled": False}, "executor": {"instances": 4}}
    for other in (place("yarn"), place("spark://master:7077"), place("")):
        assert list(lines_for({MAX: "4"}, None, [kubernetes, other], 2)) == ["spark-defaults.conf", "spark-submit"]
    assert lines_for({}, None, [kubernetes], 2) == {}, "nothing to change is nothing to paste"


@pytest.mark.parametrize(
    ("changes", "dynamic"),
    [
        ({ENABLED: "true", TRACKING: "true"}, {"enabled": True}),
        ({TRACKING: "false"}, {"enabled": True, "shuffleTrackingEnabled": False}),
        (
            {"spark.dynamicAllocation.shuffleTracking.timeout": "1min"},
            {"enabled": True, "shuffleTrackingTimeout": 60000},
        ),
    ],
)
def test_the_operator_switches_shuffle_tracking_on(changes: dict[str, str | None], dynamic: dict[str, object]) -> None:
    assert yaml.safe_load(paste_lines(changes).manifest)["spec"]["dynamicAllocation"] == dynamic


KEYS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12).map(lambda text: f"spark.{text}")
# What Spark trims of a value does not come back, whatever is written.
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20).filter(
    lambda text: text.strip("".join(map(chr, range(0x21)))) == text
)


@given(st.dictionaries(KEYS, TEXTS, min_size=1, max_size=5))
def test_whatever_it_is_comes_back(changes: dict[str, str]) -> None:
    lines = paste_lines(dict(changes))
    read = properties(lines.defaults)
    assert is_successful(read)
    assert {entry.key: entry.value for entry in read.unwrap()} == changes
    words = shlex.split(lines.submit.replace(" \\\n", " \n"))
    assert [word for word in words if word.startswith("spark.")] == [
        f"{key}={text}" for key, text in sorted(changes.items())
    ]
    manifest = yaml.safe_load(lines.manifest)
    assert manifest["spec"]["sparkConf"] == changes


def test_what_was_recommended_can_be_given_back() -> None:
    read = parse_properties(paste_lines(CHANGES).defaults, "spark-defaults.conf")
    assert is_successful(read)
    assert {key: setting.value for key, setting in read.unwrap().conf.settings.items()} == {
        key: text for key, text in CHANGES.items() if text is not None
    }
