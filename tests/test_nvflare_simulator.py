"""NVFlare's real simulator: an honest job, and for either kind of round one with five faults."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.children import started, wait_until

pytest.importorskip("nvflare")

JOB = Path(__file__).parent.parent / "examples" / "nvflare" / "job.py"


LOST = "Communication error with client"  # the simulator lost a client: its port was taken, or it was too slow
TRIES = 4


def simulate(folder: Path, *words: str) -> tuple[list[dict[str, Any]], float, dict[str, np.ndarray]]:
    """The journal, the accuracy and the model of the example's job; again if the simulator itself lost a client."""
    said, kept = tried(folder, JOB, *words)
    with np.load(kept / "model.npz") as model:
        return journal(said), float(re.findall(r"^accuracy ([\d.]+)$", said, re.M)[-1]), dict(model)


def tried(folder: Path, job: Path, *words: str) -> tuple[str, Path]:
    """What a job printed, and the folder with its model; a job whose client was lost is ended at once."""
    for attempt in range(TRIES):
        kept, printed = folder / f"kept-{attempt}", folder / f"printed-{attempt}.txt"
        call = [sys.executable, str(job), "--workspace", str(folder / f"workspace-{attempt}"), "--folder", str(kept)]
        with (
            printed.open("w") as out,
            started([*call, *words], cwd=folder, stdout=out, stderr=out, new_session=True) as process,
        ):
            wait_until(lambda: process.poll() is not None or LOST in read(printed), "the end of the job")  # noqa: B023
            lost, code = LOST in read(printed), process.poll()
            if lost:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
        if not lost:
            break
    assert code == 0, read(printed)[-4000:]
    return read(printed), kept


def read(path: Path) -> str:
    return path.read_text(errors="replace")


def journal(said: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in said.splitlines() if line.startswith('{"round"')]


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


CODES = ["TASK_UNKNOWN", "RUN_MISMATCH", "UNSAFE_JOB"]

SAYS = """from nvflare.apis.executor import Executor
from nvflare.apis.shareable import make_reply

class Says(Executor):
    def __init__(self, codes):
        super().__init__()
        self.codes = codes

    def execute(self, task_name, shareable, fl_ctx, abort_signal):
        return make_reply(self.codes[shareable.get_header("current_round", 0)])
"""

SITE = """import nvflare.client as flare

flare.init()
while flare.is_running():
    if (received := flare.receive()) is None:
        break
    flare.send(flare.FLModel(params={name: values + 1 for name, values in received.params.items()}))
"""

SERVER = f"""import sys
from contextlib import suppress
from pathlib import Path
import numpy as np
from says import Says
from holdfast import MeanwO
from holdfast.engines.nvflare import RobustController, make_job

workspace, folder = sys.argv[2], sys.argv[4]
controller = RobustController(MeanwO(f=1), model={{"w": np.zeros(3)}}, num_rounds=3, min_sites=4, folder=folder)
job = make_job(controller, "site.py", sites=["site-1", "site-2", "site-3"])
job.to(Says({CODES}), "site-4", tasks=["*"])
job.simulator_run(workspace)
print(Path(folder, "rounds.jsonl").read_text())
"""


def test_a_return_code_of_one_site_ended_the_job(tmp_path: Path) -> None:
    for name, text in {"says.py": SAYS, "site.py": SITE, "job.py": SERVER}.items():
        (tmp_path / name).write_text(text)
    lines = journal(tried(tmp_path, tmp_path / "job.py")[0])
    assert [line["refused"] for line in lines] == [{"site-4": f"failed: {code}"} for code in CODES]
    assert not any("skipped" in line for line in lines)
