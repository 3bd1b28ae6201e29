"""All the shapes in which updates come, and what becomes of malformed ones."""

from __future__ import annotations

import logging
from collections import OrderedDict, defaultdict, namedtuple
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
import torch

from holdfast import CWM, CWTM, NNM, Average, BadInput, CenteredClipping, GeometricMedian, MeanwO
from holdfast.points import Points
from holdfast.reading import read
from holdfast.testing import laws
from holdfast.testing.rounds import attacked

X = attacked(np.random.default_rng(0), 11, 3, 24, "sneak")[0]
RULES: list[Any] = [MeanwO(3), CWTM(3), GeometricMedian(), NNM(3) >> CWM(), CenteredClipping(2.0, 2)]
SPLIT = (6, 18)  # a (2, 3) matrix, a vector of 12, and a (6,)


def _leaves(row: Any) -> list[Any]:
    return [row[:6].reshape(2, 3), row[6:18], row[18:]]


def _dict(row: Any) -> dict[str, Any]:
    return dict(zip(("w", "body", "a.bias"), _leaves(row), strict=True))


def _memmap(A: np.ndarray, folder: Path) -> np.ndarray:
    path = folder / "x.npy"
    np.save(path, A)
    return np.load(path, mmap_mode="r")


SHAPES: dict[str, Any] = {
    "rows": lambda A, p: list(A),
    "lists": lambda A, p: [_leaves(row) for row in A],
    "tuples": lambda A, p: [tuple(_leaves(row)) for row in A],
    "dicts": lambda A, p: [_dict(row) for row in A],
    "state_dicts": lambda A, p: [OrderedDict(_dict(torch.from_numpy(row.copy()))) for row in A],
    "nested": lambda A, p: [{"net": _dict(row), "extra": [row[:0]]} for row in A],
    "memmap": _memmap,
    "torch": lambda A, p: torch.from_numpy(A.copy()),
    "torch rows": lambda A, p: [torch.from_numpy(row.copy()).requires_grad_() for row in A],
    "jax": lambda A, p: jnp.asarray(A),
    "jax dicts": lambda A, p: [_dict(jnp.asarray(row)) for row in A],
    "fortran": lambda A, p: np.asfortranarray(A),
    "strided": lambda A, p: np.repeat(A, 2, axis=1)[:, ::2],
    "strided rows": lambda A, p: [np.repeat(row, 3)[::3] for row in A],
    "images": lambda A, p: A.reshape(11, 2, 3, 4),
    "python numbers": lambda A, p: A.astype(float).tolist(),
    "generator": lambda A, p: (row for row in A),
    "other key order": lambda A, p: [
        _dict(row) if i % 2 else dict(reversed(_dict(row).items())) for i, row in enumerate(A)
    ],
}


def _flat(update: Any) -> np.ndarray:
    if isinstance(update, dict):
        order = ("w", "body", "a.bias") if "w" in update else ("net",)
        return np.concatenate([_flat(update[key]) for key in order])
    if isinstance(update, (list, tuple)):
        return np.concatenate([_flat(part) for part in update])
    return np.asarray(update).reshape(-1)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_every_shape_gives_the_same_answer(rule: Any, shape: str, dtype: Any, tmp_path: Path) -> None:
    A = X.astype(dtype)
    given = SHAPES[shape](A, tmp_path)
    plain = rule.decide(A)
    decision = rule.decide(given)
    assert laws.close(_flat(decision.value), plain.value, np.float32 if "jax" in shape else dtype)
    assert decision.kept == plain.kept
    if shape in ("rows", "memmap", "fortran", "strided", "lists", "state_dicts"):
        leaf = decision.value if not isinstance(decision.value, (list, dict)) else _leaves_of(decision.value)[0]
        assert str(leaf.dtype).endswith(np.dtype(dtype).name)


def _leaves_of(update: Any) -> list[Any]:
    return list(update.values()) if isinstance(update, dict) else list(update)


def test_the_answer_has_the_structure_of_one_update() -> None:
    out = MeanwO(3)([OrderedDict(_dict(torch.from_numpy(row))) for row in X])
    assert type(out) is OrderedDict
    assert list(out) == ["w", "body", "a.bias"]
    assert out["w"].shape == (2, 3)
    assert isinstance(out["w"], torch.Tensor)
    assert MeanwO(3)(X.reshape(11, 2, 3, 4)).shape == (2, 3, 4)
    assert isinstance(MeanwO(3)(jnp.asarray(X)), jnp.ndarray)
    assert isinstance(MeanwO(3)([tuple(_leaves(row)) for row in X]), tuple)


