"""Byzantine-resilient aggregation: a vector provably close to the honest mean, while up to f workers lie.

>>> import numpy as np
>>> from holdfast import MeanwO
>>> MeanwO(f=1)(np.array([[1.0, 1.0], [1.1, 0.9], [0.9, 1.1], [1e30, -5.0]]))
array([1., 1.])
"""

import importlib as _importlib
import sys as _sys
import typing as _typing

from holdfast.decision import Decision
from holdfast.elections import Ballot, Numeric
from holdfast.elsewhere import refuse_foreign as _refuse_foreign
from holdfast.errors import BadInput, BrokenRule, HoldfastError, MissingExtra, TooManyFaults, Unwritable
from holdfast.masses import cap
from holdfast.rules import (
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
    StreamCenterwO,
)
from holdfast.spec import parse
from holdfast.twophase import Cent2P, Mean2P, TwoPhase

if _typing.TYPE_CHECKING:
    from holdfast import attacks, data, engines, experiments, guarantees, report, testing, training
    from holdfast.guarantees.profile import profile
    from holdfast.training.run import Run
    from holdfast.training.train import train

__version__ = "0.1.0"

__all__ = [
    "ARC",
    "CAF",
    "CGE",
    "CWM",
    "CWTM",
    "MDA",
    "NNM",
    "PTM",
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
    "ClippedClustering",
    "Decision",
    "DnC",
    "FLTrust",
    "GeometricMedian",
    "HoldfastError",
    "Huber",
    "Krum",
    "MeaMed",
    "Mean2P",
    "MeanExact",
    "MeanwO",
    "MedianwO",
    "Medoid",
    "MissingExtra",
    "MoNNA",
    "MultiKrum",
    "NearestTo",
    "NormBoundedMean",
    "Numeric",
    "OuterCenter",
    "OuterMean",
    "Run",
    "StreamCenterwO",
    "TooManyFaults",
    "TwoPhase",
    "Unwritable",
    "attacks",
    "cap",
    "data",
    "engines",
    "experiments",
    "guarantees",
    "parse",
    "profile",
    "report",
    "testing",
    "train",
    "training",
]

_NAMESPACES = ("attacks", "data", "engines", "experiments", "guarantees", "report", "testing", "training")
_LATE = {"Run": "holdfast.training", "profile": "holdfast.guarantees.profile", "train": "holdfast.training"}


def __getattr__(name: str) -> _typing.Any:
    """Import a namespace, or a name of `_LATE`, when it is first asked for, so that `import holdfast` stays small."""
    if name in _NAMESPACES:
        return _importlib.import_module(f"holdfast.{name}")
    if name in _LATE:
        return getattr(_importlib.import_module(_LATE[name]), name)
    _refuse_foreign(name, _sys._getframe(1))
    raise AttributeError(f"module 'holdfast' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
