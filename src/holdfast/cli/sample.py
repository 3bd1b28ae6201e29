"""holdfast sample: a small attacked set to try aggregation on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from holdfast.cli.example import example
from holdfast.cli.files import save
from holdfast.cli.wide import say

HONEST, LIARS = 11, 4


@example("holdfast sample sample")
def sample(
    folder: Annotated[Path, typer.Argument(help="Where the files go; made if need be.")] = Path("sample"),
    seed: Annotated[int, typer.Option(help="Another seed, other numbers.")] = 0,
) -> None:
    """Write the updates of 15 workers, 4 of them liars, and the mean of the honest ones.

    Two liars send the same vector, ten times too long and the wrong way; one sends NaN, one the wrong shape.
    """
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    truth = {"layer.weight": rng.standard_normal((8, 16)), "layer.bias": rng.standard_normal(8)}
    honest = [{k: v + 0.1 * rng.standard_normal(v.shape) for k, v in truth.items()} for _ in range(HONEST)]
    mean = {k: np.mean([update[k] for update in honest], axis=0) for k in truth}
    wrong = {k: -10 * v for k, v in mean.items()}
    broken = {**honest[0], "layer.bias": np.full(8, np.nan)}
    short = {**honest[1], "layer.weight": honest[1]["layer.weight"][:4]}
    order = rng.permutation(HONEST + LIARS)
    for at, update in zip(order, [*honest, wrong, wrong, broken, short], strict=True):
        save(folder / f"worker-{at:02}.npz", update)
    save(folder / "honest-mean.npz", mean)
    liars = ", ".join(f"worker-{at:02}" for at in sorted(order[HONEST:]))
    say(f"{folder}: 15 updates, the mean of the 11 honest ones in honest-mean.npz; the liars are {liars}")
