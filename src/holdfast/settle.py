"""Which f a round is decided with: as asked, lowered while the dropped can be among the f, or none at all."""

from __future__ import annotations

from holdfast.contract import Stage
from holdfast.errors import BadInput, TooManyFaults, listing, plural
from holdfast.masses import heaviest
from holdfast.updates import Updates


def settled(rule: Stage, updates: Updates) -> Stage:
    """The rule itself while enough vectors are left; else with f lowered by as little as it takes.

    A round is refused if more updates were dropped than the rule tolerates: the assumption that at most f are faulty
    is then false already. `on_excess="lower"` goes on all the same. Silent workers sent no vector and are not dropped
    ones; f is lowered for them while they and the dropped ones can all be among the f.
    """
    present, gone, silent = _counts(updates)
    most = rule.most_dropped(present + gone)
    lower = updates.on_excess == "lower" or most is None
    if not lower and gone > (most or 0):
        n, higher = present + gone, "raise f, " if rule.tolerance() is not None else ""
        raise TooManyFaults(
            f"{rule!r} was given n = {n} {plural(n, 'vector')}, of which {gone} {_were(gone)} dropped "
            f"({_reasons(updates, silent=False)}), and it tolerates {most}",
            f"mend the workers, {higher}or pass on_excess='lower'",
        )
    among = gone + silent <= (rule.most_dropped(present + gone + silent) or 0)  # all can be among the f
    for by in range(gone + silent + 1 if lower or among else 1):
        lowered = rule.lowered(by)
        if feasible(lowered, updates):
            return lowered
    if present >= rule.least():
        raise _too_heavy(rule, updates)
    least, f = rule.least(), rule.tolerance() or 0
    gone += silent
    lost = f" ({gone} more {_were(gone)} dropped: {_reasons(updates)})" if gone else ""
    most = max((k for k in range(min(f, present)) if rule.lowered(f - k).least() <= present), default=None)
    tolerate = f", which tolerate at most f = {most}; lower f or gather" if most is not None else "; gather"
    raise BadInput(
        f"{rule!r} was given n = {present} {plural(present, 'vector')}{_shape(updates)}{lost}{tolerate} "
        f"at least {least} {plural(least, 'vector')}."
    )


def feasible(rule: Stage, updates: Updates) -> bool:
    """Whether the updates that can be used are enough for the rule, and any f workers hold less than half."""
    return len(updates.sound()) >= rule.least() and held_by_heaviest(rule, updates) < 0.5


def _shape(updates: Updates) -> str:
    """The shape of an update that is one array of several axes: perhaps its first axis should count the workers."""
    shape = updates.leaves[0].shape
    return f" of shape {tuple(shape)}" if len(updates.leaves) == 1 and len(shape) > 1 else ""


def _counts(updates: Updates) -> tuple[int, int, int]:
    """How many updates can be used, how many were dropped, and how many workers that count were silent."""
    dropped = updates.dropped()
    silent = len(updates.silent & dropped.keys())
    return len(updates.sound()), len(dropped) - silent + updates.refused, silent


def held_by_heaviest(rule: Stage, updates: Updates) -> float:
    """The part of the weight that the f heaviest workers hold; 0 if all count alike."""
    mass, f = updates.mass(updates.sound()), rule.tolerance()
    return 0.0 if mass is None or f is None else heaviest(mass, f) / float(mass.sum())


def _too_heavy(rule: Stage, updates: Updates) -> BadInput:
    """Of weights of which f workers hold a half: they could be all that counts, and nobody could tell."""
    f = rule.tolerance() or 0
    return BadInput(
        f"{rule!r} was given weights of which the {f} heaviest {plural(f, 'worker')} "
        f"{'holds' if f == 1 else 'hold'} {held_by_heaviest(rule, updates):.0%}, and it needs less than half; "
        f"cap the weights, as in weights=holdfast.cap(weights, f={f}) or --cap 0.4, or lower f."
    )


def note_of(rule: Stage, given: Stage, updates: Updates) -> str:
    """What is worth a line in the log and in the decision's table: that f was lowered, and why."""
    present, gone, silent = _counts(updates)
    if rule == given and not gone:
        return ""
    most = given.most_dropped(present + gone)
    beyond = most is not None and gone > most
    excess = f"{gone} dropped are more than {given!r} tolerates, and on_excess='lower' goes on" if beyond else ""
    if rule == given:
        return excess
    note = f"f was lowered from {given!r} to {rule!r}: {present} {plural(present, 'vector')} remained after dropping "
    enough = present >= given.least()
    why = "the heaviest would hold half of the weight" if enough else f"{given.least()} are needed"
    return f"{note}{gone + silent}, and {why}{f'; {excess}' if excess else ''}"


def _reasons(updates: Updates, *, silent: bool = True) -> str:
    """Who was dropped and why."""
    dropped = {i: why for i, why in updates.dropped().items() if silent or i not in updates.silent}
    said = [f"{updates.name(i)} is {why}" for i, why in dropped.items()]
    said += [f"{updates.refused} refused before"] if updates.refused else []
    return listing(said)


def _were(n: int) -> str:
    return "was" if n == 1 else "were"
