"""The setting of Yi et al. 2024 as runs: what their text says, and what their program does.

Both are honest, explicit parameters of `Run`, rules and attacks; this is the one place that knows which are whose.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from holdfast.attacks import NoAttack, list_paper_attacks
from holdfast.elections import Ballot
from holdfast.errors import BadInput
from holdfast.rules import CenterwO, GeometricMedian, MeanwO, NormBoundedMean
from holdfast.spec import parse, unknown
from holdfast.training.run import Run
from holdfast.twophase import AGGREGATORS, TwoPhase

WORKERS = 35
RATES = {0.1: (3, 4), 0.2: (7, 7), 0.4: (14, 14)}  # rate -> liars in the text, in the program
RULES = {
    "Avg": "Average()",
    "GM": "GeometricMedian(iterations=1)",
    "CClip": "NormBoundedMean(tau=0.215771)",
    "CWM": "CWM()",
    "CWTM": "CWTM(f={f})",
    "Krum": "Krum(f={f})",
    "Cent1P": "CenterwO(f={f})",
    "Mean1P": "MeanwO(f={f})",
    "Cent2P": "Cent2P(f={f})",
    "Mean2P": "Mean2P(f={f})",
}
"""The paper's names."""
OURS = ("Cent1P", "Mean1P", "Cent2P", "Mean2P")


def paper(rule: str, attack: str = "none", rate: float = 0.4, *, text: bool = True, **changes: Any) -> Run:
    """A cell of the paper's tables by its names, such as paper("Mean2P", "Omn"); `changes` are fields of Run.

    The text: 3, 7 or 14 of 35 workers lie, means of n - f, votes on a fresh batch of 3, τ = 0.215771 of the momentum.
    The program: 4, 7 or 14, sums of its own rules divided by n (`shrink`), all ties kept in one phase, votes on all
    training data with ties to Outer, τ and GM's floor of updates that are multiplied by the learning rate, steps of
    norm 1e5 not taken. Both: learning rate 0.1, momentum 0 (as the tables need), batch 3, 1,500 rounds, standardised
    pixels (of which the text says nothing). The text's "uniform" classes fit the tables only as natural frequencies;
    PGA and the heterogeneous tables need a `split`, such as "Dirichlet(alpha=0.1)".

    >>> paper("Mean1P", "SV").attack, paper("Mean1P", "SV", text=False).shrink
    (ScaledVariance(z=-20.0), 0.6)
    """
    for name, known, kind in ((rule, RULES, "rule"), (attack, ["none", *list_paper_attacks()], "attack")):
        if name not in known:
            raise BadInput(unknown(str(name), known, kind))
    if rate not in RATES:
        raise BadInput(f"paper was given rate = {rate!r}; it has 0.1, 0.2 and 0.4.")
    f = RATES[rate][0 if text else 1]
    fields: dict[str, Any] = {
        "rule": parse(RULES[rule].format(f=f), AGGREGATORS),
        "attack": NoAttack() if attack == "none" else list_paper_attacks(text=text, n=WORKERS)[attack],
        "workers": WORKERS,
        "byzantine": f,
        "data": "emnist",
        "train": 750,
        "test": 150,
        "rounds": 1500,
        "batch": 3,
        "vote_batch": 3,
        "lr": 0.1,
        "momentum": 0.0,
        "every": 50,
    }
    return Run(**fields | ({} if text else _program(rule, fields["rule"], f)) | changes)


def _program(name: str, rule: Any, f: int) -> dict[str, Any]:
    """What the program does otherwise."""
    if isinstance(rule, TwoPhase):
        rule = TwoPhase(rule.inner, rule.outer, Ballot(ties="outer"))
    if isinstance(rule, CenterwO | MeanwO):  # in two phases it changes a candidate that loses anyway
        rule = replace(rule, ties="all")
    if isinstance(rule, NormBoundedMean):
        rule = NormBoundedMean(tau=2.15771)  # 0.215771 of lr times the gradient
    if isinstance(rule, GeometricMedian):
        rule = GeometricMedian(iterations=1, floor=1e-4)  # 1e-5 of lr times the gradient
    return {"rule": rule, "vote_batch": None, "reject": 1e5, "shrink": (WORKERS - f) / WORKERS if name in OURS else 1.0}
