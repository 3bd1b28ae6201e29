"""Byzantine-resilient aggregation: a vector provably close to the honest mean, while up to f workers lie.

>>> import numpy as np
>>> from holdfast import MeanwO
>>> MeanwO(f=1)(np.array([[1.0, 1.0], [1.1, 0.9], [0.9, 1.1], [1e30, -5.0]]))
array([1., 1.])
"""

from holdfast.errors import BadInput
from holdfast.rules import (
    CWM,
    CWTM,
    NNM,
    Average,
    Bucketing,
    CenteredClipping,
    CenterwO,
    Clip,
    GeometricMedian,
    Krum,
    MeanwO,
    MultiKrum,
    NormBoundedMean,
    OuterCenter,
    OuterMean,
)
from holdfast.rules.decision import Decision
from holdfast.spec import parse

__version__ = "0.1.0"

__all__ = [
    "CWM",
    "CWTM",
    "NNM",
    "Average",
    "BadInput",
    "Bucketing",
    "CenteredClipping",
    "CenterwO",
    "Clip",
    "Decision",
    "GeometricMedian",
    "Krum",
    "MeanwO",
    "MultiKrum",
    "NormBoundedMean",
    "OuterCenter",
    "OuterMean",
    "parse",
]
