"""The server's routes: pages, and what the pages ask for."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from holdfast import __version__
from holdfast.errors import BadInput
from holdfast.guarantees.bounds import everyone
from holdfast.jsonable import to_json
from holdfast.twophase import AGGREGATORS
from holdfast.web.answers import answered
from holdfast.web.guard import Guard
from holdfast.web.live import Live
from holdfast.web.presets import listed, preset
from holdfast.web.rounds import read
from holdfast.web.snippet import snippet
from holdfast.web.walk import walked

STATIC = Path(__file__).parent / "static"
BUSY = asyncio.Semaphore(8)  # questions that are worked on at a time
Handler = Callable[[Request], Awaitable[Response]]


def create(port: int, store: Path | None = None) -> Starlette:
    """The application: the playground, and the live view of a store if one is named."""
    live = None if store is None else Live(store)
    routes = [
        Route("/", _page("play.html")),
        Route("/runs", _page("watch.html")),
        Route("/api/about", _get(lambda _: about(store))),
        Route("/api/round", _post(lambda given: answered(read(given))), methods=["POST"]),
        Route("/api/preset", _post(preset), methods=["POST"]),
        Route("/api/walk", _post(lambda given: walked(read(given), given)), methods=["POST"]),
        Route("/api/snippet", _post(lambda given: {"python": snippet(read(given))}), methods=["POST"]),
        Route("/api/runs", _get(lambda query: _watched(live).changes(query))),
        Route("/api/runs/{key}", _get(lambda query: _watched(live).detail(query))),
        Mount("/static", StaticFiles(directory=STATIC)),
    ]
    handlers: Any = {HTTPException: _refused, Exception: _failed}
    return Starlette(routes=routes, middleware=[Middleware(Guard, port=port)], exception_handlers=handlers)


def about(store: Path | None) -> dict[str, Any]:
    """What the pages need to know before anything is asked."""
    rules = [repr(rule).replace("f=1", "f={f}") for rule in everyone(40, 1)]
    return {
        "version": __version__,
        "store": None if store is None else store.name or str(store),
        "rules": [*rules, "Mean2P(f={f})", "Cent2P(f={f})"],
        "names": [*AGGREGATORS],
        "presets": listed(),
    }


def _watched(live: Live | None) -> Live:
    if live is None:
        raise BadInput("no folder of runs is being watched; start the server by holdfast watch FOLDER.")
    return live


def _page(name: str) -> Handler:
    async def page(_: Request) -> Response:
        return FileResponse(STATIC / name, media_type="text/html; charset=utf-8")

    return page


def _post(work: Callable[[Any], Any]) -> Handler:
    async def handle(request: Request) -> Response:
        try:
            given = json.loads(await request.body())
        except (ValueError, RecursionError):
            return _json({"error": "what was sent is no JSON; send an object."}, 400)
        if not isinstance(given, dict):
            return _json({"error": f"{type(given).__name__} was sent; send an object."}, 400)
        if BUSY.locked():
            return _json({"error": "the server is busy with other requests; ask again in a moment."}, 503)
        async with BUSY:
            return await _done(work, given)

    return handle


def _get(work: Callable[[dict[str, str]], Any]) -> Handler:
    async def handle(request: Request) -> Response:
        return await _done(work, {**request.query_params, **request.path_params})

    return handle


async def _done(work: Callable[[Any], Any], given: Any) -> Response:
    try:
        return _json(await in_thread(work, given))
    except BadInput as refusal:
        return _json({"error": str(refusal)}, 400)


async def in_thread(work: Callable[[Any], Any], given: Any) -> Any:
    """The work, done in a thread that nobody waits for when the server ends."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Any] = loop.create_future()

    def tell(result: Any, error: BaseException | None) -> None:
        if not done.done():
            done.set_result(result) if error is None else done.set_exception(error)

    def run() -> None:
        result, error = None, None
        try:
            result = work(given)
        except Exception as failure:
            error = failure
        with suppress(RuntimeError):  # the server has ended
            loop.call_soon_threadsafe(tell, result, error)

    threading.Thread(target=run, daemon=True).start()
    return await done


def _json(content: Any, status: int = 200) -> Response:
    try:
        text = json.dumps(content, allow_nan=False, separators=(",", ":"))
    except ValueError:
        text = json.dumps(to_json(content), allow_nan=False, separators=(",", ":"))
    return Response(text, status, media_type="application/json")


async def _refused(_: Request, error: Any) -> Response:
    said = {404: "there is no such page; / is the playground, /runs the live view."}
    return _json({"error": said.get(error.status_code, str(error.detail))}, error.status_code)


async def _failed(_: Request, error: Exception) -> Response:
    return _json({"error": f"the server failed ({type(error).__name__}); its terminal says more."}, 500)
