"""Everything together: a random chain, a start, NaN rows, any scale, any library, against the oracle."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast import (
    ARC,
    CGE,
    CWM,
    CWTM,
    NNM,
    Average,
    BadInput,
    Bucketing,
    Bulyan,
    CenteredClipping,
    CenterwO,
    Clip,
    GeometricMedian,
    Krum,
    MeaMed,
    MeanwO,
    MultiKrum,
    NearestTo,
    NormBoundedMean,
    OuterCenter,
    OuterMean,
    parse,
)
from holdfast.testing.rounds import with_bad_rows
from tests.test_rules import agrees

F = st.integers(0, 3)
LENGTH = st.floats(0.1, 5.0)


def last_stages() -> st.SearchStrategy[Any]:
    return st.one_of(
        st.builds(Average),
        *(st.builds(rule, F) for rule in (CenterwO, MeanwO, OuterCenter, OuterMean, CWTM, MeaMed, CGE, Bulyan)),
        st.builds(lambda f: NearestTo(CWTM(f)), F),
        st.builds(MeanwO, F, st.integers(1, 4)),
        st.builds(CWM, st.booleans()),
        st.builds(GeometricMedian),
        st.builds(Krum, F, st.sampled_from(["n-f-2", "n-f-1"])),
        st.builds(MultiKrum, F, st.none() | st.integers(1, 4)),
        st.builds(CenteredClipping, LENGTH, st.integers(1, 4)),
        st.builds(NormBoundedMean, LENGTH),
    )


def chains() -> st.SearchStrategy[Any]:
    first = st.one_of(
        st.builds(NNM, F), st.builds(ARC, F), st.builds(Bucketing, st.integers(1, 3)), st.builds(Clip, LENGTH)
    )
    return st.builds(lambda stages, last: _joined([*stages, last]), st.lists(first, max_size=2), last_stages())


def _joined(stages: list[Any]) -> Any:
    rule = stages[0]
    for stage in stages[1:]:
        rule = rule >> stage
    return rule


def sized(rule: Any, size: float) -> Any:
    """The rule with its lengths in units of the cloud."""
    parts = getattr(rule, "parts", (rule,))
    return _joined([part.scaled(size) for part in parts])


def as_given(X: np.ndarray, library: str) -> Any:
    match library:
        case "torch":
            return torch.from_numpy(X)
        case "jax":
            return jnp.asarray(X)
        case "rows":
            return [torch.from_numpy(row) for row in X]
        case "dicts":
            return [{"b": row[:1], "a": row[1:]} for row in X]
    return X


def flat(got: Any) -> np.ndarray:
    return np.concatenate([got["b"], got["a"]]) if isinstance(got, dict) else np.asarray(got)


def expected(rule: Any, left: int, dropped: int) -> Any:
    """The rule after dropping: f as it is if that is enough, else lowered by as little as it takes; None: refused."""
    most = rule.most_dropped(left + dropped)
    if most is not None and dropped > most:
        return None
    for by in range(dropped + 1):
        if rule.lowered(by).least() <= left:
            return rule.lowered(by)
    return None


@given(
    rule=chains(),
    seed=st.integers(0, 2**32 - 1),
    exponent=st.integers(-170, 150),
    library=st.sampled_from(["numpy", "torch", "jax", "rows", "dicts"]),
    single=st.booleans(),
    bad=st.integers(0, 3),
    with_start=st.booleans(),
)
@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_everything_together(
    rule: Any, seed: int, exponent: int, library: str, single: bool, bad: int, with_start: bool
) -> None:
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(1, 14)), int(rng.integers(2, 9))
    single = single or library == "jax"
    size = float(10.0 ** (np.clip(exponent, -25, 25) if single else exponent))
    dtype = np.float32 if single else np.float64
    rule = sized(rule, size)
    assert parse(repr(rule)) == rule
    X = (rng.standard_normal((n, d)) * size).astype(dtype)
    X, rows = with_bad_rows(rng, X, min(bad, n))
    start = (rng.standard_normal(d) * size).astype(dtype) if with_start else None
    uses = start is not None and any("start" in stage.anchors for stage in rule.stages())
    call: dict[str, Any] = {"rng": np.random.default_rng(3)} if rule.random else {}
    if uses and start is not None:
        call["start"] = as_given(start[None], library)[0]
    settled = expected(rule, n - len(rows), len(rows))
    if settled is None:
        try:
            rule(as_given(X, library), **call)
        except BadInput:
            return
        raise AssertionError("was not refused")
    decision = rule.decide(as_given(X, library), **call)
    assert decision.rule == settled
    assert sorted(decision.dropped) == sorted(map(int, rows))
    left = np.delete(X, rows, axis=0).astype(np.float64)
    told = {"start": start} if uses else {}
    if rule.random:
        told["seed"] = 3  # type: ignore[assignment]
    assert agrees(settled, left, flat(decision.value).astype(np.float64), dtype, **told)
