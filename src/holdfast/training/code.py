"""Which code computed a run: its version, noted in the run's folder. It is no part of the record, nor of the key."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

from holdfast import __version__
from holdfast.disk import append_regular, read_note

FILE = "code"
ROOT = Path(__file__).parents[3]  # of a checkout
COMMIT_LETTERS = 12
PATIENCE = 10  # seconds for git to answer


@cache
def code_version() -> str:
    """The version of this holdfast, with the git commit if it lies in a checkout.

    Returns
    -------
    str
        Such as '0.1.0' of an installed package, '0.1.0+g17ff6ba1a2b3' of a checkout, or '0.1.0+g17ff6ba1a2b3.changed'
        if tracked files differ from the commit. It is asked once and stays the same while the process runs.
    """
    if not (ROOT / ".git").exists():
        return __version__
    commit = _git("rev-parse", f"--short={COMMIT_LETTERS}", "HEAD")
    if not commit:
        return __version__
    return f"{__version__}+g{commit}{'.changed' * bool(_git('status', '--porcelain', '--untracked-files=no'))}"


def _git(*arguments: str) -> str:
    """What git answers; empty if it cannot."""
    try:
        call = ["git", "-C", str(ROOT), *arguments]
        return subprocess.run(call, capture_output=True, text=True, timeout=PATIENCE, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""


def note_code(folder: Path) -> None:
    """Add this code's version to a run's folder, unless it is the last one there."""
    if read_code(folder)[-1:] != [code_version()]:
        with append_regular(folder / FILE) as file:
            file.write(f"{code_version()}\n".encode())


def read_code(folder: Path) -> list[str]:
    """The versions that worked on a run, in order; empty if nobody noted them."""
    try:
        return read_note(folder / FILE).split()
    except OSError:
        return []
