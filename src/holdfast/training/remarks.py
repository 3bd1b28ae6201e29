"""What a reader must know before the numbers: did the attack reach the rule, and does the rule tolerate that many?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from holdfast.attacks import NoAttack
from holdfast.training.late import OnTime
from holdfast.training.run import Run
from holdfast.training.samples import ALIKE

Line = Mapping[str, Any]


def is_skipped(line: Line) -> bool:
    """Whether the round of this line left the model as it was: the rule refused, or the step was rejected."""
    return any(event.startswith("skipped") for event in line.get("events", ()))


def remarks_on_run(run: Run) -> list[str]:
    """What the record alone tells: more Byzantine workers than the rule tolerates, or an attack that does nothing.

    >>> remarks_on_run(Run(rule="MeanwO(f=2)", attack="SignFlip()", workers=9, byzantine=3))
    ['3 workers are Byzantine, and MeanwO(f=2) tolerates 2']
    >>> remarks_on_run(Run(rule="MeanwO(f=2)", attack="ALIE()", workers=8, byzantine=2))
    ['ALIE() is no attack here: z_max is 0 if 2 of 8 workers are Byzantine, so they send the honest mean']
    """
    remarks = []
    tolerated = run.rule.tolerance() if run.two_phase else run.rule.most_dropped(run.workers)
    if tolerated is not None and run.byzantine > tolerated:
        are = "worker is" if run.byzantine == 1 else "workers are"
        remarks.append(f"{run.byzantine} {are} Byzantine, and {run.rule!r} tolerates {tolerated}")
    if not run.byzantine and not isinstance(run.attack, NoAttack):
        remarks.append(f"no worker is Byzantine, so nobody sends {run.attack!r}")
    elif run.present is None and run.late == OnTime() and (why := run.attack.harmless(run.workers, run.byzantine)):
        remarks.append(f"{run.attack!r} is no attack here: {why}")
    return remarks


def remarks_on_rounds(run: Run, lines: Sequence[Line]) -> list[str]:
    """What the rounds tell: weights that change nothing, and whether an attack reached the rule."""
    alike = [ALIKE] if any(ALIKE in line.get("events", ()) for line in lines[:1]) else []
    return [*alike, *_remarks_on_messages(run, lines)]


def _remarks_on_messages(run: Run, lines: Sequence[Line]) -> list[str]:
    """All rounds were skipped, or no message of a Byzantine worker reached the rule."""
    if lines and all(map(is_skipped, lines)):
        return ["all rounds were skipped, so the model is the first one"]
    answered = [line["kept"] for line in lines if line["kept"]]
    if not answered or not run.byzantine or isinstance(run.attack, NoAttack):
        return []
    letters = _letters(kept[run.honest :] for kept in answered)
    if letters & {"k", "-"}:
        return []
    if "x" in letters:
        return [f"every message of the Byzantine workers was dropped, so {run.attack!r} did not reach the rule"]
    return [f"no Byzantine worker took part in a round, so {run.attack!r} did not reach the rule"]


def _letters(texts: Iterable[str]) -> set[str]:
    return set().union(*texts)
