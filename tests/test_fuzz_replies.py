"""Replies of Flower's nodes as they come over the wire, damaged in any way, among sound ones.

Every reply is a real one, cut into the pieces that Flower uploads; then some nodes' pieces are changed. No round
crashes or hangs, no sound node is named, and the answer is the rule's on what was not refused.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from flwr.app import ConfigRecord, Error, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.common.serde import message_to_proto
from flwr.proto.message_pb2 import Message as Proto
from flwr.proto.message_pb2 import ObjectTree, PullObjectResponse
from flwr.proto.runtime_pb2 import PullAppMessagesResponse
from flwr.supercore.inflatable.inflatable_object import (
    get_all_nested_objects,
    get_object_id,
    get_object_tree,
    no_object_id_recompute,
)
from flwr.supercore.run import Run
from flwr.superlink.grid import HttpGrid
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from hypothesis import given
from hypothesis import strategies as st

from holdfast import CWTM, NNM, GeometricMedian, Mean2P, MeanwO
from holdfast.engines.arrivals import Arrivals
from holdfast.engines.flower import LocalGrid, RobustStrategy, TwoPhaseStrategy, make_record, read_model
from holdfast.engines.replies import Gathered
from holdfast.journal import read_journal
from tests.fuzzing import Damage, damages, examples, no_hang, tried

MODEL: dict[str, np.ndarray] = {
    "w": np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3),
    "b": np.zeros(4),
    "steps": np.array(7),
}
NODES, F = 7, 2
RULES = (MeanwO(f=F), CWTM(f=F), NNM(f=F) >> CWTM(f=F), GeometricMedian(), Mean2P(f=F))
ODD_MODELS: dict[str, Any] = {
    "nan": {"b": np.full(4, np.nan)},
    "infinite": {"w": np.full((2, 3), np.inf, np.float32)},
    "huge": {"b": np.full(4, 1.7e308)},
    "far": {"b": np.full(4, 1e30)},
    "other shape": {"w": np.zeros((3, 2), np.float32)},
    "other type": {"w": np.zeros((2, 3), np.complex64)},
    "a number more": {"b": np.zeros(5)},
    "text": {"b": np.array(["a", "b", "c", "d"])},
    "negative": {"steps": np.array(-(2**63))},
    "an array more": {"extra": np.zeros(3)},
}


@dataclass(frozen=True)
class Lie:
    """What one node does: another model, an error or nothing in the place of its reply; then damaged pieces.

    A piece is damaged as a whole, or inside, with a head that tells its new length. It gets the name that its new
    content has, since a SuperLink takes no other.
    """

    model: str
    what: str
    pieces: tuple[tuple[int, bool, Damage], ...]
    envelope: Damage | None
    tree: int


def lies() -> st.SearchStrategy[Lie]:
    """Mostly damaged pieces."""
    models = st.sampled_from([""] * len(ODD_MODELS) + list(ODD_MODELS))
    what = st.sampled_from(["reply"] * 8 + ["error", "empty", "twice", "metrics"])
    pieces = st.lists(st.tuples(st.integers(0, 20), st.booleans(), damages()), max_size=2).map(tuple)
    return st.builds(Lie, models, what, pieces, st.none() | damages(), st.integers(0, 9))


def honest(node: int) -> dict[str, np.ndarray]:
    """The model of a sound node."""
    rng = np.random.default_rng(node)
    moved = {name: values + rng.normal(size=values.shape).astype(values.dtype) for name, values in MODEL.items()}
    return moved | {"steps": MODEL["steps"] + 3}


def content(asked: Message, node: int, lie: Lie | None) -> RecordDict | Error:
    """What a node answers to a question to train, to evaluate or to vote."""
    if lie and lie.what == "error":
        return Error(1, "Traceback\nValueError: \x1b[2J no data")
    if lie and lie.what == "empty":
        return RecordDict()
    metrics: dict[str, Any] = {
        "num-examples": 3 * node,
        "loss": 0.1 * node,
        "list": [1.0, 2.0],
        "inner": 1.0,
        "outer": 2.0 - 0.1 * node,
    }
    records: dict[str, Any] = {"m": MetricRecord(metrics), "c": ConfigRecord({"note": "text", "raw": b"\x00"})}
    if lie and lie.what == "metrics":
        records["m2"] = MetricRecord(
            {"loss": float("nan"), "inner": float("inf"), "outer": 10**400 % 2**62, "num-examples": 9}
        )
    if asked.metadata.message_type == "train":
        model = honest(node) | (ODD_MODELS.get(lie.model, {}) if lie else {})
        records["arrays"] = make_record(model)
        if lie and lie.what == "twice":
            records["again"] = make_record(model)
    return RecordDict(records)


@dataclass
class Wire:
    """What Flower's grid asks a SuperLink: the replies to what was pushed, in pieces."""

    lies: dict[int, Lie]
    replies: dict[str, tuple[Proto, ObjectTree]] = field(default_factory=dict)
    pieces: dict[str, bytes] = field(default_factory=dict)

    def push(self, messages: Iterable[Message]) -> list[str]:
        """The nodes answer at once."""
        return [self._answer(message) for message in messages]

    def _answer(self, asked: Message) -> str:
        with no_object_id_recompute():
            return self._cut(asked)

    def _cut(self, asked: Message) -> str:
        node = int(asked.metadata.dst_node_id)
        lie = self.lies.get(node)
        reply = Message(content(asked, node, lie), reply_to=asked)
        held, names = get_all_nested_objects(reply), dict[str, str]()
        harmed = dict[int, list[tuple[bool, Damage]]]()
        for at, inside, damage in lie.pieces if lie else ():
            harmed.setdefault(at % len(held), []).append((inside, damage))
        for at, (name, part) in enumerate(held.items()):  # children first
            piece = part.deflate()
            for inside, damage in harmed.get(at, ()):
                piece = in_body(piece, damage) if inside else damage(piece)
            for old, new in names.items():
                piece = piece.replace(old.encode(), new.encode())
            names[name] = get_object_id(piece)
            self.pieces[names[name]] = piece
        tree = _renamed(get_object_tree(reply), names, lie.tree if lie else 0)
        reply.metadata.__dict__["_message_id"] = names[get_object_tree(reply).object_id]
        proto = message_to_proto(reply)
        if lie and lie.envelope:
            with suppress(DecodeError, UnicodeDecodeError):  # what it raises for, no SuperLink takes
                proto = Proto.FromString(lie.envelope(proto.SerializeToString()))
        question = f"question {len(self.replies)}"
        self.replies[question] = proto, tree
        return question

    def PullMessages(self, request: Any) -> Any:  # noqa: N802
        (name,) = request.message_ids
        proto, tree = self.replies[name]
        return PullAppMessagesResponse(messages_list=[proto], message_object_trees=[tree])

    def PullObject(self, request: Any) -> Any:  # noqa: N802
        piece = self.pieces.get(request.object_id)
        found = piece is not None
        return PullObjectResponse(object_found=found, object_available=found, object_content=piece or b"")

    def ConfirmMessageReceived(self, _: Any) -> None:  # noqa: N802
        pass


