"""Adapters of a small transformer, fine-tuned by nodes of which the last two lie.

example:  python lora_app.py
          python lora_app.py --rule "Average()"
"""

from __future__ import annotations

import argparse

import lora_task as task
import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from holdfast import parse
from holdfast.engines.flower import LocalGrid, RobustStrategy, make_record, read_model

client, server = ClientApp(), ServerApp()


@client.train()
def train(message: Message, context: Context) -> Message:
    """A node trains the adapters that it gets; a liar sends ten times the opposite of what it learned."""
    nodes, mine = int(context.node_config["num-partitions"]), int(context.node_config["partition-id"])
    words = context.run_config
    before = read_model(message.content.array_records["arrays"])
    data = task.shares(nodes)[mine]
    turn = int(message.content.config_records["config"]["server-round"])  # type: ignore[arg-type]
    after = task.trained(before, data, steps=int(words["steps"]), seed=1000 * turn + mine)
    if mine >= nodes - int(words["liars"]):
        after = {name: before[name] - 10 * (after[name] - before[name]) for name in after}
    told = MetricRecord({"num-examples": len(data[1])})
    return Message(RecordDict({"arrays": make_record(after), "metrics": told}), reply_to=message)


@server.main()
def main(grid: Grid, context: Context) -> None:
    """The server: B alone is trained, so that the mean of B is the mean of B A."""
    words = context.run_config
    test = task.shares(int(words["nodes"]))[-1]

    def tested(turn: int, arrays: ArrayRecord) -> MetricRecord:
        right = task.accuracy(read_model(arrays), test)
        print(f"round {turn}: {right:.1%} of the test images recognised", flush=True)
        return MetricRecord({"accuracy": right})

    strategy = RobustStrategy(parse(str(words["rule"])), fraction_evaluate=0.0, min_available_nodes=int(words["nodes"]))
    adapters = make_record(task.first(str(words["train"])))
    strategy.start(grid, adapters, num_rounds=int(words["rounds"]), evaluate_fn=tested)


def run() -> None:
    """The same app in this process."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rule", default="MeanwO(f=2)")
    parser.add_argument("--train", choices=["B", "AB"], default="B", help="which adapters are trained and sent")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--liars", type=int, default=2)
    given = parser.parse_args()
    torch.set_num_threads(1)
    config = {**vars(given), "nodes": 7, "steps": 20}
    server(LocalGrid(client, 7, config), Context(1, 0, {}, RecordDict(), config))


if __name__ == "__main__":
    run()
