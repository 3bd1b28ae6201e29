"""Worker momentum: what a rank sends instead of its gradient, so that liars have less room to hide in."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from holdfast.errors import BadInput

log = logging.getLogger("holdfast")


class Momentum:
    """Momentum for each parameter, m = beta m + (1 - beta) gradient, which a rank sends instead of its gradient.

    Parameters
    ----------
    beta : float
        How much of the old momentum stays, at least 0 and below 1.

    Raises
    ------
    BadInput
        If beta is out of range.

    Notes
    -----
    Momentum leaves Byzantine workers less room to hide in. It is the same whatever buckets the parameters travel in.

    Examples
    --------
    >>> import torch
    >>> from holdfast.engines.sharded import Momentum
    >>> momentum, weight, gradient = Momentum(beta=0.5), torch.zeros(2), torch.ones(2)
    >>> momentum([weight], [gradient])
    >>> momentum.keep(sound=True)
    >>> gradient
    tensor([0.5000, 0.5000])
    """

    def __init__(self, beta: float = 0.9) -> None:
        if not 0 <= beta < 1:
            raise BadInput(f"Momentum was given beta = {beta!r}; it is at least 0 and below 1.")
        self.beta = beta
        self.held: dict[Tensor, Tensor] = {}
        self.next: dict[Tensor, Tensor] = {}

    def __call__(self, parameters: Iterable[Tensor], gradients: Iterable[Tensor], scale: float = 1.0) -> None:
        """Put the momentum, times the scale that the gradients have, into the gradients.

        Parameters
        ----------
        parameters : iterable of torch.Tensor
            The parameters.
        gradients : iterable of torch.Tensor
            Their gradients, which are overwritten.
        scale : float
            The factor that the gradients have, as by a GradScaler.

        Notes
        -----
        The new momentum stays once `keep` is called.
        """
        for p, g in zip(parameters, gradients, strict=True):
            held = self.held.get(p, torch.zeros_like(g))
            self.next[p] = torch.lerp(held, g.detach() / scale, 1 - self.beta)
            g.detach().copy_(self.next[p] * scale)

    def keep(self, *, sound: bool) -> None:
        """Keep the new momenta if what was sent was sound; if not, begin anew where the old ones are not finite.

        Parameters
        ----------
        sound : bool
            Whether this rank's gradients were used. Numbers that are not finite may come from a checkpoint or a faulty
            memory, and would exclude this rank for ever.
        """
        if sound:
            self.held |= self.next
        elif spoilt := [p for p, m in self.held.items() if not torch.isfinite(m).all()]:
            log.warning("this rank's momentum was not finite and begins anew, for %d parameters", len(spoilt))
            for p in spoilt:
                del self.held[p]
        self.next = {}

    def state(self, parameters: Sequence[Tensor]) -> list[Tensor]:
        """Return the momenta of these parameters, for a checkpoint.

        Parameters
        ----------
        parameters : sequence of torch.Tensor
            The parameters.

        Returns
        -------
        list of torch.Tensor
            One momentum for each; zeros where there is none yet.
        """
        return [self.held[p] if p in self.held else torch.zeros_like(_own(p)) for p in parameters]

    def load(self, parameters: Sequence[Tensor], state: Sequence[Tensor]) -> None:
        """Take the momenta back from a checkpoint.

        Parameters
        ----------
        parameters : sequence of torch.Tensor
            The parameters.
        state : sequence of torch.Tensor
            What `state` returned.
        """
        self.held = {p: m.clone() for p, m in zip(parameters, state, strict=True)}


def _own(parameter: Tensor) -> Tensor:
    """The part of a parameter that this rank holds: a shard under FSDP2, else the whole."""
    to_local = getattr(parameter, "to_local", None)
    return parameter if to_local is None else to_local()
