"""Checks for rules, attacks, and aggregators of any library, as `check_estimator` is for scikit-learn.

>>> from holdfast import MeanwO
>>> from holdfast.testing import check_rule
>>> check_rule(MeanwO(f=2)).ok
True
"""

from holdfast.errors import ChecksFailed
from holdfast.testing.aggregators import check_aggregator
from holdfast.testing.attacks import check_attack
from holdfast.testing.peers import find_aggregator
from holdfast.testing.report import Check, Report, Status
from holdfast.testing.rules import check_rule

__all__ = [
    "Check",
    "ChecksFailed",
    "Report",
    "Status",
    "check_aggregator",
    "check_attack",
    "check_rule",
    "find_aggregator",
]
