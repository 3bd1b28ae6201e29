"""holdfast.testing: what is sound passes, and everything that is broken is caught by name."""

from __future__ import annotations

import itertools
import json
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import holdfast.testing
from holdfast import (
    CWM,
    CWTM,
    MDA,
    NNM,
    Average,
    BadInput,
    Ballot,
    BrokenRule,
    Krum,
    Mean2P,
    MeanwO,
    MoNNA,
    MultiKrum,
    Numeric,
    OuterMean,
    TwoPhase,
)
from holdfast.attacks import Attack, Empire, NaN, View
from holdfast.rules.base import CoordinateRule, DistanceRule, Tolerance, value
from holdfast.testing import (
    ChecksFailed,
    Report,
    Status,
    check_aggregator,
    check_attack,
    check_rule,
    find_aggregator,
)
from holdfast.testing.aggregators import Subject
from holdfast.testing.hostile import CASES
from holdfast.testing.rules import called
from holdfast.testing.votes import play_round
from holdfast.training import Functions, Run, train
from tests.oracles import oracle
from tests.test_attacks import EVERY, SEARCHES
from tests.test_cli import run

Array = np.ndarray


def failed(found: Report) -> set[str]:
    return {check.name for check in found.having(Status.FAILED)}


def named(found: Report, name: str) -> Any:
    return next(check for check in found.checks if check.name == name)


# sound ones pass


@pytest.mark.parametrize("rule", [MeanwO(2), CWTM(2), Krum(2), MultiKrum(2), NNM(2) >> CWTM(2), CWM()], ids=repr)
def test_a_rule_passes_with_its_oracle(rule: Any) -> None:
    found = check_rule(rule, oracle=lambda X: oracle(rule, X))
    assert found.ok
    assert named(found, "oracle").status is Status.PASSED
    assert named(found, "constant").status is Status.PASSED


@pytest.mark.parametrize("attack", [attack for attack in EVERY if attack not in SEARCHES], ids=repr)
def test_every_attack_passes(attack: Any) -> None:
    assert check_attack(attack).ok


def test_an_attack_that_searches_passes() -> None:
    assert check_attack(SEARCHES[0], f=1).ok


@pytest.mark.parametrize("election", [Ballot(), Numeric(), Numeric(proximal=0.05)])
def test_a_two_phase_rule_passes_in_whole_rounds(election: Any) -> None:
    found = check_rule(TwoPhase(MeanwO(2), OuterMean(2), election))
    assert named(found, "too many NaN").status is Status.PASSED
    assert named(found, "constant").status is Status.NOT_APPLICABLE
    excused = [check.name for check in found.having(Status.NOT_PROMISED)]
    assert excused in ([], ["scaling"])
    assert election.proximal or not excused


def test_two_candidates_that_both_follow_the_liars_are_caught() -> None:
    assert {"far rows", "1e300"} <= failed(check_rule(TwoPhase(Greedy(f=2), Greedy(f=2)), raises=False))


def test_two_phases_without_an_f_say_that_robustness_was_not_checked() -> None:
    found = check_rule(TwoPhase(Average(), CWM()), f=2)
    assert found.f == 2
    assert named(found, "robustness").status is Status.NOT_APPLICABLE
    assert "has no f" in found.remarks()[0]


def test_a_rule_that_always_raises_holds_no_hostile_round() -> None:
    found = check_rule(Raises(f=2), raises=False)
    assert found.having(Status.FAILED)[0].name == "plain round"
    subject = Subject(called(Raises(f=2)), 15, 2)
    assert {plan.run().status for plan in subject.hostile_plans()} == {Status.FAILED}


def test_workers_vote_for_the_nearer_candidate() -> None:
    X = np.array([[0.0], [0.0], [0.0], [0.0], [10.0], [11.0], [12.0]])  # four at the place that Outer gives up
    rule = TwoPhase(MeanwO(3), OuterMean(3))
    both = rule.propose(X)
    near, far = sorted((both.inner.value, both.outer.value), key=abs)
    assert near == 0
    assert play_round(rule, X) == near
    assert play_round(rule, 20 - X) == 20 - near
    assert far != near


def test_a_sound_function_passes_as_an_aggregator() -> None:
    assert check_aggregator(MeanwO(f=2), f=2).subject == "MeanwO(f=2)"
    assert check_aggregator(CWTM(f=3), f=3, n=15, kappa=3 / 9, oracle=lambda X: oracle(CWTM(3), X)).ok


