"""Fetching the public data sets, on request only: resumed where it broke off, kept only when the checksum is right."""

from __future__ import annotations

import hashlib
import http.client
import os
import shutil
import tarfile
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO
from urllib.parse import urlsplit

from holdfast.data.sources import advice, home
from holdfast.disk import append_regular, write_whole
from holdfast.errors import BadInput, listing

CHUNK = 1 << 18
Progress = Callable[[int, int | None], None]  # bytes so far, bytes in all (None: the server does not tell)


@dataclass(frozen=True)
class Remote:
    """A public file, its md5 sum, and the members that are wanted where it is an archive."""

    url: str
    md5: str
    members: tuple[str, ...] = ()

    @property
    def file(self) -> str:
        return PurePosixPath(urlsplit(self.url).path).name

    def results(self) -> tuple[str, ...]:
        """Names of the files that are there in the end."""
        return tuple(PurePosixPath(member).name for member in self.members) or (self.file,)


def _idx(base: str, *sums: str) -> tuple[Remote, ...]:
    names = ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
    return tuple(Remote(f"{base}/{name}-ubyte.gz", md5) for name, md5 in zip(names, sums, strict=True))


REMOTES: dict[str, tuple[Remote, ...]] = {
    "mnist": _idx(
        "https://ossci-datasets.s3.amazonaws.com/mnist",
        "f68b3c2dcbeaaa9fbdd348bbdeb94873",
        "d53e105ee54ea40749a09fcbcd1e9432",
        "9fb629c4189551a2d022fa330f9573f3",
        "ec29112dd5afa0611ce80d1b7f02629c",
    ),
    "fashion-mnist": _idx(
        "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion",
        "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
        "25c81989df183df01b3e8a0aad5dffbe",
        "bef4ecab320f06d8554ea6380940ec79",
        "bb300cfdad3c16e7a12a480ee83cd310",
    ),
    "emnist": (
        Remote(
            "https://biometrics.nist.gov/cs_links/EMNIST/gzip.zip",
            "58c8d27c78d21e728a6bc7b3cc06412e",
            tuple(
                f"gzip/emnist-byclass-{side}-{what}-ubyte.gz"
                for side in ("train", "test")
                for what in ("images-idx3", "labels-idx1")
            ),
        ),
    ),
    "cifar10": (
        Remote(
            "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
            "c58f30108f718f92721af3b95e74349a",
            tuple(f"cifar-10-batches-py/{name}" for name in (*(f"data_batch_{k}" for k in range(1, 6)), "test_batch")),
        ),
    ),
}


def download(
    name: str,
    folder: str | Path | None = None,
    progress: Progress | None = None,
    *,
    remotes: Mapping[str, tuple[Remote, ...]] = REMOTES,
    timeout: float = 30,
) -> Path:
    """Fetch a data set into `folder`/`name` (else into $HOLDFAST_DATA or the cache folder) and return that folder.

    Files that are there already are left alone. A transfer that breaks off is resumed by calling again.
    """
    if name not in remotes:
        raise BadInput(f"{name} is not for download; {advice(name, folder)}.")
    into = home(name, folder)
    try:
        into.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"{into} cannot be made a folder ({error.strerror}); name another.") from None
    for remote in remotes[name]:
        if not _done(remote, into):
            path = fetch(remote, into, progress, timeout)
            if remote.members:
                unpack(path, remote.members, into)
                path.unlink()
    return into


def _done(remote: Remote, into: Path) -> bool:
    if remote.members:
        return all((into / name).is_file() for name in remote.results())
    path = into / remote.file
    return path.is_file() and md5(path) == remote.md5


def md5(path: Path) -> str:
    """The checksum that the publishers give; it guards against damage, not against forgery."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def fetch(remote: Remote, into: Path, progress: Progress | None = None, timeout: float = 30) -> Path:
    """One file, by way of <file>.part, which is kept when the transfer breaks off and removed when its sum is wrong."""
    path, part = into / remote.file, into / f"{remote.file}.part"
    if not (part.is_file() and md5(part) == remote.md5):
        try:
            _transfer(remote.url, part, progress, timeout)
        except urllib.error.HTTPError as error:
            error.close()
            said = f"{error.code} {_line(error.reason)}"
            raise BadInput(f"{remote.url} answered {said}; {_otherwise(remote, into)}") from None
        except (OSError, http.client.HTTPException) as error:
            why = getattr(error, "reason", None) or error
            why = f"no answer for {timeout:g} s" if isinstance(why, TimeoutError) else _line(why)
            raise BadInput(f"{remote.url} could not be fetched ({why}); {_otherwise(remote, into)}") from None
    if (got := md5(part)) != remote.md5:
        part.unlink()
        raise BadInput(f"{remote.url} has md5 {got} instead of {remote.md5} and was removed; try again later.")
    os.replace(part, path)  # not by write_whole: what came so far stays in .part, so that a transfer can resume
    return path


def _line(said: object) -> str:
    """What a server or the system said, on one line."""
    return " ".join(str(said).split())[:200] or type(said).__name__


def _otherwise(remote: Remote, into: Path) -> str:
    return f"call again, which resumes, or put {listing(remote.results())} into {into}."


def _transfer(url: str, part: Path, progress: Progress | None, timeout: float) -> None:
    have = part.stat().st_size if part.is_file() else 0
    try:
        answer = _ask(url, have, timeout)
    except urllib.error.HTTPError as error:
        if error.code != 416 or not have:
            raise
        error.close()
        have = 0  # the server's file is not longer than what is here, and that was wrong
        answer = _ask(url, 0, timeout)
    with answer:
        if have and not (answer.status == 206 and answer.headers.get("Content-Range", "").startswith(f"bytes {have}-")):
            have = 0
            if answer.status == 206:
                raise ConnectionError("the server sent another part than was asked for")
        length = answer.headers.get("Content-Length", "")
        total = have + int(length) if length.isdecimal() else None
        if not have:
            part.unlink(missing_ok=True)
        with append_regular(part) as out:
            while more := answer.read1(CHUNK):
                out.write(more)
                have += len(more)
                if progress:
                    progress(have, total)
    if total is not None and have < total:
        raise ConnectionError(f"it broke off after {have} of {total} bytes")


def _ask(url: str, start: int, timeout: float) -> http.client.HTTPResponse:
    headers = {"User-Agent": "holdfast", "Accept-Encoding": "identity"}
    if start:
        headers["Range"] = f"bytes={start}-"
    return urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=timeout)


def unpack(archive: Path, members: tuple[str, ...], into: Path) -> None:
    """The named members of a zip or tar file, each under its own last name; no path of the archive is followed."""
    try:
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as packed:
                for member in members:
                    _keep(packed.open(member), into / PurePosixPath(member).name)
        else:
            with tarfile.open(archive) as bundle:
                for member in members:
                    if not bundle.getmember(member).isreg():
                        raise KeyError(f"{member} is a link or a folder, not a file")
                    _keep(bundle.extractfile(member), into / PurePosixPath(member).name)
    except (KeyError, OSError, EOFError, zlib.error, zipfile.BadZipFile, tarfile.TarError) as error:
        why = error.args[0] if error.args else type(error).__name__
        raise BadInput(f"{archive} could not be unpacked ({why}); remove it and call again.") from None


def _keep(stream: IO[bytes] | None, path: Path) -> None:
    if stream is None:
        raise KeyError(f"{path.name} is no file")
    with stream:
        write_whole(path, lambda out: shutil.copyfileobj(stream, out, CHUNK))
