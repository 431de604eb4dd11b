"""What is not shown, and patterns that must not be trusted."""

from __future__ import annotations

import pytest

from podtide.domain.conf.redaction import REDACTED, redaction_of
from podtide.domain.conf.spark_conf import from_mapping


def shown(key: str, value: str, **conf: str) -> str:
    settings = {f"spark.redaction.{k.replace('_', '.')}": v for k, v in conf.items()}
    return redaction_of(from_mapping(settings, "a test")).shown(key, value)


@pytest.mark.parametrize(
    "key", ["spark.hadoop.fs.s3a.secret.key", "spark.my.PASSWORD", "x.access.key", "y.accesskey", "a.token"]
)
def test_values_under_keys_of_sparks_default_pattern(key: str) -> None:
    assert shown(key, "abc") == REDACTED


def test_values_that_match_themselves() -> None:
    assert shown("spark.x", "jdbc:pg://u:password=1@h") == REDACTED


def test_everything_else_is_shown() -> None:
    assert shown("spark.dynamicAllocation.maxExecutors", "40") == "40"


def test_a_pattern_of_the_conf_comes_on_top_of_the_default() -> None:
    assert shown("spark.my.salary", "1", regex="salary") == REDACTED
    assert shown("spark.my.secret", "1", regex="salary") == REDACTED


def test_parts_of_texts() -> None:
    assert shown("spark.x", "ssn 123-45", string_regex="123-45") == f"ssn {REDACTED}"


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|a)*b", "(a|a)?" * 20 + "b", "a{2,}", "((", r"(x)\1", "(?=a)"])
def test_a_pattern_that_could_search_for_ever_is_not_used_and_hides_all_but_numbers(pattern: str) -> None:
    redaction = redaction_of(from_mapping({"spark.redaction.regex": pattern}, "a test"))
    assert redaction.pattern is None
    assert redaction.shown("spark.x", "harmless") == REDACTED
    assert redaction.shown("spark.executor.cores", "4") == "4"
