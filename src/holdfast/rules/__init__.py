"""The rules of the field, each a frozen value whose text is its name."""

from holdfast.rules.average import Average
from holdfast.rules.clipping import CenteredClipping, Clip, NormBoundedMean
from holdfast.rules.clustering import CenterwO, MeanwO, OuterCenter, OuterMean
from holdfast.rules.coordinate import CWM, CWTM
from holdfast.rules.krum import Krum, MultiKrum
from holdfast.rules.median import GeometricMedian
from holdfast.rules.mixing import NNM, Bucketing

CATALOGUE = {
    rule.__name__: rule
    for rule in (
        Average,
        CenterwO,
        MeanwO,
        OuterCenter,
        OuterMean,
        CWM,
        CWTM,
        GeometricMedian,
        Krum,
        MultiKrum,
        CenteredClipping,
        NormBoundedMean,
        NNM,
        Bucketing,
        Clip,
    )
}
"""Every name that a spec may use, in the order in which they are listed."""

__all__ = [
    "CATALOGUE",
    "CWM",
    "CWTM",
    "NNM",
    "Average",
    "Bucketing",
    "CenteredClipping",
    "CenterwO",
    "Clip",
    "GeometricMedian",
    "Krum",
    "MeanwO",
    "MultiKrum",
    "NormBoundedMean",
    "OuterCenter",
    "OuterMean",
]
