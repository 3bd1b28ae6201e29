"""Profiles: how answers depend on f, where they jump, and what a wrong f costs."""

from __future__ import annotations

import json
from math import inf, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import holdfast
from holdfast import (
    CWM,
    CWTM,
    MDA,
    NNM,
    PTM,
    Average,
    BadInput,
    Bucketing,
    Bulyan,
    CenterwO,
    Krum,
    Mean2P,
    MeanExact,
    MeanwO,
    MultiKrum,
    NearestTo,
    StreamCenterwO,
    geometry,
    profile,
)
from holdfast.guarantees.bounds import bounds
from holdfast.guarantees.certificate import certificate
from holdfast.guarantees.choose import choose
from holdfast.guarantees.criteria import ratios, subsets
from holdfast.guarantees.misjudged import kappa_if, least_if
from holdfast.guarantees.profile import Profile
from holdfast.points import Points
from holdfast.reading import read
from holdfast.report.profile import draw
from tests import children

RULES = (MeanwO(1), CWTM(1), PTM(1), CenterwO(1), Krum(1), MultiKrum(1), NNM(1) >> CWTM(1), NearestTo(CWTM(1)))
NAMED = [pytest.param(rule, id=repr(rule)) for rule in RULES]


def planted(seed: int, n: int = 15, liars: int = 4, far: float = 12.0, d: int = 30) -> np.ndarray:
    """Honest vectors behind liars that all stand on one side."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    X[:liars] += far * np.sqrt(d) * np.eye(d)[0]
    return X


class TestSteps:
    @pytest.mark.parametrize("rule", NAMED)
    def test_each_answer_and_certificate_is_that_of_the_rule_with_this_f(self, rule: Any) -> None:
        X = planted(0)
        found = profile(X, rule)
        for f, decision in enumerate(found.decisions):
            alone = rule.with_f(f).decide(X)
            assert decision.rule == rule.with_f(f) == alone.rule
            np.testing.assert_array_equal(decision.value, alone.value)
            assert decision.excluded == alone.excluded
            np.testing.assert_allclose(found.kappas[f], certificate(alone, X).kappa, rtol=1e-6, atol=1e-20)
            assert found.promises[f] == bounds(rule.with_f(f), 15)["kappa"].ours.value  # type: ignore[union-attr]
        steps = np.diff([decision.value for decision in found.decisions], axis=0)
        np.testing.assert_allclose(found.moves[1:], np.linalg.norm(steps, axis=1), atol=1e-12)
        assert found.moves[0] == 0

    @pytest.mark.parametrize(("rule", "most"), [(MeanwO(1), 7), (Krum(1), 6), (Bulyan(1), 3), (MDA(1), 7)])
    def test_f_grows_to_the_largest_that_the_rule_takes(self, rule: Any, most: int) -> None:
        assert len(profile(planted(0), rule).decisions) == most + 1

    def test_it_is_the_same_for_every_f_that_is_given(self) -> None:
        X = planted(0)
        np.testing.assert_array_equal(profile(X, MeanwO(0)).shifts, profile(X, MeanwO(7)).shifts)
        assert profile(X, MeanwO(3, refine=1)).decisions[2].rule == MeanwO(2, refine=1)

    def test_distances_are_measured_once_for_all_f(self, monkeypatch: pytest.MonkeyPatch) -> None:
        asked = []
        measured = geometry._measured

        def count(*given: Any, **how: Any) -> Any:
            asked.append(given)
            return measured(*given, **how)

        monkeypatch.setattr(geometry, "_measured", count)
        found = profile(planted(0), MeanwO(1))
        assert len(found.decisions) == 8
        assert len(asked) == 1

    def test_an_answer_of_coordinates_is_measured_alone(self, monkeypatch: pytest.MonkeyPatch) -> None:
        rows = []
        measured = geometry._measured

        def count(points: Any, centres: np.ndarray, *given: Any, **how: Any) -> Any:
            rows.append(len(centres))
            return measured(points, centres, *given, **how)

        monkeypatch.setattr(geometry, "_measured", count)
        profile(planted(0), CWTM(1))
        assert sorted(rows) == [1] * 8 + [15, 15]  # in float64 for certificates, and as MeanwO measures

    def test_other_f_leave_an_updates_as_it_was(self) -> None:
        updates = read(planted(0), "test")
        profile(updates, MeanwO(1))
        assert updates.on_excess == "refuse"
        np.testing.assert_array_equal(MeanwO(4)(updates), MeanwO(4)(planted(0)))

    def test_draws_are_the_same_for_every_f_and_are_not_taken_from_the_callers_generator(self) -> None:
        rng = np.random.default_rng(3)
        rule = Bucketing(s=2) >> CWTM(1)
        found = profile(planted(0), rule, rng=rng)
        again = rule.with_f(2)(planted(0), rng=np.random.default_rng(3))
        np.testing.assert_array_equal(found.decisions[2].value, again)
        assert rng.random() == np.random.default_rng(3).random()
        with pytest.raises(BadInput, match="rng"):
            profile(planted(0), rule)

    def test_a_rule_of_one_pass_is_profiled_too(self) -> None:
        found = profile(list(planted(0)), StreamCenterwO(1))
        assert found.jump == 4

    def test_torch_and_structures_stay_what_they_are(self) -> None:
        X = planted(0)
        found = profile(torch.tensor(X), MeanwO(1))
        assert isinstance(found.decisions[1].value, torch.Tensor)
        assert found.jump == profile(X, MeanwO(1)).jump == 4
        named = profile([{"a": x[:5].astype(np.float32), "b": x[5:]} for x in X], MeanwO(1))
        assert set(named.decisions[0].value) == {"a", "b"}
        assert named.jump == 4

    def test_only_measured_entries_count(self) -> None:
        rows = [{"a": x, "b": np.full(3, 1e6 * i)} for i, x in enumerate(planted(0))]
        found = profile(read(rows, "test", measure=lambda name: name == "a"), MeanwO(1))
        np.testing.assert_allclose(found.moves, profile(planted(0), MeanwO(1)).moves)


class TestJumps:
    @pytest.mark.parametrize("liars", [1, 2, 4, 6])
    def test_the_last_jump_is_at_the_number_of_outliers(self, liars: int) -> None:
        for seed in range(20):
            found = profile(planted(seed, liars=liars), MeanwO(1))
            assert found.jump == liars
            assert found.decisions[liars].excluded == tuple(range(liars))

    @pytest.mark.parametrize("rule", [*NAMED[:4], *NAMED[5:]])
    def test_other_rules_jump_there_too(self, rule: Any) -> None:
        assert [profile(planted(seed), rule).jump for seed in range(5)] == [4] * 5

    def test_krum_does_not_move_since_it_takes_an_honest_vector_for_every_f(self) -> None:
        found = profile(planted(0, far=1e3), Krum(1))
        assert found.jump is None
        assert found.shifts.max() < 3 * sqrt(30)

    @pytest.mark.parametrize("rule", NAMED)
    def test_honest_rounds_do_not_jump(self, rule: Any) -> None:
        assert [profile(planted(seed, liars=0), rule).jump for seed in range(10)] == [None] * 10

    @pytest.mark.parametrize("scale", [1e-300, 1e-150, 1e-20, 1e20, 1e150, 1e300])
    def test_the_scale_of_the_vectors_does_not_matter(self, scale: float) -> None:
        plain, scaled = profile(planted(0), MeanwO(1)), profile(planted(0) * scale, MeanwO(1))
        np.testing.assert_allclose(scaled.ratios, plain.ratios, rtol=1e-6)
        assert scaled.jump == 4

    def test_weight_that_moves_together_is_no_jump(self) -> None:
        rng = np.random.default_rng(0)
        X = np.sort(rng.uniform(size=(35, 1)), axis=0)
        assert profile(X, MeanwO(1)).jump is None


class TestHostileRows:
    @pytest.mark.parametrize("sent", [1e300, -1e300, 1.7e308, 1e30, 1e-300])
    @pytest.mark.parametrize("rule", NAMED)
    def test_large_and_small_numbers(self, rule: Any, sent: float) -> None:
        X = planted(0, liars=0)
        X[:3] = sent
        found = profile(X, rule)
        for decision in found.decisions[3:]:
            np.testing.assert_array_equal(decision.value, rule.with_f(decision.rule.tolerance()).decide(X).value)
            assert np.abs(decision.value).max() < 10
        if abs(sent) > 1 and not isinstance(rule, Krum):
            assert found.jump == 3
        assert not np.isnan(found.moves).any()
        assert not np.isnan(found.ratios).any()

    @pytest.mark.parametrize("sent", [np.nan, np.inf, -np.inf])
    def test_rows_that_are_not_finite_are_dropped_and_do_not_count(self, sent: float) -> None:
        X = planted(0)
        X[7:9, 3] = sent
        found = profile(X, MeanwO(1))
        assert found.n == 13
        assert found.decisions[0].dropped.keys() == {7, 8}
        assert found.jump == 4
        assert "2 of 15 updates were dropped; add them to f." in str(found)

    def test_rows_of_another_structure_are_dropped_with_like(self) -> None:
        rows: list[Any] = [*planted(0)]
        rows[9] = np.zeros(3)
        rows[10] = "nonsense"
        assert profile(rows, MeanwO(1), like=rows[0]).jump == 4

    def test_copies_and_equal_rows(self) -> None:
        X = planted(0, liars=0)
        X[:4] = X[0] + 50
        assert profile(X, MeanwO(1)).jump == 4
        same = profile(np.full((9, 4), 0.1), MeanwO(1))
        assert same.jumps == ()
        assert not same.moves.any()
        close = profile(np.vstack([np.full((6, 4), 0.1), np.full((2, 4), 0.2)]), MeanwO(1))
        assert close.jump == 2
        assert close.ratios[2] == inf

    def test_rounding_is_no_move(self) -> None:
        X = np.full((9, 1000), 1 / 3, np.float32)
        assert profile(X, CWTM(1)).jumps == ()
        assert profile(X.astype(np.float16), MeanwO(1)).jumps == ()

    def test_when_nothing_can_be_used_it_says_so(self) -> None:
        with pytest.raises(BadInput, match="n = 0 vectors"):
            profile(np.full((4, 2), np.nan), MeanwO(1))
        assert len(profile(np.ones((1, 2)), MeanwO(1)).decisions) == 1
        assert len(profile([[1.0], [np.nan]], MeanwO(1)).decisions) == 1


class TestWeights:
    def test_answers_are_those_of_the_weighted_rule(self) -> None:
        X, weights = planted(0, far=40.0), np.arange(15) % 3 + 1
        found = profile(X, MeanwO(1), weights=weights)
        for f, decision in enumerate(found.decisions):
            np.testing.assert_array_equal(decision.value, MeanwO(f)(X, weights=weights))
        assert found.jump == 3  # the liars weigh 1 + 2 + 3 + 1, and the three heaviest weigh 9
        own = [certificate(MeanwO(f).decide(X, weights=weights)).kappa for f in range(len(found.decisions))]
        np.testing.assert_allclose(found.kappas, own, rtol=1e-9)
        held, total = 4 * 3, 30
        assert found.promises[4] == kappa_if(MeanwO(held), total, held)

    def test_f_ends_before_the_heaviest_hold_half(self) -> None:
        weights = [10, 10, *[1] * 13]
        assert len(profile(planted(0), MeanwO(1), weights=weights).decisions) == 2
        assert len(profile(planted(0), MeanwO(1), weights=[1, *[0] * 7, *[1] * 7]).decisions) == 4

    def test_equal_weights_change_nothing(self) -> None:
        plain, equal = profile(planted(0), CWTM(1)), profile(planted(0), CWTM(1), weights=[2.0] * 15)
        np.testing.assert_array_equal(plain.shifts, equal.shifts)
        np.testing.assert_array_equal(plain.kappas, equal.kappas)
        np.testing.assert_array_equal(plain.promises, equal.promises)

    @pytest.mark.parametrize("rule", [MeanwO(1), CWTM(1), PTM(1)])
    def test_whole_weights_move_the_answer_as_copies_do(self, rule: Any) -> None:
        X, weights = planted(2), np.array([2] * 15)
        weights[8] = 3
        copies = np.repeat(X, weights, axis=0)
        found = profile(X, rule, weights=weights)
        value = rule.with_f(9)(copies)  # the four heaviest hold 3 + 2 + 2 + 2
        np.testing.assert_allclose(found.decisions[4].value, value, rtol=1e-9, atol=1e-9)
        assert found.jump == 4
        assert found.promises[4] == pytest.approx(kappa_if(rule.with_f(9), 31, 9))


class TestCosts:
    def test_too_small_an_f_promises_nothing_and_too_large_an_f_the_larger_constant(self) -> None:
        found = profile(planted(0), CWTM(1))
        assert found.cost(3, 4) == inf
        assert found.cost(3, 3) == 3 / 9
        assert found.cost(6, 3) == 6 / (15 - 6 - 3)
        assert found.cost(6, 3) < found.promises[6] == 6 / 3
        with pytest.raises(BadInput, match="f = 8; f is a whole number, 0 to 7"):
            found.cost(8, 1)
        wrong: Any = 0.5
        with pytest.raises(BadInput, match="is a whole number"):
            found.cost(1, -1)
        with pytest.raises(BadInput, match="is a whole number"):
            found.deviation(wrong)

    @pytest.mark.parametrize("rule", [MeanwO(3), CWTM(3), MeanExact(3), PTM(3), CenterwO(3), NearestTo(CWTM(3))])
    def test_no_round_exceeds_the_cost_of_a_wrong_f(self, rule: Any) -> None:
        rng = np.random.default_rng(0)
        for _ in range(150):
            n = int(rng.integers(7, 10))
            X = rng.choice([rng.standard_normal((n, 2)), rng.integers(-1, 2, (n, 2)).astype(float)])
            X = X * rng.choice([1.0, 3.0, 1.0], n)[:, None]
            answer = rule(X)
            for lie in range(4):
                worst = ratios("kappa", answer, X, subsets(n, lie)).max()
                assert worst <= kappa_if(rule, n, lie) * (1 + 1e-9)

    @pytest.mark.parametrize(("n", "f", "lie"), [(10, 3, 0), (10, 3, 1), (10, 4, 2), (35, 7, 3), (35, 17, 17)])
    def test_the_least_cost_is_reached(self, n: int, f: int, lie: int) -> None:
        X = np.vstack([np.zeros((n - f, 1)), np.ones((f, 1))])
        honest = np.ones((1, n))
        honest[0, :lie] = 0
        for rule in (CWTM(f), MeanwO(f), PTM(f)):
            assert ratios("kappa", rule(X), X, honest)[0] == pytest.approx(least_if(n, f, lie))
            assert kappa_if(rule, n, lie) >= least_if(n, f, lie) * (1 - 1e-9)

    @pytest.mark.parametrize("rule", [MeanwO(3), CWTM(3), PTM(3), CenterwO(3), MeanExact(3)])
    def test_one_liar_too_many_moves_the_answer_as_far_as_it_wants(self, rule: Any) -> None:
        X = planted(0, liars=0)
        X[:4] = 1e12
        assert np.linalg.norm(rule(X)) > 1e10

    def test_a_move_says_how_spread_the_honest_are_if_fewer_lie(self) -> None:
        for seed in range(30):
            X = planted(seed, n=9, liars=seed % 4, d=3)
            for rule in (MeanwO(1), CWTM(1), CenterwO(1)):
                found = profile(X, rule)
                for f in range(1, 5):
                    masks = np.vstack([subsets(9, lie) for lie in range(f)]).astype(bool)
                    least = min(np.sqrt(np.square(X[m] - X[m].mean(axis=0)).sum(axis=1).mean()) for m in masks)
                    assert found.deviation(f) <= least * (1 + 1e-9)
                assert found.deviation(0) == 0


class TestRefusals:
    def test_a_rule_without_f(self) -> None:
        for rule in (CWM(), Average()):
            with pytest.raises(BadInput, match=r"has no f, so its answer is the same for every f; .* as MeanwO\(f=1\)"):
                profile(planted(0), rule)
        with pytest.raises(BadInput, match=r"CWM\(\) has no f"):
            CWM().with_f(1)

    @pytest.mark.parametrize("rule", [Mean2P(1), NNM(1), "MeanwO(f=1)", MeanwO])
    def test_what_gives_no_single_answer(self, rule: Any) -> None:
        with pytest.raises(BadInput):
            profile(planted(0), rule)

    def test_bad_input_names_the_caller(self) -> None:
        with pytest.raises(BadInput, match=r"^profile was given"):
            profile("nonsense", MeanwO(1))
        with pytest.raises(BadInput, match=r"^profile was given"):
            profile(planted(0), MeanwO(1), weights=[1.0])


def test_a_chain_changes_every_f() -> None:
    assert (NNM(3) >> CWTM(3)).with_f(1) == NNM(1) >> CWTM(1)
    assert (NNM(3) >> CWTM(2)).with_f(4) == NNM(5) >> CWTM(4)
    assert NearestTo(CWTM(3)).with_f(5) == NearestTo(CWTM(5))
    assert NearestTo(CWM(), f=3).with_f(5) == NearestTo(CWM(), f=5)


def test_distances_of_another_core_are_those_that_it_would_measure_itself() -> None:
    rng = np.random.default_rng(0)
    for kind in range(6):
        X = rng.standard_normal((9, 4))
        X[:kind] *= (1.0, 1e200, 1e-200, 1e160, 1e300, 0.0)[kind]
        updates = read(X, "test")
        for core in rng.permutation(np.arange(1, 10)):
            known = geometry.distances(Points.rows(updates, np.arange(9)), core=int(core))
            fresh = geometry.distances(Points.rows(read(X, "test"), np.arange(9)), core=int(core))
            np.testing.assert_array_equal(known.D, fresh.D)
            assert known[1:] == fresh[1:]


def test_it_is_at_hand_and_says_what_it_found() -> None:
    assert "profile" in dir(holdfast)
    assert isinstance(profile(planted(0), MeanwO(1)), Profile)
    text = str(profile(planted(0), MeanwO(1)))
    assert text.splitlines()[0] == "MeanwO(f=1) on 15 vectors, for every f"
    assert [line.split()[0] for line in text.splitlines() if line.endswith("jump")] == ["4"]
    assert "The answer jumps at f = 4" in text
    assert "does not jump from f = 0 to 7" in str(profile(planted(0, liars=0), MeanwO(1)))


def test_a_picture_of_every_kind_of_profile(tmp_path: Path) -> None:
    rounds = (planted(0), planted(0, liars=0), np.ones((5, 2)), np.ones((1, 2)), planted(0) * 1e300)
    for at, X in enumerate(rounds):
        draw(profile(X, MeanwO(1)), tmp_path / f"{at}.svg")
        assert (tmp_path / f"{at}.svg").read_bytes().startswith(b"<?xml")
    draw(profile(planted(0), MeanwO(1), weights=range(1, 16)), tmp_path / "weighted.svg")


class TestUnknown:
    def test_rules_that_need_no_f_with_constants_for_several_f(self) -> None:
        advice = choose(35, None)
        assert [type(one.rule).__name__ for one in advice] == ["CWM", "GeometricMedian", "Medoid"]
        for one in advice:
            assert list(one.over_f) == [1, 3, 7, 11, 17]
            assert one.promises == one.over_f[17]
            assert all(known == bounds(one.rule, 35, f) for f, known in one.over_f.items())
        assert choose(35, 7)[0].over_f == {}

    @pytest.mark.parametrize(("n", "several"), [(1, [0]), (2, [0]), (3, [1]), (4, [1]), (11, [1, 2, 3, 5])])
    def test_few_workers(self, n: int, several: list[int]) -> None:
        assert list(choose(n, None)[0].over_f) == several

    def test_a_stream_needs_f(self) -> None:
        with pytest.raises(BadInput, match="so give f"):
            choose(35, None, stream=True)


class TestCommands:
    @pytest.fixture
    def rows(self, tmp_path: Path) -> Path:
        np.save(tmp_path / "rows.npy", planted(0))
        return tmp_path

    def said(self, *words: str, cwd: Path, code: int = 0) -> str:
        done = children.run(children.holdfast(*words), cwd=cwd, env=children.WIDE)
        assert done.returncode == code, done.stderr
        assert "Traceback" not in done.stderr
        return done.stdout if code == 0 else done.stderr

    def test_a_table_with_the_jump_and_a_picture(self, rows: Path) -> None:
        out = self.said("profile", "MeanwO(f=1)", "rows.npy", "--out", "p.svg", cwd=rows)
        assert [line.split()[0] for line in out.splitlines() if line.rstrip().endswith(" jump")] == ["4"]
        assert "Excluded there: 0, 1, 2, 3" in out
        assert "the picture is in p.svg" in out
        assert b"<svg" in (rows / "p.svg").read_bytes()

    def test_json(self, rows: Path) -> None:
        (rows / "w.json").write_text(json.dumps([1] * 14 + [2]))
        found = json.loads(self.said("profile", "MeanwO(f=1)", "rows.npy", "--json", cwd=rows))
        assert found["jump"] == 4
        assert [step["f"] for step in found["steps"] if step["jump"]] == [4]
        assert found["steps"][4]["excluded"] == ["0", "1", "2", "3"]
        weighted = json.loads(
            self.said("profile", "MeanwO(f=1)", "rows.npy", "--json", "--weights", "w.json", cwd=rows)
        )
        assert 0 < weighted["steps"][1]["kappa"] < found["steps"][4]["kappa"]

    def test_what_is_refused(self, rows: Path) -> None:
        assert "has no f" in self.said("profile", "CWM()", "rows.npy", cwd=rows, code=2)
        assert "take MeanwO(f=1)" in self.said("profile", "Mean2P(f=1)", "rows.npy", cwd=rows, code=2)
        assert "the formats are" in self.said("profile", "MeanwO(f=1)", "rows.npy", "--out", "p.txt", cwd=rows, code=2)
        drawn = ("profile", "Bucketing(s=2) >> CWTM(f=1)", "rows.npy")
        assert "add --seed 1" in self.said(*drawn, cwd=rows, code=2)
        assert "jump" in self.said(*drawn, "--seed", "1", cwd=rows)

    def test_choose_with_an_unknown_f(self, tmp_path: Path) -> None:
        out = self.said("choose", "--n", "35", "--f", "unknown", cwd=tmp_path)
        assert "f = 17" in out
        assert "holdfast profile" in out
        found = json.loads(self.said("choose", "--n", "35", "--f", "unknown", "--json", cwd=tmp_path))
        assert found[0]["over_f"]["17"] == found[0]["promises"]
        assert "over_f" not in json.loads(self.said("choose", "--n", "35", "--f", "7", "--json", cwd=tmp_path))[0]
        assert "give a whole number" in self.said("choose", "--n", "35", "--f", "many", cwd=tmp_path, code=2)
