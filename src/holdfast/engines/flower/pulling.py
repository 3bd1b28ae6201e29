"""One reply from the SuperLink, measured before any of it is joined or parsed."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Mapping
from itertools import islice
from traceback import clear_frames
from typing import Any

import httpx
from flwr.app import Message
from flwr.proto.message_pb2 import ConfirmMessageReceivedRequest
from flwr.proto.runtime_pb2 import PullAppMessagesRequest
from flwr.serverapp import Grid
from flwr.supercore.inflatable.inflatable_object import (
    get_object_head_values_from_object_content,
    iterate_object_tree,
)
from flwr.supercore.inflatable.inflatable_protobuf_utils import make_pull_object_fn_protobuf
from flwr.supercore.inflatable.inflatable_utils import ObjectPullError, inflate_object_from_contents, pull_objects
from flwr.superlink.grid import HttpGrid

from holdfast.engines.flower.budget import Budget, watch
from holdfast.engines.flower.limits import HEAD_BYTES, Limits, TooMuch
from holdfast.engines.flower.link import repeat

log = logging.getLogger("flwr.holdfast")


def pull(grid: Grid, name: str, limits: Limits | None, over: threading.Event) -> list[Message]:
    """Return the reply to the message of this name, or nothing if it has not come.

    Flower's own grid joins the chunks of all arrays before anybody can look at their sizes, and a SuperLink gives a
    reply once: a piece that fails to come must be asked for again by itself. Other grids are asked as they are.

    Raises
    ------
    TooMuch
        If the reply is larger than the limits. Nothing of it was joined then.
    """
    if limits is None or not isinstance(grid, HttpGrid):
        return list(grid.pull_messages([name]))
    client: Any = grid._runtime_client
    watch(client)
    request = PullAppMessagesRequest(message_ids=[name])
    answer = Budget(limits.listed_bytes).fetch(name, lambda: client.PullMessages(request))
    for message, tree in zip(answer.messages_list, answer.message_object_trees, strict=True):
        root = message.metadata.message_id
        try:
            names = [piece.object_id for piece in islice(iterate_object_tree(tree), limits.objects + 1)]
            if len(names) > limits.objects:
                raise TooMuch(f"sent more than {limits.objects} pieces")
            contents = _contents(list(dict.fromkeys(names)), _piece(grid, client, limits, over))
            check_sizes(contents, limits)
        finally:  # whatever it is, the SuperLink need not keep it
            _confirm(grid, client, root, over)
        reply: Any = inflate_object_from_contents(root, contents)
        reply.metadata.__dict__["_message_id"] = root
        return [reply]
    return []


def _contents(names: list[str], piece: Callable[[str], bytes]) -> dict[str, bytes]:
    """The pieces of these names; if one fails, the others are let go at once.

    Flower's threads keep an error, the error their frames, and these the pieces that came before it.
    """
    try:
        return pull_objects(names, piece)
    except Exception as error:
        clear_frames(error.__traceback__)
        raise


def _confirm(grid: HttpGrid, client: Any, root: str, over: threading.Event) -> None:
    """Tell the SuperLink that a reply has come; if that fails, the reply is here all the same."""
    request = ConfirmMessageReceivedRequest(node=grid.node, run_id=grid.run.run_id, message_object_id=root)
    try:
        repeat(lambda: client.ConfirmMessageReceived(request), "confirming a reply", over=over)
    except httpx.HTTPError as error:
        log.warning("a reply could not be confirmed: %s", error)


def _piece(grid: HttpGrid, client: Any, limits: Limits, over: threading.Event) -> Callable[[str], bytes]:
    """A function that fetches one piece, until all of them together are too large."""
    fetch = make_pull_object_fn_protobuf(client.PullObject, grid.node, grid.run.run_id)
    budget = Budget(limits.described_bytes + limits.array_bytes + HEAD_BYTES * limits.objects)

    def piece(name: str) -> bytes:
        if over.is_set():
            raise ObjectPullError(name, "the round is over")
        content = repeat(lambda: budget.fetch(name, lambda: fetch(name)), "fetching a reply", over=over)
        budget.reserve(name, len(content))
        return content

    return piece


def check_sizes(contents: Mapping[str, bytes], limits: Limits) -> None:
    """Raise TooMuch if records are too large, or arrays would be once their chunks are joined.

    An array may list a chunk many times, as an array of zeros does. So the sizes of all listed chunks are added up.
    """
    described = sum(len(content) for content in contents.values() if _kind(content) != b"ArrayChunk")
    if described > limits.described_bytes:
        raise TooMuch(f"sent records of {described} bytes, more than {limits.described_bytes}")
    joined = 0
    for content in contents.values():
        if _kind(content) == b"Array":
            _, chunks, size = get_object_head_values_from_object_content(content)
            listed = json.loads(content[len(content) - size :])["arraychunk_ids"]
            joined += sum(len(contents[chunks[at]]) for at in listed)
    most = limits.array_bytes + HEAD_BYTES * limits.objects
    if joined > most:
        raise TooMuch(f"sent arrays of {joined} bytes, more than {most}")


def _kind(content: bytes) -> bytes:
    return content[:32].split(b" ", 1)[0]
