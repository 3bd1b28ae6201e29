"""NVFlare's real simulator: an honest job, and for either kind of round one with five faults."""

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
    lines, accuracy, _ = simulate(tmp_path, "--rule", "Mean2P(f=1)", "--rounds", "2", "--grace", "30", "--lies")
    assert [line["round"] for line in lines] == [1, 2]
    assert all(line["votes"] == 4 and not line["refused"] and not line["silent"] for line in lines)
    assert accuracy > 0.8


REFUSED = {
    "shape": "of shape (639,), not (64, 10)",
    "keys": "other arrays than it was sent",
    "nan": "not finite",
    "exception": "failed",
}


@pytest.mark.parametrize("rule", ["MeanwO(f=1)", "Mean2P(f=1)"])
def test_no_fault_stops_a_job(rule: str, tmp_path: Path) -> None:
    words = ["--sites", "5", "--rule", rule, "--rounds", "4", "--grace", "1"]  # only the silent one is not waited for
    lies = [f"site-4={','.join(REFUSED)}", "site-5=silent"]
    lines, accuracy, model = simulate(tmp_path, *words, "--lies", *lies)
    assert [line["round"] for line in lines] == [1, 2, 3, 4]
    for line, why in zip(lines, REFUSED.values(), strict=True):
        assert why in line["refused"]["site-4"]
        assert line["silent"] == ["site-5"]
        assert "skipped" not in line
    assert all(np.isfinite(values).all() for values in model.values())
    assert accuracy > 0.8
