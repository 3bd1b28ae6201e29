"""A SuperLink with TLS and nodes with registered keys, as processes of this machine.

Everything lives in one folder: an own certificate authority, the nodes' keys and data, Flower's state, logs, the
server's journal. All processes that are started here are ended here, also when something fails.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from keys import certify, key_pair
from resilient import task

HERE = Path(__file__).resolve().parent
BIN = Path(sys.executable).parent
QUIET = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1", "OMP_NUM_THREADS": "1"}
NAME, MARK = "here", "HOLDFAST_EXAMPLE"


class Federation:
    """A SuperLink and its nodes, in a folder."""

    def __init__(self, folder: Path, nodes: int) -> None:
        self.folder, self.nodes = folder.resolve(), nodes
        self.keys = self.folder / "keys"
        self.port = free_port()
        self.numbers: dict[str, str] = {}
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        path = f"{BIN}{os.pathsep}{os.environ.get('PATH', os.defpath)}"  # Flower's programs start each other by name
        self.env = os.environ | QUIET | {"FLWR_HOME": str(self.folder / "flwr"), "PATH": path}
        for part in ("keys", "data", "logs", "flwr"):
            (self.folder / part).mkdir(parents=True, exist_ok=True)
        certify(self.keys)
        for name in [*map(str, range(nodes)), "stranger"]:
            key_pair(self.keys / name)
        for at, (images, labels) in enumerate(task.shares(nodes)[:-1]):
            np.savez(self.folder / "data" / f"{at}.npz", images=images, labels=labels)
        (self.folder / "flwr" / "config.toml").write_text(
            f'[superlink]\ndefault = "{NAME}"\n\n[superlink.{NAME}]\naddress = "127.0.0.1:{self.port}"\n'
            f'root-certificates = "{self.keys / "ca.crt"}"\n'
        )

    def start(self, program: Sequence[str | Path] = (BIN / "flower-superlink",)) -> None:
        """The SuperLink, whose database outlives it."""
        keys = self.keys
        words = ["--host", "127.0.0.1", "--port", str(self.port), "--database", str(self.folder / "superlink.db")]
        words += ["--ssl-ca-certfile", str(keys / "ca.crt"), "--ssl-certfile", str(keys / "server.crt")]
        words += ["--ssl-keyfile", str(keys / "server.key"), "--enable-supernode-auth"]
        self._spawn("superlink", *program, *words, "--disable-runtime-dependency-installation")
        until(lambda: self._alive("superlink") and answers(self.port), 300, "the SuperLink to answer")

    def register(self, *names: str) -> None:
        """Let the nodes' keys in, and no other; keep the numbers that they get."""
        wanted = names or tuple(str(at) for at in range(self.nodes))

        def one(name: str) -> str:
            told = self.flwr("supernode", "register", self.keys / f"{name}.pub", NAME, "--format", "json")
            return str(told["node-id"])

        with ThreadPoolExecutor() as pool:
            self.numbers |= dict(zip(wanted, pool.map(one, wanted), strict=True))

    def unregister(self, name: str) -> None:
        """Let a node's key in no more."""
        self.flwr("supernode", "unregister", self.numbers[name], NAME)

    def join(self, name: str, fault: str = "", program: Sequence[str | Path] = (BIN / "flower-supernode",)) -> None:
        """Start the node of this name, which misbehaves if a fault is named."""
        own = f'data="{self.folder / "data" / f"{name}.npz"}" fault="{fault}"'
        words = ["--superlink", f"127.0.0.1:{self.port}", "--root-certificates", str(self.keys / "ca.crt")]
        words += ["--auth-supernode-private-key", str(self.keys / name), "--port", str(free_port())]
        self._spawn(name, *program, *words, "--node-config", own)

    def run(self, **config: Any) -> str:
        """Start the app; its run's number."""
        words = " ".join(f"{key}={json.dumps(value)}" for key, value in config.items())
        told = self.flwr("run", str(HERE), NAME, "--run-config", words, "--format", "json")
        if not told.get("success"):
            raise RuntimeError(f"flwr run failed: {told}")
        return str(told["run-id"])

    def status(self, run: str) -> str:
        """Such as running or finished:completed; not known, if the SuperLink does not say."""
        runs = self.flwr("list", NAME, "--run-id", run, "--format", "json").get("runs")
        return str(runs[0]["status"]) if runs else "not known"

    def said(self, run: str) -> str:
        """The log of the app."""
        return str(self.flwr("log", run, NAME, "--show"))

    def flwr(self, *words: str | Path) -> Any:
        """A command of Flower's; the JSON that it prints, if it does."""
        done = subprocess.run([BIN / "flwr", *words], env=self.env, capture_output=True, text=True, timeout=600)
        if done.returncode:
            raise RuntimeError(f"flwr {' '.join(map(str, words))} failed: {done.stdout[-600:]} {done.stderr[-600:]}")
        return json.loads(done.stdout) if "json" in words else done.stdout

    def log(self, name: str) -> str:
        """What a process has said."""
        return (self.folder / "logs" / f"{name}.log").read_text(errors="replace")

    def _alive(self, name: str) -> bool:
        """True; an error with its last words if a process has ended by itself."""
        if self.processes[name].poll() is not None:
            raise RuntimeError(f"{name} ended by itself: {self.log(name)[-600:]}")
        return True

    def _spawn(self, name: str, *words: str | Path) -> None:
        with (self.folder / "logs" / f"{name}.log").open("ab") as log:
            env = self.env | {MARK: f"{self.folder}/{name}"}  # whatever it starts has this mark too
            self.processes[name] = subprocess.Popen(list(map(str, words)), env=env, stdout=log, stderr=log)

    def stop(self, name: str, how: int = signal.SIGTERM) -> None:
        """End a process, and everything that it started."""
        process = self.processes.pop(name)
        process.send_signal(how)
        with suppress(subprocess.TimeoutExpired):
            process.wait(60)
        for left in [process.pid, *marked(f"{self.folder}/{name}")]:
            with suppress(ProcessLookupError):
                os.kill(left, signal.SIGKILL)
        process.wait()

    def signal(self, name: str, how: int) -> None:
        """Send a signal to a process, and to everything that it started."""
        for one in [self.processes[name].pid, *marked(f"{self.folder}/{name}")]:
            with suppress(ProcessLookupError):
                os.kill(one, how)

    def close(self) -> None:
        """End everything, the nodes first."""
        for name in reversed(list(self.processes)):
            self.stop(name)

    def __enter__(self) -> Federation:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def answers(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


def marked(mark: str) -> Iterator[int]:
    """Processes that carry the mark in their environment, where the system tells it."""
    for place in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if f"{MARK}={mark}".encode() in place.read_bytes().split(b"\0"):
                yield int(place.parent.name)


def until(happens: Callable[[], bool], seconds: float, what: str) -> None:
    """Wait for something, and not for ever."""
    end = time.monotonic() + seconds
    while not happens():
        if time.monotonic() > end:
            raise TimeoutError(f"waited {seconds:.0f} s for {what}")
        time.sleep(0.5)
