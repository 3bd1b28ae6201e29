"""holdfast estimate: noise and heterogeneity of workers, from their gradients."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.table import Table
from rich.text import Text

from holdfast.arrays import viewed
from holdfast.cli.example import example
from holdfast.cli.files import check_room, load, names_of, save
from holdfast.cli.sizes import allowed_bytes
from holdfast.cli.wide import Screen, say
from holdfast.errors import BadInput
from holdfast.guarantees.estimate import Estimate
from holdfast.guarantees.estimate import estimate as measured
from holdfast.jsonable import finite_or_none
from holdfast.places import fetch


@example("holdfast estimate one.npy two.npy three.npy --sample")
def estimate(
    files: Annotated[list[Path], typer.Argument(help="A file a worker, with a row a gradient: npy, npz, safetensors.")],
    sample: Annotated[
        bool, typer.Option("--sample", help="First write the FILES that are not there: σ = 4, G below 1.")
    ] = False,
    max_bytes: Annotated[
        int | None, typer.Option(min=1, help="The most that a file may unpack to; else by the other files.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One line of JSON.")] = False,
) -> None:
    """Measure σ and G of Theorem 1 at one model: how noisy the workers' gradients are, and how different.

    Give at least two gradients a worker, all at the same model, of workers that you trust: a liar can make both numbers
    what it likes. Entries of an npz or safetensors file are the parts of a gradient, each with one row per gradient.
    """
    if sample:
        write(files)
    limit = allowed_bytes(files, max_bytes=max_bytes)
    check_room(files, limit)
    names = names_of(files)
    result = measured([rows(load(path, limit), name) for path, name in zip(files, names, strict=True)], names)
    if as_json:
        say(json.dumps(record(result, names), allow_nan=False))
    else:
        show(result, names)


def write(paths: list[Path]) -> None:
    """Gradients to try it on: 16 a worker, of 100 numbers."""
    for i, path in enumerate(paths):
        if not path.exists():
            rng = np.random.default_rng(i)
            save(path, 0.1 * rng.standard_normal(100) + 0.4 * rng.standard_normal((16, 100)))
            say(f"wrote {path}", err=True)


def rows(held: Any, name: str) -> Any:
    """One array with one row per gradient; parts are put side by side."""
    parts = list(held.values()) if isinstance(held, dict) else [held]
    arrays = [fetch(viewed(part)) for part in parts if np.ndim(part) > 0]
    if not arrays or len({len(part) for part in arrays}) > 1:
        raise BadInput(f"{name} has no entries with a row a gradient, as many rows in each; stack the gradients.")
    flat = [part.reshape(len(part), -1) if len(part) else part for part in arrays]
    return flat[0] if len(flat) == 1 else np.concatenate(flat, axis=1)


def record(result: Estimate, names: list[str]) -> dict[str, Any]:
    """The same as plain values."""
    roots = {"sigma": result.sigma, "largest": result.largest, "G": result.G, "spread": result.spread}
    squares = {"sigma2": result.sigma2, "pooled2": result.pooled2, "G2": result.G2, "plain2": result.plain2}
    workers = zip(names, result.gradients, result.each2, strict=True)
    each = {name: {"gradients": k, "sigma": math.sqrt(square)} for name, k, square in workers}
    balance = finite_or_none(result.balance)
    return {**roots, **squares, "noise2": result.noise2, "balance": balance, "d": result.d, "workers": each}


def show(result: Estimate, names: list[str]) -> None:
    """The same for people."""
    console = Screen()
    table = Table("worker", "gradients", "σ", box=None, pad_edge=False, header_style="bold")
    for name, k, square in zip(names, result.gradients, result.each2, strict=True):
        table.add_row(Text(name), str(k), f"{math.sqrt(square):.4g}")
    console.print(table)
    pooled, plain = math.sqrt(result.pooled2), math.sqrt(result.plain2)
    for line in (
        f"σ = {result.sigma:.4g} over the workers, {pooled:.4g} over all gradients, {result.largest:.4g} at most",
        f"G = {result.G:.4g}; {plain:.4g} with the noise of the means",
        f"one gradient a worker: {result.spread:.4g} from their mean (root mean square), whose square κ multiplies",
        balance(result),
    ):
        console.print(Text(line), soft_wrap=True)


def balance(result: Estimate) -> str:
    """What to do about it, for every possible set of liars."""
    if not result.G2:
        return "the noise hides whatever difference there is: more gradients a worker would show it"
    if result.balance < 1:
        return "the workers differ more than a gradient is noisy: larger batches gain little"
    many = math.ceil(result.balance)
    return f"the mean of {many:,} gradients is as noisy as the workers differ: larger batches gain little beyond that"
