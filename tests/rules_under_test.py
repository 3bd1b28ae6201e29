"""Every rule and form of this package, once; f = 2 where there is one."""

from __future__ import annotations

from typing import Any

import numpy as np

from holdfast import (
    ARC,
    CAF,
    CGE,
    CWM,
    CWTM,
    MDA,
    NNM,
    PTM,
    SMEA,
    Average,
    Bucketing,
    Bulyan,
    CenteredClipping,
    CenterExact,
    CenterwO,
    Clip,
    ClippedClustering,
    DnC,
    FLTrust,
    GeometricMedian,
    Huber,
    Krum,
    MeaMed,
    MeanExact,
    MeanwO,
    MedianwO,
    Medoid,
    MoNNA,
    MultiKrum,
    NearestTo,
    NormBoundedMean,
    OuterCenter,
    OuterMean,
)

SINGLE: list[Any] = [
    Average(),
    CenterwO(2),
    MeanwO(2),
    OuterCenter(2),
    OuterMean(2),
    CWM(),
    CWM(lower=True),
    CWTM(2),
    GeometricMedian(),
    GeometricMedian(iterations=1, floor=1e-5),
    GeometricMedian(iterations=7),
    GeometricMedian(iterations=3, floor=0.1, begin="origin"),
    Krum(2),
    Krum(2, others="n-f-1"),
    Krum(2, squared=False),
    Krum(2, squared=False, needs="f+3"),
    MultiKrum(2),
    MultiKrum(2, m=3, others="n-f-1", squared=False),
    CenteredClipping(1.0),
    CenteredClipping(0.3, iterations=4),
    NormBoundedMean(1.5),
    Huber(0.8),
    FLTrust(pivot=0),
    ClippedClustering(),
    ClippedClustering(tau=0.7),
    MeanwO(2, refine=5),
    NearestTo(CWTM(2)),
    NearestTo(MeaMed(2)),
    NearestTo(GeometricMedian(), f=2),
    NearestTo(Krum(2)),
    PTM(2),
    MedianwO(2),
    MeaMed(2),
    MeaMed(2, lower=True),
    Medoid(),
    Bulyan(2),
    Bulyan(2, picks="at once"),
    Bulyan(2, picks="means"),
    CGE(2),
    MoNNA(2, pivot=0),
    CAF(2),
    CAF(2, over="all"),
    DnC(2),
    DnC(2, filter=1.5),
]
EXACT: list[Any] = [MDA(2), SMEA(2), MeanExact(2), CenterExact(2)]
CHAINS: list[Any] = [
    NNM(2) >> Krum(2),
    NNM(2) >> CWTM(2),
    NNM(2) >> GeometricMedian(),
    NNM(2) >> MeanwO(2),
    Bucketing(2) >> CWM(),
    Bucketing(2) >> GeometricMedian(),
    Clip(1.0) >> MeanwO(2),
    Clip(1.0) >> NNM(2) >> CWM(),
    Clip(0.7) >> CenteredClipping(0.4, 2),
    ARC(2) >> CWTM(2),
    ARC(2) >> NNM(2) >> MeanwO(2),
    NNM(2) >> NearestTo(CWTM(2)),
]
RULES = SINGLE + CHAINS
IN_ORDER = (MoNNA, FLTrust, Bulyan)  # a worker by its place; two mutual neighbours always tie

BOUNDED = [r for r in RULES if not isinstance(r, (Average, OuterCenter, OuterMean, NormBoundedMean, CenteredClipping))]


def calls(rule: Any, d: int, seed: int = 5, start: Any = None) -> dict[str, Any]:
    """What the call of a rule needs beside the vectors."""
    needed: dict[str, Any] = {"rng": np.random.default_rng(seed)} if rule.random else {}
    if start is not None and any("start" in stage.anchors for stage in rule.stages()):
        needed["start"] = start
    return needed
