"""Replies of NVFlare's sites, damaged in their bytes or with an odd value anywhere in them, among sound ones.

No round crashes or hangs, no sound site is named, and the model is what the honest sites learned.
"""

from __future__ import annotations

import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("nvflare")

from nvflare.apis.dxo import DataKind
from nvflare.apis.shareable import Shareable
from nvflare.app_common.abstract.fl_model import FLModel
from nvflare.fuel.utils import fobs

from holdfast import CWTM, Mean2P, MeanwO
from tests.fuzzing import ODD, Damage, damages, examples, no_hang, tried
from tests.test_nvflare import COUNT, LIAR, Link, is_right, play, reply, sent, trained

ARRAYS = (np.array(1.0), np.zeros((2, 3), complex), np.array(["a"]), np.full(4, np.nan), np.zeros(0), np.float32(1))
HOWS = ("flip", "cut", "behead", "insert", "overwrite", "repeat", "replace")


def places(held: Any, here: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The ways to all values inside of a reply."""
    inside = list(held.items()) if isinstance(held, dict) else []
    return [here, *(way for name, one in inside for way in places(one, (*here, name)))]


def replaced(made: Shareable, share: float, value: Any) -> Any:
    """The reply with one of its values, or all of it, replaced."""
    ways = places(made)
    way = ways[int(share * len(ways))]
    if not way:
        return value
    inside: Any = made
    for name in way[:-1]:
        inside = inside[name]
    inside[way[-1]] = value
    return made


def lie(model: FLModel, damage: Damage | None, share: float, value: Any) -> list[Any]:
    """What the site sends; nothing, if NVFlare cannot read it."""
    made = reply(trained(model.params), initial_metrics={"loss": 0.5})
    if "inner/w" in model.params:
        made = reply({"inner": 0.5, "outer": 0.7}, DataKind.METRICS)
    if damage is None:
        return [replaced(made, share, value)]
    with suppress(Exception):
        return [fobs.loads(damage(fobs.dumps(sent(made))))]
    return []


@given(
    rule=st.sampled_from((MeanwO(f=2), CWTM(f=2), Mean2P(f=2))),
    damage=st.none() | damages(*HOWS),
    share=st.floats(0, 1, exclude_max=True),
    value=st.sampled_from((*ODD, *ARRAYS)),
    counted=st.booleans(),
)
@examples(60, 2000)
def test_a_damaged_reply_changes_nothing(
    rule: Any, damage: Damage | None, share: float, value: Any, counted: bool
) -> None:
    tried("replies of NVFlare's sites")

    def lying(model: FLModel) -> list[Any]:
        return lie(model, damage, share, value)

    with tempfile.TemporaryDirectory() as folder, no_hang():
        weighted = COUNT if counted else None
        model, lines = play(Link(lying, lying), Path(folder), rule=rule, rounds=1, weighted_by_key=weighted)
    (line,) = lines
    assert "skipped" not in line
    assert is_right(model, 1)
    for named in ("refused", "bad_votes"):
        assert set(line.get(named, ())) <= {LIAR}
        assert all(why.isprintable() and len(why) <= 200 for why in line.get(named, {}).values())
    assert set(line["silent"]) <= {LIAR}
