"""Files on disk: read regular files without following links; write files whole or not at all."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO

NO_LINK = getattr(os, "O_NOFOLLOW", 0)  # Windows has none of the three
NO_WAIT = getattr(os, "O_NONBLOCK", 0)  # else opening a pipe waits for its other end
BINARY = getattr(os, "O_BINARY", 0)
KINDS = {stat.S_IFLNK: "a link", stat.S_IFIFO: "a pipe", stat.S_IFDIR: "a folder", stat.S_IFSOCK: "a socket"}
MAX_NOTE_BYTES = 1 << 24  # of a file that holds a record, a note or a version


class NotRegular(OSError):
    """Raised for a link, a pipe, a device or a file that is too long, where a regular file was expected."""


def open_regular(path: Path, flags: int = os.O_RDONLY, *, follow: bool = False) -> IO[bytes]:
    """Open a regular file; never wait, and follow no link.

    Parameters
    ----------
    path
        The file. Links among its folders are followed, since the user named them.
    flags
        As for `os.open`: to read, to read and write, or to add to the end.
    follow
        Follow a link in the place of the file itself.

    Raises
    ------
    NotRegular
        If something else than a regular file is there.
    """
    if not follow:
        with suppress(FileNotFoundError):
            _check(path, os.lstat(path).st_mode)
    try:
        handle = os.open(path, flags | NO_WAIT | BINARY | (0 if follow else NO_LINK), 0o666)
    except OSError as error:
        if not path.exists() or stat.S_ISREG(path.stat().st_mode):
            raise
        raise NotRegular(f"{path.name} cannot be opened ({error.strerror}); a regular file is expected") from None
    try:
        _check(path, os.fstat(handle).st_mode)
    except NotRegular:
        os.close(handle)
        raise
    read_and_write = bool(flags & os.O_RDWR)
    return os.fdopen(
        handle, ("a+b" if read_and_write else "ab") if flags & os.O_APPEND else "r+b" if read_and_write else "rb"
    )


def _check(path: Path, mode: int) -> None:
    if not stat.S_ISREG(mode):
        kind = KINDS.get(stat.S_IFMT(mode), "a device")
        raise NotRegular(f"{path.name} is {kind}; only regular files are read and written here")


def read_regular(path: Path, *, limit: int | None = None, follow: bool = False) -> bytes:
    """The bytes of a regular file, at most `limit` of them.

    Raises
    ------
    NotRegular
        If it is none, or longer.
    """
    with open_regular(path, follow=follow) as file:
        content = file.read(-1 if limit is None else limit + 1)
    if limit is not None and len(content) > limit:
        raise NotRegular(f"{path.name} has more than {limit} bytes")
    return content


def read_note(path: Path) -> str:
    """The text of a small regular file; bytes that are no UTF-8 are replaced."""
    return read_regular(path, limit=MAX_NOTE_BYTES).decode(errors="replace")


def append_regular(path: Path) -> IO[bytes]:
    """Open a regular file to add to its end; make it if it is not there."""
    return open_regular(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)


def write_whole(path: Path, content: bytes | Callable[[IO[bytes]], object], *, sync: bool = False) -> None:
    """Write a file whole or not at all, in place of the one before.

    Parameters
    ----------
    path
        The file.
    content
        Its bytes, or a function that writes them to an open file.
    sync
        Wait until the disk has them.

    Notes
    -----
    The content goes to a new file beside it, whose name nobody can guess and which must not exist before. So a link
    that somebody laid there is not written through.
    """
    beside = path.with_name(f".{path.name[:100]}.{secrets.token_hex(8)}.part")
    handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | NO_LINK | BINARY, 0o666)
    try:
        with os.fdopen(handle, "wb") as file:
            if callable(content):
                content(file)
            else:
                file.write(content)
            file.flush()
            if sync:
                os.fsync(file.fileno())
        os.replace(beside, path)
    except BaseException:
        with suppress(OSError):
            beside.unlink()
        raise


def write_text(path: Path, text: str) -> None:
    """Write a text file whole or not at all, in UTF-8; what UTF-8 has no bytes for is written as an escape."""
    write_whole(path, text.encode(errors="backslashreplace"))
