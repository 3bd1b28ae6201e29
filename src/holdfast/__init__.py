"""Byzantine-resilient aggregation: a vector provably close to the honest mean, while up to f workers lie.

>>> import numpy as np
>>> from holdfast import MeanwO
>>> MeanwO(f=1)(np.array([[1.0, 1.0], [1.1, 0.9], [0.9, 1.1], [1e30, -5.0]]))
array([1., 1.])
"""

from holdfast.decision import Decision
from holdfast.errors import BadInput, BrokenRule, TooManyFaults
from holdfast.rules import (
    ARC,
    CAF,
    CGE,
    CWM,
    CWTM,
    MDA,
    NNM,
    SMEA,
    Average,
    Bucketing,
    Bulyan,
    CenteredClipping,
    CenterExact,
    CenterwO,
    Clip,
    DnC,
    GeometricMedian,
    Krum,
    MeaMed,
    MeanExact,
    MeanwO,
    Medoid,
    MoNNA,
    MultiKrum,
    NearestTo,
    NormBoundedMean,
    OuterCenter,
    OuterMean,
    StreamCenterwO,
)
from holdfast.spec import parse
from holdfast.twophase import Ballot, Cent2P, Mean2P, Numeric, TwoPhase

__version__ = "0.1.0"

__all__ = [
    "ARC",
    "CAF",
    "CGE",
    "CWM",
    "CWTM",
    "MDA",
    "NNM",
    "SMEA",
    "Average",
    "BadInput",
    "Ballot",
    "BrokenRule",
    "Bucketing",
    "Bulyan",
    "Cent2P",
    "CenterExact",
    "CenteredClipping",
    "CenterwO",
    "Clip",
    "Decision",
    "DnC",
    "GeometricMedian",
    "Krum",
    "MeaMed",
    "Mean2P",
    "MeanExact",
    "MeanwO",
    "Medoid",
    "MoNNA",
    "MultiKrum",
    "NearestTo",
    "NormBoundedMean",
    "Numeric",
    "OuterCenter",
    "OuterMean",
    "StreamCenterwO",
    "TooManyFaults",
    "TwoPhase",
    "parse",
]
