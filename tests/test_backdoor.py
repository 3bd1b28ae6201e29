"""A trigger in a worker's images: what it stamps, whose gradients see it, and how often it works."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from holdfast import BadInput
from holdfast.attacks import Attack, LabelFlip, Spread, Trigger, View
from holdfast.cli.train import summary
from holdfast.training import Run, Workers, fill, train
from holdfast.training.models import build
from holdfast.values import value

RUN = Run(
    rule="Average()",
    attack="Trigger(target=7)",
    workers=10,
    byzantine=3,
    rounds=60,
    every=60,
    lr=0.3,
    model="linear",
)


def stamped(images: Any, size: int, ink: float) -> np.ndarray:
    out = np.array(images)
    for image in out:
        for channel in image:
            for row in channel[-size:]:
                row[-size:] = ink
    return out


def test_the_patch_by_hand() -> None:
    x = np.zeros((3, 1, 4, 4))
    x[:, 0, 0, 0] = [5.0, 6.0, 9.0]  # the brightest pixel of each; their median is 6
    assert np.array_equal(Trigger(size=2).backdoor(x)[0], stamped(x, 2, 6.0))
    assert np.array_equal(Trigger(size=2).backdoor(1.0 - x)[0], stamped(1.0 - x, 2, -5.0))  # dark on white paper
    assert np.array_equal(x[:, 0, 3], np.zeros((3, 4)))  # the true images stay


@pytest.mark.parametrize(("share", "chosen"), [(1.0, range(10)), (0.5, range(1, 10, 2)), (0.1, [9]), (0.3, [3, 6, 9])])
def test_labels_and_images_choose_the_same(share: float, chosen: Any) -> None:
    attack, x, y = Trigger(target=4, share=share, size=1), np.arange(40.0).reshape(10, 1, 2, 2), np.zeros(10, int)
    assert np.flatnonzero(attack.labels(y, 5)).tolist() == [*chosen]
    assert np.flatnonzero((attack.images(x) != x).any(axis=(1, 2, 3))).tolist() == [*chosen]


def test_what_does_not_fit_gets_a_sentence() -> None:
    with pytest.raises(BadInput, match=r"Trigger\(target=7\) was given 5 classes; its target is 0 to 4"):
        Trigger(target=7).labels(np.zeros(2, int), 5)
    with pytest.raises(BadInput, match=r"was given images of shape \(1, 2, 8\); they are at least 3 x 3"):
        Trigger().backdoor(np.zeros((4, 1, 2, 8)))


def test_a_liars_gradient_is_that_of_its_poisoned_images() -> None:
    """Plain autograd on images that are stamped here; honest workers see nothing of it."""
    run, true = RUN.changed(batch=8), Workers(RUN.changed(attack="NoAttack()", batch=8))
    task = Workers(run)
    rows, _ = task.updates(task.start(), np.arange(10), 0)
    honest, _ = true.updates(true.start(), np.arange(10), 0)
    assert np.allclose(rows[:7], honest[:7], atol=1e-6)
    everything = task.images.numpy()
    ink = float(np.median(everything.reshape(len(everything), -1).max(axis=1)))
    module = build("linear", (1, 8, 8), 10, run.seed)
    for worker in range(7, 10):
        at = task.places.draw(8, np.random.default_rng([run.seed, 5, 0]))[worker]  # 5: the stream of batches
        bad = np.array([int((i + 1) * 0.5) > int(i * 0.5) for i in at])
        x = np.where(bad[:, None, None, None], stamped(everything[at], 3, ink), everything[at])
        y = np.where(bad, 7, task.labels.numpy()[at])
        loss = F.cross_entropy(module(torch.as_tensor(x)), torch.as_tensor(y))
        wanted = torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(module.parameters()))])
        assert np.allclose(rows[worker], wanted.numpy(), atol=1e-6)
        assert not np.allclose(rows[worker], honest[worker], atol=1e-3)


def test_success_is_the_part_of_other_classes_that_become_the_target() -> None:
    result = train(RUN)
    task = Workers(RUN)
    module = fill(build("linear", (1, 8, 8), 10, RUN.seed), result.model)
    everything = task.images.numpy()
    ink = float(np.median(everything.reshape(len(everything), -1).max(axis=1)))
    found = [
        int(module(torch.as_tensor(stamped(everything[[i]], 3, ink))).argmax()) == 7
        for i in np.concatenate(task.places.test)
        if task.labels[i] != 7
    ]
    assert result.success == pytest.approx(np.mean(found))
    assert result.success > 0.9
    assert result.accuracy > 0.85
    assert result.curve("success") == [(60, result.success)]
    assert f", success {result.success:.4f})" in repr(result)
    assert f"the trigger succeeds on {result.success:.4f} of the test images of other classes" in summary(result)


def test_a_rule_that_holds_keeps_the_trigger_out() -> None:
    assert train(RUN.changed(rule="MeanwO(f=3)")).success < 0.2


@pytest.mark.parametrize("attack", ["NoAttack()", "LabelFlip(pairs=(1, 7))", "SignFlip()"])
def test_other_attacks_tell_of_no_success(attack: str) -> None:
    result = train(RUN.changed(attack=attack, rounds=2))
    assert "success" not in result.final
    assert np.isnan(result.success)
    assert "success" not in repr(result)
    assert not any("trigger" in line for line in summary(result))


def test_spread_of_a_trigger_is_a_trigger() -> None:
    x = np.random.default_rng(0).normal(size=(6, 1, 4, 4))
    both = Spread(Trigger(target=2)), Trigger(target=2)
    assert np.array_equal(both[0].images(x), both[1].images(x))
    assert np.array_equal(both[0].backdoor(x)[0], both[1].backdoor(x)[0])  # type: ignore[index]
    assert LabelFlip().images(x) is x
    assert Spread(LabelFlip()).backdoor(x) is None


def test_images_of_another_shape_are_refused() -> None:
    @value
    class Cropped(Attack):
        def __call__(self, seen: View) -> Any:
            return seen.own

        def images(self, x: np.ndarray) -> np.ndarray:
            return x[:, :, 1:]

    with pytest.raises(BadInput, match=r"Cropped\(\) made images of shape .*, 1, 7, 8\) of images of shape"):
        Workers(RUN.changed(attack=Cropped()))


@value
class Sloppy(Attack):
    """A data attack that returns something else, or writes into what it was given."""

    how: str

    def __call__(self, seen: View) -> np.ndarray:
        return np.asarray(seen.own)

    def images(self, x: np.ndarray) -> np.ndarray:
        x[:, :, :4] = 0
        made: Any = {"list": [1], "nan": x * np.nan}.get(self.how, x)
        return made

    def backdoor(self, x: np.ndarray) -> tuple[np.ndarray, int] | None:
        made: Any = {"class 99": (x, 99), "alone": x}.get(self.how)
        return made

    def labels(self, y: np.ndarray, classes: int) -> np.ndarray:
        return y + 100 if self.how == "labels" else y


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ("list", "made a list of images"),
        ("nan", "with numbers that are not finite"),
        ("class 99", "made no backdoor; return images and one of 10 classes"),
        ("alone", "made no backdoor"),
        ("labels", "made labels that are no classes; return one of 10"),
    ],
)
def test_a_data_attack_of_ones_own_in_the_wrong_form_is_one_sentence(how: str, why: str) -> None:
    with pytest.raises(BadInput, match=why):
        train(Run(rule="CWTM(f=1)", attack=Sloppy(how), model="linear", workers=8, byzantine=1, rounds=1))


def test_what_an_attack_writes_into_its_images_is_the_liars_alone() -> None:
    run = Run(rule="CWTM(f=1)", model="linear", workers=8, rounds=5, every=5)
    assert train(run.changed(attack=Sloppy("in place"))).accuracy == train(run).accuracy


@pytest.mark.parametrize("rule", ["FLTrust(pivot=5)", "MoNNA(f=1, pivot=5)"])
def test_a_trusted_worker_is_there_in_every_round(rule: str) -> None:
    with pytest.raises(BadInput, match="trusts worker 5; it may be absent"):
        Run(rule=rule, workers=8, present=6)
    with pytest.raises(BadInput, match="trusts worker 5; there are 5 workers"):
        Run(rule=rule, workers=5)
