"""How much each client counts: the number that it declares, under a cap that bounds what a lie can do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from holdfast.contract import Stage
from holdfast.engines.replies import Refused
from holdfast.errors import BadInput
from holdfast.jsonable import finite_or_none
from holdfast.kinds import check_weighted
from holdfast.masses import Masses, cap, read_masses

Cap = float | Literal["off"] | None
"""The largest part of the weight that any f clients may hold; None: the default of `holdfast.cap`; "off": no cap."""


@dataclass(frozen=True)
class Counts:
    """Under which name clients declare how much they count, under which cap; without a name all count alike."""

    key: str | None = None
    cap: Cap = None

    def check(self, rules: tuple[Stage, ...]) -> None:
        """Refuse a name or a cap that is none, and rules that cannot weigh clients or have no f to cap by."""
        if self.key is not None and not (isinstance(self.key, str) and self.key):
            raise BadInput(f"weighted_by_key = {self.key!r} was given; it is the name of a metric or None.")
        if not (self.cap is None or self.cap == "off" or _is_share(self.cap)):
            raise BadInput(
                f"cap = {self.cap!r} was given; it is a part of the weight between 0 and 1/2, None or 'off'."
            )
        if self.key is None:
            if self.cap is not None:
                raise BadInput("cap was given without weighted_by_key; add weighted_by_key='num-examples'.")
            return
        for rule in rules:
            check_weighted(rule, "weighted_by_key")
        if self.cap != "off" and _liars(rules, 1) is None:
            raise BadInput(
                f"{rules[0]!r} has no f, so no cap can bound what clients declare; take a rule with f, "
                "or pass cap='off' if you vouch for the counts."
            )

    def read(self, declared: Sequence[object]) -> float:
        """What a client declares, given the values under our name; 1 if all count alike.

        Raises
        ------
        Refused
            If it is not one finite number of at least 0, or more than one.
        """
        if self.key is None:
            return 1.0
        if len(declared) > 1:
            raise Refused(f"sent {self.key} {len(declared)} times, not once")
        count = finite_or_none(declared[0]) if len(declared) == 1 else None
        if count is None or count < 0:
            raise Refused(f"sent no {self.key} that is a finite number, 0 or more")
        return float(count)

    def masses(self, declared: list[float], rules: tuple[Stage, ...], fades: np.ndarray | None = None) -> Masses | None:
        """How much the clients count, less for old replies, under the cap; None if all count alike."""
        if (self.key is None and fades is None) or not declared:
            return None
        present = sum(count > 0 for count in declared)
        if not present:
            raise BadInput(f"{rules[0]!r} was given replies that all declare {self.key} = 0; send counts above 0.")
        if fades is not None:
            declared = [count * float(fade) for count, fade in zip(declared, fades, strict=True)]
        liars = _liars(rules, present)
        if self.cap == "off" or liars is None:
            return read_masses(declared, len(declared), repr(rules[0]))
        f = min(liars, (present - 1) // 2)  # if some replies are missing, the round lowers f as far
        share = None if self.cap is None else max(self.cap, f / present)  # which f hold even if all count alike
        return cap(declared, f, share)

    def __str__(self) -> str:
        return "" if self.key is None else f", weighted by {self.key}, cap {self.cap or 'by default'}"


def _is_share(given: Any) -> bool:
    return isinstance(given, int | float | np.floating) and bool(0 < given < 0.5)


def _liars(rules: tuple[Stage, ...], n: int) -> int | None:
    """How many of n clients may lie by the rule that expects most of them; None if no rule says."""
    return max((f for rule in rules if (f := rule.most_dropped(n)) is not None), default=None)
