"""Figures: an empty one to draw into, and its file, which has the same bytes every time."""

from __future__ import annotations

from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from holdfast.disk import write_whole
from holdfast.errors import BadInput, MissingExtra

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NO_DATE: dict[str, Any] = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}, ".png": None}


def new_figure(width: float, height: float, **options: Any) -> Figure:
    """An empty figure of this size in inches."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra("a figure", "matplotlib", "plot") from None
    return Figure(figsize=(width, height), layout="constrained", **options)


def save_figure(figure: Figure, out: Path | str | IO[Any]) -> None:
    """Write a figure to a file, whole or not at all; to an open file, as an SVG whose texts are texts.

    Raises
    ------
    BadInput
        If the ending of the file is none of .svg, .png and .pdf.
    """
    from matplotlib import rc_context

    kind = Path(out).suffix if isinstance(out, Path | str) else ".svg"
    if kind not in NO_DATE:
        raise BadInput(f"{out} was given for a figure; the formats are .svg, .png, .pdf.")
    options: dict[str, Any] = {"format": kind[1:], "metadata": NO_DATE[kind], "dpi": 150}
    texts = "path" if isinstance(out, Path | str) else "none"
    with rc_context({"svg.hashsalt": "holdfast", "svg.fonttype": texts}):
        if isinstance(out, Path | str):
            write_whole(Path(out), lambda file: figure.savefig(file, **options))
        else:
            figure.savefig(out, **options)
