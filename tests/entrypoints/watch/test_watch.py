"""``podtide watch`` over fake logs: each run is taken up once, judged once and told once, whatever ends the process."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from podtide.adapters.history import sinks
from podtide.adapters.history.sinks import LinesFile, Webhook
from podtide.adapters.history.store import HistoryError, RunHistory
from podtide.adapters.history.values import EXIT_SINK, EventKind
from podtide.adapters.http_server.small_server import HttpAsked
from podtide.domain.whatif.bill.rules import BillRules
from podtide.domain.whatif.prices import Prices
from podtide.entrypoints.common.output import Misused, UnreadableInput
from podtide.entrypoints.fleet.work import FleetOptions
from podtide.entrypoints.watch.command import ALARMS, ALL, WatchRequest, _metrics, run_watch
from podtide.entrypoints.watch.passes import WatchTerms
from tests.support.watch_fakes import FakeClock, Inline, Receiver, fake_take_up, log, nightly

STEP = [100, 101, 99, 100, 102, 160, 161, 159, 160]


def asked(folder: Path, *places: Path, hook: str | None = None, **more: Any) -> WatchRequest:
    receivers: tuple[Any, ...] = (LinesFile(str(folder / "events.jsonl")),)
    if hook is not None:
        receivers += (Webhook(hook, timeout_s=5),)
    wanted = {one.name: ALARMS if isinstance(one, Webhook) else ALL for one in receivers} | {EXIT_SINK: ALARMS}
    options = FleetOptions(prices=more.pop("prices", None))
    terms = WatchTerms(
        tuple(map(str, places)) or (str(folder / "logs"),), options, wanted, again=more.pop("again", False)
    )
    return WatchRequest(str(folder / "history.db"), terms, None, receivers, **more)


def watched(request: WatchRequest, clock: FakeClock | None = None) -> int:
    return run_watch(request, Inline, clock or FakeClock(), work=fake_take_up)


def events(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]


def told(folder: Path, *kinds: str) -> list[tuple[str, str, str | None]]:
    wanted = kinds or ("run", "broken", "regression", "improvement")
    return [
        (one["kind"], one["app"]["id"] if "app" in one else Path(one["log"]).name, one.get("measure"))
        for one in events(folder)
        if one["kind"] in wanted
    ]


def verdicts(folder: Path, name: str) -> list[str]:
    with RunHistory(str(folder / "history.db"), write=False) as history:
        runs = reversed(history.runs_of(name, 100))
        return [run.verdict.get("left_out") or run.verdict["run time"]["judgement"] for run in runs]


def test_a_step_is_a_regression_once_and_then_the_baseline(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nightly(tmp_path / "logs", "etl", STEP)
    assert watched(asked(tmp_path)) == 1
    assert told(tmp_path, "regression") == [("regression", "etl-5", "run time"), ("regression", "etl-5", "money")]
    found = events(tmp_path)[-2]
    assert found["normal"] == 100.0
    assert found["value"] == 160.0
    assert found["change_share"] == 0.6
    assert Path(found["compared_with"]["log"]).name == "etl-003"
    assert "etl: run time 160 s, normally 100 (+60%" in capsys.readouterr().out
    assert verdicts(tmp_path, "etl") == ["learning"] * 3 + ["normal"] * 2 + ["worse", *["still worse"] * 2, "normal"]
    assert watched(asked(tmp_path)) == 0
    assert len(events(tmp_path)) == len(STEP) + 2


def test_a_run_is_taken_up_once_wherever_it_lies(tmp_path: Path) -> None:
    first = log(tmp_path / "logs" / "a", "etl", 1)
    assert watched(asked(tmp_path)) == 0
    shutil.copy(first, tmp_path / "logs" / "copy")
    os.utime(first)
    log(tmp_path / "logs" / "second attempt", "etl", 1, attempt="2")
    log(tmp_path / "logs" / "other machine", "etl", 1, started=5)
    assert watched(asked(tmp_path)) == 0
    assert told(tmp_path) == [("run", "etl-1", None)] * 3
    with RunHistory(str(tmp_path / "history.db"), write=False) as history:
        assert history.totals().runs == 3


def test_what_spark_writes_still_is_left_until_it_is_finished(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    log(logs / "app.inprogress", "etl", 1)
    rolled = logs / "eventlog_v2_app-2"
    log(rolled / "events_1_app-2", "sql", 2)
    (rolled / "appstatus_app-2.inprogress").touch()
    assert watched(asked(tmp_path)) == 0
    assert not (tmp_path / "events.jsonl").exists()
    (logs / "app.inprogress").rename(logs / "app")
    (rolled / "appstatus_app-2.inprogress").rename(rolled / "appstatus_app-2")

    # A fake log is one file; what a rolled one is, is the discovery's to say.
    found: list[str] = []

    def work(_options: object, request: bytes) -> bytes:
        place = json.loads(request)[0]
        found.append(Path(place).name)
        inner = str(Path(place) / "events_1_app-2") if Path(place).is_dir() else place
        return fake_take_up(_options, json.dumps([inner, *json.loads(request)[1:]]).encode())  # type: ignore[arg-type]

    assert run_watch(asked(tmp_path), Inline, FakeClock(), work=work) == 0
    assert sorted(found) == ["app", "eventlog_v2_app-2"]


def test_a_log_without_its_end_is_taken_up_again_when_it_has_grown(tmp_path: Path) -> None:
    place = tmp_path / "logs" / "a"
    log(place, "etl", 1, 50, finished=False)
    watched(asked(tmp_path))
    assert verdicts(tmp_path, "etl") == ["not healthy"]
    log(place, "etl", 1, 100)
    watched(asked(tmp_path))
    assert verdicts(tmp_path, "etl") == ["learning"]
    assert [one["finished"] for one in events(tmp_path)] == [False, True]
    with RunHistory(str(tmp_path / "history.db"), write=False) as history:
        assert [run.row.runtime_s for run in history.runs()] == [100]


def test_a_broken_log_is_recorded_and_tried_again_only_when_it_changed(tmp_path: Path) -> None:
    place = tmp_path / "logs" / "bad.zip"
    place.parent.mkdir()
    place.write_bytes(b"no log")
    for _ in range(2):
        assert watched(asked(tmp_path)) == 0
    assert told(tmp_path) == [("broken", "bad.zip", None)]
    assert watched(asked(tmp_path, again=True)) == 0
    assert len(told(tmp_path)) == 2
    log(place, "etl", 1)
    watched(asked(tmp_path))
    assert told(tmp_path)[2:] == [("run", "etl-1", None)]


def test_runs_that_did_not_end_well_or_come_late_change_nothing(tmp_path: Path) -> None:
    nightly(tmp_path / "logs", "etl", [100, 100, 100, 100])
    log(tmp_path / "logs" / "crashed", "etl", 5, 3, healthy=False)
    watched(asked(tmp_path))
    log(tmp_path / "logs" / "late", "etl", -4, 900)
    assert watched(asked(tmp_path)) == 0
    assert verdicts(tmp_path, "etl") == ["late", "learning", "learning", "learning", "normal", "not healthy"]


def test_money_is_judged_where_there_are_prices_and_other_prices_are_another_baseline(tmp_path: Path) -> None:
    for day in range(6):
        log(tmp_path / "logs" / f"{day}", "etl", day, 100, core_hours=50 if day < 5 else 75)
    prices = Prices(core_hour=0.04, gb_hour=0.0, currency="EUR")
    assert watched(asked(tmp_path, prices=prices)) == 1
    (found,) = (one for one in events(tmp_path) if one["kind"] == "regression")
    assert (found["measure"], found["unit"], found["value"]) == ("money", "EUR", 3.0)
    log(tmp_path / "logs" / "6", "etl", 6, 100, core_hours=75)
    assert watched(asked(tmp_path, prices=Prices(core_hour=0.08, gb_hour=0.0, currency="EUR"))) == 0


def test_a_driver_that_grew_is_a_dearer_run_where_the_driver_is_paid_for(tmp_path: Path) -> None:
    for day in range(6):
        log(tmp_path / "logs" / f"{day}", "etl", day, 3600, driver_cores=4 if day < 5 else 16)
    prices = Prices(core_hour=1.0, rules=BillRules(driver=True))
    assert watched(asked(tmp_path, prices=prices)) == 1
    (found,) = (one for one in events(tmp_path) if one["kind"] == "regression")
    assert (found["measure"], found["normal"], found["value"]) == ("money", 8.0, 20.0)
    assert [(one["cause"], one["cost"]) for one in found["bill"]] == [("driver", 12.0)]


def test_a_webhook_gets_regressions_and_gets_them_later_if_it_is_away(tmp_path: Path) -> None:
    nightly(tmp_path / "logs", "etl", STEP)
    clock = FakeClock()
    with Receiver() as receiver:
        receiver.status = 503
        assert watched(asked(tmp_path, hook=receiver.url), clock) == 1
        assert len(receiver.bodies) == 2
        assert watched(asked(tmp_path, hook=receiver.url), clock) == 0  # not due yet
        assert len(receiver.bodies) == 2
        receiver.status = 200
        clock.at += sinks.RETRY_MS
        watched(asked(tmp_path, hook=receiver.url), clock)
        clock.at += sinks.RETRY_MAX_MS
        watched(asked(tmp_path, hook=receiver.url), clock)
        assert [body["measure"] for body in receiver.bodies] == ["run time", "money"] * 2
        assert receiver.keys[:2] == receiver.keys[2:]
        url = receiver.url
    assert watched(asked(tmp_path, hook=url), clock) == 0


def test_a_run_in_which_nothing_moved_is_told_once_healthy_or_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hung = ("quota", 0, 12.0, 340.0, True, "The API server \x1b[31mrefuses.", "Raise it.")
    log(tmp_path / "logs" / "a", "etl", 1, healthy=False, finished=False, stalls=[hung] * 12)
    log(tmp_path / "logs" / "b", "etl", 2)
    with Receiver() as receiver:
        assert watched(asked(tmp_path, hook=receiver.url)) == 1
        assert [(one["kind"], one["app"]["id"]) for one in receiver.bodies] == [("stall", "etl-1")]
        assert watched(asked(tmp_path, hook=receiver.url)) == 0
    (found,) = (one for one in events(tmp_path) if one["kind"] == "stall")
    assert (len(found["stalls"]), found["stalls_left_out"], found["finished"]) == (10, 2, False)
    assert found["stalls"][0] == dict(
        zip(("cause", "profile", "began_s", "seconds", "lasts", "meaning", "advice"), hung, strict=True)
    )
    said = capsys.readouterr().out
    assert (
        "etl: tasks waited and nothing moved, run etl-1\n  quota at 0:12 for 5m 40s, to the end of the log: The" in said
    )
    assert "\x1b" not in said
    assert "1 stalled run; the history has 2 runs" in said
    page = _metrics(str(tmp_path / "history.db"))(HttpAsked("/metrics")).body.decode()
    assert 'podtide_app_stalled_runs_total{app="etl"} 1' in page


def test_a_webhook_that_nobody_answers_is_a_problem_and_no_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nightly(tmp_path / "logs", "etl", STEP)
    with Receiver() as receiver:
        url = receiver.url.replace("/hook", "/secret-path")
    assert watched(asked(tmp_path, hook=url)) == 1
    said = capsys.readouterr().err
    assert "it is tried again" in said
    assert "secret-path" not in said
    assert b"secret-path" not in (tmp_path / "history.db").read_bytes()


def test_it_goes_on_until_it_is_ended_and_waits_between_passes(tmp_path: Path) -> None:
    clock = FakeClock()
    waited: list[float] = []

    def wait(seconds: float) -> None:
        waited.append(seconds)
        clock.at += int(seconds * 1000)
        if len(waited) == 3:
            raise KeyboardInterrupt
        log(tmp_path / "logs" / f"{len(waited)}", "etl", len(waited))

    (tmp_path / "logs").mkdir()
    terms = asked(tmp_path).terms
    request = WatchRequest(str(tmp_path / "history.db"), terms, 60.0, asked(tmp_path).sinks)
    with pytest.raises(KeyboardInterrupt):
        run_watch(request, Inline, clock, wait, fake_take_up)
    assert waited == [60.0] * 3
    assert told(tmp_path) == [("run", "etl-1", None), ("run", "etl-2", None)]


def test_a_place_that_is_away_does_not_stop_the_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log(tmp_path / "logs" / "a", "etl", 1)
    assert watched(asked(tmp_path, tmp_path / "gone", tmp_path / "logs")) == 0
    assert "gone: there is no such file or folder" in capsys.readouterr().err
    assert told(tmp_path) == [("run", "etl-1", None)]
    with pytest.raises(UnreadableInput):
        watched(asked(tmp_path, tmp_path / "gone"))


def test_one_writes_a_history_at_a_time_and_only_a_history_is_written(tmp_path: Path) -> None:
    log(tmp_path / "logs" / "a", "etl", 1)
    with RunHistory(str(tmp_path / "history.db"), write=True), pytest.raises(Misused, match="another podtide"):
        watched(asked(tmp_path))
    watched(asked(tmp_path))
    (tmp_path / "other").mkdir()
    with sqlite3.connect(tmp_path / "other" / "history.db") as base:
        base.execute("CREATE TABLE precious (data)")
    base.close()
    with pytest.raises(HistoryError, match="no history of podtide"):
        RunHistory(str(tmp_path / "other" / "history.db"), write=True)


def test_metrics_and_the_table_are_there_after_a_pass(tmp_path: Path) -> None:
    nightly(tmp_path / "logs", 'e"tl\\\n', [100, 100, 100, 100, 200])
    metrics, table = tmp_path / "podtide.prom", tmp_path / "runs.csv"
    assert watched(asked(tmp_path, metrics_file=str(metrics), export=str(table))) == 1
    samples = {
        (one.name, one.labels.get("kind") or one.labels.get("cause") or one.labels.get("app", "")): one.value
        for family in text_string_to_metric_families(metrics.read_text())
        for one in family.samples
    }
    assert samples["podtide_watch_runs", ""] == 5
    assert samples["podtide_watch_events_total", "regression"] == 2
    assert samples["podtide_app_last_run_runtime_seconds", 'e"tl\\\n'] == 200
    assert samples["podtide_app_last_run_billed_seconds", "kept by minimum"] == 400
    assert samples["podtide_watch_undelivered_events", ""] == 0
    assert samples["podtide_watch_last_pass_timestamp_seconds", ""] == FakeClock().at / 1000
    served = _metrics(str(tmp_path / "history.db"))
    assert served(HttpAsked("/metrics")).body == metrics.read_bytes()
    assert served(HttpAsked("/")).status == 404
    assert _metrics(str(tmp_path / "none"))(HttpAsked("/metrics")).status == 503
    assert len(table.read_text().splitlines()) == 6


def dead(act: Callable[[], object]) -> bool:
    """Run it in a process of its own; whether it was killed."""
    child = os.fork()
    if not child:
        try:
            act()
            os._exit(0)
        finally:
            os._exit(9)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) in (0,), "the child failed"
    return os.WIFSIGNALED(status)


def test_killed_at_any_step_it_loses_nothing_and_repeats_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Steps: statements of SQLite, before each; each write of the file of lines, after half of it; the answers of the
    webhook, after each."""
    source = tmp_path / "source"
    nightly(source, "etl", [100, 100, 100, 200])
    log(source / "bad", "x", 1).write_text("damaged {}")
    connect, write = sqlite3.connect, os.write
    monkeypatch.setattr("podtide.adapters.history.store.SYNCHRONOUS", "OFF")  # a kill is no loss of power
    monkeypatch.setattr(os, "fsync", lambda _handle: None)
    left = [0]

    def step(*_: object) -> None:
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def traced(*arguments: Any, **more: Any) -> sqlite3.Connection:
        base: sqlite3.Connection = connect(*arguments, **more)
        base.set_trace_callback(step)
        return base

    def torn(handle: int, data: bytes) -> int:
        half = write(handle, data[: max(1, len(data) // 2)])
        step()
        return half

    monkeypatch.setattr("podtide.adapters.history.store.sqlite3.connect", traced)
    monkeypatch.setattr("podtide.adapters.history.sinks.os.write", torn)
    post = Webhook._post

    def posted(*arguments: Any) -> Any:
        answer = post(*arguments)
        step()
        return answer

    monkeypatch.setattr(Webhook, "_post", posted)

    def end(folder: Path, hook: str) -> tuple[object, ...]:
        with RunHistory(str(folder / "history.db"), write=False) as history:
            runs = [(run.key, run.row.runtime_s, run.verdict) for run in history.runs()]
            kinds = history.totals()
            kept = [(one.kind, json.loads(one.body)["id"]) for one in reversed(history.events(ALL, 99))]
        lines = [(EventKind(one["kind"]), one["id"]) for one in events(folder)]
        assert lines == kept
        del hook
        return runs, kinds, sorted(kind for kind, _ in kept)

    with Receiver() as receiver:

        def begin(number: int) -> Path:
            folder = tmp_path / f"{number}"
            shutil.copytree(source, folder / "logs", copy_function=shutil.copy2)
            receiver.keys.clear()
            return folder

        whole = begin(0)
        assert watched(asked(whole, hook=receiver.url)) == 1
        expected, keys = end(whole, receiver.url), {key.partition("-")[2] for key in receiver.keys}
        number = 0
        while True:
            number += 1
            folder = begin(number)
            left[0] = number
            if not dead(lambda folder=folder: watched(asked(folder, hook=receiver.url))):  # type: ignore[misc]
                break
            left[0] = 0
            code = watched(asked(folder, hook=receiver.url))
            assert end(folder, receiver.url) == expected, f"killed before step {number}"
            assert {key.partition("-")[2] for key in receiver.keys} == keys, f"killed before step {number}"
            assert code == 1, f"killed before step {number}"
        assert number > 100
