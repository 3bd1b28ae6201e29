"""The Python that repeats a round of the playground."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from holdfast.twophase import TwoPhase
from holdfast.web.answers import answer
from holdfast.web.rounds import Round, chosen

IMPORTS = "from holdfast.attacks.voters import AgainstMajority\nfrom holdfast.twophase import AGGREGATORS"
VOTE = """both = rule.propose(X, rng=np.random.default_rng(0))
sides = {"inner": both.inner, "outer": both.outer}
say = mean + (X - mean) / np.sqrt(images)  # what a worker's images say, `images` for each of its update's
losses = np.stack([0.5 * np.square(say - side.value).sum(axis=1) for side in sides.values()], axis=1)
voters = np.array([i for i in both.voters if i in liars], int)
lies = AgainstMajority()(losses, voters, np.random.default_rng(0))
winner = rule.elect(both, [*((i, losses[i]) for i in both.voters if i not in liars), *lies], step=1.0)
answers[rule] = sides[winner.name].value
"""


def snippet(picture: Round) -> str:
    """A program that prints the distance to the honest mean of every rule that answers."""
    rules = [chosen(text) for text in picture.rules if "error" not in answer(picture, text)]
    plain = [rule for rule in rules if not isinstance(rule, TwoPhase)]
    phases = [rule for rule in rules if isinstance(rule, TwoPhase)]
    rows = ",\n    ".join("[np.nan, np.nan]" if np.isnan(x[0]) else f"[{x[0]!r}, {x[1]!r}]" for x in picture.X.tolist())
    parts = [
        "import numpy as np\n\nfrom holdfast import parse",
        IMPORTS if phases else "",
        f"\nX = np.array([\n    {rows},\n])\nliars = {list(picture.liars)!r}",
        "honest = [i for i in range(len(X)) if i not in liars and np.isfinite(X[i]).all()]",
        "mean = X[honest].mean(axis=0)\nanswers = {}" + (f"\nimages = {picture.images!r}" if phases else ""),
    ]
    for kind, chosen_rules in ((False, plain), (True, phases)):
        if chosen_rules:
            texts = ",\n    ".join(repr(repr(rule)) for rule in chosen_rules)
            parts.append(f"\nfor text in [\n    {texts},\n]:")
            body = "rule = parse(text, AGGREGATORS)\n" + VOTE if kind else "rule = parse(text)\n" + _ask(chosen_rules)
            parts.append("\n".join(f"    {line}" for line in body.rstrip().splitlines()))
    parts.append("\nfor rule, answer in answers.items():\n    print(rule, answer, np.linalg.norm(answer - mean))")
    return "\n".join(part for part in parts if part) + "\n"


def _ask(rules: Sequence[object]) -> str:
    draws = any(getattr(rule, "random", False) for rule in rules)
    return "answers[rule] = rule(X" + (", rng=np.random.default_rng(0)" if draws else "") + ")"
