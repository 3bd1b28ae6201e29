"""A buffer of replies: when a round closes, which replies it uses, and how much an old one counts."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

import numpy as np

from holdfast.checks import NonNegative, Tolerance
from holdfast.errors import BadInput
from holdfast.mailbox import Letter, Mailbox, Worker
from holdfast.values import Value, value

TINY = 1e-100  # weights below it are taken relative to the largest one
LIMITS = {"wait": 10**6, "oldest": 10**6, "fade": 100.0}  # the largest values of the fields


@value
class Buffer(Value):
    """When a round closes without waiting for everybody, and what becomes of the replies that come later.

    Parameters
    ----------
    wait : int
        A round closes when `wait` new replies are there, and uses as many. If there are more, workers take turns: the
        one that was used longest ago comes first, and ties are drawn. 0: a round closes at its deadline and uses all
        replies that are there.
    oldest : int
        A reply is not used if its model is more than `oldest` rounds old. 0: late replies are lost.
    fade : float
        A reply of age a has the weight (1 + a)^-fade. Weights are capped as `holdfast.cap` does if the rule has an f.
    again : bool
        Whether a worker without a new reply takes part with its last one, up to the age `oldest`. A round then uses
        all replies, and `wait` only says when it closes.

    Raises
    ------
    BadInput
        If a number is out of range.

    Notes
    -----
    No reply is used twice, unless `again` says so, and each worker has at most one reply in a round: its newest. With
    `wait`, f must hold among the replies of a round. With `again`, it must hold among all workers. The constants of a
    rule hold for the replies that took part. They do not say how far an old reply is from a new one.

    References
    ----------
    .. [1] Nguyen et al. 2022, "Federated Learning with Buffered Asynchronous Aggregation" (FedBuff).

    Examples
    --------
    >>> from holdfast import MeanwO
    >>> from holdfast.engines.flower import Buffer, RobustStrategy
    >>> RobustStrategy(MeanwO(f=3), buffer=Buffer(wait=14)).buffer
    Buffer(wait=14)
    """

    wait: Tolerance = 0
    oldest: Tolerance = 10
    fade: NonNegative = 0.5
    again: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_buffer(self)

    def mailbox(self) -> Mailbox[Any]:
        """Return the mailbox before the first round.

        Returns
        -------
        holdfast.mailbox.Mailbox
            Without replies.
        """
        return Mailbox(keeps=self.again)

    def enough(self, new: Collection[Worker], last: Collection[Worker], need: int) -> bool:
        """Return whether a round can close.

        Parameters
        ----------
        new, last : collection of int or str
            The workers of whom there is a new reply, and those of whom there is a last one.
        need : int
            How many replies the rule needs.

        Returns
        -------
        bool
            Whether there are enough.
        """
        return len(new) >= self.wait and len({*new, *last} if self.again else new) >= need

    def take(
        self, box: Mailbox[Worker], now: int, *, time: int, sound: Callable[[Any], bool] | None = None
    ) -> list[Letter[Worker]]:
        """Take out of a mailbox what a round uses.

        Parameters
        ----------
        box : holdfast.mailbox.Mailbox
            The replies that are there.
        now : int
            The round.
        time : int
            Replies that are due later are not looked at.
        sound : callable, optional
            With `again`, a worker whose new reply is not sound keeps its last good one for later rounds.

        Returns
        -------
        list of holdfast.mailbox.Letter
            The replies, in the order of the workers.
        """
        before = dict(box.used)
        letters = box.take(now, time=time, most=0 if self.again else self.wait, oldest=self.oldest)
        if self.again:
            for one in letters:
                if sound is not None and not sound(one.what):
                    box.used[one.worker] = before.get(one.worker, replace(box.used[one.worker], what=None))
            letters += self.last(box, now, {one.worker for one in letters})
        return sorted(letters, key=lambda one: one.worker)

    def last(self, box: Mailbox[Worker], now: int, without: Collection[Worker] = ()) -> list[Letter[Worker]]:
        """Return the last replies that a round may use again.

        Parameters
        ----------
        box : holdfast.mailbox.Mailbox
            The replies that were used.
        now : int
            The round.
        without : collection of int or str
            Workers that have a new reply.

        Returns
        -------
        list of holdfast.mailbox.Letter
            None, unless the buffer has `again`.
        """
        return box.recall(now, self.oldest, without) if self.again else []

    def weights(self, ages: np.ndarray) -> np.ndarray | None:
        """Return what replies count.

        Parameters
        ----------
        ages : numpy.ndarray
            How many rounds old each reply is.

        Returns
        -------
        numpy.ndarray or None
            (1 + a)^-fade for each age a, or in the same ratios. None: all count alike.
        """
        if self.fade == 0 or not ages.any():
            return None
        faded = (1.0 + ages) ** -self.fade
        return faded if faded.max() > TINY else ((1.0 + ages) / (1.0 + ages.min())) ** -self.fade


def check_buffer(given: Any) -> None:
    """Refuse values of a buffer that are out of range, in the name of the value that holds them."""
    who = type(given).__name__
    for name, limit in LIMITS.items():
        if (number := getattr(given, name)) > limit:
            raise BadInput(f"{who} was given {name} = {number!r}; it is at most {limit:g}.")
