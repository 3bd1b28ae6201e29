"""The option --weights: how much each worker counts, from a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from holdfast.errors import BadInput, listing
from holdfast.masses import Masses, cap, read_masses

WeightsOption = Annotated[
    Path | None,
    typer.Option(
        "--weights", help="How much each worker counts: a JSON list or object by file name, or a number in each line."
    ),
]
CapOption = Annotated[
    float | None,
    typer.Option("--cap", help="Lower the largest weights until any f workers hold at most this part; below 0.5."),
]
MAX_BYTES = 1 << 24  # of a file of weights


def load_weights(file: Path | None, names: list[str], f: int | None, share: float | None) -> Masses | None:
    """The weights of the workers of these names, under a cap if one was asked for."""
    if file is None:
        if share is not None:
            raise BadInput("--cap was given without --weights; add the file of the weights.")
        return None
    weights = read_masses(_numbers(file, names), len(names), str(file))
    if share is None:
        return weights
    if f is None:
        raise BadInput("--cap was given for a rule without f; leave it out, or take a rule with f.")
    return cap(weights.weights, f, share)


def _numbers(file: Path, names: list[str]) -> np.ndarray:
    wanted = "give a JSON list or object, or a number in each line"
    try:
        if file.stat().st_size > MAX_BYTES:
            raise BadInput(f"{file} has more than {MAX_BYTES >> 20} MB; {wanted}.")
        text = file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{file} cannot be read as weights: {error}.") from None
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        told = text.split()
    if isinstance(told, dict):
        by_name = {**{Path(name).name: name for name in names}, **{name: name for name in names}}
        known = {by_name[name]: weight for name, weight in told.items() if name in by_name}
        if missing := [name for name in names if name not in known]:
            raise BadInput(f"{file} has no weight for {listing(missing)}; name every worker's file.")
        told = [known[name] for name in names]
    if not isinstance(told, list):
        raise BadInput(f"{file} holds no weights; {wanted}.")
    if any(isinstance(number, bool) for number in told):
        raise BadInput(f"{file} holds something that is no number; {wanted}.")
    try:
        return np.array([float(number) for number in told])
    except (TypeError, ValueError, OverflowError):
        raise BadInput(f"{file} holds something that is no number, or one that is too large; {wanted}.") from None
