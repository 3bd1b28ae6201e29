"""Whose images: dealt among all workers or the honest, some set aside; and whose accuracy is told."""

from __future__ import annotations

import numpy as np
import pytest

from holdfast import BadInput, Run, train
from holdfast.data import Dirichlet, load
from holdfast.training import Workers
from holdfast.training.holding import deal_images

RUN = Run(rule="MeanwO(f=3)", attack="SignFlip()", workers=10, byzantine=3, rounds=4, every=4, split=Dirichlet(0.1))
DIGITS = load("digits")


class TestHolders:
    def test_byzantine_workers_hold_no_data_of_their_own(self) -> None:
        shares, _ = deal_images(RUN.changed(holders="honest"), DIGITS)
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
        shares, aside = deal_images(RUN.changed(validation=12, train=150), DIGITS)
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
