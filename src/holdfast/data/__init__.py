"""Data sets, and how they are shared among workers. Needs numpy alone until a data set is loaded."""

from holdfast.data.dataset import Dataset, standardised
from holdfast.data.partition import SPLITS, ByWriter, Dirichlet, Natural, Shards, Uniform, counts, deal
from holdfast.data.pools import Share
from holdfast.data.sources import load

__all__ = [
    "SPLITS",
    "ByWriter",
    "Dataset",
    "Dirichlet",
    "Natural",
    "Shards",
    "Share",
    "Uniform",
    "counts",
    "deal",
    "load",
    "standardised",
]
