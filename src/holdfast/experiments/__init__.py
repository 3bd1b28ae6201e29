"""Many runs at once."""

from typing import TYPE_CHECKING

from holdfast.lazy import import_on_request

if TYPE_CHECKING:
    from holdfast.experiments import store, sweep

__all__ = ["store", "sweep"]

__getattr__, __dir__ = import_on_request(__name__, __all__)
