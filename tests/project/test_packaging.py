"""What is installed is what stands in the folders: the editable install, the version, ``python -m podtide``."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import tomllib
from fnmatch import fnmatch
from importlib import metadata
from pathlib import Path

import podtide
from tests.support.project import PROJECT, TYPING


def test_the_editable_install_is_a_plain_path_file_that_editors_follow() -> None:
    site_packages = Path(sysconfig.get_path("purelib"))
    (path_file,) = site_packages.glob("__editable__*podtide*")
    assert path_file.suffix == ".pth"
    assert Path(path_file.read_text().strip()) == TYPING


def test_no_list_of_packages_is_kept_by_hand() -> None:
    settings = tomllib.loads((PROJECT / "pyproject.toml").read_text())["tool"]["setuptools"]
    assert settings["packages"] == {"find": {"where": [".typing"]}}
    for folder in ("domain", "adapters", "entrypoints"):
        assert (TYPING / "podtide" / folder).resolve() == PROJECT / folder
        for module in (PROJECT / folder).rglob("*.py"):
            assert (module.parent / "__init__.py").exists(), (
                f"{module.parent} is no package: its modules are not installed"
            )


def test_whatever_stands_beside_the_modules_is_installed() -> None:
    settings = tomllib.loads((PROJECT / "pyproject.toml").read_text())["tool"]["setuptools"]
    patterns = settings["package-data"]["*"]
    for folder in ("domain", "adapters", "entrypoints"):
        assert (PROJECT / folder / "py.typed").exists()
        for file in (PROJECT / folder).rglob("*"):
            if file.is_file() and file.suffix not in (".py", ".pyc"):
                assert any(fnmatch(file.name, pattern) for pattern in patterns), f"{file} would not be in the wheel"


def test_the_package_knows_its_version() -> None:
    assert metadata.version("podtide") == podtide.__version__


def test_it_runs_as_a_module() -> None:
    printed = subprocess.run(
        [sys.executable, "-m", "podtide", "--version"], capture_output=True, text=True, check=True, cwd=PROJECT
    )
    assert printed.stdout == f"podtide {podtide.__version__}, decides as Spark 4.3.0\n"
