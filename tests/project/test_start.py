"""What is quick to start stays so: a command loads what it needs, and the library loads the room of a name alone."""

from __future__ import annotations

import ast
import subprocess
import sys

import pytest

import podtide.domain as library
from tests.support.project import DEMO, PROJECT, environment

REPLAY = "from podtide.entrypoints.cli import run; run(sys.argv[1:])"
CLUSTER_MANAGERS = (
    "kubernetes",
    "urllib3",
    "podtide.adapters.kubernetes",
    "podtide.domain.backend",
    "podtide.domain.engine",
    "podtide.domain.fakes",
    "podtide.domain.kubernetes",
    "podtide.domain.machine",
    "podtide.domain.protocol.application",
    "podtide.domain.protocol.backend_messages",
    "podtide.domain.protocol.cluster_config",
    "podtide.domain.protocol.executor_commands",
    "podtide.domain.protocol.executor_stimuli",
    "podtide.domain.protocol.pod_commands",
    "podtide.domain.protocol.pod_stimuli",
    "podtide.domain.protocol.yarn_messages",
    "podtide.domain.yarn",
)


def loaded(program: str, *arguments: str) -> list[str]:
    """The modules that a process of its own has loaded when the program ends."""
    ended = subprocess.run(
        [sys.executable, "-c", f"import sys; {program}; print(*sys.modules, file=sys.stderr)", *arguments],
        capture_output=True,
        text=True,
        check=True,
        env=environment(),
    )
    return ended.stderr.split()


def of_cluster_managers(modules: list[str]) -> list[str]:
    return [name for name in modules if any(name == room or name.startswith(f"{room}.") for room in CLUSTER_MANAGERS)]


@pytest.mark.parametrize("options", [(), ("--json",), ("--spark-log", "-")])
def test_the_replay_of_an_event_log_loads_no_cluster_manager(options: tuple[str, ...]) -> None:
    modules = loaded(REPLAY, "replay", str(DEMO), *options)
    assert "podtide.domain.scaling.manager" in modules
    assert of_cluster_managers(modules) == []


def test_dynamic_allocation_as_a_library_loads_no_cluster_manager() -> None:
    modules = loaded("from podtide.domain import SparkConf, scaling_config, start, step, due")
    assert "podtide.domain.scaling.manager" in modules
    assert of_cluster_managers(modules) == []


def test_importing_podtide_loads_nothing_and_opening_a_log_reads_nothing() -> None:
    parts = {"click", "msgspec", "jinja2", "rich", "pyrsistent", "returns"}
    modules = loaded("import podtide")
    assert not parts & set(modules)
    assert [name for name in modules if name.startswith("podtide")] == ["podtide"]
    assert not {"pandas", "pyarrow"} & set(loaded("import podtide; podtide.open('nowhere')"))


def test_the_library_loads_the_room_of_a_name_alone() -> None:
    assert [name for name in loaded("import podtide.domain") if name.startswith("podtide.domain.")] == []
    with_units = [name for name in loaded("from podtide.domain import NEVER") if name.startswith("podtide.domain.")]
    assert with_units == ["podtide.domain.base", "podtide.domain.base.units"]


def test_every_name_of_the_library_is_there_for_people_and_type_checkers() -> None:
    """``__all__``, what type checkers read and what is loaded at run time are the same names of the same rooms."""
    tree = ast.parse((PROJECT / "domain" / "__init__.py").read_text(encoding="utf-8"))
    checked = [node for branch in tree.body if isinstance(branch, ast.If) for node in branch.body]
    rooms = {
        name.name: str(node.module).removeprefix("podtide.domain.")
        for node in checked
        if isinstance(node, ast.ImportFrom)
        for name in node.names
    }
    assert rooms == library._ROOMS
    assert sorted(rooms) == sorted(library.__all__) == sorted(dir(library))
    assert all(getattr(library, name) is not None for name in library.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        library.nothing  # type: ignore[attr-defined]  # noqa: B018 - that is what is tried
