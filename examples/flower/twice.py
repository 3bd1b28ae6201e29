"""A hostile SuperNode: it sends every reply twice, and once more under another number."""

from __future__ import annotations

import contextlib
import hashlib
from typing import Any

from flwr.supernode import start_client_internal as node
from flwr.supernode.cli import flower_supernode

push = node._push_messages


def twice(state: Any, object_store: Any, send: Any, push_object: Any) -> None:
    """Flower's own pushing of replies, with a sender that repeats itself."""

    def send_twice(message: Any, tree: Any, seconds: float) -> Any:
        told = send(message, tree, seconds)
        for name in (message.metadata.message_id, hashlib.sha256(b"again").hexdigest()):
            own = message.metadata.message_id
            message.metadata.__dict__["_message_id"] = name
            with contextlib.suppress(Exception):
                send(message, tree, seconds)
                print(f"sent {name} again", flush=True)
            message.metadata.__dict__["_message_id"] = own
        return told

    push(state, object_store, send_twice, push_object)


if __name__ == "__main__":
    setattr(node, "_push_messages", twice)  # noqa: B010 - types are told apart otherwise
    flower_supernode()
