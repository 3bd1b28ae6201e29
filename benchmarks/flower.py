"""Flower's own strategies and ours: under one bad client, and what they cost.

Three parts. Nine clients of which one misbehaves, in every way, through every strategy: does the run end, and how far
is the model from the mean of the honest clients' models? Thirty-five clients that return a constant, two phases: CPU
time against stock FedAvg with a second message of the same size, for clients that unpack and pack as every client does,
and for clients that cost nothing at all. One aggregation of the same fifty messages, d =
1,000,000: time against Flower's MultiKrum and Bulyan.

example:  python benchmarks/flower.py --out results/benchmarks/flower.json
"""

from __future__ import annotations

import argparse
import json
import logging
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from common import Row, cores, interleaved, progress, result, save, table
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import Bulyan, FedAvg, FedMedian, FedTrimmedAvg, Krum, MultiKrum, Strategy

from holdfast import CWTM, Mean2P, MeanwO
from holdfast.engines.flower import LocalGrid, RobustStrategy, TwoPhaseStrategy, make_record, read_model, vote
from holdfast.training.train import threads

DEFAULT = Path("results/benchmarks/flower.json")
QUIET: dict[str, Any] = {"fraction_evaluate": 0.0}
CLIENTS, SIZE = 9, 40
TARGETS = np.random.default_rng(0).normal(size=(CLIENTS, SIZE)).astype(np.float32) * 0.1 + 1
STRATEGIES: dict[str, Callable[[], Strategy]] = {
    "FedAvg": lambda: FedAvg(**QUIET),
    "FedMedian": lambda: FedMedian(**QUIET),
    "FedTrimmedAvg": lambda: FedTrimmedAvg(**QUIET, beta=0.2),
    "Krum": lambda: Krum(**QUIET, num_malicious_nodes=1),
    "MultiKrum": lambda: MultiKrum(**QUIET, num_malicious_nodes=1, num_nodes_to_select=8),
    "Bulyan": lambda: Bulyan(**QUIET, num_malicious_nodes=1),
    "RobustStrategy(CWTM(f=1))": lambda: RobustStrategy(CWTM(f=1), **QUIET),
    "RobustStrategy(MeanwO(f=1))": lambda: RobustStrategy(MeanwO(f=1), **QUIET),
    "TwoPhaseStrategy(Mean2P(f=1))": lambda: TwoPhaseStrategy(Mean2P(f=1), **QUIET),
}


def told(message: Message, arrays: ArrayRecord | None, metrics: dict[str, Any] | None) -> Message:
    content = RecordDict()
    if arrays is not None:
        content["arrays"] = arrays
    if metrics is not None:
        content["metrics"] = MetricRecord(metrics)
    return Message(content, reply_to=message)


def failing(_: Message, __: np.ndarray) -> Message:
    raise RuntimeError("this client is broken")


USUAL = {"num-examples": 10}
LIES: dict[str, Callable[[Message, np.ndarray], Message]] = {
    "nobody": lambda m, w: told(m, make_record({"w": w}), USUAL),
    "exception": failing,
    "NaN": lambda m, w: told(m, make_record({"w": np.full_like(w, np.nan)}), USUAL),
    "1e30": lambda m, w: told(m, make_record({"w": np.full_like(w, 1e30)}), USUAL),
    "shape": lambda m, w: told(m, make_record({"w": w[:-1]}), USUAL),
    "names": lambda m, w: told(m, make_record({"v": w}), USUAL),
    "empty": lambda m, _: told(m, None, None),
    "no metrics": lambda m, w: told(m, make_record({"w": w}), None),
    "no arrays": lambda m, _: told(m, None, USUAL),
    "1e30 examples": lambda m, w: told(m, make_record({"w": w - 5}), {"num-examples": 1e30}),
    "0 examples": lambda m, w: told(m, make_record({"w": w}), {"num-examples": 0}),
    "examples as list": lambda m, w: told(m, make_record({"w": w}), {"num-examples": [1.0, 2.0]}),
}


def clients(lie: Callable[[Message, np.ndarray], Message]) -> ClientApp:
    """Each takes a step towards its target; the last one's reply is a lie."""
    app = ClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        mine = int(context.node_config["partition-id"])
        w = read_model(message.content.array_records["arrays"])["w"]
        moved = w + np.float32(0.5) * (TARGETS[mine] - w)
        return lie(message, moved) if mine == CLIENTS - 1 else told(message, make_record({"w": moved}), USUAL)

    @vote(app)
    def loss(arrays: ArrayRecord, context: Context) -> float:
        w = read_model(arrays)["w"]
        return float(np.square(w - TARGETS[int(context.node_config["partition-id"])]).sum())

    return app


def outcome(strategy: Strategy, lie: Callable[[Message, np.ndarray], Message]) -> str:
    """What becomes of ten rounds: the distance to the honest mean in radii of the honest, or how they ended."""
    first = make_record({"w": np.zeros(SIZE, np.float32)})
    try:
        found = strategy.start(LocalGrid(clients(lie), CLIENTS), first, num_rounds=10)
    except Exception as error:
        return f"aborts ({type(error).__name__})"
    if not len(found.arrays):
        return "no model"
    w, honest = read_model(found.arrays)["w"], TARGETS[: CLIENTS - 1]
    if not np.isfinite(w).all():
        return "model not finite"
    centre = honest.mean(axis=0)
    return f"{np.linalg.norm(w - centre) / np.linalg.norm(honest - centre, axis=1).max():.2g}"


