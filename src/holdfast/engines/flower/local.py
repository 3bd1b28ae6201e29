"""Nodes in this process: any Flower app, no Ray, no sockets. For tests and small simulations."""

from __future__ import annotations

import copy
import traceback
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from flwr.app import Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid
from flwr.supercore.run import Run

from holdfast.errors import BadInput


class LocalGrid(Grid):
    """A grid whose nodes are calls of a ClientApp, one after the other, each with a context that lasts.

    Parameters
    ----------
    app : flwr.clientapp.ClientApp
        The clients' app.
    nodes : int or sequence of mappings
        How many nodes there are, or a configuration of each. Every node finds its number as partition-id, as in
        simulations of Flower.
    run_config : mapping, optional
        The configuration of the run.

    Raises
    ------
    BadInput
        If `app` is no ClientApp, or there are no nodes.

    Notes
    -----
    For tests and small simulations: no Ray, no sockets. An exception in a client is an error reply, as over the wire.
    A client that hangs, hangs.

    Examples
    --------
    >>> import numpy as np
    >>> from flwr.app import Message, MetricRecord, RecordDict
    >>> from flwr.clientapp import ClientApp
    >>> from holdfast import MeanwO
    >>> from holdfast.engines.flower import LocalGrid, RobustStrategy, read_model, make_record
    >>> app = ClientApp()
    >>> @app.train()
    ... def train(message, context):
    ...     model = read_model(message.content["arrays"])
    ...     told = {"arrays": make_record({"w": model["w"] + 1}), "metrics": MetricRecord({"num-examples": 1})}
    ...     return Message(RecordDict(told), reply_to=message)
    >>> strategy = RobustStrategy(MeanwO(f=1), fraction_evaluate=0.0)
    >>> result = strategy.start(LocalGrid(app, nodes=4), make_record({"w": np.zeros(2)}), num_rounds=2)
    >>> read_model(result.arrays)["w"]
    array([2., 2.])
    """

    def __init__(
        self, app: ClientApp, nodes: int | Sequence[Mapping[str, Any]], run_config: Mapping[str, Any] | None = None
    ) -> None:
        if not isinstance(app, ClientApp):
            raise BadInput(f"LocalGrid was given {app!r}; pass a ClientApp and then how many nodes.")
        listed = isinstance(nodes, Sequence) and all(isinstance(one, Mapping) for one in nodes)
        if not listed and (not isinstance(nodes, int) or nodes < 1):
            raise BadInput(
                f"LocalGrid was given {nodes!r} nodes; it is a number, 1 or more, or a configuration of each."
            )
        _identify()
        each = [{}] * nodes if isinstance(nodes, int) else list(nodes)
        self.app = app
        self.contexts = {
            at + 1: Context(
                1,
                at + 1,
                {"partition-id": at, "num-partitions": len(each), **config},
                RecordDict(),
                dict(run_config or {}),
            )
            for at, config in enumerate(each)
        }
        self.waiting: dict[str, Message] = {}
        self.sent = 0
        self.own = Run.create_empty(1)

    def set_run(self, run: Run) -> None:
        """Say which run this is; without it, the run is an empty one."""
        self.own = run

    @property
    def run(self) -> Run:
        """The run that was set."""
        return self.own

    def create_message(
        self, content: RecordDict, message_type: str, dst_node_id: int, group_id: str, ttl: float | None = None
    ) -> Message:
        """Return a message from the server."""
        return Message(content, dst_node_id, message_type, ttl=ttl, group_id=group_id)

    def get_node_ids(self) -> Iterable[int]:
        """Return all nodes, always."""
        return list(self.contexts)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Note messages; their clients are called when the replies are pulled."""
        names = []
        for message in messages:
            self.sent += 1
            message.metadata.__dict__["_message_id"] = str(self.sent)
            self.waiting[str(self.sent)] = message
            names.append(str(self.sent))
        return names

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Return the replies to the messages of these names that still wait."""
        return [self._reply(self.waiting.pop(name)) for name in message_ids if name in self.waiting]

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        """Push the messages and pull their replies; the time limit is not looked at, since nobody is waited for."""
        return self.pull_messages(self.push_messages(messages))

    def _reply(self, message: Message) -> Message:
        node = int(message.metadata.dst_node_id)
        content = copy.deepcopy(message.content)  # nobody changes another's
        own = Message(metadata=message.metadata, content=content)  # type: ignore[call-overload]
        try:
            reply = self.app(own, self.contexts[node])
            if not isinstance(reply, Message):
                raise TypeError(f"the client gave {type(reply).__name__}, not a Message")
        except (Exception, SystemExit):
            reply = Message(Error(code=0, reason=traceback.format_exc(limit=-1)), reply_to=message)
        reply.metadata.__dict__["_src_node_id"] = node  # nobody speaks in another's name
        return reply


def _identify() -> None:
    """Messages carry the process's identity, which Flower sets in its own processes only."""
    from flwr.supercore.task_identity import TaskIdentity

    for name in ("run_id", "node_id", "task_id"):
        if getattr(TaskIdentity, f"_{name}") is None:
            setattr(TaskIdentity, name, 1)
