"""Recordings: small, whole or cut, refused where they are damaged, with the line."""

from __future__ import annotations

import errno
import io
import json
import os
import stat
import sys
from pathlib import Path
from typing import Any

import pytest
import zstandard

from podtide.adapters.eventlog.bytes.errors import LogError
from podtide.adapters.recording import pods as recording_pods, reader as recording_reader, writer as recording_writer
from podtide.adapters.recording.codec import RecordedStimulus
from podtide.adapters.recording.header import RecordingError, RecordingHeader, UnknownPolicy, header_of, policy_words
from podtide.adapters.recording.opening import begins_recording, is_recording
from podtide.adapters.recording.reader import RecordedEnd, RecordedPods, RecordedStep, Recording
from podtide.adapters.recording.recorder import whole_recording
from podtide.adapters.recording.writer import RecordingWriter
from podtide.domain.base.units import ProfileId
from podtide.domain.conf.redaction import REDACTED
from podtide.domain.conf.spark_conf import from_mapping
from podtide.domain.conf.spark_versions import parse_version
from podtide.domain.protocol.allocation_policies import FIXED_POLICIES, SPARK_POLICIES, Consumer, Policies, split_evenly
from podtide.domain.protocol.executor_stimuli import Wake
from podtide.domain.protocol.pod_commands import CreatePod, PodCommand
from podtide.domain.protocol.pod_stimuli import Outcome, PodsReplaced, PodsUpdated
from podtide.domain.protocol.pods import EXECUTOR_LABEL, PodContainer, PodManifest, PodNumber
from podtide.domain.protocol.reasons import Cause, Remark, Why
from podtide.domain.protocol.stimuli import StageSubmitted, Tick

HEADER = RecordingHeader("app", 1_000, "fake", {"spark.executor.cores": "4"}, seed=7)
FIRST = json.dumps({"podtide": 1, "kind": "recording", "app_id": "app", "source": "live", "started_at_ms": 0,
                    "spark": "4.3.0", "policies": {}, "conf": {}})  # fmt: skip
WHY = Why(Cause.BELOW_TARGET, {"missing": 3})


def pod(number: int, phase: str = "Running", **more: Any) -> PodManifest:
    labels = {EXECUTOR_LABEL: str(number), "spark-role": "executor"}
    return PodManifest(f"exec-{number:05}", labels, phase=phase, containers=(PodContainer("c"),), **more)


def create(at: int, serial: int) -> PodCommand:
    return CreatePod(at, serial, PodNumber(serial), ProfileId(0), WHY)


def file_of(path: Path, *lines: str, header: str = FIRST) -> str:
    path.write_text("\n".join((header, *lines, "")))
    return str(path)


def steps_of(path: str | Path) -> tuple[list[RecordedStep], str | None]:
    with Recording(str(path)) as recording:
        return list(recording), recording.cut


def lines_of(data: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in data.splitlines()]


