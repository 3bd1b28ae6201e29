"""NVFlare's real simulator: an honest job, and for either kind of round one in which three faults happen at once."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.children import run

pytest.importorskip("nvflare")

JOB = Path(__file__).parent.parent / "examples" / "nvflare" / "job.py"


LOST = "Communication error with client"  # the simulator lost a client before the job began: its port was taken
TRIES = 4


def simulate(folder: Path, *words: str) -> tuple[list[dict[str, Any]], float, dict[str, np.ndarray]]:
    """The journal, the accuracy and the model of the example's job; again if the simulator itself lost a client."""
    for attempt in range(TRIES):
        kept = folder / f"kept-{attempt}"
        call = [sys.executable, str(JOB), "--workspace", str(folder / f"workspace-{attempt}"), "--folder", str(kept)]
        done = run([*call, *words], cwd=folder)
        if LOST not in done.stdout + done.stderr:
            break
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"round"')]
    with np.load(kept / "model.npz") as model:
        return lines, float(done.stdout.split("accuracy ")[-1]), dict(model)


def test_honest_sites_learn(tmp_path: Path) -> None:
    lines, accuracy, _ = simulate(tmp_path, "--rule", "Mean2P(f=1)", "--rounds", "2", "--grace", "60", "--lies")
    assert [line["round"] for line in lines] == [1, 2]
    assert all(line["votes"] == 4 and not line["refused"] and not line["silent"] for line in lines)
    assert accuracy > 0.8


@pytest.mark.parametrize("rule", ["MeanwO(f=1)", "Mean2P(f=1)"])
def test_nan_an_exception_and_silence_stop_nothing(rule: str, tmp_path: Path) -> None:
    words = [
        "--sites",
        "5",
        "--rule",
        rule,
        "--rounds",
        "2",
        "--grace",
        "1",
    ]  # so only the silent one is not waited for
    lines, accuracy, model = simulate(tmp_path, *words, "--lies", "site-4=nan,exception", "site-5=silent")
    assert [line["round"] for line in lines] == [1, 2]
    assert "not finite" in lines[0]["refused"]["site-4"]
    assert "failed" in lines[1]["refused"]["site-4"]
    assert all(line["silent"] == ["site-5"] for line in lines)
    assert all(np.isfinite(values).all() for values in model.values())
    assert accuracy > 0.8
