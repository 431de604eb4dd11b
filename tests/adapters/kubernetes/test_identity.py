"""Who we are, and who is certainly dead."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from podtide.adapters.kubernetes.lease.identity import Identity, is_dead, own_identity, parse
from tests.support.project import TYPING

HERE = Identity("driver-1", os.getpid(), "4711", "4026531836", "0f3c-aa")
NEEDS_PROC = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="this system has no /proc")


def proc(tmp_path: Path, pid: int, stat: str | None) -> Path:
    """A /proc that shows one process, or none."""
    (tmp_path / str(pid)).mkdir(parents=True)
    if stat is not None:
        (tmp_path / str(pid) / "stat").write_text(stat)
    return tmp_path


def stat_line(name: str = "python", state: str = "S", threads: int = 4, started: str = "4711") -> str:
    between = " ".join("0" for _ in range(4, 20))
    return f"1 ({name}) {state} {between} {threads} 0 {started} 0 0\n"


@given(
    st.builds(
        Identity,
        st.from_regex(r"[A-Za-z0-9.-]{1,60}", fullmatch=True),
        st.integers(0, 2**22),
        st.integers(0, 2**63).map(str),
        st.integers(0, 2**32).map(str),
        st.from_regex(r"[0-9a-f]{8}-[0-9a-f]{4}", fullmatch=True),
    )
)
def test_what_is_written_can_be_read(identity: Identity) -> None:
    assert parse(str(identity)) == identity


@pytest.mark.parametrize(
    "text", ["", "somebody", "a_b_c_d_e", "host_1_2_3", "host_1_2_3_zz zz", "h\n_1_2_3_aa", "_1_2_3_aa"]
)
def test_what_others_wrote_is_no_identity(text: str) -> None:
    assert parse(text) is None


@given(st.text(max_size=400))
def test_any_text_is_read_or_refused(text: str) -> None:
    found = parse(text)
    assert found is None or str(found) == text


@NEEDS_PROC
def test_this_process_is_alive() -> None:
    us = own_identity()
    assert us.pid == os.getpid()
    assert parse(str(us)) == us
    assert not is_dead(us, us)


@NEEDS_PROC
def test_a_process_that_was_killed_is_dead_even_before_its_parent_collects_it() -> None:
    program = (
        "import sys; from podtide.adapters.kubernetes.lease.identity import own_identity; "
        "print(own_identity(), flush=True); sys.stdin.read()"
    )
    path = str(TYPING)
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    ) as child:
        assert child.stdout is not None
        written = parse(child.stdout.readline().strip())
        assert written is not None
        assert not is_dead(written, own_identity())
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # it has ended, and stays a zombie
        assert is_dead(written, own_identity())
    assert is_dead(written, own_identity())


@pytest.mark.parametrize(
    ("stat", "dead"),
    [
        (stat_line(), False),
        (stat_line(name="a (b) c"), False),
        (stat_line(started="4712"), True),  # the id was given to somebody else
        (stat_line(state="Z", threads=1), True),
        (stat_line(state="Z", threads=3), False),  # its first thread ended, others go on
        ("rubbish", False),
        ("1 (x) S 0", False),
        (None, False),  # hidden
    ],
)
def test_what_proc_says(tmp_path: Path, stat: str | None, dead: bool) -> None:
    assert is_dead(HERE, HERE, proc(tmp_path, HERE.pid, stat)) is dead


@pytest.mark.parametrize(
    "other",
    [
        HERE._replace(boot="ffff"),
        HERE._replace(namespace="1"),
        HERE._replace(boot="x"),
        HERE._replace(started="x"),
        HERE._replace(namespace="x"),
    ],
)
def test_a_process_elsewhere_may_be_alive(tmp_path: Path, other: Identity) -> None:
    gone = other._replace(pid=2**22 - 3)
    assert not is_dead(gone, HERE, tmp_path)
    assert not is_dead(gone, HERE._replace(boot=other.boot, namespace="x"), tmp_path)


def test_without_proc_nobody_can_be_proven_dead(tmp_path: Path) -> None:
    us = own_identity(tmp_path)
    assert (us.started, us.namespace, us.boot) == ("x", "x", "x")
    assert parse(str(us)) == us
    assert not is_dead(us._replace(pid=2**22 - 3), us, tmp_path)
