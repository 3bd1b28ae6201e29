"""σ and G: right on average, in blocks and from files, and deaf to nonsense."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from safetensors.numpy import save_file
from typer.testing import CliRunner

from holdfast import BadInput
from holdfast.cli.estimate import estimate as command
from holdfast.guarantees import estimate as module
from holdfast.guarantees.estimate import estimate


def workers(rng: np.random.Generator, d: int = 7) -> list[np.ndarray]:
    return [3 * rng.standard_normal(d) + rng.standard_normal((k, d)) * (1 + k) for k in (2, 5, 3, 9)]


def test_squares_are_numpy_s() -> None:
    given = workers(np.random.default_rng(0))
    told = estimate(given)
    each = [one.var(axis=0, ddof=1).sum() for one in given]
    means = np.array([one.mean(axis=0) for one in given])
    assert told.each2 == pytest.approx(each)
    assert told.sigma2 == pytest.approx(np.mean(each))
    assert told.largest == pytest.approx(math.sqrt(max(each)))
    assert told.pooled2 == pytest.approx(np.average(each, weights=[1, 4, 2, 8]))
    assert told.plain2 == pytest.approx(means.var(axis=0).sum())
    assert told.noise2 == pytest.approx(0.75 * np.mean(np.divide(each, [2, 5, 3, 9])))
    assert max(0.0, told.plain2 - told.noise2) == told.G2
    assert (told.gradients, told.d) == ((2, 5, 3, 9), 7)
    assert told.spread**2 == pytest.approx(told.G2 + 0.75 * told.sigma2)


def test_the_estimates_are_right_on_average() -> None:
    rng = np.random.default_rng(1)
    truth = rng.standard_normal((4, 6))
    scale, many = np.array([0.5, 1.0, 2.0, 1.5]), (2, 3, 4, 8)
    found = []
    for _ in range(4000):
        told = estimate([m + s * rng.standard_normal((k, 6)) for m, s, k in zip(truth, scale, many, strict=True)])
        found.append((told.sigma2, told.plain2 - told.noise2, told.plain2))
    mean, error = np.mean(found, axis=0), np.std(found, axis=0) / math.sqrt(4000)
    g2 = truth.var(axis=0).sum()
    assert abs(mean[0] - 6 * (scale**2).mean()) < 4 * error[0]
    assert abs(mean[1] - g2) < 4 * error[1]
    assert mean[2] > g2 + 20 * error[2]


def test_workers_that_are_alike_have_no_g() -> None:
    rng = np.random.default_rng(2)
    found = [estimate(rng.standard_normal((5, 3, 40))) for _ in range(40)]
    assert all(one.G2 >= 0 for one in found)
    assert any(one.G2 == 0 and one.balance == math.inf for one in found)
    same = estimate([np.ones((2, 3)), np.ones((4, 3))])
    assert (same.sigma, same.G, same.spread) == (0.0, 0.0, 0.0)


def test_blocks_and_mapped_files_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = [one.astype(np.float32) for one in workers(np.random.default_rng(3), d=101)]
    whole = estimate(given)
    for i, one in enumerate(given):
        np.save(tmp_path / f"{i}.npy", one)
    monkeypatch.setattr(module, "HELD", 40)
    mapped = estimate(np.load(tmp_path / f"{i}.npy", mmap_mode="r") for i in range(4))
    assert mapped.each2 == pytest.approx(whole.each2, rel=1e-12)
    assert pytest.approx(whole.G2, rel=1e-12) == mapped.G2


def test_an_offset_costs_no_digits() -> None:
    given = workers(np.random.default_rng(4))
    moved = estimate([one + 2.0**20 for one in given])
    assert moved.sigma2 == pytest.approx(estimate(given).sigma2, rel=1e-8)
    assert pytest.approx(estimate(given).G2, rel=1e-8) == moved.G2


class Hostile:
    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        raise RuntimeError("no")


GOOD = np.ones((3, 4))


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (np.array([[1.0] * 4, [np.nan] * 4]), "worker 1 has a number in row 1 that is not finite"),
        (np.array([[np.inf] * 4, [1.0] * 4]), "worker 1 has a number in row 0 that is not finite"),
        (np.ones((3, 5)), "worker 1 has 5 columns where most have 4"),
        (np.ones((1, 4)), "worker 1 gave an array of shape (1, 4)"),
        (np.ones(4), "worker 1 gave an array of shape (4,)"),
        (np.ones((3, 0)), "worker 1 gave an array of shape (3, 0)"),
        (np.ones((3, 4), complex), "worker 1 gave ndarray of complex128"),
        (np.ma.masked_array(GOOD), "worker 1 gave MaskedArray"),
        ([[1.0, 2.0], [3.0]], "worker 1 gave no array (ValueError)"),
        ("gradient", "worker 1 gave str"),
        (None, "worker 1 gave NoneType"),
        (Hostile(), "worker 1 gave no array (RuntimeError)"),
    ],
)
def test_the_worker_is_named(bad: Any, words: str) -> None:
    with pytest.raises(BadInput) as refused:
        estimate([GOOD, bad, GOOD, GOOD])
    assert words in str(refused.value)
    assert str(refused.value).endswith(".")


def test_other_refusals() -> None:
    with pytest.raises(BadInput, match="at least 2"):
        estimate([GOOD])
    with pytest.raises(BadInput, match="a name a worker"):
        estimate([GOOD, GOOD], ["one"])
    with pytest.raises(BadInput, match="too large"):
        estimate([GOOD, np.array([[1e200] * 4, [-1e200] * 4])])
    noisy, still = np.array([[1e-200] * 4, [3e-200] * 4]), np.full((4, 4), 1e-200)
    for tiny in ([noisy, noisy], [still, 3 * still]):
        with pytest.raises(BadInput, match="too small"):
            estimate(tiny)
    assert estimate([still, still]).sigma == 0
    with pytest.raises(BadInput, match=r"bob has a number"):
        estimate([GOOD, GOOD * np.nan], ["ann", "bob"])


def run(line: str) -> Any:
    app = typer.Typer()
    app.command()(command)
    return CliRunner().invoke(app, line.split(), env={"COLUMNS": "200"})


def test_the_command_reads_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = run("one.npy two.npz three.safetensors --sample").stdout
    assert "one.npy" in text
    assert "G = " in text
    given = workers(np.random.default_rng(5), d=6)[:2]
    np.save("a.npy", given[0])
    np.savez("a.npz", w=given[0][:, :4].reshape(-1, 2, 2), b=given[0][:, 4:])
    save_file({"w": np.ascontiguousarray(given[1][:, :4]), "b": np.ascontiguousarray(given[1][:, 4:])}, "b.safetensors")
    parts = json.loads(run("a.npz b.safetensors --json").stdout)
    assert parts["workers"]["a.npz"]["sigma"] == pytest.approx(math.sqrt(given[0].var(axis=0, ddof=1).sum()))
    assert parts["d"] == 6
    np.savez("c.npz", w=np.ones((3, 2)), b=np.ones((2, 2)))
    assert "c.npz has no entries" in str(run("a.npy c.npz").exception)
    assert isinstance(run("a.npy").exception, BadInput)
