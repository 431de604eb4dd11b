"""How a report looks: two themes of one palette, type, and the layouts for a desk, a phone and paper.

``TOKENS`` are the colours: text meets WCAG AA (4.5 to 1) and shapes 3 to 1 on their ground in both themes, and causes
are told apart by lightness and hatching as well as by hue. ``COMPONENTS`` style tables, bars and charts wherever they
are shown, in the page and in a notebook; ``PAGE`` is the page around them.
"""

from __future__ import annotations

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
    ("teal", ""), ("teal", "a"), ("slate", ""), ("slate", "a"), ("grey", ""),
)  # fmt: skip
"""Hue and hatching of the causes, in the order of ``views.whatif.figures.CAUSES``."""

LIMIT_COLOURS: Final = (
    ("teal", ""), ("teal", "a"), ("purple", ""), ("purple", "a"), ("amber", ""), ("amber", "a"), ("slate", ""),
    ("slate", "a"), ("purple", "b"), ("blue", ""), ("red", "a"), ("grey", ""),
)  # fmt: skip
"""Of the limits, in the order of ``views.whatif.figures.LIMITS``."""

HATCHED: Final = tuple(dict.fromkeys(pair for pair in (*CAUSE_COLOURS, *LIMIT_COLOURS, ("amber", "a")) if pair[1]))


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
    return "".join([*rules, ".part.cx{fill:var(--grey)}.key.cx{background:var(--grey)}"])


