"""Why a container ended, whose fault it was and whether it counts: the table of spec: yarn, section 7."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, strategies as st

from podtide.domain.protocol.completions import explain, judge

YARN_EVENT = (
    "Executor for container c1 exited because of a YARN event (e.g., preemption) and not because of an error in the "
    "running job."
)
DIAGNOSTICS = (
    "Container [pid=1] is running beyond limits. Current usage: 2.1 GB of 2 GB physical memory used; "
    "5.8 GB of 4.2 GB virtual memory used. Killing container."
)


@pytest.mark.parametrize(
    ("status", "blamed", "counted", "begins"),
    [
        pytest.param(0, False, False, YARN_EVENT, id="SUCCESS"),
        pytest.param(-102, False, False, "Container c1 on host: h1 was preempted.", id="PREEMPTED"),
        pytest.param(-103, True, False, "Container killed by YARN for exceeding virtual", id="KILLED_EXCEEDED_VMEM"),
        pytest.param(-104, True, False, "Container killed by YARN for exceeding physical", id="KILLED_EXCEEDED_PMEM"),
        pytest.param(-106, False, False, "Container marked as failed: c1 on host: h1.", id="KILLED_BY_RESOURCEMANAGER"),
        pytest.param(-105, False, False, "Container marked as failed: c1 on host: h1.", id="KILLED_BY_APPMASTER"),
        pytest.param(
            -107, False, False, "Container marked as failed: c1 on host: h1.", id="KILLED_AFTER_APP_COMPLETION"
        ),
        pytest.param(-100, False, False, "Container marked as failed: c1 on host: h1.", id="ABORTED"),
        pytest.param(-101, False, False, "Container marked as failed: c1 on host: h1.", id="DISKS_FAILED"),
        pytest.param(-1000, True, True, "Container from a bad node: c1 on host: h1.", id="INVALID"),
        pytest.param(-108, True, True, "Container from a bad node: c1", id="56 KILLED_BY_CONTAINER_SCHEDULER"),
        pytest.param(-109, True, True, "Container from a bad node: c1", id="unknown to Spark"),
        pytest.param(-99, True, True, "Container from a bad node: c1", id="next to ABORTED"),
        pytest.param(-1, True, True, "Container from a bad node: c1", id="-1"),
        pytest.param(1, True, True, "Container from a bad node: c1", id="1"),
        pytest.param(137, True, True, "Container from a bad node: c1", id="137"),
        pytest.param(143, True, True, "Container from a bad node: c1", id="143"),
    ],
)
def test_the_table(status: int, blamed: bool, counted: bool, begins: str) -> None:
    verdict = judge("c1", "h1", status, "told", ending=False)
    assert (verdict.blamed, verdict.counted) == (blamed, counted)
    assert verdict.text.startswith(begins)
    ending = judge("c1", "h1", status, "told", ending=True)
    text = "Executor for container c1 exited after Application shutdown."
    assert ending == (False, False, text)


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (50, "Uncaught exception"),
        (51, "Uncaught exception, and logging the exception failed"),
        (52, "OutOfMemoryError"),
        (53, "Failed to create local directory (bad spark.local.dir?)"),
        (54, "ExternalBlockStore failed to initialize."),
        (55, "ExternalBlockStore failed to create a local temporary directory."),
        (56, "Unable to send heartbeats to driver."),
        (57, "Executor killed by TaskReaper."),
        (1, "Unknown executor exit code (1)"),
        (128, "Unknown executor exit code (128)"),
        (129, "Unknown executor exit code (129) (died from signal 1?)"),
        (143, "Unknown executor exit code (143) (died from signal 15?)"),
        (-1000, "Unknown executor exit code (-1000)"),
    ],
)
def test_exit_codes_are_explained(status: int, text: str) -> None:
    assert explain(status) == text


@given(st.integers(-1_200, 300), st.text(max_size=60), st.booleans())
def test_only_what_is_blamed_counts(status: int, diagnostics: str, ending: bool) -> None:
    verdict = judge("c1", "h1", status, diagnostics, ending=ending)
    assert verdict.blamed or not verdict.counted
    assert verdict.blamed == verdict.counted or status in (-103, -104)


@pytest.mark.parametrize("diagnostics", ["1" * 1_000_000, "1 GB of " * 100_000, "9.9 KB of 9" * 100_000])
@pytest.mark.parametrize("status", [-103, -104, 1])
def test_long_diagnostics_do_not_hold_anybody_up(status: int, diagnostics: str) -> None:
    begun = time.thread_time()
    judge("c1", "h1", status, diagnostics, ending=False)
    assert time.thread_time() - begun < 2
