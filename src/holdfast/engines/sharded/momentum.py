"""Worker momentum: what a rank sends instead of its gradient, so that liars have less room to hide in."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from holdfast.errors import BadInput

log = logging.getLogger("holdfast")


class Momentum:
    """m = beta m + (1 - beta) gradient, for each parameter, whatever buckets it travels in."""

    def __init__(self, beta: float = 0.9) -> None:
        if not 0 <= beta < 1:
            raise BadInput(f"Momentum was given beta = {beta!r}; it is at least 0 and below 1.")
        self.beta = beta
        self.held: dict[Tensor, Tensor] = {}
        self.next: dict[Tensor, Tensor] = {}

    def __call__(self, parameters: Iterable[Tensor], gradients: Iterable[Tensor], scale: float = 1.0) -> None:
        """Put the momentum, times the scale that the gradients have, into the gradients; kept once `keep` is called."""
        for p, g in zip(parameters, gradients, strict=True):
            held = self.held.get(p, torch.zeros_like(g))
            self.next[p] = torch.lerp(held, g.detach() / scale, 1 - self.beta)
            g.detach().copy_(self.next[p] * scale)

    def keep(self, *, sound: bool) -> None:
        """Keep the new momenta if what was sent was sound; if not, begin anew where the old ones are not finite.

        Such numbers may come from a checkpoint or a faulty memory, and would exclude this rank for ever.
        """
        if sound:
            self.held |= self.next
        elif spoilt := [p for p, m in self.held.items() if not torch.isfinite(m).all()]:
            log.warning("this rank's momentum was not finite and begins anew, for %d parameters", len(spoilt))
            for p in spoilt:
                del self.held[p]
        self.next = {}

    def state(self, parameters: Sequence[Tensor]) -> list[Tensor]:
        """The momenta of these parameters, for a checkpoint."""
        return [self.held.get(p, torch.zeros_like(p)) for p in parameters]

    def load(self, parameters: Sequence[Tensor], state: Sequence[Tensor]) -> None:
        """Back from a checkpoint."""
        self.held = {p: m.clone() for p, m in zip(parameters, state, strict=True)}
