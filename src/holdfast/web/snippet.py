"""The Python that repeats a round of the playground."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from holdfast.twophase import TwoPhase
from holdfast.web.answers import answered
from holdfast.web.rounds import Round, chosen

VOTE = """both = rule.propose(X, rng=np.random.default_rng(0))
sides = {"inner": both.inner, "outer": both.outer}
say = mean + (X - mean) / np.sqrt(images)  # what a worker's images say, so many for each of its update's
losses = np.stack([0.5 * np.square(say - side.value).sum(axis=1) for side in sides.values()], axis=1)
voters = [i for i in both.voters if i not in liars]
gains = losses[voters, 0] - losses[voters, 1]
lie = (1e308, 0.0) if (gains < 0).sum() >= (gains > 0).sum() else (0.0, 1e308)  # against the honest majority
winner = rule.elect(both, [(i, lie if i in liars else losses[i]) for i in both.voters])
answers[rule] = sides[winner.name].value
"""


def snippet(asked: Round) -> str:
    """A program that prints the distance to the honest mean of every rule that answers."""
    rules = [chosen(one["rule"]) for one in answered(asked)["answers"] if "error" not in one]
    plain = [rule for rule in rules if not isinstance(rule, TwoPhase)]
    phases = [rule for rule in rules if isinstance(rule, TwoPhase)]
    rows = ",\n    ".join("[np.nan, np.nan]" if np.isnan(x[0]) else f"[{x[0]!r}, {x[1]!r}]" for x in asked.X.tolist())
    parts = [
        "import numpy as np\n\nfrom holdfast import parse",
        "from holdfast.twophase import AGGREGATORS" if phases else "",
        f"\nX = np.array([\n    {rows},\n])\nliars = {list(asked.liars)!r}",
        "honest = [i for i in range(len(X)) if i not in liars and np.isfinite(X[i]).all()]",
        "mean = X[honest].mean(axis=0)\nanswers = {}" + (f"\nimages = {asked.images!r}" if phases else ""),
    ]
    for kind, some in ((False, plain), (True, phases)):
        if some:
            texts = ",\n    ".join(repr(repr(rule)) for rule in some)
            parts.append(f"\nfor text in [\n    {texts},\n]:")
            body = "rule = parse(text, AGGREGATORS)\n" + VOTE if kind else "rule = parse(text)\n" + _ask(some)
            parts.append("\n".join(f"    {line}" for line in body.rstrip().splitlines()))
    parts.append("\nfor rule, answer in answers.items():\n    print(rule, answer, np.linalg.norm(answer - mean))")
    return "\n".join(part for part in parts if part) + "\n"


def _ask(rules: Sequence[object]) -> str:
    draws = any(getattr(rule, "random", False) for rule in rules)
    return "answers[rule] = rule(X" + (", rng=np.random.default_rng(0)" if draws else "") + ")"
