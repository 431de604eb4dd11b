"""Prices from the command line and from a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from podtide.adapters.files.prices import PriceError, from_pairs, prices_of, read
from podtide.domain.whatif.bill.rules import BillRules, ContainerRounding, NodeShape, ResourceCalculator
from podtide.domain.whatif.prices import Prices

ALL = Prices(0.04, 0.005, 0.7, 0.65, "EUR")
YAML = "core-hour: 0.04\ngb-hour: 0.005\nspot-share: 0.7\nspot-discount: 0.65\ncurrency: EUR\n"
JSON = '{"core_hour": 0.04, "gb_hour": 0.005, "spot_share": 0.7, "spot_discount": 0.65, "currency": "EUR"}'


@pytest.mark.parametrize(
    ("text", "prices"),
    [
        ("core-hour=0.04", Prices(0.04)),
        (" core-hour = 0.04 , gb-hour=5e-3 ", Prices(0.04, 0.005)),
        ("core-hour=0.04,gb-hour=0.005,spot-share=0.7,spot-discount=0.65,currency=EUR", ALL),
        ("core-hour=1,driver=yes", Prices(1.0, rules=BillRules(driver=True))),
        (
            "core-hour=1,node-cores=16,node-memory=64g,node-reserved-cores=0.5,node-reserved-memory=3000m",
            Prices(1.0, rules=BillRules(node=NodeShape(16, 65_536, 0.5, 3_000))),
        ),
        ("core-hour=1,yarn-minimum-allocation-mb=512", Prices(1.0, rules=BillRules(containers=ContainerRounding(512)))),
        (
            "core-hour=1,yarn-resource-calculator=dominant,yarn-increment-allocation-mb=256",
            Prices(
                1.0, rules=BillRules(containers=ContainerRounding(1_024, 256, calculator=ResourceCalculator.DOMINANT))
            ),
        ),
    ],
)
def test_pairs(text: str, prices: Prices) -> None:
    assert prices_of(text) == prices


@pytest.mark.parametrize("text", [YAML, JSON, "# list prices\n" + YAML])
def test_files(tmp_path: Path, text: str) -> None:
    file = tmp_path / "prices"
    file.write_text(text)
    assert prices_of(str(file)) == ALL


def test_a_file_with_an_equals_sign_in_its_name_is_a_file(tmp_path: Path) -> None:
    file = tmp_path / "region=eu"
    file.write_text(YAML)
    assert prices_of(str(file)) == ALL


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("core-hour=cheap", ("core-hour = 'cheap'", "a number such as 0.04")),
        ("core-hour=nan", ("core-hour", "a number")),
        ("core-hour=1_000", ("core-hour", "a number")),
        ("core-hour=-1", ("core-hour: expected a price of 0 or more",)),
        ("core-hour=1,core-hour=2", ("core-hour: expected once",)),
        ("core-hours=1", ("core-hours: unknown key", "did you mean core-hour?")),
        ("core-hour=1,spot-share=70", ("spot-share: expected a share from 0 to 1",)),
        ("core-hour=1,driver=maybe", ("driver = 'maybe': expected yes or no",)),
        ("core-hour=1,node-memory=64g", ("node-cores: expected the cores of a node",)),
        ("core-hour=1,node-cores=2,node-memory=1g,node-reserved-cores=2", ("node-reserved-cores: expected",)),
        ("core-hour=1,yarn-minimum-allocation-mb=0", ("yarn-minimum-allocation-mb: expected a whole number above 0",)),
        ("core-hour=1,yarn-resource-calculator=fair", ("expected default or dominant",)),
        ("core-hour=1,", ("expected key=value",)),
        ("currency=EUR", ("core-hour: expected a price above 0",)),
        ("core-hour=1\x1b[31m", ("\\x1b",)),
    ],
)
def test_what_pairs_get_wrong(text: str, words: tuple[str, ...]) -> None:
    with pytest.raises(PriceError) as wrong:
        from_pairs(text)
    assert all(word in str(wrong.value) for word in words)
    assert str(wrong.value).isprintable()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ("empty",)),
        ("core-hour: 0.04\nspot: 1\n", (":2:", "spot: unknown key")),
        ("core-hour: 0.04\ngb-hour: free\n", (":2:", "gb-hour: expected a number such as 0.04, got 'free'")),
        ("core-hour: 0.04\nspot-share: 2\n", (":2:", "spot-share: expected a share")),
        ("[1, 2]", (":1:", "got a list")),
        ("core-hour: [1]", ("core-hour", "got a list")),
        ("core-hour: {", ("not YAML",)),
        ("core-hour: 1\ncore-hour: 2\n", (":2:",)),
        ("core-hour: 1\x00", ("not YAML",)),
        ("x" * 100_000, ("too long",)),
    ],
)
def test_what_files_get_wrong(tmp_path: Path, text: str, words: tuple[str, ...]) -> None:
    file = tmp_path / "prices.yaml"
    file.write_text(text)
    with pytest.raises(PriceError) as wrong:
        read(file)
    assert "prices.yaml" in str(wrong.value)
    assert all(word in str(wrong.value) for word in words), str(wrong.value)


@pytest.mark.parametrize("name", ["missing.yaml", "", "."])
def test_a_file_that_cannot_be_read(tmp_path: Path, name: str) -> None:
    with pytest.raises(PriceError, match="cannot be read"):
        prices_of(str(tmp_path / name) if name != "." else str(tmp_path))


def test_text_that_is_not_utf8_names_the_line(tmp_path: Path) -> None:
    file = tmp_path / "prices.yaml"
    file.write_bytes(b"core-hour: 1\ncurrency: \xff\n")
    with pytest.raises(PriceError, match=r"prices\.yaml:2: expected UTF-8"):
        read(file)
