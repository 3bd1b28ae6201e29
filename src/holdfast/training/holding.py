"""Who holds which images: dealt among all workers or among the honest, with some set aside to choose parameters by."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from holdfast.data import Dataset, Share, deal
from holdfast.data.pools import Indices
from holdfast.errors import BadInput
from holdfast.training.run import Run

ASIDE = 1  # the stream of draws by which images are set aside


def deal_images(run: Run, data: Dataset) -> tuple[list[Share], list[Indices]]:
    """Deal the images of a run: each worker's share, and the validation images of each, which nobody trains on."""
    seed = run.seed if run.draw is None else run.draw
    holders = run.workers if run.holders == "all" else run.honest
    shares = deal(data, run.split, holders, run.train, run.test, np.random.default_rng([seed, 0]))
    shares, aside = _set_aside(shares, run.validation or 0, np.random.default_rng([seed, ASIDE]))
    none = np.zeros(0, np.int64)
    borrowed = [Share(shares[i % holders].train, none) for i in range(run.workers - holders)]
    return shares + borrowed, aside + [none] * len(borrowed)


def _set_aside(shares: list[Share], many: int, rng: np.random.Generator) -> tuple[list[Share], list[Indices]]:
    """Take this number of training images out of each share; what one worker sets aside, no other trains on."""
    aside = [np.sort(rng.permutation(np.unique(share.train))[:many]) for share in shares]
    if not many:
        return shares, aside
    taken = np.unique(np.concatenate(aside))
    left = [replace(share, train=share.train[~np.isin(share.train, taken)]) for share in shares]
    for worker, share in enumerate(left):
        if not len(share.train):
            raise BadInput(
                f"Run was given validation = {many}; worker {worker} has {len(shares[worker].train)} training images, "
                "and none would be left."
            )
    return left, aside
