"""Every attack against every rule, at the largest f that it allows: no crash, no NaN in the model."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from holdfast import Cent2P, CenterExact, Mean2P, parse
from holdfast.attacks import ATTACKS, PGA, Canvass, Empire, Spread, Zero
from holdfast.data import Dataset, load
from holdfast.training import Run, train
from holdfast.training.workers import Workers
from holdfast.twophase import AGGREGATORS
from tests.rules_under_test import CHAINS, EXACT, SINGLE

N, ROUNDS = 11, 20
LINED = [rule for rule in (*SINGLE, *EXACT, *CHAINS) if "floor" not in repr(rule)]
MORE = [Mean2P(2), Cent2P(2), parse("TwoPhase(MeanExact(f=2), OuterMean(f=2), Numeric())", AGGREGATORS)]
NEEDING = {"Spread": Spread(Empire())}
ALL = [NEEDING.get(name) or attack() for name, attack in ATTACKS.items()]


def largest(rule: Any) -> Any:
    """The same rule with the largest f for eleven workers; its lengths as they are."""
    for f in range(N, 0, -1):
        bold = parse(repr(rule).replace("f=2", f"f={f}"), AGGREGATORS)
        if bold.least() <= N:
            return bold
    return rule


@cache
def digits() -> Dataset:
    return load("digits")


@pytest.mark.parametrize("rule", [largest(rule) for rule in (*LINED, *MORE)], ids=repr)
def test_no_attack_crashes_a_training_or_spoils_its_model(rule: Any) -> None:
    for attack in ALL:
        rounds = 1 if isinstance(rule, CenterExact) and isinstance(attack, PGA | Canvass) else ROUNDS  # 43 a search
        liars = max(1, Run(rule=rule, workers=N).f)
        run = Run(
            rule=rule, attack=attack, workers=N, byzantine=min(liars, N // 2), rounds=rounds, batch=4, momentum=0.5,
            model="linear", every=ROUNDS, probe=2, vote_batch=8,
        )  # fmt: skip
        task = Workers(run, digits())
        result = train(run, task=task)
        assert np.isfinite(result.model).all(), attack
        assert len(result.lines) == rounds
        assert not [event for _, event in result.events() if "skipped: " in event and "finite" not in event], attack
        moved = not np.array_equal(result.model, task.start())
        assert moved or isinstance(attack, Zero), attack  # copies of zero win Krum, which then stands still