def test_a_trusted_worker_is_never_byzantine() -> None:
    assert check_rule(MoNNA(f=2, pivot=0)).ok
    rule = MoNNA(f=2, pivot=0)
    unaware = check_aggregator(rule, f=2, raises=False)
    assert {"order", "far rows", "1e300"} <= failed(unaware)
    assert check_aggregator(rule, f=2, trusted=(0,), not_promised={"order": "it trusts worker 0"}).ok


# weights


def test_a_rule_with_a_weighted_form_passes_the_laws_of_weights() -> None:
    laws = ("equal weights", "scaled weights", "weight 0", "copies", "bad weights")
    for rule, n in ((MeanwO(2), None), (CWTM(2), 5), (CWM(), None), (NNM(2) >> CWTM(2), None)):
        assert {named(check_rule(rule, n=n), law).status for law in laws} == {Status.PASSED}
    counted = named(check_rule(MultiKrum(2)), "copies")
    assert counted.status is Status.NOT_PROMISED
    assert "counts do not grow with copies" in counted.detail


@pytest.mark.parametrize("rule", [MDA(2), MoNNA(2, pivot=0), MeanwO(2, ties="all")], ids=repr)
def test_a_rule_without_a_weighted_form_has_nothing_to_check(rule: Any) -> None:
    found = named(check_rule(rule), "weights")
    assert (found.status, found.detail) == (Status.NOT_APPLICABLE, "no weighted form")


@value
class Deaf(DistanceRule):
    """It takes weights and does not look at them."""

    f: Tolerance

    def weights(self, D: Array, rng: Any = None) -> Any:
        return MeanwO(self.f).weights(D)

    def weights_by_mass(self, D: Array, mass: Array, rng: Any = None) -> Any:
        return MeanwO(self.f).weights(D)


@value
class Lifted(DistanceRule):
    """It adds a number to weights, so that their unit matters."""

    f: Tolerance

    def weights(self, D: Array, rng: Any = None) -> Any:
        return MeanwO(self.f).weights(D)

    def weights_by_mass(self, D: Array, mass: Array, rng: Any = None) -> Any:
        return MeanwO(self.f).weights_by_mass(D, mass + 1)


def test_a_weighted_form_that_is_none_is_caught() -> None:
    assert failed(check_rule(Deaf(2), raises=False)) == {"copies"}
    assert failed(check_rule(Deaf(2), not_promised={"copies": "it is deaf"})) == set()
    assert "copies" in failed(check_rule(Lifted(2), raises=False))


# broken rules are caught


@value
class NaNWeights(DistanceRule):
    """Weights that are not finite."""

    f: Tolerance

    def weights(self, D: Array, rng: Any = None) -> Array:
        return np.full(D.shape[1], np.nan)


@value
class FirstWorker(DistanceRule):
    """The first worker decides."""

    f: Tolerance

    def weights(self, D: Array, rng: Any = None) -> Array:
        return np.eye(D.shape[1])[0]


@value
class MeanThatClaims(DistanceRule):
    """The mean, with an f that it does not keep."""

    f: Tolerance

    def weights(self, D: Array, rng: Any = None) -> Array:
        return np.full(D.shape[1], 1 / D.shape[1])


@value
class Absolute(DistanceRule):
    """Compares squared distances with a number of its own."""

    f: Tolerance

    def weights(self, D: Array, rng: Any = None) -> Array:
        if D.max() > 50:
            return np.asarray(Krum(self.f).weights(D))
        return np.full(D.shape[1], 1 / D.shape[1])


@value
class Forgetful(CoordinateRule):
    """A median that does not say whom it uses."""

    f: Tolerance

    def columns(self, block: Any) -> Any:
        return np.median(block, axis=0)


@value
class Raises(DistanceRule):
    """An error of the program, without a text."""

    f: Tolerance

    def weights(self, D: Array, rng: Any = None) -> Array:
        raise KeyError


@value
class MeanWithoutF(DistanceRule):
    """The mean, which claims nothing."""

    def weights(self, D: Array, rng: Any = None) -> Array:
        return np.full(D.shape[1], 1 / D.shape[1])


@value
class Greedy(DistanceRule):
    """The mean, which claims to withstand f."""

    f: Tolerance

    def weights(self, D: Array, rng: Any = None) -> Array:
        return np.full(D.shape[1], 1 / D.shape[1])


