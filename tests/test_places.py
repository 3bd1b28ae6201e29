"""Arithmetic happens where the vectors live: the same answers everywhere, and little that leaves a device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import array_api_strict as strict
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from holdfast import (
    CWM,
    CWTM,
    BadInput,
    CenteredClipping,
    GeometricMedian,
    Krum,
    MeaMed,
    Mean2P,
    MeanwO,
    NearestTo,
    StreamCenterwO,
    places,
)
from holdfast.geometry import distances
from holdfast.points import Points
from holdfast.reading import read
from holdfast.testing import laws
from holdfast.testing.rounds import attacked, gaussian
from tests.oracles import oracle
from tests.rules_under_test import EXACT, IN_ORDER, RULES, calls
from tests.shelves import DEVICES, LIBRARIES, NARROW, given, held, numbers

EVERYWHERE = pytest.mark.parametrize("library", LIBRARIES, indirect=True)
Moved = Callable[[], int]


@pytest.fixture
def moved(monkeypatch: pytest.MonkeyPatch) -> Moved:
    """How many bytes have left a device since the last question."""
    fetch, counted = places.fetch, [0]

    def counting(x: Any) -> np.ndarray:
        out = fetch(x)
        counted[0] += 0 if isinstance(x, np.ndarray) else out.nbytes
        return out

    def since() -> int:
        bytes_, counted[0] = counted[0], 0
        return bytes_

    for module in ("places", "host"):
        monkeypatch.setattr(f"holdfast.{module}.fetch", counting)
    return since


def on(library: str, rule: Any, **call: Any) -> Callable[[np.ndarray], np.ndarray]:
    """The rule on rows of numpy that are given as another library's."""
    return lambda X: numbers(rule(given(X, library), **call)).astype(np.float64)


@EVERYWHERE
@pytest.mark.parametrize("rule", [*RULES, *EXACT, StreamCenterwO(2)], ids=repr)
def test_every_rule_answers_as_on_numpy_and_as_its_definition(rule: Any, library: str) -> None:
    for kind, dtype in (("far", np.float32), ("sneak", np.float64)):
        X = held(attacked(np.random.default_rng(1), 13, 2, 60, kind)[0].astype(dtype), library)
        call, size = calls(rule, 60), float(np.abs(X).max())
        got = on(library, rule, **call)(X)
        assert laws.close(got, rule(X, **calls(rule, 60)), X.dtype, size)
        if not isinstance(rule, StreamCenterwO) and rule not in EXACT:
            draws = {"rng": np.random.default_rng(5)} if rule.random else {}
            assert laws.close(got, oracle(rule, X.astype(np.float64), **draws), X.dtype, size)


class Elsewhere:
    """A rule whose rows are given as another library's, for the laws."""

    def __init__(self, rule: Any, library: str) -> None:
        self.rule, self.library = rule, library

    def __call__(self, X: np.ndarray) -> np.ndarray:
        return on(self.library, self.rule)(X)


