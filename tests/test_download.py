"""Downloads, against a real server on loopback that breaks off, stalls, lies and refuses."""

from __future__ import annotations

import gzip
import hashlib
import io
import pickle
import socket
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from holdfast.data import load
from holdfast.data.download import REMOTES, Remote, download, fetch, md5, unpack
from holdfast.errors import BadInput
from tests.children import PATIENCE

CONTENT = bytes(np.random.default_rng(0).integers(0, 256, 900_001, np.uint8))


class Server(ThreadingHTTPServer):
    """Serves `files`; `ranges`, `stop_after` and `stall_after` say how badly."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {}
        self.ranges = True
        self.lying_ranges = False
        self.length = True
        self.stop_after: int | None = None
        self.stall_after: int | None = None
        self.asked: list[tuple[str, str | None]] = []
        self.ended = threading.Event()

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self.server_port}/{name}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def log_message(self, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        server, asked = self.server, self.headers.get("Range")
        server.asked.append((self.path, asked))
        content = server.files.get(self.path[1:])
        if content is None:
            self.send_error(404)
            return
        start = int(asked.removeprefix("bytes=").removesuffix("-")) if asked and server.ranges else 0
        if start >= len(content):
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        if start:
            told = start + 5 if server.lying_ranges else start
            self.send_header("Content-Range", f"bytes {told}-{len(content) - 1}/{len(content)}")
        body = content[start:]
        if server.length:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if server.stop_after is not None:
            body = body[: server.stop_after]
        if server.stall_after is not None:
            self.wfile.write(body[: server.stall_after])
            self.wfile.flush()
            server.ended.wait(PATIENCE)
            return
        self.wfile.write(body)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.delenv("HOLDFAST_DATA", raising=False)
    one = Server()
    thread = threading.Thread(target=one.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    yield one
    one.ended.set()
    one.shutdown()
    one.server_close()
    thread.join()


def remote(server: Server, content: bytes = CONTENT, name: str = "file.bin", members: tuple[str, ...] = ()) -> Remote:
    server.files[name] = content
    return Remote(server.url(name), hashlib.md5(content).hexdigest(), members)


def refused(one: Remote, folder: Path, timeout: float = PATIENCE) -> str:
    with pytest.raises(BadInput) as caught:
        fetch(one, folder, timeout=timeout)
    assert one.url in str(caught.value)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_file_arrives_and_progress_is_told(server: Server, tmp_path: Path) -> None:
    steps: list[tuple[int, int | None]] = []
    path = fetch(remote(server), tmp_path, lambda done, total: steps.append((done, total)))
    assert path.read_bytes() == CONTENT
    assert steps[-1] == (len(CONTENT), len(CONTENT))
    assert [done for done, _ in steps] == sorted(done for done, _ in steps)
    assert [p.name for p in tmp_path.iterdir()] == ["file.bin"]


def test_a_server_that_does_not_tell_the_length(server: Server, tmp_path: Path) -> None:
    server.length = False
    steps: list[int | None] = []
    assert fetch(remote(server), tmp_path, lambda _, total: steps.append(total)).read_bytes() == CONTENT
    assert set(steps) == {None}


def test_a_transfer_that_broke_off_is_resumed(server: Server, tmp_path: Path) -> None:
    one = remote(server)
    server.stop_after = 300_000
    assert "broke off after 300000 of 900001 bytes" in refused(one, tmp_path)
    assert (tmp_path / "file.bin.part").stat().st_size == 300_000
    assert not (tmp_path / "file.bin").exists()
    assert "broke off after 600000 of 900001 bytes" in refused(one, tmp_path)
    server.stop_after = None
    steps: list[tuple[int, int | None]] = []
    assert fetch(one, tmp_path, lambda *step: steps.append(step)).read_bytes() == CONTENT
    assert [asked for _, asked in server.asked] == [None, "bytes=300000-", "bytes=600000-"]
    assert steps[0][0] > 600_000
    assert steps[-1] == (900_001, 900_001)


def test_a_server_without_ranges_starts_again(server: Server, tmp_path: Path) -> None:
    one = remote(server)
    (tmp_path / "file.bin.part").write_bytes(CONTENT[:1000])
    server.ranges = False
    assert fetch(one, tmp_path).read_bytes() == CONTENT


def test_a_server_that_sends_another_part_is_not_believed(server: Server, tmp_path: Path) -> None:
    one = remote(server)
    (tmp_path / "file.bin.part").write_bytes(CONTENT[:1000])
    server.lying_ranges = True
    assert "another part" in refused(one, tmp_path)
    assert (tmp_path / "file.bin.part").read_bytes() == CONTENT[:1000]


def test_a_part_that_is_complete_or_too_long(server: Server, tmp_path: Path) -> None:
    one = remote(server)
    (tmp_path / "file.bin.part").write_bytes(CONTENT)
    assert fetch(one, tmp_path).read_bytes() == CONTENT
    assert server.asked == []
    (tmp_path / "file.bin.part").write_bytes(CONTENT + b"more")
    assert fetch(one, tmp_path).read_bytes() == CONTENT
    assert [asked for _, asked in server.asked] == ["bytes=900005-", None]


@pytest.mark.parametrize("before", [b"", b"another beginning"])
def test_a_wrong_checksum_removes_the_file(server: Server, tmp_path: Path, before: bytes) -> None:
    one = remote(server)
    if before:
        (tmp_path / "file.bin.part").write_bytes(before)
    else:
        server.files["file.bin"] = CONTENT[:-1] + b"?"
    assert f"instead of {one.md5} and was removed" in refused(one, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_refusals(server: Server, tmp_path: Path) -> None:
    text = refused(Remote(server.url("nothing"), "0" * 32), tmp_path)
    assert "answered 404" in text
    assert f"put nothing into {tmp_path}" in text
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        closed = f"http://127.0.0.1:{free.getsockname()[1]}/file"
        assert "refused" in refused(Remote(closed, "0" * 32), tmp_path)


@pytest.mark.parametrize("after", [0, 5000])
def test_a_server_that_stalls(server: Server, tmp_path: Path, after: int) -> None:
    one = remote(server)
    server.stall_after = after
    assert "no answer for 3 s" in refused(one, tmp_path, timeout=3.0)  # what is sent before comes much sooner
    assert (tmp_path / "file.bin.part").stat().st_size == after


def test_a_server_that_never_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/file"
        assert "no answer for 0.3 s" in refused(Remote(url, "0" * 32), tmp_path, timeout=0.3)


def test_a_server_that_speaks_something_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")
    with socket.create_server(("127.0.0.1", 0)) as odd:

        def talk() -> None:
            other, _ = odd.accept()
            with other:
                other.recv(1000)
                other.sendall(b"220 this is mail\r\n")

        thread = threading.Thread(target=talk)
        thread.start()
        refused(Remote(f"http://127.0.0.1:{odd.getsockname()[1]}/file", "0" * 32), tmp_path)
        thread.join()


def idx(array: np.ndarray) -> bytes:
    head = bytes([0, 0, 8, array.ndim]) + b"".join(n.to_bytes(4) for n in array.shape)
    return gzip.compress(head + array.astype(np.uint8).tobytes())


def four(prefix: str, test: str) -> dict[str, bytes]:
    return {
        f"{prefix}{side}-{what}-ubyte.gz": idx(array)
        for side in ("train", test)
        for what, array in (("images-idx3", np.ones((3, 2, 2))), ("labels-idx1", np.arange(3)))
    }


def test_mnist_from_the_server_to_load(server: Server, tmp_path: Path) -> None:
    table = {"mnist": tuple(remote(server, content, name) for name, content in four("", "t10k").items())}
    assert download("mnist", tmp_path, remotes=table) == tmp_path / "mnist"
    assert len(load("mnist", tmp_path)) == 6
    assert len(server.asked) == 4
    download("mnist", tmp_path, remotes=table)
    assert len(server.asked) == 4
    (tmp_path / "mnist" / "t10k-labels-idx1-ubyte.gz").write_bytes(b"damaged")
    download("mnist", tmp_path, remotes=table)
    assert len(server.asked) == 5
    assert len(load("mnist", tmp_path)) == 6


def test_emnist_from_a_zip(server: Server, tmp_path: Path) -> None:
    files = four("emnist-byclass-", "test")
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, content in files.items():
            archive.writestr(f"gzip/{name}", content)
        archive.writestr("../../outside", b"x")
        archive.writestr("gzip/emnist-letters-mapping.txt", b"x")
    table = {"emnist": (remote(server, packed.getvalue(), "gzip.zip", REMOTES["emnist"][0].members),)}
    download("emnist", tmp_path / "d", remotes=table)
    assert {p.name for p in (tmp_path / "d" / "emnist").iterdir()} == set(files)
    assert [p.name for p in tmp_path.iterdir()] == ["d"]
    assert len(load("emnist", tmp_path / "d")) == 6
    download("emnist", tmp_path / "d", remotes=table)
    assert len(server.asked) == 1


def tar_of(files: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
        folder = tarfile.TarInfo("cifar-10-batches-py")
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
        link = tarfile.TarInfo("cifar-10-batches-py/link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc"
        archive.addfile(link)
    return packed.getvalue()


def test_cifar_from_a_tar(server: Server, tmp_path: Path) -> None:
    members = REMOTES["cifar10"][0].members
    batch = pickle.dumps({b"data": np.zeros((2, 3072), np.uint8), b"labels": [3, 4]}, 2)
    content = tar_of({**dict.fromkeys(members, batch), "../outside": b"x"})
    table = {"cifar10": (remote(server, content, "cifar-10-python.tar.gz", members),)}
    download("cifar10", tmp_path / "d", remotes=table)
    assert {p.name for p in (tmp_path / "d" / "cifar10").iterdir()} == {member.split("/")[1] for member in members}
    assert len(load("cifar10", tmp_path / "d")) == 12
    assert [p.name for p in tmp_path.iterdir()] == ["d"]


@pytest.mark.parametrize("member", ["absent", "cifar-10-batches-py", "cifar-10-batches-py/link"])
def test_an_archive_without_its_members_is_refused(tmp_path: Path, member: str) -> None:
    (tmp_path / "a.tar.gz").write_bytes(tar_of({"x": b"x"}))
    with pytest.raises(BadInput, match=r"a\.tar\.gz could not be unpacked"):
        unpack(tmp_path / "a.tar.gz", (member,), tmp_path)
    (tmp_path / "a.zip").write_bytes(b"PK\x05\x06" + bytes(18))
    with pytest.raises(BadInput, match=r"a\.zip could not be unpacked"):
        unpack(tmp_path / "a.zip", (member,), tmp_path)
    (tmp_path / "a.bin").write_bytes(b"neither")
    with pytest.raises(BadInput, match=r"a\.bin could not be unpacked"):
        unpack(tmp_path / "a.bin", (member,), tmp_path)


def test_what_cannot_be_downloaded_and_where_nothing_can_be_put(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"digits is not for download; in a checkout of holdfast, pip install"):
        download("digits", tmp_path)
    with pytest.raises(BadInput, match=r"femnist is not for download; run LEAF's preprocess\.sh"):
        download("femnist", tmp_path)
    with pytest.raises(BadInput, match="known are digits"):
        download("imagenet", tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match="cannot be made a folder"):
        download("mnist", tmp_path / "file")


def test_downloads_go_where_they_are_looked_for(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = {"mnist": tuple(remote(server, content, name) for name, content in four("", "t10k").items())}
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert download("mnist", remotes=table) == tmp_path / "cache" / "holdfast" / "mnist"
    monkeypatch.setenv("HOLDFAST_DATA", str(tmp_path / "env"))
    assert download("mnist", remotes=table) == tmp_path / "env" / "mnist"
    assert len(load("mnist")) == 6


def test_the_table_is_well_formed(tmp_path: Path) -> None:
    for remotes in REMOTES.values():
        for one in remotes:
            assert len(bytes.fromhex(one.md5)) == 16
            assert one.url.startswith("http")
            assert "/" not in one.file
    assert len(REMOTES["mnist"]) == len(REMOTES["fashion-mnist"]) == 4
    (tmp_path / "x").write_bytes(b"abc")
    assert md5(tmp_path / "x") == "900150983cd24fb0d6963f7d28e17f72"


def test_the_command_downloads(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from holdfast.cli.data import data

    table = tuple(remote(server, content, name) for name, content in four("", "t10k").items())
    monkeypatch.setitem(REMOTES, "mnist", table)
    data("mnist", folder=tmp_path, workers=1, get=True)
    assert f"mnist is in {tmp_path / 'mnist'}" in capsys.readouterr().out.replace("\n", "")