@pytest.mark.parametrize("name", ["r.jsonl", "r.jsonl.zst"])
def test_a_recording_comes_back_as_it_was(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    remark = Remark(2_000, "ExecutorPodsAllocator", "some topic", {"n": 1})
    with RecordingWriter(str(path), HEADER) as writer:
        writer.step(1_000, (), [create(1_000, 1)])
        writer.step(2_000, [PodsUpdated(2_000, (pod(1),)), Wake(2_000)], [create(2_000, 2)], [remark])
        writer.full(2_000)
        writer.step(3_000, [Tick(3_000)])
    with Recording(str(path)) as recording:
        assert recording.header.app_id == "app"
        assert recording.header.seed == 7
        assert recording.header.conf == {"spark.executor.cores": "4"}
        entries = list(recording.entries())
        assert recording.cut is None
        assert [type(entry) for entry in entries] == [
            RecordedStep, RecordedStep, RecordedPods, RecordedStep, RecordedEnd,
        ]  # fmt: skip
        assert [entry.line for entry in entries] == [2, 4, 6, 7, 8]
        one = entries[1]
        assert isinstance(one, RecordedStep)
        assert one.at == 2_000
        assert one.stimuli == (PodsUpdated(2_000, (pod(1),)), Wake(2_000))
        assert one.commands == (create(2_000, 2),)
        assert one.reports == (remark,)
        assert [record.get("command", record.get("report")) for record in one.decided] == ["createPod", "remark"]
        assert entries[2] == RecordedPods(6, 2_000, (pod(1),))
        assert entries[-1] == RecordedEnd(8, 3_000, 3, "closed")
        assert [step.at for step in recording] == [1_000, 2_000, 3_000], "it can be read again"


def test_a_pod_is_written_once_and_then_as_what_changed() -> None:
    file = io.BytesIO()
    writer = RecordingWriter(file, HEADER)
    states = [pod(1, "Pending"), pod(1, "Running", node="n"), pod(1, "Running", node="n"), pod(1, "Failed")]
    for at, state in enumerate(states):
        writer.step(at, [PodsUpdated(at, (state,))])
    writer.close()
    pods = [line["stimuli"][0]["pods"] for line in lines_of(file.getvalue()) if "stimuli" in line]
    assert pods[0][0]["name"] == "exec-00001"
    assert pods[0][0]["labels"] == {EXECUTOR_LABEL: "1", "spark-role": "executor"}
    assert pods[1:] == [
        [{"same": "exec-00001", "phase": "Running", "node": "n"}],
        [{"same": "exec-00001"}],
        [{"same": "exec-00001", "phase": "Failed", "node": None}],
    ]


def test_a_list_says_only_what_changed() -> None:
    file = io.BytesIO()
    writer = RecordingWriter(file, HEADER)
    fleet = {number: pod(number) for number in range(1, 10_001)}
    writer.step(1, [PodsReplaced(1, tuple(fleet.values()))])
    writer.step(2, [PodsReplaced(2, tuple(fleet.values()))])
    del fleet[10], fleet[11]
    fleet[500] = pod(500, "Failed")
    writer.step(3, [PodsReplaced(3, tuple(fleet.values()))])
    writer.step(4, [PodsUpdated(4, (pod(20_000, "Pending"), pod(20, "Failed")))])
    listed = (pod(0, "Pending"), *fleet.values(), pod(20_000, "Pending"))
    writer.step(5, [Outcome(5, 1, pods=listed)])
    writer.close()
    lists: dict[int, list[Any]] = {}
    for line in lines_of(file.getvalue()):
        for stimulus in line.get("stimuli", ()):
            lists.setdefault(line["at_ms"], []).extend(stimulus["pods"])
    assert lists[2] == [10_000]
    assert lists[3] == [9, -2, 488, {"same": "exec-00500", "phase": "Failed"}, 9_500]
    assert [part if isinstance(part, int) else (part.get("name"), part.get("same")) for part in lists[5]] == [
        ("exec-00000", None), 17, (None, "exec-00020"), 9_981
    ]  # fmt: skip
    with Recording("-", stdin=io.BytesIO(file.getvalue())) as recording:
        (*_, last) = recording
    assert last.stimuli == (Outcome(5, 1, pods=listed),)


def test_a_full_snapshot_comes_by_itself_at_a_bounded_cost(tmp_path: Path) -> None:
    path = tmp_path / "r"
    fleet = tuple(pod(number) for number in range(20))
    with RecordingWriter(str(path), HEADER, full_bytes_min=1) as writer:
        writer.step(0, [PodsReplaced(0, fleet)])
        for at in range(1, 2_000):
            writer.step(at, [PodsUpdated(at, (pod(at % 20, f"{at}"),))])
    fulls = [line for line in path.read_bytes().splitlines() if b'"full":' in line]
    assert len(fulls) > 3
    assert sum(map(len, fulls)) < path.stat().st_size / 3
    steps, cut = steps_of(path)
    assert len(steps) == 2_000
    assert cut is None


# ------------------------------------------------------------------------------------------------------------ large steps


def test_a_step_of_any_size_goes_into_lines_of_bounded_length(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording_writer, "PART_BYTES", 500)
    monkeypatch.setattr(recording_writer, "LINE_MAX", 2_000)
    monkeypatch.setattr(recording_reader, "LINE_MAX", 2_000)
    path = tmp_path / "r"
    pods = tuple(pod(number) for number in range(100))
    stimuli = (Wake(5), PodsUpdated(5, pods[:30]), PodsReplaced(5, pods), Outcome(5, 1, pods=pods[:50]), Wake(4))
    commands = tuple(create(5, serial) for serial in range(30))
    with RecordingWriter(str(path), HEADER) as writer:
        writer.step(5, stimuli, commands)
        writer.full(5, pods)
        writer.step(6, [Wake(6)])
    lines = path.read_bytes().splitlines()
    assert max(map(len, lines)) <= 2_000
    assert sum(b'"more":true' in line for line in lines) > 20
    with Recording(str(path)) as recording:
        entries = list(recording.entries())
        assert [step.at for step in recording] == [5, 6]
    first, full, *_ = entries
    assert isinstance(first, RecordedStep)
    assert first.stimuli == stimuli
    assert first.commands == commands
    assert isinstance(full, RecordedPods)
    assert full.pods == pods
    # Cut among the lines of a step: the step is not there, and that is said.
    for count in range(2, len(lines)):
        (tmp_path / "cut").write_bytes(b"\n".join(lines[:count]) + b"\n")
        steps, cut = steps_of(tmp_path / "cut")
        assert cut is not None
        assert ("not all there" in cut) == (b'"more":true' in lines[count - 1])
        assert all(step.stimuli == stimuli for step in steps[:1])
        assert all(step.complete == (step.commands == commands) for step in steps[:1])


def test_what_is_too_long_for_any_line_is_refused_and_the_rest_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording_writer, "LINE_MAX", 2_000)
    path = tmp_path / "r"
    writer = RecordingWriter(str(path), HEADER)
    writer.step(1, [Wake(1)])
    huge = StageSubmitted(2, 0, 0, 1, ProfileId(0), (("host" * 1_000,),))
    with pytest.raises(RecordingError, match="a line has at most 2,000"):
        writer.step(2, [huge])
    with pytest.raises(RecordingError, match="a line has at most 2,000"):
        writer.step(3, [Wake(3)])
    writer.abandon()
    steps, cut = steps_of(path)
    assert [step.at for step in steps] == [1]
    assert cut is not None


