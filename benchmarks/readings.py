"""Other libraries' readings of rules, for coming_from.py: krum, TorchJD, ByzPy, and ByzFL without its random start.

None of them needs more than torch for its aggregators, whatever it asks for when it is installed:
pip install --no-deps --ignore-requires-python krum==0.9.1 torchjd==0.18.0 byzpy==0.1.4
"""

from __future__ import annotations

import importlib
import sys
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

Lines = tuple[tuple[str, str, str], ...]

KRUM: Lines = (
    ("Average.aggregate(X)", "Average()(X)", ""),
    ("Median.aggregate(X)", "CWM()(X)", ""),
    ("TrimmedMean.aggregate(X, f=f)", "CWTM(f)(X)", ""),
    ("Krum.aggregate(X, n=n, f=few)", "Krum(few)(X)", ""),
    (
        "MultiKrum.aggregate(X, n=n, f=few)",
        "MultiKrum(few, m=n - 2 * few - 3)(X)",
        "`MultiKrum(f)` averages n - f",
    ),
    (
        "Bulyan.aggregate(X, n=n, f=few)",
        "Bulyan(few, picks='means')(X)",
        "`Bulyan(f)` picks vectors, as in the paper",
    ),
    ("Brute.aggregate(X, n=n, f=f)", "MDA(f)(X)", ""),
    ("Brute.aggregate(T, n=n, f=f)", "MDA(f)(T)", "T = X, rounded to whole numbers: many sets tie"),
    ("Medoid.aggregate(X, n=n, f=f)", "Medoid()(X)", "with d = 1 two sums may be equal"),
    ("Aksel.aggregate(X, f=f)", "NearestTo(CWM(), f=f)(X)", ""),
    (
        "GeometricMedian.aggregate(X, n=n, f=f, nu=0.1, tol=0.0, max_iter=3)",
        "GeometricMedian(iterations=3, floor=0.1)(X)",
        "theirs also stops at a step of length `tol`",
    ),
)
TORCHJD: Lines = (
    ("TrimmedMean(trim_number=f)(X)", "CWTM(f)(X)", ""),
    (
        "Krum(n_byzantine=few)(X)",
        "Krum(few, squared=False)(X)",
        "adds up plain distances; with d = 1 two scores may be equal",
    ),
    (
        "Krum(n_byzantine=many)(X)",
        "Krum(many, squared=False, needs='f+3')(X)",
        "takes n ≥ f + 3; many is n - 4 to n - 6",
    ),
    (
        "Krum(n_byzantine=n - 3)(X)",
        "Krum(n - 3, squared=False, needs='f+3')(X)",
        "the two vectors nearest to each other always tie; ours takes the first, theirs either",
    ),
    (
        "Krum(n_byzantine=n - 3, n_selected=2)(X)",
        "MultiKrum(n - 3, m=2, squared=False, needs='f+3')(X)",
        "the same two vectors",
    ),
)
BYZPY: Lines = (
    (
        "MeanOfMedians(f=f).aggregate(list(X))",
        "MeaMed(f, lower=True)(X)",
        "`MeaMed(f)` has the mean of two middle values",
    ),
)
LIBRARIES: dict[str, tuple[Lines, str, str]] = {
    "krum": (
        KRUM,
        "krum.primitives.aggregators.{}",
        "average median trimmed_mean krum multikrum bulyan brute medoid aksel geometric_median",
    ),
    "torchjd": (TORCHJD, "torchjd.{}", "aggregation"),
    "byzpy": (BYZPY, "byzpy.aggregators.coordinate_wise.{}", "mean_of_medians"),
}
"""For each library: what is compared, and the modules that have its rules."""


def names_of(library: str) -> dict[str, Any]:
    """The rules of a library by their names."""
    _, place, modules = LIBRARIES[library]
    found: dict[str, Any] = {}
    for module in modules.split():
        try:
            found |= vars(importlib.import_module(place.format(module)))
        except ImportError as error:
            how = f"pip install --no-deps --ignore-requires-python {library}"
            raise SystemExit(f"{library} is missing ({error}); install it by: {how}") from error
    return found


def exact(call: Any, X: Any) -> Any:
    """What a rule of ByzFL answers if its power iteration begins at the eigenvector that it looks for."""
    with patch.object(np.random, "randn", _eigenvector), patch.object(torch, "randn", _eigenvector):
        return call(X)


def _eigenvector(*_: Any, **__: Any) -> Any:
    """The direction of largest variance of what the caller is about to iterate on: its rows, and their weights."""
    given = sys._getframe(1).f_locals
    rows = given["diffs"]
    c = given.get("c", np.ones(len(rows)))
    seen = np.sqrt(np.asarray(c, float))[:, None] * np.asarray(rows, float)
    first = np.linalg.svd(seen, full_matrices=False)[2][0]
    return first if isinstance(rows, np.ndarray) else torch.from_numpy(first).to(rows.dtype)
