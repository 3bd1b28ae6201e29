"""Adapters: what a mean of them is, and that a rule on B decides as on whole weight matrices."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest

from holdfast import MeanwO
from tests.children import run

pytest.importorskip("flwr")
FOLDER = Path(__file__).parent.parent / "examples" / "lora"
sys.path.append(str(FOLDER))

import lora_task as task  # noqa: E402


@pytest.fixture(scope="module")
def sent() -> dict[str, list[task.Model]]:
    """What five nodes send after a round, by what is trained."""
    data = task.shares(5)
    return {
        train: [task.trained(task.first(train), data[node], steps=20, seed=node) for node in range(5)]
        for train in ("B", "AB")
    }


def flat(model: task.Model) -> np.ndarray:
    return np.concatenate([part.ravel() for part in task.products(model)])


def gap(models: list[task.Model]) -> float:
    """The distance of the product of the means to the mean of the products, in lengths of the latter."""
    mean: task.Model = {name: np.stack([model[name] for model in models]).mean(axis=0) for name in models[0]}
    wanted = np.mean([flat(model) for model in models], axis=0)
    return float(np.linalg.norm(flat(mean) - wanted) / np.linalg.norm(wanted))


def test_the_means_of_a_and_b_are_not_the_mean_of_their_products(sent: dict[str, list[task.Model]]) -> None:
    assert gap(sent["B"]) < 1e-5
    assert gap(sent["AB"]) > 1e-3


def test_a_rule_on_b_decides_as_on_whole_weight_matrices(sent: dict[str, list[task.Model]]) -> None:
    rule = MeanwO(f=1)
    of_b, of_products = rule.decide(sent["B"]), rule.decide(np.stack([flat(model) for model in sent["B"]]))
    assert of_b.kept == of_products.kept
    assert of_b.distances is not None
    assert of_products.distances is not None
    np.testing.assert_allclose(of_b.distances, of_products.distances, rtol=1e-4, atol=1e-9)
    np.testing.assert_allclose(flat(of_b.value), of_products.value, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("rule", ["MeanwO(f=2)", "Average()"])
def test_two_liars_spoil_adapters_only_without_a_rule(rule: str, tmp_path: Path) -> None:
    call = [sys.executable, "-W", "ignore", str(FOLDER / "lora_app.py"), "--rounds", "4", "--rule", rule]
    done = run(call, cwd=tmp_path, env={"OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr[-3000:]
    first, *_, last = (float(x) for x in re.findall(r"([\d.]+)% of the test images", done.stdout))
    assert first < 20
    assert last > 40 if rule != "Average()" else last < 25
