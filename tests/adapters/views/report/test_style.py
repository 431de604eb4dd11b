"""The palette: text and shapes stand out in both themes, and hues are told apart whoever looks."""

from __future__ import annotations

from itertools import combinations

import pytest

from podtide.adapters.views.report import style
from podtide.adapters.views.whatif.figures import CAUSES, LIMITS

THEMES = pytest.mark.parametrize("theme", [style.LIGHT, style.DARK], ids=["light", "dark"])
HUES = sorted({hue for hue, _ in (*style.CAUSE_COLOURS, *style.LIMIT_COLOURS)})
# Machado, Oliveira and Fernandes 2009, severity 1, on linear RGB.
BLINDNESS = {
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "tritanopia": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}


def linear(colour: str) -> list[float]:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    return [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]


def contrast(one: str, other: str) -> float:
    dark, light = sorted(
        sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear(x), strict=True)) for x in (one, other)
    )
    return (light + 0.05) / (dark + 0.05)


def lab(rgb: list[float]) -> tuple[float, float, float]:
    rows = ((0.4124, 0.3576, 0.1805), (0.2126, 0.7152, 0.0722), (0.0193, 0.1192, 0.9505))
    white = (0.95047, 1.0, 1.08883)
    x, y, z = (
        (value ** (1 / 3) if value > 0.008856 else 7.787 * value + 16 / 116)
        for value in (
            max(0.0, sum(w * c for w, c in zip(row, rgb, strict=True))) / n for row, n in zip(rows, white, strict=True)
        )
    )
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def seen(colour: str, blindness: str) -> tuple[float, float, float]:
    rgb = linear(colour)
    return lab([min(1.0, max(0.0, sum(w * c for w, c in zip(row, rgb, strict=True)))) for row in BLINDNESS[blindness]])


@THEMES
@pytest.mark.parametrize("text", ["ink", "soft", "link", "good", "bad", "warn"])
@pytest.mark.parametrize("ground", ["surface", "ground", "wash"])
def test_text_meets_aa(theme: dict[str, str], text: str, ground: str) -> None:
    assert contrast(theme[text], theme[ground]) >= 4.5


@THEMES
@pytest.mark.parametrize("shape", [*HUES, "pink", "black"])
def test_shapes_meet_three_to_one(theme: dict[str, str], shape: str) -> None:
    assert contrast(theme[shape], theme["surface"]) >= 3


@THEMES
@pytest.mark.parametrize("blindness", sorted(BLINDNESS))
def test_hues_are_told_apart(theme: dict[str, str], blindness: str) -> None:
    for one, other in combinations(HUES, 2):
        far = (
            sum((a - b) ** 2 for a, b in zip(seen(theme[one], blindness), seen(theme[other], blindness), strict=True))
            ** 0.5
        )
        assert far >= 14, (one, other, far)


def test_no_two_causes_look_the_same() -> None:
    assert len(set(style.CAUSE_COLOURS)) == len(style.CAUSE_COLOURS) == len(CAUSES)
    assert len(set(style.LIMIT_COLOURS)) == len(style.LIMIT_COLOURS) == len(LIMITS)


@THEMES
def test_every_colour_that_is_used_is_there(theme: dict[str, str]) -> None:
    used = {name.partition(")")[0] for name in style.page_style().split("var(--")[1:]} - {"hue"}
    assert used <= set(theme)
    assert set(style.LIGHT) == set(style.DARK)


def test_a_scoped_style_touches_nothing_else() -> None:
    assert "@" not in style.COMPONENTS, "rules with conditions cannot be scoped one by one"
    for rule in style.scoped_style(".here", ".dark").split("}")[:-1]:
        selectors = rule.partition("{")[0]
        assert all(one.startswith((".here", ".dark .here")) for one in selectors.split(",")), selectors
