"""Names of other libraries and papers, and what they are here; the sentence that an import of such a name meets."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from holdfast.renamed import read_renamed

NAMES_ELSEWHERE = {
    "ALittleIsEnough": "ALIE",
    "Brute": "MDA",
    "CClip": "CenteredClipping",
    "CenteredClip": "CenteredClipping",
    "Clippedclustering": "ClippedClustering",
    "Clipping": "Clip",
    "CoordinateMedian": "CWM",
    "CwMed": "CWM",
    "FallOfEmpires": "Empire",
    "FedAvg": "Average",
    "FedMedian": "CWM",
    "FedTrimmedAvg": "CWTM",
    "FoE": "Empire",
    "Gaussian": "Gauss",
    "GeoMed": "GeometricMedian",
    "InnerProductManipulation": "Empire",
    "LIE": "ALIE",
    "LabelFlipping": "LabelFlip",
    "Mean": "Average",
    "MeanOfMedians": "MeaMed",
    "Meamed": "MeaMed",
    "Median": "CWM",
    "MinimumDiameterAveraging": "MDA",
    "NearestNeighborMixing": "NNM",
    "Optimal_ALittleIsEnough": "PGA",
    "Optimal_InnerProductManipulation": "PGA",
    "RFA": "GeometricMedian",
    "SignFlipping": "Empire",
    "TrMean": "CWTM",
    "TrimmedMean": "CWTM",
}
"""What other libraries and papers call a rule or an attack, and its name here."""
DIFFERENCES = {
    "ALittleIsEnough": "ByzFL's tau is z = -tau sqrt(h/(h-1)) with h honest workers",
    "Clipping": "ByzFL's c=2.0 is Clip(tau=2.0)",
    "Clippedclustering": "Blades takes the median norm of all rounds, which you can pass as tau",
    "Gaussian": "ByzFL's Gaussian(mu, sigma) is Gauss(sigma=sigma, mu=mu), with a draw of its own for each liar",
    "InnerProductManipulation": "ByzFL's tau=2.0 is Empire(scale=2.0), and Empire() has 0.1",
    "MeanOfMedians": "ByzPy's is MeaMed(f, lower=True)",
    "Optimal_ALittleIsEnough": "ByzFL's is PGA(along='std', thorough=True); the View names the rule",
    "Optimal_InnerProductManipulation": "ByzFL's is PGA(along='mean', thorough=True); the View names the rule",
    "SignFlipping": "ByzFL's is Empire(scale=1.0), while SignFlip() sends minus each liar's own vector",
}
"""Where a name here means another value by default: what to write for the same numbers (docs/coming-from.md)."""
WITHOUT_EQUAL = {
    "Aksel": "is NearestTo(CWM(), f=2) here",
    "RobustAggregator": "is a chain here, as in NNM(f=2) >> CWTM(f=2)",
    "SignGuard": "has no equal here: a rule sees distances or single coordinates, and it needs the signs of whole rows",
}
"""What a name of another library is here, if it is no name here."""
HOMES = ("holdfast", "holdfast.attacks")  # where rules and attacks are imported from


def explain_name(name: str) -> tuple[str, str]:
    """What a name of another library is here, as a clause, and the name to write; empty if nobody uses it.

    >>> explain_name("TrMean")
    ('TrMean is named CWTM here', 'CWTM')
    >>> explain_name("RobustAggregator")
    ('RobustAggregator is a chain here, as in NNM(f=2) >> CWTM(f=2)', '')
    """
    tables = (NAMES_ELSEWHERE, DIFFERENCES, WITHOUT_EQUAL)
    here, differs, lacks = (_folded(table).get(name.lower(), "") for table in tables)
    if lacks:
        return f"{name} {lacks}", ""
    return (f"{name} is named {here} here{differs and f'; {differs}'}", here) if here else ("", "")


def _folded(table: dict[str, str]) -> dict[str, str]:
    return {name.lower(): text for name, text in table.items()}


def answer_names(module: str) -> Callable[[str], Any]:
    """The `__getattr__` of a package.

    An old name answers with the new one. A name of another library, or one that another package has, raises an error
    that says what to write.
    """

    def answer(name: str) -> Any:
        refuse_foreign(name, sys._getframe(1))
        return read_renamed(sys.modules[module], name)

    return answer


def refuse_foreign(name: str, asked_by: FrameType) -> None:
    """Refuse a name of another library, or one that is imported from elsewhere, with a sentence; pass any other."""
    if not (hint := _import_hint(name)):
        return
    # `from holdfast import TrMean` asks hasattr first, and would lose the text of an AttributeError; hasattr of anybody
    # else must hear one. No class is both errors, so the caller decides.
    imported = asked_by.f_globals.get("__name__") == "importlib._bootstrap"
    raise ImportError(hint) if imported else AttributeError(hint)


def _import_hint(name: str) -> str:
    """What to import instead of a name that a package does not have; empty if nobody knows the name."""
    if name.startswith("_"):
        return ""
    said, here = explain_name(name) if name in {**NAMES_ELSEWHERE, **WITHOUT_EQUAL} else ("", name)
    home = next((home for home in HOMES if here in importlib.import_module(home).__all__), "")
    if not home:
        return said and f"{said}."
    return f"{said or f'{name} is in {home}'}; write from {home} import {here}."
