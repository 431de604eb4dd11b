"""SPARK_CONF_DIR: which files executors see, as Spark 4.3.0 chose in the same directories."""

from __future__ import annotations

from pathlib import Path

import pytest

from podtide.adapters.kubernetes.executor_pod.spark_conf_dir import SIZE_MAX, ConfDirError, read_conf_dir

SMALL = {"a.txt": "x" * 10, "b.txt": "y" * 20, "spark-defaults.conf": "z", "log4j2.properties": "p=1\n"}
WIDE = {"big": "b" * 100, "s1": "a" * 10, "s2": "b" * 10, "ü": "ü" * 10}
NAMES = dict.fromkeys(("a.tar.gz", "b.template", "sparkx.properties", "spark.txt", "xspark.conf", ".hidden"), "x")


@pytest.mark.parametrize(
    ("files", "size", "kept"),
    [
        (SMALL, SIZE_MAX, ["a.txt", "b.txt", "log4j2.properties"]),
        (SMALL, 40, ["a.txt", "log4j2.properties"]),
        (SMALL, 50, ["a.txt", "log4j2.properties"]),
        (WIDE, SIZE_MAX, ["big", "s1", "s2", "ü"]),
        (WIDE, 40, ["s1", "s2", "ü"]),
        (WIDE, 24, ["s1", "ü"]),  # the second does not fit, the third does
        (NAMES, SIZE_MAX, [".hidden", "spark.txt", "xspark.conf"]),
        ({}, SIZE_MAX, []),
    ],
)
def test_chooses_as_spark_does(tmp_path: Path, files: dict[str, str], size: int, kept: list[str]) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "folder").mkdir()
    found = read_conf_dir(tmp_path, size)
    assert found.texts == {name: files[name] for name in kept}


def test_what_is_left_out_is_said(tmp_path: Path) -> None:
    (tmp_path / "long").write_text("x" * 200)
    (tmp_path / "first").write_text("x" * 20)
    (tmp_path / "second").write_text("x" * 80)
    (tmp_path / "third").write_text("x" * 81)
    (tmp_path / "latin").write_bytes(b"\xe9")
    found = read_conf_dir(tmp_path, 120)
    assert list(found.texts) == ["first", "second"]
    assert found.remarks == (
        "latin is left out: not UTF-8",
        "third is left out: the files before it fill 120 characters",
        "long is left out: longer than 120 characters",
    )


def test_a_path_that_is_no_directory_has_no_files(tmp_path: Path) -> None:
    found = read_conf_dir(tmp_path / "none")
    assert found.texts == {}
    assert "no directory" in found.remarks[0]


def test_a_file_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    (tmp_path / "a").write_text("x")
    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(ConfDirError, match="Permission denied"):
        read_conf_dir(tmp_path)
