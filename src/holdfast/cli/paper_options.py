"""The options that name a part of the paper: `holdfast paper run` and `holdfast paper show` share them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from holdfast.cli.paper_parts import WHATS, Part
from holdfast.experiments.paper import Setting

RUNS = Path("paper-runs")
StoreOption = Annotated[Path, typer.Option(help="The folder of runs, or a file that they were exported to.")]
SeedsOption = Annotated[int, typer.Option(help="Seeds; the paper has 5.", min=1)]


@dataclass(frozen=True)
class PartOptions:
    """What both commands are given."""

    what: Annotated[str, typer.Argument(help=", ".join(WHATS))]
    name: Annotated[str, typer.Argument(help="Of a table or figure: homogeneous or heterogeneous.")] = "homogeneous"
    rate: Annotated[float | None, typer.Option(help="0.1, 0.2 or 0.4: the share that lies.")] = None
    rule: Annotated[list[str] | None, typer.Option(help="Only this row of the tables; may be repeated.")] = None
    preset: Annotated[str, typer.Option(help="program: as theirs ran; text: as the paper reads.")] = "program"
    seeds: SeedsOption = 1
    rounds: Annotated[int, typer.Option(help="Rounds of a training; the paper has 1,500.", min=1)] = 1500
    vote_batch: Annotated[int, typer.Option(help="Images on which a worker votes.", min=1)] = 24
    store: StoreOption = RUNS
    data: Annotated[
        str | None, typer.Option(help="Instead of FEMNIST: emnist shows the same tables on its images.")
    ] = None
    out: Annotated[
        Path | None, typer.Option(help="A file for the tables (.md .tex .html) or figure (.svg .png .pdf).")
    ] = None

    def part(self, sets: dict[str, str]) -> Part:
        """The part of the paper that they name, on these data sets."""
        setting = Setting(self.preset, self.rounds, self.seeds, self.vote_batch, sets=sets)
        return Part(self.what, self.name, self.rate, self.rule, setting, self.data)


def takes_part_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command all fields of `PartOptions` as options, before its own; it is called with them as one value."""
    shared = inspect.signature(PartOptions).parameters
    _, *own = inspect.signature(command).parameters.values()
    hints = {**get_type_hints(PartOptions, include_extras=True), **get_type_hints(command, include_extras=True)}
    listed = [parameter.replace(annotation=hints[parameter.name]) for parameter in (*shared.values(), *own)]
    signature = inspect.Signature(listed)

    @wraps(command)
    def call(*args: Any, **keywords: Any) -> None:
        given = signature.bind(*args, **keywords).arguments
        options = PartOptions(**{name: given.pop(name) for name in shared if name in given})
        command(options, **given)

    vars(call)["__signature__"] = signature
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in listed} | {"return": None}
    del call.__wrapped__  # typer would look at its signature instead
    return call