def test_a_full_table_forgets_nothing_that_matters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording_pods, "PODS_KNOWN_MAX", 3)
    monkeypatch.setattr(recording_pods, "WEIGHT_KNOWN_MAX", 2_500)
    path = tmp_path / "r"
    pods = tuple(pod(number) for number in range(6))
    heavy = pod(1, message="x" * 3_000)
    story: list[tuple[RecordedStimulus, ...]] = [
        (PodsReplaced(1, pods),), (PodsReplaced(2, pods),), (PodsUpdated(3, (heavy,)),), (PodsUpdated(4, (pod(1),)),),
        (PodsUpdated(5, pods),), (PodsReplaced(6, tuple(reversed(pods))),), (PodsReplaced(7, ()),),
    ]  # fmt: skip
    with RecordingWriter(str(path), HEADER) as writer:
        for at, stimuli in enumerate(story, 1):
            writer.step(at, stimuli)
            writer.full(at)
    steps, _ = steps_of(path)
    assert [step.stimuli for step in steps] == story


# ----------------------------------------------------------------------------------------------------- refused, and told


def damaged(tmp_path: Path, *lines: str, header: str = FIRST) -> str:
    """What is said about a recording of these lines."""
    path = file_of(tmp_path / "r", *lines, header=header)
    with pytest.raises(RecordingError) as refusal:
        steps_of(path)
    assert isinstance(refusal.value, LogError)
    message = str(refusal.value)
    assert message.startswith(path)
    assert message.isprintable()
    return message.removeprefix(path)


STEP = '{"at_ms":5,"stimuli":[]}'


