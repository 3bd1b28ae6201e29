"""What rules promise: proved constants, measured ratios, a search that tries to break them, certificates of a round."""

import importlib as _importlib
import typing as _typing

if _typing.TYPE_CHECKING:
    from holdfast.guarantees import bounds, certificate, certify, choose, convergence, criteria, estimate, rates, vote

__all__ = ["bounds", "certificate", "certify", "choose", "convergence", "criteria", "estimate", "rates", "vote"]


def __getattr__(name: str) -> _typing.Any:
    """Import a module of this room when it is first asked for."""
    if name in __all__:
        return _importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
