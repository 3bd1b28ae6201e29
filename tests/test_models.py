"""The models by name: what they take, how many numbers they have, and that they train."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from holdfast import BadInput, MeanwO
from holdfast.training import Run, Workers, train
from holdfast.training.models import MODELS, build

DOCS = Path(__file__).parent.parent / "docs"
SIZES = [(1, 8, 8), (1, 16, 16), (1, 28, 28), (3, 32, 32), (2, 20, 33)]


@pytest.mark.parametrize("shape", [*SIZES, (30,)])
@pytest.mark.parametrize("name", ["auto", *MODELS])
def test_a_model_answers_with_a_score_for_each_class_or_says_what_it_needs(name: str, shape: tuple[int, ...]) -> None:
    if len(shape) == 1 and name in ("cnn", "lenet", "resnet"):
        with pytest.raises(BadInput, match=f"the {name} was given rows of shape .*; it needs images, mlp and linear"):
            build(name, shape, 5, seed=0)
    elif name == "cnn" and shape == (1, 8, 8):
        with pytest.raises(BadInput, match="given images of 8 x 8; it needs 16 x 16 at least, mlp takes any"):
            build(name, shape, 5, seed=0)
    else:
        assert build(name, shape, 5, seed=0)(torch.zeros(3, *shape)).shape == (3, 5)


def test_the_smallest_images_of_each() -> None:
    for name, least in {"cnn": 16, "lenet": 4, "resnet": 1}.items():
        assert build(name, (1, least, least), 5, seed=0)(torch.zeros(2, 1, least, least)).shape == (2, 5)
        with pytest.raises(BadInput, match=f"the {name} was given images of"):
            build(name, (1, least - 1, 40), 5, seed=0)


def test_auto_is_a_small_model_for_small_images_and_for_rows() -> None:
    for shape, name in {(30,): "mlp", (1, 8, 8): "mlp", (1, 28, 28): "cnn"}.items():
        assert str(build("auto", shape, 5, seed=0)) == str(build(name, shape, 5, seed=0))


@pytest.mark.parametrize("name", MODELS)
def test_the_docs_tell_the_number_of_parameters(name: str) -> None:
    text = (DOCS / "training.md").read_text()
    row = re.search(rf"^\| `{name}` \|.*\| ([\d,]+|-) \| ([\d,]+) \| ([\d,]+) \|$", text, re.MULTILINE)
    assert row
    for shape, told in zip([(1, 8, 8), (1, 28, 28), (3, 32, 32)], row.groups(), strict=True):
        if told != "-":
            assert sum(p.numel() for p in build(name, shape, 10, seed=0).parameters()) == int(told.replace(",", ""))


@pytest.mark.parametrize(
    ("name", "steps", "lr", "rounds"),
    [("lenet", 1, 0.3, 80), ("lenet", 2, 0.3, 40), ("resnet", 1, 0.1, 10), ("resnet", 2, 0.1, 6)],
)
def test_it_learns_digits_and_no_worker_s_gradient_is_looped(name: str, steps: int, lr: float, rounds: int) -> None:
    given: dict[str, Any] = {"workers": 5, "byzantine": 1, "batch": 16, "momentum": 0.0, "probe": 0, "seed": 1}
    run = Run(
        rule=MeanwO(f=1), attack="SignFlip()", model=name, lr=lr, rounds=rounds, every=rounds, steps=steps, **given
    )
    task = Workers(run)
    assert task.gradients.way == "pooled"
    assert task.gradients.apart
    before = task.evaluate(task.start())["loss"]
    result = train(run, task=task)
    assert result.final["loss"] < 0.9 * before
    assert np.isfinite(result.model).all()
