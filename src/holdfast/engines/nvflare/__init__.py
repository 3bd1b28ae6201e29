"""NVFlare: every rule as an aggregator and as a controller, two-phase rounds, and no reply that can stop a job.

>>> from holdfast import MeanwO
>>> from holdfast.engines.nvflare import RobustController
>>> RobustController(MeanwO(f=1)).rule
'MeanwO(f=1)'
"""

from holdfast.engines.nvflare.version import check

check()

from holdfast.engines.nvflare.aggregator import RobustAggregator  # noqa: E402
from holdfast.engines.nvflare.client import answer_vote  # noqa: E402
from holdfast.engines.nvflare.controller import RobustController  # noqa: E402
from holdfast.engines.nvflare.job import make_job  # noqa: E402

__all__ = ["RobustAggregator", "RobustController", "answer_vote", "make_job"]
