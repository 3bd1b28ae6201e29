"""CPU of one round: our aggregator in NVFlare's FedAvg against the weighted mean that FedAvg has itself.

Twenty sites send a model of 1,000,000 numbers in twelve arrays. NVFlare adds them up as they come
(`WeightedAggregationHelper`); ours checks each reply, measures all distances and combines. Two measures: from the bytes
of the replies to the new model, which is what the server pays for a round; and the aggregation alone, from the FLModels
that FedAvg passes on. The times are CPU of the whole process, in turn, best of several.

example:  python benchmarks/nvflare_cost.py --out results/nvflare/cost.json
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from common import Row, progress, result, save, table
from nvflare.apis.fl_context import FLContext
from nvflare.app_common.abstract.fl_model import FLModel, ParamsType
from nvflare.app_common.aggregators.weighted_aggregation_helper import WeightedAggregationHelper
from nvflare.app_common.app_constant import AppConstants
from nvflare.app_common.app_event_type import AppEventType
from nvflare.app_common.decomposers import numpy_decomposers
from nvflare.app_common.utils.fl_model_utils import FLModelUtils
from nvflare.fuel.utils import fobs

from holdfast import CWTM, MeanwO
from holdfast.engines.nvflare import RobustAggregator
from holdfast.rules.base import Stage
from holdfast.training.train import threads

DEFAULT = Path("results/nvflare/cost.json")
SITES, ARRAYS, BAR = 20, 12, 2.0
COUNT = "NUM_STEPS_CURRENT_ROUND"
RULES: tuple[tuple[Stage, dict[str, Any]], ...] = (
    (MeanwO(f=4), {"certify": False}),
    (MeanwO(f=4), {}),
    (MeanwO(f=4), {"weighted_by_key": COUNT}),
    (CWTM(f=4), {"certify": False}),
)


def round_of(size: int) -> tuple[FLModel, list[FLModel]]:
    """The model that was sent, and the replies of all sites."""
    rng = np.random.default_rng(0)
    parts = np.array_split(rng.standard_normal(size, dtype=np.float32), ARRAYS)
    model = {f"layer-{at}": part for at, part in enumerate(parts)}
    replies = []
    for at in range(SITES):
        noise = {name: 0.01 * rng.standard_normal(values.shape, dtype=np.float32) for name, values in model.items()}
        params = {name: values + noise[name] for name, values in model.items()}
        replies.append(FLModel(ParamsType.FULL, params, meta={"client_name": f"site-{at + 1}", COUNT: 100 + at}))
    return FLModel(ParamsType.FULL, model), replies


def opened(raw: list[bytes]) -> list[FLModel]:
    """The replies of all sites from their bytes, as NVFlare's server reads them."""
    return [FLModelUtils.from_shareable(fobs.loads(one)) for one in raw]


def theirs(replies: list[FLModel]) -> FLModel:
    """As nvflare.app_common.workflows.fedavg does."""
    helper = WeightedAggregationHelper()
    for reply in replies:
        helper.add(reply.params, reply.meta[COUNT], reply.meta["client_name"], 0)
    return FLModel(ParamsType.FULL, helper.get_result())


def ours(aggregator: RobustAggregator, replies: list[FLModel]) -> FLModel:
    aggregator.reset_stats()
    for reply in replies:
        aggregator.accept_model(reply)
    return aggregator.aggregate_model()


def cpu(work: Callable[[], object]) -> float:
    """CPU seconds of one call, all threads together."""
    begin = time.process_time()
    work()
    return time.process_time() - begin


def main(out: Path, size: int, rounds: int) -> None:
    sent, replies = round_of(size)
    numpy_decomposers.register()
    raw = [fobs.dumps(FLModelUtils.to_shareable(reply)) for reply in replies]
    rows: list[Row] = []
    with threads(1):
        for rule, options in RULES:
            one = RobustAggregator(rule, **options)
            context = FLContext()
            context.set_prop(AppConstants.TRAIN_SHAREABLE, FLModelUtils.to_shareable(sent))
            one.handle_event(AppEventType.BEFORE_TRAIN_TASK, context)
            what = ", ".join([repr(rule), *(f"{name}={value!r}" for name, value in options.items())])
            measures: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
                "from bytes": (lambda: theirs(opened(raw)), partial(lambda mine: ours(mine, opened(raw)), one)),
                "alone": (lambda: theirs(replies), partial(ours, one, replies)),
            }
            for measure, (mean, robust) in measures.items():
                pairs = [(cpu(mean), cpu(robust)) for _ in range(rounds + 1)][1:]
                best = [min(side) for side in zip(*pairs, strict=True)]
                row = result(best[1] / best[0], BAR, False, what=what, measure=f"CPU time ratio, {measure}")
                rows.append(row | {"ours": round(best[1], 4), "theirs": round(best[0], 4), "sites": SITES, "d": size})
                progress(f"{what}, {measure}: {best[1]:.4f} s against {best[0]:.4f} s")
    print(table(rows))
    save(out, rows, ["nvflare", "numpy"])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=DEFAULT)
    parser.add_argument("--size", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=9)
    given = parser.parse_args()
    main(given.out, given.size, given.rounds)