@pytest.mark.parametrize(
    ("header", "said"),
    [
        (FIRST.replace('"podtide": 1', '"podtide": 2'), ":1: version 2 of the format; 1 is understood"),
        (FIRST.replace('"podtide": 1', '"podtide": true'), ":1: version True of the format; 1 is understood"),
        (
            '{"podtide": 1, "kind": "cluster", "started_at_ms": 0, "namespace": "default"}',
            ":1: the record of a cluster (podtide cluster --record), which holds no decisions; a recording was expected "
            "(podtide run --record)",
        ),
        (FIRST.replace('"recording"', '"decisions"'), ":1: a file of kind 'decisions'; kind 'recording' was expected"),
        (FIRST.replace('"live"', '"x"'), ":1: a damaged header: Invalid enum value 'x' - at `$.source`"),
        (FIRST.replace('"conf": {}', '"conf": {"a": 1}'), ":1: a damaged header: Expected `str`, got `int`"),
        ('{"Event":"SparkListenerLogStart"}', ':1: no header; {"podtide": 1, "kind": "recording", ...} was expected'),
        ("[1]", ":1: no header"),
        ("hello", ":1: no JSON; the header of a recording was expected"),
        ("[" * 100_000, ":1: no JSON"),
    ],
)
def test_a_header_that_is_none_is_refused(tmp_path: Path, header: str, said: str) -> None:
    assert damaged(tmp_path, STEP, header=header).startswith(said)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["x"], ":2: no JSON"),
        (["[1]"], ":2: no line of a recording: Expected `object`, got `array`"),
        (["{}"], ":2: no line of a recording: Object missing required field `at_ms`"),
        (['{"at_ms":1}'], ":2: one of stimuli, decided, full, end was expected, none found"),
        (['{"at_ms":1,"stimuli":[],"end":{"steps":0}}'], ":2: one of stimuli, decided, full, end was expected, stimuli"),
        (['{"at_ms":1.5,"stimuli":[]}'], ":2: no line of a recording: Expected `int`, got `float` - at `$.at_ms`"),
        (['{"at_ms":1,"stimuli":[],"x":1}'], ":2: no line of a recording: Object contains unknown field `x`"),
        ([STEP, '{"at_ms":4,"stimuli":[]}'], ":3: at_ms is 4 after 5; time never falls"),
        (['{"at_ms":1,"stimuli":[{"stimulus":"Nonsense"}]}'], ":2: no line of a recording: Invalid value 'Nonsense'"),
        (['{"at_ms":1,"stimuli":[{"stimulus":"JobEnd"}]}'], ":2: no line of a recording: Object missing required"),
        (['{"at_ms":1,"stimuli":[{"stimulus":"Tick","x":1}]}'], ":2: no line of a recording: Object contains unknown"),
        (['{"at_ms":1,"stimuli":[{"stimulus":"MorePods","pods":[]}]}'], ":2: MorePods, and no stimulus with pods"),
        (['{"at_ms":1,"stimuli":[{"stimulus":"Tick"},{"stimulus":"MorePods","pods":[]}]}'], ":2: MorePods, and no"),
        (
            ['{"at_ms":1,"stimuli":[{"stimulus":"PodsUpdated","pods":[{"same":"a"}]}]}'],
            ":2: stimulus 1: the pod 'a' is said to be as before, and none of that name was recorded before",
        ),
        (
            ['{"at_ms":1,"stimuli":[{"stimulus":"PodsUpdated","pods":[{"phase":"Running"}]}]}'],
            ":2: stimulus 1: a pod without a name",
        ),
        (
            ['{"at_ms":1,"stimuli":[{"stimulus":"PodsUpdated","pods":[{"name":"a","same":"a"}]}]}'],
            ":2: stimulus 1: a pod with both name and same",
        ),
        (['{"at_ms":1,"stimuli":[{"stimulus":"PodsUpdated","pods":[1]}]}'], ":2: stimulus 1: the number 1 among updates"),
        (
            ['{"at_ms":1,"stimuli":[{"stimulus":"PodsReplaced","pods":[1]}]}'],
            ":2: stimulus 1: the number 1 in a list of pods where 0 are left to name",
        ),
        (['{"at_ms":1,"stimuli":[{"stimulus":"PodsReplaced","pods":[0]}]}'], ":2: stimulus 1: the number 0 in a list"),
        (['{"at_ms":1,"stimuli":[{"stimulus":"Wake","at_ms":2}]}'], ":2: stimulus 1: at_ms 2 is later than the line's"),
        (['{"at_ms":5,"decided":[]}'], ":2: decisions that follow no stimuli of their time"),
        ([STEP, '{"at_ms":6,"decided":[]}'], ":3: decisions that follow no stimuli of their time"),
        ([STEP, '{"at_ms":5,"decided":[]}', '{"at_ms":5,"decided":[]}'], ":4: decisions that follow no stimuli"),
        ([STEP, '{"at_ms":5,"decided":[{}]}'], ":3: decided[0]: neither command nor report"),
        ([STEP, '{"at_ms":5,"decided":[{"command":"fly"}]}'], ":3: decided[0]: Invalid value 'fly' - at `$.command`"),
        ([STEP, '{"at_ms":5,"decided":[{"report":"fly"}]}'], ":3: decided[0]: Invalid value 'fly' - at `$.report`"),
        (['{"at_ms":5,"stimuli":[],"more":true}', '{"at_ms":5,"end":{"steps":0}}'], ":3: more stimuli of 5 were expected"),
        (['{"at_ms":5,"stimuli":[],"more":true}', '{"at_ms":6,"stimuli":[]}'], ":3: more stimuli of 5 were expected"),
        (['{"at_ms":5,"full":[]}'], ":2: view was expected in the first line of a full snapshot"),
        (['{"at_ms":5,"stimuli":[],"view":{"known":0,"differ":0}}'], ":2: view was expected in the first line of a full"),
        (['{"at_ms":5,"view":{"known":0,"differ":0},"full":[{"same":"a"}]}'], ":2: full: a pod without a name of its own"),
        (
            ['{"at_ms":5,"view":{"known":3,"differ":1},"full":[]}'],
            ":2: the writer knew 3 pods, 1 of this snapshot otherwise or not at all; the lines before make it 0 and 0",
        ),
        ([STEP, '{"at_ms":5,"end":{"steps":2}}'], ":3: the end of 2 steps; 1 were found before: lines are missing"),
        ([STEP, '{"at_ms":5,"end":{"steps":1}}', STEP], ":4: a line after the last one"),
        (['{"at_ms":5,"stimuli":' + "[" * 5_000 + "]" * 5_000 + "}"], ":2: no line of a recording"),
        (['{"at_ms":5,"decided":' + "[" * 50_000 + "}"], ":2: "),
        (['{"at_ms":5,"stimuli":[{"stimulus":"\x1b[2J"}]}'], ":2: "),
    ],
)  # fmt: skip
def test_a_line_that_is_none_is_refused_by_its_number(tmp_path: Path, lines: list[str], said: str) -> None:
    assert damaged(tmp_path, *lines, STEP.replace("5", "9")).startswith(said)


