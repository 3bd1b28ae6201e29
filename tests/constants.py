"""The proved constants a second time, from their formulas; and the rounds that attain them."""

from __future__ import annotations

import itertools
from math import sqrt
from typing import Any

import numpy as np

from holdfast import CWM, CWTM, CenterwO, GeometricMedian, Krum, MeanwO


def kappa(rule: Any, n: int) -> float:
    """Proved bounds on κ, f from the rule; for CWM and GeometricMedian, at f = (n-1)//2."""
    f = getattr(rule, "f", (n - 1) // 2)
    h, q = n - f, n - 2 * f
    match rule:
        case MeanwO():
            return f / q * (1 + min(sqrt(2), sqrt(h / q))) ** 2
        case CenterwO():
            return ((2 * f - min(1, f / q)) / sqrt(max(1, h - 1)) + sqrt(f / q)) ** 2
        case CWTM():
            return f / q
        case CWM():
            return (n - 1) / (n + 1 - 2 * f) if n % 2 else (n - 2) / (n + 2 - 2 * f)
        case GeometricMedian():
            return n / q
        case Krum():
            assert rule.others == "n-f-1"
            return (sqrt(2 * h) + sqrt(f)) ** 2 / q
    raise KeyError(rule)


def lam(rule: Any, n: int) -> float:
    """Proved bounds on λ."""
    f = rule.f
    h, q = n - f, n - 2 * f
    if isinstance(rule, CenterwO):
        return max(0, 3 * f - 1) / h
    g = min(sqrt(2), sqrt(h / q))
    return min(2 * f / h * (1 + sqrt((h - 1) / q)), g * sqrt(f * (h - 1) / (2 * h * q)) + f / h)


def ratios(answer: np.ndarray, X: np.ndarray, f: int) -> tuple[float, float]:
    """The worst λ and κ of an answer over every set of n - f vectors that might be the honest one."""
    worst = [0.0, 0.0]
    for S in itertools.combinations(range(len(X)), len(X) - f):
        H = X[list(S)]
        off = float(np.linalg.norm(answer - H.mean(axis=0)))
        diameter = max((float(np.linalg.norm(a - b)) for a, b in itertools.combinations(H, 2)), default=0.0)
        sigma = sqrt(float(((H - H.mean(axis=0)) ** 2).sum()) / len(H))
        tiny = 1e-9 * float(np.abs(X).max())
        for at, unit in enumerate((diameter, sigma)):
            worst[at] = max(worst[at], (off / unit if unit > tiny else 0.0 if off <= tiny else np.inf))
    return worst[0], worst[1] ** 2


def tight_center(n: int, f: int, eps: float = 1e-6) -> np.ndarray:
    """On a line: the last n - f are honest, and CenterwO errs by (3f - 1)/(n - f) diameters."""
    q = n - 2 * f
    return np.array([[0.0]] + [[-1.0]] * (f - 1) + [[1.0]] * q + [[2.0 + eps]] * f)


def tight_mean(n: int, f: int) -> np.ndarray:
    """On a line, liars first: MeanwO errs by κ = 4f/(n - 2f)."""
    return np.array([[-1.0]] * f + [[0.0]] * (n - 2 * f) + [[1.0]] * f)


def tight_trimmed(n: int, f: int) -> np.ndarray:
    """On a line, liars first: CWTM errs by κ = f/(n - 2f)."""
    return np.array([[-9.0]] * f + [[0.0]] * (n - 2 * f) + [[1.0]] * f)


def tight_median(n: int, f: int) -> np.ndarray:
    """On a line, liars first, n odd: CWM errs by κ = (n - 1)/(n + 1 - 2f)."""
    p = (n + 1) // 2 - f
    return np.array([[-9.0]] * f + [[0.0]] * p + [[1.0]] * (n - f - p))
