"""What is not shown, and patterns that must not be trusted."""

from __future__ import annotations

import time

import pytest

from podtide.domain.conf.redaction import REDACTED, redaction_of, without_credentials
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


KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""The key of Azure's storage emulator, which everybody knows."""


@pytest.mark.parametrize(
    "key",
    [
        "spark.hadoop.fs.azure.account.key.acct.blob.core.windows.net", "spark.hadoop.fs.azure.sas.box.acct.blob",
        "spark.executorEnv.AZURE_STORAGE_ACCOUNT_KEY", "spark.executorEnv.MYSQL_PWD", "spark.executorEnv.OPENAI_API_KEY",
        "spark.hadoop.fs.gs.auth.service.account.private.key", "spark.hadoop.fs.s3a.encryption.key", "x.passphrase",
    ],
)  # fmt: skip
def test_values_under_keys_that_sparks_pattern_misses(key: str) -> None:
    assert shown(key, "abc") == REDACTED


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("postgres://bob:hush@db:5432/x", f"postgres://bob:{REDACTED}@db:5432/x"),
        ("jdbc:mysql://bob:hu@sh:1@db/x?ssl=true", f"jdbc:mysql://bob:{REDACTED}@db/x?ssl=true"),
        ("redis://:hush@h:6379/0", f"redis://:{REDACTED}@h:6379/0"),
        ("jdbc:oracle:thin:scott/hush@//h:1521/x", f"jdbc:oracle:thin:scott/{REDACTED}@//h:1521/x"),
        ("bob:hush@tcp(db:3306)/x", f"bob:{REDACTED}@tcp(db:3306)/x"),
        ("jdbc:sqlserver://h;user=bob;pwd=hush;db=x", f"jdbc:sqlserver://h;user=bob;pwd={REDACTED};db=x"),
        (
            "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=hush==;EndpointSuffix=core",
            f"DefaultEndpointsProtocol=https;AccountName=a;AccountKey={REDACTED};EndpointSuffix=core",
        ),
        ("https://a.blob/c?sv=2020&sig=hu%2Bsh&se=1", f"https://a.blob/c?sv=2020&sig={REDACTED}&se=1"),
        ('{"pwd": "hu sh", "a": 1}', f'{{"pwd": {REDACTED}, "a": 1}}'),
        (f"-Dx={KEY} -Dy=1", f"-Dx={REDACTED} -Dy=1"),
        (f"-Dfs.azure.account.key.a={KEY}", f"-Dfs.azure.account.key.a={REDACTED}"),
        ("-----BEGIN RSA PRIVATE KEY-----\nhush\n-----END", f"-----BEGIN RSA PRIVATE KEY-----{REDACTED}-----END"),
        ("Bearer eyJhbGciOiJIUzI1.eyJzdWIiOiIx.hush", f"Bearer {REDACTED}"),
    ],
)  # fmt: skip
def test_credentials_inside_of_values(value: str, text: str) -> None:
    assert shown("spark.executorEnv.X", value) == text
    assert without_credentials(text) == text, "what was hidden once stays as it is"


@pytest.mark.parametrize(
    "value",
    [
        "hdfs://nn:8020/x,abfss://box@acct.dfs.core.windows.net/a",
        "spark://h:7077",
        "k8s://https://10.0.0.1:443",
        "1@h1:7079",
        "http://bob@h:1/",
        "s3://b/k:1@v",
        "exceeded quota: count/secrets=5, used: 5",
        "PWD=/opt/spark/work-dir",
        "a=b;c=d",
        "config=1&signal=2",
        "user:password is expected",
        "sha256:" + "a" * 64,
        "h1:9092,h2:9092",
        "-Dx=y -XX:+UseG1GC",
    ],
)
def test_ordinary_texts_are_shown(value: str) -> None:
    assert without_credentials(value) == value


@pytest.mark.parametrize(
    "key",
    [
        "spark.executorEnv.PWD", "spark.kubernetes.authenticate.driver.clientKeyFile", "spark.io.encryption.keySizeBits",
        "spark.hadoop.fs.azure.account.keyprovider.a", "spark.executor.cores", "spark.executorEnv.KEYBOARD",
    ],
)  # fmt: skip
def test_ordinary_keys_are_shown(key: str) -> None:
    assert shown(key, "abc") == "abc"


@pytest.mark.parametrize(
    "piece",
    [
        "://", "://a:", "://a:b@", "a:", "a", "x:y@", "jdbc:oracle:a:", "password", "password=", 'password="', "password ",
        "pwd' ", "'\" : ", "sig=", "A" * 86, "A+", "-----BEGIN ", "-----BEGIN PRIVATE KEY-----", "eyJ",
        "eyJaaaaaaaaaaaa.eyJ", "account", " ", "-.", "api_",
    ],
)  # fmt: skip
def test_the_time_follows_the_length_of_the_text(piece: str) -> None:
    def seconds(length: int) -> float:
        text = piece * (length // len(piece))
        began = time.process_time()
        without_credentials(text)
        without_credentials("://a:" + text)
        return time.process_time() - began

    assert seconds(200_000) < 2.0, "what goes by the square of the length takes minutes"


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|a)*b", "(a|a)?" * 20 + "b", "a{2,}", "((", r"(x)\1", "(?=a)"])
def test_a_pattern_that_could_search_for_ever_is_not_used_and_hides_all_but_numbers(pattern: str) -> None:
    redaction = redaction_of(from_mapping({"spark.redaction.regex": pattern}, "a test"))
    assert redaction.pattern is None
    assert redaction.shown("spark.x", "harmless") == REDACTED
    assert redaction.shown("spark.executor.cores", "4") == "4"
