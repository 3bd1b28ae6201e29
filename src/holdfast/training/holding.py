"""Who holds which images: dealt among all workers or among the honest, with some set aside to choose parameters by."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from holdfast.data import Dataset, Share, deal
from holdfast.data.pools import Indices
from holdfast.errors import BadInput
from holdfast.training.run import Run

ASIDE, ROOT = 1, 2  # the streams of draws by which images are set aside, and by which the server gets its own


def deal_images(run: Run, data: Dataset) -> tuple[list[Share], list[Indices], Indices]:
    """Deal the images of a run: each worker's share, the validation images of each, and the server's own images.

    Workers train on neither of the last two.
    """
    seed = run.seed if run.draw is None else run.draw
    holders = run.workers if run.holders == "all" else run.honest
    shares = deal(data, run.split, holders, run.train, run.test, np.random.default_rng([seed, 0]))
    shares, aside = _set_aside(shares, run.validation or 0, np.random.default_rng([seed, ASIDE]))
    shares, root = _for_the_server(shares, run.root or 0, np.random.default_rng([seed, ROOT]))
    none = np.zeros(0, np.int64)
    borrowed = [Share(shares[i % holders].train, none) for i in range(run.workers - holders)]
    return shares + borrowed, aside + [none] * len(borrowed), root


def _set_aside(shares: list[Share], many: int, rng: np.random.Generator) -> tuple[list[Share], list[Indices]]:
    """Take this number of training images out of each share; what one worker sets aside, no other trains on."""
    aside = [np.sort(rng.permutation(np.unique(share.train))[:many]) for share in shares]
    if not many:
        return shares, aside
    return _without(shares, np.concatenate(aside), f"validation = {many}"), aside


def _for_the_server(shares: list[Share], many: int, rng: np.random.Generator) -> tuple[list[Share], Indices]:
    """Draw this number of training images for the server out of all shares."""
    root = np.sort(rng.permutation(np.unique(np.concatenate([share.train for share in shares])))[:many])
    return (_without(shares, root, f"root = {many}") if many else shares), root


def _without(shares: list[Share], taken: Indices, asked: str) -> list[Share]:
    """The shares without these training images; nobody may be left without any."""
    left = [replace(share, train=share.train[~np.isin(share.train, taken)]) for share in shares]
    for worker, share in enumerate(left):
        if not len(share.train):
            raise BadInput(
                f"Run was given {asked}; worker {worker} has {len(shares[worker].train)} training images, "
                "and none would be left."
            )
    return left