@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16])
def test_half_precision(half: Any) -> None:
    T = torch.from_numpy(X).to(half)
    out = MeanwO(3)(T)
    assert out.dtype == half
    wanted = MeanwO(3)(T.double().numpy())
    assert np.abs(out.double().numpy() - wanted).max() < 2e-2
    rows = MeanwO(3)([{"w": row} for row in T])["w"]
    assert torch.equal(rows, out)
    assert MeanwO(3)(X.astype(np.float16)).dtype == np.float16
    assert MeanwO(3)(jnp.asarray(X, jnp.bfloat16)).dtype == jnp.bfloat16


def test_a_tensor_that_numpy_cannot_view_is_read_block_by_block(monkeypatch: pytest.MonkeyPatch) -> None:
    """The way of GPU tensors: no view, columns come over one block at a time."""
    monkeypatch.setattr("holdfast.arrays.viewable", lambda: ())
    for rule in RULES:
        for dtype in (torch.float32, torch.float64):
            T = torch.from_numpy(X).to(dtype)
            out = rule(T)
            assert out.dtype == dtype
            assert laws.close(out.numpy(), rule(T.numpy()), T.numpy().dtype)
            assert laws.close(rule([{"w": row} for row in T])["w"].numpy(), rule(T.numpy()), T.numpy().dtype)


def test_integers() -> None:
    A = np.arange(22).reshape(11, 2) ** 2
    assert MeanwO(3)(A).dtype == np.float64
    assert MeanwO(3)(torch.from_numpy(A)).dtype == torch.float64
    assert laws.close(MeanwO(3)(A), MeanwO(3)(A.astype(float)))
    assert laws.close(CWM()([list(map(int, row)) for row in A]), np.median(A, axis=0))


def test_counters_of_a_dict_take_the_lower_median_of_the_kept() -> None:
    updates = [{"w": row, "seen": torch.tensor(10 * i)} for i, row in enumerate(X)]
    for rule in (MeanwO(3), CWTM(3)):
        decision = rule.decide(updates)
        seen = sorted(10 * i for i in (decision.kept if isinstance(rule, MeanwO) else range(11)))
        assert decision.value["seen"] == seen[(len(seen) - 1) // 2]
        assert decision.value["seen"].dtype == torch.int64


def test_a_filter_says_which_entries_count_in_distances() -> None:
    updates = [{"w": row, "bn": np.array([1e6 * i])} for i, row in enumerate(X)]
    everything, some = MeanwO(3).decide(updates), MeanwO(3).decide(updates, measure=lambda name: name == "w")
    assert some.kept == MeanwO(3).decide(X).kept != everything.kept
    assert some.value["bn"] == pytest.approx(1e6 * np.mean(some.kept))
    with pytest.raises(BadInput, match="was given measure = 'w'; it is a function of a name"):
        MeanwO(3)(updates, measure="w")  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="told to measure none of bn and w"):
        MeanwO(3)(updates, measure=lambda name: False)


def test_mixed_precision_among_workers() -> None:
    """The commonest dtype and library decide, so that no liar does; of two, the wider."""
    rows = [row.astype(np.float32 if i % 2 else np.float64) for i, row in enumerate(X)]
    assert MeanwO(3)(rows).dtype == np.float64
    assert laws.close(MeanwO(3)(rows), MeanwO(3)(X), np.float32)
    assert MeanwO(3)(rows[1:]).dtype == np.float64
    for liar in (np.zeros(24, np.float16), np.zeros(24, int), [0.0] * 24, torch.zeros(24, dtype=torch.float64)):
        for at in (0, 5):
            given: list[Any] = [torch.from_numpy(row.astype(np.float32)) for row in X]
            given[at] = liar
            out = MeanwO(3)(given)
            assert isinstance(out, torch.Tensor)
            assert out.dtype == torch.float32
    counts: list[Any] = [{"w": row, "n": np.int64(7)} for row in X]
    counts[0] = {"w": X[0], "n": 2.5}
    counts[1] = {"w": X[1], "n": np.float64("nan")}
    assert MeanwO(3)(counts)["n"] == 7
    assert MeanwO(3)(counts)["n"].dtype == np.int64


