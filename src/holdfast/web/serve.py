"""A port on loopback, the server on it, and a browser that looks at it."""

from __future__ import annotations

import socket
import threading
import webbrowser
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from holdfast.errors import BadInput
from holdfast.web.app import create
from holdfast.web.guard import PATIENCE

HOST = "127.0.0.1"


class Timed(H11Protocol):
    """A connection that ends if a request's headers do not arrive in time."""

    def connection_made(self, transport: Any) -> None:
        """Begin to look at the clock."""
        super().connection_made(transport)
        self.loop.call_later(PATIENCE, self._look, self.cycle)

    def _look(self, before: Any) -> None:
        """Close the connection if no request came since the last look, and none is being answered."""
        if self.transport.is_closing():
            return
        if self.cycle is before and (before is None or before.response_complete):
            self.transport.close()
        else:
            self.loop.call_later(PATIENCE, self._look, self.cycle)


def bound(port: int) -> socket.socket:
    """A socket on loopback; port 0 is any that is free."""
    if not 0 <= port <= 65535:
        raise BadInput(f"port {port} was given; it is 0 (any that is free) to 65535.")
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
        listener.listen()  # a client that knows the address may come before the server is up
    except OSError as error:
        listener.close()
        raise BadInput(
            f"port {port} cannot be had ({error.strerror}); name another, or 0 for any that is free."
        ) from None
    return listener


def serve(
    page: str,
    port: int = 0,
    store: Path | None = None,
    *,
    browser: bool = True,
    on_start: Callable[[str], None] | None = None,
) -> None:
    """Serve until somebody interrupts; `on_start` hears the address of the page."""
    held = bound(port)
    port = held.getsockname()[1]
    config = uvicorn.Config(
        create(port, store),
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=1,
        server_header=False,
        ws="none",
        http=Timed,
    )
    server = uvicorn.Server(config)
    address = f"http://{HOST}:{port}{page}"
    if on_start:
        on_start(address)
    if browser:
        threading.Timer(0.3, webbrowser.open, [address]).start()
    try:
        server.run(sockets=[held])
    except KeyboardInterrupt:  # uvicorn raises it again once it has let go
        pass
    finally:
        held.close()
