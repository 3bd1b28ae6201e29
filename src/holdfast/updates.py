"""What workers send: n updates of one structure, read as blocks of columns, answered in kind.

An update is an array, a list of arrays (Flower), a dict of named tensors (state_dict), or any nesting of these.
Nothing is copied into one big matrix, nothing is changed, and numbers stay on their device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

import numpy as np

from holdfast.arrays import Array
from holdfast.errors import BadInput
from holdfast.leaves import Leaf, columns
from holdfast.masses import Masses, whole_masses
from holdfast.places import Place
from holdfast.structure import (
    Malformed,
    flatten,
    mismatch,
    shape_of,
)

OnExcess = Literal["refuse", "lower"]
"""What happens when more updates are dropped than the rule tolerates: nothing is answered, or f is lowered."""


class Distances(NamedTuple):
    """Squared distances times scale squared, and the part of each by which it may be wrong at most."""

    D: np.ndarray
    scale: float = 1.0
    error: float = 0.0


Shards = Callable[[np.ndarray], np.ndarray]
"""What every process found in its own columns -> all of that, stacked in their order."""


def alone(part: np.ndarray) -> np.ndarray:
    """All columns are here, in one shard."""
    return part[None]


@dataclass
class Updates:
    """n updates read alike, and what was learned about their rows.

    `malformed` names the rows that could not be read, with the reason; `silent` are those of them that sent nothing.
    `masses` say how much each worker counts (None: all alike); who has weight 0 is absent. `names` are the workers'
    names in sentences (None: their row numbers). `refused` counts updates that came and were refused before they were
    read: they count as dropped.

    The columns may be spread over several processes that all do the same: `shards` gives what each of them found in
    its own columns, stacked, and values of whole rows are gathered from all of them first.
    """

    n: int
    leaves: list[Leaf]
    rebuild: Callable[[Iterator[object]], object]
    malformed: dict[int, str]
    silent: frozenset[int] = frozenset()
    masses: Masses | None = None
    refused: int = 0
    on_excess: OnExcess = "refuse"
    names: Sequence[object] | None = None
    shards: Shards = alone
    processes: int = 1
    known: np.ndarray | None = None  # which rows are finite, once looked at
    measured: dict[tuple[object, ...], dict[range, Distances]] = field(default_factory=dict)
    """Distances, by what was asked and by the cores for which they are the same."""

    @property
    def floats(self) -> list[Leaf]:
        return [leaf for leaf in self.leaves if leaf.kind != "i"]

    @property
    def distant(self) -> list[Leaf]:
        """The entries that count in distances."""
        return [leaf for leaf in self.leaves if leaf.measured]

    def weighted(self, masses: Masses) -> Updates:
        """The same updates of workers that count so much."""
        return replace(self, masses=masses, known=None)

    def mass(self, rows: np.ndarray) -> np.ndarray | None:
        """How much these workers count, up to a common factor; None: all alike."""
        return None if self.masses is None or not len(rows) else whole_masses(self.masses.weights[rows])

    def _present(self) -> np.ndarray:
        """Which workers count at all."""
        return np.ones(self.n, bool) if self.masses is None else self.masses.weights > 0

    def _usable(self) -> np.ndarray:
        """Which rows can be used, as far as they were looked at."""
        ok = self._present() if self.known is None else self.known & self._present()
        if self.malformed:
            ok[list(self.malformed)] = False
        return ok

    def sound(self) -> np.ndarray:
        """The numbers of the rows that can be used."""
        return np.flatnonzero(self._usable())

    def dropped(self) -> dict[int, str]:
        """The rows that cannot be used, and why."""
        if not self.malformed and (self.known is None or self.known.all()):
            return {}
        gone = self._present() & ~self._usable()
        return {int(i): self.malformed.get(int(i), "not finite") for i in np.flatnonzero(gone)}

    def name(self, row: int) -> str:
        """What the sender of a row is called."""
        return str(row if self.names is None else self.names[row])

    def look(self) -> None:
        """Find the rows that hold finite numbers only: one cheap look at everything, taken once."""
        if self.known is not None:
            return
        ok = np.zeros(self.n, bool)
        rows = self.sound()
        ok[rows] = self._finite(rows, each=False)
        doubtful = rows[~ok[rows]]  # the sum of large finite numbers overflows too: look again
        ok[doubtful] = self._finite(doubtful, each=True)
        self.known = np.asarray(self.shards(ok).all(axis=0))

    def _finite(self, rows: np.ndarray, *, each: bool) -> np.ndarray:
        if not len(rows):
            return np.ones(0, bool)
        all_rows = None if len(rows) == self.n else rows
        found: dict[Place, Array] = {}
        with np.errstate(all="ignore"):
            for part in self.floats:
                for s, e in part.spans(len(rows)):
                    ok = part.place.finite(part.block(all_rows, s, e), each=each)
                    found[part.place] = found[part.place] & ok if part.place in found else ok
        return np.logical_and.reduce([place.fetch(ok) for place, ok in found.items()])

    def append(self, values: Sequence[Array]) -> int:
        """Add a row of our own, one flat array for each leaf, and return its number."""
        for part, value in zip(self.leaves, values, strict=True):
            part.extras.append(value)
        return self.n + len(self.leaves[0].extras) - 1

    def place(self, vector: object, who: str) -> int:
        """Put a vector of our own behind the workers' rows and return its number."""
        try:
            flat = flatten(vector)
        except Malformed as reason:
            raise BadInput(f"{who} that differs from the updates: {reason}.") from None
        if why := mismatch(shape_of(flat), tuple((part.name, part.shape) for part in self.leaves)):
            raise BadInput(f"{who} that differs from the updates: {why}.")
        pairs = list(zip(self.leaves, flat, strict=True))
        values = [part.place.bring(columns(entry.numbers, 0, part.size), part.kind) for part, entry in pairs]
        floats = ((part.place, value) for part, value in zip(self.leaves, values, strict=True) if part.kind != "i")
        if not all(place.fetch(place.finite(value[None, :], each=True)).all() for place, value in floats):
            raise BadInput(f"{who} that is not finite; give a finite vector.")
        return self.append(values)

    def answer(self, values: Sequence[Array]) -> object:
        """One flat array for each leaf -> an update with the structure, library, dtype and device given."""
        return self.rebuild(part.answer(value) for part, value in zip(self.leaves, values, strict=True))
