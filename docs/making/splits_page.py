"""The page of the splits, and their pictures: who holds which classes."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import formulas
import numpy as np
import sources

from holdfast.cli.rules import signature
from holdfast.data import Dataset, Dirichlet, Shards, Similarity, count_classes, deal
from holdfast.data.partition import SPLITS
from holdfast.data.picture import plot_shares
from holdfast.data.splits import Split
from holdfast.figures import save_figure

INTRODUCTION = (Path(__file__).parent / "splits.md").read_text(encoding="utf-8")
WORKERS, WRITERS = 12, 24
SIZES = (240, 240, 200, 200, 160, 160, 120, 120, 80, 80)  # images of each class
FORMS: dict[str, tuple[Split, ...]] = {  # the forms that a picture shows; else the one without arguments
    "Dirichlet": (Dirichlet(alpha=0.5), Dirichlet(alpha=0.5, over="workers")),
    "Similarity": (Similarity(gamma=0.5), Similarity(gamma=0.0)),
    "Shards": (Shards(shards=2), Shards(shards=2, cut="classes")),
}


def letters() -> Dataset:
    """Images of ten classes by writers who each write three of them most often."""
    labels = np.repeat(np.arange(len(SIZES)), SIZES)
    rng = np.random.default_rng(0)
    likes = np.exp(3 * (rng.random((WRITERS, len(SIZES))) < 0.3))
    writers = np.array([rng.choice(WRITERS, p=likes[:, y] / likes[:, y].sum()) for y in labels])
    names = tuple("0123456789"[: len(SIZES)])
    return Dataset("letters", np.zeros((len(labels), 1, 1), np.uint8), labels, names, writers=writers)


def pages() -> dict[str, str | bytes]:
    """splits.md and the pictures of each split."""
    made: dict[str, str | bytes] = {}
    table = ["| split | training images a worker | classes a worker |", "| --- | --- | --- |"]
    sections = []
    for name, kind in SPLITS.items():
        shown = []
        for at, split in enumerate(forms(name)):
            made[f"pictures/split-{name}-{at + 1}.svg"], counts = picture(split)
            shown.append(f"![{split.written()}: who holds which classes](pictures/split-{name}-{at + 1}.svg)")
            sizes, classes = counts.sum(axis=1), (counts > 0).sum(axis=1)
            table.append(f"| [`{split.written()}`](#{name.lower()}) | {_span(sizes)} | {_span(classes)} |")
        sections.append(_section(name, kind, shown))
    return made | {"splits.md": "\n\n".join([INTRODUCTION.format(n=WORKERS), "\n".join(table), *sections, ""])}


def forms(name: str) -> tuple[Split, ...]:
    """The values of a split that are drawn."""
    return FORMS.get(name) or (SPLITS[name](),)


def picture(split: Split) -> tuple[bytes, np.ndarray]:
    """Who holds which classes, as SVG, and the numbers of images."""
    data = letters()
    shares = deal(data, split, WORKERS, test=0)
    out = io.BytesIO()
    save_figure(plot_shares(data, shares, split.written()), out)
    return out.getvalue(), count_classes(data, shares)


def _span(numbers: np.ndarray) -> str:
    least, most = int(numbers.min()), int(numbers.max())
    return str(least) if least == most else f"{least} to {most}"


def _section(name: str, kind: Any, shown: list[str]) -> str:
    first, rest = formulas.split(kind.__doc__ or "")
    return "\n\n".join([f"## {name}", f"`{signature(kind)}`", first, *shown, sources.linked(rest)])
