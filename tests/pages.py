"""A real server and a real browser for the tests of the pages."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from tests.children import PATIENCE, holdfast, restore_signals, started

OFF = "gpu background-networking component-update sync quic"  # no request of the browser's own
QUIET = ["--no-sandbox", "--no-first-run", *(f"--disable-{what}" for what in OFF.split())]


@contextmanager
def served(*words: str) -> Iterator[str]:
    """The address of a page that `holdfast ...` serves; at the end Ctrl-C, after which it must have ended well."""
    restore_signals()  # benchmarks come here too
    call = holdfast(*words, "--no-browser")
    with started(call, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        try:
            assert line.startswith("http://127.0.0.1:"), process.stderr.read() if process.stderr else ""
            yield line.split()[0]
        finally:
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=PATIENCE)
    assert (process.returncode, "Traceback" in said) == (0, False), said


def ask(
    address: str, path: str, body: Any = None, headers: dict[str, str] | None = None, method: str = ""
) -> tuple[int, Any, dict[str, str]]:
    """Status, what was answered, headers. A body that is no bytes goes as JSON."""
    at = urlsplit(address)
    given = {"Content-Type": "application/json"} if body is not None else {}
    sent = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    line = http.client.HTTPConnection(at.hostname or "", at.port or 0, timeout=PATIENCE)
    try:
        line.request(method or ("GET" if body is None else "POST"), path, sent, {**given, **(headers or {})})
        answer = line.getresponse()
        text = answer.read()
        kind = answer.headers.get("content-type", "")
        told = json.loads(text) if kind.startswith("application/json") else text.decode()
        return answer.status, told, {name.lower(): value for name, value in answer.headers.items()}
    finally:
        line.close()


def chromium() -> str:
    """Where the browser is: CHROMIUM, or the first that the path has."""
    names = ("chromium", "chromium-browser", "google-chrome", "chrome")
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    assert found, "there is no Chromium; make browser installs one, or name it by CHROMIUM=path"
    return found
