"""R14, R15 and what a submitter pastes (spec: auxiliary, section 4.2)."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from podtide.adapters.kubernetes.executor_pod.render import yaml_text
from podtide.adapters.kubernetes.executor_pod.template import template_of
from podtide.adapters.staging.archive import FilesRefused, staged_files
from podtide.adapters.staging.pod_template import FOLDER, LABEL, BundleSource, TemplateConflict, in_secret, of_bundle

SOURCE = BundleSource("https://stage:10000/v1/bundles/1", "s3cr3t", "ab" * 32, 99, "spark:4", 60, "PEM")
PLACE = Path("/home/me/pod-template.yaml")


def made(folder: Path, **sizes: int) -> list[Path]:
    folder.mkdir(exist_ok=True)
    for name, size in sizes.items():
        (folder / name.replace("_", ".")).write_bytes(b"x" * size)
    return [folder / name.replace("_", ".") for name in sizes]


def test_r14_without_a_server_a_jar_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FilesRefused, match=r"a\.jar is a jar: without --server"):
        in_secret(staged_files(made(tmp_path, a_jar=1)), "o", "ns", {}, PLACE)


def test_r14_nine_kib_of_files_go_into_a_secret_and_eleven_are_refused(tmp_path: Path) -> None:
    pasted = in_secret(staged_files(made(tmp_path, a_py=5 * 1024, b_csv=4 * 1024)), "o", "ns", {}, PLACE)
    assert {key: len(base64.b64decode(text)) for key, text in pasted.secret["data"].items()} == {
        "a.py": 5 * 1024,
        "b.csv": 4 * 1024,
    }
    assert pasted.template["spec"]["volumes"] == [
        {"name": "podtide-stage", "secret": {"secretName": "podtide-stage-o"}}
    ]
    assert "initContainers" not in pasted.template["spec"]
    with pytest.raises(FilesRefused, match="have 11264 bytes; without --server a Secret takes less than 10240"):
        in_secret(staged_files(made(tmp_path, a_py=7 * 1024, b_csv=4 * 1024)), "o", "ns", {}, PLACE)


def test_r15_files_of_one_name_are_refused_and_both_are_named(tmp_path: Path) -> None:
    paths = [*made(tmp_path / "one", a_jar=1), *made(tmp_path / "two", a_jar=2)]
    with pytest.raises(FilesRefused, match=r"two/a\.jar and .*one/a\.jar have the same name"):
        staged_files(paths)


def test_what_cannot_be_pushed(tmp_path: Path) -> None:
    (tmp_path / "a,b.jar").write_bytes(b"x")
    (tmp_path / "-rf").write_bytes(b"x")
    with pytest.raises(FilesRefused) as refusal:
        staged_files([tmp_path, tmp_path / "missing", tmp_path / "a,b.jar", tmp_path / "-rf", Path("/dev/zero")])
    assert len(refusal.value.errors) == 5


def test_the_template_has_all_that_pods_need_and_no_secret(tmp_path: Path) -> None:
    files = staged_files(made(tmp_path, app_jar=1, other_jar=1, mod_py=1, lib_zip=1))
    pasted = of_bundle(files, SOURCE, "0123", "team", {}, PLACE)
    assert pasted.secret["data"] == {"secret": base64.b64encode(b"s3cr3t").decode()}
    assert (pasted.secret["metadata"]["namespace"], pasted.secret["metadata"]["labels"]) == ("team", {LABEL: "0123"})
    text = yaml_text([pasted.template])
    assert yaml.safe_load(text) == pasted.template
    assert "s3cr3t" not in text
    assert template_of(text, "t").remarks == ()  # every field is one of the API's
    (container,) = pasted.template["spec"]["containers"]
    assert container["env"] == [{"name": "PYTHONPATH", "value": f"{FOLDER}:{FOLDER}/lib.zip"}]
    assert pasted.conf == {
        "spark.kubernetes.namespace": "team",
        "spark.kubernetes.driver.podTemplateFile": str(PLACE),
        "spark.kubernetes.executor.podTemplateFile": str(PLACE),
        "spark.jars": f"local://{FOLDER}/app.jar,local://{FOLDER}/other.jar",
    }


def test_a_template_of_ones_own_keeps_what_it_has(tmp_path: Path) -> None:
    files = staged_files(made(tmp_path, mod_py=1))
    env = [{"name": "A", "value": "1"}, {"name": "PYTHONPATH", "value": "/mine"}]
    own: dict[str, Any] = {
        "metadata": {"labels": {"team": "a"}},
        "spec": {
            "nodeSelector": {"disk": "fast"},
            "initContainers": [{"name": "first"}],
            "containers": [{"name": "spark", "env": env}, {"name": "sidecar"}],
            "volumes": [{"name": "scratch", "emptyDir": {}}],
        },
    }
    before = json.dumps(own)
    spec = of_bundle(files, SOURCE, "o", "ns", own, PLACE).template["spec"]
    assert json.dumps(own) == before
    assert [one["name"] for one in spec["initContainers"]] == ["podtide-stage", "first"]
    assert [one["name"] for one in spec["volumes"]] == ["scratch", "podtide-stage"]
    assert spec["containers"][0]["env"][1]["value"] == f"{FOLDER}:/mine"
    assert spec["containers"][1:] == [{"name": "sidecar"}]
    assert spec["nodeSelector"] == {"disk": "fast"}
    with pytest.raises(TemplateConflict):
        of_bundle(files, SOURCE, "o", "ns", {"spec": spec}, PLACE)


@pytest.mark.parametrize("label", ["0123456789e12345", "12e4", "1234567812345678", "0x12", "1_000", "null", "on"])
def test_a_label_that_looks_like_a_number_stays_a_text_in_every_yaml(tmp_path: Path, label: str) -> None:
    """Spark and kubectl read YAML 1.2, where 12e4 is a number."""
    text = yaml_text([in_secret(staged_files(made(tmp_path, a_py=1)), label, "ns", {}, PLACE).template])
    assert yaml.safe_load(text)["metadata"]["labels"] == {LABEL: label}
    assert re.search(rf"podtide\.io/stage: ['\"]{label}['\"]", text) or not re.fullmatch("[0-9].*", label)
