"""Two candidates and their election: the laws of the design, slow oracles, the vote theorem, and hostile reports."""

from __future__ import annotations

import itertools
import logging
import math
import pickle
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import (
    CWM,
    CWTM,
    NNM,
    Average,
    BadInput,
    Ballot,
    Bucketing,
    Cent2P,
    CenteredClipping,
    CenterwO,
    GeometricMedian,
    Krum,
    Mean2P,
    MeanwO,
    Numeric,
    OuterCenter,
    OuterMean,
    TwoPhase,
    parse,
    twophase,
)
from holdfast.attacks import VOTERS
from holdfast.testing.rounds import attacked, gaussian, with_bad_rows
from holdfast.twophase import AGGREGATORS, Candidates, Winner, elect, gains_of, propose, proximal_margin

SEEDS = st.integers(0, 2**32 - 1)
ELECTIONS: list[Any] = [Ballot(), Ballot(ties="outer"), Numeric(), Numeric(margin=0.5)]
ALL: list[Any] = [
    Cent2P(3),
    Mean2P(0),
    TwoPhase(MeanwO(2), OuterMean(2), Numeric()),
    TwoPhase(MeanwO(2), OuterMean(2), Numeric(margin=0.25)),
    TwoPhase(NNM(2) >> CWTM(2), OuterCenter(2), Ballot(ties="outer")),
    TwoPhase(Bucketing(2) >> CWM(), Average()),
]


def candidates(n: int, f: int) -> Candidates:
    """A round of n workers of whom nobody is dropped."""
    return propose(np.arange(float(n))[:, None], MeanwO(f), OuterMean(f))


def told(gains: Any) -> list[tuple[int, tuple[float, float]]]:
    """Reports of voters 0, 1, ... with these differences."""
    return [(i, (float(max(g, 0.0)), float(max(-g, 0.0)))) for i, g in enumerate(gains)]


# phase one


@pytest.mark.parametrize("rule", [Mean2P(2), Cent2P(2), TwoPhase(NNM(2) >> Krum(2), CWTM(2))], ids=repr)
def test_the_candidates_are_what_both_rules_answer(rule: TwoPhase) -> None:
    for kind in ("far", "copies", "sneak", "siege"):
        X, _ = attacked(np.random.default_rng(0), 11, 2, 4, kind)
        before = X.copy()
        both = rule.propose(X)
        assert np.array_equal(both.inner.value, rule.inner(X))
        assert np.array_equal(both.outer.value, rule.outer(X))
        assert np.array_equal(X, before)
        assert both.voters == tuple(range(11))
        assert both.f == rule.f == 2
        assert rule.least() == max(rule.inner.least(), rule.outer.least())


def test_each_rule_gets_what_its_call_takes() -> None:
    X, rng = gaussian(np.random.default_rng(0), 9, 3), np.random.default_rng(1)
    rule = TwoPhase(CenteredClipping(1.0), Bucketing(2) >> CWM())
    assert rule.random
    assert not Mean2P(1).random
    both = rule.propose(X, rng=rng, start=X[0])
    assert np.array_equal(both.inner.value, CenteredClipping(1.0)(X, start=X[0]))
    assert np.array_equal(both.outer.value, (Bucketing(2) >> CWM())(X, rng=np.random.default_rng(1)))
    with pytest.raises(BadInput, match="pass rng="):
        rule.propose(X)


def test_whoever_was_dropped_does_not_vote_and_f_is_as_phase_one_ended() -> None:
    X = gaussian(np.random.default_rng(0), 11, 4)
    X, bad = with_bad_rows(np.random.default_rng(0), X, 3)
    stays = propose(X, MeanwO(3), OuterMean(3))
    assert stays.f == 3  # eight are left, seven are enough
    lowered = propose(X, MeanwO(5), OuterMean(5))
    assert lowered.f == 3
    for both in (stays, lowered):
        assert both.voters == tuple(i for i in range(11) if i not in bad)
        shout = [(int(i), (1e9, 0.0)) for i in bad]
        quiet = [(i, (1.0, 2.0)) for i in both.voters]
        assert elect(both, quiet + shout) == elect(both, quiet)
        assert elect(both, quiet).reports == 8
        assert elect(both, shout).name == "inner"


