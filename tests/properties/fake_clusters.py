"""What descriptions of both fake clusters are drawn from: delays, rates, times, names."""

from __future__ import annotations

from hypothesis import strategies as st

from podtide.domain.base.randomness import Constant, Delay, Exponential, LogNormal, Quantiles, Uniform
from podtide.domain.fakes.windows import Window

S = 1_000

delays: st.SearchStrategy[Delay] = st.one_of(
    st.builds(Constant, st.integers(0, 20_000)),
    st.tuples(st.integers(0, 9_000), st.integers(0, 9_000)).map(lambda p: Uniform(min(p), max(p))),
    st.builds(Exponential, st.integers(0, 9_000)),
    st.tuples(st.integers(1, 5_000), st.integers(0, 9_000)).map(lambda p: LogNormal(p[0], p[0] + p[1])),
    st.lists(st.integers(0, 9_000), min_size=2, max_size=4).map(
        lambda v: Quantiles(tuple((i * 100 / (len(v) - 1), ms) for i, ms in enumerate(sorted(v))))
    ),
)
rates = st.sampled_from([0.0, 0.0, 1.0, 60.0])
windows = st.one_of(
    st.just(Window()),
    st.builds(Window, st.integers(0, 300_000)),
    st.tuples(st.integers(0, 300), st.integers(1, 200), st.one_of(st.none(), st.integers(0, 200))).map(
        lambda t: Window(t[0] * S, (t[0] + t[1]) * S, None if t[2] is None else (t[1] + t[2]) * S)
    ),
)
names = st.text(st.characters(codec="utf-8"), max_size=12)
