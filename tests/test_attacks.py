"""Each attack against vectors computed by hand, slow oracles from the literature, and rounds that want to break it."""

from __future__ import annotations

import importlib
import math
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

from holdfast import (
    CWM,
    CWTM,
    NNM,
    Average,
    BadInput,
    Bucketing,
    Bulyan,
    Cent2P,
    CenteredClipping,
    CenterwO,
    GeometricMedian,
    Krum,
    MeaMed,
    Mean2P,
    MeanwO,
    NearestTo,
    NormBoundedMean,
    Numeric,
    OuterMean,
    TwoPhase,
    parse,
)
from holdfast.attacks import (
    ALIE,
    ATTACKS,
    NAMED,
    PGA,
    VOTERS,
    Attack,
    Canvass,
    CodedPGA,
    Empire,
    Fang,
    Gauss,
    Inf,
    LabelFlip,
    Malformed,
    Mimic,
    MinMax,
    MinSum,
    NaN,
    NoAttack,
    Omniscient,
    ScaledVariance,
    SignFlip,
    Silent,
    Spread,
    Trigger,
    View,
    Voter,
    Zero,
    list_paper_attacks,
    tailored,
)
from holdfast.attacks.hidden import Direction
from holdfast.attacks.informed import moments, zmax
from holdfast.testing.laws import close
from holdfast.values import value
from tests.rules_under_test import EXACT, RULES, calls

EVERY: list[Attack] = [
    NoAttack(),
    LabelFlip(),
    LabelFlip(by="authors"),
    LabelFlip(pairs=((1, 7), (7, 1))),
    Trigger(),
    Trigger(target=3, share=0.1, size=2, scale=5.0),
    SignFlip(),
    SignFlip(scale=4.0),
    Gauss(),
    Gauss(sigma=2.0, mu=-1.0),
    Gauss(length="deviation"),
    Gauss(length="minus"),
    Zero(),
    Inf(),
    NaN(),
    Silent(),
    Malformed(),
    Omniscient(),
    Omniscient(form="text"),
    Empire(),
    Empire(scale=3.0),
    ScaledVariance(),
    ScaledVariance(z=-20 / 35, over="honest"),
    ALIE(),
    ALIE(z=-1.5),
    MinMax(),
    MinMax(along="sign"),
    MinSum(along="mean"),
    Mimic(),
    Mimic(worker=0),
    Fang(),
    Fang(against="krum"),
    Fang(against="trim"),
    MinMax(along="coordinate"),
    Spread(Empire(scale=0.1)),
    Spread(Gauss(length="minus")),
    Spread(Spread(ALIE())),
    Spread(Silent()),
    Spread(PGA(along="std")),
    PGA(),
    PGA(along="mean", spread=True),
    PGA(along="std", thorough=True),
    PGA(along="coordinate"),
    Canvass(),
    Canvass(along="std", spread=False),
    CodedPGA(),
]
FINITE = [a for a in EVERY if not isinstance(a, (Inf, NaN, Silent, Malformed)) and a != Spread(Silent())]
SEARCHES = [a for a in FINITE if isinstance(a, (PGA, Canvass)) or "PGA" in repr(a)]
NOISE = ("Gauss", "trim")
MODEL = [a for a in FINITE if a not in SEARCHES and not any(name in repr(a) for name in NOISE)]  # no search, no noise
ALONG: tuple[Direction, ...] = ("sign", "std", "mean", "coordinate")


def view(seed: int = 0, h: int = 9, b: int = 3, d: int = 5, dtype: Any = np.float64, **more: Any) -> View:
    """A round of normal rows around (0.5, ..., 0.5)."""
    X = (np.random.default_rng(seed).normal(size=(h + b, d)) + 0.5).astype(dtype)
    return View(honest=X[:h], own=X[h:], **more)


def scaled(seen: View, by: float, dtype: Any = np.float64) -> View:
    X, Y = (np.asarray(by * rows.astype(float)).astype(dtype) for rows in (seen.honest, seen.own))
    return View(honest=X, own=Y, rule=seen.rule, f=seen.f)


def rows(*lines: list[float]) -> np.ndarray:
    return np.array(lines, dtype=float)


# by hand: two coordinates, small whole numbers

HAND = View(
    honest=rows([1, 0], [3, 0], [2, 6], [2, -2]),  # mean (2, 1); squares about it 1, 1, 0, 0 and 1, 1, 25, 9
    own=rows([3, 4], [5, -2]),  # mean (4, 1); sum of all rows 8 + 8 = 16 and 4 + 2 = 6
)


@pytest.mark.parametrize(
    ("attack", "wanted"),
    [
        (NoAttack(), [[3, 4], [5, -2]]),
        (LabelFlip(), [[3, 4], [5, -2]]),  # the labels are wrong, the row is what they give
        (SignFlip(), [[-3, -4], [-5, 2]]),
        (SignFlip(scale=4), [[-12, -16], [-20, 8]]),
        (Gauss(sigma=0, mu=3), [[3, 3], [3, 3]]),
        (Trigger(scale=2), [[6, 8], [10, -4]]),  # the images are wrong; the row is what they give, twice as long
        (Zero(), [[0, 0], [0, 0]]),
        (Empire(scale=0.5), [[-1, -0.5]] * 2),  # -0.5 (2, 1)
        (Empire(scale=0), [[0, 0]] * 2),
        (Omniscient(), [[-12, -5]] * 2),  # mean of all (16/6, 1); 2n/b = 6; (4, 1) - (16, 6)
        (Omniscient(form="text"), [[16 / 6 - 24, 1 - 6]] * 2),  # (16/6, 1) - 6 (4, 1)
        (ScaledVariance(z=2, over="honest"), [[2 - math.sqrt(2), -5]] * 2),  # variance (2/4, 36/4): σ = (√½, 3)
        (ALIE(z=1.0), [[2 - math.sqrt(0.5), -2]] * 2),
        (Mimic(worker=2), [[2, 6]] * 2),
        (Mimic(), [[2, 6]] * 2),  # the second coordinate varies most (36 against 2); (2, 6) is 5 off in it
        (Spread(Zero()), [[-1, 3], [1, -3]]),  # own minus (4, 1)
        (Spread(Empire(scale=0.5)), [[-2, 2.5], [0, -3.5]]),  # the same plus (-1, -0.5)
    ],
    ids=repr,
)
def test_rows_by_hand(attack: Attack, wanted: list[list[float]]) -> None:
    assert close(attack(HAND), np.array(wanted, float))


