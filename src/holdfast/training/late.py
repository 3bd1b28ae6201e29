"""Replies that come late, simulated: who is late by how much, which replies a round waits for, what an old one counts.

The time of the simulation is counted in units of a round without late replies. A worker computes one reply at a time:
while its reply is under way, it takes part in no other round. Byzantine workers are always there, with a reply of the
round itself. All draws are a function of the record.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from holdfast.buffer import Buffer, check_buffer
from holdfast.checks import NonNegative, Tolerance
from holdfast.errors import BadInput
from holdfast.mailbox import Letter, Mailbox
from holdfast.values import Count, Value, value

WAITING, USED, GONE = range(3)  # of letters in a checkpoint; of those that are gone only the round is known
MOST = 10**6  # the latest that a reply may come, in units of time
Numbers = Mailbox[int]
Draws = tuple[np.random.Generator, int]
"""Where a round's draws come from, and how many of its workers are honest: the first ones."""


@value
class Late(Value):
    """Some honest replies come late; a round closes without them, and a later one uses them.

    Parameters
    ----------
    share : float
        The part of the honest replies that come late, from 0 to 1, drawn anew for each reply.
    most : int
        A late reply takes 1 to `most` units of time more, each with the same probability.
    wait : int
        A round closes when `wait` replies are there, and uses as many. If there are more, workers take turns: the one
        that was used longest ago comes first, and ties are drawn. 0: a round closes after one unit of time and uses
        all replies, but waits for as many as the rule needs.
    oldest : int
        A reply is not used if its model is more than `oldest` rounds old. 0: late replies are lost.
    fade : float
        A reply of age a has the weight (1 + a)^-fade. Weights are capped as `holdfast.cap` does if the rule has an f.
    again : bool
        Whether an honest worker without a new reply takes part with its last one, up to the age `oldest`. A round then
        uses all replies, and `wait` only says when it closes.

    Examples
    --------
    >>> from holdfast import Run
    >>> Run(rule="MeanwO(f=6)", workers=20, byzantine=6, late="Late(share=0.4, wait=14)").late
    Late(wait=14)
    """

    share: float = 0.4
    most: Count = 3
    wait: Tolerance = 0
    oldest: Tolerance = 10
    fade: NonNegative = 0.5
    again: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.share <= 1:
            raise BadInput(f"Late was given share = {self.share!r}; it is a part of the replies, from 0 to 1.")
        object.__setattr__(self, "share", self.share + 0.0)  # no -0.0, which has another text
        if self.most > MOST:
            raise BadInput(f"Late was given most = {self.most!r}; it is at most {MOST:g}.")
        check_buffer(self)

    @property
    def buffer(self) -> Buffer:
        """What becomes of the replies, however late they are."""
        return Buffer(self.wait, self.oldest, self.fade, self.again)

    def mailbox(self) -> Numbers | None:
        """Return the mailbox before the first round."""
        return self.buffer.mailbox()

    def delays(self, rng: np.random.Generator, honest: int) -> np.ndarray:
        """Return by how much each honest reply of a round is late."""
        return np.where(rng.random(honest) < self.share, rng.integers(1, self.most + 1, honest), 0)

    def post(self, box: Numbers, who: np.ndarray, rows: np.ndarray, t: int, time: int, draws: Draws) -> None:
        """Send the replies of a round on their way, in an order that is drawn; the first `honest` may be late."""
        rng, honest = draws
        delays = self.delays(rng, honest)
        for at in rng.permutation(len(who)):
            due = time + (int(delays[at]) if at < honest else 0)
            box.put(Letter(int(who[at]), t, due, rows[at].copy()))

    def close(self, box: Numbers, t: int, time: int, need: int) -> tuple[list[Letter[int]], int]:
        """Wait until enough replies are there, or none is under way; return those that count, and the time."""
        buffer = self.buffer
        while under_way := box.busy(time):
            new = box.there(t, time, self.oldest)
            if buffer.enough(new, {one.worker for one in buffer.last(box, t)}, need):
                break
            time = min(one.due for one in box.waiting.values() if one.worker in under_way and one.due > time)
        return buffer.take(box, t, time=time, sound=lambda row: bool(np.isfinite(row).all())), time

    def weights(self, ages: np.ndarray) -> np.ndarray | None:
        """Return what replies of these ages count; None if all count alike."""
        return self.buffer.weights(ages)


@value
class OnTime(Value):
    """Every reply is there in its round.

    >>> from holdfast import Run
    >>> Run(rule="CWM()").late
    OnTime()
    """

    def mailbox(self) -> Numbers | None:
        """Return none: nothing waits."""
        return None


LATE: dict[str, Any] = {"OnTime": OnTime, "Late": Late}


def forget(box: Numbers, byzantine: range) -> None:
    """Throw away the replies of Byzantine workers that were not used: they send anew, and are not asked twice."""
    box.waiting = {at: one for at, one in box.waiting.items() if one.worker not in byzantine}
    for worker in byzantine:
        if worker in box.used:
            box.used[worker] = replace(box.used[worker], what=None)


def to_arrays(box: Numbers) -> dict[str, np.ndarray]:
    """A mailbox as arrays, for a checkpoint: rows, and of each letter who made it when, when it is due, and its state.

    >>> box = Mailbox()
    >>> box.put(Letter(2, 0, 3, np.ones(4)))
    >>> {name: array.tolist() for name, array in to_arrays(box).items()}
    {'letters': [[1.0, 1.0, 1.0, 1.0]], 'marks': [[2, 0, 3, 0]], 'keeps': False}
    """
    kept = [(one, WAITING) for one in box.waiting.values()]
    kept += [(one, GONE if one.what is None else USED) for one in box.used.values()]
    marks = [(one.worker, one.made, one.due, state) for one, state in kept]
    rows = [one.what for one, state in kept if state != GONE]
    about = np.array(marks, dtype=np.int64).reshape(-1, 4)
    return {"letters": np.array(rows), "marks": about, "keeps": np.array(box.keeps)}


def to_mailbox(arrays: dict[str, Any], model: np.ndarray) -> Numbers | None:
    """The mailbox of such arrays, which are taken out; None if there are none.

    Raises
    ------
    ValueError
        If they do not fit together, or to the model.
    """
    if "marks" not in arrays:
        return None
    letters, marks, keeps = (arrays.pop(name) for name in ("letters", "marks", "keeps"))
    if marks.dtype.kind != "i" or marks.shape[1:] != (4,) or keeps.shape != () or keeps.dtype.kind != "b":
        raise ValueError("its late replies are of another kind")
    worker, made, _, state = marks.T
    rows = int((state != GONE).sum())
    fits = len(letters) == rows and (not rows or (letters.shape[1:], letters.dtype) == (model.shape, model.dtype))
    if not fits or (marks[:, :3] < 0).any() or (made >= arrays["round"]).any() or not np.isin(state, (0, 1, 2)).all():
        raise ValueError("its late replies do not fit together")
    box, values = Numbers(keeps=bool(keeps)), iter(letters)
    for worker, made, due, state in marks.tolist():
        one = Letter(worker, made, due, None if state == GONE else next(values))
        if state == WAITING:
            box.waiting[worker, made] = one
        else:
            box.used[worker] = one
    return box