def faults() -> dict[str, dict[str, str]]:
    """Every strategy under every lie."""
    found = {}
    for name, made in STRATEGIES.items():
        found[name] = {kind: outcome(made(), lie) for kind, lie in LIES.items()}
        progress(f"{name}: {found[name]}")
    return found


class SecondMessage(FedAvg):
    """Stock FedAvg that also asks everybody a question with two models in it, as a vote does."""

    def configure_train(self, server_round: int, arrays: Any, config: Any, grid: Any) -> Iterable[Message]:
        self.grid, self.sent = grid, arrays
        return super().configure_train(server_round, arrays, config, grid)

    def aggregate_train(self, server_round: int, replies: Iterable[Message]) -> Any:
        found = super().aggregate_train(server_round, replies)
        content = RecordDict({"inner": found[0] or self.sent, "outer": self.sent})
        asked = [Message(content, dst_node_id=node, message_type="query.vote") for node in self.grid.get_node_ids()]
        list(self.grid.send_and_receive(asked))
        return found


def constant(n: int, d: int, ready: bool) -> ClientApp:
    """Clients that compute nothing: they unpack what they are sent and pack a constant, or send bytes made before."""
    rows = np.random.default_rng(0).normal(size=(n, d)).astype(np.float32)
    packed = [make_record({"w": row}) for row in rows]
    app = ClientApp()

    def unpack(message: Message, *names: str) -> None:
        for name in () if ready else names:
            read_model(message.content.array_records[name])

    @app.train()
    def train(message: Message, context: Context) -> Message:
        at = int(context.node_config["partition-id"])
        unpack(message, "arrays")
        return told(message, packed[at] if ready else make_record({"w": rows[at]}), USUAL)

    @app.query("vote")
    def answer(message: Message, _: Context) -> Message:
        unpack(message, "inner", "outer")
        return Message(RecordDict({"vote": MetricRecord({"inner": 1.0, "outer": 2.0})}), reply_to=message)

    return app


def overhead(rounds: int, ready: bool) -> Row:
    """CPU time of two-phase rounds with clients that compute nothing, against the same messages with FedAvg."""
    n, d = 35, 115_646
    app, first = constant(n, d, ready), make_record({"w": np.zeros(d, np.float32)})

    def spent(strategy: Strategy) -> float:
        with threads(1):  # threads that wait for work count as work
            begin = time.process_time()
            strategy.start(LocalGrid(app, n), first, num_rounds=10)
            return (time.process_time() - begin) / 10

    sides = [(spent(TwoPhaseStrategy(Mean2P(f=14), **QUIET)), spent(SecondMessage(**QUIET))) for _ in range(rounds)]
    ours, theirs = (min(side) for side in zip(*sides, strict=True))
    progress(f"two phases: {1000 * ours:.0f} ms of CPU a round, FedAvg and a second message {1000 * theirs:.0f} ms")
    how = "send bytes made before" if ready else "unpack, and pack a constant"
    words = {"what": f"a two-phase round of 35 clients that {how}", "against": "FedAvg and a second message"}
    return result(ours / theirs, 1.3, False, **words, measure="CPU time ratio")


def aggregations(rounds: int) -> list[Row]:
    """One aggregation of fifty messages of a million numbers."""
    n, d, f = 50, 1_000_000, 10
    rng = np.random.default_rng(0)
    first = {"w": rng.normal(size=d).astype(np.float32)}
    records = [make_record({"w": first["w"] + rng.normal(size=d).astype(np.float32) * 0.01}) for _ in range(n)]
    grid = LocalGrid(ClientApp(), n)
    asked = [Message(RecordDict(), dst_node_id=at + 1, message_type="train") for at in range(n)]
    list(grid.push_messages(asked))

    def replies() -> list[Message]:
        made = [told(message, ArrayRecord(dict(record)), USUAL) for message, record in zip(asked, records, strict=True)]
        for at, reply in enumerate(made):
            reply.metadata.__dict__["_src_node_id"] = at + 1
        return made

    def ours(strategy: RobustStrategy) -> None:
        strategy.model, strategy.asked = first, list(range(1, n + 1))
        strategy.aggregate_train(1, replies())

    mine = RobustStrategy(MeanwO(f=f), certify=False)
    found = []
    for name, peer, bar in (
        ("MultiKrum", MultiKrum(num_malicious_nodes=f, num_nodes_to_select=n - f), 1.0),
        ("Bulyan", Bulyan(num_malicious_nodes=f), 0.2),
    ):
        a, b = interleaved(lambda: ours(mine), lambda peer=peer: peer.aggregate_train(1, replies()), rounds)  # type: ignore[misc]
        progress(f"aggregation: {a:.2f} s, Flower's {name} {b:.2f} s")
        words = {"what": "MeanwO of 50 messages, d = 1,000,000", "against": f"Flower's {name}"}
        found.append(result(a / b, bar, False, **words, measure="time ratio"))
    return found


def main(out: Path, rounds: int) -> None:
    """All three parts."""
    logging.disable(logging.CRITICAL)
    rows = [overhead(rounds, False), overhead(rounds, True), *aggregations(rounds)]
    save(out, rows, ("holdfast", "flwr", "numpy"))
    whole = json.loads(out.read_text()) | {"clients": CLIENTS, "faults": faults(), "cores": cores()}
    out.write_text(json.dumps(whole, indent=1) + "\n")
    print(table(rows))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=DEFAULT)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    main(given.out, given.rounds)
