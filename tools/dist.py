"""Whether the wheel and the sdist in a folder hold what they should, and nothing that is private.

example:  python tools/dist.py dist
"""

from __future__ import annotations

import re
import sys
import tarfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NEEDED_IN_SDIST = (
    "pyproject.toml",
    "README.md",
    "LICENSE",
    "CHANGELOG.md",
    "tests/children.py",
    "src/holdfast/py.typed",
)
PRIVATE_NAME = re.compile(
    r"(^|/)(\.env|\.venv|\.git|\.pypirc|\.netrc|__pycache__|\.[a-z]+_cache|runs|demo|paper-runs|site)(/|$)"
    r"|\.(pem|key|pyc|part|log|db)$|(^|/)id_[a-z0-9]+$"
)
PRIVATE_TEXT = re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----|(?<![\w.])/(home|root|Users)/\w")
MAX_BYTES = {".whl": 2 << 20, ".gz": 20 << 20}


def package_files() -> set[str]:
    """What the wheel must hold: every file of the package, named as in the wheel."""
    source = ROOT / "src"
    files = (path for path in (source / "holdfast").rglob("*") if path.is_file())
    return {path.relative_to(source).as_posix() for path in files if "__pycache__" not in path.parts}


def complaints(file: Path) -> list[str]:
    """What is wrong with a built file, a sentence each."""
    if file.suffix == ".whl":
        with zipfile.ZipFile(file) as wheel:
            held = {name: wheel.read(name) for name in wheel.namelist()}
        needed = package_files()
        strange = [name for name in held if name not in needed and ".dist-info/" not in name]
        licence = any(name.endswith("licenses/LICENSE") for name in held)
    else:
        with tarfile.open(file) as sdist:
            members = [one for one in sdist.getmembers() if one.isfile()]
            held = {one.name.split("/", 1)[1]: _read(sdist, one) for one in members}
        needed = {*NEEDED_IN_SDIST, *(f"src/{name}" for name in package_files())}
        strange, licence = [], True
    found = [f"{name} is missing" for name in sorted(needed - held.keys())]
    found += [f"{name} does not belong there" for name in strange]
    found += [] if licence else ["the licence is missing"]
    for name, text in held.items():
        if PRIVATE_NAME.search(name):
            found.append(f"{name} looks private by its name")
        if PRIVATE_TEXT.search(text) and not name.startswith(("tests/", "tools/")):
            found.append(f"{name} holds a private key or somebody's folder")
    if file.stat().st_size > MAX_BYTES[file.suffix]:
        found.append(f"it has {file.stat().st_size} bytes, more than {MAX_BYTES[file.suffix]}")
    return [f"{file.name}: {one}" for one in found]


def _read(sdist: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    held = sdist.extractfile(member)
    return held.read() if held else b""


def main(folder: Path) -> int:
    """Complain on stderr; 1 if there is something to complain about."""
    wheels, sdists = sorted(folder.glob("*.whl")), sorted(folder.glob("*.tar.gz"))
    found = [one for file in (*wheels, *sdists) for one in complaints(file)]
    if (len(wheels), len(sdists)) != (1, 1):
        found.append(f"{folder} holds {len(wheels)} wheels and {len(sdists)} sdists; build one of each")
    print("\n".join(found) or "wheel and sdist are complete", file=sys.stderr if found else sys.stdout)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
