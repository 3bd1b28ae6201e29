"""The picture of a partition: one row per worker, one column per class, a dot as large as the number of images."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from holdfast.data.dataset import Dataset
from holdfast.data.partition import count_classes
from holdfast.data.pools import Share
from holdfast.errors import BadInput
from holdfast.figures import new_figure, save_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = (".svg", ".png", ".pdf")
CELL = 0.17  # inches between workers, and between classes with short names
SEEN = 1.5  # square points; a single image among hundreds is still a dot
MAX_WORKERS = 400  # workers or classes that can be told apart


def draw(dataset: Dataset, shares: list[Share], out: Path, title: str = "") -> None:
    """Training images of each worker in each class, as dots whose area is their number."""
    if out.suffix not in FORMATS:
        raise BadInput(f"{out} was given; the formats are {', '.join(FORMATS)}.")
    save_figure(plot_shares(dataset, shares, title), out)


def plot_shares(dataset: Dataset, shares: list[Share], title: str = "") -> Figure:
    """The same as a figure."""
    table = count_classes(dataset, shares)
    workers, classes = table.shape
    if not 1 <= workers <= MAX_WORKERS:
        raise BadInput(f"draw was given {workers} workers; a picture shows 1 to {MAX_WORKERS}.")
    long = max(map(len, dataset.classes)) > 2
    wide = CELL * (2.4 if classes <= 20 else 1)
    figure = new_figure(1.6 + max(3.2, wide * classes), 1.3 + long * 0.5 + CELL * max(6, workers))
    axes = figure.subplots()
    most = max(1, int(table.max()))
    largest = (CELL * 72 * 0.98) ** 2
    rows, columns = np.nonzero(table)
    axes.grid(color="#e6e6e6", linewidth=0.5)
    axes.set_axisbelow(True)
    for many in np.unique(table[rows, columns]):  # one call a size: its shape is written once
        here = table[rows, columns] == many
        size = max(SEEN, largest * many / most)
        axes.scatter(columns[here], rows[here], s=size, color="#0072b2", linewidth=0)
    for size in sorted({most, max(1, round(most / 4)), max(1, round(most / 16))}):
        axes.scatter([], [], s=max(SEEN, largest * size / most), color="#0072b2", linewidth=0, label=str(size))
    figure.legend(title="images", loc="outside right upper", frameon=False, fontsize=8, title_fontsize=8)
    axes.set_xlim(-0.7, classes - 0.3)
    axes.set_ylim(workers - 0.3, -0.7)
    axes.set_xticks(range(classes), dataset.classes, fontsize=7, rotation=90 if long and classes > 6 else 0)
    axes.set_yticks(range(workers) if workers <= 60 else range(0, workers, 10))
    axes.tick_params(length=0, labelsize=7)
    axes.spines[:].set_visible(False)
    axes.set_xlabel("class", fontsize=9)
    axes.set_ylabel("worker", fontsize=9)
    axes.set_title(title or f"{dataset.name}: training images", fontsize=10, loc="left")
    return figure