def test_scaled_variance_over_all_by_hand() -> None:
    """1, 3 and 5, 7: mean 4, variance (9 + 1 + 1 + 9)/4 = 5."""
    seen = View(honest=rows([1], [3]), own=rows([5], [7]))
    assert close(ScaledVariance(z=3.0)(seen), np.full((2, 1), 4 - 3 * math.sqrt(5)))


def test_min_max_and_min_sum_by_hand() -> None:
    """Rows (±3, 0) and (0, ±3) + (4, 0): mean (4, 0), diameter 6, so along the mean 4 - γ is at most 6 from 4 + 3.

    Sums of squares: each row sees 36 + 18 + 18 = 72; about the mean 36; γ² = (72 - 36)/4 = 9.
    """
    seen = View(honest=rows([7, 0], [1, 0], [4, 3], [4, -3]), own=np.zeros((1, 2)))
    assert close(MinMax(along="mean")(seen), rows([1, 0]))
    assert close(MinSum(along="mean")(seen), rows([1, 0]))
    assert close(MinMax(along="sign")(seen), rows([1, 0]))  # signs (1, 0): zero has none


def test_no_attack_and_silence_and_wrong_shapes() -> None:
    assert np.isinf(Inf()(HAND)).all()
    assert np.isnan(NaN()(HAND)).all()
    assert Silent()(HAND) == [None, None]
    sent: list[Any] = Malformed()(view(b=6))
    short, matrix, text, mapping, nothing, again = sent
    assert short.shape == (4,)
    assert matrix.shape == (2, 2)
    assert isinstance(text, str)
    assert isinstance(mapping, dict)
    assert nothing is None
    assert again.shape == (4,)


# by independent oracles


@pytest.mark.parametrize("n", [3, 4, 10, 11, 20, 35, 50])
def test_alie_stands_where_baruch_et_al_say(n: int) -> None:
    """Section 3: s = floor(n/2 + 1) - m supporters; the largest z with Φ(z) < (n - m - s)/(n - m), by bisection."""
    for b in range(1, (n + 1) // 2):
        s = math.floor(n / 2 + 1) - b
        low, high = -40.0, 40.0
        for _ in range(200):
            mid = (low + high) / 2
            low, high = (mid, high) if NormalDist().cdf(mid) < (n - b - s) / (n - b) else (low, mid)
        assert zmax(n, b) == pytest.approx(max(0.0, low), abs=1e-9)


def test_an_attack_on_an_array_met_an_attribute_error() -> None:
    @value
    class Mine(Attack):
        def __call__(self, seen: View) -> Any:
            return seen.own

    for attack in (Empire(scale=0.1), Spread(Zero()), PGA(), Mine()):
        with pytest.raises(
            BadInput, match=r"was given a ndarray; pass View\(honest=\.\.\., own=\.\.\.\), with one row"
        ):
            attack(np.ones((4, 2)))  # type: ignore[arg-type]


def test_a_view_in_the_place_of_rows_names_its_fields() -> None:
    with pytest.raises(
        AttributeError, match=r"^a View has no mean; it has honest, own, .*; write seen\.honest\.mean\.$"
    ):
        view().mean(axis=0)
    assert not hasattr(view(), "colour")
    assert pickle.loads(pickle.dumps(view())).n == view().n


@pytest.mark.parametrize("attack", [Empire(), ALIE(), SignFlip(), MinMax(), PGA()], ids=repr)
def test_torch_rows_in_a_view_met_an_attribute_error(attack: Attack) -> None:
    torch = pytest.importorskip("torch")
    seen = view(h=7, b=3)
    rows: Any = [torch.as_tensor(row) for row in seen.own]
    other = replace(seen, honest=torch.as_tensor(seen.honest).requires_grad_(), own=rows)
    assert np.array_equal(attack(other), attack(seen))


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ({"own": np.ones(5)}, r"own of shape \(5,\) and type float64; pass one row for each worker, shape \(k, d\)"),
        ({"own": np.ones((2, 4))}, r"honest of shape \(9, 5\) and own of shape \(2, 4\); give rows of one length"),
        ({"own": "abc"}, r"own of shape \(3,\) and type <U1"),
        ({"own": None}, "own = a NoneType"),
        ({"honest": [np.ones(2), np.ones(3)]}, "honest = a list"),
    ],
)
def test_a_view_of_no_rows_was_accepted(rows: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput, match=f"^a View was given {said}"):
        replace(view(), **rows)


