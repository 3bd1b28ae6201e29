"""Replies that come late, simulated: who is late by how much, which replies a round waits for, what an old one counts.

The draws of a round are a function of the record alone. Byzantine workers are never late, so their share of a round's
replies is as large as it can be.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from holdfast.checks import NonNegative, Tolerance
from holdfast.errors import BadInput
from holdfast.mailbox import Letter, Mailbox
from holdfast.values import Count, Value, value

WAITING, USED, GONE = range(3)  # of letters in a checkpoint; of those that are gone only the round is known
Numbers = Mailbox[int]


@value
class Late(Value):
    """Some honest replies come late; a round does not wait for them, and uses them when they are there.

    Parameters
    ----------
    share : float
        The part of the honest replies that come late, from 0 to 1, drawn anew in each round.
    most : int
        A late reply comes 1 to `most` rounds later, each with the same probability.
    wait : int
        A round closes with so many replies, if so many are there. If there are more, workers take turns: the one that
        was used longest ago comes first. The rest waits for the next round. 0: a round takes all replies.
    oldest : int
        A reply is not used if its model is older than so many rounds. 0: late replies are lost.
    fade : float
        A reply of age a has the weight (1 + a)^-fade. Weights are capped as `holdfast.cap` does.
    again : bool
        Whether a worker without a reply takes part with its last one, up to the age `oldest`. All workers that are
        known so far then take part in every round.

    Examples
    --------
    >>> from holdfast import Run
    >>> Run(rule="MeanwO(f=6)", workers=20, byzantine=6, late="Late(share=0.4, wait=14)").late
    Late(share=0.4, wait=14)
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

    def mailbox(self) -> Numbers | None:
        """Return the mailbox before the first round."""
        return Mailbox(keeps=self.again)

    def delays(self, rng: np.random.Generator, honest: int) -> np.ndarray:
        """Return by how many rounds each honest reply of a round is late."""
        return np.where(rng.random(honest) < self.share, rng.integers(1, self.most + 1, honest), 0)

    def exchange(
        self,
        box: Numbers,
        who: np.ndarray,
        rows: np.ndarray,
        t: int,
        rng: np.random.Generator,
        *,
        honest: int,
        need: int,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Post the replies of a round, and return whose replies count in it, with the rows and their ages.

        The first `honest` may be late. The others never are, and come first. A round with fewer than `need` replies
        uses none of them.
        """
        delays = self.delays(rng, honest)
        for at in [*range(honest, len(who)), *rng.permutation(honest)]:
            delay = int(delays[at]) if at < honest else 0
            box.put(Letter(int(who[at]), t, t + delay, rows[at].copy()))
        letters = box.take(t, most=self.wait, least=0 if self.again else need, oldest=self.oldest)
        if self.again:
            letters += box.recall(t, self.oldest, {letter.worker for letter in letters})
        letters.sort(key=lambda letter: letter.worker)
        there = np.array([letter.worker for letter in letters], dtype=who.dtype)
        stacked = np.stack([letter.what for letter in letters]) if letters else rows[:0]
        return there, stacked, np.array([letter.age(t) for letter in letters], dtype=int)

    def weights(self, ages: np.ndarray) -> np.ndarray | None:
        """Return what replies of these ages count; None if all count alike."""
        return None if self.fade == 0 or not ages.any() else (1.0 + ages) ** -self.fade


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


def to_arrays(box: Numbers) -> dict[str, np.ndarray]:
    """A mailbox as arrays, for a checkpoint: rows, and of each letter who made it when, when it is due, and its state.

    >>> box = Mailbox(waiting=[Letter(2, 0, 3, np.ones(4))])
    >>> {name: array.tolist() for name, array in to_arrays(box).items()}
    {'letters': [[1.0, 1.0, 1.0, 1.0]], 'marks': [[2, 0, 3, 0]]}
    """
    kept = [(one, WAITING) for one in box.waiting]
    kept += [(one, GONE if one.what is None else USED) for one in box.used.values()]
    marks = [(one.worker, one.made, one.due, state) for one, state in kept]
    rows = [one.what for one, state in kept if state != GONE]
    return {"letters": np.array(rows), "marks": np.array(marks, dtype=np.int64).reshape(-1, 4)}


def to_mailbox(letters: np.ndarray, marks: np.ndarray, *, keeps: bool) -> Numbers:
    """The mailbox of such arrays.

    >>> to_mailbox(np.ones((1, 4)), np.array([[2, 0, 3, 0]]), keeps=False).take(3)[0].worker
    2
    """
    if marks.dtype.kind != "i" or marks.shape[1:] != (4,) or len(letters) != (marks[:, 3] != GONE).sum():
        raise ValueError("its late replies do not fit together")
    box, rows = Numbers(keeps=keeps), iter(letters)
    for worker, made, due, state in marks.tolist():
        one = Letter(worker, made, due, None if state == GONE else next(rows))
        if state == WAITING:
            box.waiting.append(one)
        else:
            box.used[worker] = one
    return box
