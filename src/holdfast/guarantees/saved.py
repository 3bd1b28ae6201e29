"""Searches as files: the worst rounds and what was asked, to go on from there and to show the round again."""

from __future__ import annotations

from dataclasses import fields, replace
from math import isclose
from pathlib import Path
from typing import Any

import numpy as np

from holdfast.disk import write_whole
from holdfast.errors import BadInput
from holdfast.guarantees.criteria import worst
from holdfast.guarantees.searches import Found, Search, objective, rule_of

Array = np.ndarray


def save(path: Path, task: Search, result: Found) -> None:
    """The worst rounds and what was asked, whole or not at all; `resumed` goes on from it."""
    if not isinstance(task.rule, str):
        raise BadInput(f"{task.rule!r} is no text, and a file holds text; name the rule, as MeanwO(f=3).")
    if task.weights is not None:
        raise BadInput(
            f"a search for {task.rule} with weights was given, and a file holds none; keep its rounds yourself."
        )
    numbers = {"value": result.value, "tried": result.tried, "climbs": result.climbs}
    asked = {one.name: getattr(task, one.name) for one in fields(task) if one.name != "weights"}
    entries: dict[str, Any] = {name: np.array(v) for name, v in (asked | numbers).items()}
    others = np.array(result.others).reshape(-1, *result.X.shape)
    write_whole(path, lambda out: np.savez(out, X=result.X, others=others, **entries))


def load(path: Path) -> tuple[Search, Found]:
    """What was asked and found; BadInput if the file is none of ours."""
    if not path.is_file():
        raise BadInput(f"{path} is no file; name one that `holdfast certify --out` wrote.")
    try:
        with np.load(path, allow_pickle=False) as held:
            entries = {name: held[name] for name in held.files}
        X = entries["X"].astype(float, casting="safe")
        others = entries.get("others", np.zeros((0, *X.shape))).astype(float, casting="safe")  # older files have none
        task = Search(**{one.name: entries[one.name].item() for one in fields(Search) if one.name != "weights"})
        counts = int(entries["tried"]), int(entries["climbs"])
        shaped = X.shape == others.shape[1:] == (task.n, task.d)
        if not shaped or min(counts) < 0 or not (np.isfinite(X).all() and np.isfinite(others).all()):
            raise ValueError
        return task, Found(float(entries["value"]), X, *counts, tuple(others))
    except BadInput as refused:
        raise BadInput(f"{path} holds a search that cannot be: {refused}") from None
    except Exception:  # whatever a hostile file makes a reader say
        raise BadInput(f"{path} holds no search; remove it or name another file.") from None


def resumed(path: Path, task: Search) -> Found:
    """What a file holds of this search, its ratio measured again; BadInput if it is another's, or not what it says."""
    before, result = load(path)
    if before != task:
        raise BadInput(f"{path} holds another search ({before.rule}, n = {before.n}, ...); name another file.")
    value = objective(task)(result.X)
    if not isclose(value, result.value, rel_tol=1e-6, abs_tol=1e-12):
        claim = f"{path} says {task.criterion} = {result.value:.6g}, but tried again its round has {value:.6g}"
        raise BadInput(f"{claim}; remove it or name another file.")
    return replace(result, value=value)


def replayed(path: Path) -> tuple[Search, Found, Any, Array]:
    """The saved round again: the rule's answer on it, and the honest set for which it is worst."""
    task, result = load(path)
    answer = np.asarray(rule_of(task)(result.X))
    return task, result, worst(task.criterion, answer, result.X, task.f), answer
