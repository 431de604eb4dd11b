"""Only what lies in a place is read, whatever it is called."""

from __future__ import annotations

from pathlib import Path

import pytest

from podtide.entrypoints.mcp.places import NotAllowed, Places


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Folders ``in`` and ``out``; ``in`` is allowed."""
    for folder in ("in/rolled", "in/linked", "in-too", "out"):
        (tmp_path / folder).mkdir(parents=True)
    for log in ("in/log", "in/logs.zip", "in/rolled/events_1_app", "out/secret", "in-too/log"):
        (tmp_path / log).write_text("{}")
    (tmp_path / "in" / "inside").symlink_to(tmp_path / "in" / "log")
    (tmp_path / "in" / "outside").symlink_to(tmp_path / "out" / "secret")
    (tmp_path / "in" / "folder").symlink_to(tmp_path / "out")
    (tmp_path / "in" / "linked" / "events_1_app").symlink_to(tmp_path / "out" / "secret")
    return tmp_path


@pytest.mark.parametrize(
    ("given", "opened"),
    [
        ("log", "in/log"),
        ("{}/in/log", "in/log"),
        ("rolled", "in/rolled"),
        ("rolled/../log", "in/log"),
        ("file://{}/in/log", "in/log"),
        ("inside", "in/log"),
        ("logs.zip!member", "in/logs.zip!member"),
        ("not there", "in/not there"),
        ("-", "in/-"),
    ],
)
def test_what_lies_in_a_place_is_opened_without_its_links(tree: Path, given: str, opened: str) -> None:
    assert Places.of([str(tree / "in")]).log(given.format(tree)) == str(tree / opened)


@pytest.mark.parametrize(
    "given",
    [
        "../out/secret", "{}/out/secret", "{}/in/../out/secret", "outside", "folder/secret", "{}/in-too/log",
        "/etc/passwd", "file:///etc/passwd", "", "log\0", "https://example.com/log", "linked", "..",
        "../out/nothing.zip!member", "simplecache::file:///etc/passwd",
    ],
)  # fmt: skip
def test_what_leads_out_of_the_places_is_refused(tree: Path, given: str) -> None:
    with pytest.raises(NotAllowed) as refused:
        Places.of([str(tree / "in")]).log(given.format(tree))
    assert str(tree / "out") not in str(refused.value).replace(given.format(tree), "")


def test_a_place_may_be_a_link_or_a_file(tree: Path) -> None:
    places = Places.of([str(tree / "in" / "folder"), str(tree / "in-too" / "log")])
    assert places.log("secret") == str(tree / "out" / "secret")
    assert places.log(str(tree / "in-too" / "log"))
    with pytest.raises(NotAllowed):
        places.log(str(tree / "in" / "log"))
    with pytest.raises(NotAllowed, match="nowhere: there is no such file"):
        Places.of(["nowhere"])


@pytest.mark.parametrize(
    ("url", "allowed"),
    [
        ("https://logs.example/spark", True),
        ("https://logs.example/spark/app-1", True),
        ("HTTPS://LOGS.example/spark/app-1", True),
        ("https://logs.example/spark-other/app-1", False),
        ("https://logs.example/spark/../secret", False),
        ("https://logs.example/spark/%2e%2e/secret", False),
        ("https://logs.example/spark/%252e%252e/secret", False),
        ("https://logs.example:8443/spark/app-1", False),
        ("https://logs.example@evil.example/spark/app-1", False),
        ("https://logs.example.evil.example/spark/app-1", False),
        ("http://logs.example/spark/app-1", False),
        ("zip://x::https://logs.example/spark/a.zip", False),
        ("s3://logs.example/spark/app-1", False),
    ],
)
def test_urls_begin_with_a_place(url: str, allowed: bool) -> None:
    places = Places.of(["https://logs.example/spark/"])
    if allowed:
        assert places.log(url) == url
        return
    with pytest.raises(NotAllowed):
        places.log(url)
