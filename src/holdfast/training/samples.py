"""How much a worker counts in a training: its sample count, as it declares it, under a cap."""

from __future__ import annotations

import numpy as np

from holdfast.errors import BadInput
from holdfast.kinds import check_weighted
from holdfast.masses import Masses, cap, read_masses
from holdfast.training.late import Late
from holdfast.training.run import Run
from holdfast.training.task import Task
from holdfast.twophase import TwoPhase

ALIKE = "all workers count alike, so weights='samples' changes nothing"


def check_samples(run: Run, task: Task) -> None:
    """Refuse a run by sample counts if the task does not know them, or a rule has no weighted form."""
    if run.weights == "equal" and not _fades(run):
        return
    what = "weights='samples'" if run.weights == "samples" else "the fade of Late (it is 0.5 by default; write fade=0)"
    for rule in (run.rule.inner, run.rule.outer) if isinstance(run.rule, TwoPhase) else (run.rule,):
        check_weighted(rule, what)
    if run.weights == "equal":
        return
    if getattr(task, "samples", None) is None:
        raise BadInput(
            f"{type(task).__name__} does not know its workers' sample counts; give it samples=, one number each."
        )


def _fades(run: Run) -> bool:
    return isinstance(run.late, Late) and run.late.fade > 0


def weighs_alike(run: Run, task: Task) -> bool:
    """Whether sample counts are the weights, and all workers count alike all the same."""
    if run.weights == "equal":
        return False
    masses = declared_masses(run, task, np.arange(run.workers))
    return masses is not None and bool((masses.weights == masses.weights[0]).all())


def declared_masses(run: Run, task: Task, who: np.ndarray, ages: np.ndarray | None = None) -> Masses | None:
    """The sample counts that these workers declare, less for old replies, capped if the rule has an f.

    None: all count alike.
    """
    faded = run.late.weights(ages) if isinstance(run.late, Late) and ages is not None else None
    if run.weights == "equal" and faded is None:
        return None
    counts = np.ones(len(who))
    if run.weights == "samples":
        counts = np.array(getattr(task, "samples"), float)[who]  # noqa: B009
    if run.declared is not None and run.weights == "samples":
        counts[who >= run.honest] = run.declared
    if faded is not None:
        counts *= faded
    return cap(counts, run.f) if run.f else read_masses(counts, len(who), repr(run.rule))
