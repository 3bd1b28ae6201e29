"""The rules of the field, each a frozen value whose text is its name."""

import typing as _typing

from holdfast.elsewhere import answer_names as _answer_names
from holdfast.rules.average import Average
from holdfast.rules.clipping import ARC, CenteredClipping, Clip, NormBoundedMean
from holdfast.rules.clustering import CenterwO, MeanwO, OuterCenter, OuterMean
from holdfast.rules.coordinate import CWM, CWTM, MeaMed
from holdfast.rules.cosine import ClippedClustering, FLTrust
from holdfast.rules.exact_center import CenterExact
from holdfast.rules.exact_mean import MeanExact
from holdfast.rules.huber import Huber
from holdfast.rules.krum import Bulyan, Krum, MultiKrum
from holdfast.rules.median import GeometricMedian
from holdfast.rules.mixing import NNM, Bucketing
from holdfast.rules.nearest import CGE, MedianwO, Medoid, MoNNA, NearestTo
from holdfast.rules.principal import PTM
from holdfast.rules.spectral import CAF, DnC
from holdfast.rules.stream import StreamCenterwO
from holdfast.rules.subsets import MDA, SMEA

CATALOGUE = {
    rule.__name__: rule
    for rule in (
        Average,
        CenterwO,
        MeanwO,
        OuterCenter,
        OuterMean,
        CenterExact,
        MeanExact,
        MedianwO,
        NearestTo,
        StreamCenterwO,
        CWM,
        CWTM,
        PTM,
        MeaMed,
        GeometricMedian,
        Huber,
        Medoid,
        Krum,
        MultiKrum,
        Bulyan,
        MDA,
        SMEA,
        CAF,
        DnC,
        CGE,
        MoNNA,
        CenteredClipping,
        NormBoundedMean,
        FLTrust,
        ClippedClustering,
        NNM,
        Bucketing,
        Clip,
        ARC,
    )
}
"""Every name that a spec may use, in the order in which they are listed."""

__all__ = [
    "ARC",
    "CAF",
    "CATALOGUE",
    "CGE",
    "CWM",
    "CWTM",
    "MDA",
    "NNM",
    "PTM",
    "SMEA",
    "Average",
    "Bucketing",
    "Bulyan",
    "CenterExact",
    "CenteredClipping",
    "CenterwO",
    "Clip",
    "ClippedClustering",
    "DnC",
    "FLTrust",
    "GeometricMedian",
    "Huber",
    "Krum",
    "MeaMed",
    "MeanExact",
    "MeanwO",
    "MedianwO",
    "Medoid",
    "MoNNA",
    "MultiKrum",
    "NearestTo",
    "NormBoundedMean",
    "OuterCenter",
    "OuterMean",
    "StreamCenterwO",
]

if not _typing.TYPE_CHECKING:  # so that mypy still knows every name
    __getattr__ = _answer_names(__name__)
