"""An API server for every test of this folder; where it comes from is said in ``cluster.py``.

These tests run in one process and by themselves (``make live-quick``, ``make live``): workers of pytest-xdist collect none
of them, for each would start a server of its own.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.live.cluster import BrokenCluster, Cluster, NoCluster, find
from tests.live.kubelet import Kubelet
from tests.live.life import Census, many

collect_ignore_glob = ["test_*.py"] if os.environ.get("PYTEST_XDIST_WORKER") else []


@pytest.fixture(scope="session")
def _found(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    try:
        cluster = find()
    except (BrokenCluster, NoCluster) as problem:
        pytest.fail(str(problem), pytrace=False)
    if cluster.embedded is not None:
        request.config.stash[EMBEDDED] = True
    try:
        yield cluster
    finally:
        cluster.close()


EMBEDDED = pytest.StashKey[bool]()
"""Set where tests ran against podtide's own server."""

NOT_EMBEDDED = {
    "test_api_server_answers": "other server to be compared with",
    "test_rbac": "roles",
    "test_deploy": "roles and field validation",
    "test_a_verb_is_missing_and_then_granted": "roles",
}
"""What the embedded server has not, by the module or the test that is about it."""


@pytest.fixture
def cluster(_found: Cluster, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """The cluster; what a test made of namespaces is deleted after it."""
    lacks = NOT_EMBEDDED.get(request.path.stem) or NOT_EMBEDDED.get(request.node.originalname)
    if _found.embedded is not None and lacks:
        pytest.skip(f"the embedded server has no {lacks}")
    yield _found
    _found.tidy()


@pytest.fixture
def own_cluster(cluster: Cluster) -> Cluster:
    """The cluster, if its server may be stopped."""
    if cluster.server is None:
        pytest.skip("this test stops a server, and this one is part of the test, or not ours to stop")
    return cluster


@pytest.fixture
def namespace(cluster: Cluster) -> str:
    """A fresh namespace."""
    return cluster.namespace()


@pytest.fixture
def size(cluster: Cluster) -> int:
    """How many pods are many."""
    return many(cluster)


@pytest.fixture
def kubelet(cluster: Cluster, namespace: str) -> Iterator[Kubelet]:
    """One that is quick."""
    with cluster.kubelet(namespace) as kubelet:
        yield kubelet


@pytest.fixture
def census(cluster: Cluster, namespace: str) -> Iterator[Census]:
    """Every pod that is ever there."""
    with Census(cluster, namespace) as census:
        yield census


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say it aloud when no real server was there."""
    if config.stash.get(EMBEDDED, False):
        terminalreporter.write_line("")
        terminalreporter.write_line(
            "WARNING: NOT TESTED AGAINST A REAL API SERVER, but against podtide's own: see tests/live/cluster.py",
            red=True,
            bold=True,
        )
