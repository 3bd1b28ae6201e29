"""The hook within frameworks: Accelerate's and Lightning's real packages, four ranks, one of them with wrong data."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from holdfast.journal import read_journal
from holdfast.report.nodes import nodes
from tests.children import run

ROOT = Path(__file__).parent.parent
PACKAGES = ("accelerate", "lightning")


def program(package: str) -> Path:
    return ROOT / "examples" / package / f"with_{package}.py"


@pytest.mark.parametrize("package", PACKAGES)
def test_a_rank_with_wrong_data_is_named_within_a_framework(package: str, tmp_path: Path) -> None:
    pytest.importorskip(package)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "4", str(program(package))]
    done = run([*torchrun, "--epochs", "4"], cwd=tmp_path, env={"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr[-3000:]
    accuracy = re.search(r"([\d.]+)% of the test images", done.stdout)
    assert accuracy is not None
    assert float(accuracy.group(1)) > 80
    lines = read_journal(tmp_path / "ranks.jsonl")
    assert [line["round"] for line in lines] == list(range(4 * 23))
    worst, *others = nodes(lines)
    assert worst.name == "3"
    assert worst.letters.count("f") > 50
    assert not any("f" in other.letters for other in others)


@pytest.mark.parametrize("package", PACKAGES)
def test_a_framework_needs_two_lines(package: str) -> None:
    text = program(package).read_text()
    used = [line for line in text.splitlines() if "Robust(" in line or "import Robust" in line]
    assert len(used) == 2