@pytest.mark.parametrize("n", range(3, 40))
def test_alie_was_silently_the_honest_mean(n: int) -> None:
    for b in range(1, (n + 1) // 2):
        seen = view(h=n - b, b=b)
        same = close(ALIE()(seen), np.tile(seen.honest.mean(axis=0), (b, 1)))
        assert same is bool(ALIE().harmless(n, b)) is (b <= (1 if n % 2 else 2))
        assert Spread(ALIE()).harmless(n, b) == ALIE().harmless(n, b)
    assert ALIE(z=0.0).harmless(n, 1) == "z is 0, so they send the honest mean"
    assert not ALIE(z=1.0).harmless(n, 1)
    assert not SignFlip().harmless(n, 1)


def test_alie_uses_deviations_over_n() -> None:
    seen = view(h=12, b=8)
    wanted = seen.honest.mean(axis=0) - NormalDist().inv_cdf(0.75) * seen.honest.std(axis=0)  # (12 - 3)/12
    assert close(ALIE()(seen), np.tile(wanted, (8, 1)))


def farthest(fits: Callable[[float], bool]) -> float:
    """The largest γ that fits, when all smaller ones do."""
    low, high = 0.0, 1.0
    while fits(high):
        high *= 2
    for _ in range(100):
        mid = (low + high) / 2
        low, high = (mid, high) if fits(mid) else (low, mid)
    return low


def towards(H: np.ndarray, along: str) -> np.ndarray:
    mean = H.mean(axis=0)
    one = np.array([np.sign(x) if abs(x) == max(map(abs, mean)) else 0.0 for x in mean])
    p = {"sign": np.sign(mean), "std": H.std(axis=0), "mean": mean, "coordinate": one}[along]
    return np.asarray(p / math.sqrt(sum(float(x) ** 2 for x in p)))


@pytest.mark.parametrize("along", ALONG)
@pytest.mark.parametrize(("h", "d"), [(2, 1), (3, 1), (5, 2), (9, 5), (4, 30)])
def test_min_max_and_min_sum_equal_a_bisection(h: int, d: int, along: Direction) -> None:
    for seed in range(3):
        H = np.random.default_rng([seed, h, d]).normal(size=(h, d)) * 3 + 1
        mean, p = H.mean(axis=0), towards(H, along)
        D = np.array([[((a - b) ** 2).sum() for a in H] for b in H])

        def most(gamma: float, H: Any = H, mean: Any = mean, p: Any = p, D: Any = D) -> bool:
            return bool(max(((mean - gamma * p - x) ** 2).sum() for x in H) <= D.max())

        def total(gamma: float, H: Any = H, mean: Any = mean, p: Any = p, D: Any = D) -> bool:
            return bool(sum(((mean - gamma * p - x) ** 2).sum() for x in H) <= D.sum(axis=1).max())

        seen = View(honest=H, own=np.zeros((2, d)))
        assert close(MinMax(along=along)(seen), [mean - farthest(most) * p] * 2, size=10.0)
        assert close(MinSum(along=along)(seen), [mean - farthest(total) * p] * 2, size=10.0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("h", "d"), [(3, 1), (5, 2), (9, 40), (30, 4)])
def test_mimic_copies_the_row_that_a_full_svd_finds(h: int, d: int, dtype: Any) -> None:
    for seed in range(8):
        seen = view(seed, h=h, d=d, dtype=dtype)
        off = seen.honest.astype(float) - seen.honest.astype(float).mean(axis=0)
        first = np.linalg.svd(off)[2][0]
        wanted = seen.honest[np.abs(off @ first).argmax()]
        assert np.array_equal(Mimic()(seen), np.tile(wanted, (3, 1)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("offset", [0.0, 1e3])
def test_moments_lose_nothing_to_an_offset(dtype: Any, offset: float) -> None:
    X = (np.random.default_rng(0).normal(size=(40, 6)) + offset).astype(dtype)
    for first in (X, np.roll(X, 1, axis=0)):
        mean, deviation = moments(first[:10], first[10:])
        assert close(mean, X.astype(float).mean(axis=0), dtype)
        assert close(deviation, X.astype(float).std(axis=0), dtype)


def slow_krum(X: list[np.ndarray], f: int) -> int:
    scores = [sum(sorted(float(((x - y) ** 2).sum()) for y in X)[: len(X) - f - 1]) for x in X]
    return scores.index(min(scores))


@pytest.mark.parametrize("rule", [Krum(3), Average(), MeanwO(3), NNM(3) >> Krum(3)], ids=repr)
@pytest.mark.parametrize("d", [2, 30])
def test_fang_against_krum_equals_the_paper_step_by_step(rule: Any, d: int) -> None:
    """Against Krum: from the bound of Theorem 1 on, λ is halved until Krum selects -λ s; its copies support it."""
    n, b = 13, 3
    for seed in range(6):
        seen = view(seed, h=n - b, b=b, d=d, rule=rule)
        H = list(seen.honest)
        s = np.sign(sum(H))
        sums = [sum(sorted(float(((x - y) ** 2).sum()) for y in H)[: n - b - 1]) for x in H]
        lam = math.sqrt(min(sums) / ((n - 2 * b - 1) * d)) + max(map(np.linalg.norm, H)) / math.sqrt(d)
        for _ in range(40):
            if slow_krum([*H, *[-lam * s] * b], b) >= n - b:
                break
            lam /= 2
        assert close(Fang()(seen), np.tile(-lam * s, (b, 1)))


def test_fang_asks_the_very_krum_that_it_meets() -> None:
    seen = [view(4, h=10, d=3, rule=Krum(3, others=others)) for others in ("n-f-2", "n-f-1")]
    for one in seen:
        assert one.rule.decide(np.concatenate([one.honest, Fang()(one)])).kept[0] >= 10


@pytest.mark.parametrize("rule", [CWTM(3), CWM(), NNM(3) >> CWM()], ids=repr)
def test_fang_against_a_trimmed_mean_keeps_to_the_papers_intervals(rule: Any) -> None:
    """With b = 2, for updates: against the sign of the mean, beyond the outermost honest value."""
    sides = set()
    for seed in range(4):
        seen = view(seed, h=10, b=400, d=8, rule=rule)
        seen = View(honest=seen.honest + 3 * (np.arange(8) - 4), own=seen.own, rule=rule)
        sent = Fang()(seen)
        for j in range(8):
            least, most, s = seen.honest[:, j].min(), seen.honest[:, j].max(), np.sign(seen.honest[:, j].sum())
            if s > 0:
                low, high = (least / 2, least) if least > 0 else (2 * least, least)
            else:
                low, high = (most, 2 * most) if most > 0 else (most, most / 2)
            assert low <= sent[:, j].min() <= low + 0.05 * (high - low)
            assert high - 0.05 * (high - low) <= sent[:, j].max() <= high
            sides.add((s > 0, (least if s > 0 else most) > 0))
    assert len(sides) == 4  # all four cases of the paper


# what the forms promise


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gauss_keeps_every_workers_norm(dtype: Any) -> None:
    seen = view(b=4, d=300, dtype=dtype)
    norms = np.linalg.norm(seen.own.astype(float), axis=1)
    assert close(np.linalg.norm(Gauss()(seen).astype(float), axis=1), norms, dtype)
    same = View(honest=seen.honest, own=seen.own, rng=np.random.default_rng(3))
    minus = View(honest=seen.honest, own=seen.own, rng=np.random.default_rng(3))
    assert close(Gauss(length="minus")(minus), Gauss()(same) - seen.own, dtype)


def test_gauss_is_noise_of_its_own_for_each_worker_and_isotropic() -> None:
    own = np.tile(np.arange(4.0), (20000, 1))  # norm √14
    sent = Gauss()(View(honest=own[:2], own=own))
    assert len(np.unique(sent, axis=0)) == 20000
    assert np.allclose(sent.T @ sent / 20000, 14 / 4 * np.eye(4), atol=0.15)


def test_the_programs_gauss_has_the_deviation_over_coordinates() -> None:
    own = np.tile([[0.0, 2.0], [7.0, 7.0]], (1, 20000))  # deviation 1, and none at all
    sent = Gauss(length="deviation")(View(honest=own, own=own))
    assert sent[0].std() == pytest.approx(1.0, rel=0.02)
    assert sent[0].mean() == pytest.approx(0.0, abs=0.02)
    assert not sent[1].any()


def test_noise_of_given_mean_and_deviation() -> None:
    own = np.tile([[0.0], [1e6]], (1, 40000))
    sent = Gauss(sigma=2.0, mu=-3.0)(View(honest=own, own=own))
    assert sent.mean(axis=1) == pytest.approx(-3.0, abs=0.05)
    assert sent.std(axis=1) == pytest.approx(2.0, rel=0.02)
    assert np.corrcoef(sent)[0, 1] == pytest.approx(0.0, abs=0.02)  # a draw of its own for each worker


@pytest.mark.parametrize(("h", "b"), [(1, 1), (3, 1), (6, 2), (2, 6), (21, 14)])
def test_omniscient_turns_the_mean_of_all_into_minus_itself(h: int, b: int) -> None:
    X = np.random.default_rng(0).integers(-8, 9, size=(h + b, 4)).astype(float)
    seen = View(honest=X[:h], own=X[h:])
    sent = Omniscient()(seen)
    assert close(np.concatenate([X[:h], sent]).mean(axis=0), -X.mean(axis=0), size=8.0)
    assert not close(np.concatenate([X[:h], Omniscient(form="text")(seen)]).mean(axis=0), -X.mean(axis=0))


def distances(X: np.ndarray) -> np.ndarray:
    return np.array([[np.linalg.norm(a - b) for a in X] for b in X])


@pytest.mark.parametrize("attack", MODEL, ids=repr)
def test_spread_keeps_distances_and_mean(attack: Attack) -> None:
    seen = view(b=4)
    sent = Spread(attack)(seen)
    assert close(distances(sent), distances(seen.own), size=10.0)
    assert close(sent.mean(axis=0), np.asarray(attack(seen)).mean(axis=0), size=100.0)
    assert Spread(attack).kind == attack.kind


def test_spread_of_a_data_attack_still_flips_labels() -> None:
    y = np.arange(10)
    assert np.array_equal(Spread(LabelFlip()).labels(y, 10), y[::-1])
    assert np.array_equal(Spread(Zero()).labels(y, 10), y)


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint8, np.int8])
def test_label_flips_are_permutations_as_in_the_authors_table(dtype: Any) -> None:
    digits = [1, 8, 5, 2, 9, 6, 3, 0, 7, 4]
    wanted = [*digits, *range(36, 62), *range(10, 36)]
    y = np.arange(62, dtype=dtype)
    assert LabelFlip(by="authors").labels(y, 62).tolist() == wanted
    assert LabelFlip(by="authors").labels(y[:10], 10).tolist() == digits
    assert LabelFlip().labels(y, 62).tolist() == [*range(61, -1, -1)]
    for classes in (1, 2, 10, 62, 100):
        assert sorted(LabelFlip().labels(np.arange(classes), classes)) == [*range(classes)]
    with pytest.raises(BadInput, match="20 classes"):
        LabelFlip(by="authors").labels(y[:20], 20)


def test_mapped_labels_by_hand() -> None:
    y = np.array([0, 1, 7, 9, 1], dtype=np.uint8)
    assert LabelFlip(pairs=((1, 7), (7, 1))).labels(y, 10).tolist() == [0, 7, 1, 9, 7]
    assert LabelFlip(pairs=(1, 7)).labels(y, 10).tolist() == [0, 7, 7, 9, 7]
    assert LabelFlip(pairs=(1, 7)).labels(y, 10).dtype == np.uint8
    assert y.tolist() == [0, 1, 7, 9, 1]
    with pytest.raises(BadInput, match=r"was given 5 classes; its pairs may name 0 to 4"):
        LabelFlip(pairs=(1, 7)).labels(y[:2], 5)


def test_the_seven_of_the_paper_as_written_and_as_run() -> None:
    text, program = list_paper_attacks(), list_paper_attacks(text=False)
    assert list(text) == ["LF", "SF", "Gauss", "Omn", "Empire", "SV", "PGA"]
    assert [type(a) for a in text.values()] == [LabelFlip, SignFlip, Gauss, Omniscient, Empire, ScaledVariance, PGA]
    assert text["Omn"] == Omniscient(form="text")
    assert program["Omn"] == Omniscient()
    assert text["SV"] == ScaledVariance(z=-20.0)
    assert program["SV"] == ScaledVariance(z=-20 / 35, over="honest")
    assert list_paper_attacks(text=False, n=10)["SV"] == ScaledVariance(z=-2.0, over="honest")
    assert program["Gauss"] == Gauss(length="deviation")
    assert program["PGA"] == CodedPGA()


def test_the_programs_variance_is_that_of_updates_divided_by_n() -> None:
    """server.py takes mean_H - 20 std(u_i / n) of differences u = -lr g, to which it adds what it gets."""
    seen = view(h=6, b=4)
    differences = -0.1 * seen.honest
    wanted = (differences.mean(axis=0) - 20 * (differences / 10).std(axis=0)) / -0.1
    assert close(list_paper_attacks(text=False, n=10)["SV"](seen), np.tile(wanted, (4, 1)), size=10.0)


# what every attack obeys


def shapely(sent: Any, seen: View) -> None:
    assert len(sent) == len(seen.own)
    if isinstance(sent, np.ndarray):
        assert sent.shape == seen.own.shape
        assert sent.dtype == seen.own.dtype


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("attack", EVERY, ids=repr)
def test_one_row_each_of_the_same_dtype_twice_the_same_and_nothing_changed(attack: Attack, dtype: Any) -> None:
    for rule in (CWTM(3), Mean2P(3)) if attack in SEARCHES else (Average(),):
        one, two = (view(d=20, dtype=dtype, rule=rule, f=3) for _ in range(2))
        before = one.honest.copy(), one.own.copy()
        first, second = attack(one), attack(two)
        shapely(first, one)
        assert pickle.dumps(first) == pickle.dumps(second)
        assert np.array_equal(one.honest, before[0])
        assert np.array_equal(one.own, before[1])


AWKWARD = [(5, 0, 3), (1, 1, 3), (1, 0, 1), (5, 2, 1), (1, 3, 1), (2, 2, 30), (6, 1, 30), (5, 0, 60)]


@pytest.mark.parametrize("size", [1.0, 0.0])
@pytest.mark.parametrize("attack", FINITE, ids=repr)
def test_awkward_rounds_get_finite_rows(attack: Attack, size: float) -> None:
    """No liars, one honest worker, one coordinate, more coordinates than rows, zeros."""
    for at, (h, b, d) in enumerate(AWKWARD):
        rules = (Mean2P(0), Krum(0), CWM(), Average())
        seen = scaled(view(h=h, b=b, d=d, rule=rules[at % 4]), size)
        sent = attack(seen)
        shapely(sent, seen)
        assert np.isfinite(sent).all()


@pytest.mark.parametrize("attack", [Inf(), NaN(), Silent(), Spread(Silent())], ids=repr)
def test_without_liars_nothing_is_sent(attack: Attack) -> None:
    shapely(attack(view(b=0)), view(b=0))


def test_no_malformed_rows_without_liars() -> None:
    assert Malformed()(view(b=0)) == []


@pytest.mark.parametrize("attack", MODEL, ids=repr)
def test_equal_rows_leave_nothing_to_hide_in(attack: Attack) -> None:
    """Zero spread: attacks measured in deviations send the row itself, the others are finite."""
    row = np.array([1.0, 0.0, -3.0])
    seen = View(honest=np.tile(row, (5, 1)), own=np.tile(row, (2, 1)))
    sent = attack(seen)
    if isinstance(attack, (ScaledVariance, ALIE, MinMax, MinSum, Mimic, NoAttack)):
        assert np.array_equal(sent, seen.own)
    assert np.isfinite(sent).all()


@pytest.mark.parametrize("by", [1e-10, 1e-3, 1e3, 1e10, 1e20])
@pytest.mark.parametrize("attack", MODEL, ids=repr)
def test_rows_scale_with_the_round(attack: Attack, by: float) -> None:
    seen = view(d=20)
    assert close(attack(scaled(seen, by)), by * attack(seen))


TOO_SMALL = [Gauss(), ScaledVariance(), ALIE(), MinMax(), MinSum(), Mimic()]


@pytest.mark.parametrize("by", [1e-25, 1e20])
@pytest.mark.parametrize("attack", TOO_SMALL[1:], ids=repr)
def test_float32_rows_scale_as_far_as_float32_goes(attack: Attack, by: float) -> None:
    seen = scaled(view(d=20), 1.0, np.float32)
    assert close(attack(scaled(seen, by, np.float32)), by * attack(seen).astype(float), np.float32, 100 * by)


def test_gauss_keeps_norms_as_far_as_float32_goes() -> None:
    seen = scaled(view(d=20), 1e20, np.float32)
    sent = np.linalg.norm(Gauss()(seen).astype(float), axis=1)
    assert close(sent, np.linalg.norm(seen.own.astype(float), axis=1), np.float32)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("attack", FINITE, ids=repr)
def test_a_round_that_diverged_does_not_stop_an_attack(attack: Attack, bad: float) -> None:
    for rule in (Krum(2), Mean2P(2)):
        seen = view(d=40, rule=rule)
        seen.honest[3] = bad
        with np.errstate(all="ignore"):
            shapely(attack(seen), seen)


# the search against a rule


def damage(seen: View, sent: np.ndarray) -> float:
    """Distance from the honest mean of the answer, or of the nearer of two."""
    X, mean = np.concatenate([seen.honest, sent]), seen.honest.mean(axis=0)
    parts = [seen.rule.inner, seen.rule.outer] if isinstance(seen.rule, TwoPhase) else [seen.rule]
    answers = [part(X, **calls(part, X.shape[1], seed=0)) for part in parts]
    return min(float(np.linalg.norm(answer - mean)) for answer in answers)


def steps(seen: View, along: str, apart: bool, count: int) -> list[np.ndarray]:
    """Rows mean - γ p for a plain grid of γ over the range that the docstring names."""
    mean, p = seen.honest.mean(axis=0), towards(seen.honest, along)
    unit = math.sqrt(float(((seen.honest - mean) ** 2).sum()) / len(seen.honest))
    about = seen.own - seen.own.mean(axis=0) if apart else np.zeros_like(seen.own)
    return [mean - gamma * p + about for gamma in unit * np.geomspace(1 / 64, 512, count)]


SEARCHED: list[Any] = [
    Average(),
    CWTM(3),
    CWM(),
    Krum(3),
    GeometricMedian(),
    MeanwO(3),
    CenterwO(3),
    NNM(3) >> CWTM(3),
    Bulyan(3),
    Mean2P(3),
    Bucketing(2) >> CWM(),
    OuterMean(3),
    NearestTo(CWTM(3)),
    CenteredClipping(1.0),
    MeaMed(3),
]


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("rule", SEARCHED, ids=repr)
def test_pga_is_no_worse_than_an_octave_grid(rule: Any, apart: bool) -> None:
    """A floor of 85 % of the best of 16 steps; what the search loses to a fine grid is the next test."""
    seen = view(1, h=14, d=40, rule=rule, f=3)
    best = max(damage(seen, sent) for sent in steps(seen, "sign", apart, 16))
    assert damage(seen, PGA(spread=apart)(seen)) >= 0.85 * best - 1e-12


CLIFFS = [(Krum(3), 5, "std", 40), (MeanwO(3), 1, "std", 40), (CenterwO(3), 1, "std", 3)]
SMOOTH = [(CWTM(3), 0, "std", 40), (CWM(), 0, "sign", 3), (GeometricMedian(), 1, "std", 40), (Average(), 2, "mean", 3)]


@pytest.mark.parametrize(
    ("rule", "seed", "along", "d"),
    [*SMOOTH, *CLIFFS, (Bulyan(3), 2, "sign", 3)],
    ids=repr,
)
def test_pga_finds_what_a_fine_grid_finds(rule: Any, seed: int, along: Direction, d: int) -> None:
    seen = view(seed, h=14, d=d, rule=rule, f=3)
    best = max(damage(seen, sent) for sent in steps(seen, along, False, 90))
    assert damage(seen, PGA(along=along)(seen)) >= 0.96 * best


def line_search(harm: Callable[[float], float]) -> float:
    """ByzFL's search for τ, in its two phases: twenty questions, from 0 on, the first step 10."""
    best, most, step, left = 0.0, harm(0.0), 10.0, 19
    while left:
        left -= 1
        if (new := harm(best + step)) <= most:
            step *= 0.8
            break
        best, most, step = best + step, new, 2 * step
    while left:
        left -= 1
        if (new := harm(best + step)) > most:
            best, most = best + step, new
        step *= 0.8
    return most


@pytest.mark.parametrize("along", ["std", "mean"])
@pytest.mark.parametrize("rule", [CWTM(3), Krum(3), GeometricMedian(), NNM(3) >> CWM(), MeanwO(3)], ids=repr)
def test_the_optimised_attacks_do_at_least_the_harm_of_byzfls(rule: Any, along: Direction) -> None:
    for seed in range(12):
        seen = view(seed, h=10, d=12, rule=rule, f=3)
        mean, std = seen.honest.mean(axis=0), seen.honest.std(axis=0, ddof=1)

        def harm(tau: float, seen: Any = seen, mean: Any = mean, std: Any = std) -> float:
            return damage(seen, np.tile(mean + tau * std if along == "std" else -tau * mean, (3, 1)))

        ours = damage(seen, PGA(along=along, thorough=True)(seen))
        assert ours >= (1 - 1e-9) * line_search(harm)
        assert ours >= (1 - 1e-9) * damage(seen, PGA(along=along)(seen))


@pytest.mark.parametrize("name", ["ALittleIsEnough", "InnerProductManipulation"])
def test_the_optimised_attacks_beside_byzfls_own(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent.parent / "benchmarks"))
    if (byzfl := importlib.import_module("common").byzfl()) is None:
        pytest.skip("ByzFL is not installed")
    attack = parse("OptALIE()" if name == "ALittleIsEnough" else "OptIPM()", NAMED)
    for seed in range(20):
        seen = view(seed, h=9, d=1 + seed, rule=CWTM(3), f=3)
        theirs = getattr(byzfl, f"Optimal_{name}")(agg=byzfl.TrMean(3), pre_agg_list=[], f=3)(seen.honest)
        assert damage(seen, attack(seen)) >= (1 - 1e-9) * damage(seen, np.tile(theirs, (3, 1)))


