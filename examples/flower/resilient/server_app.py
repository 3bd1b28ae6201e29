"""The server: one strategy for every rule, and a vote for those that have one."""

from __future__ import annotations

from typing import Any

import numpy as np
from flwr.app import ArrayRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp

from holdfast import parse
from holdfast.engines.flower import RobustStrategy, TwoPhaseStrategy, make_record, read_model
from holdfast.twophase import AGGREGATORS, TwoPhase
from resilient import task

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    words = context.run_config
    rule, timeout = parse(str(words["rule"]), AGGREGATORS), float(words["timeout"])
    common: dict[str, Any] = {
        "min_available_nodes": int(words["nodes"]),
        "patience": float(words["patience"]),
        "folder": str(words["folder"]) or None,
        "weighted_by_key": str(words["weighted"]) or None,
        "fraction_evaluate": 0.0,
    }
    strategy = (
        TwoPhaseStrategy(rule, vote_timeout=timeout, **common)
        if isinstance(rule, TwoPhase)
        else RobustStrategy(rule, **common)
    )
    images, labels = task.shares(int(words["nodes"]))[-1]

    def tested(turn: int, arrays: ArrayRecord) -> MetricRecord:
        model = read_model(arrays)
        finite = all(np.isfinite(values).all() for values in model.values())
        right = task.accuracy(model, images, labels)
        print(f"round {turn}: {right:.1%} of the test images recognised", flush=True)
        return MetricRecord({"accuracy": right, "finite": float(finite)})

    strategy.start(
        grid, make_record(task.first()), num_rounds=int(words["rounds"]), timeout=timeout, evaluate_fn=tested
    )
