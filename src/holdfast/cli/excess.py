"""The option --on-excess: what happens when more updates are dropped than a rule tolerates."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Annotated, Literal

import typer

from holdfast.errors import TooManyFaults


class OnExcess(Enum):
    """Refuse to answer, or answer without the dropped updates; the values are those of `Stage.decide`."""

    value: Literal["refuse", "lower"]
    refuse = "refuse"
    lower = "lower"


OnExcessOption = Annotated[
    OnExcess,
    typer.Option(help="If more updates are dropped than a rule tolerates: refuse, or lower f if need be and answer."),
]


@contextmanager
def advising(advice: str = "mend the workers, raise f, or add --on-excess lower") -> Iterator[None]:
    """Advise what works on the command line if too many updates are dropped."""
    try:
        yield
    except TooManyFaults as why:
        raise TooManyFaults(why.what, advice) from None