def test_tensors_without_data_are_malformed() -> None:
    given: list[Any] = [torch.from_numpy(row) for row in X]
    given[4] = torch.zeros(24, device="meta")
    assert "without data" in MeanwO(3).decide(given, like=given[0]).dropped[4]


def test_names_that_collide_are_malformed() -> None:
    model = {"a": {"b": X[0, :3]}, "c": X[0, :4]}
    twice = {"a": {"b": X[0, :3]}, "a.b": X[0, :3], "c": X[0, :4]}
    decision = MeanwO(1).decide([model, model, model, twice], like=model)
    assert decision.dropped == {3: "entries of the same name"}


def test_a_start_may_be_an_answer_of_before() -> None:
    for dtype in (torch.bfloat16, torch.float16, torch.float32):
        T = torch.from_numpy(X).to(dtype)
        rule = CenteredClipping(1.0)
        assert rule(T, start=rule(T)).dtype == dtype


BAD: list[tuple[Any, str]] = [
    ([], "n = 0"),
    (np.zeros((0, 3)), "n = 0"),
    (np.zeros((5, 0)), "empty"),
    ([[], [], []], "an empty update"),
    ([{}, {}, {}], "an empty update"),
    (np.zeros(5), "shape (5,)"),
    (np.float64(3.0), "shape ()"),
    (3.0, "a float"),
    ("MeanwO", "a str"),
    (None, "a NoneType"),
    ({"a": X[0]}, "a dict"),
    ([1.0, 2.0, 3.0], "a float"),
    ([np.float64(1.0)] * 3, "a scalar"),
    (["a", "b", "c"], "a str"),
    (np.array(["a", "b"]).reshape(2, 1), "array of <U1"),
    (np.zeros((3, 2), complex), "complex128"),
    ([np.zeros(2, complex)] * 3, "complex128"),
    (torch.zeros(3, 2, dtype=torch.complex64), "complex64"),
    (torch.zeros(3, 2).to_sparse(), "layout"),
    (torch.zeros(3, 2, device="meta"), "without data"),
    ([torch.zeros(2).to_sparse()] * 3, "layout"),
    (np.zeros((3, 2), object), "object"),
    ([np.zeros(3), np.zeros(3), np.zeros(4)], "update 2: shape (4,) instead of (3,)"),
    ([np.zeros(3), np.zeros(4), np.zeros(3)], "update 1 differs from the others"),
    ([{"a": X[0]}, {"a": X[1]}, {"b": X[2]}], "update 2: no entry 'a'"),
    ([{"a": X[0]}, {"a": X[1]}, {"a": X[2], "b": X[2]}], "an unknown entry 'b'"),
    ([{"a": X[0]}, {"a": X[1]}, [X[2]]], "no entry 'a'"),
    ([X[0], X[1], None], "update 2: nothing"),
    ([[1.0, 2.0], [1.0, 10**400], [1.0, 2.0]], "integer beyond"),
    ([[1, 2], [1, 10**400], [1, 2]], "integer beyond"),
    ([[1.0, 2.0], [[1.0], 2.0], [1.0, 2.0]], "update 1"),
]


@pytest.mark.parametrize(("given", "said"), BAD, ids=[said for _, said in BAD])
@pytest.mark.parametrize("rule", [Average(), MeanwO(1), CWTM(1)], ids=repr)
def test_bad_input_gets_one_clear_sentence(rule: Any, given: Any, said: str) -> None:
    with pytest.raises(BadInput) as error:
        rule(given)
    text = str(error.value)
    assert said in text
    assert text.startswith((repr(rule), "a tensor "))
    assert text.endswith(".")
    assert "\n" not in text


def test_a_bomb_of_shared_lists_is_malformed() -> None:
    bomb: Any = X[0]
    for _ in range(30):
        bomb = [bomb, bomb]
    assert "more than 100,000 entries" in MeanwO(1).decide([X[0], X[1], X[2], bomb], like=X[0]).dropped[3]


def test_an_array_that_fails_when_looked_at_is_malformed() -> None:
    class Hostile:
        shape = (24,)

        def __array__(self, *_: Any, **__: Any) -> np.ndarray:
            raise RuntimeError("no")

    assert "no" in MeanwO(1).decide([X[0], X[1], X[2], Hostile()], like=X[0]).dropped[3]
    with pytest.raises(BadInput, match="cannot be read"):
        MeanwO(1)(Hostile())
    with pytest.raises(BadInput, match="masked"):
        MeanwO(1)(np.ma.masked_array(X))


