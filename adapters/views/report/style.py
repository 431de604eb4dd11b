"""How a report looks: two themes of one palette, type, and the layouts for a desk, a phone and paper.

The themes are the colours: text meets WCAG AA (4.5 to 1) and shapes 3 to 1 on their ground in both, and causes are told
apart by lightness and hatching as well as by hue. components.css styles tables, bars and charts wherever they are shown, in
the page and in a notebook; page.css is the page around them.
"""

from __future__ import annotations

import base64
import hashlib
from importlib import resources
from typing import Final

LIGHT: Final = {
    "ground": "#f6f6f4", "surface": "#ffffff", "ink": "#1b2027", "soft": "#56606b", "rule": "#dcdfe3", "wash": "#f0f2f4",
    "link": "#0b5cab", "good": "#0b6e66", "bad": "#b3261e", "warn": "#8a5a00",
    "blue": "#1b87dd", "pale": "#a9d3f5", "red": "#b01e17", "amber": "#c58322", "purple": "#6b2a8c", "teal": "#0b6f58",
    "slate": "#3d4960", "grey": "#89939a", "pink": "#a3195b", "black": "#1b2027",
}  # fmt: skip
DARK: Final = {
    "ground": "#0f1317", "surface": "#171c22", "ink": "#e7eaee", "soft": "#a3adb8", "rule": "#2c343d", "wash": "#1f262e",
    "link": "#83bff7", "good": "#5fcabd", "bad": "#f59a92", "warn": "#e6b45c",
    "blue": "#6ba6ea", "pale": "#34597f", "red": "#ea7352", "amber": "#f2c14e", "purple": "#a055d8", "teal": "#7fe0d2",
    "slate": "#8d97a5", "grey": "#6a7077", "pink": "#f08bb4", "black": "#f1f3f5",
}  # fmt: skip

CAUSE_COLOURS: Final = (
    ("blue", ""), ("red", "a"), ("amber", ""), ("amber", "a"), ("purple", ""), ("purple", "a"), ("purple", "b"),
    ("teal", ""), ("teal", "a"), ("teal", "b"), ("amber", "b"), ("slate", ""), ("slate", "a"), ("grey", ""),
)  # fmt: skip
"""Hue and hatching of the causes, in the order of ``views.whatif.figures.CAUSES``."""

LIMIT_COLOURS: Final = (
    ("teal", ""), ("teal", "a"), ("purple", ""), ("purple", "a"), ("amber", ""), ("amber", "a"), ("slate", ""),
    ("slate", "a"), ("purple", "b"), ("blue", ""), ("red", "a"), ("grey", ""),
)  # fmt: skip
"""Of the limits, in the order of ``views.whatif.figures.LIMITS``."""

HATCHED: Final = tuple(dict.fromkeys(pair for pair in (*CAUSE_COLOURS, *LIMIT_COLOURS, ("amber", "a")) if pair[1]))


DARK_UNDER: Final = ('[data-jp-theme-light="false"]', ".vscode-dark", "html[theme=dark]")
"""How the pages of JupyterLab, VS Code and Colab say that they are dark."""


def resource(name: str) -> str:
    """A file of this package as text; the package may stand in a ZIP."""
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def hash_source(text: str) -> str:
    """The source expression of an inline style or script in a content security policy."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def tokens(colours: dict[str, str]) -> str:
    """The colours as declarations."""
    return "".join(f"--{key}:{value};" for key, value in colours.items())


def _parts() -> str:
    rules = []
    for prefix, colours in (("c", CAUSE_COLOURS), ("l", LIMIT_COLOURS)):
        for index, (hue, hatch) in enumerate(colours):
            fill = f"url(#pt-{hue}-{hatch}) var(--{hue})" if hatch else f"var(--{hue})"
            angle = {"": "", "a": "-45deg", "b": "45deg"}[hatch]
            key = (
                f"repeating-linear-gradient({angle},var(--{hue}) 0 3px,var(--surface) 3px 4.5px)"
                if hatch
                else f"var(--{hue})"
            )
            rules.append(f".part.{prefix}{index}{{fill:{fill}}}.key.{prefix}{index}{{background:{key}}}")
    for name, hue in (("cx", "grey"), ("cn", "pink"), ("cd", "black")):
        rules.append(f".part.{name}{{fill:var(--{hue})}}.key.{name}{{background:var(--{hue})}}")
    return "".join(rules)


COMPONENTS: Final = (
    f"\n{resource('components.css')}"
    + "".join(f".hatch.{hue}{{--hue:var(--{hue})}}" for hue in dict(HATCHED))
    + _parts()
)
PAGE: Final = f"\n{resource('page.css')}"


def page_style() -> str:
    """The style of the page."""
    light, dark = tokens(LIGHT), tokens(DARK)
    return (
        f":root{{color-scheme:light;{light}}}"
        f"@media screen and (prefers-color-scheme:dark){{:root:not([data-theme=light]){{color-scheme:dark;{dark}}}}}"
        f"@media screen{{:root[data-theme=dark]{{color-scheme:dark;{dark}}}}}"
        f"{COMPONENTS}{PAGE}"
    )


def scoped_style(scope: str, *dark: str) -> str:
    """The components' style below one class alone, for a page that is somebody else's. ``dark``: selectors under which that
    page is dark."""
    rules = []
    for rule in COMPONENTS.replace("\n", "").split("}"):
        selectors, brace, declarations = rule.partition("{")
        if brace:
            rules.append(",".join(f"{scope} {one.strip()}" for one in selectors.split(",")) + f"{{{declarations}}}")
    themes = f"{scope}{{color-scheme:light;{tokens(LIGHT)}}}"
    themes += "".join(f"{one} {scope}{{color-scheme:dark;{tokens(DARK)}}}" for one in dark)
    return themes + "".join(rules)
