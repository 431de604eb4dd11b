"""Variants as the command line writes them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, strategies as st

from podtide.domain.rerun.plan import Faults, Variant
from podtide.entrypoints.whatif.variants import VariantError, VariantWishes, split, spot_rate, variants_of

A, B = "spark.a", "spark.b"


@pytest.mark.parametrize(
    ("wishes", "variants"),
    [
        (VariantWishes(), ()),
        (VariantWishes(sets=(f"{A}=1", f"{B}=")), (Variant("set", {A: "1", B: None}),)),
        (VariantWishes(variants=(f"wide:{A}=1,{B}=2",)), (Variant("wide", {A: "1", B: "2"}),)),
        (VariantWishes(variants=(rf"w:{A}=x\,y,{B}=2",)), (Variant("w", {A: "x,y", B: "2"}),)),
        (VariantWishes(variants=(f"w:{A}=k8s://https://h:6443",)), (Variant("w", {A: "k8s://https://h:6443"}),)),
        (VariantWishes(variants=(f"w: {A}=a=b ,",)), (Variant("w", {A: "a=b"}),)),
        (VariantWishes(statics=(4, 8)), (Variant("static 4", static=4), Variant("static 8", static=8))),
        (VariantWishes(variants=(f"w:static=4,{A}=1",)), (Variant("w", {A: "1"}, 4),)),
        (VariantWishes(sets=("fault.quota=3",)), (Variant("set", faults=Faults(quota=3)),)),
        (
            VariantWishes(spot_rate="12/d", slow_start="1m30s", quota="5"),
            (Variant("faults", faults=Faults(0.5, 90_000, 5)),),
        ),
        (
            VariantWishes(variants=("w:fault.spot-rate=2,fault.slow-start=500ms",)),
            (Variant("w", faults=Faults(2.0, 500)),),
        ),
        (VariantWishes(sets=(f"{A}=1",), everywhere={B: "k"}), (Variant("set", {B: "k", A: "1"}),)),
    ],
)
def test_what_is_meant(wishes: VariantWishes, variants: tuple[Variant, ...]) -> None:
    assert variants_of(wishes) == variants


@pytest.mark.parametrize(
    ("wishes", "words"),
    [
        (VariantWishes(sets=("spark.a",)), "--set: 'spark.a': expected KEY=VALUE"),
        (VariantWishes(sets=("=1",)), "--set: '=1': expected KEY=VALUE"),
        (VariantWishes(sets=(f"{A}=1", f"{A}=2")), "spark.a: expected once"),
        (VariantWishes(variants=("spark.a=1",)), "expected NAME:KEY=VALUE"),
        (VariantWishes(variants=(":spark.a=1",)), "expected NAME:KEY=VALUE"),
        (VariantWishes(variants=("w:",)), "it changes nothing"),
        (VariantWishes(variants=(f"w:{A}=x,y",)), "a comma in a value is written \\,"),
        (VariantWishes(variants=("n" * 81 + ":spark.a=1",)), "expected NAME:KEY=VALUE"),
        (VariantWishes(variants=("a\x1b:spark.a=1",)), "expected NAME:KEY=VALUE"),
        (VariantWishes(variants=(f"as simulated:{A}=1",)), "expected another name"),
        (VariantWishes(sets=(f"{A}=1",), variants=(f"set:{A}=2",)), "two variants are called 'set'"),
        (VariantWishes(variants=("w:static=none",)), "expected a whole number from 1"),
        (VariantWishes(variants=("w:static=0",)), "expected a whole number from 1"),
        (VariantWishes(variants=("w:fault.rain=1",)), "expected fault.spot-rate, fault.slow-start or fault.quota"),
        (VariantWishes(spot_rate="often"), "expected interruptions an hour, such as 0.5/h"),
        (VariantWishes(spot_rate="99999999"), "expected interruptions an hour"),
        (VariantWishes(slow_start="slow"), "expected a duration such as 30s"),
        (VariantWishes(quota="-1"), "expected a whole number from 0"),
        (VariantWishes(statics=tuple(range(1, 300))), "expected at most 200"),
    ],
)
def test_what_is_not(wishes: VariantWishes, words: str) -> None:
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
