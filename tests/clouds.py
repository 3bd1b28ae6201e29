"""Strategies of Hypothesis that draw the rounds of holdfast.testing.rounds."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from holdfast.testing.rounds import Array, attacked, gaussian, heterogeneous, ties

SCALES = (1e-10, 1e-6, 1e-3, 1.0, 1e3, 1e6, 1e10, 1e20)


@st.composite
def clouds(draw: st.DrawFn, min_n: int = 1, max_n: int = 9, max_d: int = 6) -> Array:
    """Generic arrays of all sizes: drawn by a seed, so that no two distances happen to be equal."""
    n, d, scale = draw(st.integers(min_n, max_n)), draw(st.integers(1, max_d)), draw(st.sampled_from(SCALES))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kind = draw(st.sampled_from(("gaussian", "heterogeneous", "far", "sneak", "siege")))
    if kind == "gaussian":
        return gaussian(rng, n, d, scale)
    if kind == "heterogeneous":
        return heterogeneous(rng, n, d, scale=scale)
    return scale * attacked(rng, n, (n - 1) // 2, d, kind)[0]


@st.composite
def tied_clouds(draw: st.DrawFn, min_n: int = 1, max_n: int = 9, max_d: int = 6) -> Array:
    """Whole numbers with ties and copies, times a power of two, which keeps every tie."""
    n, d, power = draw(st.integers(min_n, max_n)), draw(st.integers(1, max_d)), draw(st.integers(-30, 60))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return np.ldexp(ties(rng, n, d), power)
