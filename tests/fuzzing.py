"""Drawn damage for the tests that fuzz: of bytes, of JSON, of files; and how many examples were tried."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

LONG = os.environ.get("HYPOTHESIS_PROFILE") == "fuzz"
COUNTS = "HOLDFAST_FUZZ_COUNTS"  # a file that gets a line per example: its kind
SECRET = "the secret of another folder"
ESCAPE = "\x1b]0;owned\x07\x1b[2J"
HANGS = 30  # seconds after which an example is said to hang
ODD: tuple[Any, ...] = (
    *(None, True, -1, 0, 2**63, 10**400, -(10**400), 1e308, -0.0, 5e-324, float("inf"), float("nan")),
    *("", "text", ESCAPE, "\ud800", "é" * 300, "../../secret", [], {}, [[[]]], [None], {"": None}, [10**400]),
)
PIECES = (b"\n", b"\0", b"\xff\xfe", b"{", b'"', b"1e999", b"9" * 5000, b"[" * 20000, ESCAPE.encode(), b"\r\n", b"  ")


def examples(few: int, many: int) -> Callable[[Any], Any]:
    """Few drawn examples in `make test`, many in `make fuzz`."""
    checks = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large]
    return settings(max_examples=many if LONG else few, deadline=None, suppress_health_check=checks)


def tried(kind: str) -> None:
    """Count one example, if somebody counts."""
    if name := os.environ.get(COUNTS):
        with open(name, "a") as file:
            file.write(f"{kind}\n")


@contextmanager
def no_hang() -> Iterator[None]:
    """Raise an error inside what does not end."""

    def late(*_: object) -> None:
        raise AssertionError("it hangs")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(HANGS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@dataclass(frozen=True)
class Damage:
    """One change of some bytes: `how`, where (as a share of the length), and with which bytes or value."""

    how: str
    at: float
    piece: bytes = b""
    value: Any = None

    def __call__(self, content: bytes) -> bytes:
        """The bytes after the change."""
        at = min(int(self.at * len(content)), max(0, len(content) - 1))
        match self.how:
            case "flip":
                bit = int(self.at * 8 * len(content)) % 8
                return content[:at] + bytes([content[at] ^ (1 << bit)]) + content[at + 1 :] if content else content
            case "cut":
                return content[:at]
            case "behead":
                return content[at:]
            case "insert":
                return content[:at] + self.piece + content[at:]
            case "overwrite":
                return content[:at] + self.piece + content[at + len(self.piece) :]
            case "repeat":
                return content[:at] + content[at : at + 40] + content[at:]
            case "value":
                return swapped(content, self.at, self.value)
        return self.piece  # "replace"


def damages(*hows: str) -> st.SearchStrategy[Damage]:
    """Damage of bytes; without names, every kind."""
    hows = hows or ("flip", "cut", "behead", "insert", "overwrite", "repeat", "value", "value", "value", "replace")
    share = st.floats(0, 1, exclude_max=True)
    piece = st.sampled_from(PIECES) | st.binary(max_size=12)
    return st.builds(Damage, st.sampled_from(hows), share, piece, st.sampled_from(ODD))


def swapped(content: bytes, share: float, value: Any) -> bytes:
    """JSON, or one of its lines, with one of its values, or all of it, replaced; other bytes as they are."""
    lines = content.split(b"\n")
    at = int(share * len(lines))
    for start, end in ((0, len(lines)), (at, at + 1)):
        try:
            held = json.loads(b"\n".join(lines[start:end]))
        except (ValueError, RecursionError):
            continue
        places = list(_places(held))
        held = _put(held, places[int(share * 7919 * len(places)) % len(places)], value)
        return b"\n".join([*lines[:start], json.dumps(held).encode(), *lines[end:]])
    return content


def _places(held: Any, here: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield here
    inside = held.items() if isinstance(held, dict) else enumerate(held) if isinstance(held, list) else ()
    for name, one in inside:
        yield from _places(one, (*here, name))


def _put(held: Any, place: tuple[Any, ...], value: Any) -> Any:
    if not place:
        return value
    held[place[0]] = _put(held[place[0]], place[1:], value)
    return held


@dataclass(frozen=True)
class Harm:
    """What happens to one file of a folder: damage, or something else in its place."""

    file: int
    what: str
    damage: Damage

    def __call__(self, folder: Path, secret: Path, names: list[str]) -> None:
        """Carry it out; names are those of the files that may be harmed, there or not."""
        path = folder / names[self.file % len(names)]
        there = path.is_file() and not path.is_symlink()
        content = path.read_bytes() if there else b""
        if self.what == "damage":
            if there:
                path.write_bytes(self.damage(content))
            return
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        path.unlink(missing_ok=True)
        match self.what:
            case "link":
                path.symlink_to(secret)
            case "circle":
                path.symlink_to(path)
            case "folder":
                path.mkdir()
            case "pipe":
                os.mkfifo(path)
            case "new":
                path.write_bytes(self.damage.piece)


def harms() -> st.SearchStrategy[Harm]:
    """Mostly damage."""
    what = st.sampled_from(["damage"] * 6 + ["link", "circle", "folder", "pipe", "gone", "new"])
    return st.builds(Harm, st.integers(0, 99), what, damages())


def contents(folder: Path) -> dict[str, Any]:
    """All that lies in a folder, to compare: bytes of regular files, targets of links, kinds of others."""
    out: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            out[name] = f"link to {os.readlink(path)}"
        else:
            out[name] = path.read_bytes() if path.is_file() else path.lstat().st_mode
    return out