def test_both_signs_of_the_deviations_are_tried() -> None:
    """Liars above have the three zeros cut off, so that the answer is 9; below, 9, 9, 0, 0 and 0 are left of it."""
    H = rows([0], [0], [0], [9], [9], [9], [9], [9])
    seen = View(honest=H, own=np.zeros((3, 1)), rule=CWTM(3), f=3)
    assert PGA(along="std")(seen)[0] < H.mean()
    best = PGA(along="std", thorough=True)(seen)
    assert best[0] > H.mean()
    assert damage(seen, best) > damage(seen, PGA(along="std")(seen)) + 1e-9


@pytest.mark.parametrize("d", [50, 800])
def test_the_hidden_coordinate_moves_by_more_than_the_honest_spread_in_it(d: int) -> None:
    """El Mhamdi et al. 2018: of rules on distances, one coordinate can be moved by about √d deviations."""
    seen = view(h=12, b=3, d=d, rule=Krum(3), f=3)
    sent = PGA(along="coordinate")(seen)
    mean = seen.honest.mean(axis=0)
    moved = np.flatnonzero(np.abs(sent[0] - mean) > 1e-6)
    assert moved.tolist() == [int(np.abs(mean).argmax())]
    answer = server(Krum(3), np.concatenate([seen.honest, sent]))
    assert abs(answer - mean)[moved[0]] > 0.5 * math.sqrt(d)