def test_decisions_that_do_not_fit_together_are_refused(tmp_path: Path) -> None:
    kill = {"at_ms": 5, "command": "killExecutors", "serial": 1, "ids": ["1", "2"], "cause": "idle", "facts": {},
            "causes": ["idle"], "profiles": [0, 0], "reasons": [{}, {}]}  # fmt: skip
    said = damaged(tmp_path, STEP, json.dumps({"at_ms": 5, "decided": [kill]}))
    assert "decided[0]: ids, causes, profiles and reasons of equal length" in said
    mixed = {"at_ms": 5, "command": "deletePods", "serial": 1, "ids": ["1", 2], "cause": "above target", "facts": {}}
    said = damaged(tmp_path, STEP, json.dumps({"at_ms": 5, "decided": [mixed]}))
    assert "decided[0]: DeletePods: a list of numbers or of texts was expected, not of both" in said


def test_a_line_that_was_taken_out_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "r"
    with RecordingWriter(str(path), HEADER) as writer:
        for at in range(5):
            writer.step(at, [PodsUpdated(at, (pod(1, str(at)),))])
        writer.full(5)
    lines = path.read_text().splitlines()
    said = damaged(tmp_path, *lines[1:4], *lines[5:], header=lines[0])
    assert "end of 5 steps; 4 were found" in said
    said = damaged(tmp_path, *lines[1:5], *lines[6:], header=lines[0])
    assert "the lines before make it 1 and 1: one of them is missing" in said


def test_a_list_that_stands_for_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording_pods, "STEP_PODS_MAX", 50)
    monkeypatch.setattr("podtide.adapters.recording.codec.STEP_PODS_MAX", 50)
    names = json.dumps([{"name": f"{n}"} for n in range(20)])
    again = ",".join(['{"stimulus":"PodsReplaced","pods":[20]}'] * 2)
    lines = f'{{"at_ms":1,"stimuli":[{{"stimulus":"PodsReplaced","pods":{names}}},{again}]}}'
    assert ":2: stimulus 3: more than 50 pods in one step" in damaged(tmp_path, lines)


def test_a_line_beyond_all_bounds_is_refused_unread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording_reader, "LINE_MAX", 10_000)
    said = damaged(tmp_path, STEP, STEP + " " * 10_000, STEP)
    assert said == ":3: a line of 10,024 bytes; at most 10,000 are read"


