"""The board as a table and as a picture: accuracy without an attack against accuracy under the worst one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, nan
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from holdfast.contract import Stage
from holdfast.errors import BadInput, plural
from holdfast.experiments.board import NONE, Reader, Scene, plan_of, read_catalogue, rows_in, summarise
from holdfast.experiments.measuring import current
from holdfast.experiments.peers import PeerRule
from holdfast.experiments.scores import ScoreFile
from holdfast.figures import new_figure, save_figure
from holdfast.guarantees.bounds import bounds, number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HEADS = (
    *("rule", "no attack", "worst", "seeds", "worst attack", "proved κ", "seen κ(X)", "CPU ms", "hostile"),
    *("lr", "momentum"),
)
NOT_MEASURED = "-"
FRONT, BEHIND = "#0072b2", "#7f7f7f"


@dataclass(frozen=True)
class Place:
    """A row in one scene: what it reached, what is proved, what a round costs.

    Parameters
    ----------
    row : str
        The name of the row.
    clean, worst : float
        Accuracy on the honest workers' test images, the mean of three seeds: without an attack, and under the attack
        that harms most.
    low, high : float
        The smallest and the largest of the seeds under that attack.
    attack : str
        Its name.
    kappa : str
        The proved constant.
    largest : str
        The largest certified κ(X) of the rounds of all attacks, with one seed.
    ms : float
        The processor time of a round without an attack, in milliseconds.
    hostile : str
        How many of the hostile rounds it held.
    lr, momentum : float
        What validation chose.
    failed : tuple of str
        Why trainings failed, a sentence for each.
    """

    row: str
    clean: float
    worst: float
    low: float
    high: float
    attack: str
    kappa: str
    largest: str
    ms: float
    hostile: str
    lr: float
    momentum: float
    failed: tuple[str, ...] = ()

    def cells(self) -> tuple[str, ...]:
        """Return the row of the table."""
        return (
            self.row,
            f"{self.clean:.3f}",
            f"{self.worst:.3f}",
            f"{self.low:.2f}–{self.high:.2f}",
            self.attack,
            self.kappa,
            self.largest,
            f"{self.ms:.2g}" if self.ms < 10 else f"{self.ms:.0f}",
            self.hostile,
            f"{self.lr:g}",
            f"{self.momentum:g}",
        )


def places(
    name: str, scene: Scene, board: ScoreFile, rows: Mapping[str, str] | None = None, read: Reader = read_catalogue
) -> list[Place]:
    """The finished rows of a scene, the best worst accuracy first."""
    texts, rounds, out = board.rows() if rows is None else rows, board.hostile(), []
    rules = dict(rows_in(texts, scene, read))
    scores = current(board.read(), name, scene, rules)
    for row, rule in rules.items():
        plan = plan_of(name, row, rule, scores)
        if (found := summarise(plan, scores)) is None:
            continue
        out.append(
            Place(
                **found,
                kappa=proved(rule, scene),
                largest=_largest([scores[job] for job in plan.first]),
                ms=_cost([scores[job] for job in plan.again if job.attack == NONE]),
                hostile=_held(rounds.get(texts[row])),
            )
        )
    return sorted(out, key=lambda one: (-one.worst, one.row))


def _largest(lines: Iterable[Mapping[str, Any]]) -> str:
    """The largest certificate; null in a line means that nothing was certain."""
    seen = [inf if line["kappa"] is None else line["kappa"] for line in lines if "kappa" in line]
    return number(max(seen)) if seen else NOT_MEASURED


def _cost(lines: Iterable[Mapping[str, Any]]) -> float:
    """The processor time of a round; nan if no training ended."""
    seen = [line["ms"] for line in lines if line.get("ms") is not None]
    return median(seen) if seen else nan


def _held(found: Mapping[str, Any] | None) -> str:
    """How many hostile rounds were held, of how many."""
    return NOT_MEASURED if found is None else f"{found['rounds'] - len(found['broken'])}/{found['rounds']}"


def proved(rule: Any, scene: Scene) -> str:
    """The proved κ of a rule, or that none is known."""
    if not isinstance(rule, Stage) or isinstance(rule, PeerRule):
        return number(None)
    try:
        ours = bounds(rule, scene.workers, None if rule.tolerance() is not None else scene.byzantine)["kappa"].ours
    except BadInput:
        return number(None)
    return number(None if ours is None else min(ours.value, inf))


def front(found: Iterable[Place]) -> set[str]:
    """The rows that no other row beats in one accuracy without losing in the other."""
    found = list(found)
    return {one.row for one in found if not any(_beats(other, one) for other in found)}


def _beats(one: Place, other: Place) -> bool:
    """Whether a row is better in one accuracy and at least as good in the other."""
    mine, theirs = (one.clean, one.worst), (other.clean, other.worst)
    return mine != theirs and mine[0] >= theirs[0] and mine[1] >= theirs[1]


def failures(found: Iterable[Place]) -> list[str]:
    """A sentence for each row of which trainings failed: how many, and why the first did."""
    return [
        f"{one.row}: {len(one.failed)} {plural(len(one.failed), 'training')} failed and counted as accuracy 0; "
        f"the first: {one.failed[0]}"
        for one in found
        if one.failed
    ]


def markdown(name: str, scene: Scene, found: Sequence[Place]) -> str:
    """The table of a scene; rows on the front are bold."""
    best = front(found)
    lines = [f"**{name}**: {scene.workers} workers, {scene.byzantine} Byzantine, {scene.split!r}.", ""]
    lines += ["| " + " | ".join(HEADS) + " |", "| --- |" + " ---: |" * (len(HEADS) - 1)]
    for one in found:
        row, *rest = (cell.replace("~", r"\~") for cell in one.cells())
        lines.append("| " + " | ".join([f"**{row}**" if one.row in best else row, *rest]) + " |")
    lines += [text for sentence in failures(found) for text in ("", sentence)]
    return "\n".join(lines) + "\n"


def draw(scenes: Mapping[str, Sequence[Place]], out: Path) -> None:
    """Draw a panel for each scene: every rule is a point, and the front is named and joined."""
    shown = {name: found for name, found in scenes.items() if found}
    if not shown:
        raise BadInput("the board has no finished row to draw; holdfast board run measures them.")
    across = min(2, len(shown))
    down = -(-len(shown) // across)
    figure = new_figure(5.4 * across, 3.8 * down)
    panels = list(figure.subplots(down, across, squeeze=False).flat)
    for axes, (name, found) in zip(panels, shown.items(), strict=False):
        _panel(axes, name, found)
    for axes in panels[len(shown) :]:
        axes.set_visible(False)
    save_figure(figure, out)


def _panel(axes: Axes, name: str, found: Sequence[Place]) -> None:
    best = front(found)
    steps = sorted((one.clean, one.worst) for one in found if one.row in best)
    axes.step(*zip(*steps, strict=True), where="pre", color=FRONT, linewidth=1, alpha=0.6)
    ranked = sorted(found, key=lambda one: (-one.worst, -one.clean))
    for at, one in enumerate(ranked):
        on = one.row in best
        colour = FRONT if on else BEHIND
        axes.errorbar(
            one.clean, one.worst, [[one.worst - one.low], [one.high - one.worst]], fmt="o" if on else "x", color=colour,
            markersize=5, elinewidth=0.6,
        )  # fmt: skip
        height = 1 - (at + 0.5) / len(ranked)  # names in a column of their own, where none hides another
        line = {"arrowstyle": "-", "color": colour, "linewidth": 0.4, "alpha": 0.6, "shrinkB": 3, "relpos": (0, 0.5)}
        axes.annotate(
            one.row, (one.clean, one.worst), (1.04, height), textcoords="axes fraction", va="center", fontsize=6.5,
            color=colour, weight="bold" if on else "normal", arrowprops=line,
        )  # fmt: skip
    axes.set_title(name, fontsize=10)
    axes.set_xlabel("accuracy without an attack")
    axes.set_ylabel("accuracy under the worst attack")
    axes.set_ylim(-0.03, 1)
    axes.margins(x=0.08)
