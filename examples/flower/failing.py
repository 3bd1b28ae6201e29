"""A SuperLink that answers every third call of the server with 500."""

from __future__ import annotations

from itertools import count
from typing import Any

import uvicorn
from flwr.superlink.cli import flower_superlink

CALLS = ("get-nodes", "push-messages", "pull-messages", "pull-object", "confirm-message-received")
serve, calls = uvicorn.run, count(1)


class Failing:
    """Flower's web application, from which some answers never come."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        ours = scope["type"] == "http" and scope["path"].removeprefix("/v1/runtime/") in CALLS
        if not ours or next(calls) % 3:
            await self.app(scope, receive, send)
            return
        print(f"answered {scope['path']} with 500", flush=True)
        await send({"type": "http.response.start", "status": 500, "headers": []})
        await send({"type": "http.response.body", "body": b""})


def failing(app: Any, **words: Any) -> None:
    """Serve the application with failures."""
    serve(app=Failing(app), **words)


if __name__ == "__main__":
    setattr(uvicorn, "run", failing)  # noqa: B010 - types are told apart otherwise
    flower_superlink()
