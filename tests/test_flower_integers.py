"""Integers in a model: unsigned and small ones, whose differences once wrapped."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from flwr.app import Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from holdfast import CWM, CWTM, MeanwO
from holdfast.engines.flower import LocalGrid, RobustStrategy, make_record, read_model

RULES = [MeanwO(f=1), CWTM(f=1), CWM()]


def after(rule: Any, ours: np.ndarray, sent: list[np.ndarray], *, real: bool = True, far: int | None = None) -> Any:
    """The integers after one round in which the nodes send these."""
    app = ClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        at = int(context.node_config["partition-id"])
        arrays = {"n": sent[at]} | ({"w": np.full(2, 50.0 if at == far else 0.01 * at)} if real else {})
        told = MetricRecord({"num-examples": 1})
        return Message(RecordDict({"arrays": make_record(arrays), "metrics": told}), reply_to=message)

    first = {"n": ours} | ({"w": np.zeros(2)} if real else {})
    strategy = RobustStrategy(rule, fraction_evaluate=0.0)
    found = read_model(strategy.start(LocalGrid(app, len(sent)), make_record(first), num_rounds=1).arrays)["n"]
    assert found.dtype == ours.dtype
    return found.tolist()


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "uint32", "int64", "uint64"])
@pytest.mark.parametrize("rule", RULES)
def test_a_liar_owned_unsigned_arrays(rule: Any, dtype: str) -> None:
    most = np.iinfo(dtype).max
    sent = [np.array([value], dtype) for value in (4, 4, 5, 5, most)]
    kept_four = rule == MeanwO(f=1)  # it leaves the liar out by its floats; its lower median is that of 4, 4, 5, 5
    assert after(rule, np.array([5], dtype), sent, far=4) == [4 if kept_four else 5]


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint64"])
@pytest.mark.parametrize("rule", RULES)
def test_unsigned_differences_wrapped_without_any_liar(rule: Any, dtype: str) -> None:
    found = after(rule, np.array([5], dtype), [np.array([value], dtype) for value in (4, 4, 5, 5, 6)], far=4)
    assert found == ([4] if rule == MeanwO(f=1) else [5])


def test_int8_at_both_ends_of_its_range() -> None:
    sent = [np.array([value], np.int8) for value in (127, 127, 126, 126, -128)]
    assert after(CWM(), np.array([-128], np.int8), sent) == [126]


def test_uint64_beyond_what_int64_holds() -> None:
    high = 2**63 + 7
    sent = [np.array([value], np.uint64) for value in (high, high + 1, high + 1, high + 2, 0)]
    assert after(CWM(), np.array([high], np.uint64), sent) == [high + 1]


def test_masks_follow_the_kept() -> None:
    sent = [np.array([True, False])] * 3 + [np.array([False, True])] * 2
    assert after(CWM(), np.array([False, False]), sent) == [True, False]
    assert after(CWM(), np.array([True, True]), sent) == [True, False]


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint64", "bool"])
def test_a_model_of_integers_alone_is_averaged_without_wrapping(dtype: str) -> None:
    values = (1, 1, 1, 1, 0) if dtype == "bool" else (4, 4, 4, 4, 100)
    ours = 0 if dtype == "bool" else 5
    found = after(CWM(), np.array([ours], dtype), [np.array([v], dtype) for v in values], real=False)
    assert found == [values[0]]


@pytest.mark.parametrize(("ours", "theirs", "value"), [("uint8", "uint64", 263), ("int8", "int32", -250)])
def test_a_wider_type_smuggled_numbers_that_wrap(ours: str, theirs: str, value: int) -> None:
    sent = [np.array([value], theirs)] * 2 + [np.array([v], ours) for v in (4, 4, 5)]
    assert after(CWM(), np.array([5], ours), sent) == [4]  # the other two are refused
    sent = [np.array([6], theirs)] * 3 + [np.array([v], ours) for v in (4, 4)]
    assert after(CWM(), np.array([5], ours), sent) == [6]  # small numbers in a wide type are sound


@pytest.mark.parametrize("rule", [CWM(), MeanwO(f=0)])
def test_the_order_of_large_uint64_counters_in_a_plain_call(rule: Any) -> None:
    """On the host, counters are sorted as int64, in which the upper half of uint64 is negative."""
    counts = [3, 5, 2**63 + 1]
    updates = [{"w": np.zeros(2), "n": np.array([value], np.uint64)} for value in counts]
    found = rule(updates)["n"]
    assert (found.dtype, found.tolist()) == (np.uint64, [5])
