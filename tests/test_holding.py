"""Whose images: dealt among all workers or the honest, some set aside; and whose accuracy is told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from holdfast import BadInput, Run, train
from holdfast.data import Dirichlet, load
from holdfast.training import Functions, State, Workers
from holdfast.training.holding import deal_images

RUN = Run(rule="MeanwO(f=3)", attack="SignFlip()", workers=10, byzantine=3, rounds=4, every=4, split=Dirichlet(0.1))
DIGITS = load("digits")


class TestHolders:
    def test_byzantine_workers_hold_no_data_of_their_own(self) -> None:
        shares, *_ = deal_images(RUN.changed(holders="honest"), DIGITS)
        assert len(shares) == 10
        assert [len(share.test) for share in shares[7:]] == [0, 0, 0]
        for liar, lender in zip(shares[7:], shares, strict=False):
            assert np.array_equal(liar.train, lender.train)

    def test_the_honest_then_hold_all_images_that_there_are(self) -> None:
        run = RUN.changed(split="Natural()", holders="honest")
        everybody, honest = (deal_images(one, DIGITS)[0] for one in (run.changed(holders="all"), run))
        held = [len(np.unique(np.concatenate([share.train for share in some[:7]]))) for some in (everybody, honest)]
        assert held[0] <= 0.72 * len(DIGITS) * 5 / 6
        assert held[1] >= 0.99 * len(DIGITS) * 5 / 6

    def test_the_default_deals_as_before(self) -> None:
        assert not {"holders", "validation"} & RUN.record().keys()
        assert Run.read(RUN.changed(holders="honest", validation=5).text()).validation == 5

    def test_another_word_is_refused(self) -> None:
        with pytest.raises(BadInput, match=r"^Run was given holders = 'none'; it is 'all' or 'honest'\.$"):
            RUN.changed(holders="none")


class TestValidation:
    def test_nobody_trains_on_an_image_that_is_set_aside(self) -> None:
        shares, aside, _ = deal_images(RUN.changed(validation=12, train=150), DIGITS)
        assert [len(own) for own in aside] == [12] * 10
        trained, tested = (np.concatenate([getattr(one, side) for one in shares]) for side in ("train", "test"))
        assert not np.isin(np.concatenate(aside), trained).any()
        assert not np.isin(np.concatenate(aside), tested).any()

    def test_its_accuracy_is_told_beside_that_of_the_test_images(self) -> None:
        plain, kept = (train(one).final for one in (RUN, RUN.changed(validation=12)))
        assert "validation" not in plain
        assert 0 <= kept["validation"] <= 1

    def test_a_worker_without_training_images_is_named(self) -> None:
        with pytest.raises(
            BadInput, match=r"validation = 500; worker 0 has \d+ training images, and none would be left"
        ):
            deal_images(RUN.changed(validation=500), DIGITS)


TRUSTING = RUN.changed(rule="FLTrust()", root=60)


class TestRoot:
    def test_no_worker_trains_on_the_servers_images(self) -> None:
        shares, aside, root = deal_images(TRUSTING.changed(validation=5), DIGITS)
        assert len(root) == len(np.unique(root)) == 60
        for others in ([share.train for share in shares], [share.test for share in shares], aside):
            assert not np.isin(root, np.concatenate(others)).any()

    def test_the_server_computes_the_gradient_over_all_its_images(self) -> None:
        workers = Workers(TRUSTING)
        model = workers.start()
        workers._load(model)
        images, labels = workers.images[workers.places.root], workers.labels[workers.places.root]
        workers.loss(workers.module(images), labels).backward()
        wanted = np.concatenate([p.grad.numpy().ravel() for p in workers.gradients.trained])
        assert workers.server_gradient(model, 0) == pytest.approx(wanted, rel=1e-4, abs=1e-6)

    def test_rules_start_there_with_the_workers_momentum(self) -> None:
        starts: list[np.ndarray] = []

        def sent(model: np.ndarray, t: int) -> np.ndarray:
            starts.append(np.full(2, t + 1.0))
            return starts[-1]

        task = Functions(workers=3, first=np.zeros(2), update=lambda *_: np.array([1.0, 1.0]), trusted=sent)
        run = Run(rule="FLTrust()", workers=3, root=1, rounds=2, lr=1.0, momentum=0.5)
        model = train(run, task=task).model
        lengths = [0.5, 0.5 * 0.5 + 0.5 * 2.0]  # all rows get the length of the server's momentum
        assert model == pytest.approx(-np.full(2, sum(lengths)))

    def test_trust_holds_against_a_majority_of_liars(self) -> None:
        wanted = TRUSTING.changed(rounds=40, every=40, byzantine=6, split="Natural()")
        assert train(wanted).accuracy > train(wanted.changed(rule="Average()", root=None)).accuracy + 0.2

    def test_a_killed_run_goes_on_to_the_same_bits(self, tmp_path: Path) -> None:
        whole = train(TRUSTING)

        def stop(line: dict[str, object]) -> None:
            if line["round"] == 1:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            train(TRUSTING, tmp_path / "run", on_round=stop, save=0.0)
        assert State.load(tmp_path / "run" / "checkpoint.npz").trusted is not None
        assert np.array_equal(train(TRUSTING, tmp_path / "run").model, whole.model)

    @pytest.mark.parametrize(
        ("change", "says"),
        [
            ({"rule": "FLTrust()", "root": None}, r"the server has no update of its own; give it images, as in root="),
            ({"rule": "MeanwO(f=3)"}, r"which starts from nothing; leave root out"),
            ({"steps": 2}, r"the server computes one gradient, so leave steps at 1"),
            ({"root": 0}, r"root = 0"),
        ],
    )
    def test_what_cannot_be_is_refused(self, change: dict[str, object], says: str) -> None:
        with pytest.raises(BadInput, match=says):
            TRUSTING.changed(**change)

    def test_more_images_than_there_are_name_a_worker(self) -> None:
        with pytest.raises(BadInput, match=r"root = 5000; worker 0 has \d+ training images, and none would be left"):
            deal_images(TRUSTING.changed(root=5000), DIGITS)

    @pytest.mark.parametrize(
        ("trusted", "says"),
        [(None, "Functions was given no trusted="), (lambda model, t: np.zeros(5), r"of shape \(5,\); the model has")],
    )
    def test_a_task_without_such_a_gradient_is_named(self, trusted: Callable[..., np.ndarray], says: str) -> None:
        task = Functions(workers=10, first=np.zeros(2), update=lambda *_: np.ones(2), trusted=trusted)
        with pytest.raises(BadInput, match=says):
            train(TRUSTING, task=task)

    def test_a_task_of_ones_own_may_do_without(self) -> None:
        class Bare:
            workers = 10

            def start(self) -> np.ndarray:
                return np.zeros(2)

            def updates(self, model: np.ndarray, who: np.ndarray, t: int) -> tuple[np.ndarray, dict[int, str]]:
                return np.ones((len(who), 2)), {}

            def losses(self, models: Sequence[np.ndarray], who: np.ndarray, t: int) -> np.ndarray:
                return np.zeros((len(who), len(models)))

            def evaluate(self, model: np.ndarray) -> dict[str, float]:
                return {"loss": 0.0}

        with pytest.raises(BadInput, match=r"root = 60, and Bare has no server_gradient\(model, t\); write one"):
            train(TRUSTING, task=Bare())
        assert train(TRUSTING.changed(rule="Average()", root=None), task=Bare()).final == {"loss": 0.0}

    @pytest.mark.parametrize("gradient", [0.0, np.nan, np.inf])
    def test_a_server_without_a_direction_skips_the_round(self, gradient: float) -> None:
        task = Functions(
            workers=10, first=np.zeros(2), update=lambda *_: np.ones(2), trusted=lambda *_: np.full(2, gradient)
        )
        for attack in ("SignFlip()", "PGA()"):
            result = train(TRUSTING.changed(attack=attack), task=task)
            assert result.skipped == TRUSTING.rounds
            assert np.array_equal(result.model, np.zeros(2))


def test_three_accuracies_by_their_definitions() -> None:
    workers = Workers(RUN)
    model = train(RUN).model
    told = workers.evaluate(model)
    workers._load(model)
    right = []
    for places in workers.places.test:
        answers = workers.module(workers.images[places]).argmax(dim=1)
        right.append((answers == workers.labels[places]).double().numpy())
    assert told["accuracy"] == pytest.approx(np.concatenate(right).mean())
    assert told["honest"] == pytest.approx(np.concatenate(right[:7]).mean())
    once = {
        int(place): hit
        for places, hits in zip(workers.places.test, right, strict=True)
        for place, hit in zip(places, hits, strict=True)
    }
    assert told["pooled"] == pytest.approx(np.mean(list(once.values())))
    assert told["honest"] != told["accuracy"] != told["pooled"]