def test_compressed_damage_is_told(tmp_path: Path) -> None:
    path = tmp_path / "r.zst"
    with RecordingWriter(str(path), HEADER) as writer:
        for at in range(200):
            writer.step(at, [PodsUpdated(at, (pod(at),))])
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(bytes(data))
    with pytest.raises(RecordingError):
        steps_of(path)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty; a recording was expected"),
        (b"PAR1", "is a Parquet file; a recording was expected"),
        (b'{"podtide":1,"ki', ":1: cut off in its first line; the header of a recording was expected"),
        (b"\x28\xb5\x2f\xfd", ":1: cut off before its first line; the header of a recording was expected"),
    ],
)
def test_what_is_no_recording_is_refused(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "r"
    path.write_bytes(content)
    with pytest.raises(RecordingError) as refusal:
        Recording(str(path))
    assert str(refusal.value).endswith(said)


# -------------------------------------------------------------------------------------------------------------------- cut


@pytest.mark.parametrize("name", ["r", "r.zst"])
def test_without_an_end_it_says_so(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    writer = RecordingWriter(str(path), HEADER)
    writer.step(1, [Wake(1)])
    writer.step(2, [Wake(2)], [create(2, 1)])
    writer.step(3, [Wake(3)])
    # Nothing was closed: a process that is killed now leaves just this.
    steps, cut = steps_of(path)
    assert [(step.at, step.complete) for step in steps] == [(1, True), (2, True), (3, False)]
    assert cut == "cut off after line 5; it was not closed"
    writer.close("stopped")
    steps, cut = steps_of(path)
    assert all(step.complete for step in steps)
    assert cut is None


@pytest.mark.parametrize(
    "rest", [b'{"at_ms":3,"stim', b"\0" * 100, b'{"at_ms":3,"stimuli":[{"stimulus":"Wake"}]', b"\xff"]
)
def test_half_a_line_is_passed_over(tmp_path: Path, rest: bytes) -> None:
    path = tmp_path / "r"
    writer = RecordingWriter(str(path), HEADER)
    writer.step(1, [Wake(1)], [create(1, 1)])
    path.write_bytes(path.read_bytes() + rest)
    steps, cut = steps_of(path)
    assert [(step.at, step.complete) for step in steps] == [(1, True)]
    assert cut == "cut off in line 4, which is passed over; it was not closed"


def test_zstd_ends_a_block_with_every_step_and_a_frame_now_and_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording_writer, "FRAME_BYTES", 5_000)
    path = tmp_path / "r.zst"
    writer = RecordingWriter(str(path), HEADER)
    for at in range(200):
        writer.step(at, [PodsUpdated(at, (pod(at % 50, f"{at}"),))])
        assert len(steps_of(path)[0]) == at + 1
    writer.close()
    assert path.read_bytes().count(b"\x28\xb5\x2f\xfd") > 3
    with zstandard.open(path) as whole:
        assert whole.read().count(b"\n") == 202


# ---------------------------------------------------------------------------------------------------------------- writing


def test_nothing_is_overwritten_unless_told(tmp_path: Path) -> None:
    path = tmp_path / "r"
    path.write_text("precious")
    with pytest.raises(RecordingError, match="exists already"):
        RecordingWriter(str(path), HEADER)
    assert path.read_text() == "precious"
    RecordingWriter(str(path), HEADER, overwrite=True).close()
    assert steps_of(path) == ([], None)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("none/r", "cannot be written: No such file or directory"),
        ("r.gz", "recordings are not written as gzip; .zst or no suffix was expected"),
        ("r\0", "cannot be written"),
    ],
)
def test_where_nothing_can_be_written(tmp_path: Path, name: str, said: str) -> None:
    with pytest.raises(RecordingError, match=said):
        RecordingWriter(str(tmp_path / name), HEADER)
    assert not list(tmp_path.iterdir())


class Disk(io.BytesIO):
    """A file that takes a little at a time and is full at some point."""

    def __init__(self, room: int, problem: OSError) -> None:
        super().__init__()
        self.room = room
        self.problem = problem

    def write(self, data: Any, /) -> int:
        room = min(7, self.room - self.tell(), len(data))
        if room == 0:
            raise self.problem
        return super().write(bytes(data[:room]))


