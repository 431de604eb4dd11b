"""docs/schema/recording.json says what recordings hold: no less, and no more."""

from __future__ import annotations

import io
import json
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from referencing import Registry, Resource

from podtide.adapters.recording.codec import MORE_PODS, stimulus_forms
from podtide.adapters.recording.header import RecordingHeader, header_line, header_of
from podtide.adapters.recording.pods import FORM
from podtide.adapters.recording.reader import Recording
from podtide.adapters.recording.writer import RecordingWriter
from podtide.domain.conf.spark_conf import from_mapping
from podtide.domain.protocol.allocation_policies import FIXED_POLICIES
from tests.properties.pod_happenings import POD_STIMULI, STIMULI, YARN_STIMULI, Taken, anything_once, stories
from tests.support.project import PROJECT

FOLDER = PROJECT / "docs" / "schema"
SCHEMA = json.loads((FOLDER / "recording.json").read_text())
RECORDS = Resource.from_contents(json.loads((FOLDER / "record.json").read_text()))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA, registry=Registry().with_resource("record.json", RECORDS))
HEADER = header_of(
    "app", from_mapping({"spark.my.password": "x"}, "a test"), 0, "fake", policies=FIXED_POLICIES, seed=1
)


def lines_of(story: list[Taken], header: RecordingHeader = HEADER) -> list[Any]:
    file = io.BytesIO()
    with RecordingWriter(file, header) as writer:
        for step in story:
            writer.step(step.at, step.stimuli, step.commands, step.reports)
            if step.full:
                writer.full(step.at)
    return [json.loads(line) for line in file.getvalue().splitlines()]


@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow])
@given(stories(steps_max=5))
def test_every_line_is_in_the_schema(story: list[Taken]) -> None:
    for line in lines_of(story):
        # What dynamic allocation decides has few causes; the strategies draw any.
        if "decided" in line:
            line["decided"] = [one for one in line["decided"] if one.get("command", "")[-9:] != "Executors"]
            if not line["decided"]:
                continue
        VALIDATOR.validate(line)


@pytest.mark.parametrize("kind", [*STIMULI, *POD_STIMULI, *YARN_STIMULI])
@settings(max_examples=10)
@given(st.data())
def test_every_stimulus_is_in_the_schema_with_every_field(kind: type, data: st.DataObject) -> None:
    value = data.draw(anything_once(kind))
    _, line, *_ = lines_of([Taken(5, (value._replace(at=3),))])
    (stimulus,) = line["stimuli"]
    branch = SCHEMA["$defs"][kind.__name__]
    validator = VALIDATOR.evolve(schema={**branch, "$defs": SCHEMA["$defs"]})
    validator.validate(stimulus)
    for key in branch["required"]:
        assert not validator.is_valid({name: found for name, found in stimulus.items() if name != key})
    assert not validator.is_valid({**stimulus, "unknown": 1})


def test_the_schema_names_every_stimulus_and_field() -> None:
    named = {ref["$ref"].rpartition("/")[2] for ref in SCHEMA["$defs"]["stimulus"]["oneOf"]}
    assert named == {kind.__name__ for kind in stimulus_forms()} | {MORE_PODS}
    for kind, form in stimulus_forms().items():
        assert set(SCHEMA["$defs"][kind.__name__]["properties"]) == set(form.keys)
    assert set(SCHEMA["$defs"]["pod"]["properties"]) == set(FORM.keys)
    assert set(SCHEMA["$defs"]["same_pod"]["properties"]) == (set(FORM.keys) - {"name"}) | {"same"}


def test_the_example_in_the_documentation_is_a_recording() -> None:
    text = (FOLDER.parent / "reference" / "formats.md").read_text()
    example = text.partition("### Pods as what changed")[2].split("```\n")[1]
    for line in example.splitlines():
        VALIDATOR.validate(json.loads(line))
    whole = header_line(HEADER) + example.encode()
    with Recording("-", stdin=io.BytesIO(whole)) as recording:
        pods = [[(pod.name, pod.phase) for pod in step.stimuli[0].pods] for step in recording]  # type: ignore[union-attr]
    assert pods[2:] == [[("e-1", "Running"), ("e-2", "Running")], [("e-2", "Running"), ("e-3", None)]]


@pytest.mark.parametrize(
    "line",
    [
        {},
        {"at_ms": 1},
        {"at_ms": 1, "stimuli": [], "end": {"steps": 0}},
        {"at_ms": "1", "stimuli": []},
        {"at_ms": 1, "stimuli": [{"stimulus": "Nonsense"}]},
        {"at_ms": 1, "stimuli": [{"stimulus": "PodsUpdated", "pods": [{"phase": "Running"}]}]},
        {"at_ms": 1, "decided": [{"at_ms": 1, "command": "createPod"}]},
        {"podtide": 2, "kind": "recording"},
    ],
)
def test_what_is_no_line_is_not_in_the_schema(line: dict[str, Any]) -> None:
    assert not VALIDATOR.is_valid(line)
