"""Variants as the command line writes them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, strategies as st

from podtide.domain.rerun.plan import Faults, Variant
from podtide.entrypoints.whatif.variants import VariantError, Wishes, split, spot_rate, variants_of

A, B = "spark.a", "spark.b"


@pytest.mark.parametrize(
    ("wishes", "variants"),
    [
        (Wishes(), ()),
        (Wishes(sets=(f"{A}=1", f"{B}=")), (Variant("set", {A: "1", B: None}),)),
        (Wishes(variants=(f"wide:{A}=1,{B}=2",)), (Variant("wide", {A: "1", B: "2"}),)),
        (Wishes(variants=(rf"w:{A}=x\,y,{B}=2",)), (Variant("w", {A: "x,y", B: "2"}),)),
        (Wishes(variants=(f"w:{A}=k8s://https://h:6443",)), (Variant("w", {A: "k8s://https://h:6443"}),)),
        (Wishes(variants=(f"w: {A}=a=b ,",)), (Variant("w", {A: "a=b"}),)),
        (Wishes(statics=(4, 8)), (Variant("static 4", static=4), Variant("static 8", static=8))),
        (Wishes(variants=(f"w:static=4,{A}=1",)), (Variant("w", {A: "1"}, 4),)),
        (Wishes(sets=("fault.quota=3",)), (Variant("set", faults=Faults(quota=3)),)),
        (
            Wishes(spot_rate="12/d", slow_start="1m30s", quota="5"),
            (Variant("faults", faults=Faults(0.5, 90_000, 5)),),
        ),
        (
            Wishes(variants=("w:fault.spot-rate=2,fault.slow-start=500ms",)),
            (Variant("w", faults=Faults(2.0, 500)),),
        ),
        (Wishes(sets=(f"{A}=1",), everywhere={B: "k"}), (Variant("set", {B: "k", A: "1"}),)),
    ],
)
def test_what_is_meant(wishes: Wishes, variants: tuple[Variant, ...]) -> None:
    assert variants_of(wishes) == variants


@pytest.mark.parametrize(
    ("wishes", "words"),
    [
        (Wishes(sets=("spark.a",)), "--set: 'spark.a': expected KEY=VALUE"),
        (Wishes(sets=("=1",)), "--set: '=1': expected KEY=VALUE"),
        (Wishes(sets=(f"{A}=1", f"{A}=2")), "spark.a: expected once"),
        (Wishes(variants=("spark.a=1",)), "expected NAME:KEY=VALUE"),
        (Wishes(variants=(":spark.a=1",)), "expected NAME:KEY=VALUE"),
        (Wishes(variants=("w:",)), "it changes nothing"),
        (Wishes(variants=(f"w:{A}=x,y",)), "a comma in a value is written \\,"),
        (Wishes(variants=("n" * 81 + ":spark.a=1",)), "expected NAME:KEY=VALUE"),
        (Wishes(variants=("a\x1b:spark.a=1",)), "expected NAME:KEY=VALUE"),
        (Wishes(variants=(f"as simulated:{A}=1",)), "expected another name"),
        (Wishes(sets=(f"{A}=1",), variants=(f"set:{A}=2",)), "two variants are called 'set'"),
        (Wishes(variants=("w:static=none",)), "expected a whole number from 1"),
        (Wishes(variants=("w:static=0",)), "expected a whole number from 1"),
        (Wishes(variants=("w:fault.rain=1",)), "expected fault.spot-rate, fault.slow-start or fault.quota"),
        (Wishes(spot_rate="often"), "expected interruptions an hour, such as 0.5/h"),
        (Wishes(spot_rate="99999999"), "expected interruptions an hour"),
        (Wishes(slow_start="slow"), "expected a duration such as 30s"),
        (Wishes(quota="-1"), "expected a whole number from 0"),
        (Wishes(statics=tuple(range(1, 300))), "expected at most 200"),
    ],
)
def test_what_is_not(wishes: Wishes, words: str) -> None:
    with pytest.raises(VariantError) as wrong:
        variants_of(wishes)
    assert words in str(wrong.value)
    assert str(wrong.value).isprintable()


@pytest.mark.parametrize(("text", "rate"), [("0.5", 0.5), ("0.5/h", 0.5), ("12/d", 0.5), (" 2/h ", 2.0), ("0", 0.0)])
def test_rates(text: str, rate: float) -> None:
    assert spot_rate(text) == rate


@given(
    st.lists(st.text(st.sampled_from("ab=\\,:"), min_size=1).filter(lambda text: not text.endswith("\\")), max_size=8)
)
def test_every_value_can_be_written(parts: list[str]) -> None:
    def written(part: str) -> str:
        return re.sub(r"(\\*),", lambda found: found[1] * 2 + "\\,", part)

    assert split(",".join(map(written, parts))) == parts


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (r"a=C:\dir\x,b=1", [r"a=C:\dir\x", "b=1"]),
        (r"a=x\,y", ["a=x,y"]),
        (r"a=x\\,y", ["a=x\\", "y"]),
        (r"a=x\\\,y", ["a=x\\,y"]),
        (" a=1 ,, b=2 ,", ["a=1", "b=2"]),
        ("", []),
    ],
)
def test_parts(text: str, parts: list[str]) -> None:
    assert split(text) == parts