COMPONENTS: Final = (
    """
svg{display:block;overflow:visible}
.clipped{overflow:hidden}
.num,td,.bar p span{font-variant-numeric:tabular-nums}
.quiet{color:var(--soft)}
small{color:var(--soft);font-size:.8125rem;font-weight:400}
code{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"Liberation Mono",monospace;font-size:.8125em;
overflow-wrap:anywhere}
table{border-collapse:collapse;width:100%;font-size:.9375rem;line-height:1.45}
caption{text-align:left;color:var(--soft);font-size:.875rem;padding:0 0 .5rem}
th,td{padding:.5rem .75rem;text-align:right;vertical-align:top;border-bottom:1px solid var(--rule)}
th:first-child,td:first-child{text-align:left;padding-left:0}
th:last-child,td:last-child{padding-right:0}
thead th{font-weight:600;font-size:.8125rem;color:var(--soft);vertical-align:bottom}
tbody th{font-weight:500;overflow-wrap:anywhere}
tbody th small,td small{display:block}
tfoot th,tfoot td{font-weight:650;border-bottom:0}
th.long{overflow-wrap:anywhere}
td.text,th.text{text-align:left;overflow-wrap:anywhere}
.key{display:inline-block;width:.8em;height:.8em;border-radius:2px;margin-right:.55em;vertical-align:-.06em}
.amounts td{white-space:nowrap}
.amounts th small{margin-left:1.35em}
.bars{display:grid;gap:1rem;margin:0 0 1.75rem}
.bar p{max-width:none;display:flex;flex-wrap:wrap;justify-content:space-between;gap:0 1rem;margin:0 0 .3rem;
font-size:.9375rem}
.bar p b{font-weight:600;overflow-wrap:break-word;max-width:100%}
.bar p span{color:var(--soft);text-align:right}
.part{stroke:var(--surface);stroke-width:1.5;outline:none}
.part.hot,.part:focus-visible{stroke:var(--ink);stroke-width:2.5}
.hatch .base{fill:var(--hue)}.hatch .gap{fill:var(--surface);opacity:.72}
.hatch.light .base{fill:var(--hue);opacity:.18}.hatch.light .gap{fill:var(--hue);opacity:.9}
.tick{font-size:12px;fill:var(--soft);font-variant-numeric:tabular-nums}
.halo{paint-order:stroke;stroke:var(--surface);stroke-width:4px;stroke-linejoin:round}
.grid{stroke:var(--rule)}.ground{stroke:var(--soft)}
.area{stroke:none}.line{fill:none;stroke-width:1.75;vector-effect:non-scaling-stroke}
.s-busy{fill:var(--blue)}
.s-running{fill:var(--pale);stroke:var(--blue);stroke-width:1;vector-effect:non-scaling-stroke}
.s-pending{fill:url(#pt-amber-w) var(--amber)}
.line.s-target{stroke:var(--purple)}.line.s-needed{stroke:var(--pink);stroke-dasharray:2 4}
.line.s-recorded{stroke:var(--black);stroke-width:2}
.off{display:none}
.legend{display:flex;flex-wrap:wrap;gap:.35rem 1.1rem;margin:0 0 .9rem}
.legend button,.legend span{display:inline-flex;align-items:center;font:inherit;font-size:.875rem;color:var(--ink);
background:none;
border:0;padding:.2rem 0}
.legend small{margin-left:.5em}
.legend .key{margin-right:.45em;flex:none}
.k-busy{background:var(--blue)}.k-running{background:var(--pale)}
.k-pending{background:repeating-linear-gradient(45deg,var(--amber) 0 1.5px,var(--surface) 1.5px 4px);
box-shadow:inset 0 0 0 1px var(--amber)}
.k-target,.k-recorded,.k-needed{height:3px;border-radius:0;width:1.2em;vertical-align:.25em}
.k-target{background:var(--purple)}.k-recorded{background:var(--black)}
.k-needed{background:repeating-linear-gradient(90deg,var(--pink) 0 3px,transparent 3px 6px)}
.mark path{fill:var(--hue);stroke:var(--hue);stroke-width:1}
.mark{outline:none;--hue:var(--ink)}
.m-up{--hue:var(--purple)}.m-down{--hue:var(--teal)}.m-release{--hue:var(--slate)}.m-even{--hue:var(--ink)}
.m-release path{fill:none;stroke-width:2}
.m-even path{fill:var(--surface);stroke-width:1.75}
.mark.hot path,.mark:focus-visible path{stroke:var(--link);stroke-width:3.5}
.marks{display:flex;flex-wrap:wrap;align-items:center;gap:.2rem 1.2rem;margin:.35rem 0 0;font-size:.8125rem;
color:var(--soft)}
.marks span{display:inline-flex;align-items:center;gap:.4em}
.marks b{font-weight:600;color:var(--ink)}
.p-other{--hue:var(--grey)}.p-front{--hue:var(--blue)}.p-static{--hue:var(--amber)}.p-recorded{--hue:var(--black)}
.p-simulated{--hue:var(--black)}.p-simulated path{fill:var(--surface);stroke-width:2}
.p-recommended{--hue:var(--good)}
.edge{stroke:var(--blue);stroke-width:1.5;stroke-dasharray:4 4}
.label{font-size:12.5px;fill:var(--ink);paint-order:stroke;stroke:var(--surface);stroke-width:4px;stroke-linejoin:round}
.label.p-recommended,.label.p-recorded,.label.p-simulated{font-weight:650}
.rail{stroke:var(--rule);fill:var(--rule)}.stage{fill:var(--blue)}
.record{stroke:var(--soft)}
.whisker{--hue:var(--slate)}.whisker.less{--hue:var(--good)}.whisker.more{--hue:var(--bad)}
.whisker .range{stroke:var(--hue);stroke-width:3;stroke-linecap:round;opacity:.55}.whisker circle{fill:var(--hue)}
.whisker.alike circle{fill:var(--surface);stroke:var(--hue);stroke-width:2}
.less b{color:var(--good)}.more b{color:var(--bad)}
.note{color:var(--soft);font-size:.8125rem;margin:.5rem 0 0;max-width:46rem}
.figures{display:grid;grid-template-columns:repeat(auto-fit,minmax(9.5rem,1fr));gap:1.25rem 1.5rem;margin:0 0 1.75rem;
padding:0}
.figures div{border-top:2px solid var(--ink);padding-top:.6rem}
.figures dt{font-size:.8125rem;color:var(--soft)}
.figures dd{margin:0;font-size:1.625rem;line-height:1.25;font-weight:640;letter-spacing:-.02em;
font-variant-numeric:tabular-nums}
.figures dd+dd{font-size:.8125rem;font-weight:400;letter-spacing:0;color:var(--soft);line-height:1.45;margin-top:.15rem}
.answers{display:grid;grid-template-columns:9.5rem 1fr;gap:.75rem 1.5rem;margin:0}
.answers dt{font-weight:600}
.answers dd{margin:0;max-width:46rem;overflow-wrap:anywhere}
.badge{display:inline-block;font-size:.8125rem;font-weight:600;border:1px solid currentColor;border-radius:99px;
padding:.05rem .6rem;margin-right:.6rem;white-space:nowrap}
.t-close{color:var(--good)}.t-fair{color:var(--link)}.t-rough{color:var(--warn)}.t-misfit{color:var(--bad)}
.warning{border-left:3px solid var(--bad);padding:.1rem 0 .1rem 1rem;margin:0 0 1.25rem}
.amounts th:first-child{width:36%}
.amounts.wide th:first-child{width:30%}
.stages td.when{width:28%;vertical-align:middle}
.stages th:first-child{width:44%}
.variants th:first-child{width:34%}
.variants small{white-space:nowrap}
.variants .whisker{margin-top:.35rem}
tr.picked{background:color-mix(in srgb,var(--good) 8%,transparent)}
.tag{display:inline-block;font-size:.75rem;font-weight:600;color:var(--good);margin-left:.5em}
.conf{display:block;margin-top:.15rem;color:var(--soft);font-weight:400;font-size:.875rem;line-height:1.4}
.defs{position:absolute;width:0;height:0;overflow:hidden}
"""
    + "".join(f".hatch.{hue}{{--hue:var(--{hue})}}" for hue in dict(HATCHED))
    + _parts()
)

