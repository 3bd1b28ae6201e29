"""Who may speak to the server, how much, and what a browser may do with its pages."""

from __future__ import annotations

import asyncio
import json

from starlette.types import ASGIApp, Message, Receive, Scope, Send

LIMIT = 64 * 1024  # bytes of a request
PATIENCE = 10.0  # seconds for the whole of it to arrive
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
Refusal = tuple[int, str]


def names(port: int) -> frozenset[str]:
    """What a Host header may say: loopback, at this port."""
    return frozenset(f"{host}:{port}" for host in ("127.0.0.1", "localhost"))


class Guard:
    """Refuses other hosts, other origins, and what is too long, before anything else looks at a request."""

    def __init__(self, app: ASGIApp, port: int) -> None:
        self.app, self.hosts = app, names(port)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        answer = Answer(send)
        try:
            refusal = self._refusal(scope)
            body = b"" if refusal or scope["method"] != "POST" else await _body(receive)
            if refusal or isinstance(body, tuple):
                await answer.refuse(*(refusal or body))
            else:
                await self.app(scope, _replay(body, receive), answer.send)
        except asyncio.CancelledError:  # the server ends while somebody waits
            await answer.refuse(503, "the server has ended.")

    def _refusal(self, scope: Scope) -> Refusal | None:
        hosts, origins = _given(scope, "host"), _given(scope, "origin")
        if len(hosts) != 1 or hosts[0] not in self.hosts:
            return 421, "this server answers to its own address on loopback alone."
        if origins and origins != [f"http://{hosts[0]}"]:
            return 403, "a page from elsewhere asked; only the server's own pages may."
        if scope["method"] == "POST":
            if [kind.partition(";")[0].strip().lower() for kind in _given(scope, "content-type")] != [
                "application/json"
            ]:
                return 415, "a request was sent that is not application/json; send JSON."
            if any(not length.isdecimal() or int(length[:12]) > LIMIT for length in _given(scope, "content-length")):
                return 413, f"a request of more than {LIMIT} bytes was sent; send less."
        return None


class Answer:
    """Sends what the application answers, with our headers, or a refusal in its place."""

    def __init__(self, send: Send) -> None:
        self._send, self.begun = send, False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.begun = True
            given = [
                (name, value) for name, value in message["headers"] if name.decode("latin-1").lower() not in HEADERS
            ]
            message["headers"] = given + [(name.encode(), value.encode()) for name, value in HEADERS.items()]
        await self._send(message)

    async def refuse(self, status: int, said: str) -> None:
        """One sentence, after which the connection ends; nothing if the answer has begun."""
        if self.begun:
            return
        body = json.dumps({"error": said}).encode()
        fixed = {"content-type": "application/json", "content-length": str(len(body)), "connection": "close"}
        headers = [(name.encode(), value.encode()) for name, value in fixed.items()]
        await self.send({"type": "http.response.start", "status": status, "headers": headers})
        await self.send({"type": "http.response.body", "body": body})


def _given(scope: Scope, name: str) -> list[str]:
    return [value.decode("latin-1") for key, value in scope["headers"] if key.decode("latin-1").lower() == name]


async def _body(receive: Receive) -> bytes | Refusal:
    """The whole request, or why it is none."""
    parts: list[bytes] = []
    try:
        async with asyncio.timeout(PATIENCE):
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    return 400, "the rest of a request did not come."
                parts.append(message.get("body", b""))
                if sum(map(len, parts)) > LIMIT:
                    return 413, f"a request of more than {LIMIT} bytes was sent; send less."
                if not message.get("more_body"):
                    return b"".join(parts)
    except TimeoutError:
        return 408, f"a request took more than {PATIENCE:g} s to arrive; send it at once."


def _replay(body: bytes, receive: Receive) -> Receive:
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return waiting.pop() if waiting else await receive()

    return again
