"""What clients report of themselves: plain numbers of their replies."""

from __future__ import annotations

from flwr.app import Message, MetricRecord

from holdfast.engines.flower.limits import TooMuch, check_counts
from holdfast.engines.metrics import finite_numbers


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
    return finite_numbers(pair for record in reported(reply) for pair in record.items())
