"""The option --on-excess: what happens when more updates are dropped than a rule tolerates."""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Literal

import typer


class OnExcess(Enum):
    """Refuse to answer, or lower f and answer; the values are those of `Stage.decide`."""

    value: Literal["refuse", "lower"]
    refuse = "refuse"
    lower = "lower"


OnExcessOption = Annotated[
    OnExcess,
    typer.Option(help="If more updates are dropped than a rule tolerates: refuse to answer, or lower f and answer."),
]