def test_big_counters_and_scalars_keep_their_bits_and_shape() -> None:
    updates = [{"w": torch.from_numpy(row), "n": torch.tensor(2**40 + 1), "k": torch.tensor([2**24 + 1])} for row in X]
    for hidden in (False, True):
        with pytest.MonkeyPatch.context() as patch:
            if hidden:
                patch.setattr("holdfast.arrays.viewable", lambda: ())
            out = MeanwO(3)(updates)
        assert out["n"].shape == ()
        assert out["n"] == 2**40 + 1
        assert out["k"].tolist() == [2**24 + 1]


def test_containers_keep_their_kind() -> None:
    Pair = namedtuple("Pair", "a b")
    assert type(MeanwO(3)([Pair(row[:3], row[3:]) for row in X])) is Pair
    assert MeanwO(3)([defaultdict(list, w=row) for row in X])["w"].shape == (24,)


def test_endless_nesting_is_malformed() -> None:
    deep: Any = X[0]
    for _ in range(5000):
        deep = [deep]
    loop: list[Any] = []
    loop.append(loop)
    keys: dict[str, Any] = {}
    keys[""] = keys
    for hostile in (deep, loop, keys):
        decision = MeanwO(1).decide([X[0], X[1], X[2], hostile], like=X[0])
        assert "deeper" in decision.dropped[3]


def test_with_a_model_malformed_updates_are_dropped_by_name(caplog: pytest.LogCaptureFixture) -> None:
    model = _dict(X[0])
    updates: list[Any] = [_dict(row) for row in X]
    updates[2] = None
    updates[5] = {**updates[5], "w": np.zeros((3, 3))}
    updates[7] = {**updates[7], "body": updates[7]["body"] + np.nan}
    with caplog.at_level(logging.INFO, "holdfast"):
        decision = MeanwO(3).decide(updates, like=model)
    assert decision.dropped == {2: "nothing", 5: "shape (3, 3) instead of (2, 3) at 'w'", 7: "not finite"}
    assert "2: nothing" in caplog.text
    left = np.delete(X, [2, 5, 7], axis=0)
    assert laws.close(_flat(decision.value), MeanwO(3)(left))
    with pytest.raises(BadInput, match="none of the structure"):
        MeanwO(1)([None, None, None], like=model)
    with pytest.raises(BadInput, match="`like` that is no update"):
        MeanwO(1)(list(X), like="model")
    with pytest.raises(BadInput, match="`like` has another structure"):
        MeanwO(1)(X, like=X[0, :3])
    wide = [row.astype(np.float64) * (1e300 if i == 1 else 1) for i, row in enumerate(X)]
    pinned = MeanwO(3).decide(wide, like=X[0].astype(np.float32))
    assert pinned.dropped == {1: "not finite"}
    assert pinned.value.dtype == np.float32


def test_inputs_are_not_changed_and_may_be_read_only() -> None:
    A = X.copy()
    A.flags.writeable = False
    for rule in RULES:
        rule(A)
        out = rule(list(A))
        assert out.flags.writeable
        assert not any(np.shares_memory(out, row) for row in A)


def test_shards_add_up() -> None:
    """Squared distances over column shards sum to those of the whole, and so does everything decided from them."""
    from holdfast.geometry import distances

    for dtype in (np.float32, np.float64):
        A = X.astype(dtype)
        pieces = [A[:, :7], A[:, 7:8], A[:, 8:]]
        D = sum(distances(Points.rows(read(piece, "shard"), np.arange(11)))[0] for piece in pieces)
        choice = MeanwO(3).choose(np.asarray(D))
        whole = MeanwO(3).decide(A)
        assert tuple(np.flatnonzero(choice.weights)) == whole.kept
        assert laws.close(np.concatenate([choice.weights @ piece for piece in pieces]), whole.value, dtype)


def test_updates_that_differ_are_named_by_their_workers_and_what_they_sent() -> None:
    good, bad = {"fc.weight": np.zeros(3)}, {"fc.weight": [np.zeros(1), np.zeros(2)]}
    with pytest.raises(BadInput, match=r"update site-b differs .*a list or a dict at 'fc.weight' instead of one array"):
        MeanwO(f=1)([good, good, bad], names=["site-a", "site-c", "site-b"])
