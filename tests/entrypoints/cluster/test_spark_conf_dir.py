"""The SPARK_CONF_DIR of an embedded cluster."""

from __future__ import annotations

from pathlib import Path

import pytest
from returns.pipeline import is_successful

from podtide.adapters.files.spark_conf import properties
from podtide.entrypoints.cluster.spark_conf_dir import (
    ConfDirUnreadable,
    cluster_settings,
    own_conf_dir,
    program_environment,
    write_conf_dir,
)

SETTINGS = cluster_settings("https://127.0.0.1:1", "ns", "a-token", Path("/x/ca.crt"))


def read(folder: Path) -> dict[str, str]:
    """spark-defaults.conf as Spark reads it: the last line of a key counts."""
    parsed = properties((folder / "spark-defaults.conf").read_text())
    assert is_successful(parsed)
    return {row.key: row.value for row in parsed.unwrap()}


@pytest.mark.parametrize("end", ["", "\n", " \\", "\\\n", "\\\\"])
def test_the_own_settings_stay_but_for_the_cluster(tmp_path: Path, end: str) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "log4j2.properties").write_text("rootLogger.level = warn\n")
    (own / "spark-defaults.conf").write_text(
        "spark.executor.memory 2g\nspark.master=yarn\nspark.kubernetes.namespace : other\nspark.app.name x" + end
    )
    before = (own / "spark-defaults.conf").read_bytes()
    made = write_conf_dir(tmp_path / "conf", own, SETTINGS)

    settings = read(made)
    assert settings.pop("spark.executor.memory") == "2g"
    assert settings.pop("spark.app.name").startswith("x")
    assert settings == SETTINGS
    assert SETTINGS["spark.master"] == "k8s://https://127.0.0.1:1"
    assert SETTINGS["spark.kubernetes.authenticate.submission.oauthToken"] == "a-token"
    assert (made / "log4j2.properties").read_text() == "rootLogger.level = warn\n"
    assert made.stat().st_mode & 0o777 == 0o700  # there is a token in it
    assert (made / "spark-defaults.conf").stat().st_mode & 0o777 == 0o600
    assert (own / "spark-defaults.conf").read_bytes() == before


def test_without_a_folder_of_ones_own(tmp_path: Path) -> None:
    assert read(write_conf_dir(tmp_path / "conf", None, SETTINGS)) == SETTINGS


def test_a_folder_that_cannot_be_copied(tmp_path: Path) -> None:
    with pytest.raises(ConfDirUnreadable, match="nowhere"):
        write_conf_dir(tmp_path / "conf", tmp_path / "nowhere", SETTINGS)


def test_whose_folder_is_copied(tmp_path: Path) -> None:
    assert own_conf_dir({}) is None
    assert own_conf_dir({"SPARK_HOME": str(tmp_path)}) is None
    (tmp_path / "conf").mkdir()
    assert own_conf_dir({"SPARK_HOME": str(tmp_path)}) == tmp_path / "conf"
    assert own_conf_dir({"SPARK_HOME": str(tmp_path), "SPARK_CONF_DIR": "/own"}) == Path("/own")


def test_the_environment_of_the_program() -> None:
    made = program_environment({"PATH": "/bin", "KUBECONFIG": "/old"}, Path("/conf"), Path("/kubeconfig"))
    assert made == {
        "PATH": "/bin",
        "KUBECONFIG": "/kubeconfig",
        "SPARK_CONF_DIR": "/conf",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_HOSTNAME": "127.0.0.1",
    }
