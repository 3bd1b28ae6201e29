"""Processes that tests start, and what they start with: the same signals and variables on every machine.

A test waits for an event, never for time. PATIENCE is the last resort that turns a hang into a failure.
"""

from __future__ import annotations

import os
import signal
import site
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

PATIENCE = float(os.environ.get("HOLDFAST_TEST_PATIENCE", 900))  # seconds; no step takes as long on a loaded machine
WIDE = {"COLUMNS": "400", "NO_COLOR": "1"}  # one line per message
RESTORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
REMOVED = (
    *("FORCE_COLOR", "NO_COLOR", "LANGUAGE", "PYTHONIOENCODING", "PYTHONWARNINGS"),
    *("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR", "MPLCONFIGDIR"),
    *("HOLDFAST_DATA", "HOLDFAST_NO_LOCK", "GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE"),
)


def restore_signals() -> None:
    """Let children start with the default signals, even if this process was told to ignore some of them.

    A shell without job control starts background jobs with SIGINT ignored, and nohup ignores SIGHUP. Children inherit
    that, and a child that waits for Ctrl-C would wait for ever. A handler that does nothing ignores the signal here as
    before, but children do not inherit it.
    """
    for number in RESTORED:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, RESTORED)


def set_variables() -> tempfile.TemporaryDirectory[str] | None:
    """Give this process and its children the same variables everywhere; the new home folder, which the caller keeps.

    The workers of pytest-xdist inherit them.
    """
    if "PYTEST_XDIST_WORKER" in os.environ:
        return None
    home = tempfile.TemporaryDirectory(prefix="holdfast-home-", ignore_cleanup_errors=True)
    packages = site.getuserbase()  # of the real home
    for name in REMOVED:
        os.environ.pop(name, None)
    os.environ |= {"HOME": home.name, "PYTHONUSERBASE": packages, "PYTHONUTF8": "1", "COLUMNS": "80", "LINES": "25"}
    os.environ |= dict.fromkeys(("no_proxy", "NO_PROXY"), "localhost,127.0.0.1,127.0.0.2,127.0.0.3")
    return home


def holdfast(*words: str) -> list[str]:
    """The call of the command line, by the interpreter of the tests; a test is skipped where it is not installed."""
    pytest.importorskip("typer")
    return [sys.executable, "-c", "from holdfast.cli import main; main()", *words]


def run(
    call: Sequence[str], *, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a process to its end and keep what it prints; `env` is added to the variables of this process."""
    return subprocess.run(
        call, cwd=cwd, env=os.environ | dict(env or {}), capture_output=True, text=True, timeout=PATIENCE
    )


@contextmanager
def started(
    call: Sequence[str],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: int | IO[str] | None = None,
    stdout: int | IO[str] | None = subprocess.DEVNULL,
    stderr: int | IO[str] | None = subprocess.DEVNULL,
    new_session: bool = False,
) -> Iterator[subprocess.Popen[str]]:
    """Start a process; it is killed if it still runs when the block ends."""
    with subprocess.Popen(
        call,
        cwd=cwd,
        env=os.environ | dict(env or {}),
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        text=True,
        start_new_session=new_session,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_until(happens: Callable[[], bool], what: str, process: subprocess.Popen[str] | None = None) -> None:
    """Ask again and again until it is true; fail after PATIENCE, or if the process has ended that should bring it."""
    end = time.monotonic() + PATIENCE
    while not happens():
        assert process is None or process.poll() is None, f"the process ended before {what}"
        assert time.monotonic() < end, f"waited {PATIENCE:.0f} s for {what}"
        time.sleep(0.02)