@value
class MajorityMean(DistanceRule):
    """The mean, which claims to withstand every f < n/2."""

    majority = True

    def weights(self, D: Array, rng: Any = None) -> Array:
        return np.full(D.shape[1], 1 / D.shape[1])


@value
class SecretDraw(DistanceRule):
    """Draws a worker, and does not say that it draws."""

    f: Tolerance

    def weights(self, D: Array, rng: Any = None) -> Array:
        return np.eye(D.shape[1])[rng.integers(D.shape[1])]


def test_a_rule_without_f_passed_as_if_it_were_robust() -> None:
    for rule, advised in ((Average(), False), (MeanWithoutF(), True)):
        for found in (check_rule(rule), check_rule(rule, f=2)):
            (said,) = found.remarks()
            assert said.startswith(f"{rule!r} has no f, so robustness was not checked")
            assert ("majority = True" in said) is advised
            assert str(found).splitlines()[1] == said
            assert named(found, "robustness").status is Status.NOT_APPLICABLE
    assert not check_rule(MeanwO(f=2)).remarks()
    found = check_rule(MajorityMean(), raises=False)
    assert "far rows" in failed(found)
    assert not found.remarks()


def test_a_rule_that_drew_unannounced_met_an_attribute_error_of_none() -> None:
    for call in (SecretDraw(2), SecretDraw(2).decide, NNM(2) >> SecretDraw(2)):
        with pytest.raises(BrokenRule, match="draws from rng without saying so; write random = True in the class"):
            call(np.ones((9, 2)))
    assert SecretDraw(2)(np.ones((9, 2)), rng=np.random.default_rng(0)).tolist() == [1, 1]


@pytest.mark.parametrize(
    ("rule", "caught"),
    [
        (NaNWeights(2), {"plain round"}),
        (Raises(2), {"plain round"}),
        (FirstWorker(2), {"order", "far rows", "1e300"}),
        (MeanThatClaims(2), {"far rows", "one far row", "1e300", "3e38 (float32)"}),
        (Absolute(2), {"scaling"}),
        (Forgetful(2), {"decide"}),
    ],
    ids=lambda given: " ".join(sorted(given)) if isinstance(given, set) else repr(given),
)
def test_a_broken_rule_is_caught(rule: Any, caught: set[str]) -> None:
    assert caught <= failed(check_rule(rule, raises=False))
    with pytest.raises(ChecksFailed, match=f"{type(rule).__name__}.*fails .* of .* checks") as error:
        check_rule(rule)
    assert isinstance(error.value.report, Report)
    assert all(f"- {name}: " in str(error.value) for name in caught)


def test_a_wrong_constant_is_caught() -> None:
    found = check_aggregator(CWTM(2), f=2, kappa=0.1, raises=False)
    assert failed(found) == {"constant"}
    assert "above 0.1" in named(found, "constant").detail


def test_an_oracle_that_differs_is_caught() -> None:
    assert failed(check_rule(MeanwO(2), oracle=lambda X: X.mean(axis=0), raises=False)) == {"oracle"}


# broken functions of any library are caught


def mean(X: Array) -> Array:
    return X.mean(axis=0)


def median(X: Array) -> Array:
    return np.median(X, axis=0)


def raises_on_nan(X: Array) -> Array:
    if not np.isfinite(X).all():
        raise ValueError("NaN in\ninput")
    return median(X)


