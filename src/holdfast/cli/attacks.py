"""holdfast attacks: the catalogue of attacks and of the liars' votes."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.table import Column, Table

from holdfast.attacks import ATTACKS, NAMED, VOTERS, list_paper_attacks
from holdfast.cli.example import example
from holdfast.cli.rules import plain, signature
from holdfast.cli.wide import Screen, say
from holdfast.errors import BadInput
from holdfast.spec import unknown


@example("holdfast attacks PGA")
def attacks(name: Annotated[str, typer.Argument(help="One attack, with its whole text.")] = "") -> None:
    """List the attacks with what they send and whether they sneak or besiege; or tell all about one.

    H are the honest workers, B the liars, x_i a worker's own honest update; kind and formula are those of the
    default parameters.
    """
    name = name.partition("(")[0]
    short = {paper: type(attack) for paper, attack in list_paper_attacks().items()}
    known: dict[str, Any] = {**NAMED, **VOTERS, **short}
    if name and name not in known:
        raise BadInput(unknown(name, known, "attack"))
    if name:
        attack = known[name]
        if not isinstance(attack, type):  # another name of some values of a class
            say(f"{name}() is {attack()!r}.\n")
            attack = type(attack())
        say(f"{signature(attack)}\n\n{plain(attack)}")
        return
    heads = ("attack", "what the liars send", "kind", "source")
    table = Table(
        *(Column(head, overflow="fold", no_wrap=head == "attack") for head in heads),
        box=None,
        pad_edge=False,
        header_style="bold",
    )
    for attack in ATTACKS.values():
        kind = attack.kind if isinstance(attack.kind, str) else "as its attack"
        table.add_row(signature(attack), attack.formula, kind, attack.source)
    votes = Table(Column("in votes"), Column("what they report"), box=None, pad_edge=False, header_style="bold")
    for voter in VOTERS.values():
        votes.add_row(signature(voter), voter.formula)
    Screen().print(table, "", votes, sep="\n")
