"""What is shown of a manifest."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace

import pytest

from podtide.domain.base.units import DEFAULT_PROFILE
from podtide.domain.conf.redaction import REDACTED, redaction_of
from podtide.domain.conf.spark_conf import from_mapping
from podtide.domain.executor_pod.redaction import redacted
from tests.support.executor_pod_play import FACTS, K, container, made, variables

REDACTION = redaction_of(from_mapping({}, "test"))


@pytest.mark.parametrize(
    ("conf", "name", "shown"),
    [
        ({"spark.executorEnv.API_TOKEN": "abc"}, "API_TOKEN", REDACTED),
        ({"spark.executorEnv.OPTS": "password=abc"}, "OPTS", REDACTED),
        ({"spark.executorEnv.PLAIN": "abc"}, "PLAIN", "abc"),
        ({"spark.executorEnv.DB": "jdbc:pg://bob:abc@h/x"}, "DB", f"jdbc:pg://bob:{REDACTED}@h/x"),
        (
            {"spark.executorEnv.STORAGE": "AccountName=a;AccountKey=abc=="},
            "STORAGE",
            f"AccountName=a;AccountKey={REDACTED}",
        ),
        ({"spark.executorEnv.SAS_URL": "https://a/b"}, "SAS_URL", REDACTED),
        (
            {"spark.executor.extraJavaOptions": "-Dfs.azure.account.key.a=b"},
            "SPARK_JAVA_OPT_0",
            f"-Dfs.azure.account.key.a={REDACTED}",
        ),
        ({"spark.executor.extraJavaOptions": "-Dmy.secret=abc"}, "SPARK_JAVA_OPT_0", f"-Dmy.secret={REDACTED}"),
        ({"spark.executor.extraJavaOptions": "-Dplain=abc"}, "SPARK_JAVA_OPT_0", "-Dplain=abc"),
    ],
)
def test_variables(conf: dict[str, str], name: str, shown: str) -> None:
    pod = made(conf).pod("1", DEFAULT_PROFILE)
    before = deepcopy(pod)
    assert variables(redacted(pod, REDACTION))[name] == shown
    assert pod == before


def test_the_auth_secret_labels_arguments_and_side_cars() -> None:
    side = {"name": "side", "args": ["--token=abc", "run"], "env": [{"name": "DB_PASSWORD", "value": "abc"}]}
    template = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "main"}, side]}}
    conf = {
        "spark.authenticate": "true",
        "spark.authenticate.secret": "abc",
        K + "executor.annotation.token": "abc",
        K + "executor.podTemplateFile": "t",
    }
    pod = redacted(made(conf, replace(FACTS, template=template)).pod("1", DEFAULT_PROFILE), REDACTION)
    assert "abc" not in str(pod)
    assert pod["spec"]["containers"][0]["args"] == [REDACTED, "run"]
    assert container(pod)["args"] == ["executor"]


def test_files_are_counted() -> None:
    shown = redacted(made().config_map({"a.properties": "x" * 7}), REDACTION)
    assert shown["data"]["a.properties"] == "(7 characters, not shown)"
