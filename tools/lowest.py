"""The lowest versions that pyproject.toml allows, as constraints for pip.

Packages that are kept, and those without a bound here, stay as constraints.txt has them.

example:  python tools/lowest.py --keep torch cli train > lowest.txt
"""

from __future__ import annotations

import argparse
import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BOUND = re.compile(r"(?P<name>[\w.-]+)>=(?P<version>[\w.]+)")


def lowest(extras: list[str]) -> dict[str, str]:
    """The lower bound of each requirement of the package and of these extras, by name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [*project["dependencies"]]
    for extra in extras:
        wanted += project["optional-dependencies"][extra]
    found = (BOUND.match(one) for one in wanted)
    return {one["name"]: one["version"] for one in found if one}


def kept(names: list[str]) -> dict[str, str]:
    """What constraints.txt has of these."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pairs = (line.split("==") for line in lines if "==" in line)
    return {name: version for name, version in pairs if name in names}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("extras", nargs="*")
    parser.add_argument("--keep", nargs=1, action="extend", default=[], help="a package that stays as it is pinned")
    given = parser.parse_args()
    chosen = lowest(given.extras) | kept([*given.keep, "pytest", "hypothesis"])
    print("\n".join(f"{name}=={version}" for name, version in chosen.items()))