def server(rule: Any, X: np.ndarray) -> np.ndarray:
    return np.asarray(rule(X, **calls(rule, X.shape[1], seed=0)))


@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_a_view_answers_as_the_server_does(rule: Any) -> None:
    for seed, offset, dtype in ((0, 0.0, np.float64), (1, 1e3, np.float64), (2, 0.0, np.float32)):
        X = (np.random.default_rng(seed).normal(size=(13, 8)) + offset).astype(dtype)
        seen = View(honest=X[:10], own=X[10:], rule=rule)
        assert close(seen.answers(X)[0], server(rule, X), dtype, size=10 + offset)


@pytest.mark.parametrize(
    ("offset", "dtype"),
    [(1e4, np.float32), (1e9, np.float64)],
)
def test_a_view_answers_as_the_server_does_behind_an_offset(offset: float, dtype: Any) -> None:
    for seed in range(6):
        X = (np.random.default_rng(seed).normal(size=(13, 8)) + offset).astype(dtype)
        seen = View(honest=X[:10], own=X[10:], rule=Krum(3))
        assert np.array_equal(seen.answers(X)[0], server(Krum(3), X))


@pytest.mark.parametrize("rule", [CWM(), MeanwO(2)], ids=repr)
def test_a_view_answers_as_the_server_does_when_rows_are_not_finite(rule: Any) -> None:
    X = np.random.default_rng(0).normal(size=(13, 8))
    X[12] = np.nan
    assert close(View(honest=X[:10], own=X[10:], rule=rule).answers(X)[0], server(rule, X))


