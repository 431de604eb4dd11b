"""Pod templates, against what Spark's client makes of them (pod_templates.json), and what is refused with its place."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from podtide.adapters.files.yaml_reader import SIZE_MAX
from podtide.adapters.kubernetes.executor_pod.template import PodTemplateError, read_template, template_of
from podtide.adapters.kubernetes.executor_pod.template_schema import POD_TYPES
from podtide.domain.executor_pod.feature_steps import _initial

ANSWERS = json.loads((Path(__file__).parent / "pod_templates.json").read_text())
POD = "kind: Pod\nspec:\n  containers:\n  - name: c\n"


@pytest.mark.parametrize(("text", "container", "answer"), ANSWERS, ids=range(len(ANSWERS)))
def test_reads_as_the_client_does(text: str, container: str | None, answer: list[Any] | None) -> None:
    if answer is None:
        with pytest.raises(PodTemplateError):
            template_of(text, "t")
    else:
        assert list(_initial(template_of(text, "t").tree, container)) == answer


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ("", 1, "expected a Pod"),
        ("kind: Deployment\nspec: {containers: []}\n", 1, "expected Pod, not Deployment"),
        ("kind: Pod\nmetadata: {}\n", 1, "spec: expected"),
        (
            POD + "    ports:\n    - containerPort: http\n",
            6,
            r"spec\.containers\[0\]\.ports\[0\]\.containerPort: expected",
        ),
        (POD + "    args: [1, null]\n", 5, r"args\[1\]: expected a value"),
        (POD + "    name: d\n", 5, "the key name is there twice"),
        (POD + "    stdin: yes\n", 5, "stdin: expected true or false"),
        (POD + "    resources: {limits: {cpu: ''}}\n", 5, "cpu: expected a quantity"),
        (POD + "    image: [x]\n", 5, "image: expected a single value"),
        (POD + "  priority: 1" + "0" * 500 + "\n", 5, "digits"),
        (POD + "  terminationGracePeriodSeconds: 1e400\n", 5, "whole number"),
        (POD + "    args: !!python/object:os.system []\n", 5, "tag"),
        (POD + "---\nkind: Pod\n", 5, "second document"),
    ],
)
def test_what_cannot_be_used_is_told_with_its_line(text: str, line: int, why: str) -> None:
    with pytest.raises(PodTemplateError, match=why) as refused:
        template_of(text, "pod.yaml")
    assert str(refused.value).startswith(f"pod.yaml:{line}: ")


def test_fields_that_nobody_knows_are_kept_and_remarked_upon() -> None:
    found = template_of(POD + "  toleration: [{key: a}]\n", "t")
    assert found.tree["spec"]["toleration"] == [{"key": "a"}]
    assert found.remarks == ("t:5: spec.toleration is no field of PodSpec that is known here",)


def test_aliases_cannot_make_a_small_file_large() -> None:
    doubling = "".join(f"x{n + 1}: &x{n + 1} [*x{n}, *x{n}, *x{n}, *x{n}]\n" for n in range(14))
    with pytest.raises(PodTemplateError, match=r"too large|nested"):
        template_of("x0: &x0 [a]\n" + doubling + POD, "t")


@pytest.mark.parametrize("scheme", ["", "file:", "file://", "local:"])
def test_a_template_lies_where_the_conf_says(tmp_path: Path, scheme: str) -> None:
    (tmp_path / "a b.yaml").write_text("\ufeff" + POD)
    assert read_template(f"{scheme}{tmp_path}/a%20b.yaml").tree["spec"] == {"containers": [{"name": "c"}]}


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(PodTemplateError, match="not by s3a:"):
        read_template("s3a://bucket/pod.yaml")
    with pytest.raises(PodTemplateError, match="No such file"):
        read_template(str(tmp_path / "none"))
    with pytest.raises(PodTemplateError, match="not a file"):
        read_template(str(tmp_path))
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(PodTemplateError, match="not a file"):
        read_template(str(tmp_path / "fifo"))
    (tmp_path / "long").write_text("# " + "x" * SIZE_MAX)
    with pytest.raises(PodTemplateError, match="longer than"):
        read_template(str(tmp_path / "long"))
    (tmp_path / "latin").write_bytes(b"kind: Pod\n# \xe9\n")
    with pytest.raises(PodTemplateError, match="latin:2: not UTF-8"):
        read_template(str(tmp_path / "latin"))


@given(st.text(max_size=200))
def test_any_text_is_a_template_or_refused(text: str) -> None:
    for whole in (text, POD + text):
        try:
            template_of(whole, "t")
        except PodTemplateError as refused:
            assert str(refused).startswith("t:")  # noqa: PT017 - either way is fine


def test_every_type_that_a_field_names_is_there() -> None:
    single = {"text", "int", "long", "flag", "quantity", "port"}
    named = {kind.strip("[]{}") for fields in POD_TYPES.values() for kind in fields.values()}
    assert named - single <= set(POD_TYPES)
