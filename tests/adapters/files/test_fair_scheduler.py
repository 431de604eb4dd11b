"""fairscheduler.xml as users write it: what is read, and what is refused with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from podtide.adapters.files.fair_scheduler import SIZE_MAX, FairSchedulerError, read_pools
from podtide.domain.scheduler.rules import FairPool

SPARKS_OWN = """<?xml version="1.0"?>
<!-- as in conf/fairscheduler.xml.template -->
<allocations>
  <pool name="production">
    <schedulingMode>FAIR</schedulingMode>
    <weight>1</weight>
    <minShare>2</minShare>
  </pool>
  <pool name="test">
    <schedulingMode>FIFO</schedulingMode>
    <weight>2</weight>
    <minShare>3</minShare>
  </pool>
</allocations>
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "fairscheduler.xml"


def test_sparks_own_template(file: Path) -> None:
    file.write_text(SPARKS_OWN)
    assert read_pools(file) == {"production": FairPool(1, 2, fair=True), "test": FairPool(2, 3)}


@pytest.mark.parametrize(
    ("pool", "expected"),
    [
        ('<pool name="a"/>', FairPool()),
        ('<pool name="a"><weight>\n 7 </weight></pool>', FairPool(7)),
        ('<pool name="a"><minShare>0</minShare><weight>+3</weight></pool>', FairPool(3)),
        ('<pool name="a"><schedulingMode> fair</schedulingMode></pool>', FairPool(fair=True)),
        ('<pool name="a"><weight>1<!-- or more -->2</weight></pool>', FairPool(12)),
        ('<group><pool name="a" owner="me"><weight>2</weight></pool></group><other>x</other>', FairPool(2)),
    ],
)
def test_what_may_be_left_out_or_stand_beside(file: Path, pool: str, expected: FairPool) -> None:
    file.write_text(f"<allocations>{pool}</allocations>")
    assert read_pools(file) == {"a": expected}


def test_names_are_texts(file: Path) -> None:
    file.write_text('<a><pool name="&lt;r&amp;d&gt;"/><pool name="Übung"/></a>', encoding="utf-8")
    assert list(read_pools(file)) == ["<r&d>", "Übung"]


@pytest.mark.parametrize(
    ("text", "line", "complaint"),
    [
        ("<a>\n<pool/>\n</a>", 2, "a pool without a name: expected <pool name=...>"),
        ('<a><pool name="a"/>\n<pool name="a"/></a>', 2, "pool a: expected once"),
        ('<a><pool name="a">\n<weight>0</weight></pool></a>', 2, "pool a: weight = '0': expected a whole number, 1 or more"),
        ('<a><pool name="a"><weight>\n1.5\n</weight></pool></a>', 1,
         "pool a: weight = '1.5': expected a whole number, 1 or more"),
        ('<a><pool name="a"><weight/></pool></a>', 1, "pool a: weight = '': expected a whole number, 1 or more"),
        ('<a><pool name="a"><minShare>-1</minShare></pool></a>', 1,
         "pool a: minShare = '-1': expected a whole number, 0 or more"),
        ('<a><pool name="a"><minShare>9999999999</minShare></pool></a>', 1,
         "pool a: minShare = '9999999999': expected a whole"),
        ('<a><pool name="a"><schedulingMode>NONE</schedulingMode></pool></a>', 1,
         "pool a: schedulingMode = 'NONE': expected FIFO or FAIR"),
        ('<a><pool name="a">\n<minshare>1</minshare></pool></a>', 2,
         "pool a: element minshare: expected schedulingMode, weight, minShare"),
        ('<a><pool name="a"><weight>1</weight>\n<weight>2</weight></pool></a>', 2, "pool a: weight: expected once"),
        ('<a><pool name="a"><weight><b>1</b></weight></pool></a>', 1, "pool a: element b: expected"),
        ('<a><pool name="a">\n<pool name="b"/></pool></a>', 2, "pool a: element pool: expected"),
        ('<a><pool name="a">weight=3</pool></a>', 1, "pool a: 'weight=3': expected schedulingMode, weight, minShare"),
        ("<a>\n<pool name='a'>", 2, "no element found: expected XML"),
        ("weight: 3", 1, "syntax error: expected XML"),
        ("", 1, "no element found: expected XML"),
        ('<a><pool name="&me;"/></a>', 1, "undefined entity: expected XML"),
        ("<!DOCTYPE a>\n<a/>", 1, "a document type: expected none"),
        ('<!DOCTYPE a [<!ENTITY b "c">]>\n<a><pool name="&b;"/></a>', 1, "a document type: expected none"),
        ('<?xml version="1.0"?>\n<!DOCTYPE a SYSTEM "file:///etc/passwd">\n<a/>', 2, "a document type: expected none"),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_refused_with_its_line(file: Path, text: str, line: int, complaint: str) -> None:
    file.write_text(text)
    with pytest.raises(FairSchedulerError) as refused:
        read_pools(file)
    message = str(refused.value)
    assert message.startswith(f"{file}:{line}: {complaint}")
    assert "\n" not in message


def test_a_file_without_pools(file: Path) -> None:
    file.write_text("<allocations/>")
    with pytest.raises(FairSchedulerError, match='no pool in it: expected elements such as <pool name="production">'):
        read_pools(file)


def test_a_file_that_is_none(file: Path) -> None:
    with pytest.raises(FairSchedulerError, match=r"cannot be read: .*expected a fairscheduler\.xml"):
        read_pools(file)
    with pytest.raises(FairSchedulerError, match="cannot be read"):
        read_pools(file.parent)


def test_a_file_that_is_too_long(file: Path) -> None:
    file.write_bytes(b"<a>" + b" " * SIZE_MAX)
    with pytest.raises(FairSchedulerError, match="too long"):
        read_pools(file)


def test_a_megabyte_of_lines_takes_no_time_to_speak_of(file: Path) -> None:
    file.write_text('<a><pool name="a"><weight>' + "\n" * (SIZE_MAX - 200) + "3</weight></pool></a>")
    assert read_pools(file) == {"a": FairPool(3)}


def test_control_characters_do_not_reach_the_terminal(file: Path) -> None:
    file.write_text('<a><pool name="&#x9b;31m"><weight>x</weight></pool></a>')
    with pytest.raises(FairSchedulerError) as refused:
        read_pools(file)
    assert "\x9b" not in str(refused.value)