@pytest.mark.parametrize("compress", [False, True])
def test_a_full_disk_is_told_once_and_what_was_written_reads(compress: bool) -> None:
    disk = Disk(2_000, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    writer = RecordingWriter(disk, HEADER, compress=compress)
    with pytest.raises(RecordingError, match="writing failed: No space left on device"):
        for at in range(10_000):
            writer.step(at, [PodsUpdated(at, (pod(at),))])
    for again in (writer.flush, writer.close):
        with pytest.raises(RecordingError, match="No space left on device"):
            again()
    writer.abandon()
    with Recording("-", stdin=io.BytesIO(disk.getvalue())) as recording:
        steps = list(recording)
        assert len(steps) > 3
        assert recording.cut is not None


def test_a_reader_that_left_is_told_apart() -> None:
    writer = RecordingWriter(Disk(500, BrokenPipeError()), HEADER)
    with pytest.raises(BrokenPipeError):
        for at in range(100):
            writer.step(at, [Wake(at)])


def test_an_exception_leaves_a_recording_that_was_not_closed(tmp_path: Path) -> None:
    path = tmp_path / "r"
    with pytest.raises(ZeroDivisionError), RecordingWriter(str(path), HEADER, flush_steps=100) as writer:
        writer.step(1, [Wake(1)])
        raise ZeroDivisionError
    steps, cut = steps_of(path)
    assert [step.at for step in steps] == [1]
    assert cut is not None
    with pytest.raises(RecordingError, match="closed"):
        writer.step(2, [Wake(2)])


def test_flushing_may_wait(tmp_path: Path) -> None:
    path = tmp_path / "r"
    writer = RecordingWriter(str(path), HEADER, flush_steps=10)
    for at in range(9):
        writer.step(at, [Wake(at)])
    assert steps_of(path)[0] == []
    writer.flush()
    assert len(steps_of(path)[0]) == 9
    writer.close()
    writer.close()


def test_standard_output(capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(out))
    with RecordingWriter("-", HEADER) as writer:
        writer.step(1, [Wake(1)])
    assert out.getvalue().count(b"\n") == 3


def test_names_cannot_steer_a_terminal_and_half_characters_do_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "r"
    with RecordingWriter(str(path), HEADER) as writer:
        writer.step(1, [PodsUpdated(1, (pod(1, message="\x1b[2J é \x7f \U0001f600"), pod(2, message="half \ud83d")))])
    assert path.read_bytes().isascii()
    assert b"\x1b" not in path.read_bytes()
    (step,) = steps_of(path)[0]
    (update,) = step.stimuli
    assert isinstance(update, PodsUpdated)
    assert [one.message for one in update.pods] == ["\x1b[2J é \x7f \U0001f600", "half ?"]


# ----------------------------------------------------------------------------------------------------------------- header


def test_secrets_stay_out(tmp_path: Path) -> None:
    settings = {
        "spark.executor.cores": "4",
        "spark.my.password": "hunter2",
        "spark.mine": "hush",
        "spark.redaction.regex": "(?i)mine",
    }
    path = tmp_path / "r"
    raw = RecordingHeader("app", 0, "live", settings)
    for header in (raw, header_of("app", from_mapping(settings, "a test"), 0, "live")):
        RecordingWriter(str(path), header, overwrite=True).close()
        text = path.read_text()
        assert "hunter2" not in text
        assert "hush" not in text
        assert REDACTED not in text
        with Recording(str(path)) as recording:
            assert recording.header.conf["spark.executor.cores"] == "4"
            assert "spark.my.password" in recording.header.redacted
            assert "spark.mine" in recording.header.redacted
            again = recording.header
    # A recording of a replay keeps them out too, and keeps saying what was taken out.
    RecordingWriter(str(path), again, overwrite=True).close()
    with Recording(str(path)) as recording:
        assert recording.header == again


def test_credentials_inside_of_values_are_hidden_and_the_rest_of_them_stays(tmp_path: Path) -> None:
    settings = {
        "spark.executorEnv.DATABASE_URL": "postgres://bob:hunter2@db:5432/x",
        "spark.hadoop.fs.azure.account.key.a.blob": "hush",
    }
    path = tmp_path / "r"
    RecordingWriter(str(path), header_of("app", from_mapping(settings, "a test"), 0, "live")).close()
    assert "hunter2" not in path.read_text()
    assert "hush" not in path.read_text()
    with Recording(str(path)) as recording:
        assert recording.header.conf["spark.executorEnv.DATABASE_URL"] == f"postgres://bob:{REDACTED}@db:5432/x"
        assert recording.header.redacted == ("spark.hadoop.fs.azure.account.key.a.blob",)
        again = recording.header
    RecordingWriter(str(path), again, overwrite=True).close()
    with Recording(str(path)) as recording:
        assert recording.header == again


def test_a_new_recording_is_its_owners_alone_and_one_that_exists_keeps_its_mode(tmp_path: Path) -> None:
    live, whole = tmp_path / "live", tmp_path / "whole"
    mask = os.umask(0o022)
    try:
        for mode in (0o600, 0o644):
            RecordingWriter(str(live), HEADER, overwrite=True).close()
            with whole_recording(str(whole), HEADER, overwrite=True):
                pass
            assert [stat.S_IMODE(path.stat().st_mode) for path in (live, whole)] == [mode, mode]
            live.chmod(0o644)
            whole.chmod(0o644)
    finally:
        os.umask(mask)


def test_the_conf_comes_back_under_the_recorded_defaults(tmp_path: Path) -> None:
    conf = from_mapping({"spark.executor.cores": "4"}, "a test", parse_version("3.3.1"))
    path = tmp_path / "r"
    RecordingWriter(str(path), header_of("app", conf, 5, "live")).close()
    with Recording(str(path)) as recording:
        again = recording.header.spark_conf()
        assert again.version.release == (3, 3, 1)
        assert again.settings["spark.executor.cores"].value == "4"
        assert recording.header.started_at == 5


def greedy(consumers: Any, slots: int) -> Any:
    return [slots, *[0] * (len(consumers) - 1)]


@pytest.mark.parametrize("policies", [SPARK_POLICIES, FIXED_POLICIES, Policies(split=greedy)])
def test_policies_come_back_by_name(tmp_path: Path, policies: Policies) -> None:
    path = tmp_path / "r"
    RecordingWriter(str(path), header_of("app", from_mapping({}, "a test"), 0, "live", policies=policies)).close()
    own = {str(policy_words(Policies(split=greedy))["split"]): greedy}
    with Recording(str(path)) as recording:
        assert recording.header.policies_used(own) == policies
        if policies.split is greedy:
            with pytest.raises(UnknownPolicy, match="greedy"):
                recording.header.policies_used()
        else:
            assert recording.header.policies_used() == policies
    assert split_evenly([Consumer(ProfileId(0), 0, 1, 0)], 3) == [3]


@pytest.mark.parametrize(
    "words",
    [
        {"split": "os:system"},
        {"split": "retire_unseen_first"},
        {"split": True},
        {"forget_ghosts": "yes"},
        {"back_off": {"x": 1}},
        {"back_off": True},
        {"other": None},
    ],
)
def test_policies_that_are_none_are_refused(words: dict[str, Any]) -> None:
    with pytest.raises(UnknownPolicy):
        RecordingHeader("app", 0, "live", policies=words).policies_used()


# -------------------------------------------------------------------------------------------------------- what is it at all


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (FIRST.encode() + b"\n", True),
        (b"\xef\xbb\xbf " + FIRST.encode(), True),
        (b'{"podtide":7,"kind":"recording"', True),
        (b'{"podtide":1,"kind":"cluster","started_at_ms":0}', True),
        (b'{"podtide":1,"kind":"decisions"}\n', False),
        (b'{"Event":"SparkListenerLogStart","Spark Version":"4.3.0"}\n', False),
        (b"", False),
        (b"PAR1", False),
        (b"\x28\xb5\x2f\xfd\x00", False),
    ],
)
def test_a_recording_is_known_by_its_first_line(tmp_path: Path, content: bytes, expected: bool) -> None:
    path = tmp_path / "r"
    path.write_bytes(content)
    assert is_recording(str(path)) is expected
    assert begins_recording(content) is expected
    assert is_recording("-", stdin=io.BufferedReader(io.BytesIO(content))) is expected