def test_more_than_two_candidates_split_votes() -> None:
    with pytest.raises(BadInput, match=r"3 candidates; with more than two, votes split"):
        propose(np.eye(5), MeanwO(1), OuterMean(1), CWM())


@pytest.mark.parametrize("outer", [OuterMean(1), OuterCenter(1)], ids=repr)
def test_outer_of_one_is_logged_once(
    outer: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(twophase, "_LOGGED", set())
    with caplog.at_level(logging.WARNING, "holdfast"):
        for _ in range(3):
            propose(np.eye(5), MeanwO(1), outer)
        propose(np.eye(5), MeanwO(2), OuterMean(2))
        propose(np.eye(5), OuterMean(0), Krum(1))
    assert [record.getMessage() for record in caplog.records] == [
        f"{outer!r} excludes a cluster of one vector, which is an arbitrary worker"
    ]


# the election, law by law


@pytest.mark.parametrize(
    ("gains", "inner_wins_ties", "outer_wins_ties"),
    [
        ([1, 1, -1], "outer", "outer"),
        ([-1, -1, 1], "inner", "inner"),
        ([1, -1], "inner", "outer"),  # one each
        ([0, 0, 0], "inner", "outer"),  # every voter is undecided
        ([0, 1], "inner", "outer"),  # an undecided voter stands with the winner of ties
        ([0, 0, 1], "inner", "outer"),
        ([0, 0, -1], "inner", "outer"),
        ([0, -1, -1], "inner", "inner"),
        ([math.inf, -1, 1], "outer", "outer"),
        ([-math.inf, math.inf], "inner", "outer"),
    ],
)
def test_ties_go_where_the_ballot_says(gains: list[float], inner_wins_ties: str, outer_wins_ties: str) -> None:
    both = candidates(len(gains), 0)
    assert elect(both, told(gains)).name == inner_wins_ties
    assert elect(both, told(gains), Ballot(ties="outer")).name == outer_wins_ties


def test_the_authors_program_keeps_inner_by_a_strict_majority_only() -> None:
    """server.py: inner iff #(loss_inner < loss_outer) > n/2."""
    for n in range(1, 6):
        for gains in itertools.product([-1.0, 0.0, 1.0], repeat=n):
            wanted = "inner" if 2 * sum(g < 0 for g in gains) > n else "outer"
            assert Ballot(ties="outer").count(np.array(gains), 0)[0] == wanted


BAD = (math.nan, math.inf, -math.inf)


@pytest.mark.parametrize("bad", BAD)
def test_a_loss_that_is_not_finite_is_the_worst(bad: float) -> None:
    assert gains_of([(0, (bad, 1.0)), (1, (1e308, bad))], range(2)) == {0: math.inf, 1: -math.inf}


@pytest.mark.parametrize(("one", "two"), [*itertools.product(BAD, BAD)])
def test_two_of_them_abstain(one: float, two: float) -> None:
    both = candidates(5, 1)
    votes: list[Any] = told([1, 1, -1, -1])
    winner = elect(both, [*votes, (4, (one, two))])
    assert winner == elect(both, votes)
    assert winner.reports == 4


def spoilt(both: Candidates, name: str, value: Any) -> Candidates:
    return replace(both, **{name: replace(getattr(both, name), value=value)})


@pytest.mark.parametrize("election", ELECTIONS, ids=repr)
@pytest.mark.parametrize("value", [np.array([1.0, np.nan]), np.array([np.inf]), [np.ones(2), np.array([-np.inf])]])
def test_a_candidate_that_is_not_finite_loses_without_a_vote(value: Any, election: Any) -> None:
    both = candidates(5, 1)
    for_inner, for_outer = told([-1] * 5), told([1] * 5)
    assert elect(spoilt(both, "inner", value), for_inner, election).name == "outer"
    assert elect(spoilt(both, "inner", value), [], election).name == "outer"
    lost = elect(spoilt(both, "outer", value), for_outer, election)
    assert lost == Winner("inner", 0.0, 0, "the other candidate is not finite")
    neither = elect(spoilt(spoilt(both, "outer", value), "inner", value), for_outer, election)
    assert (neither.name, neither.why, neither.certain) == ("inner", "no candidate is finite", False)


@pytest.mark.parametrize("election", ELECTIONS, ids=repr)
@pytest.mark.parametrize(("n", "f"), [(3, 1), (5, 2), (7, 2), (4, 0)])
def test_fewer_than_2f_plus_1_reports_elect_inner(n: int, f: int, election: Any) -> None:
    both = candidates(n, f)
    for came in range(n + 1):
        winner = elect(both, told([1.0] * came), election)
        enough = came >= 2 * f + 1
        assert winner.name == ("outer" if enough else "inner")
        assert winner.reports == came
        assert winner.why == ("" if enough else f"{came} reports, fewer than {2 * f + 1}")


@pytest.mark.parametrize("election", [Numeric(), Numeric(margin=1.0)], ids=repr)
def test_infinities_after_trimming(election: Any) -> None:
    inf, both = math.inf, candidates(5, 1)

    def name(*gains: float) -> str:
        losses = [
            (2.0, math.nan) if g == -inf else (math.nan, 2.0) if g == inf else (max(g, 0), -min(g, 0)) for g in gains
        ]
        return elect(both, enumerate(losses), election).name

    assert name(-inf, -inf, inf, inf, 9) == "inner"  # one of each sign is left
    assert name(-inf, inf, 9, 9, 9) == "outer"  # both are trimmed
    assert name(-inf, inf, inf, 9, 9) == "outer"
    assert name(-inf, -inf, inf, 9, 9) == "inner"
    assert name(inf, inf, inf, inf, inf) == "outer"


def test_only_a_gain_beyond_the_margin_elects_outer() -> None:
    assert Numeric(margin=0.5).count(np.full(5, 0.5), 1) == ("inner", 0.5)
    assert Numeric(margin=0.5).count(np.full(5, 0.75), 1) == ("outer", 0.75)
    assert Numeric().count(np.zeros(5), 1) == ("inner", 0.0)


@given(SEEDS, st.integers(1, 12))
@settings(max_examples=200, deadline=None)
def test_numeric_is_the_mean_of_what_is_left_of_the_sorted(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    f = int(rng.integers(0, (n + 1) // 2))
    gains = rng.normal(size=n) * 10.0 ** rng.integers(-3, 4, size=n)
    left = sorted(gains.tolist())
    for _ in range(f):
        left.remove(min(left))
        left.remove(max(left))
    name, mean = Numeric().count(gains, f)
    wanted = math.fsum(left) / len(left)
    assert mean == pytest.approx(wanted, rel=1e-9, abs=1e-12 * max(map(abs, left)))
    assert name == ("outer" if mean > 0 else "inner")
    assert elect(candidates(n, f), told(gains), Numeric()).name == name


@given(SEEDS, st.integers(3, 15))
@settings(max_examples=200, deadline=None)
def test_numeric_is_right_when_the_honest_mean_clears_their_deviation(seed: int, n: int) -> None:
    """theory.md 2f: |mean_H| > √(f/(n - 2f)) σ_H, whatever f liars say."""
    rng = np.random.default_rng(seed)
    f = int(rng.integers(1, (n + 1) // 2))
    honest = rng.normal(size=n - f)
    honest += -honest.mean() + (1 + 1e-9) * math.sqrt(f / (n - 2 * f)) * honest.std() + 1e-12
    for lie in (-1e9, -1.0, float(honest.min()), 0.0, float(honest.max()), 1e9):
        assert Numeric().count(np.array([*honest, *[lie] * f]), f)[0] == "outer"
        assert Numeric().count(np.array([*-honest, *[-lie] * f]), f)[0] == "inner"


@pytest.mark.parametrize(("n", "f"), [(n, f) for n in range(1, 9) for f in range((n + 1) // 2)])
def test_the_better_model_wins_iff_half_and_one_honest_ballots_are_right(n: int, f: int) -> None:
    """theory.md 2f, ties lost: n - f honest ballots in every combination, f against."""
    both = candidates(n, f)
    for right in itertools.product([True, False], repeat=n - f):
        wins = sum(right) >= n // 2 + 1
        gains = [*(1.0 if ballot else -1.0 for ballot in right), *[-1.0] * f]
        assert (elect(both, told(gains)).name == "outer") == wins
        back = elect(both, told([-g for g in gains]), Ballot(ties="outer"))
        assert (back.name == "inner") == wins


@pytest.mark.parametrize("election", [Ballot(), Numeric()], ids=repr)
@given(SEEDS, st.integers(1, 8))
@settings(max_examples=150, deadline=None)
def test_certain_means_that_every_honest_set_prefers_outer(election: Any, seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    f = int(rng.integers(0, (n + 1) // 2))
    gains = rng.integers(-4, 12, size=n).astype(float)
    every = all(sum(S) > 0 for S in itertools.combinations(gains.tolist(), n - f))
    winner = elect(candidates(n, f), told(gains), election)
    assert winner.certain == every
    if every and isinstance(election, Numeric):
        assert winner.name == "outer"


def test_liars_who_shout_as_loud_as_floats_can_raise_nothing() -> None:
    honest = np.tile([2.0, 1.0], (7, 1))
    losses = np.concatenate([honest, np.ones((4, 2))])
    lies = VOTERS["AgainstMajority"]()(losses, np.arange(7, 11), np.random.default_rng(0))
    both = candidates(11, 4)
    assert elect(both, [*enumerate(honest), *lies], Numeric()).name == "outer"


# messages


class Raises:
    """Says so whatever it is asked."""

    def __float__(self) -> float:
        raise ZeroDivisionError

    def __iter__(self) -> Iterator[Any]:
        raise RuntimeError

    def __hash__(self) -> int:
        raise RecursionError

    def __eq__(self, other: object) -> bool:
        raise MemoryError


class Number(int):
    """An int that can't be looked up."""

    def __hash__(self) -> int:
        raise KeyError


HOSTILE: list[Any] = [
    None,
    5,
    "report",
    "ab",
    (),
    (0,),
    (0, 1, 2),
    ((0, 1), 2),
    itertools.count(),
    Raises(),
    (Raises(), (0.0, 9.0)),
    (Number(0), (0.0, 9.0)),
    (-1, (0.0, 9.0)),
    (99, (0.0, 9.0)),
    (10**30, (0.0, 9.0)),
    (0.0, (0.0, 9.0)),
    ("0", (0.0, 9.0)),
    (None, (0.0, 9.0)),
    (np.array([0]), (0.0, 9.0)),
    ([0], (0.0, 9.0)),
    {0: 1},
    np.zeros((2, 2)),
    object(),
]


@pytest.mark.parametrize("election", ELECTIONS, ids=repr)
@pytest.mark.parametrize("message", HOSTILE, ids=lambda m: type(m).__name__)
def test_a_message_of_nobody_changes_nothing(message: Any, election: Any) -> None:
    both, votes = candidates(7, 2), told([1, 1, 1, 1, -1, -1, -1])
    assert elect(both, [message, *votes, message], election) == elect(both, votes, election)


LOSSES: list[Any] = [
    None,
    3.0,
    "inner",
    (),
    (1.0,),
    (1.0, 2.0, 3.0),
    (Raises(), 1.0),
    (1.0, Raises()),
    Raises(),
    (10**400, 1),
    (1, -(10**400)),
    (None, 1.0),
    ((1.0, 2.0), 3.0),
    [[1.0], [2.0]],
    np.zeros(1),
    np.zeros(3),
    np.zeros((2, 2)),
    np.float64(3.0),
    itertools.count(),
    itertools.repeat(math.nan),
    {"inner": 1.0, "outer": 2.0},
    object(),
    lambda: (1.0, 2.0),
    (1j, 2j),
]


@pytest.mark.parametrize("election", ELECTIONS, ids=repr)
@pytest.mark.parametrize("losses", LOSSES, ids=lambda m: type(m).__name__)
def test_a_malformed_vote_is_a_missing_one(losses: Any, election: Any) -> None:
    both, votes = candidates(7, 2), told([1, 1, 1, -1, -1, -1])
    winner = elect(both, [*votes, (6, losses)], election)
    assert winner == elect(both, votes, election)
    assert winner.reports == 6


@pytest.mark.parametrize("election", ELECTIONS, ids=repr)
def test_a_double_vote_costs_its_voter_alone(election: Any) -> None:
    both, votes = candidates(7, 2), told([1, 1, 1, -1, -1, -1])
    for second in ((6, (0.0, 1.0)), (6, (1.0, 0.0)), (6, "what"), (6, None), (np.int64(6), (1.0, 0.0))):
        twice = [(6, (1.0, 0.0)), *votes, second]
        assert elect(both, twice, election) == elect(both, votes, election)


def test_numbers_of_numpy_and_generators_are_reports() -> None:
    reports: Any = ((np.int32(i), np.array([2.0, 1.0], dtype=np.float32)) for i in range(5))
    assert elect(candidates(5, 1), reports).lead == 5.0
    assert gains_of([(np.uint8(3), [2, 1])], range(5)) == {3: 1.0}


@pytest.mark.parametrize("who", [True, False])
def test_a_bool_is_no_voter(who: bool) -> None:
    votes = told([1, 1, 1])
    assert gains_of([*votes, (who, (0.0, 9.0))], range(3)) == {0: 1.0, 1: 1.0, 2: 1.0}


@pytest.mark.parametrize("message", [{0: 1, 1: 2}, {0, 1}, bytes(2)], ids=repr)
def test_a_message_that_is_no_pair_names_nobody(message: Any) -> None:
    assert gains_of([*told([1, 1, 1]), message], range(3)) == {0: 1.0, 1: 1.0, 2: 1.0}


class Borrowed(int):
    """Looks like voter 0 and turns into voter 3."""

    def __int__(self) -> int:
        return 3


def test_nobody_can_vote_in_anothers_place() -> None:
    assert gains_of([(3, (2.0, 1.0)), (Borrowed(0), (0.0, 9.0))], range(4)).get(3) == 1.0


@pytest.mark.parametrize(
    "losses", ["12", ("1", "2"), b"ab", {1.0: "a", 2.0: "b"}, np.array(["1", "2"]), (True, False)], ids=repr
)
def test_what_is_not_two_numbers_does_not_count(losses: Any) -> None:
    assert gains_of([(0, losses)], range(3)) == {}


@pytest.mark.parametrize("name", [*VOTERS])
@pytest.mark.parametrize("election", ELECTIONS, ids=repr)
def test_no_voter_overturns_an_election_that_honest_ones_agree_on(election: Any, name: str) -> None:
    """Eight of eleven see the same, by more than the margin; three lie as they can."""
    both, liars = candidates(11, 3), np.array([2, 5, 7])
    for better in (0, 1):
        losses = np.tile([1.0, 1.0], (11, 1))
        losses[:, better] = 0.0
        lies = VOTERS[name]()(losses, liars, np.random.default_rng(0))
        honest = [(i, losses[i]) for i in range(11) if i not in liars]
        winner = elect(both, [*lies, *honest], election)
        assert winner.name == ("inner", "outer")[better]


# f of an election


def test_the_tolerance_of_a_chain_is_that_of_its_weakest_stage() -> None:
    assert (NNM(3) >> CWTM(2)).tolerance() == 2
    assert (NNM(3) >> CWM()).tolerance() == 3
    assert Krum(2).tolerance() == 2
    assert Average().tolerance() is None
    assert TwoPhase(NNM(3) >> Krum(2), OuterMean(1)).tolerance() == 2


def test_the_f_that_phase_one_ended_with_trims_the_reports() -> None:
    """Krum needs 2f + 3: of eleven two are dropped, f is 3, and only three reports are cut off on each side."""
    X = gaussian(np.random.default_rng(0), 11, 3)
    X[:2] = np.nan
    assert propose(X, Krum(4), OuterMean(4)).f == 4  # Outer has room for 4: the larger one is the safer
    both = propose(X, Krum(4), OuterMean(3))
    assert both.f == 3
    gains = {2: -9.0, 3: -9.0, 4: -9.0, 5: 1.0, 6: 1.0, 7: 1.0, 8: 1.0, 9: 1.0, 10: 1.0}
    reports = [(i, (max(g, 0.0), max(-g, 0.0))) for i, g in gains.items()]
    assert elect(both, reports, Numeric()) == Winner("outer", 1.0, 9)


@pytest.mark.parametrize("inner", [GeometricMedian(), CWM()], ids=repr)
def test_one_liar_does_not_decide_where_outer_knows_f(inner: Any) -> None:
    both = propose(gaussian(np.random.default_rng(0), 7, 3), inner, OuterMean(2))
    reports = told([-1.0] * 6 + [1e6])
    assert elect(both, reports, Numeric()).name == "inner"


# the text


@pytest.mark.parametrize("rule", ALL, ids=repr)
def test_a_two_phase_rule_is_its_text(rule: TwoPhase) -> None:
    again = parse(repr(rule), AGGREGATORS)
    assert again == rule
    assert hash(again) == hash(rule)
    assert pickle.loads(pickle.dumps(rule)) == rule


def test_the_papers_names() -> None:
    assert parse("Mean2P(f=3)", AGGREGATORS) == TwoPhase(MeanwO(3), OuterMean(3))
    assert parse("Cent2P(3)", AGGREGATORS) == TwoPhase(CenterwO(3), OuterCenter(3), Ballot())
    assert repr(Mean2P(3)) == "TwoPhase(inner=MeanwO(f=3), outer=OuterMean(f=3))"
    assert parse("NNM(f=1) >> CWM()", AGGREGATORS) == NNM(1) >> CWM()
    for election in ELECTIONS:
        assert parse(repr(election), AGGREGATORS) == election


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Mean2P()", "write it as Mean2P(f=2)"),
        ("Mean2P(f=-1)", "f = -1"),
        ("Cent2P(f=1.5)", "f = 1.5"),
        ("TwoPhase(MeanwO(f=1), 3)", "TwoPhase was given outer = 3"),
        ("TwoPhase(None, MeanwO(f=1))", "TwoPhase was given inner = None"),
        ("TwoPhase(NNM(f=1), MeanwO(f=1))", "inner = NNM(f=1)"),
        ("TwoPhase(Mean2P(f=1), MeanwO(f=1))", "it is a rule"),
        ("TwoPhase(MeanwO(f=1), OuterMean(f=1), 'Ballot')", "election = 'Ballot'"),
        ("Ballot(ties='both')", "ties = 'both'"),
        ("Numeric(margin=-0.5)", "margin = -0.5"),
        ("Numeric(margin=1e999)", "margin = inf"),
        ("NNM(f=1) >> Mean2P(f=1)", ">> joins stages"),
        ("Maen2P(f=1)", "did you mean Mean2P?"),
    ],
)
def test_what_is_wrong_gets_one_sentence(text: str, said: str) -> None:
    with pytest.raises(BadInput) as error:
        parse(text, AGGREGATORS)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("text", ["Mean2P(f=3) >> Krum(f=3)", "Ballot() >> Ballot()"])
def test_only_stages_chain(text: str) -> None:
    with pytest.raises(BadInput):
        parse(text, AGGREGATORS)


def proposition_n(election: Ballot | Numeric) -> tuple[float, int]:
    """The mean of the squared gradient over 40 rounds of Proposition N, and how many of them Outer won.

    Gradients and losses are exact, and the start is the minimiser.
    """
    n, f, rounds, step, eta, omega = 11, 4, 40, 0.25, 0.1, 1e6
    h, nu = n - f, math.sqrt(1 / (2 * omega))
    p = n // 2 + 1 - f if isinstance(election, Ballot) else n - 2 * f
    tilt = np.array([-1.0] * p + [p / (h - p)] * (h - p))  # of each honest loss; their sum is zero
    rule = TwoPhase(MeanwO(f), OuterMean(f), election)

    def loss(at: float) -> float:
        return eta * (math.sqrt(1 + at * at) - 1) + omega * (1 - math.cos(nu * at))

    def slope(at: float) -> float:
        return eta * at / math.sqrt(1 + at * at) + omega * nu * math.sin(nu * at)

    at, squares, won = 0.0, [], 0
    for _ in range(rounds):
        squares.append(slope(at) ** 2)
        k = math.ceil((at + 2 * (2 * omega + 10) / (1 - eta) + 10) * nu / (2 * math.pi)) + 1
        wanted = -((2 * math.pi * k + math.pi / 2) / nu - at) / step * h  # the sum of what Outer keeps
        far = np.array([(-1) ** j * 1e9 * (j + 1) for j in range(f)]) * max(1, abs(wanted) / 1e6)
        X = np.append(slope(at) + tilt, far)[:, None]
        for _ in range(5):  # the last liar makes the sum exact
            X[-1] += wanted - X[list(OuterMean(f).decide(X).kept)].sum()
        both = rule.propose(X)
        models = [at - step * float(one.value[0]) for one in (both.inner, both.outer)]
        reports: list[Any] = [(i, [loss(m) + a * m for m in models]) for i, a in enumerate(tilt)]
        winner = rule.elect(both, [*reports, *((i, [1e300, 0.0]) for i in range(h, n))], step=step)
        at, won = models[winner.name == "outer"], won + (winner.name == "outer")
    return float(np.mean(squares)), won


@pytest.mark.parametrize("election", [Ballot(), Numeric(), Numeric(margin=10.0)], ids=repr)
def test_as_printed_two_phases_have_no_bound(election: Ballot | Numeric) -> None:
    squares, won = proposition_n(election)
    assert won == 40
    assert squares > 4e5


@pytest.mark.parametrize("election", [Ballot(proximal=0.25), Numeric(proximal=0.25)], ids=repr)
def test_a_proximal_margin_keeps_the_minimiser(election: Ballot | Numeric) -> None:
    squares, won = proposition_n(election)
    assert won == 0
    assert squares < 1e-20


class TestProximalMargin:
    def test_it_is_c_times_the_step_times_the_squared_distance(self) -> None:
        inner, outer = {"w": np.zeros(2, np.float32)}, {"w": np.array([3.0, 4.0], np.float32)}
        assert proximal_margin(Numeric(proximal=0.2), inner, outer, step=0.1) == pytest.approx(0.2 * 0.1 * 25)
        assert proximal_margin(Numeric(), inner, outer, step=None) == 0.0
        assert proximal_margin(Ballot(proximal=1.0), inner, {"w": np.array([1e30, 0.0])}, step=1.0) == pytest.approx(
            1e60
        )
        assert proximal_margin(Ballot(proximal=1.0), inner, {"w": np.array([np.nan, 0.0])}, step=1.0) == math.inf

    def test_a_voter_counts_for_outer_beyond_it_alone(self) -> None:
        gains = np.array([0.3, 0.2, 0.1, 0.0, -5.0])
        assert Ballot().count(gains, f=1) == ("outer", 1.0)
        assert Ballot().count(gains, f=1, margin=0.2) == ("inner", -3.0)  # a tie is no vote for Outer
        assert Ballot(ties="outer").count(gains, f=1, margin=0.2) == ("inner", -1.0)
        assert Numeric().count(gains, f=1, margin=0.05)[0] == "outer"
        assert Numeric(margin=0.06).count(gains, f=1, margin=0.05)[0] == "inner"

    @pytest.mark.parametrize("step", [None, 0, -1.0, math.nan, math.inf, "0.1", True])
    def test_it_needs_the_length_of_a_step(self, step: Any) -> None:
        rule = TwoPhase(MeanwO(1), OuterMean(1), Numeric(proximal=0.05))
        candidates = rule.propose(gaussian(np.random.default_rng(0), 5, 3))
        with pytest.raises(BadInput, match=r"^Numeric\(proximal=0\.05\) was given step = .*; its margin needs step="):
            rule.elect(candidates, [(i, (1.0, 0.5)) for i in range(5)], step=step)

    def test_old_texts_and_records_keep_their_meaning(self) -> None:
        assert repr(Numeric()) == "Numeric()"
        assert repr(Ballot()) == "Ballot()"
        rule = TwoPhase(MeanwO(2), OuterMean(2), Numeric(proximal=0.05))
        assert parse(repr(rule)) == rule

    def test_the_theorem_needs_a_majority_so_ties_go_to_inner(self) -> None:
        gains = np.array([1.0, 0.0, 0.0, 99.0])
        assert Ballot(ties="outer", proximal=0.25).count(gains, f=1, margin=1.0) == ("inner", -2.0)

    def test_it_is_not_forgotten_by_the_function_alone(self) -> None:
        rule = TwoPhase(MeanwO(1), OuterMean(1), Numeric(proximal=1e6))
        candidates = rule.propose(gaussian(np.random.default_rng(0), 5, 3))
        reports = [(i, (1.0, 0.5)) for i in range(5)]
        with pytest.raises(BadInput, match=r"^Numeric\(proximal=1000000\.0\) was given no margin; pass margin="):
            elect(candidates, reports, rule.election)
        assert rule.elect(candidates, reports, step=1.0).name == "inner"