def whole(seen: View, attack: Attack, monkeypatch: pytest.MonkeyPatch) -> np.ndarray:
    """The same search in full coordinates."""
    with monkeypatch.context() as patch:
        patch.setattr(tailored.Small, "of", staticmethod(tailored.Small))
        return np.asarray(attack(seen))


DISTANCES = [r for r in SEARCHED if not any(hasattr(s, "columns") for s in getattr(r, "stages", tuple)())]


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("rule", [*DISTANCES, NormBoundedMean(4.0), Cent2P(3)], ids=repr)
def test_the_isometric_search_does_the_same_damage(rule: Any, apart: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    start = np.full(50, 0.3)
    for by in (1e-6,):
        seen = scaled(view(1, h=14, d=50, rule=rule, f=3), by)
        if isinstance(rule, CenteredClipping):
            seen = View(honest=seen.honest, own=seen.own, rule=CenteredClipping(by), start=by * start)
            assert np.array_equal(PGA(spread=apart)(seen), whole(seen, PGA(spread=apart), monkeypatch))
            continue
        full = damage(seen, whole(seen, PGA(spread=apart), monkeypatch))
        assert damage(seen, PGA(spread=apart)(seen)) == pytest.approx(full, rel=1e-3, abs=1e-9 * by)


@pytest.mark.parametrize("by", [1e-10, 1e8])
def test_the_isometric_search_at_any_scale(by: float, monkeypatch: pytest.MonkeyPatch) -> None:
    lost = []
    for seed in range(4):
        seen = scaled(view(seed, h=14, d=60, rule=MeanwO(3), f=3), by)
        lost.append(damage(seen, PGA()(seen)) / damage(seen, whole(seen, PGA(), monkeypatch)))
    assert min(lost) > 0.9


@pytest.mark.parametrize("rule", [CWTM(3), CWM()], ids=repr)
def test_a_sample_of_columns_does_the_same_damage(rule: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = view(0, h=14, d=tailored.COLUMNS + 100, rule=rule, f=3)
    full = damage(seen, whole(seen, PGA(), monkeypatch))
    assert damage(seen, PGA()(seen)) == pytest.approx(full, rel=0.01)


def test_a_sample_of_columns_sees_sparse_updates(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = view(0, h=14, d=2 * tailored.COLUMNS, rule=CWM(), f=3)
    X, Y = (np.where(np.arange(2 * tailored.COLUMNS) < 1, rows, 0.0) for rows in (seen.honest, seen.own))
    lost = []
    for shift in (20,):
        seen = View(honest=np.roll(X, shift, axis=1), own=np.roll(Y, shift, axis=1), rule=CWM())
        lost.append(damage(seen, PGA()(seen)) / damage(seen, whole(seen, PGA(), monkeypatch)))
    assert min(lost) > 0.9


@pytest.mark.parametrize("rule", RULES + EXACT[:3], ids=repr)
def test_pga_against_every_rule_sends_finite_rows(rule: Any) -> None:
    seen = view(h=10, b=2, d=2 if rule in EXACT else 30, rule=rule, f=2)
    sent = PGA(spread=rule in EXACT)(seen)
    assert sent.shape == seen.own.shape
    assert np.isfinite(sent).all()


def test_pga_against_a_rule_that_refuses_still_sends_something() -> None:
    sent = PGA()(view(h=3, b=2, rule=MeanwO(9)))
    assert np.isfinite(sent).all()


def test_pga_subtracts_the_signs() -> None:
    seen = View(honest=rows([1, -1], [3, -3]), own=np.zeros((1, 2)))
    along = PGA()(seen)[0] - [2, -2]
    assert along[0] == pytest.approx(-along[1])
    assert along[0] < 0


# the search against an election


def losses_of(centres: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Squared distance to each honest worker's own optimum."""
    return lambda model: ((centres - model) ** 2).sum(axis=1)


def outcome(seen: View, sent: np.ndarray) -> tuple[bool, float]:
    """Whether the worse candidate wins a slow election in which liars say the opposite of the honest; its harm."""
    X, mean = np.concatenate([seen.honest, sent]), seen.honest.mean(axis=0)
    both = [rule(X) for rule in (seen.rule.inner, seen.rule.outer)]
    felt = [seen.losses(y) if seen.losses else np.full(len(seen.honest), np.linalg.norm(y - mean)) for y in both]
    harms = [float(f.mean()) for f in felt]
    gains = [*(felt[0] - felt[1]), *[harms[1] - harms[0]] * len(sent)]
    if isinstance(seen.rule.election, Numeric):
        f = seen.rule.inner.f
        outer = sum(sorted(gains)[f : len(gains) - f]) > 0
    else:
        outer = sum(g > 0 for g in gains) > sum(g <= 0 for g in gains)
    chosen = harms[1 if outer else 0]
    return chosen >= max(harms), chosen


ELECTED = [Mean2P(3), Cent2P(3), TwoPhase(MeanwO(3), OuterMean(3), Numeric())]


@pytest.mark.parametrize("told", [False, True])
@pytest.mark.parametrize("rule", ELECTED, ids=repr)
def test_canvass_wins_the_election_where_a_fine_grid_does(rule: Any, told: bool) -> None:
    for seed, d, apart in ((0, 2, True), (1, 30, False)):
        seen = view(seed, h=8, d=d, rule=rule, f=3)
        if told:
            seen = View(honest=seen.honest, own=seen.own, rule=rule, losses=losses_of(seen.honest))
        best = max(outcome(seen, sent) for sent in steps(seen, "sign", apart, 50))
        wins, harm = outcome(seen, Canvass(spread=apart)(seen))
        assert wins == best[0]
        assert harm >= 0.6 * best[1]


def test_canvass_against_one_rule_is_pga() -> None:
    for rule in (CWM(), Krum(3)):
        for along in ALONG:
            seen = view(rule=rule)
            assert np.array_equal(Canvass(along=along)(seen), PGA(along=along, spread=True)(seen))


def test_canvass_takes_a_model_of_infinite_loss_for_the_most_harmful() -> None:
    def losses(model: np.ndarray) -> np.ndarray:
        return np.full(9, np.inf if np.linalg.norm(model) > 10 else float(model @ model))

    seen = view(rule=TwoPhase(Average(), Average()), losses=losses)
    X = np.concatenate([seen.honest, Canvass()(seen)])
    assert np.isinf(losses(X.mean(axis=0))).all()


# the text, and what is refused


@pytest.mark.parametrize("attack", EVERY, ids=repr)
def test_an_attack_is_its_text(attack: Attack) -> None:
    again = parse(repr(attack), NAMED, "attack")
    assert again == attack
    assert hash(again) == hash(attack)
    assert pickle.loads(pickle.dumps(attack)) == attack


def test_names_of_the_literature() -> None:
    assert parse("IPM(scale=3)", NAMED) == Empire(scale=3.0)
    assert parse("OptALIE", NAMED) == PGA(along="std", thorough=True)
    assert parse("OptIPM(spread=True)", NAMED) == PGA(along="mean", spread=True, thorough=True)
    assert parse("HiddenCoordinate", NAMED) == PGA(along="coordinate")
    assert parse("LabelFlip(pairs=(1, 7))", NAMED) == LabelFlip(pairs=((1, 7),))
    assert parse("Spread(Empire(scale=0.1))", NAMED) == Spread(Empire())
    assert parse("ScaledVariance(z=-20/35, over='honest')", NAMED) == list_paper_attacks(text=False)["SV"]
    assert {type(a) for a in EVERY} == set(ATTACKS.values())


@pytest.mark.parametrize("name", [*ATTACKS])
def test_every_attack_tells_its_formula_and_kind(name: str) -> None:
    attack = Spread(Zero()) if name == "Spread" else ATTACKS[name]()
    assert attack.formula
    assert attack.kind in ("sneak", "siege", "either", "none")
    assert attack.__doc__


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("LabelFlip(by='x')", "LabelFlip was given by = 'x'"),
        ("LabelFlip(pairs=7)", "pairs = 7; write them as ((1, 7), (7, 1))"),
        ("LabelFlip(pairs=((1, -7),))", "two classes each"),
        ("LabelFlip(pairs=((1, 7), (1, 8)))", "name each class once on the left"),
        ("LabelFlip(by='authors', pairs=(1, 7))", "give one of them"),
        ("LabelFlip(pairs=[(1, 7)])", "is not an attack or a plain value"),
        ("Trigger(share=1.5)", "share = 1.5"),
        ("Trigger(target=-1)", "target = -1"),
        ("Trigger(size=0)", "size = 0"),
        ("SignFlip(scale=-1)", "scale = -1"),
        ("Fang(against='median')", "Fang was given against = 'median'"),
        ("PGA(thorough=2)", "thorough = 2"),
        ("Gauss(mu=3)", "mu = 3.0 without sigma"),
        ("Gauss(sigma=-1)", "sigma = -1"),
        ("Gauss(length='minus', sigma=1)", "give one of them"),
        ("Gauss(length=3)", "Gauss was given length = 3"),
        ("Omniscient(form='paper')", "'program' or 'text'"),
        ("Empire(scale=-1)", "scale = -1"),
        ("Empire(scale=1e999)", "scale = inf"),
        ("Empire(scale=True)", "scale = True"),
        ("ScaledVariance(z='x')", "z = 'x'"),
        ("ScaledVariance(z=1e999)", "z = inf"),
        ("ScaledVariance(over='own')", "over = 'own'"),
        ("ALIE(z='x')", "z = 'x'"),
        ("MinMax(along='up')", "MinMax was given along = 'up'"),
        ("MinSum(along=None)", "MinSum was given along = None"),
        ("Mimic(worker=-1)", "worker = -1"),
        ("Mimic(worker=1.0)", "worker = 1.0"),
        ("Spread(3)", "it takes an attack"),
        ("Spread()", "write it as Spread(attack=Empire())"),
        ("PGA(along='x')", "PGA was given along = 'x'"),
        ("PGA(spread=1)", "spread = 1"),
        ("Emprie()", "did you mean Empire?"),
        ("Zero(1)", "write it as Zero()"),
        ("__import__('os')", "is no known attack"),
    ],
)
def test_what_is_wrong_gets_one_sentence(text: str, said: str) -> None:
    with pytest.raises(BadInput) as error:
        parse(text, NAMED, "attack")
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_mimic_counts_round_when_fewer_are_there() -> None:
    honest = np.arange(9.0)[:, None]
    assert Mimic(worker=11)(View(honest=honest, own=np.zeros((2, 1)))).tolist() == [[2.0], [2.0]]


@pytest.mark.parametrize("attack", [ScaledVariance, ALIE])
def test_a_z_beyond_floats_is_refused_by_a_sentence(attack: Any) -> None:
    with pytest.raises(BadInput):
        attack(z=10**400)


@pytest.mark.parametrize("text", ["ScaledVariance(z=True)", "ALIE(z=False)", "Mimic(worker=True)"])
def test_a_bool_is_no_number(text: str) -> None:
    with pytest.raises(BadInput):
        parse(text, NAMED)


@pytest.mark.parametrize(
    "build",
    [
        lambda: ScaledVariance(z=np.float64(2)),
        lambda: ScaledVariance(z=np.float32(2)),  # type: ignore[arg-type]
        lambda: ALIE(z=np.float64(2)),
        lambda: Mimic(worker=np.int64(1)),  # type: ignore[arg-type]
    ],
)
def test_numbers_of_numpy_are_numbers(build: Callable[[], Attack]) -> None:
    attack = build()
    assert parse(repr(attack), NAMED) == attack


@pytest.mark.parametrize("text", ["Canvass(along='x')", "Canvass(spread=1)"])
def test_canvass_signs_its_own_refusal(text: str) -> None:
    with pytest.raises(BadInput, match="Canvass was given"):
        parse(text, NAMED)


def test_attacks_do_not_chain_and_say_so() -> None:
    with pytest.raises(BadInput):
        parse("Empire() >> Zero()", NAMED)


def test_the_contracts_empty_places() -> None:
    with pytest.raises(BadInput, match=r"what it sends; define __call__\(self, seen\)\."):
        Attack()(HAND)
    with pytest.raises(TypeError, match="how it votes"):
        Voter()(np.zeros((2, 2)), np.array([1]), np.random.default_rng(0))
    assert np.array_equal(Zero().labels(np.arange(3), 3), [0, 1, 2])


# voters

LOSSES = rows([1, 2], [1, 3], [5, 4], [7, 9])  # two of three honest, and worker 3, prefer Inner


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("WorseLoss", [(3, (9.0, 7.0))]),
        ("AgainstMajority", [(3, (1e308, 0.0))]),
        ("SilentVote", []),
        ("DoubleVote", [(3, (1e308, 0.0)), (3, (1e308, 0.0)), (4, (1e308, 0.0))]),
        ("MalformedVote", [(3, "inner")]),
    ],
)
def test_votes_by_hand(name: str, wanted: list[Any]) -> None:
    assert VOTERS[name]()(LOSSES, np.array([3]), np.random.default_rng(0)) == wanted
    assert parse(f"{name}()", VOTERS) == VOTERS[name]()
    assert VOTERS[name].formula


