"""Who may speak to the server, how much, and what a browser may do with its pages."""

from __future__ import annotations

import json
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

LIMIT = 64 * 1024  # bytes of a request
POLICY = "; ".join(
    f"{what} {who}"
    for what, who in {
        "default-src": "'none'",
        "script-src": "'self'",
        "style-src": "'self'",
        "img-src": "'self' data: blob:",
        "connect-src": "'self'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }.items()
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-cache",
}


def names(port: int) -> frozenset[str]:
    """What a Host header may say: loopback, at this port."""
    return frozenset(f"{host}:{port}" for host in ("127.0.0.1", "localhost"))


class Guard:
    """Refuses other hosts, other origins, and what is too long, before anything else looks at a request."""

    def __init__(self, app: ASGIApp, port: int) -> None:
        self.app, self.hosts = app, names(port)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        refusal = self._refusal(scope, headers)
        body = b"" if refusal or scope["method"] != "POST" else await _body(receive)
        if body is None:
            refusal = 413, f"a request of more than {LIMIT} bytes was sent; send less."
        if refusal:
            await _answer(send, *refusal)
            return
        await self.app(scope, _replay(body or b"", receive), _marked(send))

    def _refusal(self, scope: Scope, headers: dict[str, str]) -> tuple[int, str] | None:
        if headers.get("host", "") not in self.hosts:
            return 421, "this server answers to its own address on loopback alone."
        if (origin := headers.get("origin")) is not None and origin.removeprefix("http://") not in self.hosts:
            return 403, "a page from elsewhere asked; only the server's own pages may."
        if scope["method"] == "POST":
            if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
                return 415, "a request was sent that is not application/json; send JSON."
            if not (length := headers.get("content-length", "0")).isdecimal() or int(length[:12]) > LIMIT:
                return 413, f"a request of more than {LIMIT} bytes was sent; send less."
        return None


async def _body(receive: Receive) -> bytes | None:
    """The whole request; None if it is too long or its sender went away."""
    parts, size = [], 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > LIMIT:
            return None
        if not message.get("more_body"):
            return b"".join(parts)


def _replay(body: bytes, receive: Receive) -> Receive:
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return waiting.pop() if waiting else await receive()

    return again


def _marked(send: Send) -> Send:
    async def marked(message: Message) -> None:
        if message["type"] == "http.response.start":
            given = [
                (name, value) for name, value in message["headers"] if name.decode("latin-1").lower() not in HEADERS
            ]
            message["headers"] = given + [(name.encode(), value.encode()) for name, value in HEADERS.items()]
        await send(message)

    return marked


async def _answer(send: Send, status: int, said: str) -> None:
    body = json.dumps({"error": said}).encode()
    fixed: dict[str, Any] = {**HEADERS, "content-type": "application/json", "content-length": str(len(body))}
    headers = [(name.encode(), value.encode()) for name, value in fixed.items()]
    await send({"type": "http.response.start", "status": status, "headers": [*headers, (b"connection", b"close")]})
    await send({"type": "http.response.body", "body": body})
