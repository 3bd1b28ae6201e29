"""A reply as the pieces in which a SuperLink gives it to a server, written to files.

Some pieces are changed after Flower has packed them, as a client with its own program can do. The server that is
measured holds none of them before it asks.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flwr.app import Error, Message, RecordDict
from flwr.app.message import remove_content_from_message
from flwr.common.serde import message_to_proto
from flwr.proto.message_pb2 import ObjectTree, PullObjectResponse
from flwr.proto.runtime_pb2 import PullAppMessagesResponse
from flwr.supercore.inflatable.inflatable_object import (
    get_all_nested_objects,
    get_object_id,
    get_object_tree,
    no_object_id_recompute,
)

Change = Callable[[str, bytes], bytes]  # of a piece's kind and its bytes


def as_packed(_: str, piece: bytes) -> bytes:
    """The piece as Flower packs it."""
    return piece


@dataclass(frozen=True)
class Reply:
    """What a client sends: a content, or an error; changed pieces; whether they can be fetched; pieces only listed."""

    content: RecordDict | Error
    change: Change = as_packed
    uploaded: bool = True
    listed: int = 0


def store(folder: Path, reply: Reply, asked: Message) -> bytes:
    """Write the pieces of a reply to files, and return the answer by which a SuperLink announces it."""
    message = Message(reply.content, reply_to=asked)
    with no_object_id_recompute():
        return _stored(folder, reply, message)


def _stored(folder: Path, reply: Reply, message: Message) -> bytes:
    names = dict[bytes, bytes]()
    for name, part in get_all_nested_objects(message).items():  # children first
        piece = reply.change(type(part).__name__, part.deflate())
        if reply.change is not as_packed:
            for old, new in names.items():
                piece = piece.replace(old, new)
        own = get_object_id(piece)
        names[name.encode()] = own.encode()
        answer = PullObjectResponse(object_found=True, object_available=reply.uploaded, object_content=piece)
        if not (folder / own).exists():  # replies share pieces
            (folder / own).write_bytes(answer.SerializeToString())
    tree = _renamed(get_object_tree(message), names)
    tree.children.extend(ObjectTree(object_id=get_object_id(b"%d" % at)) for at in range(reply.listed))
    message.metadata.__dict__["_message_id"] = tree.object_id
    announced = message_to_proto(remove_content_from_message(message))
    return PullAppMessagesResponse(messages_list=[announced], message_object_trees=[tree]).SerializeToString()


def _renamed(tree: ObjectTree, names: dict[bytes, bytes]) -> ObjectTree:
    children = [_renamed(child, names) for child in tree.children]
    return ObjectTree(object_id=names[tree.object_id.encode()].decode(), children=children)


def described(**told: Any) -> Change:
    """A change of what every array says of itself."""

    def change(kind: str, piece: bytes) -> bytes:
        if kind != "Array":
            return piece
        head, _, body = piece.partition(b"\0")
        new = json.dumps(json.loads(body) | told).encode()
        return head.rsplit(b" ", 1)[0] + f" {len(new)}".encode() + b"\0" + new

    return change