def changes_input(X: Array) -> Array:
    X.sort(axis=0)
    return X[len(X) // 2]


def drawn(rng: np.random.Generator = np.random.default_rng(0)) -> Callable[[Array], Array]:  # noqa: B008
    return lambda X: np.asarray(CWTM(2)(X)) + 1e-3 * rng.normal()


def hangs(X: Array) -> Array:
    if not np.isfinite(X).all():
        for _ in itertools.count():
            pass
    return median(X)


@pytest.mark.parametrize(
    ("aggregate", "caught"),
    [
        (mean, {"far rows", "NaN", "inf", "1e300", "±1e308"}),
        (median, {"NaN", "one NaN"}),
        (raises_on_nan, {"NaN", "inf", "±inf"}),
        (lambda X: X[0], {"order", "far rows"}),
        (lambda X: X, {"plain round"}),
        (lambda X: None, {"plain round"}),
        (lambda X: "a vector", {"plain round"}),
        (lambda X: X.mean(axis=0) * 1j, {"plain round"}),
        (lambda X: np.full(X.shape[1], np.inf), {"plain round"}),
    ],
)
def test_a_broken_function_is_caught(aggregate: Any, caught: set[str]) -> None:
    assert caught <= failed(check_aggregator(aggregate, f=2, raises=False))
    with pytest.raises(ChecksFailed):
        check_aggregator(aggregate, f=2)


def test_what_is_not_promised_is_told_and_does_not_fail() -> None:
    def rounded(X: Array) -> Array:
        return np.asarray(MeanwO(2)(np.round(X.astype(float), 2)), np.float64)

    told = {check.name: check for check in check_aggregator(rounded, f=2, raises=False).having(Status.NOT_PROMISED)}
    assert {"moving", "scaling", "turning", "precision"} <= set(told)
    assert "no aggregator has to" in told["turning"].detail
    sorting = check_aggregator(changes_input, f=2, raises=False)
    assert named(sorting, "input").status is Status.NOT_PROMISED
    assert named(check_aggregator(drawn(), f=2, raises=False), "repeating").status is Status.NOT_PROMISED


def test_an_endless_loop_is_ended() -> None:
    found = check_aggregator(hangs, f=2, seconds=0.2, raises=False)
    assert {"NaN", "inf"} <= failed(found)
    assert named(found, "NaN").detail == "no answer came within 0.2 seconds of processor time"


def test_a_dtype_that_is_refused_from_honest_workers_too_is_no_failure() -> None:
    def wide(X: Array) -> Array:
        if X.dtype == np.float16:
            raise TypeError("float16")
        return np.asarray(CWTM(2)(X))

    found = named(check_aggregator(wide, f=2), "far rows (float16)")
    assert found.status is Status.NOT_APPLICABLE
    assert found.detail == "it does not accept float16, also from honest workers"


def test_checks_run_in_a_thread_too() -> None:
    found: list[Report] = []
    thread = threading.Thread(target=lambda: found.append(check_aggregator(CWTM(2), f=2)))
    thread.start()
    thread.join()
    assert found[0].ok


def test_an_error_is_told_on_one_line() -> None:
    found = named(check_aggregator(raises_on_nan, f=2, raises=False), "NaN")
    assert found.detail == "ValueError was raised: NaN in input"
    assert found.seed == 0
    assert named(check_rule(Raises(2), raises=False), "plain round").detail.startswith("KeyError was raised")


def test_the_seed_of_a_failure_repeats_it() -> None:
    def fragile(X: Array) -> Array:
        if X.shape[1] == 6 and X[0, 0] > 1:
            return np.full(6, np.nan)
        return np.asarray(CWTM(2)(X))

    found = named(check_aggregator(fragile, f=2, not_promised={"order": "told"}, raises=False), "plain round")
    again = named(check_aggregator(fragile, f=2, not_promised={"order": "told"}, raises=False), "plain round")
    assert found == again


# broken attacks are caught


@pytest.mark.parametrize(
    ("attack", "caught"),
    [
        (lambda seen: seen.honest.mean(axis=0), "plain round"),
        (lambda seen: seen.honest, "plain round"),
        (lambda seen: [None], "plain round"),
        (lambda seen: [None] * len(seen.own), "plain round"),
        (lambda seen: np.full_like(seen.own, np.nan), "plain round"),
        (lambda seen: pytest.importorskip("torch").tensor(seen.own[0]), "plain round"),
        (lambda seen: list(seen.own[0]), "plain round"),
        (lambda seen: None, "plain round"),
        (lambda seen: seen.own / seen.honest.std(axis=0).min(), "equal rows"),
        (lambda seen: seen.own / np.square(seen.honest).sum(), "tiny rounds"),
        (lambda seen: seen.own + np.random.default_rng().normal(size=seen.own.shape), "repeating"),
        (lambda seen: _doubled(seen), "input"),
        (lambda seen: np.tile(seen.honest[1], (len(seen.own), 1)), "one honest worker"),
        (lambda seen: seen.own[:, [0, 1] * (seen.own.shape[1] // 2)], "one coordinate"),
    ],
)
def test_a_broken_attack_is_caught(attack: Callable[[View], Any], caught: str) -> None:
    assert caught in failed(check_attack(attack, raises=False))
    with pytest.raises(ChecksFailed, match=f"- {caught}: "):
        check_attack(attack)


@value
class Noisy(Attack):
    """Draws in float64 whatever it sees."""

    def __call__(self, seen: View) -> Array:
        return np.asarray(seen.own + seen.rng.normal(size=seen.own.shape))


def test_an_attack_that_trains_failed_for_its_precision() -> None:
    found = check_attack(Noisy())
    assert found.ok
    assert named(found, "precision").status is Status.NOT_PROMISED
    assert "rows.astype(seen.own.dtype)" in named(found, "precision").detail
    task = Functions(workers=5, first=np.zeros(2, np.float32), update=lambda worker, model, t: model - 1)
    result = train(Run(rule="MeanwO(f=1)", attack=Noisy(), workers=5, byzantine=1, rounds=2), task=task)
    assert result.model.dtype == np.float32


def test_a_function_that_passed_as_an_attack_was_refused_by_a_run_without_advice() -> None:
    def backwards(seen: View) -> Any:
        return -seen.own

    assert check_attack(backwards).ok
    with pytest.raises(
        BadInput, match=r"a run takes no function; write an attack as a class that inherits from Attack"
    ):
        Run(rule="MeanwO(f=1)", attack=backwards)
    with pytest.raises(BadInput, match=r"a run takes no function; write a rule as a class that inherits from Distance"):
        Run(rule=lambda X: X.mean(axis=0))


def _doubled(seen: View) -> Array:
    seen.own[:] *= 2
    return seen.own


def test_labels_of_no_class_are_caught() -> None:
    class Ten:
        def __call__(self, seen: View) -> Array:
            return seen.own

        def labels(self, y: Array, classes: int) -> Array:
            return y + 1

    assert failed(check_attack(Ten(), raises=False)) == {"labels"}


def test_rows_of_torch_pass_as_a_training_reads_them() -> None:
    torch = pytest.importorskip("torch")
    assert check_attack(lambda seen: torch.tensor(-seen.own)).ok
    assert check_attack(lambda seen: [torch.tensor(-row) for row in seen.own]).ok


def test_broken_messages_pass_if_they_are_declared() -> None:
    class Break:
        hostile = True

        def __call__(self, seen: View) -> Any:
            return 3 * [seen.honest[0][:1]]

    assert check_attack(Break()).ok


def test_attacks_that_send_what_cannot_be_used_are_sound() -> None:
    found = check_attack(NaN())
    assert named(found, "equal rows").status is Status.NOT_APPLICABLE
    assert "on purpose" in named(found, "equal rows").detail


# what is refused, and the report


def _any(given: Any) -> Any:
    return given


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda: check_rule(NNM(2)), "check_rule takes a rule that answers with one vector"),
        (lambda: check_rule(Mean2P(2), f=3), "tolerates 2, but f = 3 was given"),
        (lambda: check_rule(_any("MeanwO(f=2)")), "check_rule takes a rule"),
        (lambda: check_rule(MeanwO(2), f=3), "tolerates 2, but f = 3 was given"),
        (lambda: check_rule(MeanwO(2), n=4), "need at least 5 workers"),
        (lambda: check_aggregator(mean, f=-1), "f = -1 was given"),
        (lambda: check_aggregator(mean, f=True), "f = True was given"),
        (lambda: check_aggregator(mean, f=2, n=4), "need at least 5 workers"),
        (lambda: check_aggregator(_any("mean"), f=2), "cannot be called"),
        (lambda: check_attack(_any(5)), "cannot be called"),
        (lambda: check_attack(Empire(), f=0), "at least one Byzantine worker"),
        (lambda: find_aggregator("Krum", f=2), "write a peer as byzfl:Krum"),
        (lambda: find_aggregator("byzfl:Krm", f=2), "did you mean Krum"),
        (lambda: find_aggregator("no_such_package.rules:Krum", f=2), "pip install no_such_package"),
        (lambda: find_aggregator("numpy:no_such_name", f=2), "numpy has no no_such_name"),
        (lambda: find_aggregator("numpy:pi", f=2), "cannot be called"),
    ],
)
def test_a_question_that_makes_no_sense_is_refused(ask: Callable[[], Any], words: str) -> None:
    with pytest.raises(BadInput, match=words) as error:
        ask()
    assert "\n" not in str(error.value)


def test_without_byzantine_workers_hostile_rounds_do_not_apply() -> None:
    found = check_rule(MeanwO(0))
    assert all(named(found, case.name).status is Status.NOT_APPLICABLE for case in CASES)
    assert named(check_rule(Average()), "NaN").status is Status.PASSED


def test_a_report_reads_as_a_table_and_as_json_and_pickles() -> None:
    found = check_aggregator(median, f=2, raises=False)
    lines = str(found).splitlines()
    assert lines[0].startswith("median, n = 11, f = 2: ")
    assert len(lines) == len(found.checks) + 1
    record = json.loads(json.dumps(found.record(), allow_nan=False))
    assert record["ok"] is False
    assert [check["name"] for check in record["checks"]] == [check.name for check in found.checks]
    assert pickle.loads(pickle.dumps(found)) == found
    assert len({check.name for check in found.checks}) == len(found.checks), "names are unique"
    assert all(check.sentence.endswith(".") for check in found.checks)


def test_all_names_are_there_and_documented() -> None:
    assert sorted(holdfast.testing.__all__) == holdfast.testing.__all__
    for name in holdfast.testing.__all__:
        assert (getattr(holdfast.testing, name).__doc__ or "").strip()


def test_importing_holdfast_does_not_load_it() -> None:
    code = "import sys, holdfast; sys.exit('holdfast.testing' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
    code = "import sys, holdfast.testing; sys.exit(bool({'torch', 'hypothesis', 'typer'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


# peers and the command line


def test_peers_are_found_and_agree_with_ours() -> None:
    X = np.random.default_rng(0).normal(size=(15, 8))
    pairs = {"flower:Krum": Krum(3), "flower:MultiKrum": MultiKrum(3), "flower:FedTrimmedAvg": CWTM(3)}
    pairs |= {"flower:FedMedian": CWM(), "flower:FedAvg": Average()}
    for text, rule in pairs.items():
        pytest.importorskip("flwr")
        assert np.allclose(find_aggregator(text, f=3).call(X), rule(X)), text
    pytest.importorskip("scipy")
    if not _installed("byzfl"):
        pytest.skip("byzfl is not installed")
    pairs = {"byzfl:TrMean": CWTM(3), "byzfl:Krum": Krum(3, others="n-f-1"), "byzfl:Median": CWM()}
    for text, rule in pairs.items():
        assert np.allclose(find_aggregator(text, f=3).call(X), rule(X)), text


def _installed(name: str) -> bool:
    import importlib.util

    return importlib.util.find_spec(name) is not None


def test_a_package_that_is_missing_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("byzfl.aggregators", "flwr.server.strategy.aggregate", "krum"):
        monkeypatch.setitem(sys.modules, name, None)
    for text, package in (("byzfl:Krum", "byzfl"), ("flower:Krum", "flwr"), ("krum:Krum", "krum")):
        with pytest.raises(BadInput, match=f"pip install {package}"):
            find_aggregator(text, f=2)


OWN = """
import numpy as np

def plain(X):
    return np.median(X, axis=0)

def told(X, f):
    X = X[np.isfinite(X).all(axis=1)]
    return np.sort(X, axis=0)[f : len(X) - f].mean(axis=0)

class Made:
    def __init__(self, f):
        self.f = f

    def __call__(self, X):
        return told(X, self.f)
"""


def test_a_function_of_one_s_own_on_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(OWN)
    for name in ("told", "Made"):
        found = json.loads(run(f"holdfast check mine:{name} --f 2 --json", tmp_path, _code(tmp_path, name)))
        names = {check["name"] for check in found["checks"] if check["status"] == "failed"}
        assert names <= {"far rows (float16)", "subnormal numbers", "3e38 (float32)"}, names
        assert (found["n"], found["f"]) == (11, 2)


def _code(folder: Path, name: str) -> int:
    import os

    call = [sys.executable, "-c", "from holdfast.cli import main; main()", "check", f"mine:{name}", "--json"]
    return subprocess.run(call, cwd=folder, capture_output=True, env={**os.environ}).returncode


def test_the_exit_code_is_1_if_a_check_fails(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(OWN)
    call = [sys.executable, "-c", "from holdfast.cli import main; main()", "check", "mine:plain", "--json"]
    done = subprocess.run(call, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1
    checks = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    assert checks["NaN"]["detail"] == "the answer is not finite"
    assert checks["NaN"]["seed"] == 0
    assert "Traceback" not in done.stderr
    told = run("holdfast check 'CWTM(f=2)' --oracle 'CWTM(f=2)'", tmp_path)
    assert "CWTM(f=2), n = 11, f = 2: 40 passed, 1 does not hold (not promised)" in told
    assert "pip install" in run("holdfast check nowhere:rule", tmp_path, 2)