def in_body(piece: bytes, damage: Damage) -> bytes:
    """A piece whose body is damaged, and whose head tells the new length as it should."""
    head, _, body = piece.partition(b"\0")
    body = damage(body)
    return head.rsplit(b" ", 1)[0] + f" {len(body)}".encode() + b"\0" + body


def _renamed(tree: ObjectTree, names: dict[str, str], harm: int) -> ObjectTree:
    """The tree of the pieces' new names; sometimes without a branch, or with one twice."""
    children = [_renamed(child, names, 0) for child in tree.children]
    if harm == 1:
        children = children[1:]
    if harm == 2:
        children = children * 2
    return ObjectTree(object_id=names[tree.object_id], children=children)


def grid_of(wire: Wire) -> Any:
    LocalGrid(ClientApp(), 1)  # this process gets the identity that messages carry
    grid: Any = HttpGrid(token="none")
    grid._client, grid._run = wire, Run.create_empty(1)
    grid.push_messages = wire.push
    grid.get_node_ids = lambda: list(range(1, NODES + 1))
    return grid


def differences(node: int) -> dict[str, np.ndarray]:
    return {name: values - MODEL[name] for name, values in honest(node).items()}


@given(
    rule=st.sampled_from(RULES),
    some=st.dictionaries(st.integers(1, NODES), lies(), min_size=1, max_size=F + 1),
    seed=st.integers(0, 9),
    counted=st.booleans(),
)
@examples(20, 150)
def test_damaged_replies_change_nothing_but_their_own_part(
    rule: Any, some: dict[int, Lie], seed: int, counted: bool
) -> None:
    tried("replies of a round")
    kind = TwoPhaseStrategy if isinstance(rule, type(Mean2P(f=1))) else RobustStrategy
    came = list[Gathered[int]]()

    rules = (rule.inner, rule.outer) if kind is TwoPhaseStrategy else (rule,)

    def spied(arrivals: Arrivals[int], *args: Any) -> Gathered[int]:
        came.append(sort(arrivals, *args))
        return came[-1]

    sort = Arrivals.sort
    with tempfile.TemporaryDirectory() as folder, no_hang(), patch.object(Arrivals, "sort", spied):
        served = kind(rule, folder=folder, seed=seed, weighted_by_key="num-examples" if counted else None)
        result = served.start(grid_of(Wire(some)), make_record(MODEL), num_rounds=1, timeout=60.0)
        (line,) = read_journal(Path(folder))
    liars = {str(node) for node in some}
    assert not line["silent"]
    for named in ("refused", "bad_votes"):
        assert set(line.get(named, ())) <= liars, "a sound node is named"
    assert all(why.isprintable() for why in line["refused"].values())
    found = read_model(result.arrays)
    assert {name: (v.shape, v.dtype) for name, v in found.items()} == {n: (v.shape, v.dtype) for n, v in MODEL.items()}
    assert all(np.isfinite(values).all() for values in found.values())
    (gathered,) = came
    sound = [node for node in range(1, NODES + 1) if str(node) not in line["refused"]]
    assert gathered.nodes == sound
    for node, update in zip(sound, gathered.updates, strict=True):
        if node not in some:
            assert all(np.array_equal(update[name], values) for name, values in differences(node).items())
    told: Any = dict(result.evaluate_metrics_clientapp.get(1) or {})
    assert 0.1 <= told.get("loss", 0.5) <= 0.1 * NODES, "liars moved a metric beyond the honest ones"
    if line.get("skipped"):
        assert len(line["refused"]) > (rule.tolerance() or 0)
        assert all(np.array_equal(found[name], values) for name, values in MODEL.items())
        return
    part = getattr(rule, line.get("winner", ""), rule)
    masses = served.counts.masses(gathered.counts, rules)
    assert (masses is not None) == counted == ("masses" in line)
    assert masses is None or masses.share_of(rule.tolerance() or 0) < 0.5
    rng = np.random.default_rng((seed, 1, 1)) if part.random else None
    expected = part.decide(gathered.updates, rng=rng, weights=masses).value
    for name, values in MODEL.items():
        assert np.array_equal(found[name], (values + expected[name]).astype(values.dtype)), name
