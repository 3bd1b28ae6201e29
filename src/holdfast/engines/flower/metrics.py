"""What clients report of themselves: plain numbers, summed up so that liars cannot move them."""

from __future__ import annotations

from typing import Any

from flwr.app import Message, MetricRecord

from holdfast.engines.flower.limits import TooMuch, check_counts
from holdfast.jsonable import finite_or_none


def reported(reply: Message) -> list[MetricRecord]:
    """The metric records of a reply."""
    records = reply.content.values() if reply.has_content() else ()
    return [record for record in records if isinstance(record, MetricRecord)]


def numbers(reply: Message) -> dict[str, float]:
    """The plain finite numbers among a reply's metrics, by name; none of a reply that holds too much."""
    try:
        check_counts(reply)
    except TooMuch:
        return {}
    by_name = {str(name): finite_or_none(value) for record in reported(reply) for name, value in record.items()}
    return {name: value for name, value in by_name.items() if value is not None}


def middles(metrics: list[dict[str, float]], f: int = 0) -> dict[str, Any]:
    """The lower median of each metric that more than half report, and enough of them that f liars are a minority.

    >>> middles([{"loss": 0.5, "x": 1.0}, {"loss": 0.7}, {"loss": 1e30}], f=1)
    {'loss': 0.7}
    """
    names = dict.fromkeys(name for one in metrics for name in one)
    sorted_values = {name: sorted(one[name] for one in metrics if name in one) for name in names}
    least = max(len(metrics) // 2, 2 * f) + 1
    return {name: values[(len(values) - 1) // 2] for name, values in sorted_values.items() if len(values) >= least}