def test_a_compressed_recording_is_known_too(tmp_path: Path) -> None:
    path = tmp_path / "renamed"
    settings = {f"spark.key{n}": f"value {n}" for n in range(200)}
    with path.open("wb") as file:
        RecordingWriter(file, RecordingHeader("app", 0, "live", settings), compress=True).close()
    assert is_recording(str(path))
    stdin = io.BufferedReader(io.BytesIO(path.read_bytes()))
    assert is_recording("-", stdin=stdin)
    with Recording("-", stdin=stdin) as recording:
        assert len(recording.header.conf) == 200
        assert list(recording) == []
    assert not is_recording(str(tmp_path / "none"))
    (tmp_path / "empty").mkdir()
    assert not is_recording(str(tmp_path / "empty"))


def test_a_pipe_can_be_read_once() -> None:
    file = io.BytesIO()
    with RecordingWriter(file, HEADER) as writer:
        writer.step(1, [Wake(1)])
    with Recording("-", stdin=io.BytesIO(file.getvalue())) as recording:
        assert len(list(recording)) == 1
        for again in (lambda: list(recording), lambda: list(recording.since(0))):
            with pytest.raises(RecordingError, match="only once"):
                again()


def test_looking_from_the_middle_decodes_nothing_before(tmp_path: Path) -> None:
    path = tmp_path / "r"
    with RecordingWriter(str(path), HEADER) as writer:
        for at in range(10):
            writer.step(at, [PodsUpdated(at, (pod(at),))])
            if at in (3, 7):
                writer.full(at)
    lines = path.read_text().splitlines()
    lines[1] = "damaged"
    path.write_text("\n".join((*lines, "")))
    with Recording(str(path)) as recording:

        def seen(at: int) -> list[int]:
            return [entry.at for entry in recording.since(at) if isinstance(entry, RecordedStep)]

        assert seen(6) == [4, 5, 6, 7, 8, 9]
        assert seen(7) == [8, 9]
        assert seen(100) == [8, 9]
        first = next(recording.since(7))
        assert isinstance(first, RecordedPods)
        assert len(first.pods) == 8
        with pytest.raises(RecordingError, match=":2: no JSON"):
            seen(2)