@EVERYWHERE
@pytest.mark.parametrize("rule", [r for r in RULES if not r.random and not isinstance(r, IN_ORDER)], ids=repr)
def test_the_laws_hold_everywhere(rule: Any, library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if library in NARROW:
        monkeypatch.setitem(laws.TOLERANCE, np.dtype(np.float64), 2e-5)
    rng = np.random.default_rng(7)
    X = gaussian(rng, 13, 5)
    laws.permutation(Elsewhere(rule, library), X, rng)
    if not any(stage.anchors and stage.anchors != ("answer",) for stage in rule.stages()):
        laws.translation(Elsewhere(rule, library), X, rng)
        if not any(stage.lengths for stage in rule.stages()):
            laws.scale(Elsewhere(rule, library), X, rng)


@EVERYWHERE
def test_two_candidates_everywhere(library: str) -> None:
    X = held(attacked(np.random.default_rng(0), 13, 4, 40, "siege")[0], library)
    both, plain = Mean2P(4).propose(given(X, library)), Mean2P(4).propose(X)
    for one, wanted in ((both.inner, plain.inner), (both.outer, plain.outer)):
        assert one.kept == wanted.kept
        assert laws.close(numbers(one.value), wanted.value, X.dtype, float(np.abs(X).max()))
    reports = [(i, (1.0, 0.5)) for i in range(13)]
    assert Mean2P(4).elect(both, reports) == Mean2P(4).elect(plain, reports)


@pytest.mark.parametrize("library", ["torch device", "strict device1"], indirect=True)
@pytest.mark.parametrize("d", [3_000, 30_000, 100_000])
@pytest.mark.parametrize("rule", [MeanwO(3), Krum(3), GeometricMedian()], ids=repr)
def test_only_n_by_n_numbers_leave_a_device(rule: Any, d: int, library: str, moved: Moved) -> None:
    n = 12
    X = given(gaussian(np.random.default_rng(0), n, d).astype(np.float32), library)
    rule(X)
    assert 8 * n * n <= moved() <= 8 * (n * n + 8 * n) + 64  # one pass, whatever d is
    rule([{"a": X[i, : d // 3], "b": X[i, d // 3 :]} for i in range(n)])
    assert moved() <= 8 * (n * n + 8 * n) + 64


@pytest.mark.parametrize("library", NARROW, indirect=True)
@pytest.mark.parametrize("size", [1e-10, 1e-20, 1e-30, 1e-36])
@pytest.mark.parametrize("where", ["around the origin", "around a row"])
def test_rows_much_smaller_than_others_have_certified_distances_without_float64(
    library: str, size: float, where: str
) -> None:
    X = np.random.default_rng(0).standard_normal((9, 50)).astype(np.float32)
    X[:3] = X[:3] * np.float32(size) + (X[3] if where == "around a row" else 0)
    decision = MeanwO(f=3).decide(given(X, library))
    true = np.square(X[:, None].astype(np.longdouble) - X).sum(axis=2)
    assert decision.distances is not None
    assert (np.abs(decision.distances - true) <= decision.error * true).all()


@pytest.mark.parametrize("library", ["jax", "strict no_float64"], indirect=True)
@pytest.mark.parametrize("d", [3_000, 30_000, 100_000])
def test_without_float64_block_sums_are_added_on_the_host(d: int, library: str, moved: Moved) -> None:
    n = 12
    MeanwO(3)(given(gaussian(np.random.default_rng(0), n, d).astype(np.float32), library))
    assert moved() <= 4 * n * n * -(-d // places.BLOCK) + 64 * n
    assert places.BLOCK >= 8192


@pytest.mark.parametrize("library", ["torch device", "jax", "strict device1", "strict no_float64"], indirect=True)
@pytest.mark.parametrize("rule", [CWM(), CWTM(3), MeaMed(3)], ids=repr)
def test_what_leaves_a_coordinate_rule_does_not_grow_with_d(rule: Any, library: str, moved: Moved) -> None:
    counts = []
    for d in (1_000, 400_000):
        X = given(gaussian(np.random.default_rng(0), 12, d).astype(np.float32), library)
        rule(X)
        counts.append(moved())
        rule.decide(X)
        assert moved() <= 64 * 12
    assert counts[0] == counts[1] <= 64


@pytest.mark.parametrize("rule", [MeanwO(3), CWTM(3), NearestTo(CWTM(3)), CenteredClipping(1.0)], ids=repr)
@pytest.mark.parametrize("name", DEVICES)
def test_the_answer_stays_on_its_device(rule: Any, name: str) -> None:
    X = gaussian(np.random.default_rng(0), 12, 50).astype(np.float32)
    out = rule(given(X, name))
    assert out.device == DEVICES[name]
    assert out.dtype == strict.float32
    assert rule(given(X.reshape(12, 5, 10), name)).shape == (5, 10)


def test_each_entry_of_an_update_lives_on_its_own_device() -> None:
    X = gaussian(np.random.default_rng(0), 11, 60)
    there, wide = DEVICES["strict device1"], DEVICES["strict CPU_DEVICE"]
    updates = [
        {
            "a": strict.asarray(row[:20], device=there),
            "b": strict.asarray(row[20:40].astype(np.float32), device=DEVICES["strict no_float64"]),
            "c": [strict.asarray(row[40:50], device=wide), torch.from_numpy(row[50:].copy())],
        }
        for row in X
    ]
    for rule in (MeanwO(3), CWTM(3), GeometricMedian(), CenteredClipping(2.0, 2), StreamCenterwO(3)):
        out = rule(updates)
        assert out["a"].device == there
        assert out["b"].device == DEVICES["strict no_float64"]
        assert isinstance(out["c"][1], torch.Tensor)
        got = np.concatenate([numbers(part) for part in (out["a"], out["b"], *out["c"])])
        assert np.allclose(got, rule(X), rtol=1e-5, atol=1e-5)


def test_a_row_of_another_library_or_device_is_brought_over() -> None:
    X = gaussian(np.random.default_rng(0), 11, 60)
    rows: list[Any] = [given(row, "strict device1") for row in X]
    rows[2], rows[5], rows[7] = X[2], torch.from_numpy(X[5]), given(X[7], "strict CPU_DEVICE")
    for rule in (MeanwO(3), CWTM(3), CenteredClipping(2.0)):
        out = rule(rows)
        assert out.device == DEVICES["strict device1"]
        assert laws.close(numbers(out), rule(X))
    start = CenteredClipping(2.0)(rows, start=X[0])
    assert laws.close(numbers(start), CenteredClipping(2.0)(X, start=X[0]))


@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16])
def test_half_precision_is_widened_on_the_device(half: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.arrays.viewable", tuple)
    T = torch.from_numpy(gaussian(np.random.default_rng(0), 11, 500)).to(half)
    for rule in (MeanwO(3), CWTM(3), GeometricMedian()):
        out = rule(T)
        assert out.dtype == half
        assert np.abs(out.double().numpy() - rule(T.double().numpy())).max() < 2e-2
    assert MeanwO(3)(jnp.asarray(T.float().numpy(), jnp.bfloat16)).dtype == jnp.bfloat16


class Counting(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts tensor operations."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += 1
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("blocks", [1, 3, 10])
def test_a_distance_pass_takes_few_operations_a_block(blocks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.arrays.viewable", tuple)
    monkeypatch.setattr("holdfast.places.IN_PLACE", 1 << 18)
    n = 16
    width = places.Place.width(None, n, view=True)  # type: ignore[arg-type]
    X = torch.randn(n, blocks * width - 100)
    updates = read(X, "test")
    with Counting() as seen:
        distances(Points.rows(updates, np.arange(n)))
    assert seen.count <= 12 * blocks + 4


@pytest.mark.parametrize("precision", ["high", "medium"])
def test_the_bound_is_as_wide_as_the_settings_of_torch_allow(precision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(9, 4000)).astype(np.float32)
    exact = np.array([((X.astype(np.float64) - row) ** 2).sum(axis=1) for row in X.astype(np.float64)])
    plain = MeanwO(2).decide(torch.from_numpy(X))
    torch.set_float32_matmul_precision(precision)
    try:
        for views in (False, True):
            if views:
                monkeypatch.setattr("holdfast.arrays.viewable", tuple)
            seen = MeanwO(2).decide(torch.from_numpy(X))
            assert seen.distances is not None
            assert (np.abs(seen.distances - exact) <= seen.error * exact + 1e-12).all()
    finally:
        torch.set_float32_matmul_precision("highest")
    assert seen.error > plain.error or seen.error < 1e-6  # enlarged, or measured again in float64


def test_autocast_changes_nothing() -> None:
    T = torch.randn(11, 3000) + 5
    wanted = MeanwO(3)(T)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(MeanwO(3)(T), wanted)


def test_transformed_functions_of_jax_get_one_sentence() -> None:
    X = jnp.asarray(gaussian(np.random.default_rng(0), 7, 5))
    transformed: Any
    for transformed in (jax.jit(MeanwO(2)), jax.vmap(MeanwO(2)), jax.grad(lambda Y: MeanwO(2)(Y).sum())):
        with pytest.raises(BadInput, match=r"^MeanwO\(f=2\): a traced JAX array .* outside of jit, vmap and grad\."):
            transformed(X)
    with pytest.raises(BadInput, match="outside of jit"):
        jax.jit(lambda rows: CWTM(2)(list(rows)))(X)


def test_the_answer_to_tensors_that_require_grad_is_detached() -> None:
    T = torch.randn(7, 5, requires_grad=True)
    for rule in (MeanwO(2), CWTM(2)):
        assert not rule(T).requires_grad
        assert not rule([{"w": row} for row in T])["w"].requires_grad
