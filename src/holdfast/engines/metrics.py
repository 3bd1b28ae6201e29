"""What clients report of themselves: plain numbers, summed up so that liars cannot move them."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.jsonable import finite_or_none


def finite_numbers(metrics: Iterable[tuple[object, object]]) -> dict[str, float]:
    """The plain finite numbers among metrics, by name; a name that is no text is skipped, and its own code not run."""
    by_name = {name: finite_or_none(value) for name, value in metrics if isinstance(name, str)}
    return {name: value for name, value in by_name.items() if value is not None}


def middles(metrics: list[dict[str, float]], f: int = 0) -> dict[str, float]:
    """The lower median of each metric that more than half report, and enough of them that f liars are a minority.

    >>> middles([{"loss": 0.5, "x": 1.0}, {"loss": 0.7}, {"loss": 1e30}], f=1)
    {'loss': 0.7}
    """
    names = dict.fromkeys(name for one in metrics for name in one)
    sorted_values = {name: sorted(one[name] for one in metrics if name in one) for name in names}
    least = max(len(metrics) // 2, 2 * f) + 1
    return {name: values[(len(values) - 1) // 2] for name, values in sorted_values.items() if len(values) >= least}
