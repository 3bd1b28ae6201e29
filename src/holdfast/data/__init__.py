"""Data sets, and how they are shared among workers. Needs numpy alone until a data set is loaded."""

import typing as _typing

from holdfast.data.dataset import Dataset, standardise_images
from holdfast.data.partition import SPLITS as SPLITS
from holdfast.data.partition import count_classes, deal
from holdfast.data.pools import Share
from holdfast.data.similar import Similarity
from holdfast.data.sources import load
from holdfast.data.splits import Dirichlet, Natural, Uniform
from holdfast.data.uneven import ByWriter, QuantitySkew, Shards
from holdfast.renamed import answer_old_names as _answer_old_names

__all__ = [
    "ByWriter",
    "Dataset",
    "Dirichlet",
    "Natural",
    "QuantitySkew",
    "Shards",
    "Share",
    "Similarity",
    "Uniform",
    "count_classes",
    "deal",
    "load",
    "standardise_images",
]

if not _typing.TYPE_CHECKING:  # so that mypy still knows every name
    __getattr__ = _answer_old_names(__name__)
