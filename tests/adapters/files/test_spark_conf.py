"""Properties files, against recorded readings of Spark 4.3.0 and as files on disk."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from returns.pipeline import is_successful

from podtide.adapters.files.spark_conf import FILE_BYTES_MAX, parse_properties, properties, read_properties_file
from podtide.domain.conf.spark_versions import parse_version

READINGS = json.loads(Path(__file__).with_name("properties.json").read_text())[1:]


@pytest.mark.parametrize(("text", "settings"), READINGS, ids=range(len(READINGS)))
def test_reads_as_spark_does(text: str, settings: dict[str, str] | None) -> None:
    entries = properties(text)
    assert is_successful(entries) is (settings is not None)
    if settings is not None:
        assert {entry.key: entry.value for entry in entries.unwrap() if entry.key} == settings


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("spark.a 1", "spark.a", "1"),
        ("spark.a\t\t1", "spark.a", "1"),
        ("  spark.a  =  1  ", "spark.a", "1"),
        ("spark.a:1", "spark.a", "1"),
        ("spark.a", "spark.a", ""),
        ("spark.a=b=c", "spark.a", "b=c"),
        ("spark.a = # no comment", "spark.a", "# no comment"),
        ("spark.a=x\\\n     y", "spark.a", "xy"),
        ("spark.a=x\\\\\n", "spark.a", "x\\"),
        ("spark.a=\\u00e9\\ud83d\\ude00", "spark.a", "é😀"),
        ("spark.a=C:\\\\dir", "spark.a", "C:\\dir"),
        ("spark.a=x\\", "spark.a", "x"),
        ("spark.a=1\r\n#x\r", "spark.a", "1"),
    ],
)
def test_one_entry(text: str, key: str, value: str) -> None:
    (entry,) = properties(text).unwrap()
    assert (entry.key, entry.value) == (key, value)


def test_every_setting_knows_its_line() -> None:
    text = "# defaults\n\nspark.a 1\nspark.b x\\\n  y\nspark.c 3\n"
    conf = parse_properties(text, "/etc/spark/spark-defaults.conf").unwrap().conf
    assert {name: origin for name, (_, origin) in conf.settings.items()} == {
        "spark.a": "file spark-defaults.conf:3",
        "spark.b": "file spark-defaults.conf:4",
        "spark.c": "file spark-defaults.conf:6",
    }


def test_what_spark_ignores_is_remarked() -> None:
    found = parse_properties("\ufeffspark.a 1\nhadoop.x 2\nspark.b 1\nspark.b 2\n", "x.conf").unwrap()
    assert {name: value for name, (value, _) in found.conf.settings.items()} == {"spark.b": "2"}
    assert [remark.partition(": ")[0] for remark in found.remarks] == [
        "file x.conf:1",
        "file x.conf:2",
        "file x.conf:4",
    ]
    assert "byte order mark" in found.remarks[0]


def test_remarks_are_limited() -> None:
    assert len(parse_properties("a 1\n" * 5_000, "x.conf").unwrap().remarks) == 51


def test_a_malformed_escape_refuses_the_file_and_names_the_line() -> None:
    error = parse_properties("spark.a=1\nspark.b=\\u12g4\n", "x.conf").failure()
    assert str(error) == "x.conf:2: malformed \\u escape: four hexadecimal digits are expected"


def test_a_file_is_read_as_utf8_with_its_version(tmp_path: Path) -> None:
    file = tmp_path / "spark-defaults.conf"
    file.write_bytes("spark.a é\xff\n".encode("latin-1").replace(b"\xe9", "é".encode()))
    found = read_properties_file(file, parse_version("3.5.1")).unwrap()
    assert found.conf.version.name == "3.5"
    assert found.conf.settings["spark.a"].value == "é\ufffd"


@pytest.mark.parametrize(
    ("name", "why"),
    [("missing.conf", "no such file"), ("folder", "is a folder"), ("binary.conf", "is not a text file"),
     ("huge.conf", "larger than 8 MiB"), ("a\0b", "cannot be read")],
)  # fmt: skip
def test_a_file_that_cannot_be_used_says_why(tmp_path: Path, name: str, why: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "binary.conf").write_bytes(b"\x1f\x8b\0\0")
    (tmp_path / "huge.conf").write_bytes(b"#" * (FILE_BYTES_MAX + 1))
    assert why in str(read_properties_file(tmp_path / name).failure())


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission_says_so(tmp_path: Path) -> None:
    file = tmp_path / "x.conf"
    file.touch(mode=0)
    assert "Permission denied" in str(read_properties_file(file).failure())


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    entries = properties(text)
    assert not is_successful(entries) or all(entry.line >= 1 for entry in entries.unwrap())


@given(
    st.dictionaries(st.from_regex(r"spark\.[a-z]{1,9}", fullmatch=True), st.from_regex(r"[!-~]{0,9}", fullmatch=True))
)
def test_what_is_written_is_read(settings: dict[str, str]) -> None:
    text = "".join(f"{key} = {value}\n".replace("\\", "\\\\") for key, value in settings.items())
    read_back = {entry.key: entry.value for entry in properties(text).unwrap()}
    # A value that begins with a separator would need an escape: Properties takes one off.
    assert read_back == settings
