"""A node: trains on its own data and votes by its own loss. It misbehaves if its configuration says so."""

from __future__ import annotations

import numpy as np
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from holdfast.engines.flower import make_record, read_model, vote
from resilient import task
from resilient.faults import misbehaving

app = ClientApp(mods=[misbehaving])


@app.train()
def train(message: Message, context: Context) -> Message:
    images, labels = task.share(context.node_config)
    words = context.run_config
    model = read_model(message.content.array_records["arrays"])
    model = task.trained(model, images, labels, float(words["rate"]), int(words["steps"]))
    told = MetricRecord({"num-examples": len(labels), "loss": task.loss(model, images, labels)})
    return Message(RecordDict({"arrays": make_record(model), "metrics": told}), reply_to=message)


@vote(app)
def loss(arrays: ArrayRecord, context: Context) -> float:
    images, labels = task.share(context.node_config)
    some = np.random.default_rng().choice(len(labels), min(128, len(labels)), replace=False)
    return task.loss(read_model(arrays), images[some], labels[some])