def test_votes_against_an_outer_majority_and_by_a_coin() -> None:
    liars = np.arange(1, 3)
    against = VOTERS["AgainstMajority"]()(LOSSES[:, ::-1], liars, np.random.default_rng(0))
    assert against == [(1, (0.0, 1e308)), (2, (0.0, 1e308))]
    coins = VOTERS["RandomVote"]()(np.zeros((400, 2)), np.arange(400), np.random.default_rng(0))
    assert [who for who, _ in coins] == [*range(400)]
    assert 150 < sum(inner < outer for _, (inner, outer) in coins) < 250


@pytest.mark.parametrize("name", [*VOTERS])
def test_voters_without_liars_say_nothing(name: str) -> None:
    nobody = np.zeros(0, dtype=int)
    assert VOTERS[name]()(LOSSES, nobody, np.random.default_rng(0)) == []


@pytest.mark.parametrize("rule", [MeanwO(3), Mean2P(3), Krum(3)])
def test_the_programs_pga_is_filtered_at_its_first_step(rule: Any) -> None:
    """Its γ starts thousands of honest spreads away: no later one does more."""
    seen = scaled(view(h=7, b=3, d=500, rule=rule), 0.1)
    sent = CodedPGA()(seen)
    mean = seen.honest.mean(axis=0)
    assert np.array_equal(sent[0], sent[1])
    length = 10.0 if isinstance(rule, Krum) else 10.0 * np.sqrt(500)
    assert np.linalg.norm(sent[0] - mean) == pytest.approx(length, rel=1e-5)


def test_the_programs_pga_against_the_average_is_out_of_all_bounds() -> None:
    seen = view(h=7, b=3, d=50, rule=Average())
    assert np.linalg.norm(CodedPGA()(seen)[0]) > 1e20
    seen = view(h=7, b=3, d=50, rule=CWTM(3))
    assert 8.0 <= np.abs(CodedPGA()(seen)[0]).max() <= 210.0
