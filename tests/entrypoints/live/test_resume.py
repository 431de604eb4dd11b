"""Going on where a run was killed: wherever its recording was cut, what goes on is one recording, decided as it was."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from returns.pipeline import is_successful

from podtide.adapters.recording.header import RecordingError, header_of
from podtide.adapters.recording.reader import Recording
from podtide.adapters.recording.recorder import Recorder
from podtide.adapters.recording.writer import RecordingWriter
from podtide.domain.base.units import NEVER, Millis, ProfileId
from podtide.domain.conf.spark_conf import from_arguments
from podtide.domain.protocol.allocation_policies import SPARK_POLICIES
from podtide.domain.protocol.application import AnyStimulus
from podtide.domain.protocol.executor_stimuli import TargetsSet
from podtide.domain.protocol.pod_commands import CreatePod
from podtide.domain.protocol.pod_stimuli import Outcome
from podtide.entrypoints.common.app_config import AppSettings, app_settings
from podtide.entrypoints.common.app_loop import AppLoop
from podtide.entrypoints.live.resume import NotTheSame, resume
from podtide.entrypoints.replay.overrides import ReplayWishes, terms_of
from podtide.entrypoints.replay.redecide import Redecision
from tests.support.dry_run import DryRun

START: Millis = 1_700_000_000_000


def settings(*more: str) -> AppSettings:
    pairs = (
        "spark.app.id=app", "spark.kubernetes.container.image=x", "spark.executor.instances=0",
        "spark.kubernetes.executor.podNamePrefix=app", "spark.dynamicAllocation.enabled=false", *more,
    )  # fmt: skip
    conf = from_arguments(pairs)
    assert is_successful(conf)
    return app_settings(conf.unwrap())


class Wishing:
    """Targets over time."""

    def __init__(self, *steps: tuple[Millis, int]) -> None:
        self.steps = [(START + at, target) for at, target in steps]

    def due(self) -> Millis:
        return self.steps[0][0] if self.steps else NEVER

    def advance(self, now: Millis) -> Sequence[AnyStimulus]:
        said = [TargetsSet(now, ((ProfileId(0), target),)) for at, target in self.steps if at <= now]
        self.steps = [step for step in self.steps if step[0] > now]
        return said

    def hear(self, word: object, now: Millis) -> None:
        del word, now


def recorded(path: Path, app: AppSettings, *, close: bool = True) -> None:
    header = header_of("app", app.conf, START, "live", policies=SPARK_POLICIES)
    writer = RecordingWriter(str(path), header)
    loop = AppLoop(
        app.config, START, DryRun(Wishing((0, 5), (3_000, 30), (5_000, 2)), lambda _: None), [Recorder(writer)]
    )
    loop.launch()
    loop.run(START + 8_000)
    if close:
        writer.close()
    else:
        writer.abandon()


def gone_on(path: Path, app: AppSettings) -> Any:
    header = header_of("app", app.conf, START + 9_000, "live", policies=SPARK_POLICIES)
    return resume(str(path), header, app.config, lambda *_: None)


def agrees(path: Path) -> bool:
    with Recording(str(path)) as recording:
        rerun = Redecision(recording, terms_of(recording.header, ReplayWishes()), stop_at_divergence=True)
        rerun.run()
        return rerun.agreement.divergence is None and rerun.steps > 0


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.zst"])
@pytest.mark.parametrize("cut", [0.2, 0.35, 0.5, 0.61, 0.77, 0.83, 0.9, 0.97, 0.999, 1.0])
def test_wherever_it_was_cut_it_goes_on(tmp_path: Path, name: str, cut: float) -> None:
    path, app = tmp_path / name, settings()
    recorded(path, app)
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * cut)])
    before = gone_on(path, app)
    if before is None:
        assert cut < 0.4
        return
    loop = AppLoop(app.config, before.now, DryRun(Wishing((9_000, 40)), lambda _: None), [Recorder(before.writer)])
    loop.resume(before.state, before.now, before.steps)
    loop.take([Outcome(loop.now, command.serial) for command in before.open], loop.now + 10)
    loop.run(START + 12_000)
    before.writer.close()
    assert agrees(path)
    assert [left.name for left in tmp_path.iterdir()] == [name]


def test_calls_that_were_never_answered_are_open(tmp_path: Path) -> None:
    path, app = tmp_path / "a.jsonl", settings()
    recorded(path, app)
    lines = path.read_bytes().splitlines(keepends=True)
    creates = next(place for place, line in enumerate(lines) if b'"createPod"' in line)
    path.write_bytes(b"".join(lines[: creates + 1]))
    before = gone_on(path, app)
    assert [command.executor for command in before.open if isinstance(command, CreatePod)] == [1, 2, 3, 4, 5]
    before.writer.close()


def test_the_state_is_the_one_that_was(tmp_path: Path) -> None:
    path, app = tmp_path / "a.jsonl", settings()
    recorded(path, app, close=False)
    before = gone_on(path, app)
    assert before.state.kubernetes.allocator.executors == 5
    assert dict(before.state.kubernetes.allocator.targets) == {0: 2}
    before.writer.close()


@pytest.mark.parametrize(
    ("app_id", "more", "said"),
    [
        ("other", (), "a recording of app, not of other"),
        (
            "app",
            ("spark.kubernetes.allocation.batch.size=3",),
            r"another conf \(spark.kubernetes.allocation.batch.size\)",
        ),
    ],
)
def test_another_application_or_conf_is_not_gone_on_with(
    tmp_path: Path, app_id: str, more: tuple[str, ...], said: str
) -> None:
    path = tmp_path / "a.jsonl"
    recorded(path, settings())
    data, app = path.read_bytes(), settings(*more)
    header = header_of(app_id, app.conf, START, "live", policies=SPARK_POLICIES)
    with pytest.raises(NotTheSame, match=said):
        resume(str(path), header, app.config, lambda *_: None)
    assert path.read_bytes() == data
    assert len(list(tmp_path.iterdir())) == 1


def test_decisions_that_are_not_ours_are_not_gone_on_with(tmp_path: Path) -> None:
    path, app = tmp_path / "a.jsonl", settings()
    recorded(path, app)
    path.write_bytes(path.read_bytes().replace(b'"executor":3,', b'"executor":4,', 1))
    with pytest.raises(NotTheSame, match=r"a\.jsonl:\d+ was decided otherwise"):
        gone_on(path, app)
    assert [left.name for left in tmp_path.iterdir()] == ["a.jsonl"]


def test_a_file_that_is_no_recording(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("nonsense\n")
    with pytest.raises(RecordingError, match=r"a\.jsonl"):
        gone_on(path, settings())
    assert path.read_text() == "nonsense\n"