PAGE: Final = """
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%;text-size-adjust:100%;scroll-padding-top:1rem}
body{margin:0;background:var(--ground);color:var(--ink);
font:1rem/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif}
a{color:var(--link);text-underline-offset:.15em}
:focus-visible{outline:2px solid var(--link);outline-offset:3px;border-radius:3px}
.skip{position:absolute;left:-999rem;top:.5rem;background:var(--surface);padding:.5rem 1rem;z-index:3}
.skip:focus{left:.5rem}
.hidden{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);white-space:nowrap}
header,main,footer{max-width:66rem;margin:0 auto;padding:0 1.5rem}
header{padding-top:1.75rem;display:grid;grid-template-columns:1fr auto;gap:0 1rem}
.brand{margin:0;color:var(--soft);font-size:.875rem}
.brand b{color:var(--ink);font-weight:650}
h1{grid-column:1/-1;font-size:clamp(1.5rem,1.1rem + 2vw,2.125rem);line-height:1.2;letter-spacing:-.015em;
margin:.6rem 0 .3rem;
font-weight:680;overflow-wrap:anywhere}
header .about{max-width:none;grid-column:1/-1;margin:0;color:var(--soft);font-size:.9375rem;overflow-wrap:anywhere}
#theme,.copy{font:inherit;font-size:.8125rem;color:var(--ink);background:var(--surface);border:1px solid var(--rule);
border-radius:6px;padding:.3rem .7rem;min-height:28px}
button{cursor:pointer}
#theme:hover,.copy:hover{border-color:var(--soft)}
.legend button[aria-pressed=false]{color:var(--soft);text-decoration:line-through}
main>section{background:var(--surface);border:1px solid var(--rule);border-radius:12px;padding:1.75rem 2rem 2rem;
margin:1.25rem 0}
h2{font-size:1.3125rem;line-height:1.3;letter-spacing:-.01em;margin:0 0 .35rem;font-weight:660}
h3{font-size:1rem;margin:2.25rem 0 .75rem;font-weight:640}
.lead{font-size:1.0625rem;margin:0 0 1.5rem;max-width:48rem;overflow-wrap:anywhere}
p{max-width:48rem}
.plot{position:relative}
.cursor{position:absolute;left:0;right:0;top:0;height:260px;touch-action:pan-y;cursor:crosshair}
.hair{position:absolute;top:0;bottom:0;width:1px;background:var(--ink);opacity:0}
.hair.on{opacity:.7}
#tip{position:fixed;z-index:4;max-width:min(26rem,calc(100vw - 16px));background:var(--ink);color:var(--surface);
font-size:.8125rem;line-height:1.5;padding:.5rem .75rem;border-radius:7px;white-space:pre-line;pointer-events:none;
font-variant-numeric:tabular-nums;overflow-wrap:anywhere;box-shadow:0 4px 18px rgba(0,0,0,.22)}
pre code{font-size:inherit}
details{border-top:1px solid var(--rule);margin-top:1.25rem;padding-top:.25rem}
details+details{margin-top:0}
summary{cursor:pointer;padding:.6rem 0;font-weight:600;font-size:.9375rem;overflow-wrap:anywhere}
summary small{font-weight:400}
details[open]{padding-bottom:1rem}
pre{background:var(--wash);border-radius:8px;padding:.9rem 1.1rem;margin:.4rem 0 0;white-space:pre-wrap;
overflow-wrap:anywhere;
font:.8125rem/1.6 ui-monospace,SFMono-Regular,Menlo,Consolas,"Liberation Mono",monospace}
.paste{display:flex;justify-content:space-between;align-items:center;gap:1rem;margin:1.25rem 0 0;font-size:.875rem;
font-weight:600}
.advice{border:1px solid var(--good);border-radius:10px;padding:1.1rem 1.4rem 1.3rem;margin:0 0 1.75rem}
.advice h3{margin-top:0}
ul.plain{padding:0;margin:0;list-style:none}
ul.plain li{padding:.5rem 0;border-bottom:1px solid var(--rule);max-width:48rem;overflow-wrap:anywhere}
footer{color:var(--soft);font-size:.8125rem;padding-bottom:3rem;overflow-wrap:anywhere}
@media (max-width:44rem){
header,main,footer{padding-left:1rem;padding-right:1rem}
main>section{padding:1.25rem 1rem 1.5rem;border-radius:10px}
.answers{grid-template-columns:1fr;gap:.1rem}
.answers dd{margin-bottom:.9rem}
.figures{grid-template-columns:1fr 1fr}
.legend small{display:none}
table,caption,tbody,tfoot,td,tbody th,tfoot th{display:block;width:auto}
thead{display:none}
tr{display:grid;grid-template-columns:repeat(3,minmax(0,1fr));gap:.1rem .75rem;padding:.7rem 0;
border-bottom:1px solid var(--rule)}
th,td,th:first-child,td:first-child{padding:0;border:0;text-align:left}
tbody th:first-child,tfoot th:first-child{grid-column:1/-1;width:auto;padding-bottom:.2rem}
td[data-label]::before{content:attr(data-label);display:block;color:var(--soft);font-size:.8125rem;
overflow-wrap:anywhere}
.amounts th:first-child,.amounts.wide th:first-child,.stages th:first-child,.variants th:first-child{width:auto}
.variants tr{grid-template-columns:repeat(2,minmax(0,1fr));gap:.6rem 1rem}
.stages .when{grid-column:1/-1;padding:.4rem 0 .15rem}
.stages td.when{width:auto}
.decisions tr{display:block}
.amounts tr{display:block}
.amounts td[data-label]{display:flex;justify-content:space-between;align-items:baseline;gap:.6rem}
.amounts td[data-label]::before{flex:1;min-width:0;white-space:normal;font-size:.875rem}
.amounts td small{width:3rem;text-align:right}
tr.picked{box-shadow:-.5rem 0 color-mix(in srgb,var(--good) 8%,transparent),.5rem 0 color-mix(in srgb,var(--good) 8%,
transparent)}
.broad{display:none}
}
@media (min-width:44.01rem){.narrow{display:none}}
@media (prefers-reduced-motion:no-preference){html{scroll-behavior:smooth}}
@media (forced-colors:active){.part,.area,.mark path,.whisker circle,.key{forced-color-adjust:none}}
@page{margin:14mm 13mm}
@media print{
*{-webkit-print-color-adjust:exact;print-color-adjust:exact}
html{font-size:11.5px}
body{background:none}
header,main,footer{max-width:none;padding-left:0;padding-right:0}
header{padding-top:0}
main>section{border:0;border-radius:0;padding:0;margin:1.4rem 0 0}
main>section:first-of-type{margin-top:.9rem}
#theme,.copy,.skip,#tip,.cursor{display:none}
h2,h3,caption,.legend,.lead{break-after:avoid}
tr,.chart,.plot,.bar,pre,.advice,.figures{break-inside:avoid}
a{color:inherit;text-decoration:none}
details:not([open]),.unfold:not(:has(details[open])){display:none}
.figures{grid-template-columns:repeat(5,1fr)}
}
"""


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
