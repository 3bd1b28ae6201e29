"""Rows of features are a data set as images are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_wine

from holdfast import BadInput, MeanwO
from holdfast.data import Dataset, Dirichlet, deal
from holdfast.training import Run, Workers, train

CANCER: tuple[np.ndarray, np.ndarray] = load_breast_cancer(return_X_y=True)
FLIP: dict[str, Any] = {"rule": MeanwO(f=2), "attack": "SignFlip()", "workers": 8, "byzantine": 2}


def cancer(rows: Any = CANCER[0]) -> Dataset:
    return Dataset("cancer", rows, CANCER[1], ("malignant", "benign"))


@pytest.mark.parametrize("model", ["auto", "linear", "mlp"])
@pytest.mark.parametrize("split", ["Natural()", "Dirichlet(alpha=100.0)"])
def test_they_train_under_attack(model: str, split: str) -> None:
    run = Run(**FLIP, model=model, split=split, rounds=60, every=20, batch=8)
    task = Workers(run, cancer())
    assert task.images.shape[1:] == (30,)
    assert task.gradients.way == "pooled"
    assert task.gradients.size == {"linear": 31 * 2}.get(model, 31 * 64 + 65 * 2)
    assert train(run, task=task).accuracy > 0.9


def test_two_phases_validation_and_several_classes_work_too() -> None:
    rows, labels = load_wine(return_X_y=True)
    wine = Dataset("wine", rows, labels, ("first", "second", "third"))
    assert repr(wine) == "Dataset('wine': 178 rows of 13 features in 3 classes)"
    run = Run(**FLIP | {"rule": "Mean2P(f=2)"}, rounds=40, validation=3, steps=2)
    assert train(run, task=Workers(run, wine)).final["validation"] > 0.8
    assert len(deal(wine, Dirichlet(alpha=1.0), workers=4, rng=0)) == 4


def test_large_features_keep_their_digits() -> None:
    rows = CANCER[0] + 1e9  # in float32 nothing would be left of them
    run = Run(**FLIP)
    plain, moved = (Workers(run, cancer(given)).images.numpy() for given in (CANCER[0], rows))
    np.testing.assert_allclose(moved, plain, atol=1e-3)


def test_lists_and_whole_numbers_are_features() -> None:
    rows = CANCER[0].astype(int)
    task = Workers(Run(**FLIP, standardise=False), cancer(rows.tolist()))
    assert task.images.numpy().dtype == np.float32
    assert set(task.images[:, 2].tolist()) <= set(rows[:, 2].tolist())


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda rows: np.where(rows == rows[5, 3], np.nan, rows), "given nan as feature 3 of row 5; fill in a number"),
        (lambda rows: rows[:, :0], r"given features of type float64 and shape \(569, 0\); write them as numbers"),
        (lambda rows: rows.astype(str), "given features of type <U.*; write them as numbers"),
        (lambda rows: rows[0], "features .N, features., and labels"),
    ],
)
def test_what_cannot_be_trained_on_is_refused_in_one_sentence(spoil: Any, why: str) -> None:
    with pytest.raises(BadInput, match=why):
        cancer(spoil(CANCER[0]))


@pytest.mark.parametrize("words", [{"model": "cnn"}, {"model": "resnet"}, {"attack": "Trigger()"}])
def test_what_needs_images_says_so(words: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match=r"it needs images, mlp and linear take any|was given images of shape \(30,\)"):
        Workers(Run(**FLIP | words), cancer())
