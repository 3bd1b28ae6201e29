"""Bounds on the gradients of a training: never exceeded by federations of quadratics under attack, and their edges."""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np
import pytest

from holdfast import BadInput, Ballot, MeanExact, MeanwO, Numeric, OuterMean, TwoPhase
from holdfast.guarantees.bounds import bounds
from holdfast.guarantees.convergence import Descent, bound_gradients
from holdfast.guarantees.rates import Setting

FEDERATIONS = int(os.environ.get("HOLDFAST_FEDERATIONS", "120"))
KINDS = ("sneak", "siege", "jump", "flip", "far apart", "random")


def liars(kind: str, honest: np.ndarray, f: int, tilt: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """What f Byzantine workers send who know everything."""
    mean, spread = honest.mean(axis=0), honest.std(axis=0)
    towards = -tilt[: len(honest) - f].mean(axis=0)
    match kind:
        case "sneak":
            return np.tile(mean - spread * np.sign(mean), (f, 1))
        case "siege":
            return mean - 20 * spread * rng.choice([-1, 1], (f, len(mean))) * rng.uniform(1, 2, (f, 1))
        case "jump":
            return mean - np.outer(np.arange(1, f + 1), towards) * rng.uniform(1, 60)
        case "flip":
            return -np.tile(mean, (f, 1)) + 0.05 * rng.standard_normal((f, len(mean)))
        case "far apart":
            sides = 1e3 * np.array([(-1) ** j * (j + 1) for j in range(f)])
            return np.outer(sides, towards + 1e-3) - rng.uniform(0, 30) * towards
    return mean + rng.standard_normal((f, len(mean))) * 10.0 ** rng.uniform(-1, 2)


def federation(seed: int) -> tuple[float, float]:
    """(Res_T, Theorem A's bound) of one random federation: quadratics with a common Hessian, exact gradients."""
    rng = np.random.default_rng(seed)
    f = int(rng.integers(1, 4))
    n, d, T = int(rng.integers(2 * f + 1, 2 * f + 6)), int(rng.integers(1, 5)), int(rng.integers(1, 9))
    h = n - f
    hessian = rng.uniform(0.05, 1.0, d)
    tilt = rng.standard_normal((h, d)) * 10.0 ** rng.uniform(-2, 1)
    tilt -= tilt.mean(axis=0)
    step, c = float(rng.uniform(0.05, 1.0)), float(rng.choice([0.01, 0.05, 0.25, 1.0]))
    numeric = bool(rng.integers(2))
    rule = TwoPhase(
        (MeanExact if rng.integers(2) else MeanwO)(f), OuterMean(f), (Numeric if numeric else Ballot)(proximal=c)
    )
    at = rng.standard_normal(d) * 10.0 ** rng.uniform(-2, 1)
    start, squares, kind = 0.5 * float(hessian @ at**2), [], KINDS[seed % len(KINDS)]
    for _ in range(T):
        squares.append(float(np.square(hessian * at).sum()))
        honest = hessian * at + tilt
        both = rule.propose(np.vstack([honest, liars(kind, honest, f, tilt, rng)]))
        models = [at - step * one.value for one in (both.inner, both.outer)]
        losses = [[0.5 * float(hessian @ m**2) + float(a @ m) for m in models] for a in tilt]
        better = 0.5 * float(hessian @ models[1] ** 2) < 0.5 * float(hessian @ models[0] ** 2)
        lie = [0.0, 1e9] if better else [1e9, 0.0]  # for the model that is worse
        winner = rule.elect(both, [*enumerate(losses), *((h + i, lie) for i in range(f))], step=step)
        at = models[winner.name == "outer"]
    G = math.sqrt(float(np.square(tilt).sum()) / h)
    kappa = bounds(rule.inner, n)["kappa"].ours
    assert kappa is not None
    setting = Setting(n=n, f=f, T=T, sigma=0.0, G=G, L=float(hessian.max()))
    election: Any = "numeric" if numeric else "ballot"
    descent = Descent(step, start, kappa.value, election=election, proximal=c)
    return float(np.mean(squares)), bound_gradients(setting, descent).total


def test_theorem_a_is_never_exceeded() -> None:
    shares = [found / bound for found, bound in map(federation, range(FEDERATIONS))]
    assert max(shares) <= 1 + 1e-9
    assert max(shares) > 0.1  # the searches are not idle


def test_one_phase_pays_for_no_vote() -> None:
    setting = Setting(n=11, f=3, T=100, sigma=1.0, G=1.0)
    alone = bound_gradients(setting, Descent(step=0.5, start=1.0, kappa=2.0))
    voted = bound_gradients(setting, Descent(step=0.5, start=1.0, kappa=2.0, election="numeric", proximal=0.25))
    assert alone.vote == 0.0
    assert (voted.start, voted.aggregation) == (alone.start, alone.aggregation)
    assert voted.vote == pytest.approx(3 / 5 / 0.5)  # κ_E G²/(2c), with all of a worker's data


def test_a_vote_on_few_samples_has_a_floor() -> None:
    setting, words = Setting(n=11, f=3, T=100, sigma=1.0), {"step": 0.5, "start": 1.0, "kappa": 2.0}
    few, many = (
        bound_gradients(setting, Descent(**words, election="numeric", proximal=0.25, vote_batch=b)).vote  # type: ignore[arg-type]
        for b in (10, 1000)
    )
    assert few == pytest.approx(100 * many)
    assert bound_gradients(setting, Descent(**words, election="numeric", proximal=0.25)).vote == 0.0  # type: ignore[arg-type]


def test_momentum_takes_theorem_b_with_its_conditions() -> None:
    setting = Setting(n=11, f=3, T=100, sigma=1.0, G=1.0)
    small = Descent(step=0.025, start=1.0, kappa=2.0, momentum=0.9, election="ballot", proximal=0.25)
    assert bound_gradients(setting, small).theorem == "B"
    with pytest.raises(BadInput, match=r"the theorem needs at most 0\.25, and proximal at least 0\.25"):
        bound_gradients(
            setting, Descent(step=0.025, start=1.0, kappa=2.0, momentum=0.9, election="ballot", proximal=0.1)
        )
    with pytest.raises(BadInput, match=r"needs step ≤ 1/L"):
        bound_gradients(setting, Descent(step=1.5, start=1.0, kappa=2.0))


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"step": 0.0}, r"^Descent was given step = 0\.0; step is a finite number, above 0\.$"),
        ({"momentum": 1.0}, r"^Descent was given momentum = 1\.0; momentum is below 1\.$"),
        ({"election": "coin"}, r"^Descent was given election = 'coin'; it is 'none', 'numeric' or 'ballot'\.$"),
        ({"election": "numeric"}, r"without a proximal margin, with which no bound holds; pass proximal=0\.05\.$"),
    ],
)
def test_what_is_out_of_range_is_refused(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence):
        Descent(**{"step": 0.1, "start": 1.0, "kappa": 1.0} | given)
