"""The attacks, each a frozen value called with a View of the round; no training loop is needed to try one.

>>> import numpy as np
>>> from holdfast.attacks import Empire, View
>>> Empire(scale=0.1)(View(honest=np.array([[1.0], [3.0]]), own=np.zeros((2, 1))))
array([[-0.2],
       [-0.2]])
"""

from __future__ import annotations

import typing as _typing
from typing import Any

from holdfast.attacks.base import Attack, View
from holdfast.attacks.blind import Gauss, Inf, Malformed, NaN, NoAttack, SignFlip, Silent, Zero
from holdfast.attacks.coded import CodedPGA as CodedPGA
from holdfast.attacks.directed import Fang
from holdfast.attacks.hidden import Mimic, MinMax, MinSum, Spread
from holdfast.attacks.informed import ALIE, Empire, Omniscient, ScaledVariance
from holdfast.attacks.poisoned import LabelFlip, Trigger
from holdfast.attacks.tailored import PGA, Canvass
from holdfast.attacks.voters import VOTERS as VOTERS
from holdfast.attacks.voters import Voter
from holdfast.elsewhere import answer_names as _answer_names

ATTACKS: dict[str, type[Any]] = {
    attack.__name__: attack
    for attack in (
        LabelFlip,
        SignFlip,
        Gauss,
        Omniscient,
        Empire,
        ScaledVariance,
        PGA,
        ALIE,
        MinMax,
        MinSum,
        Mimic,
        Fang,
        Spread,
        Canvass,
        CodedPGA,
        Trigger,
        Zero,
        Inf,
        NaN,
        Silent,
        Malformed,
        NoAttack,
    )
}
NAMED: dict[str, Any] = {
    **ATTACKS,
    "IPM": Empire,
    "OptALIE": lambda spread=False: PGA(along="std", spread=spread, thorough=True),
    "OptIPM": lambda spread=False: PGA(along="mean", spread=spread, thorough=True),
    "HiddenCoordinate": lambda spread=False: PGA(along="coordinate", spread=spread),
}
"""What a text can name: parse("IPM(scale=3)", NAMED)."""


def list_paper_attacks(text: bool = True, n: int = 35) -> dict[str, Attack]:
    """The seven attacks of Yi et al. 2024 by their short names.

    Parameters
    ----------
    text : bool
        Whether the parameters are those of the paper's text, or of the authors' program.
    n : int
        How many workers there are; the program's SV depends on it.

    Returns
    -------
    dict from str to Attack
        LF, SF, Gauss, Omn, Empire, SV and PGA.

    Notes
    -----
    LF is the program's permutation in both, since the text gives none. PGA is the program's search, which starts too
    far out to find much, or ours instead of the text's, whose sign would help the honest.

    References
    ----------
    .. [1] Yi et al. 2024, "Near-Optimal Resilient Aggregation Rules for Distributed Learning Using 1-Center and
       1-Mean Clustering with Outliers".

    Examples
    --------
    >>> from holdfast.attacks import list_paper_attacks
    >>> list_paper_attacks()["SV"], list_paper_attacks(text=False)["SV"]
    (ScaledVariance(z=-20.0), ScaledVariance(z=-0.5714285714285714, over='honest'))
    """
    return {
        "LF": LabelFlip(by="authors"),
        "SF": SignFlip(),
        "Gauss": Gauss() if text else Gauss(length="deviation"),
        "Omn": Omniscient(form="text" if text else "program"),
        "Empire": Empire(scale=0.1),
        "SV": ScaledVariance(z=-20.0) if text else ScaledVariance(z=-20 / n, over="honest"),
        "PGA": PGA() if text else CodedPGA(),
    }


__all__ = [
    "ALIE",
    "ATTACKS",
    "PGA",
    "Attack",
    "Canvass",
    "Empire",
    "Fang",
    "Gauss",
    "Inf",
    "LabelFlip",
    "Malformed",
    "Mimic",
    "MinMax",
    "MinSum",
    "NaN",
    "NoAttack",
    "Omniscient",
    "ScaledVariance",
    "SignFlip",
    "Silent",
    "Spread",
    "Trigger",
    "View",
    "Voter",
    "Zero",
    "list_paper_attacks",
]

if not _typing.TYPE_CHECKING:  # so that mypy still knows every name
    __getattr__ = _answer_names(__name__)
