"""The page of the attacks and of the liars' votes, and their pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import formulas
import numpy as np
import sources
from rules_page import BELOW

from holdfast.attacks import ATTACKS, VOTERS, list_paper_attacks
from holdfast.cli.rules import signature
from holdfast.report import portraits
from holdfast.rules import CWTM, Average, Krum, MeanwO, OuterMean

RULES = (Average(), CWTM(portraits.F), Krum(portraits.F), MeanwO(portraits.F), OuterMean(portraits.F))
INTRODUCTION = (Path(__file__).parent / "attacks.md").read_text(encoding="utf-8")


def pages() -> dict[str, str | bytes]:
    """attacks.md and one picture per attack."""
    made: dict[str, str | bytes] = {}
    short = {type(attack).__name__: name for name, attack in list_paper_attacks().items()}
    heads = " | ".join(f"`{type(rule).__name__}`" for rule in RULES)
    table = [f"| attack | kind | {heads} |", f"| --- | --- |{' ---: |' * len(RULES)}"]
    sections = []
    for name, attack in ATTACKS.items():
        made[f"pictures/attack-{name}.svg"] = portraits.attack(attack)
        table.append(f"| [`{name}`](#{name.lower()}) | {_kind(attack)} | {' | '.join(_moved(attack))} |")
        sections.append(_section(name, attack, short.get(name)))
    votes = [
        "## How liars vote",
        "In a two-phase round the liars also vote. A voter is called with everybody's losses at (Inner, Outer).",
        *(_vote(name, voter) for name, voter in VOTERS.items()),
    ]
    return made | {"attacks.md": "\n\n".join([INTRODUCTION, "\n".join(table), *sections, *votes, ""])}


def _kind(attack: Any) -> str:
    return attack.kind if isinstance(attack.kind, str) else "as its attack"


def _moved(attack: Any) -> list[str]:
    """How far each rule's answer is moved; what is no row is dropped."""
    mean = portraits.HONEST.mean(axis=0)
    spread = np.sqrt(np.square(portraits.HONEST - mean).sum(axis=1).mean())
    out = []
    for rule in RULES:
        rows = portraits.sent(attack, rule)
        answer = rule([*portraits.HONEST, *rows], like=portraits.HONEST[0])
        off = float(np.linalg.norm(answer - mean) / spread)
        out.append(digits(off) if off > 1e-9 else "0")  # what is left is rounding
    return out


def digits(number: float) -> str:
    """Two digits that count, as one writes them: 240, 3.1, 0.042; from a million on with a power of ten."""
    if number < 10:
        return f"{number:.2g}"
    shown, _, power = f"{number:.1e}".partition("e")
    return f"{float(f'{number:.2g}'):.0f}" if number < 1e6 else f"{shown}·10^{int(power)}"


def _section(name: str, attack: Any, short: str | None) -> str:
    first, rest = formulas.split(attack.__doc__ or "")
    paper = f" One of the paper's seven, {short}." if short else ""
    facts = [
        f"**Sends** {attack.formula}.",
        f"**Kind.** {_kind(attack)}.",
        f"**Source.** {sources.linked(attack.source) or 'a fault, not a paper'}.{paper}",
    ]
    seen = f"![{name}: where the liars' rows go](pictures/attack-{name}.svg){{ .portrait }}"
    return "\n\n".join([f"## {name}", f"`{signature(attack)}`", seen, first, *facts, BELOW, sources.linked(rest)])


def _vote(name: str, voter: Any) -> str:
    return "\n\n".join([f"### {name}", f"`{signature(voter)}`", formulas.markdown(voter.__doc__ or "")])
