"""The driver's sensor: real answers of Spark 4.3.0, a small HTTP server, and a driver that comes and goes."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast
from urllib.parse import unquote

import pytest

from podtide.adapters.driver import driver_client as http
from podtide.adapters.driver.driver_client import Access, DriverHttp, DriverRefused, DriverReply, NoAnswer
from podtide.adapters.driver.driver_models import RestJob, UnreadableReply, decode, moment
from podtide.adapters.driver.driver_sensor import (
    UNSEEN_STAGES_MAX,
    DriverSensor,
    DriverSettings,
    DriverSilent,
    ask_conf,
    interval_s,
)
from podtide.adapters.notices import Notice, Topic
from podtide.domain.base.units import ExecutorId, ProfileId
from podtide.domain.live.driver_shuffles import UNEXPLAINED, UNSEEN_JOB
from podtide.domain.live.driver_view import UNSEEN
from podtide.domain.protocol import stimuli
from podtide.domain.protocol.executor_stimuli import ExecutorBusy, ExecutorDisconnected, RegisterExecutor
from tests.support.clock import SecondsClock

ANSWERS: dict[str, Any] = json.loads((Path(__file__).parent / "driver_rest_answers.json").read_text())
"""Recorded from PySpark 4.3.0 on a local cluster, without stack traces and addresses."""

APP = "app-20261121-0000"


class FakeDriver:
    """Answers by path, as GET does; ``asked`` are the paths in order."""

    def __init__(self, answers: Mapping[str, Any] | None = None) -> None:
        self.answers = dict(ANSWERS if answers is None else answers)
        self.asked: list[str] = []
        self.trouble: Exception | DriverReply | None = None

    def __call__(self, path: str) -> DriverReply:
        rest = path.removeprefix("applications").removeprefix(f"/{APP}").removeprefix("/")
        name = "applications" if path == "applications" else rest or "application"
        self.asked.append(name)
        if isinstance(self.trouble, Exception):
            raise self.trouble
        if self.trouble is not None:
            return self.trouble
        if name not in self.answers:
            return DriverReply(404, f"unknown: {unquote(path)}".encode())
        answer = self.answers[name]
        return answer if isinstance(answer, DriverReply) else DriverReply(200, json.dumps(answer).encode())


class Listening:
    """A sensor, and all that it says."""

    def __init__(self, app_id: str | None = APP, get: Any = None, settings: DriverSettings | None = None) -> None:
        self.driver = FakeDriver()
        self.clock = SecondsClock(100.0)
        self.heard: list[Any] = []
        self.notices: list[Notice] = []
        self.sensor = DriverSensor(
            get or self.driver, app_id, self.heard.append, self.clock, self.notices.append, settings or DriverSettings(),
            lambda: 1.0,
        )  # fmt: skip

    def turn(self, seconds: float = 0.5) -> list[Any]:
        self.heard.clear()
        self.pause = self.sensor.turn()
        self.clock.seconds += seconds
        return list(self.heard)

    @property
    def topics(self) -> list[Topic]:
        return [one.topic for one in self.notices]


def executor(number: int | str, **changes: Any) -> dict[str, Any]:
    return {
        "id": str(number), "hostPort": f"h{number}:7079", "isActive": True, "totalCores": 1,
        "addTime": f"2026-11-21T15:00:0{number if isinstance(number, int) and number < 10 else 9}.000GMT", **changes,
    }  # fmt: skip


def stage(number: int, **changes: Any) -> dict[str, Any]:
    return {"status": "ACTIVE", "stageId": number, "attemptId": 0, "numTasks": 4, **changes}


STAGES = "stages?status=active&status=pending"
JOBS = "jobs?status=running"


# ------------------------------------------------------------------------------------------------------- real answers


def test_what_spark_said_at_a_moment() -> None:
    listening = Listening()
    heard = listening.turn()
    kinds = [type(one) for one in heard]
    assert kinds[:3] == [stimuli.ResourceProfileAdded, RegisterExecutor, RegisterExecutor]
    assert [one.executor for one in heard if isinstance(one, RegisterExecutor)] == ["1", "0"], "in the order of addTime"
    assert heard[0] == stimuli.ResourceProfileAdded(
        100_000, ProfileId(0), (("memory", 512.0), ("offHeap", 0.0)), (("cpus", 1.0),)
    )
    submitted = {one.stage: one.tasks for one in heard if isinstance(one, stimuli.StageSubmitted)}
    assert submitted == {3: 4, 2: 5}, "stage 2 had one of its six tasks done"
    started = {one.job for one in heard if isinstance(one, stimuli.JobStart)}
    assert started == {1, 2, UNSEEN_JOB}, "what executors wrote before is of jobs that nobody saw"
    running = [one for one in heard if isinstance(one, stimuli.TaskStart)]
    assert [one.executor for one in running] == ["0", "0"], "the stages know of one task, its executor of two"
    assert {(one.stage, one.attempt) for one in running} == {(2, 0), UNSEEN}
    cached = [one for one in heard if isinstance(one, stimuli.BlockUpdated) and isinstance(one.block, stimuli.RddBlock)]
    assert {one.executor for one in cached} == {"0", "1"}
    assert [one for one in heard if isinstance(one, ExecutorBusy)] == [
        ExecutorBusy(100_000, (ExecutorId("0"),), busy=True)
    ]
    assert listening.topics == [Topic.STARTED]


def test_a_look_takes_three_requests() -> None:
    listening = Listening()
    listening.turn()
    assert listening.driver.asked == ["application", JOBS, STAGES, "allexecutors", "environment"]
    listening.driver.asked.clear()
    assert listening.turn() == []
    assert listening.driver.asked == [JOBS, STAGES, "allexecutors"]
    listening.driver.asked.clear()
    listening.clock.seconds += 5
    listening.turn()
    assert listening.driver.asked[0] == "application", "now and then: is it over?"


def test_the_summary_for_rolling() -> None:
    listening = Listening()
    assert listening.sensor.summary(5) is None
    listening.turn()
    summary = listening.sensor.summary(5)
    assert summary is not None
    assert [one.executor for one in summary.executors] == ["0", "1", "driver"]
    first = summary.executors[0]
    seen = ANSWERS["allexecutors"][0]
    assert (first.tasks, first.duration_ms, first.gc_ms, first.shuffle_write) == (
        seen["totalTasks"], seen["totalDuration"], seen["totalGCTime"], seen["totalShuffleWrite"],
    )  # fmt: skip
    assert first.added_at == moment(seen["addTime"])
    assert summary.executors[2].peak_heap == seen_driver()["peakMemoryMetrics"]["JVMHeapMemory"]


def seen_driver() -> dict[str, Any]:
    found: dict[str, Any] = ANSWERS["allexecutors"][2]
    return found


def test_the_conf_of_the_driver_is_had_without_what_is_redacted() -> None:
    assert ask_conf(FakeDriver(), APP) == {"spark.executor.memory": "512m", "spark.app.name": "rest probe"}
    silent = FakeDriver()
    silent.trouble = NoAnswer("nobody there")
    with pytest.raises(DriverSilent, match="nobody there"):
        ask_conf(silent, APP)
    silent.trouble = DriverReply(403, b"")
    with pytest.raises(DriverSilent, match="status 403 for environment"):
        ask_conf(silent, APP)


# --------------------------------------------------------------------------------------------------- between two looks


def test_how_a_stage_that_left_the_list_ended() -> None:
    listening = Listening()
    answers = listening.driver.answers
    answers.update({JOBS: [{"jobId": 1, "stageIds": [5]}], "allexecutors": [executor(1, activeTasks=2, totalTasks=2)]})
    answers[STAGES] = [stage(5, numActiveTasks=2)]
    listening.turn()
    answers[STAGES] = []
    answers["stages/5?details=false"] = [
        stage(5, status="FAILED", numActiveTasks=1, numFailedTasks=1, numCompleteTasks=0)
    ]
    answers["allexecutors"] = [executor(1, activeTasks=1, totalTasks=2)]
    heard = listening.turn()
    assert [one.outcome for one in heard if isinstance(one, stimuli.TaskEnd)] == [stimuli.TaskOutcome.FAILED]
    assert [one.stage for one in heard if isinstance(one, stimuli.StageCompleted)] == [5]
    answers["stages/5?details=false"] = [stage(5, status="FAILED", numFailedTasks=2)]
    answers["allexecutors"] = [executor(1, totalTasks=2)]
    answers[JOBS] = []
    heard = listening.turn()
    assert [type(one) for one in heard] == [stimuli.TaskEnd, stimuli.JobEnd, ExecutorBusy], (
        "a task of a stage that was over"
    )
    listening.driver.asked.clear()
    assert listening.turn() == []
    assert listening.driver.asked == [JOBS, STAGES, "allexecutors"]


def test_a_stage_that_spark_has_forgotten_is_over() -> None:
    listening = Listening()
    listening.driver.answers[STAGES] = [stage(5, numActiveTasks=1)]
    listening.driver.answers["allexecutors"] = [executor(1, activeTasks=1, totalTasks=1)]
    listening.turn()
    listening.driver.answers.update({STAGES: [], "allexecutors": [executor(1, totalTasks=1)]})
    heard = listening.turn()
    assert [one.outcome for one in heard if isinstance(one, stimuli.TaskEnd)] == [stimuli.TaskOutcome.SUCCESS]
    assert [one.stage for one in heard if isinstance(one, stimuli.StageCompleted)] == [5]


def test_a_map_job_that_came_and_went_is_asked_for_where_shuffle_data_grew() -> None:
    listening = Listening()
    answers = listening.driver.answers
    answers.update({JOBS: [], STAGES: [stage(5, status="PENDING")], "allexecutors": [executor(1), executor("driver")]})
    listening.turn()
    answers["stages/6?details=false"] = [stage(6, status="COMPLETE", shuffleWriteBytes=9, rddIds=[70])]
    listening.driver.asked.clear()
    assert listening.turn() == []
    assert listening.driver.asked == [JOBS, STAGES, "allexecutors"], "nobody wrote anything"
    answers["allexecutors"] = [executor(1, totalShuffleWrite=9), executor("driver", totalShuffleWrite=9)]
    listening.driver.asked.clear()
    heard = listening.turn()
    assert listening.driver.asked[3:] == ["stages/6?details=false", "stages/7?details=false"]
    assert [one.block for one in heard if isinstance(one, stimuli.BlockUpdated)] == [stimuli.ShuffleDataBlock(70)]
    answers["allexecutors"] = [executor(1, totalShuffleWrite=9), executor("driver", totalShuffleWrite=18)]
    listening.driver.asked.clear()
    assert listening.turn() == []
    assert len(listening.driver.asked) == 3, "the driver is no executor"


def test_stages_that_came_and_went_are_asked_for_as_far_as_there_is_room() -> None:
    listening = Listening()
    answers = listening.driver.answers
    answers.update({JOBS: [], STAGES: [], "allexecutors": [executor(1)]})
    listening.turn()
    gone = [number for number in range(60) if number != 3]
    for number in gone:
        answers[f"stages/{number}?details=false"] = [
            stage(number, status="COMPLETE", shuffleWriteBytes=1, rddIds=[number])
        ]
    answers["allexecutors"] = [executor(1, totalShuffleWrite=9)]
    answers[STAGES] = [stage(40, status="PENDING")]
    listening.driver.asked.clear()
    heard = listening.turn()
    assert len(listening.driver.asked) == 3 + UNSEEN_STAGES_MAX
    held = {
        one.block.shuffle for one in heard
        if isinstance(one, stimuli.BlockUpdated) and isinstance(one.block, stimuli.ShuffleDataBlock)
    }  # fmt: skip
    assert held == {number for number in range(UNSEEN_STAGES_MAX) if number != 3} | {UNEXPLAINED}, "3 was forgotten"


def test_a_new_profile_is_asked_for_before_it_is_used() -> None:
    listening = Listening()
    listening.turn()
    listening.driver.answers["allexecutors"] = [executor(5, resourceProfileId=1)]
    profile = {"id": 1, "executorResources": {"cores": {"amount": 4}}, "taskResources": {"cpus": {"amount": 2.0}}}
    listening.driver.answers["environment"] = {"resourceProfiles": [profile]}
    heard = listening.turn()
    at = listening.clock.now() - 500
    assert stimuli.ResourceProfileAdded(at, ProfileId(1), (("cores", 4.0),), (("cpus", 2.0),)) in heard
    assert heard.index(next(one for one in heard if isinstance(one, stimuli.ResourceProfileAdded))) < heard.index(
        next(one for one in heard if isinstance(one, RegisterExecutor))
    )


def test_a_profile_that_nobody_describes_is_not_asked_for_at_every_look() -> None:
    listening = Listening()
    listening.driver.answers["allexecutors"] = [executor(1, resourceProfileId=9)]
    for _ in range(10):
        listening.turn()
    assert listening.driver.asked.count("environment") == 1
    listening.clock.seconds += 20
    listening.turn()
    assert listening.driver.asked.count("environment") == 2


def test_executors_that_die_and_statuses_of_the_future() -> None:
    listening = Listening()
    listening.driver.answers["allexecutors"] = [executor(1), executor(2), executor(3)]
    listening.driver.answers[STAGES] = [stage(1, status="PONDERING"), stage(2, status="PENDING")]
    heard = listening.turn()
    assert not [one for one in heard if isinstance(one, stimuli.StageSubmitted)]
    listening.driver.answers["allexecutors"] = [
        executor(1, isActive=False, removeTime="2026-11-21T15:01:00.000GMT"), executor(2),
    ]  # fmt: skip
    gone = [one.address for one in listening.turn() if isinstance(one, ExecutorDisconnected)]
    assert gone == ["1@h1:7079", "3@h3:7079"]


def test_an_older_spark() -> None:
    listening = Listening()
    listening.driver.answers["environment"] = {"runtime": {}}
    old = executor(1)
    del old["addTime"]
    listening.driver.answers["allexecutors"] = [old]
    listening.driver.answers[STAGES] = [stage(1, numCompleteTasks=3)]
    heard = listening.turn()
    assert [one.tasks for one in heard if isinstance(one, stimuli.StageSubmitted)] == [1]


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("2026-11-21T15:38:01.916GMT", 1_795_275_481_916), (None, None), ("", None), ("2026-11-21T15:38:01.916Z", None),
        ("1969-12-31T23:59:59.999GMT", None), ("xGMT", None),
    ],
)  # fmt: skip
def test_times(text: str | None, at: int | None) -> None:
    assert moment(text) == at


# ------------------------------------------------------------------------------------------------- there and not there


def test_a_driver_that_is_away_for_a_while() -> None:
    listening = Listening()
    listening.turn()
    listening.driver.trouble = NoAnswer("it does not answer in time")
    pauses = []
    for _ in range(6):
        assert listening.turn(30.0) == []
        pauses.append(listening.pause)
    assert pauses == [0.5, 1.0, 2.0, 4.0, 5.0, 5.0]
    listening.driver.trouble = None
    listening.turn()
    assert listening.topics == [Topic.STARTED, Topic.DRIVER_UNREACHABLE, Topic.DRIVER_BACK]
    assert dict(listening.notices[-1].facts) == {"seconds": 180.0}
    assert not listening.sensor.ended.is_set(), "a network that is down is no end"


@pytest.mark.parametrize(
    ("trouble", "patience"),
    [(NoAnswer("refused", refused=True), 120.0), (DriverReply(404, b"no such app: app-20261121-0000"), 10.0)],
)
def test_a_driver_that_is_gone_for_good(trouble: Exception | DriverReply, patience: float) -> None:
    listening = Listening()
    listening.driver.trouble = trouble
    for _ in range(20):
        listening.turn(5.0)
    assert not listening.sensor.ended.is_set(), "it was never there: it may come yet"
    listening.driver.trouble = None
    listening.turn()
    listening.driver.trouble = trouble
    listening.turn(patience - 1)
    listening.driver.trouble = NoAnswer("in between it is only slow")
    listening.turn(5.0)
    listening.driver.trouble = trouble
    listening.turn(patience - 1)
    assert not listening.sensor.ended.is_set()
    listening.turn(2.0)
    listening.turn(2.0)
    assert listening.sensor.ended.is_set()
    assert listening.topics[-1] is Topic.STOPPING


def test_an_application_that_says_it_is_over() -> None:
    listening = Listening()
    listening.turn()
    listening.driver.answers["application"] = {"id": APP, "attempts": [{"completed": True}]}
    listening.clock.seconds += 5
    assert listening.turn() == []
    assert listening.sensor.ended.is_set()
    assert listening.notices[-1].text == "the application has completed"


def test_the_application_is_found_where_it_is_the_only_one() -> None:
    listening = Listening(app_id=None)
    listening.driver.answers["applications"] = [
        {"id": "old", "attempts": [{"completed": True}]}, *ANSWERS["applications"],
    ]  # fmt: skip
    listening.turn()
    assert listening.sensor.app_id == APP
    for none in ([], [{"id": "a"}, {"id": "b"}]):
        other = Listening(app_id=None)
        other.driver.answers["applications"] = none
        other.turn()
        assert other.topics == [Topic.DRIVER_UNREACHABLE]
        assert f"found {len(none)}" in other.notices[0].text


@pytest.mark.parametrize(
    ("path", "answer", "said"),
    [
        (JOBS, DriverReply(200, b"<html>"), "answer for jobs cannot be read"),
        (JOBS, DriverReply(200, b"\xff"), "answer for jobs cannot be read"),
        (JOBS, DriverReply(200, b"[" * 100_000), "answer for jobs cannot be read"),
        (JOBS, [{"jobId": 2**40}], "answer for jobs cannot be read"),
        (STAGES, [{"stageId": "x"}], "answer for stages cannot be read"),
        ("allexecutors", {"id": "1"}, "answer for allexecutors cannot be read"),
        ("allexecutors", [executor(1, id="x" * 2_000)], "answer for allexecutors cannot be read"),
        (STAGES, DriverReply(503, b"starting"), "status 503 for stages"),
        ("application", DriverReply(401, b"who?"), "refuses to answer: status 401 for application"),
        (STAGES, DriverReply(404, b"unknown"), "status 404 for stages"),
    ],
)
def test_answers_that_are_none(path: str, answer: Any, said: str) -> None:
    listening = Listening()
    listening.driver.answers[path] = answer
    assert listening.turn() == []
    assert listening.topics == [Topic.DRIVER_UNREACHABLE]
    assert said in listening.notices[0].text
    assert len(listening.notices[0].text) < 400
    assert "\n" not in listening.notices[0].text


def test_a_slow_driver_is_not_asked_all_the_time() -> None:
    listening = Listening()
    answers = listening.driver

    def slow(path: str) -> DriverReply:
        listening.clock.seconds += 0.1
        return answers(path)

    sensor = DriverSensor(
        slow, APP, listening.heard.append, listening.clock, listening.notices.append, DriverSettings(), lambda: 1.0
    )
    assert sensor.turn() == pytest.approx(0.5), "five requests of 100 ms each"
    assert sensor.turn() == pytest.approx(0.3), "three of them: the next look begins 600 ms after this one"


@pytest.mark.parametrize(
    ("size", "took_s", "seconds"),
    [
        (20_000, 0.02, 0.5), (2 * 1024**2, 0.1, 0.5), (4 * 1024**2, 0.1, 1.0), (20 * 1024**2, 1.0, 5.0),
        (128 * 1024**2, 3.0, 10.0), (0, 1.5, 3.0), (0, 60.0, 10.0),
    ],
)  # fmt: skip
def test_looks_that_cost_much_are_further_apart(size: int, took_s: float, seconds: float) -> None:
    assert interval_s(0.5, size, took_s) == pytest.approx(seconds)
    assert interval_s(30.0, size, took_s) == 30.0, "as asked for"


def test_a_driver_with_thousands_of_executors_is_asked_less_often_and_is_not_silent_meanwhile() -> None:
    listening = Listening()
    listening.driver.answers["allexecutors"] = [executor(number, padding="x" * 1_400) for number in range(5_000)]
    listening.turn(0.0)
    assert 1.5 < listening.pause < 2.5
    listening.driver.answers["allexecutors"] = [executor(number, padding="x" * 9_000) for number in range(5_000)]
    listening.turn(0.0)
    assert listening.pause == 10.0
    listening.clock.seconds += 15
    assert not listening.sensor.silent
    listening.clock.seconds += 6
    assert listening.sensor.silent


def test_the_thread_looks_and_ends() -> None:
    seen = threading.Event()
    driver = FakeDriver()

    def get(path: str) -> DriverReply:
        if len(driver.asked) > 8:
            seen.set()
        return driver(path)

    listening = Listening(get=get, settings=DriverSettings(interval_s=0.001))
    listening.sensor.start()
    assert seen.wait(10)
    assert listening.sensor.stop(10)


def test_unreadable_texts_name_the_place() -> None:
    with pytest.raises(UnreadableReply, match=r"jobId"):
        decode(list[RestJob], b'[{"jobId": "x"}]')


# --------------------------------------------------------------------------------------------------------------- HTTP


class Handler(BaseHTTPRequestHandler):
    """Does what the test's function says with each request."""

    protocol_version = "HTTP/1.1"
    does: Callable[[Handler], None]
    seen: list[tuple[str, dict[str, str]]]
    ports: set[int]

    def do_GET(self) -> None:
        self.seen.append((self.path, dict(self.headers)))
        self.ports.add(self.client_address[1])
        type(self).does(self)

    def reply(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, text in headers.items():
            self.send_header(name.replace("_", "-"), text)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Silence."""


class Server:
    """A server on loopback."""

    def __init__(self, does: Callable[[Handler], None]) -> None:
        kind = type("Mine", (Handler,), {"does": staticmethod(does), "seen": [], "ports": set()})
        self.handler = cast(type[Handler], kind)
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self.handler)
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True)
        self.thread.start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def serve() -> Iterator[Callable[[Callable[[Handler], None]], Server]]:
    servers: list[Server] = []

    def begin(does: Callable[[Handler], None]) -> Server:
        servers.append(Server(does))
        return servers[-1]

    yield begin
    for server in servers:
        server.close()


Serve = Callable[[Callable[[Handler], None]], Server]


def ask(
    url: str, path: str = "applications", environment: Mapping[str, str] | None = None, **access: Any
) -> DriverReply:
    return DriverHttp(url, Access(**access), SecondsClock(100.0), environment or {})(path)


def test_answers_are_unpacked_on_one_kept_connection(serve: Serve) -> None:
    body = json.dumps(ANSWERS["allexecutors"]).encode()
    server = serve(lambda one: one.reply(200, gzip.compress(body), Content_Encoding="gzip"))
    get = DriverHttp(server.url + "/proxy/", Access(), SecondsClock(100.0), {})
    for _ in range(5):
        assert get("applications/x/allexecutors") == DriverReply(200, body)
    assert len(server.handler.ports) == 1
    assert server.handler.seen[0][0] == "/proxy/api/v1/applications/x/allexecutors"
    get.close()


@pytest.mark.parametrize(
    ("credential", "header"), [("abc.def", "Bearer abc.def"), ("ann:s3cret:x", "Basic YW5uOnMzY3JldDp4")]
)
def test_credentials_are_sent_and_never_said(serve: Serve, credential: str, header: str) -> None:
    server = serve(lambda one: one.reply(200, b"[]"))
    environment = {"DRIVER_AUTH": credential}
    ask(server.url, environment=environment, credential_env="DRIVER_AUTH")
    assert server.handler.seen[0][1]["Authorization"] == header
    server = serve(lambda one: one.reply(302, Location="http://elsewhere.invalid/"))
    with pytest.raises(NoAnswer) as refused:
        ask(server.url, environment=environment, credential_env="DRIVER_AUTH")
    assert "another host" in str(refused.value)
    assert credential not in str(refused.value)


@pytest.mark.parametrize("value", ["", "a\nb", "a b", "ü"])
def test_a_credential_that_is_none_is_refused(value: str) -> None:
    with pytest.raises(DriverRefused, match="DRIVER_AUTH") as refused:
        ask("http://h:1", environment={"DRIVER_AUTH": value}, credential_env="DRIVER_AUTH")
    assert not value or value not in str(refused.value).replace("cannot be a credential", "")


@pytest.mark.parametrize(
    "url",
    [
        "",
        "h:4040",
        "ftp://h",
        "http://",
        "http://h:x",
        "http://h:99999",
        "http://u:p@h",
        "http://h/?a=b",
        "http://[::1",
    ],
)
def test_addresses_that_are_none(url: str) -> None:
    with pytest.raises(DriverRefused, match="the driver's address"):
        DriverHttp(url, Access(), SecondsClock(100.0), {})


def test_certificates_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises((DriverRefused, NoAnswer)):
        ask("https://127.0.0.1:1", ca_file=str(tmp_path / "none"))


@pytest.mark.parametrize("url", ["http://127.0.0.1:4040", "https://[::1]:4040/a/", "http://h/api/v1"])
def test_addresses(url: str) -> None:
    assert not DriverHttp(url, Access(), SecondsClock(100.0), {}).base.endswith("/")


def test_redirects_on_the_same_host_are_followed(serve: Serve) -> None:
    def does(one: Handler) -> None:
        if one.path.endswith("/"):
            one.reply(200, b"there")
        else:
            one.reply(307, Location=one.path + "/")

    assert ask(serve(does).url) == DriverReply(200, b"there")
    with pytest.raises(NoAnswer, match="more than 3 times"):
        ask(serve(lambda one: one.reply(302, Location=one.path)).url)


def test_nobody_listens() -> None:
    server = Server(lambda one: one.reply(200))
    server.close()
    with pytest.raises(NoAnswer, match="Connection refused") as refused:
        ask(server.url)
    assert refused.value.refused


def test_a_connection_that_breaks_is_no_end(serve: Serve) -> None:
    def cut(one: Handler) -> None:
        one.send_response(200)
        one.send_header("Content-Length", "100")
        one.end_headers()
        one.wfile.write(b"half")
        one.close_connection = True

    with pytest.raises(NoAnswer) as broken:
        ask(serve(cut).url)
    assert not broken.value.refused


def test_answers_without_end_are_cut_off(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "BODY_MAX", 1_000)
    bomb = gzip.compress(b"0" * 100_000)
    server = serve(lambda one: one.reply(200, bomb, Content_Encoding="gzip"))
    with pytest.raises(NoAnswer, match="longer than 1000 bytes"):
        ask(server.url)


def test_silence_ends(serve: Serve) -> None:
    never = threading.Event()

    def mute(one: Handler) -> None:
        never.wait(5)
        one.reply(200)

    server = serve(mute)
    try:
        with pytest.raises(NoAnswer, match="does not answer in time"):
            DriverHttp(server.url, Access(timeout_s=0.1), SecondsClock(100.0), {})("applications")
    finally:
        never.set()


def test_a_whole_look_over_http(serve: Serve) -> None:
    def does(one: Handler) -> None:
        reply = FakeDriver()(one.path.removeprefix("/api/v1/"))
        one.reply(reply.status, gzip.compress(reply.body), Content_Encoding="gzip")

    get = DriverHttp(serve(does).url, Access(), SecondsClock(100.0), {})
    listening = Listening(app_id=None, get=get)
    assert any(isinstance(one, RegisterExecutor) for one in listening.turn())
    assert listening.topics == [Topic.STARTED]
