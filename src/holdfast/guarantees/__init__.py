"""What rules promise: proved constants, measured ratios, a search that tries to break them, certificates of a round."""

from typing import TYPE_CHECKING

from holdfast.lazy import import_on_request

if TYPE_CHECKING:
    from holdfast.guarantees import (
        bounds,
        certificate,
        certify,
        choose,
        convergence,
        criteria,
        estimate,
        profile,
        rates,
        vote,
    )

__all__ = [
    "bounds",
    "certificate",
    "certify",
    "choose",
    "convergence",
    "criteria",
    "estimate",
    "profile",
    "rates",
    "vote",
]

__getattr__, __dir__ = import_on_request(__name__, __all__)
