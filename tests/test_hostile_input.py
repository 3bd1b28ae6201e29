"""Odd terminals, sweep files, archives, temporary names, file systems and slow visitors."""

from __future__ import annotations

import errno
import io
import os
import socket
import subprocess
import tarfile
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from uvicorn import Config, Server

from holdfast import BadInput
from holdfast.cli.files import load, save
from holdfast.data.download import REMOTES, unpack
from holdfast.experiments.store import Store, key
from holdfast.experiments.sweep import read, runs, sweep
from holdfast.report.page import put
from holdfast.training import train
from holdfast.training.folder import NO_LOCK, Unlockable, in_use
from holdfast.web import serve
from holdfast.web.app import create
from tests.children import PATIENCE, holdfast
from tests.test_experiments import SMALL


@pytest.mark.parametrize("words", [["rules"], ["rules", "MeanwO"], ["bounds", "--n", "15", "--f", "4"], ["--help"]])
def test_a_terminal_that_knows_ascii_alone_ended_with_a_unicode_error(words: list[str]) -> None:
    plain = os.environ | {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    told = subprocess.run(holdfast(*words), env=plain, capture_output=True, timeout=PATIENCE)
    assert b"Traceback" not in told.stderr, told.stderr.decode()[-500:]
    assert b"UnicodeEncodeError" not in told.stderr
    assert told.stdout


@pytest.mark.parametrize("text", ["seeds = " + "9" * 5000, "rules = " + "[" * 20_000 + "]" * 20_000])
def test_a_sweep_file_with_an_endless_number_or_nesting_was_a_traceback(text: str, tmp_path: Path) -> None:
    (tmp_path / "sweep.toml").write_text(text)
    with pytest.raises(BadInput, match="is no TOML"):
        read(tmp_path / "sweep.toml")


def test_a_tar_with_a_loop_of_links_was_a_recursion_error(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "loop.tar", "w") as bundle:
        for name, target in (("a", "b"), ("b", "a")):
            info = tarfile.TarInfo(name)
            info.type, info.linkname = tarfile.SYMTYPE, target
            bundle.addfile(info)
    with pytest.raises(BadInput, match="is a link"):
        unpack(tmp_path / "loop.tar", ("a",), tmp_path / "out")


def test_a_member_of_a_tar_is_not_written_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "a.part").symlink_to(tmp_path / "secret")
    with tarfile.open(tmp_path / "one.tar", "w") as bundle:
        info = tarfile.TarInfo("a")
        info.size = 4
        bundle.addfile(info, io.BytesIO(b"text"))
    unpack(tmp_path / "one.tar", ("a",), tmp_path)
    assert (tmp_path / "secret").read_text() == "secret"
    assert (tmp_path / "a").read_bytes() == b"text"


@pytest.mark.parametrize("ending", [".npy", ".npz", ".safetensors", ".pt"])
def test_out_was_written_through_a_predictable_name(ending: str, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (tmp_path / f".out{ending}.part{ending}").symlink_to(tmp_path / "secret")
    save(tmp_path / f"out{ending}", np.arange(3.0))
    assert (tmp_path / "secret").read_text() == "secret"
    found = load(tmp_path / f"out{ending}")
    (values,) = found.values() if isinstance(found, dict) else (found,)
    assert values.tolist() == [0, 1, 2]


def test_a_page_was_written_through_a_predictable_name(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (tmp_path / ".page.html.part").symlink_to(tmp_path / "secret")
    put("text", tmp_path / "page.html")
    assert (tmp_path / "secret").read_text() == "secret"


def test_a_corrupt_checkpoint_failed_again_at_every_retry(tmp_path: Path) -> None:
    found, store = runs({"rules": ["Average()"], "attacks": ["SignFlip()"], **SMALL}), Store(tmp_path)
    ((name, run),) = found.items()

    def stumble(line: dict[str, Any]) -> None:
        if line["round"] == 1:
            raise RuntimeError("it stumbled")

    with pytest.raises(RuntimeError):
        train(run, store.place(run), on_round=stumble)
    place = store.place(run)
    (place / "checkpoint.npz").write_bytes(b"damaged")
    (place / "failed").write_text("it stumbled")
    news = [one.what for one in sweep(found, store, 1, retry_failed=True) if one.what != "round"]
    assert news == ["began", "done"]
    assert (place / "checkpoint.damaged-1.npz").read_bytes() == b"damaged", "set aside, not deleted"
    assert key(run) == name


def test_data_sets_come_over_https() -> None:
    assert not [one.url for some in REMOTES.values() for one in some if not one.url.startswith("https://")]


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS])
def test_a_file_system_without_locks_was_taken_for_a_busy_one(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("fcntl.flock", none)
    ((_, run),) = runs({"rules": ["Average()"], "attacks": ["SignFlip()"], **SMALL}).items()
    with pytest.raises(Unlockable, match="add --no-lock if no other process"):
        train(run, tmp_path / "run")
    assert not in_use(tmp_path / "run")
    monkeypatch.setenv(NO_LOCK, "1")
    assert len(train(run, tmp_path / "run").lines) == run.rounds


def test_slow_headers_kept_connections_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "PATIENCE", 0.5)
    held = serve.bound(0)
    port = held.getsockname()[1]
    server = Server(Config(create(port, None), log_level="warning", http=serve.Timed, ws="none"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [held]}, daemon=True)
    thread.start()
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as slow:
            slow.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n")
            assert slow.recv(100) == b"", "the server ends the connection"
        monkeypatch.setattr(serve, "PATIENCE", PATIENCE)
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as usual:
            usual.sendall(f"GET /play HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
            assert usual.recv(100).startswith(b"HTTP/1.1 ")
    finally:
        server.should_exit = True
        thread.join(PATIENCE)
