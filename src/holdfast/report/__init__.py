"""Tables and figures."""

from typing import TYPE_CHECKING

from holdfast.lazy import import_on_request

if TYPE_CHECKING:
    from holdfast.report import compare, grid, plots, sheet, tables

__all__ = ["compare", "grid", "plots", "sheet", "tables"]

__getattr__, __dir__ = import_on_request(__name__, __all__)
